"""The loop of a second look: what the model is asked, what it asks for, what was found, and when it ends.

The caller sends `messages` or `prompt` to the model and passes on its reply; nothing here calls a model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rag.agent.budget import REPLY_TOKENS, Budget
from rag.agent.protocol import StepRequest, read_call, read_text
from rag.agent.tools import Found, Tools
from rag.errors import ProviderError
from rag.lines import whole_lines_of
from rag.messages import split_messages
from rag.ports import TokenCounter
from rag.prompt.templates import render_look
from rag.prompt.views import SourceView, plain, view_of
from rag.quoting import fence, visible
from rag.types import Hit, ModelReply, NumberedSource, ToolCall, TraceStep

_SOURCES_SHARE = 0.5
"""The share of the room for the text of the places found so far; of the others only the place is shown."""
_STEP_TOKENS = 40
"""An estimate, on the high side, of what a step takes in addition to its result."""
_AGAIN = "This was asked before; the result is above."
_MAX_REPEATED = 2
"""A small model may ask for the same until its steps are used."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A step that the model asked for and that is to be run; `call` is None if it was a line of text."""

    request: StepRequest
    call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class _Done:
    """A step that was run, and what the model is shown of it."""

    pending: Pending
    result: str


@dataclass(slots=True)
class _Round:
    """A reply of the model, and the steps that it led to."""

    text: str
    done: list[_Done] = field(default_factory=list)


