"""Generates answers with AdalFlow's Generator.

`PromptGenerator` works around AdalFlow 1.1.3, which opens a disk cache in the home directory even without
`use_cache`, counts tokens with an encoding that refuses text such as `<|endoftext|>`, cuts prompts to
`max_tokens` characters, and converts exceptions to strings.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from rag.adal import adalflow
from rag.backends.adal_clients import model_client
from rag.backends.command_client import CommandClient
from rag.backends.llama.client import LlamaClient
from rag.backends.openai.answer_limit import AnswerLimit
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.endpoint import only_model, request_limits
from rag.backends.openai.errors import CallContext, translated
from rag.backends.openai.reasoning import Habit, Thoughts
from rag.backends.openai.replies import joined_surrogates, kind_of_end, reason_of_end, refusal_of
from rag.backends.openai.thought_habits import ThoughtHabit
from rag.backends.openai.tools import tools_refused
from rag.backends.openai.written_calls import WrittenCalls
from rag.backends.tiktoken_counter import counter_of_answers
from rag.errors import ProviderBroke, ProviderError, RagError, SettingsError
from rag.settings import Settings
from rag.types import FinishReason, Prepared, Replacement, ToolCall, Usage

_ModelType = adalflow.core.types.ModelType

_raised: ContextVar[Exception | None] = ContextVar(
    "the exception behind a GeneratorOutput.error", default=None
)


class PromptGenerator(adalflow.core.generator.Generator):  # type: ignore[misc]
    """AdalFlow's Generator for rendered prompts, which are sent unchanged.

    Pass `prompt_kwargs={"prompt": text}`; the text is not used as a template. Nothing is cached. The
    exception behind an output's `.error` is stored in the call's context for `AdalGenerator`.
    """

    cache: Any

    def __init__(self, model_client: Any, model_kwargs: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as nowhere:
            super().__init__(
                model_client=model_client,
                model_kwargs=dict(model_kwargs),
                template="{{prompt}}",
                cache_path=nowhere,
                use_cache=False,
            )
            self.cache.close()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.cache = None

    def _pre_call(self, prompt_kwargs: dict[str, Any], model_kwargs: dict[str, Any]) -> Any:
        return self.model_client.convert_inputs_to_api_kwargs(
            input=self.get_prompt(**prompt_kwargs),
            model_kwargs=self._compose_model_kwargs(**model_kwargs),
            model_type=self.model_type,
        )

    def _model_client_call(self, api_kwargs: dict[str, Any], use_cache: bool = False) -> Any:
        try:
            return self.model_client.call(api_kwargs=api_kwargs, model_type=self.model_type)
        except Exception as error:
            _raised.set(error)
            raise

    async def _async_model_client_call(self, api_kwargs: dict[str, Any], use_cache: bool = False) -> Any:
        try:
            return await self.model_client.acall(api_kwargs=api_kwargs, model_type=self.model_type)
        except Exception as error:
            _raised.set(error)
            raise


class AnswerStream(Iterator[str]):
    """The pieces of one answer. `usage`, `finish_reason` and `calls`, of tools, are set at the end.

    `early_end` is the server's reason if `finish_reason` is "interrupted", else "".

    Nothing is sent before the first piece is requested. `close`, the end of the `with` block, and any
    exception close the connection at once.
    """

    def __init__(self, pieces: Callable[[AnswerStream], Iterator[str]]) -> None:
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.early_end = ""
        self.calls: tuple[ToolCall, ...] = ()
        self._pieces: Any = pieces(self)

    def __next__(self) -> str:
        piece: str = next(self._pieces)
        return piece

    def close(self) -> None:
        """Stop the answer and close the connection. Closing twice is allowed."""
        self._pieces.close()

    def __enter__(self) -> AnswerStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncAnswerStream(AsyncIterator[str]):
    """An `AnswerStream` for an event loop; `aclose`, `async with` and cancellation close the connection."""

    def __init__(self, pieces: Callable[[AsyncAnswerStream], AsyncIterator[str]]) -> None:
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.early_end = ""
        self.calls: tuple[ToolCall, ...] = ()
        self._pieces: Any = pieces(self)

    async def __anext__(self) -> str:
        piece: str = await anext(self._pieces)
        return piece

    async def aclose(self) -> None:
        """Stop the answer and close the connection. Closing twice is allowed."""
        await self._pieces.aclose()

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AdalGenerator:
    """Generates answers with an AdalFlow ModelClient; implements `TextGenerator` and `AsyncGenerator`.

    Args:
        client: our clients stream; other AdalFlow clients return the whole answer, as one piece.
        model: the model's name, for the client and for the user.
        model_kwargs: additional arguments of every call, for example `temperature`.
        habit: how the model's answers begin. An answer is only streamed if it is known that they do not begin
            with thoughts without an opening tag. None: they are streamed, and thoughts are replaced.

    All failures are ProviderErrors, including an answer without text. An answer that exceeds its token limit
    is cut, and the connection is closed.
    """

    def __init__(
        self,
        client: Any,
        model: str,
        model_kwargs: Mapping[str, Any] | None = None,
        habit: ThoughtHabit | None = None,
    ) -> None:
        self.generator = PromptGenerator(client, {"model": model, **(model_kwargs or {})})
        self._client, self._model, self._habit = client, model, habit
        self._ours = bool(getattr(client, "streams_text", False))
        self._provider = str(getattr(client, "host", type(client).__name__))
        self._last: AnswerStream | AsyncAnswerStream | None = None
        self.completion_usage: Usage | None = None
        self._counter = counter_of_answers(model)

    @classmethod
    def from_settings(cls, settings: Settings) -> AdalGenerator:
        """Return the configured model; if none is named, the server's only one, or OpenAI's default.

        Raises:
            SettingsError: no model is named and none can be chosen, the client is unknown, the model file is
                missing or damaged, or the command is not found.
            BackendMissing: the client's package is not installed.
            ProviderError: the server failed to list its models, or the key for OpenAI is missing.
        """
        key, limits = settings.api_key, request_limits(settings)
        if path := settings.local_model:
            return cls(LlamaClient(path, settings.context_tokens, **limits), settings.shown_model)
        if (command := settings.command) is not None:
            at_once = settings.model_concurrency or 1
            client = CommandClient(command, settings.timeout_s, at_once)
            return cls(client, settings.shown_model, {"model": settings.model})
        client = model_client(
            settings.client,
            base_url=settings.base_url,
            api_key=key,
            key_variable=settings.api_key_variable,
            **limits,
        )
        if isinstance(client, OpenAICompatibleClient):
            client.check_key()
        if not settings.model and settings.client != "openai":
            raise SettingsError(
                f"the client {settings.client!r} needs a model; name one with --model (RAG_MODEL)"
            )
        model = settings.model or only_model(settings.base_url, key, min(settings.timeout_s, 10.0))
        if not isinstance(client, OpenAICompatibleClient) or client.is_openai:
            return cls(client, model)
        return cls(client, model, habit=ThoughtHabit(settings.home, client.base_url, model))

    @property
    def model(self) -> str:
        """The model's name, as shown to the user."""
        return self._model

    @property
    def fingerprint(self) -> str:
        """The service and all arguments of a call; equal for equal requests."""
        return f"{self._provider} {sorted(self.generator.model_kwargs.items())!r}"

    @property
    def usage(self) -> Usage | None:
        """The tokens of the last finished answer; None if the service did not report them.

        With several concurrent answers, use `usage` of the stream.
        """
        return self._last.usage if self._last else None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the last finished answer ended: "length" if it was cut at its limit; see `FinishReason`."""
        return self._last.finish_reason if self._last else None

    @property
    def early_end(self) -> str:
        """The server's reason for interrupting the last finished answer ("content_filter"), or ""."""
        return self._last.early_end if self._last else ""

    def stream(self, prepared: Prepared) -> AnswerStream:
        """Yield pieces of the answer; see `AnswerStream`.

        Raises:
            ProviderError: during the iteration, possibly in mid-answer.
        """
        return AnswerStream(lambda stream: self._pieces(stream, prepared))

    def astream(self, prepared: Prepared) -> AsyncAnswerStream:
        """Yield pieces of the answer in an event loop; see `AsyncAnswerStream`."""
        return AsyncAnswerStream(lambda stream: self._apieces(stream, prepared))

    def complete(self, text: str, answer_tokens: int = 500, within_s: float | None = None) -> str:
        """Return the model's whole answer to a prompt. It does not count as the last answer.

        Its tokens are `completion_usage` afterwards, None if the service did not report them. The model
        clients of AdalFlow itself do not observe `within_s`.

        Raises:
            ProviderError: the service failed or returned an empty answer.
        """
        return self._completed(self._call(text, self._limited(answer_tokens, within_s)), answer_tokens)

    async def acomplete(self, text: str, answer_tokens: int = 500, within_s: float | None = None) -> str:
        """Like `complete`, without blocking the event loop."""
        output = await self._acall(text, self._limited(answer_tokens, within_s))
        return self._completed(output, answer_tokens)

    def _completed(self, output: Any, answer_tokens: int) -> str:
        ended = AnswerStream(lambda _: iter(()))
        text, shown = self._whole_text(ended, output, AnswerLimit(answer_tokens, self._counter))
        self.completion_usage = ended.usage
        if ended.finish_reason == "interrupted":
            message = f"{self._provider} ended the reply of {self._model} early ({ended.early_end})"
            raise ProviderBroke(message, provider=self._provider, retryable=False)
        return self._require_text(text, ended, shown)

    @property
    def calls_tools(self) -> bool:
        """Whether a `chat` with tools can be sent: our client's server has not refused them."""
        return isinstance(self._client, OpenAICompatibleClient) and self._client.dialect["tools"]

    # ------------------------------------------------------------ one call

    def _pieces(self, stream: AnswerStream, prepared: Prepared) -> Iterator[str]:
        limit = self._limit(prepared)
        if prepared.chat:
            source, usage = self._chat(prepared), None
        else:
            output = self._call(prepared.prompt.text, self._answer_kwargs(prepared))
            if not self._ours:
                yield self._whole(stream, output, limit, is_json=prepared.options.is_json)
                return
            source, usage = output.api_response, output.usage
        shown = _Shown(source, limit, self._known_habit, is_json=prepared.options.is_json)
        try:
            for piece in source:
                if (new := shown.take(piece)) is not None:
                    yield new
                if limit.reached:
                    break
        except ProviderError:
            if (held := shown.rest(is_cut=True)) is not None:
                yield held
            raise
        finally:
            source.close()
        stream.calls = _calls(source, prepared)
        if (new := self._rest(stream, shown, usage)) is not None:
            yield new
        self._last = stream
        self._require_text("…" if shown.is_answer(prepared) or stream.calls else "", stream, shown)

    async def _apieces(self, stream: AsyncAnswerStream, prepared: Prepared) -> AsyncIterator[str]:
        limit = self._limit(prepared)
        if prepared.chat:
            source, usage = await self._achat(prepared), None
        else:
            output = await self._acall(prepared.prompt.text, self._answer_kwargs(prepared))
            if not self._ours:
                yield self._whole(stream, output, limit, is_json=prepared.options.is_json)
                return
            source, usage = output.api_response, output.usage
        shown = _Shown(source, limit, self._known_habit, is_json=prepared.options.is_json)
        try:
            async for piece in source:
                if (new := shown.take(piece)) is not None:
                    yield new
                if limit.reached:
                    break
        except ProviderError:
            if (held := shown.rest(is_cut=True)) is not None:
                yield held
            raise
        finally:
            await source.aclose()
        stream.calls = _calls(source, prepared)
        if (new := self._rest(stream, shown, usage)) is not None:
            yield new
        self._last = stream
        self._require_text("…" if shown.is_answer(prepared) or stream.calls else "", stream, shown)

    def _rest(self, stream: AnswerStream | AsyncAnswerStream, shown: _Shown, usage: Any) -> str | None:
        """Note how an answer has ended; return the text that was held back.

        A cut answer without a closing tag may be all thoughts, so nothing is learned from it.
        """
        usage = getattr(shown.source, "usage", None) or usage
        if usage is not None:
            stream.usage = _usage(usage)
        reason, refusal = reason_of_end(shown.source), refusal_of(shown.source)
        if refusal:
            reason = f"it refused: {refusal}"
        stream.finish_reason = "length" if shown.limit.reached else kind_of_end(reason)
        stream.early_end = reason or "" if stream.finish_reason == "interrupted" else ""
        rest = shown.rest(is_cut=stream.finish_reason == "length")
        if shown.wrote_calls and shown.has_text and stream.finish_reason == "stop":
            stream.finish_reason, stream.early_end = "interrupted", "its reply ends in the call of a tool"
        if (
            self._habit
            and not getattr(shown.source, "calls", ())
            and (stream.finish_reason == "stop" or shown.thoughts.habit == "closes")
        ):
            self._habit.learn(shown.thoughts.habit)
        return rest

    @property
    def _known_habit(self) -> Habit:
        return self._habit.value if self._habit else "answers"

    def _limit(self, prepared: Prepared) -> AnswerLimit:
        return AnswerLimit(prepared.prompt.answer_tokens, self._counter)

    def _answer_kwargs(self, prepared: Prepared) -> dict[str, Any]:
        if not self._ours:
            return {}
        options = prepared.options
        asked = {**options.parameters, **({"stop": list(options.stop)} if options.stop else {})}
        return asked | self._limited(prepared.prompt.answer_tokens) | {"stream": True}

    def _chat(self, prepared: Prepared) -> Any:
        with tools_refused(self._client):
            return self._client.call(self._chat_request(prepared), _ModelType.LLM)

    async def _achat(self, prepared: Prepared) -> Any:
        with tools_refused(self._client):
            return await self._client.acall(self._chat_request(prepared), _ModelType.LLM)

    def _chat_request(self, prepared: Prepared) -> dict[str, Any]:
        assert prepared.chat is not None
        request = {**self.generator.model_kwargs, **self._answer_kwargs(prepared)}
        request |= {"messages": list(prepared.chat.messages), "tools": list(prepared.chat.tools)}
        return request | ({"tool_choice": "none"} if prepared.chat.must_answer else {})

    def _limited(self, answer_tokens: int, within_s: float | None = None) -> dict[str, Any]:
        """Return the limits for our client; others have different parameters and keep their default."""
        limits = {"max_completion_tokens": answer_tokens if answer_tokens > 0 else None, "within_s": within_s}
        return {name: limit for name, limit in limits.items() if limit is not None} if self._ours else {}

    def _call(self, text: str, kwargs: dict[str, Any]) -> Any:
        _raised.set(None)
        output = self.generator.call(prompt_kwargs={"prompt": text}, model_kwargs=kwargs)
        return self._checked(output)

    async def _acall(self, text: str, kwargs: dict[str, Any]) -> Any:
        _raised.set(None)
        output = await self.generator.acall(prompt_kwargs={"prompt": text}, model_kwargs=kwargs)
        return self._checked(output)

    def _checked(self, output: Any) -> Any:
        """Return the output, or raise the error of the call."""
        error = _raised.get()
        _raised.set(None)
        if error is None and output.error is None:
            return output
        if error is None:
            message = f"{self._provider} sent an invalid answer ({output.error})"
            raise ProviderBroke(message, provider=self._provider, retryable=False)
        if isinstance(error, (RagError, *_MISTAKES)):
            raise error
        call = CallContext(host=self._provider, key_variable="its environment variable")
        raise translated(error, call) from error

    def _whole(
        self, stream: AnswerStream | AsyncAnswerStream, output: Any, limit: AnswerLimit, *, is_json: bool
    ) -> str:
        text, shown = self._whole_text(stream, output, limit, is_json=is_json)
        self._last = stream
        return self._require_text(text, stream, shown)

    def _whole_text(
        self,
        stream: AnswerStream | AsyncAnswerStream,
        output: Any,
        limit: AnswerLimit,
        *,
        is_json: bool = False,
    ) -> tuple[str, _Shown]:
        """Return the text of a reply that arrived as a whole; note in `stream` how it has ended."""
        said = next((text for text in (output.data, output.raw_response) if isinstance(text, str)), "")
        habit: Habit = "closes" if self._known_habit == "closes" else ""
        shown = _Shown(output.api_response, limit, habit, is_json=is_json)
        begun = shown.take(joined_surrogates(said)) or ""
        rest = self._rest(stream, shown, output.usage) or ""
        return (rest if isinstance(rest, Replacement) else begun + rest), shown

    def _require_text(self, text: str, ended: AnswerStream | AsyncAnswerStream, shown: _Shown) -> str:
        """Return the text; raise ProviderBroke if it is blank."""
        if text.strip():
            return text
        other, rephrase = "choose another model with --model", "ask in other words"
        if refusal := refusal_of(shown.source):
            why = f"it refused: {refusal.rstrip('.')}. To go on, {rephrase}, or {other}"
        elif shown.wrote_calls:
            why = f"it wrote the call of a tool instead; try again, or {other}"
        elif ended.early_end:
            why = f"its server ended it early ({ended.early_end}); {rephrase}, or {other}"
        elif ended.finish_reason == "length":
            why = "it reached its token limit before any text; raise --answer-tokens (RAG_ANSWER_TOKENS)"
        else:
            why = f"try again, or {other}"
        message = f"{self._model} at {self._provider} gave no answer; {why}"
        retryable = shown.wrote_calls or not ended.early_end
        raise ProviderBroke(message, provider=self._provider, retryable=retryable)


