"""Compose a prompt of instructions, history, sources, question and answer that never exceeds one budget.

What is shown is decided before: sources and turns are given in the order of their importance. Here they are
cut to the budget. Priorities when space is short:

1. the instructions and the question, always;
2. background, frame, outlines and facts, each all or nothing: it is dropped if it takes more than its share
of the space for turns and sources;
3. the best source, cut at the end of a line if needed;
4. the latest turns, whole, up to a quarter of the budget;
5. the other sources in their order, whole, up to `source_chars`; one that does not fit is skipped for a
smaller one;
6. places, one line of each, up to `_PLACES_TOKENS` and a share of the space that is left;
7. more turns, with the remaining budget.

The size of a source or turn is estimated from its text. The final text is counted, and while it is over the
budget, the last piece added is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from rag.errors import ContextTooSmall
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import TokenCounter
from rag.prompt.background import Known
from rag.prompt.merge import is_within, merge
from rag.prompt.templates import Template
from rag.prompt.views import (
    by_file,
    facts_view,
    files_of,
    numbered_text,
    outline_view,
    place_line,
    plain,
    view_of,
)
from rag.types import CodeFacts, DialogTurn, FileOutline, Hit, NumberedSource, Prompt

_HISTORY_SHARE = 0.25
_LARGE_SHARE, _SMALL_SHARE = 1 / 3, 0.1
"""The share of the space for turns and sources that background and facts may take, and frame and outlines."""

_MESSAGE_TOKENS = 12
"""The tokens that chat services add around two messages; the section markers, which are not sent, more than
compensate.
"""

_PIECE_TOKENS = 20
"""An estimate of what a source or a turn takes in addition to its text."""

_TEMPLATE_TOKENS = 120
"""An estimate of what a template has in addition to its variables."""
_USED = frozenset({"files", "places", "conversation_history"})
"""What of a question is chosen for a prompt that no model reads."""

_PLACES_TOKENS, _PLACES_SHARE, _NUMBER_TOKENS = 600, 0.25, 4
"""The most tokens of all places, also as a share of the space that is left for them, and the tokens of the
number of a place that the facts list anyway.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """What a prompt is composed of.

    Attributes:
        question: as typed.
        standalone_question: as searched; "" means `question`.
        hits: the most important first; those of the same lines are joined.
        places: hits of one line, those of `code_facts` first. Those that no source shows follow the sources.
        turns: oldest first.
        repositories: names of the repositories; with several, each source names its own.
        instructions: the caller's, put after the system prompt; "" for none.
        output_format_str: passed on to the template.
        language: code of the language to answer in.
        frames: what each repository is, for a reader who has not seen it.
        outlines: of the files that most hits are in.
        known: the background.
        warning: what was not found; "" for none.
        missing_words: words of the question that the sources lack, where there is a warning.
        code_facts: what the rules of the question's kind found.
    """

    question: str
    standalone_question: str = ""
    hits: Sequence[Hit] = ()
    places: Sequence[Hit] = ()
    turns: Sequence[DialogTurn] = ()
    repositories: Sequence[str] = ()
    instructions: str = ""
    output_format_str: str = ""
    language: str = "en"
    frames: Sequence[str] = ()
    outlines: Sequence[FileOutline] = ()
    known: Known | None = None
    warning: str = ""
    missing_words: Sequence[str] = ()
    code_facts: CodeFacts | None = None

    @property
    def names_repository(self) -> bool:
        """Whether each source names its repository."""
        return len(self.repositories) > 1 or len({(hit.repo, hit.location) for hit in self.hits}) > 1

    def variables(self, system: Template | None) -> dict[str, object]:
        """Return the variables of a template that are the same whatever fits, sanitized."""
        names = list(self.repositories)
        system_prompt = "" if system is None else system.render(language=self.language, repositories=names)
        return {
            "system_prompt": plain(f"{system_prompt.strip()}\n\n{self.instructions}").strip(),
            "output_format_str": plain(self.output_format_str),
            "input_str": plain(self.question),
            "standalone_question": plain(self.standalone_question or self.question),
            "language": plain(self.language),
            "repositories": [plain(name) for name in names],
            "warning": plain(self.warning),
            "missing_words": [plain(word) for word in self.missing_words],
        }


