"""Routes for people who read code: the overview, diagrams of the calls around a definition, pages of a wiki.

Both are made from the index; no model is asked.
"""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query

from rag.errors import NotFound
from rag.schema import to_json
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.rendering import encodable, sent
from rag.serve.api.routes import Named
from rag.serve.errors import BadRequest
from rag.serve.links import viewer_link, wiki_link
from rag.serve.service import Service
from rag.service.drawings.call_diagram import CallDiagram, CallView, call_diagram
from rag.service.tools.overview import overview_markdown, overview_of
from rag.service.tools.unread import calls_note
from rag.wiki import WikiPage, page_markdown
from rag.wiki.pages.known_structures import Structures

_MAX_PAGE_FILES = 50
View = Annotated[CallView, Query(description="Callers and callees, or the calls that follow.")]
PageId = Annotated[
    str, Query(min_length=1, max_length=300, description="The page's id.", examples=["overview"])
]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_overview(service))
    app.include_router(_calls(service))
    app.include_router(_wiki(service))


def _overview(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["repositories"])

    @router.get("/repositories/{name:path}/overview")
    async def overview(caller: CallerOf, name: Named) -> responses.RepositoryOverview:
        """Return what the repository is, its parts, how to run and test it, and what to ask, with places.

        It is the answer to "What is this project?" without a model, and is made from the index.
        """
        repository = await service.registry.repository(name, caller=caller)
        async with service.limiter.long_slot():
            found = await to_thread(overview_of, repository)
        return responses.RepositoryOverview(
            commit=repository.store.commit,
            text=encodable(overview_markdown(found, with_questions=False)),
            questions=[encodable(question) for question in found.questions],
        )

    return router


def _calls(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["repositories"])

    @router.get("/repositories/{name:path}/calls")
    async def calls(
        caller: CallerOf,
        name: Named,
        symbol: Annotated[
            str,
            Query(max_length=500, description="The definition, such as `Class.method`; or name its lines."),
        ] = "",
        path: Annotated[str, Query(max_length=1000, description="The file of the definition.")] = "",
        start_line: Annotated[int, Query(ge=1, le=2**31, description="A line of it.")] = 1,
        end_line: Annotated[int | None, Query(ge=1, le=2**31)] = None,
        view: View = "callers",
    ) -> responses.CallDiagram:
        """Return a small diagram of the calls around a definition: at most 12 nodes, and what is left out.

        With `symbol`, `path` and `start_line` select one of several definitions of the name.
        """
        if not symbol and not path:
            raise BadRequest("name the definition, or the file and a line of it", param="symbol")
        repository = await service.registry.repository(name, caller=caller)

        def drawn() -> CallDiagram:
            found = call_diagram(repository.store, symbol, view, path=path, start=start_line, end=end_line)
            if view != "callers":
                return found
            subject = next(node for node in found.nodes if not node.depth)
            reach = service.engine.reach
            note = calls_note(repository, subject.name, subject.path, subject.start, reach=reach)
            return replace(found, caption=f"{found.caption} {note}.")

        async with service.limiter.slot():
            found = await to_thread(drawn)
        return sent(service, to_json(found))

    return router


def _wiki(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["repositories"])
    structures = Structures()

    @router.get("/repositories/{name:path}/wiki")
    async def wiki(caller: CallerOf, name: Named) -> responses.Wiki:
        """List the pages of the repository's wiki in reading order, parents before their children.

        They are those of `rag wiki` without a model, for the state of the index.
        """
        repository = await service.registry.repository(name, caller=caller)
        async with service.limiter.long_slot():
            structure = await to_thread(structures.of, repository)
        return responses.Wiki(
            description=encodable(structure.description),
            commit=repository.store.commit,
            pages=[_entry(page) for page in structure.pages],
        )

    @router.get("/repositories/{name:path}/wiki/page")
    async def page(
        caller: CallerOf,
        name: Named,
        page: PageId,
    ) -> responses.WikiText:
        """Return a page as Markdown, whose links lead to the lines and pages on this server."""
        repository = await service.registry.repository(name, caller=caller)
        async with service.limiter.long_slot():
            structure = await to_thread(structures.of, repository)
            try:
                wanted = structure.page(page)
            except KeyError:
                raise NotFound(f"the wiki of {name} has no page {page!r}; `/wiki` lists its pages") from None
            links = _PageLinks(name)
            text = await to_thread(page_markdown, structure, page, links=links, every_link=True)
        return responses.WikiText(**_entry(wanted).model_dump(), text=encodable(text))

    return router


def _entry(page: WikiPage) -> responses.WikiEntry:
    return responses.WikiEntry(
        id=page.id,
        title=encodable(page.title),
        description=encodable(page.description),
        kind=page.kind,
        parent=page.parent,
        paths=[encodable(path) for path in page.file_paths[:_MAX_PAGE_FILES]],
    )


class _PageLinks:
    """Links to the page of this server: its viewer at lines, and its view of wiki pages."""

    def __init__(self, name: str) -> None:
        self._name = name

    def lines(self, path: str, start: int, end: int) -> str:
        """Return the path of lines in the viewer."""
        return viewer_link("", self._name, path, start, end)

    def page(self, page: WikiPage) -> str:
        """Return the path of a page."""
        return wiki_link(self._name, page.id)
