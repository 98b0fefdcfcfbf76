"""Compare a wiki with the code it describes, without writing anything.

A page is outdated if it would say something else now. Where its links lead is not compared, so a wiki can
be committed together with the code, and checked in a clone without history. No model is called: text that a
model wrote is current while the files it cites are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rag.corpus.skip import WIKI_STATE_FILE
from rag.errors import ConfigError, NotFound
from rag.markdown import code, plain, table
from rag.quoting import counted, visible
from rag.wiki.models import WikiPage, sha256
from rag.wiki.pages.links import copy_name, page_file
from rag.wiki.prose.prose_writer import is_valid
from rag.wiki.prose.rendered_page import ContentHasher
from rag.wiki.prose.unsupported_claims import doubts
from rag.wiki.site.build_state import PageState, StructureOptions, WikiState, read_state
from rag.wiki.site.output_files import OutputFiles
from rag.wiki.site.report import WikiOptions
from rag.wiki.site.up_to_date import page_options
from rag.wiki.site.writer import WikiBuilder

if TYPE_CHECKING:
    from rag.code.survey import Survey
    from rag.service import Engine, Repository

PageStatus = Literal["current", "new", "changed", "missing", "removed"]


@dataclass(frozen=True, slots=True)
class PageCheck:
    """The result for one page. `file` is relative to the wiki's folder.

    `status` is "current"; "new" (not written yet), "changed" (it would say something else), "missing" (its
    file was deleted) or "removed" (it is obsolete). `edited` is True if the file was edited by hand.
    """

    id: str
    title: str
    file: str
    status: PageStatus
    edited: bool = False


@dataclass(frozen=True, slots=True)
class WikiCheck:
    """The result of a check: all pages in order, removed ones last. `notes` are sentences for the user."""

    folder: Path
    pages: tuple[PageCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def outdated(self) -> tuple[PageCheck, ...]:
        """Return the pages that a new run would write, remove, or report as edited."""
        return tuple(page for page in self.pages if page.status != "current")

    @property
    def edited(self) -> tuple[PageCheck, ...]:
        """Return the pages that were edited by hand."""
        return tuple(page for page in self.pages if page.edited)


def check_wiki(engine: Engine, repository: Repository, folder: Path) -> WikiCheck:
    """Return which pages of the wiki in a folder are outdated. Nothing is written, and no model is called.

    The pages are planned as they were when the wiki was written.

    Raises:
        NotFound: there is no wiki in the folder.
        ConfigError: the wiki was written from another ref, or with other filters.
        WikiUnwritable: its state file cannot be read.
        WikiSteeringInvalid: the repository's steering file cannot be read.
    """
    output = OutputFiles(folder)
    state = read_state(output)
    if state is None:
        raise NotFound(
            f"{folder} has no {WIKI_STATE_FILE} of this version of rag, so there is no wiki to check; "
            "write it with `rag wiki -o FOLDER`, and commit the folder with this file"
        )
    options = WikiOptions(
        max_pages=state.options.max_pages,
        prose=False,
    )
    _check_same(state, page_options(repository, options))
    builder = WikiBuilder(engine, repository, folder, options)
    structure = builder.structure()
    hasher, survey = ContentHasher(structure), builder.survey
    pages = []
    for page in structure.pages:
        file = page_file(structure, page)
        known = state.pages.get(page.id)
        if known is None or known.file != file:
            pages.append(PageCheck(page.id, page.title, f"docs/{file}", "new"))
            continue
        text = output.read(f"docs/{file}")
        status = "missing" if text is None else _status(hasher, survey, page, state, known)
        pages.append(PageCheck(page.id, page.title, f"docs/{file}", status, _is_edited(text, known)))
    present = {page.file for page in pages}
    for name, known in state.pages.items():
        file = f"docs/{known.file}"
        if file not in present and (text := output.read(file)) is not None:
            pages.append(PageCheck(name, name, file, "removed", _is_edited(text, known)))
    return WikiCheck(folder, tuple(pages), tuple(builder.notes))


def _check_same(state: WikiState, here: StructureOptions) -> None:
    """Raise if the wiki describes other files than those that are checked."""
    for name in ("ref", "include", "exclude"):
        written, wanted = getattr(state.options, name), getattr(here, name)
        if written != wanted:
            raise ConfigError(
                f"the wiki was written with {_option(name, written)}, but is checked with "
                f"{_option(name, wanted)}; use the same options"
            )


def _option(name: str, value: Any) -> str:
    values = [value] if isinstance(value, str) else value or []
    return " ".join(f"--{name} {visible(str(each))}" for each in values) or f"no --{name}"


def _status(
    hasher: ContentHasher, survey: Survey, page: WikiPage, state: WikiState, known: PageState
) -> PageStatus:
    prose = known.prose if known.prose is not None and is_valid(known.prose, survey) else None
    warnings = doubts(prose, survey) if prose is not None else []
    if hasher.hash(page, prose, warnings) != known.content:
        return "changed"
    files = survey.files
    copied = {path: state.copies.get(copy_name(path)) for path in known.sources if path in files}
    outdated = any(blob not in (None, files[path].blob) for path, blob in copied.items())
    return "changed" if outdated else "current"


def _is_edited(text: str | None, known: PageState) -> bool:
    return text is not None and sha256(text) != known.sha256


# ---------------------------------------------------------------- as text


def as_text(check: WikiCheck) -> str:
    """Return a check for a terminal."""
    lines = [f"{visible(str(check.folder))} {_verdict(check)}"]
    lines += [f"  {page.status:8} {visible(page.file)}{_edited(page)}" for page in check.outdated]
    lines += [f"  {'edited':8} {visible(page.file)}" for page in check.edited if page.status == "current"]
    if check.outdated:
        lines.append("run `rag wiki` with the same options to update it")
    return "\n".join(lines)


def as_markdown(check: WikiCheck) -> str:
    """Return a check as Markdown, for a comment on a pull request."""
    lines = [f"## Wiki: {code(check.folder.name)} {_verdict(check)}"]
    rows = [(plain(page.title), code(page.file), page.status + _edited(page)) for page in check.outdated]
    if rows:
        lines += ["", table(("Page", "File", "Status"), rows), ""]
        lines.append("Run `rag wiki` with the same options to update it.")
    if kept := [code(page.file) for page in check.edited if page.status == "current"]:
        lines += ["", f"Edited by hand, and up to date: {', '.join(kept)}."]
    return "\n".join(lines) + "\n"


def _edited(page: PageCheck) -> str:
    return " (edited by hand)" if page.edited else ""


def _verdict(check: WikiCheck) -> str:
    total = counted(len(check.pages), "page")
    if not check.outdated:
        return f"is up to date: {total}"
    return f"is outdated: {len(check.outdated):,} of {total}"