def compose(
    given: PromptInput,
    *,
    template: Template | None,
    counter: TokenCounter,
    context_tokens: int,
    answer_tokens: int,
    source_chars: int | None = None,
) -> Prompt:
    """Render the prompt for a question: as many sources and turns as fit, never more.

    Args:
        given: what it is composed of.
        template: what is rendered; if it does not use `contexts` or `files` no source is shown, likewise for
            turns. None: no model reads it; it has no text, and sizes are only estimated.
        counter: counts the rendered text.
        context_tokens: the model's context window, prompt and answer together.
        answer_tokens: reserved for the answer.
        source_chars: the characters of the sources after the first, at most; None: what fits. Characters,
            so that all models are shown the same.

    Returns:
        The prompt: `tokens + answer_tokens <= context_tokens`; sources best first, each with exactly the
        lines that are shown, and numbered 1, 2, … in the order in which the template shows them.

    Raises:
        ContextTooSmall: the question, or the question and one line of a source, do not fit.
        TemplateError: the template fails while it is rendered.
    """
    used = template.variables if template else _USED
    shows_sources = not used.isdisjoint({"contexts", "files"})
    draft = _Draft(
        template=template,
        counter=counter,
        name_repository=given.names_repository,
        variables=given.variables(template.system if template else None),
        context_tokens=context_tokens,
        answer_tokens=answer_tokens,
        hits=merge(given.hits) if shows_sources else [],
        places=given.places if "places" in used else (),
        turns=list(given.turns) if "conversation_history" in used else [],
    )
    draft.begin(given)
    draft.add_best_source()
    draft.add_turns(int(draft.budget * _HISTORY_SHARE))
    draft.add_sources(source_chars)
    draft.add_places()
    draft.add_turns(draft.budget)
    return draft.finished(0 if shows_sources else len(merge(given.hits)), len(given.turns))


