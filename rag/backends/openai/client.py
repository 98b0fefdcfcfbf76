"""An AdalFlow model client for OpenAI and every server that implements its protocol.

Ollama, vLLM, llama.cpp, LM Studio and gateways have `/chat/completions`, `/embeddings` and `/models` in
common, so the client uses only these (AdalFlow's own client uses the Responses API, which most servers lack).
Where servers differ, the client adapts after the first refusal: `max_tokens` or `max_completion_tokens`,
and whether `stream`, `stream_options`, system messages and `tools` are supported.

A call is retried after a connection error, 429 or 5xx, but never after the first piece of an answer.
`rag.backends.openai.bounds` limits bytes and time across all tries.
Every failure is raised as a subclass of `rag.errors.ProviderError`. The key appears only in the
Authorization header: not in `repr`, `to_dict`, a pickle or a message.
"""

from __future__ import annotations

import asyncio
import difflib
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import openai

from rag.adal import adalflow
from rag.backends.openai.bounds import (
    RequestBounds,
    async_http_client,
    chat_bytes,
    embedding_bytes,
    http_client,
    longest_answer_s,
    sending,
    whole_answer_s,
    within,
)
from rag.backends.openai.endpoint import (
    OPENAI_HOST,
    Retries,
    checked_key,
    checked_url,
    host_of,
    is_local,
    list_models,
)
from rag.backends.openai.errors import (
    CallContext,
    asks_for_unknown_model,
    failures,
    is_loading,
    refused_parameter,
    refuses_system_message,
    retry_after_s,
    translated,
)
from rag.backends.openai.proxies import proxy_of
from rag.backends.openai.queue import RequestQueue, queue_of
from rag.backends.openai.replies import checked_completion, checked_embeddings, embedding_row, text_of
from rag.backends.openai.streams import AsyncTextStream, Request, TextStream
from rag.errors import AuthenticationFailed, ProviderError, ProviderRejected
from rag.messages import split_messages, without_system

__all__ = ["OpenAICompatibleClient", "Retries", "list_models"]

_ModelType = adalflow.core.types.ModelType
_LIMITS = ("max_tokens", "max_completion_tokens")


