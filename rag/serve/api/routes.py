"""`/api`: our own routes. Repositories and their indexing, search, questions, evaluation.

Progress and answers also come as server-sent events. Conversations are in `rag.serve.api.turns`.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from statistics import fmean
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response

from rag.errors import ProviderError, RagError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.runner import judge
from rag.retrieval.search import search_in_turn
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import answer_models, eval_models, models
from rag.serve.api.pagination import Limit, Offset, page
from rag.serve.errors import ModelFailed, shape_of
from rag.serve.links import citation_url, viewer_link
from rag.serve.registry import ServedRepository
from rag.serve.service import Service
from rag.serve.sse import EventStream, event, until_gone
from rag.service import Dialog, Repository
from rag.service.read_lines import read_lines
from rag.types import Answer, Checkout, Citation, Hit

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
    ) -> list[models.RepositoryState]:
        """The repositories that are served, then the refs and URLs that the caller has asked for.

        A `Link` header leads to the next page where more follow; `X-Total-Count` says how many there are.
        """
        seen = [s for s in library.seen_by(caller) if ready is None or s.can_answer == ready]
        shown = page(request, response, seen, limit=limit, offset=offset)
        return [models.repository_state(shelf, service.told) for shelf in shown]

    @router.post("/repositories/{name:path}/index", status_code=202)
    async def index(
        caller: CallerOf, name: Named, how: models.IndexRequest | None = None
    ) -> models.RepositoryState:
        """Begin to index a repository, or what changed of it; a job that is going on is not begun again."""
        shelf = library.shelf(name, caller=caller)
        library.index(shelf, rebuild=bool(how and how.rebuild))
        return models.repository_state(shelf, service.told)

    @router.post("/repositories/{name:path}/index/cancel")
    async def cancel(caller: CallerOf, name: Named) -> models.RepositoryState:
        """End the job that indexes a repository, if there is one. The index before it stays."""
        shelf = library.shelf(name, caller=caller)
        await library.cancel(shelf)
        return models.repository_state(shelf, service.told)

    @router.get("/repositories/{name:path}/index/events", responses=_EVENTS, response_class=Response)
    async def progress(caller: CallerOf, name: Named) -> Response:
        """The state of a repository, now and as its job goes on, until that ends: events `state`."""
        shelf = library.shelf(name, caller=caller)

        async def states() -> AsyncGenerator[bytes, None]:
            async for now in library.events(shelf):
                yield event(models.repository_state(now, service.told).model_dump(mode="json"), "state")

        last = partial(last_words, service)
        return EventStream(states(), streams=service.streams, last_words=last)

    @router.get("/repositories/{name:path}/source")
    async def source(
        caller: CallerOf,
        name: Named,
        path: Annotated[str, Query(min_length=1, max_length=1000)],
        start: Annotated[int, Query(ge=1)] = 1,
        end: Annotated[int | None, Query(ge=1)] = None,
    ) -> models.SourceLines:
        """Lines of a file as they are in the index: both ends belong; nothing outside it is opened."""
        repository = await library.repository(name, caller=caller)
        async with service.limiter.seat():
            return await to_thread(source_lines, repository, path, start, end)

    @router.get("/repositories/{name:path}")
    async def repository(caller: CallerOf, name: Named) -> models.RepositoryState:
        """One repository."""
        return models.repository_state(library.shelf(name, caller=caller), service.told)

    return router


def _asking(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["questions"])

    @router.post("/search")
    async def search(
        request: Request, asked: answer_models.SearchRequest, caller: CallerOf
    ) -> answer_models.SearchResult:
        """Retrieval alone, best first; in the light of a conversation when one is named."""
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(
            caller, asked.repositories, conversation=asked.conversation, named=False
        )
        async with service.limiter.seat():
            result = await to_thread(dialog.search, asked.question, k=asked.k)
        base = str(request.base_url)
        hits = [answer_models.found(hit, _lines_url(service, caller, hit, base)) for hit in result.hits]
        return answer_models.SearchResult(
            question=asked.question,
            standalone_question=result.sought.standalone,
            hits=hits,
            coverage=[models.coverage_body(repository.coverage) for repository in dialog.repositories],
        )

    @router.post(
        "/ask",
        response_model=answer_models.AnswerBody,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def ask(
        request: Request, asked: answer_models.AskRequest, caller: CallerOf
    ) -> answer_models.AnswerBody | Response:
        """Ask a question. The answer is stored as a turn of the conversation, which it begins if need be.

        With `stream`: events `piece` ({"text": …}) as they come, then one `answer` (as without), or `error`.
        Where the model fails, `quotes` beside `error` is the answer without a model, which is not stored.
        """
        service.limiter.check_question(asked.question)
        dialog = await service.dialog(caller, asked.repositories, conversation=asked.conversation)
        base = str(request.base_url)

        def body_of(answer: Answer) -> answer_models.AnswerBody:
            return answer_models.answer_body(answer, urls_of(service, caller, dialog, answer.sources, base))

        def failed(error: ProviderError) -> RagError:
            if error.quotes is None:
                return error
            quotes = body_of(error.quotes).model_dump(mode="json")
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
                            yield event(body_of(piece).model_dump(mode="json"), "answer")
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
        request: Request, asked: eval_models.EvalRequest, caller: CallerOf
    ) -> eval_models.EvalResult:
        """Measure retrieval on one's own questions: NDCG@10, MRR@10, recall@10, lines found of 200 read."""
        asked.check_size()
        for judged in asked.questions:
            for text in (judged.question, *judged.history):
                service.limiter.check_question(text, param="questions")
        repository = await service.library.repository(asked.repository, caller=caller)

        async def measured() -> list[eval_models.EvalScores]:
            async with service.limiter.long_seat():
                return [await to_thread(_scores, repository, one, asked.k) for one in asked.questions]

        each = await until_gone(request, measured())
        lines = [one.lines for one in each if one.lines is not None]
        return eval_models.EvalResult(
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


def urls_of(
    service: Service, caller: Caller, dialog: Dialog | None, citations: Sequence[Citation], base: str
) -> dict[Citation, str]:
    """Where each citation can be read."""
    seen = service.library.seen_by(caller)
    opened = {r.source.location: r.checkout for r in dialog.repositories} if dialog else {}
    return {
        citation: citation_url(
            citation,
            opened.get(citation.location) or _checkout(seen, citation.location),
            _name(seen, citation.location, citation.repo),
            base,
        )
        for citation in citations
    }


def _lines_url(service: Service, caller: Caller, hit: Hit, base: str) -> str:
    name = _name(service.library.seen_by(caller), hit.location, hit.repo)
    return viewer_link(base, name, hit.path, hit.start, hit.end)


def _checkout(shelves: Sequence[ServedRepository], location: str) -> Checkout | None:
    return next((s.checkout for s in shelves if s.source.location == location and s.checkout), None)


def _name(shelves: Sequence[ServedRepository], location: str, otherwise: str) -> str:
    """What a repository is called here."""
    return next((s.name for s in shelves if s.source.location == location), otherwise)


def source_lines(repository: Repository, path: str, start: int, end: int | None) -> models.SourceLines:
    """Lines of a file, from the index. An `end` beyond the file is its end, one before the start the start.

    Raises:
        NotFound: the index has no such file, or the file no such line.
    """
    found = read_lines(repository, path, start, None if end is None else max(start, end))
    return models.SourceLines(
        path=models.shown(found.path),
        start=found.start,
        end=max(found.start, found.end),
        lines=found.total,
        language=repository.store.file_language(path),
        text=found.text,
        commit=found.commit,
        dirty=found.dirty,
    )


def _scores(repository: Repository, asked: eval_models.Judged, k: int) -> eval_models.EvalScores:
    began = time.perf_counter()
    found = search_in_turn([repository.searcher], asked.question, asked.history, k=k)
    took = time.perf_counter() - began
    spans = tuple(span for place in asked.answers if (span := place.span()))
    question = Question(
        id="",
        repo="",
        language="",
        kind="",
        text=asked.question,
        files=frozenset(place.path for place in asked.answers),
        spans=spans,
    )
    scores = judge(question, [LineSpan(hit.path, hit.start, hit.end) for hit in found.hits], took)
    return eval_models.EvalScores(
        question=asked.question,
        ndcg=scores.ndcg,
        mrr=scores.mrr,
        recall=scores.recall,
        lines=scores.lines,
        seconds=took,
    )