@dataclass(slots=True)
class _Draft:
    """A prompt under construction.

    `best` is the first source, `added` are the other pieces in the order they were added, each with its
    position: the last is removed first. `left` is the number of tokens that are not taken yet, estimated.
    """

    template: Template | None
    counter: TokenCounter
    name_repository: bool
    variables: dict[str, object]
    context_tokens: int
    answer_tokens: int
    hits: list[Hit]
    places: Sequence[Hit]
    turns: list[DialogTurn]
    code_facts: CodeFacts | None = None
    best: int = -1
    left: int = 0
    added: list[tuple[str, int]] = field(default_factory=list)

    @property
    def budget(self) -> int:
        """The token limit of the rendered text."""
        return self.context_tokens - self.answer_tokens - _MESSAGE_TOKENS

    def render(
        self, hits: Sequence[Hit] = (), turns: Sequence[DialogTurn] = (), places: Sequence[Hit] = ()
    ) -> tuple[str, tuple[NumberedSource, ...]]:
        """Return the text with these pieces, and its sources with their numbers."""
        by_files = self.template is None or "files" in self.template.variables
        groups = by_file(hits) if by_files else [range(len(hits))]
        number = {position: n for n, position in enumerate(chain.from_iterable(groups), start=1)}
        sources = tuple(NumberedSource(number[position], hit) for position, hit in enumerate(hits))
        lines = tuple(NumberedSource(n, hit) for n, hit in enumerate(places, start=len(hits) + 1))
        if self.template is None:
            return "", (*sources, *lines)
        views = [view_of(source, name_repository=self.name_repository) for source in sources]
        found = facts_view(self.code_facts, (*sources, *lines), name_repository=self.name_repository)
        listed = {item.n for item in found.items} if found else set()
        text = self.template.render(
            **self.variables,
            code_facts=found,
            contexts=views,
            files=files_of(views, hits),
            places=[
                place_line(one, name_repository=self.name_repository) for one in lines if one.n not in listed
            ],
            conversation_history=self.template.history(turns),
        )
        return text, (*sources, *lines)

    def tokens(self, hits: Sequence[Hit] = (), turns: Sequence[DialogTurn] = ()) -> int:
        """Return the tokens of the text with these pieces."""
        if self.template:
            return self.counter.count(self.render(hits, turns)[0])
        background = "\n".join(map(str, self.variables.values()))
        facts = self.code_facts.items if self.code_facts else ()
        shown = [background, *(f"{one.place}\n{one.text}" for one in facts), *map(_shown, hits)]
        return _TEMPLATE_TOKENS + sum(map(self._size, shown))

    def begin(self, given: PromptInput) -> None:
        """Add what is not too large of all that is no source and no turn; check that the question fits."""
        nothing: dict[str, object] = {**Known().variables(), "frames": [], "outlines": []}
        self.variables |= nothing
        bare = self.tokens()
        if bare > self.budget:
            raise self._too_small(bare, "the instructions and the question")
        self.left = self.budget - bare
        outlines = [outline_view(one, name_repository=self.name_repository) for one in given.outlines]
        self._add_optional((given.known or Known()).variables(), _LARGE_SHARE)
        self._add_optional({"frames": [plain(frame) for frame in given.frames]}, _SMALL_SHARE)
        self._add_optional({"outlines": outlines if self.hits else []}, _SMALL_SHARE)
        self.code_facts = given.code_facts
        if self.code_facts and not self._take(self.budget - self.left, _LARGE_SHARE):
            self.code_facts = None

    def _add_optional(self, variables: Mapping[str, object], share: float) -> None:
        """Add variables if they take no more than a share of the space that is left."""
        before, without = self.budget - self.left, {name: self.variables[name] for name in variables}
        if variables == without:
            return
        self.variables |= variables
        if not self._take(before, share):
            self.variables |= without

    def _take(self, before: int, share: float) -> bool:
        """Take what the text has grown since it had this number of tokens, if it is not too large."""
        growth = self.tokens() - before
        is_small = growth <= self.left * share
        self.left -= growth if is_small else 0
        return is_small

    def add_best_source(self) -> None:
        """Add the first hit of which at least one line fits, cut if needed."""
        for position, hit in enumerate(self.hits):
            part = _longest_head(hit, lambda head: self.tokens([head]) <= self.budget)
            if part is not None:
                self.hits[position], self.best = part, position
                self.left = self.budget - self.tokens([part])
                return
        if self.hits:
            needed = min(self.tokens([_head(hit, _first_line_with_text(hit))]) for hit in self.hits)
            raise self._too_small(needed, "the instructions, the question and one line of a source")

    def add_sources(self, most_chars: int | None) -> None:
        """Add each further hit that fits whole."""
        chars = 0
        for position in range(self.best + 1, len(self.hits)):
            hit = self.hits[position]
            text = _shown(hit)
            if most_chars is not None and chars + len(text) > most_chars:
                continue
            size = self._size(text)
            if size <= self.left:
                chars += len(text)
                self._add("source", position, size)

    def add_places(self) -> None:
        """Add the places that no source shows, in their order, while they fit."""
        shown = [self.hits[n] for n in (self.best, *self._taken("source"))] if self.hits else []
        items = self.code_facts.items if self.code_facts else ()
        listed = {(item.location, item.path, item.start) for item in items}
        room = min(_PLACES_TOKENS, int(self.left * _PLACES_SHARE))
        for position, hit in enumerate(self.places if shown else ()):
            if any(is_within(hit, one) for one in shown):
                continue
            is_listed = (hit.location, hit.path, hit.start) in listed
            line = place_line(NumberedSource(len(shown), hit), name_repository=self.name_repository)
            size = _NUMBER_TOKENS if is_listed else self.counter.count(line) + 1
            if size <= min(room, self.left):
                room -= 0 if is_listed else size
                shown.append(hit)
                self._add("place", position, size)

    def add_turns(self, room: int) -> None:
        """Add turns, the latest first, until one does not fit into the rest of `room` tokens."""
        added = [self.turns[position] for kind, position in self.added if kind == "turn"]
        room -= sum(self._size_of_turn(turn) for turn in added)
        for position in range(len(self.turns) - 1 - len(added), -1, -1):
            size = self._size_of_turn(self.turns[position])
            if size > min(room, self.left):
                return
            room -= size
            self._add("turn", position, size)

    def finished(self, hidden: int, turns_given: int) -> Prompt:
        """Render what was added; while it is over the budget, remove the last piece."""
        while True:
            taken = self._taken("source")
            hits = [self.hits[position] for position in ([self.best] if self.hits else []) + taken]
            turns = [self.turns[position] for position in self._taken("turn")]
            text, sources = self.render(hits, turns, [self.places[n] for n in self._taken("place")])
            tokens = self.counter.count(text)
            if tokens <= self.budget or not self.added:
                break
            self.added.pop()
        return Prompt(
            text=text,
            sources=sources,
            turns=tuple(turns),
            tokens=tokens,
            answer_tokens=self.answer_tokens,
            dropped_sources=hidden + len(self.hits) - len(hits),
            dropped_turns=turns_given - len(turns),
        )

    def _taken(self, kind: str) -> list[int]:
        """Return the positions of the pieces of a kind that were added, in order."""
        return sorted(position for one, position in self.added if one == kind)

    def _size_of_turn(self, turn: DialogTurn) -> int:
        return self._size(f"{turn.question}\n{turn.answer}")

    def _size(self, text: str) -> int:
        return self.counter.count(text) + _PIECE_TOKENS

    def _add(self, kind: str, position: int, size: int) -> None:
        self.added.append((kind, position))
        self.left -= size

    def _too_small(self, tokens: int, what: str) -> ContextTooSmall:
        return ContextTooSmall(
            context_tokens=self.context_tokens,
            needed_tokens=tokens + self.answer_tokens + _MESSAGE_TOKENS,
            what=f"{what}, with {self.answer_tokens} tokens reserved for the answer",
        )


