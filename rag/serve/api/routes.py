"""`/api`: our own routes. Repositories and their indexing, search, questions, evaluation.

Progress and answers also come as server-sent events. Conversations are in `rag.serve.api.turns`.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from statistics import fmean
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Path, Query, Request, Response

from rag.errors import ProviderError, RagError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.runner import judge
from rag.retrieval.search import search_in_turn
from rag.schema import to_json
from rag.serve.access.auth import CallerOf
from rag.serve.api import requests, responses
from rag.serve.api.pagination import Limit, Offset, page
from rag.serve.api.rendering import Renderer, sent, shown
from rag.serve.errors import ModelFailed, shape_of
from rag.serve.service import Service
from rag.serve.sse import EventStream, event, until_gone
from rag.service import Repository
from rag.service.read_lines import read_lines
from rag.types import Answer

Named = Annotated[str, Path(description="The repository's name, `NAME@REF`, or an allowed URL.")]

_EVENTS: dict[int | str, dict[str, object]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Events."}
}


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_repositories(service))
    app.include_router(_asking(service))
    app.include_router(_evaluation(service))


def _repositories(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["repositories"])
    library = service.library

    @router.get("/repositories")
    async def repositories(
        request: Request,
        response: Response,
        caller: CallerOf,
        ready: Annotated[bool | None, Query(description="Only those that can be asked, or cannot.")] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[responses.RepositoryState]:
        """The repositories that are served, then the refs and URLs that the caller has asked for.

        A `Link` header leads to the next page where more follow; `X-Total-Count` says how many there are.
        """
        seen = [s for s in library.seen_by(caller) if ready is None or s.can_answer == ready]
        paged = page(request, response, seen, limit=limit, offset=offset)
        return [responses.repository_state(shelf, service) for shelf in paged]

    @router.post("/repositories/{name:path}/index", status_code=202)
    async def index(
        caller: CallerOf, name: Named, how: requests.IndexRequest | None = None
    ) -> responses.RepositoryState:
        """Begin to index a repository, or what changed of it; a job that is going on is not begun again."""
        shelf = library.shelf(name, caller=caller)
        library.index(shelf, rebuild=bool(how and how.rebuild))
        return responses.repository_state(shelf, service)

    @router.post("/repositories/{name:path}/index/cancel")
    async def cancel(caller: CallerOf, name: Named) -> responses.RepositoryState:
        """End the job that indexes a repository, if there is one. The index before it stays."""
        shelf = library.shelf(name, caller=caller)
        await library.cancel(shelf)
        return responses.repository_state(shelf, service)

    @router.get("/repositories/{name:path}/index/events", responses=_EVENTS, response_class=Response)
    async def progress(caller: CallerOf, name: Named) -> Response:
        """The state of a repository, now and as its job goes on, until that ends: events `state`."""
        shelf = library.shelf(name, caller=caller)

        async def states() -> AsyncGenerator[bytes, None]:
            async for now in library.events(shelf):
                yield event(responses.repository_state(now, service).model_dump(mode="json"), "state")

        last = partial(last_words, service)
        return EventStream(states(), streams=service.streams, last_words=last)

    @router.get("/repositories/{name:path}/index", include_in_schema=False)
    @router.get("/repositories/{name:path}/index/cancel", include_in_schema=False)
    async def only_posted(name: str) -> None:
        """These are no refs of a repository, though a name of a path would be."""
        raise HTTPException(405, headers={"Allow": "POST"})

    @router.get("/repositories/{name:path}/source")
    async def source(
        caller: CallerOf,
        name: Named,
        path: Annotated[str, Query(min_length=1, max_length=1000)],
        start_line: Annotated[int, Query(ge=1)] = 1,
        end_line: Annotated[int | None, Query(ge=1)] = None,
        start: Annotated[int | None, Query(ge=1, deprecated=True)] = None,
        end: Annotated[int | None, Query(ge=1, deprecated=True)] = None,
    ) -> responses.SourceLines:
        """Lines of a file as they are in the index: both ends belong; nothing outside it is opened."""
        first, last = start or start_line, end or end_line
        repository = await library.repository(name, caller=caller)
        async with service.limiter.seat():
            return await to_thread(source_lines, repository, path, first, last)

    @router.get("/repositories/{name:path}")
    async def repository(caller: CallerOf, name: Named) -> responses.RepositoryState:
        """One repository."""
        return responses.repository_state(library.shelf(name, caller=caller), service)

    return router


def _asking(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["questions"])

    @router.post("/search")
    async def search(
        request: Request, asked: requests.SearchRequest, caller: CallerOf
    ) -> responses.SearchResult:
        """Retrieval alone, best first; in the light of a conversation when one is named."""
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(
            caller, asked.repositories, conversation=asked.conversation, named=False
        )
        async with service.limiter.seat():
            result = await to_thread(dialog.search, asked.question, k=asked.k)
        rendered = Renderer(service, caller, str(request.base_url))
        return responses.SearchResult(
            question=asked.question,
            standalone_question=result.sought.standalone,
            hits=[rendered.hit(hit) for hit in result.hits],
            coverage=[sent(service, to_json(one.coverage), "api") for one in dialog.repositories],
        )

    @router.post(
        "/ask",
        response_model=responses.Answer,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def ask(
        request: Request, asked: requests.AskRequest, caller: CallerOf
    ) -> responses.Answer | Response:
        """Ask a question. The answer is stored as a turn of the conversation, which it begins if need be.

        With `stream`: events `piece` ({"text": …}) as they come, then one `answer` (as without), or `error`.
        Where the model fails, `quotes` beside `error` is the answer without a model, which is not stored.
        """
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(caller, asked.repositories, conversation=asked.conversation)
        body_of = Renderer(service, caller, str(request.base_url), dialog).answer

        def failed(error: ProviderError) -> RagError:
            if error.quotes is None:
                return error
            quotes = body_of(error.quotes)
            return ModelFailed(error, service.words(error), {"quotes": quotes})

        if not asked.stream:
            try:
                return body_of(await until_gone(request, service.answered(dialog, asked.question)))
            except ProviderError as error:
                raise failed(error) from error

        async def events() -> AsyncGenerator[bytes, None]:
            try:
                async with aclosing(service.answer(dialog, asked.question)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Answer):
                            yield event(body_of(piece), "answer")
                        else:
                            yield event({"text": piece}, "piece")
            except ProviderError as error:
                raise failed(error) from error

        last = partial(last_words, service)
        return EventStream(events(), streams=service.streams, last_words=last, patience_s=service.patience_s)

    return router


def _evaluation(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["evaluation"])

    @router.post("/eval")
    async def evaluate(
        request: Request, asked: requests.EvalRequest, caller: CallerOf
    ) -> responses.EvalResult:
        """Measure retrieval on one's own questions: NDCG@10, MRR@10, recall@10, lines found of 200 read."""
        asked.check_size()
        for judged in asked.questions:
            for text in (judged.question, *judged.history):
                service.limiter.check_question(text, param="questions")
        repository = await service.library.repository(asked.repository, caller=caller)

        async def measured() -> list[responses.EvalScores]:
            async with service.limiter.long_seat():
                return [await to_thread(_scores, repository, one, asked.k) for one in asked.questions]

        each = await until_gone(request, measured())
        lines = [one.lines for one in each if one.lines is not None]
        return responses.EvalResult(
            repository=asked.repository,
            questions=len(each),
            ndcg=fmean(one.ndcg for one in each),
            mrr=fmean(one.mrr for one in each),
            recall=fmean(one.recall for one in each),
            lines=fmean(lines) if lines else None,
            each=each,
        )

    return router


