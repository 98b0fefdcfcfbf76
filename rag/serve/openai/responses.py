"""OpenAI's Responses API: `/v1/responses`.

A response is a stored turn. `previous_response_id` continues its conversation after that turn, as a fork if
the conversation has gone on since; `conversation` continues a conversation at its end.
"""

from __future__ import annotations

import json
import time
import uuid
from asyncio import to_thread
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from rag.errors import NotFound, ProviderError, RagError
from rag.parsing import parse_json
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api.rendering import json_response
from rag.serve.api.requests import Steps
from rag.serve.errors import BadRequest, shape_of
from rag.serve.openai.chat import ChatCompletions, finish_reason_of
from rag.serve.openai.messages import ChatQuestion, read_messages
from rag.serve.openai.parameters import RESPONSES, Parameters
from rag.serve.openai.thread_matching import TurnHistory
from rag.serve.repositories.entry import ServedRepository
from rag.serve.sse import EventStream, event, until_disconnect
from rag.service import Dialog, Engine
from rag.service.repositories.groups import is_group
from rag.types import Answer, DialogTurn, GenerationOptions, Usage

_SHELF = "openai-response"
_KEPT_S = 90 * 86_400.0
"""How long a response can be found by its id; its turn is stored as long as its conversation."""
_MAX_ITEMS = 10_000
_ECHOED = ("temperature", "top_p", "user", "truncation", "reasoning", "text", "parallel_tool_calls")

ResponseId = Annotated[str, Path(description="The id of a stored response.", max_length=200)]


class ConversationReference(BaseModel):
    """A conversation to continue."""

    id: Annotated[str, Field(min_length=1, max_length=200)]


class ResponseRequest(BaseModel):
    """A request for a response. For OpenAI's other parameters see the server's documentation."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "rag:sample", "input": "Where is a token checked?"}]},
    )
    model: str
    input: str | Annotated[list[Any], Field(min_length=1, max_length=_MAX_ITEMS)]
    stream: StrictBool | None = False
    instructions: str | None = None
    previous_response_id: Annotated[str | None, Field(max_length=200)] = None
    conversation: Annotated[str, Field(min_length=1, max_length=200)] | ConversationReference | None = None
    about: Annotated[str | None, Field(max_length=500, description='What "it" means: a name.')] = None
    steps: Steps = None


class _Reply:
    """The response to one request: the parts that are known before the answer, and how it is written."""

    def __init__(self, asked: ResponseRequest, parameters: Parameters) -> None:
        self.id, self.item_id = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}"
        self.asked, self.parameters = asked, parameters
        self.created = int(time.time())

    def body(self, status: str, output: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
        """Return the response object."""
        given = self.asked.model_extra or {}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.asked.model,
            "output": list(output),
            "instructions": self.asked.instructions,
            "previous_response_id": self.asked.previous_response_id,
            "max_output_tokens": self.parameters.options.max_tokens,
            "metadata": dict(self.parameters.metadata),
            "store": self.parameters.store is not False,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **{name: given[name] for name in _ECHOED if given.get(name) is not None},
            "usage": None,
            **more,
        }

    def answered(self, answer: Answer, annotations: Sequence[Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response object with an answer; `own` are the fields that OpenAI's does not have."""
        reason = "max_output_tokens" if answer.complete else finish_reason_of(answer)
        details = {"incomplete_details": {"reason": reason}} if answer.cut else {}
        status = "incomplete" if answer.cut else "completed"
        output = [_message(self.item_id, answer.text, annotations, status)]
        return self.body(status, output, usage=_usage(answer.usage), rag=own, **details)


def add_responses(router: APIRouter, chat: ChatCompletions) -> None:
    """Add the routes of responses."""
    _add_create(router, chat)
    _add_stored(router, chat)


def _add_create(router: APIRouter, chat: ChatCompletions) -> None:
    service = chat.service

    @router.post(
        "/responses",
        response_model=None,
        responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}},
    )
    async def create(request: Request, asked: ResponseRequest, caller: CallerOf) -> Response:
        """Answer a question about a repository, with citations; optionally as a stream of events.

        The answer is stored as a turn, unless `store` is false.
        """
        read = _question(asked)
        entries = await _entries(chat, caller, asked, read)
        service.limiter.check_history(len(read.history) + 1)
        service.limiter.check_question(read.question, param="input")
        instructions = "\n\n".join(text for text in (asked.instructions or "", read.instructions) if text)
        parameters = chat.parameters(asked.model_extra or {}, RESPONSES, instructions)
        dialog = await _dialog(chat, caller, entries, asked, read, parameters)
        if asked.steps is not None:
            dialog.steps = asked.steps
        if asked.about:
            await to_thread(dialog.about, asked.about)
        reply, base = _Reply(asked, parameters), str(request.base_url)
        if asked.stream:
            events = _events(chat, dialog, read.question, entries, reply, base)
            last = partial(_error_event, chat)
            return EventStream(events, streams=service.streams, error_event=last)
        try:
            answer = await until_disconnect(request, service.answered(dialog, read.question))
        except ProviderError as error:
            raise chat.quoted(error, entries, {"id": reply.id, "model": asked.model}, base) from error
        return json_response(await _finished(chat, dialog.engine, answer, entries, reply, base))