def _shown(hit: Hit) -> str:
    """Return about the text that a prompt has of a source."""
    return f"{hit.place} {hit.label} {hit.reason}\n{numbered_text(hit)}"


def _longest_head(hit: Hit, fits: Callable[[Hit], bool]) -> Hit | None:
    """Return the most whole lines from the top that fit; None when not even the first line with text does."""
    if fits(hit):
        return hit
    enough, too_many = _first_line_with_text(hit), len(whole_lines_of(hit.text))
    if enough >= too_many or not fits(_head(hit, enough)):
        return None
    while enough + 1 < too_many:
        middle = (enough + too_many) // 2
        if fits(_head(hit, middle)):
            enough = middle
        else:
            too_many = middle
    return _head(hit, enough)


def _head(hit: Hit, count: int) -> Hit:
    head = first_lines(hit, count)
    if head is hit:
        return hit
    reason = "; ".join(filter(None, (hit.reason, f"of lines {hit.start}-{hit.end}")))
    return replace(head, reason=reason)


def first_lines(hit: Hit, count: int) -> Hit:
    """Return the first lines of a place, at least one."""
    lines = whole_lines_of(hit.text)
    if count >= len(lines):
        return hit
    text, _ = without_blank_end("".join(lines[:count]))
    end = hit.start + len(whole_lines_of(text)) - 1
    return replace(hit, span=replace(hit.span, end=end), text=text, blank_end="")


def _first_line_with_text(hit: Hit) -> int:
    return next((n for n, line in enumerate(whole_lines_of(hit.text), start=1) if line.strip()), 1)