def last_words(service: Service, error: RagError) -> bytes:
    """An error as the last event of a stream."""
    return event(shape_of(error, service.words(error)), "error")


def source_lines(repository: Repository, path: str, start: int, end: int | None) -> responses.SourceLines:
    """Lines of a file, from the index. An `end` beyond the file is its end, one before the start the start.

    Raises:
        NotFound: the index has no such file, or the file no such line.
    """
    found = read_lines(repository, path, start, None if end is None else max(start, end))
    last = max(found.start, found.end)
    return responses.SourceLines(
        path=shown(found.path),
        start_line=found.start,
        end_line=last,
        lines=found.total,
        language=repository.store.file_language(path),
        text=found.text,
        commit=found.commit,
        dirty=found.dirty,
        start=found.start,
        end=last,
    )


def _scores(repository: Repository, asked: requests.Judged, k: int) -> responses.EvalScores:
    began = time.perf_counter()
    found = search_in_turn([repository.searcher], asked.question, asked.history, k=k)
    took = time.perf_counter() - began
    spans = tuple(lines for one in asked.answers if (lines := one.lines()))
    question = Question(
        id="",
        repo="",
        language="",
        kind="",
        text=asked.question,
        files=frozenset(one.path for one in asked.answers),
        spans=spans,
    )
    scores = judge(question, [LineSpan(hit.path, hit.start, hit.end) for hit in found.hits], took)
    return responses.EvalScores(
        question=asked.question,
        ndcg=scores.ndcg,
        mrr=scores.mrr,
        recall=scores.recall,
        lines=scores.lines,
        seconds=took,
    )
