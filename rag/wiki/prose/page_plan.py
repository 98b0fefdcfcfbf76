"""Let a model plan the pages of a wiki; the files and relations in its plan are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from rag.code.project_summary import readmes
from rag.code.survey import Survey
from rag.errors import WikiStructureInvalid
from rag.resources import template_path
from rag.service.ask import converse
from rag.service.dialog import Dialog, HitSelection
from rag.service.history import WholeAnswers
from rag.types import Answer, Usage
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.pages.outline import parse_structure_xml
from rag.wiki.pages.structure import files_about, new_id, sections_of, with_relations

if TYPE_CHECKING:
    from rag.service import Engine, Repository

_PLAN_TOKENS = 4_000
_MAX_FILES_LISTED = 1_500
_MAX_FILES_PER_PAGE = 30


def plan_pages(
    engine: Engine,
    repository: Repository,
    structure: WikiStructure,
    known: Sequence[WikiPage],
    *,
    max_pages: int,
    force: bool,
    spent: Callable[[Usage], None],
) -> WikiStructure:
    """Return the structure with the pages that a model planned; a `known` plan is reused unless `force`.

    Files that do not exist are removed; a page left without any gets the files that a search finds.

    Raises:
        ProviderError, ConfigError: the model failed.
        WikiStructureInvalid: its answer is not a plan.
    """
    if known and not force:
        planned: Sequence[WikiPage] = known
    else:
        planned = parse_structure_xml(_ask_model(engine, repository, structure, max_pages, spent))
    pages = checked_pages(structure.survey, planned, repository, max_pages)
    return replace(structure, pages=tuple(pages), sections=tuple(sections_of(pages)))


def _ask_model(
    engine: Engine,
    repository: Repository,
    structure: WikiStructure,
    max_pages: int,
    spent: Callable[[Usage], None],
) -> str:
    settings = engine.settings
    planner = engine.with_settings(
        template=str(template_path(settings.home, "wiki_structure")),
        answer_tokens=min(max(_PLAN_TOKENS, settings.answer_tokens), settings.context_tokens // 2),
    )
    store, paths = repository.store, set(readmes(structure.survey)[:1])
    first = [c for c in range(len(store)) if store.file_path(int(store.file[c])) in paths][:6]
    documents = [store.hit(chunk, 1.0, {}) for chunk in first]
    selection = HitSelection(lambda _hits, _k: documents, about="overview", is_judged=False)
    dialog = Dialog(planner, [repository], history=WholeAnswers(planner), selection=selection)
    with closing(converse(dialog, _question(structure, max_pages), planner.generator())) as pieces:
        for piece in pieces:
            if isinstance(piece, Answer):
                spent(piece.usage)
                return piece.text
    raise AssertionError("a conversation ends with its answer")


def _question(structure: WikiStructure, max_pages: int) -> str:
    """Return the limit, the notes, the pages that follow the code, and the files by name."""
    code = [page for page in structure.pages if page.kind == "package"]
    files = [file.path for file in structure.survey.of_kind("code", "doc", "config")][:_MAX_FILES_LISTED]
    return "\n".join(
        [
            f"Pages: at most {max_pages}",
            *(f"Note: {' '.join(note.split())}" for note in structure.notes),
            "Packages:",
            *(f"{page.title}: {' '.join(page.description.split())}" for page in code),
            "Files:",
            *files,
        ]
    )


def checked_pages(
    surveyed: Survey, planned: Sequence[WikiPage], repository: Repository, max_pages: int
) -> list[WikiPage]:
    """Return planned pages with new ids, existing files and relations to each other.

    Raises:
        WikiStructureInvalid: no page is left.
    """
    used = {"index"}
    ids = {page.id: new_id(page.title, used) for page in planned[:max_pages]}
    pages = []
    for page in planned[:max_pages]:
        named = (path.strip().removeprefix("./").strip("/") for path in page.file_paths)
        files = tuple(dict.fromkeys(path for path in named if path in surveyed.files))
        question = f"{page.title}. {page.description}"
        pages.append(
            replace(
                page,
                id=ids[page.id],
                file_paths=files[:_MAX_FILES_PER_PAGE]
                or files_about(surveyed, question, question, repository.searcher),
                related_pages=tuple(ids[name] for name in page.related_pages if name in ids),
                kind="asked",
                parent="",
            )
        )
    if not pages:
        raise WikiStructureInvalid("the plan of the pages names none; ask again, or follow the code")
    related = with_relations(surveyed, pages)
    return [
        replace(r, related_pages=p.related_pages or r.related_pages)
        for p, r in zip(pages, related, strict=True)
    ]
