"""Models, chat completions and embeddings under `/v1`, so that any OpenAI client can ask about repositories.

The model names the repositories: `rag:NAME`, `rag:NAME@REF`, or several, `rag:NAME,OTHER`.
`rag.serve.openai.parameters` says what becomes of each parameter, `rag.serve.openai.thread_matching` finds
the conversation.
"""

from __future__ import annotations

import base64
import time
import uuid
from asyncio import to_thread
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from rag.answer.references import at_cited_lines, reference_spans
from rag.errors import ProviderError, RagError
from rag.ports import CompletingGenerator, is_async
from rag.schema import ANSWER_FIELDS, Json, to_json
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import pagination
from rag.serve.api.rendering import json_response, sent
from rag.serve.api.requests import Steps
from rag.serve.errors import BadRequest, ModelFailed, TooLarge, UnknownRepository, shape_of
from rag.serve.links import citation_url
from rag.serve.openai.messages import ChatQuestion, done_without_model, read_messages
from rag.serve.openai.parameters import CHAT, Handling, Parameters, read_parameters
from rag.serve.openai.thread_matching import ClientHistory, Prefixes
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.serve.sse import EventStream, event, until_disconnect
from rag.service import Dialog
from rag.service.repositories.groups import is_group
from rag.types import MAX_QUESTION_CHARS, Answer, Citation, CodeFact, TraceStep, Usage

_MODEL = "rag:"
_MAX_INPUTS = 2_048
_MAX_MESSAGES = 10_000
_DONE = b"data: [DONE]\n\n"

Text = str | list[Any] | None


class ChatMessage(BaseModel):
    """A message as clients send it."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: Text = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")
    include_usage: StrictBool | None = None


class ChatRequest(BaseModel):
    """A request for a chat completion. For OpenAI's other parameters see the server's documentation."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "rag:sample",
                    "messages": [{"role": "user", "content": "Where is a token checked?"}],
                    "stream": False,
                }
            ]
        },
    )
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=_MAX_MESSAGES)]
    stream: StrictBool | None = False
    about: Annotated[str | None, Field(max_length=500, description='What "it" means: a name.')] = None
    steps: Steps = None
    stream_options: StreamOptions | None = None


class EmbeddingRequest(BaseModel):
    """A request for embeddings of texts."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"model": "rag", "input": ["How is a link made?"]}]}
    )
    model: str
    input: str | Annotated[list[str], Field(min_length=1, max_length=_MAX_INPUTS)]
    encoding_format: Literal["float", "base64"] | None = "float"


class Model(BaseModel):
    """A repository as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "rag"


class Models(BaseModel):
    """All models, or a page. If `has_more` is true, request the next page with `after` set to `last_id`."""

    object: Literal["list"] = "list"
    data: list[Model]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


