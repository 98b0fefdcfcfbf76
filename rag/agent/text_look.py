"""A look in lines of text, for a model without tools: it asks for steps before a fresh prompt is made.

Such a model is asked for lines such as `LOOK read: src/app.py:10-40`, and ends the look with `ANSWER`, with
the numbers of the sources that it wants (`ANSWER 1,4,7`) or without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag.agent.budget import REPLY_TOKENS
from rag.agent.look import STEP_TOKENS, Look, LookLimits, Surroundings
from rag.agent.protocol import StepRequest, chosen_sources, read_text
from rag.agent.tools import Tools
from rag.prompt.templates import render_look
from rag.prompt.views import SourceView, plain, view_of
from rag.quoting import visible
from rag.types import Hit, NumberedSource, Prepared, TraceStep

_SOURCES_SHARE = 0.5
"""The share of the room for the text of the places found so far; of the others only the place is shown."""


@dataclass(frozen=True, slots=True)
class _Done:
    """A step that was run: its line, and what the model is shown of it."""

    line: str
    result: str


class TextLook(Look):
    """A look with lines of text; then `hits` are those for the prompt of the answer.

    Attributes:
        chosen: the hits that the model wants to answer from; none if it did not choose.
    """

    form = "text"

    def __init__(self, prepared: Prepared, tools: Tools, limits: LookLimits, around: Surroundings) -> None:
        super().__init__(prepared, tools, limits, around)
        self.chosen: tuple[Hit, ...] = ()
        self._done: list[_Done] = []
        self._views: list[SourceView] = []
        self._budget.tokens -= REPLY_TOKENS + STEP_TOKENS
        room = self._budget.tokens - self._counter.count(self._rendered())
        self._views = self._sources_for(self.sources, int(room * _SOURCES_SHARE))
        self._texts = [view.text for view in self._views]
        self._budget.tokens -= self._counter.count(self._rendered())
        self._check()

    def prompt(self) -> str:
        """Return the prompt for the next step."""
        text = self._rendered()
        self._sent += self._counter.count(text)
        return text

    def read(self, reply: str) -> list[StepRequest]:
        """Return the steps that a reply asks for, as many as may still be run; none ends the look."""
        self._budget.requests -= 1
        self._received += self._counter.count(reply)
        pending = read_text(reply, self._texts, self._tools.specs)
        if not pending:
            by_number = {source.n: source.hit for source in self.sources}
            numbers = dict.fromkeys(chosen_sources(reply))
            self.chosen = tuple(by_number[n] for n in numbers if n in by_number)
            self.end("the model has enough")
        return pending[: self._budget.steps]

    def run(self, request: StepRequest) -> TraceStep:
        """Run a step of the last reply, and return what came of it.

        Raises:
            StoreCorrupt, StoreError: a store cannot be read.
        """
        step, result = self._run(request)
        self._budget.tokens -= self._counter.count(result) + self._counter.count(request.shown) + STEP_TOKENS
        self._check()
        self._done.append(_Done(f"LOOK {visible(request.tool)}: {visible(plain(request.shown))}", result))
        self._texts.append(result)
        return step

    def hits(self, first: Sequence[Hit]) -> list[Hit]:
        """Return what the model has chosen, else what was found, then the hits of the search."""
        return list(self.chosen) or super().hits(first)

    def _sources_for(self, sources: Sequence[NumberedSource], room: int) -> list[SourceView]:
        """Return the sources; once there is no more room, without their text."""
        several = len(self._around.repositories) > 1
        views = []
        for source in sources:
            view = view_of(source, name_repository=several)
            room -= self._counter.count(view.text) + STEP_TOKENS
            views.append(view if room >= 0 else replace(view, text=""))
        return views

    def _rendered(self) -> str:
        return render_look(
            self._around.home,
            input_str=plain(self._prepared.question),
            repositories=[plain(name) for name in self._around.repositories],
            contexts=self._views,
            tools=self._tools.specs,
            with_tools=False,
            steps=[{"line": one.line, "result": one.result} for one in self._done],
            left=self._budget.steps if self._done else 0,
        )
