"""The state of a second look: what was found, how much room is left, and when it ends.

Nothing here calls a model: see `rag.agent.tool_look` and `rag.agent.text_look`, which have its two forms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag.agent.budget import Budget
from rag.agent.protocol import StepRequest
from rag.agent.results import NEAR_LINES, Found, FoundPart
from rag.agent.tools import Tools
from rag.lines import whole_lines_of
from rag.ports import TokenCounter
from rag.prompt.compose import first_lines
from rag.prompt.merge import is_within
from rag.prompt.views import line_row, numbered_text, place_line, plain, view_of, what_of
from rag.quoting import fence, visible
from rag.types import Hit, NumberedSource, Prepared, TraceStep

STEP_TOKENS = 40
"""An estimate, on the high side, of what a step takes in addition to its result."""
_AGAIN = "This was asked before; the result is above."
_NO_ROOM = "The result does not fit into what is left of the context."
_REST_TOKENS = 80
"""Reserved for the words on what is not shown of a result."""
_NEARLY = 2
"""A place of which only a few lines do not fit is shown whole, in this many times the room."""
_MAX_REPEATED = 2
"""A small model may ask for the same until its steps are used."""


@dataclass(frozen=True, slots=True)
class LookLimits:
    """The limits of a look: of steps, of requests to the model, of seconds, and of the tokens of its window.

    After `seconds` no further step begins.
    """

    steps: int
    requests: int
    seconds: float
    window: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a look works with: the counter of tokens, the folder of the user's templates, the names of the
    repositories, and the time in seconds.
    """

    counter: TokenCounter
    home: Path
    repositories: Sequence[str]
    clock: Callable[[], float] = time.monotonic