class ChatCompletions:
    """The chat completions of one server."""

    def __init__(self, service: Service) -> None:
        self.service, self.prefixes = service, Prefixes(service.shared)

    # ------------------------------------------------------------ request

    async def entries(self, model: str, caller: Caller, read: ChatQuestion) -> list[ServedRepository]:
        """Return the repositories that a model names; of a group those that the first question is about.

        Raises:
            UnknownRepository: it names no served repository.
            BadRequest: it names too many.
            NotFound: none of the group is indexed.
        """
        question = read.history[0][0] if read.history else read.question
        return (await self.service.chosen(self.names(model), caller, question))[0]

    def names(self, model: str) -> list[str]:
        """Return the repositories and groups that a model names; `rag` alone is the only listed one.

        Raises:
            UnknownRepository: it names none.
        """
        names = [name for name in model.removeprefix(_MODEL).split(",") if name]
        registry = self.service.registry
        if model in ("rag", _MODEL) and all(entry.name != "rag" for entry in registry.entries()):
            names = [registry.only_entry().name]
        if not names:
            raise UnknownRepository(
                f"the model {model[:80]!r} names no repository; use rag:NAME, see /v1/models for the names",
                param="model",
            )
        return list(dict.fromkeys(names))

    async def dialog(
        self,
        caller: Caller,
        entries: Sequence[ServedRepository],
        history: Sequence[tuple[str, str]],
        named: str | None,
        *,
        resends: bool,
        parameters: Parameters,
    ) -> Dialog:
        """Return the conversation that the request continues."""
        opened = [await self.service.registry.opened(entry) for entry in entries]
        engine = self.service.engine_for(caller)
        client_history = await to_thread(
            ClientHistory,
            engine,
            [repository.source for repository in opened],
            names=[entry.name for entry in entries],
            history=history,
            prefixes=self.prefixes,
            named=named,
            resends=resends,
            stores=parameters.store is not False,
        )
        dialog = Dialog(engine, opened, history=client_history)
        dialog.options, dialog.metadata = parameters.options, parameters.metadata
        return dialog

    def parameters(
        self, given: Mapping[str, Any], handling: Mapping[str, Handling], instructions: str
    ) -> Parameters:
        """Return what a request asks for besides its question. Raises BadRequest."""
        settings = self.service.settings.engine
        instructions = instructions.strip()
        found = read_parameters(
            given,
            handling,
            instructions=instructions,
            has_model=settings.has_model and settings.client == "openai" and settings.command is None,
        )
        limit = (settings.context_tokens - settings.answer_tokens) // 2
        if settings.has_model and (tokens := self.service.engine.counter.count(instructions)) > limit:
            raise BadRequest(
                f"the system messages have {tokens:,} tokens, and may have {limit:,}: half of the context of "
                f"{settings.context_tokens:,} tokens that the answer leaves",
                param="messages" if handling is CHAT else "instructions",
            )
        return found

    async def task(self, text: str) -> tuple[str, Usage, str]:
        """Complete a client's own task with the model alone, without repository or memory."""
        self.service.limiter.check_question(text, param="messages")
        async with self.service.limiter.slot(), self.service.generator() as generator:
            if is_async(generator):
                reply = await generator.acomplete(text)
            elif isinstance(generator, CompletingGenerator):
                reply = await to_thread(generator.complete, text)
            else:
                reply = done_without_model(text)
            counter = self.service.engine.counter
            return reply, Usage(counter.count(text), counter.count(reply)), generator.model

    # ------------------------------------------------------------ response

    def annotations(
        self, answer: Answer, entries: Sequence[ServedRepository], base: str
    ) -> list[dict[str, Any]]:
        """Return the citations in OpenAI's format, with ours in `rag`; the n-th is `[n]` in the text.

        The indices are those of the first reference in the text, or of the text's end for a source without
        a numbered reference.
        """
        found = []
        spans = reference_spans(answer.text)
        end_of_text = (len(answer.text), len(answer.text))
        for citation, lines in zip(
            answer.citations, at_cited_lines(answer.text, answer.citations), strict=True
        ):
            start, end = spans.get(citation.n, end_of_text)
            own = sent(self.service, _served(citation, entries, base))
            cited = {
                "url": sent(self.service, _served(lines, entries, base))["url"],
                "title": _title(citation, several=len(entries) > 1),
                "start_index": start,
                "end_index": end,
            }
            found.append({"type": "url_citation", "url_citation": cited, "rag": own})
        return found

    def rag_fields(
        self, answer: Answer, entries: Sequence[ServedRepository], base: str, ignored: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the fields of an answer that OpenAI's format does not have."""
        written = to_json(answer)
        if answer.code_facts is not None:
            items = [_served(item, entries, base) for item in answer.code_facts.items]
            written["code_facts"]["items"] = items
        fields = {name: written[name] for name in ANSWER_FIELDS} | {"ignored": list(ignored)}
        return sent(self.service, fields)

    async def pieces(
        self,
        dialog: Dialog,
        question: str,
        entries: Sequence[ServedRepository],
        head: dict[str, Any],
        base: str,
    ) -> AsyncGenerator[str | Answer, None]:
        """Yield the pieces of an answer. If the model fails midway, yield the quotes before raising."""
        begun = ""
        try:
            async with aclosing(self.service.answer(dialog, question)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, TraceStep):
                        continue  # the steps are in `rag` at the end
                    yield piece
                    begun = "\n\n"
        except ProviderError as error:
            if begun and error.quotes is not None:
                yield begun + error.quotes.text
                raise
            raise self.quoted(error, entries, head, base) from error

    def quoted(
        self, error: ProviderError, entries: Sequence[ServedRepository], head: dict[str, Any], base: str
    ) -> RagError:
        """Return the error for a failed model; its `quotes` is a completion generated without the model."""
        if (quotes := error.quotes) is None:
            return error
        annotations = self.annotations(quotes, entries, base)
        body = _completion(head, quotes.text, annotations, quotes.usage)
        return ModelFailed(
            error,
            self.service.public_message(error),
            {"quotes": body | {"rag": self.rag_fields(quotes, entries, base)}},
        )

    async def stream(
        self,
        dialog: Dialog,
        question: str,
        entries: Sequence[ServedRepository],
        head: dict[str, Any],
        base: str,
        ignored: Sequence[str] = (),
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the chunks of an answer in the order that clients expect: role, content, annotations, end."""
        async with aclosing(self.pieces(dialog, question, entries, head, base)) as pieces:
            first = True
            async for piece in pieces:
                if first:
                    yield _chunk(head, {"role": "assistant", "content": ""})
                    first = False
                if isinstance(piece, str):
                    yield _chunk(head, {"content": piece})
                    continue
                if annotations := self.annotations(piece, entries, base):
                    yield _chunk(head, {"annotations": annotations})
                own = {"rag": self.rag_fields(piece, entries, base, ignored)}
                yield _chunk(head, {}, finish_reason=finish_reason_of(piece)) | own
                yield {**head, "choices": [], "usage": _usage(piece.usage)}


def add_models(router: APIRouter, chat: ChatCompletions) -> None:
    """Add the routes of models."""

    @router.get("/models")
    async def models(
        caller: CallerOf,
        limit: Annotated[
            int | None, Query(ge=1, le=pagination.MAX_LIMIT, description="The page size.")
        ] = None,
        after: Annotated[str | None, Query(max_length=1_000, description="The id before the page.")] = None,
    ) -> Models:
        """List one model for each repository, for each ref that the caller has requested, and for each group.

        Without `limit` the list is complete, as in OpenAI's API, which has no pages.
        """
        registry = chat.service.registry
        known = [_model(entry) for entry in registry.visible_to(caller)]
        known += [Model(id=f"{_MODEL}{group}", created=0) for group in registry.groups()]
        begin = 0 if after is None else _position_after(after, known)
        end = len(known) if limit is None else begin + limit
        found = known[begin:end]
        return Models(
            data=found,
            first_id=found[0].id if found else None,
            last_id=found[-1].id if found else None,
            has_more=end < len(known),
        )

    @router.get("/models/{model:path}")
    async def model(model: str, caller: CallerOf) -> Model:
        """Return one model."""
        (name, *_) = chat.names(model)
        if is_group(name):
            chat.service.registry.members(name)
            return Model(id=f"{_MODEL}{name}", created=0)
        return _model(chat.service.registry.entry(name, caller=caller))


def add_completions(router: APIRouter, chat: ChatCompletions) -> None:
    """Add the routes of chat completions."""
    service = chat.service

    @router.post(
        "/chat/completions",
        response_model=None,
        responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}},
    )
    async def completions(
        request: Request,
        asked: ChatRequest,
        caller: CallerOf,
        x_rag_conversation: Annotated[str | None, Header(max_length=200)] = None,
        x_openwebui_chat_id: Annotated[str | None, Header(max_length=200)] = None,
    ) -> Response:
        """Answer the last user message about a repository, with citations; optionally as a stream.

        `X-Rag-Conversation` names a conversation to continue or start. Without it, the conversation is found
        by the messages before the question.
        """
        service.limiter.check_history(len(asked.messages))
        read = read_messages([(message.role, message.content) for message in asked.messages])
        entries = await chat.entries(asked.model, caller, read)
        parameters = chat.parameters(asked.model_extra or {}, CHAT, read.instructions)
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": asked.model}
        wants_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        if read.is_task:
            text, usage, _ = await until_disconnect(request, chat.task(read.question))
            if not asked.stream:
                return json_response(_completion(head, text, [], usage))
            return _streamed(service, _text_chunks(_as_chunk(head), text, usage), wants_usage)
        service.limiter.check_question(read.question, param="messages")
        dialog = await chat.dialog(
            caller,
            entries,
            read.history,
            x_rag_conversation or x_openwebui_chat_id,
            resends=x_rag_conversation is None,
            parameters=parameters,
        )
        if asked.steps is not None:
            dialog.steps = asked.steps
        if asked.about:
            await to_thread(dialog.about, asked.about)
        base = str(request.base_url)
        if asked.stream:
            chunks = chat.stream(dialog, read.question, entries, _as_chunk(head), base, parameters.ignored)
            known = dialog.conversation.id if dialog.conversation else ""
            return _streamed(service, chunks, wants_usage, known)
        try:
            answer = await until_disconnect(request, service.answered(dialog, read.question))
        except ProviderError as error:
            raise chat.quoted(error, entries, head, base) from error
        annotations = chat.annotations(answer, entries, base)
        body = _completion(head, answer.text, annotations, answer.usage, finish_reason_of(answer))
        headers = {"X-Rag-Conversation": answer.conversation_id} if answer.conversation_id else {}
        return json_response(
            body | {"rag": chat.rag_fields(answer, entries, base, parameters.ignored)}, headers=headers
        )


def add_embeddings(router: APIRouter, chat: ChatCompletions) -> None:
    """Add the routes of embeddings."""
    service = chat.service

    @router.post("/embeddings", response_model=None)
    async def embeddings(asked: EmbeddingRequest) -> Response:
        """Embed texts as passages, with the embedder that is used for the repositories."""
        embedder = service.engine.embedder
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        if any(len(text) > MAX_QUESTION_CHARS for text in texts):
            raise TooLarge(
                f"a text is longer than the limit of {MAX_QUESTION_CHARS:,} characters", param="input"
            )
        if (asked.model_extra or {}).get("dimensions") not in (None, embedder.dim):
            raise BadRequest(f"`dimensions` must be {embedder.dim}, or be left out", param="dimensions")
        async with service.limiter.slot():
            vectors = await to_thread(embedder.embed, texts, role="passage")
        tokens = await to_thread(lambda: sum(map(service.engine.counter.count, texts)))
        as_text = asked.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": n, "embedding": _base64(row) if as_text else row.tolist()}
            for n, row in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        name = embedder.fingerprint
        return json_response({"object": "list", "model": name, "data": data, "usage": usage})


def _model(entry: ServedRepository) -> Model:
    return Model(id=f"{_MODEL}{entry.name}", created=int(entry.indexed or 0))


def _position_after(model: str, known: Sequence[Model]) -> int:
    """Return the index of the model after this one. Raises BadRequest if it is not in the list."""
    for number, one in enumerate(known, start=1):
        if one.id == model:
            return number
    raise BadRequest(
        f"`after` names {model[:80]!r}, which is not in the list; send the last_id of the previous page",
        param="after",
    )


def _served(of: Citation | CodeFact, entries: Sequence[ServedRepository], base: str) -> Json:
    """Return the JSON of lines, with the name that their repository is served under, and their URL."""
    entry = next((one for one in entries if one.source.location == of.location), entries[0])
    url = citation_url(of, entry.checkout, entry.name, base)
    return to_json(of) | {"repository": entry.name, "url": url}


def _title(citation: Citation, *, several: bool) -> str:
    return f"{citation.repo}:{citation.place}" if several else citation.place


def finish_reason_of(answer: Answer) -> str:
    """Return why an answer ended: "length", "content_filter" if its server ended it early, or "stop"."""
    if answer.cut:
        return "length" if answer.complete else "content_filter"
    return "stop"


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.answer_tokens,
        "total_tokens": usage.total_tokens,
    }


def _completion(
    head: dict[str, Any],
    text: str,
    annotations: list[dict[str, Any]],
    usage: Usage,
    finish_reason: str = "stop",
) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": annotations}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(usage)}


def _as_chunk(head: dict[str, Any]) -> dict[str, Any]:
    return {**head, "object": "chat.completion.chunk"}


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**head, "choices": [choice]}


async def _text_chunks(head: dict[str, Any], text: str, usage: Usage) -> AsyncGenerator[dict[str, Any], None]:
    """Yield a complete text as chunks."""
    yield _chunk(head, {"role": "assistant", "content": ""})
    yield _chunk(head, {"content": text})
    yield _chunk(head, {}, finish_reason="stop")
    yield {**head, "choices": [], "usage": _usage(usage)}


def _streamed(
    service: Service, chunks: AsyncGenerator[dict[str, Any], None], wants_usage: bool, conversation: str = ""
) -> EventStream:
    """Return the chunks as server-sent events; the usage is sent only if requested."""

    async def events() -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk["choices"] or wants_usage:
                    yield event(chunk)
        yield _DONE

    headers = {"X-Rag-Conversation": conversation} if conversation else {}
    last = partial(_error_event, service)
    return EventStream(events(), streams=service.streams, error_event=last, headers=headers)


def _error_event(service: Service, error: RagError) -> bytes:
    return event(shape_of(error, service.public_message(error)))


def _base64(row: Any) -> str:
    return base64.b64encode(np.asarray(row, "<f4").tobytes()).decode("ascii")
