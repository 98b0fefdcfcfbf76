"""A plugin for MkDocs: the pages of the wiki of a repository in an existing site.

    plugins:
      - search
      - rag

The pages are written into the data folder, where `mkdocs serve` does not watch, and only those that changed.
They become files of the site below one path, and one section of its navigation; nothing else of the site is
changed.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config import base
from mkdocs.config import config_options as c
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin, event_priority, get_plugin_logger
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from rag.errors import ConfigError, RagError
from rag.resources import make_private, packaged, replace_file
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import Filters, Source
from rag.wiki import WikiOptions, WikiPage, WikiReport, write_wiki
from rag.wiki.site.llms import LLMS_FILE, LLMS_FULL_FILE, ListedPage, llms_full_txt, llms_txt, with_page_links
from rag.wiki.site.mkdocs import DRAWING_FILE, DRAWING_SCRIPT, MERMAID_FILE, STYLE_FILE

_MERMAID = "serve/page/static/vendor/mermaid.min.js"
_NOT_IN_SITE = {LLMS_FILE, LLMS_FULL_FILE, STYLE_FILE, MERMAID_FILE, DRAWING_FILE}
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_DIAGRAM_LINK = re.compile(r'(?<=href ")[^"\n]+|(?<=: Code @ )\S+')
_SNIPPET = re.compile(r"^([ \t]*)(;*-+8<-+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|/", re.IGNORECASE)

log = get_plugin_logger(__name__)


class _SitePath(c.Type[str]):
    """A path within the site, such as `code` or `reference/code`."""

    def __init__(self, default: str) -> None:
        super().__init__(str, default=default)

    def run_validation(self, value: object) -> str:
        path = super().run_validation(value).strip("/")
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*", path):
            raise base.ValidationError(
                f"{value!r} is no path within the site: use letters, digits, '-' and '_', as in 'code'"
            )
        return path


class _Count(c.Type[int]):
    """A number of at least 1."""

    def __init__(self, default: int) -> None:
        super().__init__(int, default=default)

    def run_validation(self, value: object) -> int:
        count = super().run_validation(value)
        if isinstance(value, bool) or count < 1:
            raise base.ValidationError(f"it is {value!r}, but must be a number of at least 1")
        return count


class WikiPluginConfig(base.Config):  # type: ignore[no-untyped-call]
    """The options of the plugin in `mkdocs.yml`."""

    enabled = c.Type(bool, default=True)
    """Whether the plugin does anything."""
    source = c.Type(str, default=".")
    """The repository: a folder, relative to `mkdocs.yml`, or a git URL."""
    section = c.Type(str, default="Code")
    """The title of the section in the navigation."""
    path = _SitePath(default="code")
    """The path of the pages in the site."""
    include = c.ListOfItems(c.Type(str), default=[])
    """Globs of the only files that are read."""
    exclude = c.ListOfItems(c.Type(str), default=[])
    """Globs of files that are not read."""
    max_pages = _Count(default=60)
    """The maximum number of pages."""
    folder = c.Optional(c.Type(str))
    """Where the pages are written, such as an existing wiki. Default: a folder of the data folder."""
    prose = c.Type(bool, default=False)
    """Whether the model that the settings of rag name writes text."""
    diagrams = c.Type(bool, default=True)
    """Whether pages with diagrams load a script that draws them."""
    llms = c.Type(bool, default=True)
    """Whether the site gets `llms.txt` and `llms-full.txt`, with all pages of its navigation."""


class WikiPlugin(BasePlugin[WikiPluginConfig]):  # type: ignore[no-untyped-call]
    """Adds the wiki of a repository to a site."""

    def __init__(self) -> None:
        self._pages: tuple[tuple[WikiPage, str], ...] = ()
        self._nav: Navigation | None = None
        self._files: Files | None = None
        self._taken: dict[str, str] = {}
        """The files of the site before ours, by the address at which they are built."""

    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        """Write the wiki, and add its files to the site."""
        if not self.config.enabled:
            return files
        started = time.monotonic()
        try:
            report = self._written(config)
        except RagError as error:
            raise PluginError(f"rag: {error}") from error
        _log_report(report, time.monotonic() - started)
        self._files = files
        built = (file for file in files if file.inclusion is not InclusionLevel.EXCLUDED)
        self._taken = {file.dest_uri: file.src_uri for file in built}
        self._pages = tuple((page.page, page.file) for page in report.pages)
        pages = {file for _, file in self._pages}
        docs = report.folder / "docs"
        for path in sorted(docs.rglob("*")):
            name = path.relative_to(docs).as_posix()
            if name in _NOT_IN_SITE or path.is_symlink() or not path.is_file():
                continue  # a link could publish any file of this machine
            if name in pages or not name.endswith(".md"):
                self._add(files, File.generated(config, self._uri(name), abs_src_path=str(path)))
        if self.config.diagrams:
            script = str(packaged(_MERMAID))
            self._add(files, File.generated(config, self._uri(MERMAID_FILE), abs_src_path=script))
            self._add(files, File.generated(config, self._uri(DRAWING_FILE), content=DRAWING_SCRIPT))
        return files

    def _written(self, config: MkDocsConfig) -> WikiReport:
        """Write the pages that changed."""
        options = self.config
        root = Path(config.config_file_path).parent if config.config_file_path else Path.cwd()
        # Nothing is asked over the network unless prose is: not even an embedder that the user set elsewhere.
        settings = load_settings({} if options.prose else {"embedder": "static"})
        named = options.source if ":" in options.source else str(root / options.source)
        exclude = [*options.exclude, *_built_site(locate(named), config)]
        source = locate(named, filters=Filters(tuple(options.include), tuple(exclude)))
        if options.folder is None:
            name = f"{root.absolute()}\0{source.location}\0{options.path}"
            folder = settings.home / "wikis" / hashlib.sha256(name.encode()).hexdigest()[:16]
            make_private(folder)
        else:
            folder = (root / options.folder).absolute()
            _check_outside(folder, config)
        engine = Engine(settings, progress=_Progress(), notice=log.info)
        try:
            wanted = WikiOptions(max_pages=options.max_pages, prose=options.prose)
            return write_wiki(engine, engine.repository(source), folder, wanted)
        finally:
            engine.close()

    def _uri(self, name: str) -> str:
        return f"{self.config.path}/{name}"

    def _add(self, files: Files, file: File) -> None:
        """Add a file of the wiki; the navigation is made in `on_nav`.

        Raises:
            PluginError: the site has a file of this name, or one that is built at the same address.
        """
        there = files.get_file_from_path(file.src_uri)
        known = self._taken.get(file.dest_uri) if there is None else file.src_uri
        if known is not None:
            where = "" if there is not None else f", which is built as {file.dest_uri!r}"
            raise PluginError(
                f"rag: the site has a file {known!r} already{where}; choose another `path` for the wiki than "
                f"{self.config.path!r}"
            )
        file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)

    def on_nav(self, nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
        """Add the section: where the navigation names the first page of the wiki, else at its end."""
        if not self._pages:
            return nav
        first = self._file(files, self._pages[0][1])
        place = _place_of(nav.items, first)
        title = self.config.section
        if place is not None:
            siblings, number = place
            title = siblings[number].title or title
            Page(None, first, config)  # its own title comes from its heading
        items = self._below(files, "")
        section = Section(title, items)
        if place is None:
            nav.items.append(section)
        else:
            siblings[number] = section
        self._nav = joined = Navigation(nav.items, list(_join(nav.items, None)))
        return joined

    def _below(self, files: Files, parent: str) -> list[StructureItem]:
        """Return the pages below a page; one with others below it is the first of its section."""
        items: list[StructureItem] = []
        for page, name in self._pages:
            if page.parent == parent:
                shown = self._file(files, name).page
                assert shown is not None, "MkDocs makes a page of each file before it makes the navigation"
                below = self._below(files, page.id)
                items.append(Section(page.title, [shown, *below]) if below else shown)
        return items

    def _file(self, files: Files, name: str) -> File:
        file = files.get_file_from_path(self._uri(name))
        assert file is not None, f"{name} was added in on_files"
        return file

    @event_priority(100)
    def on_page_markdown(self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Make a page independent of the extensions and the other plugins of the site, before they see it."""
        if not self._is_ours(page.file):
            return markdown
        # Quoted code is no template: mkdocs-macros must not run what a repository has between {{ and }}.
        page.meta["render_macros"] = False
        if "pymdownx.snippets" in config.markdown_extensions:
            # Quoted code must not include files of the machine that builds the site.
            markdown = _SNIPPET.sub(r"\1;\2", markdown)
        return _DIAGRAM.sub(lambda found: self._drawn(found[1], page, files), markdown)

    def _drawn(self, diagram: str, page: Page, files: Files) -> str:
        """Return a diagram with links to built pages.

        It is HTML like that of pymdownx.superfences, or a block for an extension of the site.
        """

        def built(target: str) -> str:
            path, mark, anchor = target.partition("#")
            file = files.get_file_from_path(self._uri(unquote(path)))
            return target if file is None else get_relative_url(file.url, page.url) + mark + anchor

        text = _DIAGRAM_LINK.sub(lambda link: built(link[0]), diagram)
        if not self.config.diagrams:
            return f"```mermaid\n{text}\n```"
        return f'<pre class="mermaid"><code class="language-mermaid">{escape(text)}</code></pre>'

    def on_page_content(self, html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Load the scripts that draw diagrams, on the pages that have some."""
        if not self._is_ours(page.file) or '<pre class="mermaid">' not in html:
            return html
        # Material draws diagrams itself, in the colors of its scheme, with a mermaid that is there already.
        scripts = [MERMAID_FILE] if config.theme.name == "material" else [MERMAID_FILE, DRAWING_FILE]
        loaded = [get_relative_url(self._uri(name), page.url) for name in scripts]
        return "".join(f'<script src="{url}"></script>\n' for url in loaded) + html

    def _is_ours(self, file: File) -> bool:
        return bool(self._pages) and file.src_uri in {self._uri(name) for _, name in self._pages}

    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """Write the lists of pages for programs, unless the site has its own."""
        nav, files = self._nav, self._files
        if not self.config.llms or nav is None or files is None:
            return
        listed = {page.file.src_uri: self._listed(page, files) for page in nav.pages}
        sections: dict[str, list[ListedPage]] = {}
        for item in nav.items:
            title = item.title if item.is_section else "Pages"
            pages = [listed[page.file.src_uri] for page in _pages_of([item])]
            if pages:
                sections.setdefault(title or "Pages", []).extend(pages)
        name, description = config.site_name, config.site_description or ""
        for file, text in (
            (LLMS_FILE, llms_txt(name, description, sections)),
            (LLMS_FULL_FILE, llms_full_txt(name, description, list(listed.values()))),
        ):
            if files.get_file_from_path(file) is None:
                replace_file(Path(config.site_dir) / file, text)

    def _listed(self, page: Page, files: Files) -> ListedPage:
        described = {self._uri(name): known.description for known, name in self._pages}
        is_ours = page.file.src_uri in described
        folder = posixpath.dirname(page.file.src_uri)

        def address(target: str) -> str | None:
            if _ELSEWHERE.match(target):
                return None if is_ours else target
            found = files.get_file_from_path(posixpath.normpath(posixpath.join(folder, unquote(target))))
            if found is None:
                return None if is_ours else target
            return found.url if found.is_documentation_page() or not is_ours else None

        description = str(page.meta.get("description") or described.get(page.file.src_uri, ""))
        title = str(page.title or page.file.name)
        return ListedPage(title, page.file.url, description, with_page_links(page.markdown or "", address))


def _built_site(source: Source, config: MkDocsConfig) -> list[str]:
    """Return the glob of the built site, if it is in the repository: it is not part of the code."""
    site = Path(config.site_dir).resolve()
    if source.is_url or not site.is_relative_to(source.location):
        return []
    return [f"/{site.relative_to(source.location).as_posix()}/"]


def _check_outside(folder: Path, config: MkDocsConfig) -> None:
    """Raise if MkDocs watches or removes this folder."""
    for name, there in (("docs_dir", Path(config.docs_dir)), ("site_dir", Path(config.site_dir))):
        if folder.is_relative_to(there) or there.is_relative_to(folder):
            raise ConfigError(
                f"the option `folder` is {folder}, but {name} is {there}; choose a folder outside of it"
            )


class _Progress:
    """Log that a large repository is being indexed; an index that is up to date is opened at once."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != "scan" and not self._said:
            self._said = True
            log.info("indexing the repository; later builds read only files that changed")


def _log_report(report: WikiReport, seconds: float) -> None:
    counts = f"{report.count('written')} written, {report.count('unchanged')} unchanged"
    log.info("%d pages of the wiki: %s in %.1f s", len(report.pages), counts, seconds)
    for note in report.notes:
        log.info("%s", note)
    for page in report.failed:
        log.warning("the page %r has no text of a model: %s", page.page.title, page.error)


def _place_of(items: list[Any], file: File) -> tuple[list[Any], int] | None:
    """Return the list of the navigation that has the page of this file, and its index there."""
    for number, item in enumerate(items):
        if item.is_page and item.file is file:
            return items, number
        if item.is_section and (found := _place_of(item.children, file)):
            return found
    return None


def _pages_of(items: Sequence[Any]) -> Iterator[Page]:
    for item in items:
        if item.is_page:
            yield item
        elif item.is_section:
            yield from _pages_of(item.children)


def _join(items: Sequence[Any], parent: Section | None) -> Iterator[Page]:
    """Set the parents of all items, and the neighbours of all pages; yield the pages in order."""
    for item in items:
        _set_parents(item, parent)
    pages = list(_pages_of(items))
    for before, page, after in zip([None, *pages], pages, [*pages[1:], None], strict=False):
        page.previous_page, page.next_page = before, after
    yield from pages


def _set_parents(item: Any, parent: Section | None) -> None:
    item.parent = parent
    for child in item.children or () if item.is_section else ():
        _set_parents(child, item)