class Look:
    """A second look at the repositories of a question.

    Args:
        prepared: the question, with the numbered sources of its prompt.
        tools: what a step can do.
        limits: when the look ends.
        around: what it works with.

    Attributes:
        steps: those that were run, then one that says how the look ended.
        sources: what the model was shown, numbered in that order: first the sources of the prompt.
    """

    form = ""
    """How the model asks for steps: "tools" or "text"."""

    def __init__(self, prepared: Prepared, tools: Tools, limits: LookLimits, around: Surroundings) -> None:
        self.steps: list[TraceStep] = []
        self.sources = list(prepared.prompt.sources)
        self._prepared, self._tools, self._around = prepared, tools, around
        self._counter, self._clock = around.counter, around.clock
        self._began = self._clock()
        self._budget = Budget(limits.steps, limits.window, self._began + limits.seconds, limits.requests)
        self._results: dict[tuple[str, str], str] = {}
        self._last: list[str] = []
        self._seen: dict[str, set[int]] = {}
        self._found: list[Hit] = []
        self._outlines: set[int] = set()
        self._ended = self._error = ""
        self._sent = self._received = 0
        for source in self.sources:
            self._see(source.hit)

    @property
    def ended(self) -> bool:
        """Whether no further step begins."""
        return bool(self._ended)

    @property
    def has_found(self) -> bool:
        """Whether a step was run."""
        return bool(self.steps)

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return self._clock() - self._began

    def end(self, why: str, error: str = "") -> None:
        """End the look: no further step begins."""
        self._ended, self._error = self._ended or why, error

    def close(self) -> TraceStep:
        """End the look and return the step that says how it ended, which `steps` then holds too."""
        counts = f"about {self._sent:,} + {self._received:,} tokens"
        number = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        said = f"{number}, {counts}; {self._ended or 'interrupted'}"
        step = TraceStep("look", self.form, said, self._error, round(self.seconds, 3))
        self.steps.append(step)
        return step

    def hits(self, first: Sequence[Hit]) -> list[Hit]:
        """Return the hits for an answer: what was found, then those of the search, each place once."""
        unique = {(hit.location, hit.path, hit.start, hit.end): hit for hit in (*self._found, *first)}
        return list(unique.values())

    def _run(self, request: StepRequest) -> tuple[TraceStep, str]:
        """Run a step; return it for people, and what the model is shown of it."""
        began = self._clock()
        key = request.tool, request.shown
        if key in self._results and not request.error:
            found, result, cut = Found((), "asked before"), _AGAIN, ""
        else:
            seen = self._seen if len(self._tools.indexes) == 1 else {}
            found = self._tools.run(request, seen)
            result, cut = self._fitting(found)
            self._results[key] = result
        self._budget.steps -= 1
        step = TraceStep(
            f"look {visible(request.tool)}",
            visible(plain(request.shown)),
            "; ".join(filter(None, (found.summary, cut))),
            found.error,
            round(self._clock() - began, 3),
        )
        self.steps.append(step)
        self._last = [*self._last, result][-_MAX_REPEATED:]
        return step, result

    def _check(self) -> None:
        if self._last == [_AGAIN] * _MAX_REPEATED:
            self.end("the model repeats itself")
        elif why := self._budget.ended(self._clock()):
            self.end(why)

    # ------------------------------------------------------------ what the model is shown

    def _fitting(self, found: Found) -> tuple[str, str]:
        """Return what the model is shown of a result, as many parts and lines as there is room for, and in
        words what it is not shown.
        """
        room = self._budget.room(found.max_tokens) - (_REST_TOKENS if found.rest else 0)
        shown, at, cut = "", 0, ""
        while at < len(found.parts):
            run = _lines_of_one_file(found.parts[at:])
            if run:
                text, count = self._rows(run, room)
            else:
                (text, cut), count = self._part(found.parts[at], room), 1
            if not text:
                break
            shown += text
            room -= self._counter.count(text)
            at += count
        left = len(found.parts) - at
        if rest := found.rest(at) if found.rest else "":
            shown += f"Not shown: {rest}\n"
        elif left and shown:
            shown += f"… {left} more did not fit\n"
        return shown.strip() or _NO_ROOM, f"{left} of {len(found.parts)} parts not shown" if left else cut

    def _rows(self, run: Sequence[FoundPart], room: int) -> tuple[str, int]:
        """Return places of one line each in one file, as many as fit, and how many these are."""
        places = [(part, at_lines(part)) for part in run]
        are_several = sum(not self._number_of(hit, part) for part, hit in places) > 1
        text, path, known, count = "", self._path(places[0][1]), dict[int, list[str]](), 0
        for part, hit in places:
            if number := self._number_of(hit, part):
                said = f" ({part.head})" if part.head else ""
                known.setdefault(number, []).append(f"{hit.start}{said}")
            else:
                row = self._row(hit, part, with_path=not are_several)
                row = row if text or not are_several else f"{path}:\n{row}"
                if self._counter.count(text + row) > room:
                    break
                text += row
                self._take(hit, part)
            count += 1
        above = "; ".join(f"[{number}]: {', '.join(lines)}" for number, lines in known.items())
        return text + (f"{path}: shown above in {above}\n" if above else ""), count

    def _row(self, hit: Hit, part: FoundPart, *, with_path: bool) -> str:
        """Return a place of one line: `[7] path:37 name — line`, or without its path."""
        source, line = NumberedSource(len(self.sources) + 1, hit), part.lines[0][1]
        if not with_path:
            return f"[{source.n}] {line_row(hit, part.head, line)}\n"
        several = len(self._tools.indexes) > 1
        return place_line(source, name_repository=several, about=part.head, line=line) + "\n"

    def _part(self, part: FoundPart, room: int) -> tuple[str, str]:
        """Return a part as text, its place being added to the sources, and in words what is cut; "" if
        nothing of it fits.
        """
        hit, n = part.hit, len(self.sources) + 1
        if hit is None or part.text or part.lines:
            text = self._whole_part(n, part)
            if self._counter.count(text) > room:
                return "", ""
            if hit and not self._number_of(hit, part):
                self._take(hit, part)
            return text, ""
        if known := self._number_of(hit, part):
            return self._again(known, hit, part), ""
        low, high = 0, len(whole_lines_of(hit.text))
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._counter.count(self._block(n, first_lines(hit, middle), part.head)) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        if not low:
            return "", ""
        whole = self._block(n, hit, part.head)
        is_nearly_whole = len(whole_lines_of(hit.text)) - low <= NEAR_LINES
        if is_nearly_whole and self._counter.count(whole) <= min(self._budget.tokens, room * _NEARLY):
            self._take(hit, part)
            return whole, ""
        cut = first_lines(hit, low)
        self._take(cut, part)
        return self._block(n, cut, f"cut, read on from {cut.end + 1}"), f"shown to line {cut.end}"

    def _whole_part(self, n: int, part: FoundPart) -> str:
        """Return a part that is shown as a whole or not at all: text, an outline, or a few lines."""
        hit = part.hit
        if hit is None:
            return f"{part.head}\n" + (_fenced(part.text) if part.text else "")
        if part.text:
            return f"[{n}] {self._place(hit)} ({part.head})\n{_fenced(part.text)}"
        if known := self._number_of(hit, part):
            return self._again(known, hit, part)
        shown, last = f"[{n}] {self._place(hit)} {what_of(hit, part.head)}".rstrip() + "\n", hit.start
        for number, text in part.lines:
            shown += ("…\n" if number > last + 1 else "") + f"{number} {visible(plain(text))}\n"
            last = number
        return shown

    def _again(self, n: int, hit: Hit, part: FoundPart) -> str:
        return f"[{n}] {self._place(hit)} is shown above{f' ({part.head})' if part.head else ''}\n"

    def _path(self, hit: Hit) -> str:
        return visible(plain(f"{hit.repo}:{hit.path}" if len(self._tools.indexes) > 1 else hit.path))

    def _place(self, hit: Hit) -> str:
        lines = str(hit.start) if hit.start == hit.end else f"{hit.start}-{hit.end}"
        return f"{self._path(hit)}:{lines}"

    def _block(self, n: int, hit: Hit, note: str) -> str:
        """Return a place with all of its text, as the sources of the prompt are shown."""
        view = view_of(NumberedSource(n, hit), name_repository=len(self._tools.indexes) > 1)
        about = "; ".join(filter(None, (view.what, note)))
        head = f"[{n}] {view.place}{f' ({about})' if about else ''}"
        return f"{head}\n{view.fence}{view.language}\n{numbered_text(hit)}\n{view.fence}\n"

    def _number_of(self, hit: Hit, part: FoundPart) -> int:
        """Return the number of the source that shows these lines already, 0 for none."""
        lines = [number for number, _ in part.lines] or range(hit.start, hit.end + 1)
        if part.text or not self._seen.get(hit.path, set()).issuperset(lines):
            return 0
        shown = (one for one in self.sources if one.n not in self._outlines)
        return next((source.n for source in shown if is_within(hit, source.hit)), 0)

    def _take(self, hit: Hit, part: FoundPart) -> None:
        """Add a source that the model is shown. A score of 0: a look does not say how well it fits."""
        n = len(self.sources) + 1
        self.sources.append(NumberedSource(n, replace(hit, score=0.0)))
        if part.text:
            self._outlines.add(n)
        else:
            self._found.append(replace(hit, score=1.0))
            self._see(hit, [number for number, _ in part.lines])

    def _see(self, hit: Hit, lines: Sequence[int] = ()) -> None:
        """Note the lines that the model was shown; an outline shows none of its span."""
        if len(whole_lines_of(hit.text)) == hit.end - hit.start + 1:
            self._seen.setdefault(hit.path, set()).update(lines or range(hit.start, hit.end + 1))


def at_lines(part: FoundPart) -> Hit:
    """Return a place of which one line is shown, as it is cited: this line."""
    assert part.hit is not None
    hit, (number, _) = part.hit, part.lines[0]
    if hit.start == hit.end:
        return hit
    text = whole_lines_of(hit.text)[number - hit.start]
    return replace(hit, span=replace(hit.span, start=number, end=number), text=text, blank_end="")


def _lines_of_one_file(parts: Sequence[FoundPart]) -> list[FoundPart]:
    """Return the first parts of which one line is shown, and that are in one file."""
    run: list[FoundPart] = []
    for part in parts:
        if part.hit is None or len(part.lines) != 1:
            break
        first = run[0].hit if run else part.hit
        if first is None or (first.location, first.path) != (part.hit.location, part.hit.path):
            break
        run.append(part)
    return run


def _fenced(text: str) -> str:
    """Return text of a repository between fences that it cannot close."""
    mark = fence(text)
    return f"{mark}\n{text}\n{mark}\n"
