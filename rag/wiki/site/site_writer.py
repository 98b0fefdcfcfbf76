"""Write the files of a wiki's folder that are not pages: settings, lists for programs, scripts, copies."""

from __future__ import annotations

from collections.abc import Set

from rag.errors import WikiUnwritable
from rag.resources import read_regular
from rag.types import Checkout
from rag.wiki.models import WikiStructure, sha256
from rag.wiki.pages.links import copy_name, page_file
from rag.wiki.site import mkdocs
from rag.wiki.site.build_state import WikiState
from rag.wiki.site.llms import LLMS_FILE, LLMS_FULL_FILE, ListedPage, llms_full_txt, llms_txt, with_page_links
from rag.wiki.site.output_files import MAX_BYTES, OutputFiles
from rag.wiki.site.report import WikiOptions


class SiteWriter:
    """Writes these files into one folder and records them in the state.

    A file that was edited by hand is not changed: the new version is written next to it, and `notes` gets a
    sentence on it.
    """

    def __init__(self, files: OutputFiles, state: WikiState, options: WikiOptions, notes: list[str]) -> None:
        self.files, self.options, self.notes = files, options, notes
        self._state = state
        self._before: dict[str, str] = {}

    def write(self, structure: WikiStructure, checkout: Checkout, linked: Set[str]) -> None:
        """Write all of them. `linked` are the files that the pages link to as copies."""
        self._before, self._state.site = self._state.site, {}
        commit = f"{checkout.commit}{' with changes' if checkout.dirty else ''}" if checkout.commit else ""
        draws = self.options.mermaid is not None
        self._write_changed("mkdocs.yml", mkdocs.mkdocs_yml(structure, commit=commit, draws=draws))
        self._write_changed(f"docs/{mkdocs.STYLE_FILE}", mkdocs.STYLE)
        self._write_lists(structure, commit)
        if self.options.mermaid is not None:
            self._write_changed(f"docs/{mkdocs.DRAWING_FILE}", mkdocs.DRAWING_SCRIPT)
            try:
                script = read_regular(self.options.mermaid, max_bytes=MAX_BYTES)
            except OSError as error:
                raise WikiUnwritable(f"cannot read {self.options.mermaid}: {error}") from error
            self.files.write(f"docs/{mkdocs.MERMAID_FILE}", script)
        self._write_copies(structure, linked)

    def _write_lists(self, structure: WikiStructure, commit: str) -> None:
        """Write the lists for programs, with addresses as in the built site."""
        files = {page.id: page_file(structure, page) for page in structure.pages}
        urls = {file: f"{file.removesuffix('.md')}.html" for file in files.values()}
        pages = [
            ListedPage(
                page.title,
                urls[file],
                page.description,
                with_page_links(self.files.read(f"docs/{file}") or "", urls.get),
            )
            for page, file in zip(structure.pages, files.values(), strict=True)
        ]
        by_id = dict(zip(files, pages, strict=True))
        sections = {section.title: [by_id[name] for name in section.pages] for section in structure.sections}
        about = f"Written from commit {commit}." if commit else ""
        title, description = structure.title, structure.description
        self._write_changed(f"docs/{LLMS_FILE}", llms_txt(title, description, sections, about))
        self._write_changed(f"docs/{LLMS_FULL_FILE}", llms_full_txt(title, description, pages))
        self._remove_ours(LLMS_FILE)  # where earlier versions wrote it

    def _write_changed(self, name: str, text: str) -> None:
        """Write one of the files; if it was edited by hand, write ours to another name."""
        new, known = f"{name}.new", self._before.get(name)
        there = _hash(self.files.read(name))
        if there in (None, known, sha256(text)) or self.options.overwrite:
            self._state.site[name] = sha256(text)
            if there != sha256(text):
                self.files.write(name, text)
            self._remove_ours(new)
            return
        if known is not None:
            self._state.site[name] = known
        self.notes.append(
            f"{name} was edited by hand and was not changed; the new version is in {new}. Copy what you "
            "need from it, or use --overwrite to replace the file"
        )
        self._state.site[new] = sha256(text)
        if self.files.read(new) != text:
            self.files.write(new, text)

    def _remove_ours(self, name: str) -> None:
        """Remove an obsolete file, unless it was edited by hand."""
        known = self._before.get(name)
        if known is not None and _hash(self.files.read(name)) == known:
            self.files.remove(name)

    def _write_copies(self, structure: WikiStructure, linked: Set[str]) -> None:
        """Copy the files that the pages link to; remove copies without links."""
        files, copies = structure.survey.files, {}
        for path in sorted(linked & files.keys()):
            name, blob = copy_name(path), files[path].blob
            copies[name] = blob
            target = f"docs/source/{name}"
            if self._state.copies.get(name) != blob or not self.files.exists(target):
                self.files.write(target, mkdocs.copy_html(files[path]))
        for name in self._state.copies.keys() - copies.keys():
            self.files.remove(f"docs/source/{name}")
        self._state.copies = copies


def _hash(text: str | None) -> str | None:
    return None if text is None else sha256(text)
