"""Plans and pages of a wiki for deepwiki-open's frontend, generated with `rag.wiki` from the index."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rag.markdown import code, link
from rag.serve.deepwiki.filters import FileRules
from rag.serve.links import viewer_link
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service import Engine, Repository
from rag.types import Answer
from rag.wiki import (
    ForgeLinks,
    Prose,
    ProseWriter,
    WikiPage,
    WikiStructure,
    page_with_prose,
    structure_xml,
    wiki_structure,
    with_page,
)

_PAGES, _CONCISE_PAGES = 60, 12
_MAX_WIKIS = 20
_MAX_PROSE = 500
_MAX_SOURCES = 40


class PageLinks:
    """Links to lines at the forge if it has them, else in our viewer; links to pages are anchors."""

    def __init__(
        self, entry: ServedRepository, repository: Repository, structure: WikiStructure, base: str
    ) -> None:
        blobs = {path: file.blob for path, file in structure.survey.files.items()}
        self._forge = ForgeLinks(repository.checkout, blobs)
        self._name, self._base = entry.name, base

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the URL of lines."""
        forge = self._forge.lines(path, start, end)
        return forge or viewer_link(self._base, self._name, path, start, end)

    def page(self, page: WikiPage) -> str:
        """Return the page's id as an anchor."""
        return f"#{page.id}"


@dataclass(slots=True)
class _Wiki:
    """The plans for one state of a repository, by maximum number of pages."""

    repository: Repository
    rules: FileRules
    plans: dict[int, WikiStructure] = field(default_factory=dict)
    writers: dict[tuple[str, str, int], ProseWriter] = field(default_factory=dict)
    building: asyncio.Lock = field(default_factory=asyncio.Lock)


class Wikis:
    """Plans and pages. A plan is generated once for each state of an index, and used for all its pages."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wikis: OrderedDict[tuple[str, FileRules], _Wiki] = OrderedDict()
        self._prose: OrderedDict[tuple[str, str, str], Prose] = OrderedDict()

    async def plan(
        self, entry: ServedRepository, repository: Repository, rules: FileRules, *, is_concise: bool
    ) -> str:
        """Return the plan as `<wiki_structure>` XML."""
        max_pages = _CONCISE_PAGES if is_concise else _PAGES
        _, structure = await self._structure(entry, repository, rules, max_pages)
        return await to_thread(structure_xml, replace(structure, title=entry.name))

    async def page(
        self,
        engine: Engine,
        entry: ServedRepository,
        repository: Repository,
        rules: FileRules,
        title: str,
        files: Sequence[str],
        base: str,
    ) -> str:
        """Return a page as Markdown, generated from the code; with a model, its prose comes first.

        Args:
            engine: the caller's engine, in the requested language.
            entry: the repository's entry.
            repository: the open repository.
            rules: selects the files to use.
            title: the page's title in the plan; for another title the page is about `files`.
            files: the files that the page should be about; missing ones are ignored.
            base: the server's own URL.
        """
        wiki, structure = await self._structure(entry, repository, rules, _PAGES)
        plans = [structure, *(plan for plan in wiki.plans.values() if plan is not structure)]
        named = [(plan, page) for plan in plans for page in plan.pages if page.title == title]
        if named:
            # Two pages may have the same title; use the one with the most matching files.
            structure, page = max(named, key=lambda pair: len(set(files) & set(pair[1].file_paths)))
        else:
            async with self._service.limiter.slot():
                structure, page = await to_thread(with_page, structure, wiki.repository, title, files)
        prose = None
        if engine.settings.has_model and page.takes_prose:
            prose = await self._written(engine, wiki, structure, page, entry)
        async with self._service.limiter.long_slot():
            links = await to_thread(PageLinks, entry, wiki.repository, structure, base)
            return await to_thread(_rendered, structure, page, prose, links)

    async def _structure(
        self, entry: ServedRepository, repository: Repository, rules: FileRules, max_pages: int
    ) -> tuple[_Wiki, WikiStructure]:
        key = (entry.name, rules)
        wiki = self._wikis.pop(key, None)
        if wiki is None or wiki.repository.store is not repository.store:
            wiki = _Wiki(repository, rules)
        self._wikis[key] = wiki
        while len(self._wikis) > _MAX_WIKIS:
            self._wikis.popitem(last=False)
        if max_pages not in wiki.plans:
            async with self._service.limiter.long_slot(), wiki.building:
                if max_pages not in wiki.plans:
                    wiki.plans[max_pages] = await to_thread(_plan, repository, rules, max_pages)
        return wiki, wiki.plans[max_pages]

    async def _written(
        self, engine: Engine, wiki: _Wiki, structure: WikiStructure, page: WikiPage, entry: ServedRepository
    ) -> Prose:
        """Return the prose of a page; prose for the same sources is cached."""
        namespace, language = engine.settings.namespace, engine.settings.language
        key = (namespace, language, id(structure))
        writer = wiki.writers.get(key)
        if writer is None:
            writer = await to_thread(ProseWriter, engine, wiki.repository, structure)
            if any(structure is plan for plan in wiki.plans.values()):
                wiki.writers[key] = writer
        known = (namespace, entry.name, await to_thread(writer.fingerprint, page))
        if known not in self._prose:
            answer: Answer = await self._service.answered(writer.dialog(page), writer.question(page))
            self._prose[known] = writer.taken(page, answer)
            while len(self._prose) > _MAX_PROSE:
                self._prose.popitem(last=False)
        return self._prose[known]


def _plan(repository: Repository, rules: FileRules, max_pages: int) -> WikiStructure:
    return wiki_structure(repository, max_pages=max_pages, keeps=rules.keeps if rules else None)


def _rendered(structure: WikiStructure, page: WikiPage, prose: Prose | None, links: PageLinks) -> str:
    rendered = page_with_prose(structure, page, prose, links)
    return _sources(sorted(rendered.sources & structure.survey.files.keys()), links) + rendered.text


def _sources(paths: Sequence[str], links: PageLinks) -> str:
    """Return the collapsed list of files that the frontend shows before a page."""
    if not paths:
        return ""
    lines = [f"- {link(code(path), links.lines(path, 1, 1))}" for path in paths[:_MAX_SOURCES]]
    if len(paths) > _MAX_SOURCES:
        lines.append(f"- and {len(paths) - _MAX_SOURCES:,} more")
    listed = "\n".join(lines)
    return f"<details>\n<summary>Relevant source files</summary>\n\n{listed}\n\n</details>\n\n"