def _add_stored(router: APIRouter, chat: ChatCompletions) -> None:
    service = chat.service

    @router.get("/responses/{response}")
    async def retrieve(request: Request, response: ResponseId, caller: CallerOf) -> dict[str, Any]:
        """Return a stored response."""
        return await to_thread(_stored, chat, caller, response, str(request.base_url))

    @router.delete("/responses/{response}")
    async def delete(response: ResponseId, caller: CallerOf) -> dict[str, Any]:
        """Delete a stored response with its turn."""
        engine = service.engine_for(caller)
        await to_thread(_delete, engine, response)
        return {"id": response, "object": "response", "deleted": True}

    @router.get("/responses/{response}/input_items")
    async def input_items(response: ResponseId, caller: CallerOf) -> dict[str, Any]:
        """Return the question of a stored response."""
        turn = await to_thread(_turn_of, service.engine_for(caller), response)
        content = [{"type": "input_text", "text": turn.question}]
        item = {"id": f"msg_{turn.id}", "type": "message", "role": "user", "content": content}
        return {
            "object": "list",
            "data": [item],
            "first_id": item["id"],
            "last_id": item["id"],
            "has_more": False,
        }


def _question(asked: ResponseRequest) -> ChatQuestion:
    """Return the question of the input. Raises BadRequest."""
    items = [{"role": "user", "content": asked.input}] if isinstance(asked.input, str) else asked.input
    messages = []
    for item in items:
        role = item.get("role") if isinstance(item, dict) else None
        if not isinstance(role, str) or item.get("type", "message") != "message":
            raise BadRequest("`input` may hold messages only: a role, and a content of text", param="input")
        messages.append((role, item.get("content")))
    try:
        return read_messages(messages)
    except BadRequest as error:
        raise BadRequest(str(error), param="input") from error


async def _entries(
    chat: ChatCompletions, caller: Caller, asked: ResponseRequest, read: ChatQuestion
) -> list[ServedRepository]:
    """Return the repositories that the model names; of a group, those of the conversation that goes on."""
    if asked.previous_response_id is None or not any(map(is_group, chat.names(asked.model))):
        return await chat.entries(asked.model, caller, read)
    engine = chat.service.engine_for(caller)
    turn = await to_thread(_turn_of, engine, asked.previous_response_id)
    return chat.service.entries_of(await to_thread(engine.conversation_of, turn))


async def _dialog(
    chat: ChatCompletions,
    caller: Caller,
    entries: Sequence[ServedRepository],
    asked: ResponseRequest,
    read: ChatQuestion,
    parameters: Parameters,
) -> Dialog:
    """Return the conversation that the request continues."""
    if asked.previous_response_id is None:
        named = asked.conversation
        name = named.id if isinstance(named, ConversationReference) else named
        if name is not None:
            sources = [entry.source for entry in entries]
            await to_thread(chat.service.engine_for(caller).find_conversation, name, sources)
        return await chat.dialog(caller, entries, read.history, name, resends=False, parameters=parameters)
    if asked.conversation is not None:
        raise BadRequest("name `conversation` or `previous_response_id`, not both", param="conversation")
    engine = chat.service.engine_for(caller)
    turn = await to_thread(_turn_of, engine, asked.previous_response_id)
    opened = [await chat.service.registry.opened(entry) for entry in entries]
    history = await to_thread(
        TurnHistory,
        engine,
        [repository.source for repository in opened],
        turn,
        names=[entry.name for entry in entries],
        history=read.history,
        prefixes=chat.prefixes,
        stores=parameters.store is not False,
    )
    dialog = Dialog(engine, opened, history=history)
    dialog.options, dialog.metadata = parameters.options, parameters.metadata
    return dialog


async def _finished(
    chat: ChatCompletions,
    engine: Engine,
    answer: Answer,
    entries: Sequence[ServedRepository],
    reply: _Reply,
    base: str,
) -> dict[str, Any]:
    """Return the finished response, after its id is stored."""
    if answer.turn_id:
        value = {reply.id: json.dumps([answer.turn_id, reply.asked.model]).encode()}
        store, namespace = engine.turns, engine.settings.namespace
        await to_thread(store.put_records, value, shelf=_SHELF, namespace=namespace, ttl_s=_KEPT_S)
    annotations = _annotations(chat, answer, entries, base)
    own = chat.rag_fields(answer, entries, base, reply.parameters.ignored)
    return reply.answered(answer, annotations, own)