class OpenAICompatibleClient(adalflow.core.model_client.ModelClient):  # type: ignore[misc]
    """Chat and embeddings over the OpenAI protocol, for AdalFlow's Generator and Embedder.

    Args:
        base_url: the server's address, usually ending in `/v1`; None is OpenAI.
        api_key: None sends an unusable key ("none"), as local servers expect; for OpenAI itself the
            environment variable OPENAI_API_KEY is then used.
        timeout_s: the time limit of each read; connecting takes at most 10 s. An answer takes at most five
            times as long, including retries and pauses.
        retries: when to retry.
        key_variable: the environment variable that error messages name.
        first_byte_s: if given, an answer may take as long as pieces of it arrive: the first within this
            time, each further one within `timeout_s`, at least 10 bytes and one token a second.
        at_once: how many requests of this process the server gets at the same time; others wait. None is no
            limit.

    `model_kwargs` are those of chat.completions (`model`, `stream`, `temperature`, and `max_tokens` or
    `max_completion_tokens`: sent under the name that the server accepts); `within_s` is not sent, it
    limits the time of the request. With `stream` the output's
    `raw_response` is an iterator of text with `.usage`, `.finish_reason` and `.close()`.

    Raises:
        SettingsError: the address or the key is invalid.
    """

    streams_text = True
    sync_client: Any

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        retries: Retries | None = None,
        key_variable: str = "OPENAI_API_KEY",
        first_byte_s: float | None = None,
        at_once: int | None = None,
    ) -> None:
        super().__init__()
        self.base_url = checked_url(base_url)
        self.host = host_of(self.base_url)
        self.timeout_s, self.first_byte_s, self.at_once = timeout_s, first_byte_s, at_once
        self.key_variable = key_variable
        self.dialect: dict[str, Any] = {
            "limit": "max_completion_tokens" if self.is_openai else "max_tokens",
            "stream_options": True,
            "stream": True,
            "system": True,
            "tools": True,
        }
        self._key = checked_key(api_key, self.host)
        self._retries = retries or Retries()

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI itself."""
        return self.host == OPENAI_HOST

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine or in its private network."""
        return is_local(self.base_url)

    # ------------------------------------------------------------ AdalFlow's side

    def convert_inputs_to_api_kwargs(
        self,
        input: Any = None,
        model_kwargs: Mapping[str, Any] | None = None,
        model_type: Any = _ModelType.UNDEFINED,
    ) -> dict[str, Any]:
        """Return the body of the request for a rendered prompt (or messages), or for texts to embed."""
        kwargs = dict(model_kwargs or {})
        if model_type == _ModelType.EMBEDDER:
            return kwargs | {
                "input": [_sendable(text) for text in ([input] if isinstance(input, str) else input)]
            }
        if model_type not in (_ModelType.LLM, _ModelType.LLM_REASONING):
            raise ValueError(f"{type(self).__name__} supports chat and embeddings, not {model_type}")
        return kwargs | {
            "messages": split_messages(_sendable(input)) if isinstance(input, str) else list(input)
        }

    def call(
        self, api_kwargs: Mapping[str, Any] | None = None, model_type: Any = _ModelType.UNDEFINED
    ) -> Any:
        """Send a request and return a completion, a `TextStream` (with `stream`), or embeddings."""
        with ExitStack() as turn:
            if (queue := self._queue) is not None:
                queue.enter(self.host, self._queue_s)
                turn.callback(queue.leave)
            self.opened(turn)
            request = self._request(api_kwargs or {}, model_type)
            if not request.streams:
                return self.send(request)
            stream = TextStream(self, request)
            request.turn = turn.pop_all()
            return stream

    async def acall(
        self, api_kwargs: Mapping[str, Any] | None = None, model_type: Any = _ModelType.UNDEFINED
    ) -> Any:
        """Send a request and return a completion, an `AsyncTextStream` (with `stream`), or embeddings."""
        with ExitStack() as turn:
            if (queue := self._queue) is not None:
                await queue.aenter(self.host, self._queue_s)
                turn.callback(queue.leave)
            await self.aopened(turn)
            request = self._request(api_kwargs or {}, model_type)
            if request.streams:
                stream = await AsyncTextStream(self, request).opened()
                request.turn = turn.pop_all()
                return stream
            async with self.connected() as connection:
                return await within(request.bounds, self.asend(connection, request))

    @property
    def _queue(self) -> RequestQueue | None:
        return None if self.at_once is None else queue_of(self.host, self.at_once)

    @property
    def _queue_s(self) -> float:
        """How long a request waits for others of this process."""
        return _QUEUED_TIMEOUTS * max(self.timeout_s, self.first_byte_s or 0.0)

    def opened(self, turn: ExitStack) -> None:
        """Prepare the server for one request; what ends with the request is added to `turn`."""

    async def aopened(self, turn: ExitStack) -> None:
        """Do the same without blocking the event loop."""

    def parse_chat_completion(self, completion: Any) -> Any:
        """Return the text of a completion, or a stream of it, as AdalFlow's GeneratorOutput."""
        output = adalflow.core.types.GeneratorOutput
        if isinstance(completion, (TextStream, AsyncTextStream)):
            return output(data=None, raw_response=completion)
        usage = self.track_completion_usage(completion)
        return output(data=None, raw_response=text_of(completion.choices[0].message.content), usage=usage)

    def track_completion_usage(self, completion: Any) -> Any:
        """Return a completion's usage as AdalFlow's type, or None where the server did not report it."""
        usage = getattr(completion, "usage", None)
        if usage is None:
            return None
        return adalflow.core.types.CompletionUsage(
            completion_tokens=usage.completion_tokens,
            prompt_tokens=usage.prompt_tokens,
            total_tokens=usage.total_tokens,
        )

    def parse_embedding_response(self, response: Any) -> Any:
        """Return an embeddings response as AdalFlow's EmbedderOutput, ordered by `index`."""
        types = adalflow.core.types
        rows = sorted(response.data, key=lambda item: item.index)
        data = [
            types.Embedding(embedding=embedding_row(item.embedding).tolist(), index=item.index)
            for item in rows
        ]
        return types.EmbedderOutput(data=data, model=getattr(response, "model", None))

    def list_models(self) -> list[str]:
        """Return the names of the server's models; see the function of the same name."""
        return list_models(self.base_url, self._key, min(self.timeout_s, 10.0))

    def to_dict(self, exclude: list[str] | None = None) -> dict[str, Any]:
        """Return the configuration, without the key and open connections."""
        return dict(super().to_dict(exclude=[*(exclude or []), *_UNSTORED]))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OpenAICompatibleClient:
        """Create a client from `to_dict`. It has no key, except OPENAI_API_KEY for OpenAI itself."""
        names = ("base_url", "timeout_s", "key_variable", "first_byte_s", "at_once")
        return cls(**{name: data["data"][name] for name in names})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _UNSTORED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.update(
            sync_client=None, async_client=None, _retries=Retries(), _key=checked_key(None, self.host)
        )

    def _extra_repr(self) -> str:
        return f"base_url={self.base_url!r}"

    # ------------------------------------------------------------ one request

    def check_key(self) -> None:
        """Raise AuthenticationFailed when the server is OpenAI and there is no key."""
        if self.is_openai and self._key == "none":
            raise AuthenticationFailed(
                f"OpenAI needs a key; set {self.key_variable}, or --base-url for another server",
                provider=self.host,
                retryable=False,
            )

    def _request(self, api_kwargs: Mapping[str, Any], model_type: Any) -> Request:
        self.check_key()
        body, limit = dict(api_kwargs), None
        within_s = body.pop("within_s", None)
        streams = bool(body.get("stream"))
        if model_type == _ModelType.EMBEDDER:
            body.setdefault("encoding_format", "base64" if self.is_openai else "float")
            max_bytes = embedding_bytes(len(body["input"]))
        else:
            limit = next((body.pop(name) for name in _LIMITS if name in body), None)
            if limit is not None:
                body[self.dialect["limit"]] = limit
            max_bytes = chat_bytes(limit)
            if streams and not self.dialect["stream"]:
                del body["stream"]
            elif streams and self.dialect["stream_options"]:
                body.setdefault("stream_options", {"include_usage": True})
            if not self.dialect["system"]:
                body["messages"] = without_system(body["messages"])
        first_s = self.first_byte_s
        if first_s is not None and not body.get("stream"):
            first_s += whole_answer_s(limit)
        first_s = within_s or first_s
        answer_s = longest_answer_s(limit, self.timeout_s)
        is_fixed = within_s is not None
        bounds = RequestBounds(self.host, self.timeout_s, max_bytes, is_fixed, first_s, answer_s)
        return Request(model_type, body, bounds, streams)

    def init_sync_client(self) -> openai.OpenAI:
        """Return a connection pool for synchronous calls, closed when this client is garbage-collected."""
        pool = openai.OpenAI(**self._connection(), http_client=http_client(self.base_url))
        weakref.finalize(self, pool.close)
        return pool

    def init_async_client(self) -> openai.AsyncOpenAI:
        """Return a connection pool for one event loop; the caller closes it."""
        return openai.AsyncOpenAI(**self._connection(), http_client=async_http_client(self.base_url))

    def _connection(self) -> dict[str, Any]:
        each_s = self.timeout_s if self.first_byte_s is None else None  # else the bounds alone decide
        timeout = openai.Timeout(each_s, connect=min(self.timeout_s, 10.0))
        return {"base_url": self.base_url, "api_key": self._key, "timeout": timeout, "max_retries": 0}

    def connected(self) -> openai.AsyncOpenAI:
        """Return a pool for one asynchronous call: a shared pool would outlive its event loop."""
        return self.init_async_client()

    def send(self, request: Request) -> Any:
        """Send, with retries; return the reply, or the opened stream of events with `stream` in the body."""
        if self.sync_client is None:
            self.sync_client = self.init_sync_client()
        opened = False
        request.bounds.watch()
        try:
            while True:
                try:
                    with sending(request.bounds):
                        reply = _endpoint(self.sync_client, request)(**request.body)
                    checked = self._checked(reply, request)
                    opened = bool(request.body.get("stream"))
                    return checked
                except failures() as error:
                    self.wait(self.pause_s(error, request))
        finally:
            if not opened:
                request.bounds.release()

    async def asend(self, connection: openai.AsyncOpenAI, request: Request) -> Any:
        """Send, with retries, over a connection of the running event loop."""
        while True:
            try:
                with sending(request.bounds):
                    reply = await _endpoint(connection, request)(**request.body)
                return self._checked(reply, request)
            except failures() as error:
                await self.await_(await asyncio.to_thread(self.pause_s, error, request))

    def wait(self, pause_s: float) -> None:
        """Sleep before the next try."""
        if pause_s:
            self._retries.sleep(pause_s)

    async def await_(self, pause_s: float) -> None:
        """Sleep before the next try, without blocking the event loop."""
        if pause_s:
            await self._retries.asleep(pause_s)

    def _checked(self, reply: Any, request: Request) -> Any:
        if request.body.get("stream"):
            return reply
        if request.model_type == _ModelType.EMBEDDER:
            return checked_embeddings(reply, self.host)
        return checked_completion(reply, self.host)

    def pause_s(self, error: Exception, request: Request, received: int = 0) -> float:
        """Return the seconds to wait before the next try, or raise the translated error.

        A parameter that the server refuses is first replaced in `request`, once per parameter.
        """
        left_s = request.bounds.left_s
        if not left_s:
            raise request.bounds.too_long(received) from error
        if self._adapted(error, request):
            return 0.0
        ours = translated(error, self._call(request, received))
        request.attempts += 1
        may_repeat = ours.retryable and not received and "Timeout" not in type(error).__name__
        pause = self._retries.pause_s(request.attempts, retry_after_s(error)) if may_repeat else None
        if pause is None and not received and is_loading(error):
            pause = self._retries.loading_pause_s(request.waited_s)
        if pause is not None and pause < left_s:
            request.waited_s += pause
            return pause
        if isinstance(ours, ProviderRejected) and asks_for_unknown_model(error):
            ours = self._unknown_model(ours, str(request.body.get("model", "")))
        if ours is error:
            raise ours
        raise ours from error

    def _call(self, request: Request, received: int) -> CallContext:
        return CallContext(
            host=self.host,
            model=str(request.body.get("model", "")),
            key=self._key,
            timeout_s=self.timeout_s,
            received=received,
            local=self.is_local,
            key_variable=self.key_variable,
            proxy=str(proxy_of(self.base_url) or ""),
            embeds=request.model_type == _ModelType.EMBEDDER,
        )

    def _adapted(self, error: Exception, request: Request) -> bool:
        """Whether the request was changed to what the server accepts; each change is tried once."""
        used = tuple(name for name in ("stream_options", *_LIMITS, "stream") if name in request.body)
        refused = refused_parameter(error, used) if used else None
        if refused is None and refuses_system_message(error) and "messages" in request.body:
            refused = "system"
        if refused is None or refused in request.adapted:
            return False
        request.adapted.add(refused)
        if refused == "system":
            request.body["messages"] = without_system(request.body["messages"])
        value = request.body.pop(refused, None)
        if refused not in _LIMITS:
            self.dialect[refused] = False
            if refused == "stream":
                request.body.pop("stream_options", None)
        else:
            other = next(name for name in _LIMITS if name != refused)
            request.adapted.add(other)
            request.body[other] = value
            self.dialect["limit"] = other
        return True

    def _unknown_model(self, error: ProviderError, model: str) -> ProviderError:
        try:
            names = self.list_models()
        except ProviderError:
            return error  # the list of models is optional; the refusal matters
        nearest = difflib.get_close_matches(model, names, n=8, cutoff=0.0)
        more = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
        has = f"it has {', '.join(nearest)}{more}" if names else "it lists none"
        message = f"{self.host} has no model {model!r}; {has}. Choose one with --model"
        return ProviderRejected(message, provider=self.host, retryable=False, status=error.status)


_QUEUED_TIMEOUTS = 10
_UNSTORED = ("_key", "_retries", "sync_client", "async_client")


def _sendable(text: str) -> str:
    """Replace lone surrogates (from a terminal or a file name), which JSON cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _endpoint(connection: Any, request: Request) -> Any:
    embeds = request.model_type == _ModelType.EMBEDDER
    return connection.embeddings.create if embeds else connection.chat.completions.create
