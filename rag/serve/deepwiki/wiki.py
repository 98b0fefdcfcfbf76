"""Plans and pages of a wiki as deepwiki-open's frontend asks for them: from `rag.wiki`, on the one index."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rag.code.graph import Survey
from rag.serve.deepwiki.filters import FileRules
from rag.serve.links import viewer_link
from rag.serve.registry import ServedRepository
from rag.serve.service import Service
from rag.service import Engine, Repository
from rag.types import Answer, Checkout
from rag.wiki.build_state import Prose
from rag.wiki.links import CitationWriter, ForgeLinks
from rag.wiki.markdown import code, link
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.outline import structure_xml
from rag.wiki.page_writer import PageWriter
from rag.wiki.prose import ProseWriter, as_markdown
from rag.wiki.report import WITH_PROSE
from rag.wiki.repository_graph import survey
from rag.wiki.steering import read_steering
from rag.wiki.structure import MAX_PAGES, files_about, structure_of
from rag.wiki.unsupported_claims import doubts, marked

_CONCISE_PAGES = 12
_KEPT_WIKIS = 20
_KEPT_PROSE = 500
_SOURCES_LISTED = 40


class PageLinks:
    """Lines at the forge where they are known there, else in our viewer; other pages as anchors."""

    def __init__(self, entry: ServedRepository, checkout: Checkout, surveyed: Survey, base: str) -> None:
        blobs = {path: file.blob for path, file in surveyed.files.items()}
        self._forge = ForgeLinks(checkout, blobs)
        self._name, self._base = entry.name, base

    def lines(self, path: str, start: int, end: int) -> str:
        """The address of these lines."""
        forge = self._forge.lines(path, start, end)
        return forge or viewer_link(self._base, self._name, path, start, end)

    def page(self, page: WikiPage) -> str:
        """The page's id as an anchor."""
        return f"#{page.id}"


@dataclass(slots=True)
class _Wiki:
    """The plans made of one state of a repository, by how many pages they may have."""

    repository: Repository
    rules: FileRules
    plans: dict[int, WikiStructure] = field(default_factory=dict)
    writers: dict[tuple[str, str, int], ProseWriter] = field(default_factory=dict)
    making: asyncio.Lock = field(default_factory=asyncio.Lock)


class Wikis:
    """Plans and pages. A plan is made once for each state of an index, and serves all its pages."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wikis: OrderedDict[tuple[str, FileRules], _Wiki] = OrderedDict()
        self._prose: OrderedDict[tuple[str, str, str], Prose] = OrderedDict()

    async def plan(
        self, entry: ServedRepository, repository: Repository, rules: FileRules, *, is_concise: bool
    ) -> str:
        """The plan as `<wiki_structure>` XML."""
        most = _CONCISE_PAGES if is_concise else MAX_PAGES
        _, structure = await self._structure(entry, repository, rules, most)
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
        """A page as Markdown: from the code, with a model's prose before that where one is configured.

        Args:
            engine: the caller's, in the language that is asked for.
            entry: what the repository is called here.
            repository: it, open.
            rules: which of its files are meant.
            title: the page's, as the plan has it; another title is a page about the files.
            files: those that the page is asked to be about; those that do not exist are left out.
            base: the server's own address.
        """
        wiki, structure = await self._structure(entry, repository, rules, MAX_PAGES)
        plans = [structure, *(plan for plan in wiki.plans.values() if plan is not structure)]
        named = [(plan, page) for plan in plans for page in plan.pages if page.title == title]
        if named:
            # Two pages may have the same title: the files tell which is meant.
            structure, page = max(named, key=lambda pair: len(set(files) & set(pair[1].file_paths)))
        else:
            async with self._service.limiter.slot():
                page = await to_thread(_asked_page, structure, wiki.repository, title, files)
            structure = replace(structure, pages=(*structure.pages, page))
        prose = None
        if engine.settings.has_model and page.kind in WITH_PROSE:
            prose = await self._written(engine, wiki, structure, page, entry)
        async with self._service.limiter.long_slot():
            links = await to_thread(PageLinks, entry, wiki.repository.checkout, structure.survey, base)
            return await to_thread(_rendered, structure, page, prose, links)

    async def _structure(
        self, entry: ServedRepository, repository: Repository, rules: FileRules, most: int
    ) -> tuple[_Wiki, WikiStructure]:
        key = (entry.name, rules)
        wiki = self._wikis.pop(key, None)
        if wiki is None or wiki.repository.store is not repository.store:
            wiki = _Wiki(repository, rules)
        self._wikis[key] = wiki
        while len(self._wikis) > _KEPT_WIKIS:
            self._wikis.popitem(last=False)
        if most not in wiki.plans:
            async with self._service.limiter.long_slot(), wiki.making:
                if most not in wiki.plans:
                    wiki.plans[most] = await to_thread(_plan, repository, rules, most)
        return wiki, wiki.plans[most]

    async def _written(
        self, engine: Engine, wiki: _Wiki, structure: WikiStructure, page: WikiPage, entry: ServedRepository
    ) -> Prose:
        """The prose of a page; what was written for the same sources is not asked for again."""
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
            while len(self._prose) > _KEPT_PROSE:
                self._prose.popitem(last=False)
        return self._prose[known]


def _plan(repository: Repository, rules: FileRules, most: int) -> WikiStructure:
    surveyed = survey(repository)
    if rules:
        files = {path: file for path, file in surveyed.files.items() if rules.keeps(path)}
        surveyed = Survey(surveyed.name, files, surveyed.checkout)
    return structure_of(
        surveyed, max_pages=most, steering=read_steering(surveyed), searcher=repository.searcher
    )


def _asked_page(
    structure: WikiStructure, repository: Repository, title: str, files: Sequence[str]
) -> WikiPage:
    """A page that no plan of ours has: about the files that it names, else about those a search finds."""
    there = structure.survey.files
    named = tuple(path for path in files if path in there)
    found = named or files_about(structure.survey, title, title, repository.searcher)
    return WikiPage(
        id="asked", title=title, description="", file_paths=tuple(path for path in found if path in there)
    )


def _rendered(structure: WikiStructure, page: WikiPage, prose: Prose | None, links: PageLinks) -> str:
    text, note, more = "", "", frozenset[str]()
    if prose is not None:
        cited = CitationWriter(links)
        text, more = as_markdown(prose, cited), frozenset(cited.paths)
        note = marked(doubts(prose, structure.survey), prose.model)
    rendered = PageWriter(structure, links).render(page, text, note=note)
    files = structure.survey.files
    return _sources(sorted((rendered.sources | more) & files.keys()), links) + rendered.text


def _sources(paths: Sequence[str], links: PageLinks) -> str:
    """The list of files that the frontend shows folded before a page."""
    if not paths:
        return ""
    lines = [f"- {link(code(path), links.lines(path, 1, 1))}" for path in paths[:_SOURCES_LISTED]]
    if len(paths) > _SOURCES_LISTED:
        lines.append(f"- and {len(paths) - _SOURCES_LISTED:,} more")
    listed = "\n".join(lines)
    return f"<details>\n<summary>Relevant source files</summary>\n\n{listed}\n\n</details>\n\n"
