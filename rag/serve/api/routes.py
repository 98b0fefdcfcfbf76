"""Native routes for repositories, indexing, search and questions.

Progress and answers are also available as server-sent events. `rag.serve.api.turns` has the conversations.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Path, Query, Request, Response

from rag.errors import ProviderError
from rag.lines import place_parts
from rag.schema import Json, to_json
from rag.serve.access.auth import CallerOf
from rag.serve.api import requests, responses
from rag.serve.api.answers import EVENTS, answer_stream, error_event, failed
from rag.serve.api.pagination import Limit, Offset, page
from rag.serve.api.places import line_range
from rag.serve.api.rendering import Renderer, encodable, json_response, sent
from rag.serve.api.turns import CallerContext
from rag.serve.service import Service
from rag.serve.sse import EventStream, event, until_disconnect
from rag.service import Repository
from rag.service.repositories.read_lines import read_lines
from rag.service.tools.search import SearchOutcome, SearchQuery
from rag.types import Confidence

Named = Annotated[str, Path(description="The repository's name, `NAME@REF`, or an allowed URL.")]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_repositories(service))
    app.include_router(_asking(service))


def _repositories(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["repositories"])
    registry = service.registry

    @router.get("/repositories")
    async def repositories(
        request: Request,
        response: Response,
        caller: CallerOf,
        ready: Annotated[bool | None, Query(description="Only those that can answer, or cannot.")] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[responses.RepositoryState]:
        """List the served repositories, then the refs and URLs that the caller has requested.

        `Link` is the next page, if there is one; `X-Total-Count` is the total.
        """
        seen = [s for s in registry.visible_to(caller) if ready is None or s.can_answer == ready]
        paged = page(request, response, seen, limit=limit, offset=offset)
        return [responses.repository_state(entry, service) for entry in paged]

    @router.post("/repositories/{name:path}/index", status_code=202)
    async def index(
        caller: CallerOf, name: Named, how: requests.IndexRequest | None = None
    ) -> responses.RepositoryState:
        """Start to index a repository, or its changes, unless a job is already running."""
        entry = registry.entry(name, caller=caller)
        registry.index(entry, rebuild=bool(how and how.rebuild), caller=caller)
        return responses.repository_state(entry, service)

    @router.post("/repositories/{name:path}/index/cancel")
    async def cancel(caller: CallerOf, name: Named) -> responses.RepositoryState:
        """Cancel the indexing of a repository, if it is running and no other caller has asked for it.

        The previous index stays.
        """
        entry = registry.entry(name, caller=caller)
        await registry.cancel(entry, caller)
        return responses.repository_state(entry, service)

    @router.get("/repositories/{name:path}/index/events", responses=EVENTS, response_class=Response)
    async def progress(caller: CallerOf, name: Named) -> Response:
        """Send the state of a repository now and at each change until its job ends: events `state`."""
        entry = registry.entry(name, caller=caller)

        async def states() -> AsyncGenerator[bytes, None]:
            async for now in registry.events(entry):
                yield event(responses.repository_state(now, service).model_dump(mode="json"), "state")

        return EventStream(states(), streams=service.streams, error_event=partial(error_event, service))

    @router.get("/repositories/{name:path}/index", include_in_schema=False)
    @router.get("/repositories/{name:path}/index/cancel", include_in_schema=False)
    async def only_posted(name: str) -> None:
        """Refuse GET here, which would match a repository whose name ends in this path."""
        raise HTTPException(405, headers={"Allow": "POST"})

    @router.get("/repositories/{name:path}/source")
    async def source(
        caller: CallerOf,
        name: Named,
        path: Annotated[str, Query(min_length=1, max_length=1000)],
        start_line: Annotated[int, Query(ge=1)] = 1,
        end_line: Annotated[int | None, Query(ge=1)] = None,
    ) -> responses.SourceLines:
        """Return lines of a file as indexed, including both ends. Files outside the index are not opened."""
        repository = await registry.repository(name, caller=caller)
        async with service.limiter.slot():
            return await to_thread(source_lines, repository, path, start_line, end_line)

    @router.get("/repositories/{name:path}")
    async def repository(caller: CallerOf, name: Named) -> responses.RepositoryState:
        """Return one repository."""
        return responses.repository_state(registry.entry(name, caller=caller), service)

    return router


def _asking(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["questions"])

    @router.post("/search")
    async def search(
        request: Request, asked: requests.SearchRequest, caller: CallerOf
    ) -> responses.SearchResult:
        """Search without generating an answer, best first; a conversation gives context for follow-ups.

        With `mode` `exact` or `regex`, `question` is found in the text: the hits are lines, and `matches`
        counts all matches and names the files of later pages. The filters select the files before the hits
        are ranked.
        """
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(
            caller,
            asked.repositories,
            conversation=asked.conversation,
            named=False,
            about=asked.about,
            question=asked.question if asked.mode == "question" else "",
        )
        words = asked.in_code_words
        options = asked.mode, asked.ignore_case, asked.k, asked.only
        query = SearchQuery(asked.question, *options, in_code_words=words, page=asked.page)

        def found() -> tuple[SearchOutcome, Confidence | None]:
            outcome = dialog.find(query)
            return outcome, outcome.confidence

        async with service.limiter.slot():
            result, confidence = await to_thread(found)
        rendered = Renderer(service, caller, str(request.base_url))
        coverage = [sent(service, to_json(one.coverage)) for one in dialog.repositories]
        return _search_result(asked, result, confidence, rendered, coverage, dialog.remarks)

    @router.get("/models")
    async def models(caller: CallerOf) -> responses.ModelNames:
        """Return the models that a question may choose, the usual one first; none if answers are quotes."""
        return responses.ModelNames(models=list(service.models))

    @router.post(
        "/ask",
        response_model=responses.Answer,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def ask(request: Request, asked: requests.AskRequest, caller: CallerOf) -> Response:
        """Answer a question and store it as a turn of the conversation, which is created if needed.

        With `stream`: `asked` ({"turn": …, "conversation": …}) if there is a model, `step` for each step of a
        second look, `sources` ({"sources": […]}, sent again when their numbers change), `piece`
        ({"text": …}), then one `answer` (as without `stream`), `error`, or `turn` (the stored turn) if the
        answer was stopped.
        After `asked`, the answer goes on without this client: see `/api/turns/{turn}/events` and `/stop`.
        If the model fails, `quotes` next to `error` is the answer without a model, which is not stored.
        """
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(
            caller,
            asked.repositories,
            conversation=asked.conversation,
            about=asked.about,
            steps=asked.steps,
            model=asked.model,
            question=asked.question,
        )
        if asked.only:
            await to_thread(dialog.restrict, asked.only)
        ctx = CallerContext(service, caller, str(request.base_url), dialog)
        if asked.stream:
            job = service.jobs.start(caller.namespace, partial(service.answer, dialog, asked.question))
            return answer_stream(ctx, job, start_after_s=service.start_after_s)
        try:
            answer = await until_disconnect(request, service.answered(dialog, asked.question))
            return json_response(ctx.render.answer(answer))
        except ProviderError as error:
            raise failed(service, ctx.render, error) from error

    return router


def _search_result(
    asked: requests.SearchRequest,
    found: SearchOutcome,
    confidence: Confidence | None,
    rendered: Renderer,
    coverage: list[Json],
    remarks: tuple[str, ...],
) -> responses.SearchResult:
    retrieval = found.retrieval
    return responses.SearchResult(
        question=asked.question,
        mode=asked.mode,
        standalone_question=retrieval.sought.standalone if retrieval else "",
        confidence=to_json(confidence) if confidence else None,
        subject=rendered.subject(retrieval.sought.subject if retrieval else None),
        hits=[rendered.hit(hit) for hit in found.hits],
        matches=rendered.matches(found.matches),
        remarks=[*remarks, *found.remarks],
        code_facts=rendered.code_facts(retrieval.code_facts if retrieval else None),
        coverage=coverage,
    )


def source_lines(repository: Repository, path: str, start: int, end: int | None) -> responses.SourceLines:
    """Return lines of a file from the index. `end` is limited to the end of the file, and at least `start`.

    A path such as `app.py#L2-L3` selects its own lines.

    Raises:
        BadRequest: the path ends with no range of lines.
        NotFound: the file is not in the index, or has no such line.
    """
    place = None if path in repository.store.known_files() else place_parts(path)
    if place is not None:
        path = place["path"]
        start, end = line_range(place["start"], place["end"], place=place[0], param="path")
    found = read_lines(repository, path, start, None if end is None else max(start, end))
    last = max(found.start, found.end)
    return responses.SourceLines(
        path=encodable(found.path),
        start_line=found.start,
        end_line=last,
        lines=found.total,
        language=repository.store.file_language(found.path),
        text=found.text,
        commit=found.commit,
        dirty=found.dirty,
    )