async def _events(
    chat: ChatCompletions,
    dialog: Dialog,
    question: str,
    entries: Sequence[ServedRepository],
    reply: _Reply,
    base: str,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response in OpenAI's order."""
    number = count()

    def named(name: str, **fields: Any) -> bytes:
        return event({"type": name, "sequence_number": next(number), **fields}, name)

    where = {"item_id": reply.item_id, "output_index": 0, "content_index": 0}
    texts: list[str] = []
    async with aclosing(chat.pieces(dialog, question, entries, {"id": reply.id}, base)) as pieces:
        async for piece in pieces:
            if not texts:
                for begin in _begin(named, reply, where):
                    yield begin
            if isinstance(piece, str):
                texts.append(piece)
                yield named("response.output_text.delta", **where, delta=piece, logprobs=[])
                continue
            body = await _finished(chat, dialog.engine, piece, entries, reply, base)
            for end in _end(named, body, where):
                yield end


def _begin(named: Any, reply: _Reply, where: Mapping[str, Any]) -> Iterator[bytes]:
    yield named("response.created", response=reply.body("in_progress"))
    yield named("response.in_progress", response=reply.body("in_progress"))
    item = _message(reply.item_id, None, (), "in_progress")
    yield named("response.output_item.added", output_index=0, item=item)
    yield named("response.content_part.added", **where, part=_part("", ()))


def _end(named: Any, body: Mapping[str, Any], where: Mapping[str, Any]) -> Iterator[bytes]:
    (item,) = body["output"]
    (part,) = item["content"]
    for index, annotation in enumerate(part["annotations"]):
        yield named(
            "response.output_text.annotation.added", **where, annotation_index=index, annotation=annotation
        )
    yield named("response.output_text.done", **where, text=part["text"], logprobs=[])
    yield named("response.content_part.done", **where, part=part)
    yield named("response.output_item.done", output_index=0, item=item)
    yield named(f"response.{body['status']}", response=body)


def _error_event(chat: ChatCompletions, error: RagError) -> bytes:
    shape = shape_of(error, chat.service.public_message(error))["error"]
    fields = {name: shape.get(name) for name in ("code", "message", "param")}
    return event({"type": "error", "sequence_number": 0, **fields}, "error")


# ---------------------------------------------------------------- stored responses


def _turn_of(engine: Engine, response: str) -> DialogTurn:
    """Return the turn of a stored response. Raises NotFound."""
    return _turn_and_model(engine, response)[0]


def _turn_and_model(engine: Engine, response: str) -> tuple[DialogTurn, str]:
    namespace = engine.settings.namespace
    found = engine.turns.records([response], shelf=_SHELF, namespace=namespace)
    if response not in found:
        raise NotFound(f"there is no response {response[:100]!r}: stored ones are kept for 90 days")
    try:
        turn_id, model = map(str, parse_json(found[response]))
    except (ValueError, TypeError) as error:
        raise NotFound(f"the record of the response {response[:100]!r} is damaged") from error
    return engine.turns.turn(turn_id, namespace=namespace), model


def _stored(chat: ChatCompletions, caller: Caller, response: str, base: str) -> dict[str, Any]:
    """Return a stored response from its turn. Raises NotFound."""
    engine = chat.service.engine_for(caller)
    turn, model = _turn_and_model(engine, response)
    names = chat.names(model)
    if any(map(is_group, names)):
        entries = chat.service.entries_of(engine.conversation_of(turn))
    else:
        entries = [chat.service.registry.entry(name, caller=caller) for name in names]
    answer = Answer(text=turn.answer or "", question=turn.question, sources=turn.citations)
    parameters = Parameters(GenerationOptions(), True, (turn.metadata or {}).get("request", {}), ())
    reply = _Reply(ResponseRequest(model=model, input=turn.question), parameters)
    reply.id, reply.item_id = response, f"msg_{turn.id}"
    if turn.assistant_response_timestamp is not None:
        reply.created = int(turn.assistant_response_timestamp.timestamp())
    status = "completed" if turn.complete else "incomplete"
    output = [_message(reply.item_id, answer.text, _annotations(chat, answer, entries, base), status)]
    own = {"conversation": turn.conversation_id, "turn": turn.id}
    return reply.body(status, output, usage=_usage(turn.usage), rag=own)


def _delete(engine: Engine, response: str) -> None:
    """Delete a response and its turn. Raises NotFound."""
    turn, namespace = _turn_of(engine, response), engine.settings.namespace
    engine.turns.delete_turn(turn.id, namespace=namespace)
    engine.turns.delete_records([response], shelf=_SHELF, namespace=namespace)


# ---------------------------------------------------------------- shapes


def _annotations(
    chat: ChatCompletions, answer: Answer, entries: Sequence[ServedRepository], base: str
) -> list[dict[str, Any]]:
    """Return the citations as in chat completions, with the fields of a URL citation at the top."""
    return [
        {"type": "url_citation", **each["url_citation"], "rag": each["rag"]}
        for each in chat.annotations(answer, entries, base)
    ]


def _message(item: str, text: str | None, annotations: Sequence[Any], status: str) -> dict[str, Any]:
    content = [] if text is None else [_part(text, annotations)]
    return {"id": item, "type": "message", "status": status, "role": "assistant", "content": content}


def _part(text: str, annotations: Sequence[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.answer_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }
