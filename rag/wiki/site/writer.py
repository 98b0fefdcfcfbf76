"""Write a wiki into a folder: several pages at once, and only those that changed.

    DIR/docs/index.md, *.md     the pages
    DIR/docs/source/…           copies of cited files, where no forge shows them
    DIR/docs/llms.txt           the list of pages for programs, part of the built site
    DIR/docs/llms-full.txt      their text
    DIR/mkdocs.yml              settings and navigation for MkDocs
    DIR/.rag-wiki.json          the inputs of each page

A page is written as soon as it is done, and recorded in the state file: an interrupted run continues where it
stopped, and a run without changes parses nothing. A page whose prose fails is written without it, and
requested once more at the end of the run; the others continue. Files that were edited by hand are not
overwritten. After an error that affects every page (a rejected key, a spent budget) the model is not called
again: existing prose is kept, other pages are written as without a model.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rag.code.survey import Survey
from rag.corpus.skip import WIKI_STATE_FILE
from rag.errors import ConfigError, ProviderError, RagError, WikiUnwritable
from rag.service.tools.survey_of import survey
from rag.wiki.models import Prose, WikiPage, WikiStructure, sha256
from rag.wiki.pages.devin_json import read_steering
from rag.wiki.pages.links import FileLinks, ForgeLinks, page_file
from rag.wiki.pages.page_writer import PageWriter
from rag.wiki.pages.structure import structure_of
from rag.wiki.prose.budget import ModelBudget
from rag.wiki.prose.prose_writer import Cancelled, ProseWriter, concerns_all, is_valid
from rag.wiki.prose.rendered_page import ContentHasher, render_page
from rag.wiki.prose.unsupported_claims import cites, doubts, unknown_names
from rag.wiki.site.build_state import PageState, WikiState, read_state, write_state
from rag.wiki.site.output_files import OutputFiles
from rag.wiki.site.report import OnPage, PageResult, WikiOptions, WikiReport
from rag.wiki.site.site_writer import SiteWriter
from rag.wiki.site.up_to_date import inputs_hash, is_up_to_date, page_options

if TYPE_CHECKING:
    from rag.service import Engine, Repository

_FORMAT = "1"
"""Part of every fingerprint: raised when a change of the format requires all pages to be rewritten."""

_COMMIT = re.compile(r"(?<=/)[0-9a-f]{40,64}(?=/)")
"""The commit in an address: while the cited lines have the same numbers, another commit is not a change."""


class WikiBuilder:
    """Writes the wiki of one repository into one folder.

    Args:
        engine: names the model and stores its conversations.
        repository: open, from `Engine.repository`; one index serves all pages.
        folder: the folder of the wiki: empty, missing, or an existing wiki.
        options: see `WikiOptions`.
        progress: called with each page's result, the number of finished pages, and their total, in the thread
            that called `build`.
        cancel: when set, no page is begun and no further text is read from the model.
    """

    def __init__(
        self,
        engine: Engine,
        repository: Repository,
        folder: Path,
        options: WikiOptions | None = None,
        *,
        progress: OnPage = lambda result, done, total: None,
        cancel: threading.Event | None = None,
    ) -> None:
        self.engine, self.repository = engine, repository
        self.folder = folder.absolute()
        self._files = OutputFiles(self.folder)
        self.options = options or WikiOptions()
        self.progress, self.cancel = progress, cancel or threading.Event()
        self.notes: list[str] = []
        self._budget = ModelBudget(self.options.budget_tokens)
        self._state = WikiState()
        self._given_up: RagError | None = None
        self._second_pass = False
        self._has_prose = False

    @cached_property
    def survey(self) -> Survey:
        """The repository without the wiki itself, if it is inside."""
        whole = survey(self.repository)
        root = self.repository.checkout.root
        if not self.folder.is_relative_to(root) or self.folder == root:
            return whole
        inside = self.folder.relative_to(root).as_posix() + "/"
        if not any(path.startswith(inside) for path in whole.files):
            return whole
        return whole.part(lambda path: not path.startswith(inside))

    @property
    def writes_prose(self) -> bool:
        """Whether a model writes prose."""
        return self.options.prose and self.engine.settings.has_model

    def build(self) -> WikiReport:
        """Write the pages that are new or changed.

        Raises:
            WikiUnwritable: the folder holds something else, or cannot be written.
            WikiSteeringInvalid: the repository's steering file cannot be read.
            ConfigError: the options contradict each other.
        """
        self._check()
        self._state = read_state(self._files) or WikiState()
        whole = inputs_hash(self.engine, self.repository, self.folder, self.options)
        if self._state.made_of == whole and is_up_to_date(self._state, self._files, self.options):
            return self._unchanged()
        self._state.made_of = ""
        structure = self.structure()
        for page in structure.pages:
            self._files.exists(f"docs/{page_file(structure, page)}")  # no model is asked before an error
        self._hasher = ContentHasher(structure)
        self._state.options = page_options(self.repository, self.options)
        cited_at = ForgeLinks(
            self.repository.checkout,
            {path: file.blob for path, file in self.survey.files.items()},
            pinned=True,
        )
        self._links = FileLinks(structure, None if self.options.copies else cited_at.lines)
        self._writer = PageWriter(structure, self._links, by_reference=True)
        results = list(self._all_pages(structure))
        removed = [] if self.cancel.is_set() else self._remove_stale(structure)
        linked = self._links.copied | self._linked_by_waiting()
        SiteWriter(self._files, self._state, self.options, self.notes).write(
            structure, self.repository.checkout, linked
        )
        order = {page.id: number for number, page in enumerate(structure.pages)}
        results.sort(key=lambda result: order[result.page.id])
        report = WikiReport(
            self.folder,
            lambda: structure,
            tuple(results),
            tuple(removed),
            tuple(self.notes),
            self.cancel.is_set(),
            self._given_up,
            self._not_parsed,
        )
        if not (report.failed or report.notes or report.cancelled):
            self._state.made_of, self._state.written = whole, structure.pages
        write_state(self._files, self._state)
        return report

    def _unchanged(self) -> WikiReport:
        """Return the report of a run without changes."""
        results = []
        for number, page in enumerate(self._state.written, start=1):
            known = self._state.pages[page.id]
            result = PageResult(page, known.file, "unchanged", has_prose=known.prose is not None)
            results.append(self._report(result, number, len(self._state.written)))
        structure = cache(self.structure)
        return WikiReport(self.folder, structure, tuple(results), not_parsed=self._not_parsed)

    @property
    def _not_parsed(self) -> tuple[str, ...]:
        return tuple(sorted(self.repository.store.unparsed))

    # ------------------------------------------------------------ before

    def _check(self) -> None:
        at_once = 1 if self.options.concurrency is None else self.options.concurrency
        if at_once < 1 or self.options.max_pages < 1:
            raise ConfigError("a wiki needs at least 1 page, written 1 at a time")
        if self.folder.exists() and not self.folder.is_dir():
            raise WikiUnwritable(f"{self.folder} is not a folder; choose another with -o")
        root = self.repository.checkout.root
        for part in (self.folder, *self.folder.parents):
            if part.is_symlink() and part.parent.resolve().is_relative_to(root):
                raise WikiUnwritable(
                    f"{part} is a symbolic link of the repository, which could lead anywhere; choose another "
                    "folder with -o"
                )
        if not self._files.exists(WIKI_STATE_FILE) and (
            self._files.exists("mkdocs.yml") or not self._files.is_empty("docs")
        ):
            raise WikiUnwritable(
                f"{self.folder} contains documents that rag did not write; choose an empty folder with -o"
            )

    def structure(self) -> WikiStructure:
        """Return the pages that the wiki should have."""
        steering = read_steering(self.survey)
        return structure_of(
            self.survey,
            max_pages=self.options.max_pages,
            steering=steering,
            searcher=self.repository.searcher,
        )

    # ------------------------------------------------------------ pages

    def _all_pages(self, structure: WikiStructure) -> Iterator[PageResult]:
        """Write every page; pages with prose as it arrives."""
        total, done = len(structure.pages), 0
        waiting: dict[Future[Prose], WikiPage] = {}
        prose_writer = None
        if self.writes_prose:
            prose_writer = ProseWriter(self.engine, self.repository, structure)
        failed: list[WikiPage] = []
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="wiki") as pool:
            try:
                for page in structure.pages:
                    known = self._state.pages.get(page.id)
                    prose = known.prose if known is not None else None
                    if prose_writer is not None and page.takes_prose:
                        if self.options.force or not prose_writer.is_current(page, prose):
                            waiting[pool.submit(self._prose, prose_writer, page)] = page
                            continue
                    elif prose is not None and not is_valid(prose, self.survey):
                        prose = None
                    done += 1
                    yield self._report(self._write(page, prose), done, total)
                for future in as_completed(waiting):
                    if _may_succeed_later(future):
                        failed.append(waiting[future])
                        continue
                    done += 1
                    yield self._report(self._finish(waiting[future], future), done, total)
                for page in sorted(failed, key=structure.pages.index):
                    done += 1
                    assert prose_writer is not None
                    future = pool.submit(self._prose, prose_writer, page, once_more=True)
                    yield self._report(self._finish(page, future), done, total)
            except BaseException:
                self.cancel.set()
                pool.shutdown(cancel_futures=True)
                raise

    @property
    def _concurrency(self) -> int:
        chosen = self.options.concurrency or self.engine.settings.model_concurrency
        return chosen or (1 if self.engine.asks_this_machine else 4)

    def _report(self, result: PageResult, done: int, total: int) -> PageResult:
        self.progress(result, done, total)
        return result

    def _prose(self, writer: ProseWriter, page: WikiPage, *, once_more: bool = False) -> Prose:
        """Run in a pool thread. The first page of the second pass tries again after an error that stopped the
        model.
        """
        if self.cancel.is_set():
            raise Cancelled("the run was stopped before this page")
        if once_more and not self._second_pass:
            self._second_pass, self._given_up = True, None
        if self._given_up is not None:
            raise self._given_up
        try:
            self._budget.check()
            prose = writer.write(page, self.cancel.is_set)
        except RagError as error:
            if concerns_all(error) or (once_more and not self._has_prose):
                self._given_up = error
            raise
        self._has_prose = True
        self._budget.spend(prose.usage)
        return prose

    def _finish(self, page: WikiPage, future: Future[Prose]) -> PageResult:
        try:
            prose = future.result()
        except Cancelled:
            known = self._state.pages.get(page.id)
            if known is not None:
                return PageResult(page, known.file, "waiting", has_prose=known.prose is not None)
            return replace(self._write(page, None, error="the run was stopped"), action="waiting")
        except RagError as error:
            if concerns_all(error):
                return self._without_model(page, error)
            return self._write(page, None, error=str(error))
        return replace(self._write(page, prose), usage=prose.usage)

    def _without_model(self, page: WikiPage, error: RagError) -> PageResult:
        """Keep a page that has prose; write another as if there were no model."""
        known = self._state.pages.get(page.id)
        if known is not None and known.prose is not None:
            return PageResult(page, known.file, "waiting", has_prose=True, error=str(error))
        return replace(self._write(page, None), error=str(error))

    def _write(self, page: WikiPage, prose: Prose | None, error: str = "") -> PageResult:
        """Write a page, unless its inputs are unchanged, or it was edited by hand."""
        warnings = doubts(prose, self.survey) if prose is not None else []
        rendered = render_page(self._writer, page, prose, warnings)
        content = self._hasher.hash(page, prose, warnings)
        files = self.survey.files
        sources = {path: files[path].blob for path in sorted(rendered.sources)}
        without_commits = _COMMIT.sub("", rendered.text)
        fingerprint = sha256(f"{_FORMAT}\0{without_commits}")
        file = page_file(self._writer.structure, page)
        name = f"docs/{file}"
        known = self._state.pages.get(page.id)
        result = PageResult(page, file, "written", has_prose=prose is not None, error=error)
        if prose is not None:
            result = replace(
                result,
                invented=prose.invented,
                uncited=not cites(prose),
                doubts=tuple(warnings),
                unknown=unknown_names(prose.text, self.survey),
                cut=prose.cut,
            )
        there = self._files.read(name)
        if known is not None and known.file == file and there is not None:
            edited = sha256(there) != known.sha256
            if edited and not self.options.overwrite:
                self.notes.append(
                    f"{name} was edited by hand and was not changed; remove it, or use --overwrite, "
                    "to rewrite it"
                )
                self._state.pages[page.id] = replace(known, sources=sources, content=content)
                return replace(result, action="kept")
            if known.fingerprint == fingerprint and not edited:
                self._state.pages[page.id] = replace(
                    known, sources=sources, prose=prose, error=error, content=content
                )
                return replace(result, action="unchanged")
        self._files.write(name, rendered.text)
        self._state.pages[page.id] = PageState(
            file, sha256(rendered.text), fingerprint, sources, prose, error, content
        )
        write_state(self._files, self._state)
        return result

    # ------------------------------------------------------------ around the pages

    def _remove_stale(self, structure: WikiStructure) -> list[str]:
        """Remove obsolete pages, unless they were edited by hand."""
        removed = []
        present = {page.id: page_file(structure, page) for page in structure.pages}
        for name, known in list(self._state.pages.items()):
            if present.get(name) == known.file:
                continue
            del self._state.pages[name]
            there = self._files.read(f"docs/{known.file}")
            if known.file in present.values() or there is None:
                continue
            if sha256(there) == known.sha256:
                self._files.remove(f"docs/{known.file}")
                removed.append(known.file)
            else:
                self.notes.append(f"docs/{known.file} is obsolete; it was edited by hand and was not removed")
        return removed

    def _linked_by_waiting(self) -> set[str]:
        """Return the files cited by pages that this run did not reach."""
        if not self.cancel.is_set() and self._given_up is None:
            return set()
        return {path for known in self._state.pages.values() for path in known.sources}


def _may_succeed_later(future: Future[Prose]) -> bool:
    """Return whether a page's prose failed for a reason that may be gone at the end of the run."""
    error = future.exception()
    return isinstance(error, ProviderError) and error.retryable


def write_wiki(
    engine: Engine,
    repository: Repository,
    folder: Path,
    options: WikiOptions | None = None,
    *,
    progress: OnPage = lambda result, done, total: None,
    cancel: threading.Event | None = None,
) -> WikiReport:
    """Write the wiki of a repository, or its changes, into a folder. See `WikiBuilder`."""
    return WikiBuilder(engine, repository, folder, options, progress=progress, cancel=cancel).build()