class _Shown:
    """The text of one answer as it arrives, up to its token limit, without thoughts and written calls."""

    def __init__(self, source: Any, limit: AnswerLimit, habit: Habit, *, is_json: bool) -> None:
        self.source, self.limit, self.thoughts = source, limit, Thoughts(habit)
        self.has_text, self._is_json = False, is_json
        self._calls = WrittenCalls()

    @property
    def wrote_calls(self) -> bool:
        """Whether the answer was nothing but calls of tools, or ended in them."""
        return self._calls.found

    def is_answer(self, prepared: Prepared) -> bool:
        """Whether there is text that is an answer; while tools are offered, that before a call is none."""
        return self.has_text and not (prepared.chat and self.wrote_calls)

    def take(self, piece: str) -> str | None:
        """Return what can be shown after the next piece; None for nothing."""
        if getattr(self.source, "has_separate_thoughts", False):
            self.thoughts.release()
        return self._new(self.thoughts.feed(self.limit.take(piece)))

    def rest(self, *, is_cut: bool) -> str | None:
        """Return what was held back until the end; None for nothing."""
        begun = self._new(self.thoughts.close(is_cut=is_cut))
        held = self._calls.close(is_cut=is_cut)
        self.has_text = self.has_text or bool(held.strip())
        text = (begun or "") + held
        return Replacement(text) if isinstance(begun, Replacement) else text or None

    def _new(self, text: str) -> str | None:
        restarted, self.thoughts.restarted = self.thoughts.restarted, False
        if restarted:
            self.has_text, self._calls = False, WrittenCalls()
        text = text if self._is_json else self._calls.feed(text)
        self.has_text = self.has_text or bool(text.strip())
        return Replacement(text) if restarted else text or None


def _calls(source: Any, prepared: Prepared) -> tuple[ToolCall, ...]:
    """Return the tools that a reply calls; none where none may be called, which some servers ignore."""
    calls: tuple[ToolCall, ...] = ()
    if prepared.chat and not prepared.chat.must_answer:
        calls = source.calls
    return calls


_MISTAKES = (TypeError, AttributeError, LookupError, NameError, AssertionError)
"""Programming mistakes, which are not translated."""


_MAX_TOKENS = 10**9
"""Larger token counts are ignored as invalid."""


def _usage(counted: Any) -> Usage | None:
    """Return the tokens of AdalFlow's CompletionUsage or ResponseUsage, or OpenAI's with the same fields."""
    prompt = getattr(counted, "prompt_tokens", None) or getattr(counted, "input_tokens", None)
    answer = getattr(counted, "completion_tokens", None) or getattr(counted, "output_tokens", None)
    counts = [n if isinstance(n, int) and 0 < n < _MAX_TOKENS else 0 for n in (prompt, answer)]
    return Usage(counts[0], counts[1], estimated=False) if any(counts) else None