class Look:
    """A second look at the repositories of a question.

    Args:
        question: as typed.
        sources: the numbered sources of the prompt without a second look.
        tools: what a step can do.
        steps: the largest number of steps; seconds: after them no further step begins.
        window: the tokens of the model's context window.
        counter: counts the tokens.
        home: the folder of the user's templates.
        repositories: the names of the repositories.
        clock: the time in seconds.

    Attributes:
        steps: those that were run, then one that says how the look ended.
    """

    def __init__(
        self,
        question: str,
        sources: Sequence[NumberedSource],
        tools: Tools,
        *,
        steps: int,
        seconds: float,
        window: int,
        counter: TokenCounter,
        home: Path,
        repositories: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._question, self._tools, self._counter, self._home = question, tools, counter, home
        self._repositories, self._clock, self._began = repositories, clock, clock()
        self.steps: list[TraceStep] = []
        self._asked: list[Hit] = []
        self._found: list[Hit] = []
        self._rounds: list[_Round] = []
        self._results: dict[tuple[str, str], str] = {}
        self._ended = ""
        self._error = ""
        self._sent = self._received = 0
        self._with_tools = False
        self._sources: list[SourceView] = []
        self._budget = Budget(steps, window - REPLY_TOKENS - _STEP_TOKENS, self._began + seconds)
        room = self._budget.tokens - self._fixed_tokens()
        self._sources = self._views(sources, int(room * _SOURCES_SHARE))
        self._shown = [source.text for source in self._sources]
        self._budget.tokens -= self._fixed_tokens()
        self._check()

    @property
    def ended(self) -> bool:
        """Whether no further step begins."""
        return bool(self._ended)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools in the form of the OpenAI protocol."""
        return [spec.schema() for spec in self._tools.specs]

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation so far, for a model that calls tools."""
        self._with_tools = True
        messages: list[dict[str, Any]] = [*split_messages(self._rendered(with_tools=True))]
        for one in self._rounds:
            calls = [_sent(number, done) for number, done in enumerate(one.done)]
            messages.append({"role": "assistant", "content": one.text, "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": done.result}
                for call, done in zip(calls, one.done, strict=True)
            ]
        if self._rounds:
            messages[-1]["content"] += f"\n\nSteps left: {self._budget.steps}"
        self._sent += self._counter.count(json.dumps([messages, self.schemas], ensure_ascii=False))
        return messages

    def prompt(self) -> str:
        """Return the prompt for the next step, for a model without tools."""
        self._with_tools = False
        text = self._rendered(with_tools=False)
        self._sent += self._counter.count(text)
        return text

    def read(self, reply: ModelReply) -> list[Pending]:
        """Return the steps that a reply asks for, as many as may still be run; none ends the look."""
        self._received += self._counter.count(reply.text)
        self._received += sum(self._counter.count(call.name + call.arguments) for call in reply.calls)
        specs = self._tools.specs
        if self._with_tools:
            pending = [Pending(read_call(call, specs), call) for call in reply.calls]
        else:
            pending = [Pending(request) for request in read_text(reply.text, self._shown, specs)]
        if not pending:
            self._ended = "the model has enough"
            return []
        # The text between calls is the model's own; a long one would only take room.
        self._rounds.append(_Round("" if self._with_tools else reply.text))
        return pending[: self._budget.steps]

    def run(self, pending: Pending) -> TraceStep:
        """Run a step of the last reply, and return what came of it.

        Raises:
            StoreCorrupt, StoreError: a store cannot be read.
        """
        began, request = self._clock(), pending.request
        key = request.tool, request.shown
        if key in self._results and not request.error:
            found, result = Found((), "asked before"), _AGAIN
        else:
            found = self._tools.run(request)
            result = self._results[key] = self._fitting(found)
        (self._asked if found.asked else self._found).extend(found.hits)
        self._shown += [text for _, text in found.parts if text]
        self._rounds[-1].done.append(_Done(pending, result))
        self._budget.steps -= 1
        self._budget.tokens -= self._counter.count(result) + self._counter.count(request.shown) + _STEP_TOKENS
        step = TraceStep(
            f"look {visible(request.tool)}",
            visible(plain(request.shown)),
            found.summary,
            found.error,
            round(self._clock() - began, 3),
        )
        self.steps.append(step)
        self._check()
        return step

    def failed(self, error: ProviderError, *, calls_tools: bool) -> None:
        """Note that the model failed: the look ends, or goes on in text if only the tools were refused."""
        if not (self._with_tools and not calls_tools):
            self._ended, self._error = "the model failed", str(error)

    def close(self) -> TraceStep:
        """End the look and return the step that says how it ended, which `steps` then holds too."""
        how = "tools" if self._with_tools else "text"
        counts = f"about {self._sent:,} + {self._received:,} tokens"
        number = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        ended = self._ended or "interrupted"
        took = round(self._clock() - self._began, 3)
        step = TraceStep("look", how, f"{number}, {counts}; {ended}", self._error, took)
        self.steps.append(step)
        return step

    def hits(self, first: Sequence[Hit]) -> list[Hit]:
        """Return all hits for the answer: what the model asked to read, then the first and the found in turn.

        Hits of the same lines are listed once.
        """
        mixed = [hit for pair in zip_longest(first, self._found) for hit in pair if hit is not None]
        unique = {(hit.location, hit.path, hit.start, hit.end): hit for hit in (*self._asked, *mixed)}
        return list(unique.values())

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return self._clock() - self._began

    def _check(self) -> None:
        last = [done.result for one in self._rounds for done in one.done][-_MAX_REPEATED:]
        if last == [_AGAIN] * _MAX_REPEATED:
            self._ended = self._ended or "the model repeats itself"
        self._ended = self._ended or self._budget.ended(self._clock())

    def _views(self, sources: Sequence[NumberedSource], room: int) -> list[SourceView]:
        """Return the sources; once there is no more room, without their text."""
        several = len(self._repositories) > 1
        views = []
        for source in sources:
            view = view_of(source, name_repository=several)
            room -= self._counter.count(view.text) + _STEP_TOKENS
            views.append(view if room >= 0 else _without_text(view))
        return views

    def _fixed_tokens(self) -> int:
        """Return the tokens of the first request, with tools or in text, whichever has more."""
        schemas = self._counter.count(json.dumps(self.schemas))
        text, head = (
            self._counter.count(self._rendered(with_tools=with_tools)) for with_tools in (False, True)
        )
        return max(text, schemas + head)

    def _rendered(self, *, with_tools: bool) -> str:
        done = [] if with_tools else [done for one in self._rounds for done in one.done]
        return render_look(
            self._home,
            input_str=plain(self._question),
            repositories=[plain(name) for name in self._repositories],
            contexts=self._sources,
            tools=self._tools.specs,
            with_tools=with_tools,
            steps=[{"line": _line(one.pending.request), "result": one.result} for one in done],
            left=self._budget.steps if self._rounds else 0,
        )

    def _fitting(self, found: Found) -> str:
        """Return what the model is shown of a result: as many parts and lines as there is room for."""
        shown = ""
        for head, text in found.parts:
            lines = whole_lines_of(text)
            count = self._most(shown + head, lines)
            if lines and not count:
                break
            shown += _part(head, lines[:count], cut=count < len(lines))
        return shown.strip() or "The result does not fit into what is left of the context."

    def _most(self, before: str, lines: Sequence[str]) -> int:
        """Return how many of the lines there is room for after a text, 0 for none."""
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._counter.count(_part(before, lines[:middle], cut=True)) <= self._budget.room
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def _part(head: str, lines: Sequence[str], *, cut: bool = False) -> str:
    """Return a part of a result: its text between fences that it cannot close."""
    if not lines:
        return f"{head}\n"
    text = "".join(lines).rstrip("\r\n") + ("\n…" if cut else "")
    mark = fence(text)
    return f"{head}\n{mark}\n{text}\n{mark}\n"


def _line(request: StepRequest) -> str:
    return f"LOOK {visible(request.tool)}: {visible(plain(request.shown))}"


def _without_text(view: SourceView) -> SourceView:
    return replace(view, text="")


def _sent(number: int, done: _Done) -> dict[str, Any]:
    """Return a call as it is sent back, with its arguments as they were read, which are JSON in any case."""
    request, call = done.pending.request, done.pending.call
    arguments = json.dumps(request.arguments, ensure_ascii=False)
    function = {"name": request.tool, "arguments": arguments}
    return {"id": call.id if call else f"call_{number}", "type": "function", "function": function}
