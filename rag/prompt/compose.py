"""Compose a prompt of instructions, history, sources, question and answer that never exceeds one budget.

Priorities when space is short:

1. the instructions and the question, always; the background, all or nothing, while it takes less than a third
of the space for turns and sources;
2. the best source, cut at the end of a line if needed;
3. the latest turns, whole, up to a quarter of the budget;
4. the other sources in their order, whole; one that does not fit is skipped for a smaller one;
5. more turns, with the remaining budget;
6. other parts of the definitions that are shown in part, with what remains then;
7. outlines, whole, in their order, in half of what remains then;
8. the surroundings, whole, in their order, each as a source of its own, while there is room.

The cost of a piece is the growth of the rendered template when the piece is added to the best source, so that
any template is accounted for. The sum is a close estimate; the final text is counted, and while it is over
the budget, the last piece added is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rag.errors import ContextTooSmall
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import TokenCounter
from rag.prompt.background import Known
from rag.prompt.merge import add, is_within, merge
from rag.prompt.templates import Template
from rag.prompt.views import facts_view, plain, view_of
from rag.types import CodeFacts, DialogTurn, Hit, NumberedSource, Prompt

_HISTORY_SHARE = 0.25

_MESSAGE_TOKENS = 12
"""The tokens that chat services add around two messages; the section markers, which are not sent, more than
compensate.
"""

_SOURCE_TOKENS = 20
"""An estimate of what a source takes in addition to its text, place, name and reason."""
_MIN_ROOM, _MAX_MISSES = 200, 5
"""Surroundings are read while more tokens remain than that, and until that many in a row do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """What a prompt is composed of.

    Attributes:
        question: as typed.
        standalone_question: as searched; "" means `question`.
        hits: best first.
        turns: oldest first.
        repositories: names of the repositories; with several, each source names its own.
        instructions: the caller's, put after the system prompt; "" for none.
        output_format_str: passed on to the template.
        language: code of the language to answer in.
        parts: other parts of the hits' definitions; each is shown only where it joins a shown one.
        surroundings: what else to show, best first; not read any further once there is no room.
        outlines: texts that are not the lines of their spans, best first; the last sources, never joined.
        known: the background; dropped if it takes a third of the space for turns and sources.
        warning: that the repository probably does not hold the answer; "" for none.
        missing_words: words of the question that the sources lack, where there is a warning.
        code_facts: what the rules of the question's kind found; shown before the sources.
    """

    question: str
    standalone_question: str = ""
    hits: Sequence[Hit] = ()
    turns: Sequence[DialogTurn] = ()
    repositories: Sequence[str] = ()
    instructions: str = ""
    output_format_str: str = ""
    language: str = "en"
    parts: Sequence[Hit] = ()
    surroundings: Iterable[Hit] = ()
    outlines: Iterable[Hit] = ()
    known: Known | None = None
    warning: str = ""
    missing_words: Sequence[str] = ()
    code_facts: CodeFacts | None = None

    @property
    def names_repository(self) -> bool:
        """Whether each source names its repository."""
        return len(self.repositories) > 1 or len({(hit.repo, hit.location) for hit in self.hits}) > 1

    def variables(self, template: Template) -> dict[str, object]:
        """Return the variables of a template that are the same whatever fits, sanitized."""
        system = template.system
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
            **(self.known or Known()).variables(),
        }


def compose(
    given: PromptInput, *, template: Template, counter: TokenCounter, context_tokens: int, answer_tokens: int
) -> Prompt:
    """Render the prompt for a question: as many sources and turns as fit, never more.

    Args:
        given: what it is composed of.
        template: what is rendered; if it does not use `contexts` no source is shown, likewise for turns.
        counter: counts the rendered text.
        context_tokens: the model's context window, prompt and answer together.
        answer_tokens: reserved for the answer.

    Returns:
        The prompt: `tokens + answer_tokens <= context_tokens`; sources numbered 1, 2, … best first, each with
        exactly the lines that are shown; parts of one definition are joined.

    Raises:
        ContextTooSmall: the question, or the question and one line of a source, do not fit.
        TemplateError: the template fails while it is rendered.
    """
    draft = _Draft(
        template=template,
        counter=counter,
        name_repository=given.names_repository,
        variables=given.variables(template),
        context_tokens=context_tokens,
        answer_tokens=answer_tokens,
        hits=list(given.hits) if "contexts" in template.variables else [],
        parts=list(given.parts),
        code_facts=given.code_facts,
        turns=list(given.turns) if "conversation_history" in template.variables else [],
    )
    draft.drop_large_facts()
    draft.drop_large_background()
    if not draft.add_everything():
        draft.add_what_fits()
    draft.add_parts()
    draft.add_outlines(given.outlines)
    draft.add_surroundings(given.surroundings)
    return draft.finished(len(given.hits), len(given.turns))


@dataclass(slots=True)
class _Draft:
    """A prompt under construction. `added` holds the pieces in the order they were added: the last is removed
    first.

    `base_tokens` are those of the text with `best`, None until they are needed; `everything` is the text with
    all hits and turns, its sources and tokens, as long as nothing was added to it. `definitions` are the
    whole ones of which a part may be shown. `merged` is all that was added, merged; None if it is not known.
    """

    template: Template
    counter: TokenCounter
    name_repository: bool
    variables: dict[str, object]
    context_tokens: int
    answer_tokens: int
    hits: list[Hit]
    parts: list[Hit]
    code_facts: CodeFacts | None
    turns: list[DialogTurn]
    best: list[Hit] = field(default_factory=list)
    base_tokens: int | None = None
    next_hit: int = 0
    turn_tokens: int = 0
    left: int = 0
    added: list[tuple[str, int]] = field(default_factory=list)
    everything: tuple[str, tuple[NumberedSource, ...], int] | None = None
    surroundings: list[Hit] = field(default_factory=list)
    outlines: list[Hit] = field(default_factory=list)
    definitions: list[Hit] = field(default_factory=list)
    merged: list[Hit] | None = None

    def __post_init__(self) -> None:
        """Join the definitions that are divided, to say what is shown of them."""
        if self.parts:
            divided = {(part.path, part.symbol, part.scope) for part in self.parts}
            whole = [hit for hit in self.hits if (hit.path, hit.symbol, hit.scope) in divided]
            self.definitions = merge([*whole, *self.parts])

    @property
    def budget(self) -> int:
        """The token limit of the rendered text."""
        return self.context_tokens - self.answer_tokens - _MESSAGE_TOKENS

    def render(
        self, merged: Sequence[Hit], turns: Sequence[DialogTurn]
    ) -> tuple[str, tuple[NumberedSource, ...]]:
        """Return the text with these merged hits and turns, and its sources with their numbers."""
        sources = tuple(NumberedSource(n, hit) for n, hit in enumerate(merged, start=1))
        views = [
            view_of(source, name_repository=self.name_repository, whole=self._whole(source.hit))
            for source in sources
        ]
        history = self.template.history(turns)
        found = facts_view(self.code_facts, sources, name_repository=self.name_repository)
        text = self.template.render(
            **self.variables, code_facts=found, contexts=views, conversation_history=history
        )
        return text, sources

    def _whole(self, shown: Hit) -> Hit | None:
        """Return the definition that a source is a part of, if it is known."""
        names = shown.symbol, shown.scope
        of_name = (one for one in self.definitions if (one.symbol, one.scope) == names)
        return next((one for one in of_name if is_within(shown, one)), None)

    def tokens(self, hits: Sequence[Hit] = (), turns: Sequence[DialogTurn] = ()) -> int:
        """Return the tokens of the text with these pieces."""
        return self.counter.count(self.render(merge(hits), turns)[0])

    def drop_large_facts(self) -> None:
        """Drop the facts if they would take more than a third of the space for turns and sources."""
        found, self.code_facts = self.code_facts, None
        if found is None:
            return
        room = self.budget - self.tokens()
        self.code_facts = found
        if self.budget - self.tokens() < room * 2 // 3:
            self.code_facts = None

    def drop_large_background(self) -> None:
        """Drop the background if it would take more than a third of the space for turns and sources."""
        bare = self.variables | Known().variables()
        if bare == self.variables:
            return
        full, self.variables = self.variables, bare
        room = self.budget - self.tokens()
        self.variables = full
        if self.budget - self.tokens() < room * 2 // 3:
            self.variables = bare

    def add_everything(self) -> bool:
        """Add all hits, turns and parts at once if they fit, which is the usual case; else add none.

        If they fit without the parts, the parts are left to be added one by one.
        """
        shown = merge(self.hits)
        joining, joined = self._joining(shown)
        for parts, merged in ((joining, joined), ([], shown)) if joining else (([], shown),):
            text, sources = self.render(merged, self.turns)
            tokens = self.counter.count(text)
            if tokens <= self.budget:
                self.best, self.left = self.hits[:1], self.budget - tokens
                self.everything = text, sources, tokens
                self.added += [("source", position) for position in range(len(self.hits))]
                self.added += [("turn", position) for position in reversed(range(len(self.turns)))]
                self.added += [("part", position) for position in parts]
                return True
        return False

    def _joining(self, shown: list[Hit]) -> tuple[list[int], list[Hit]]:
        """Return the parts that join a shown hit, or a part that does, in order, and all of them merged."""
        joining: list[int] = []
        for position, part in enumerate(self.parts if shown else ()):
            joined = [*shown]
            add(joined, part)
            if len(joined) <= len(shown):
                joining.append(position)
                shown = joined
        return joining, shown

    def cost(self, hits: Sequence[Hit] = (), turns: Sequence[DialogTurn] = ()) -> int:
        """Return the tokens of these pieces in addition to the best source."""
        if self.base_tokens is None:
            self.base_tokens = self.tokens(self.best)
        return self.tokens([*self.best, *hits], turns) - self.base_tokens

    def add_what_fits(self) -> None:
        """Add the best source, then turns up to their share, more sources, and more turns."""
        self.begin()
        self.add_best_source()
        self.add_turns(int(self.budget * _HISTORY_SHARE))
        self.add_sources()
        self.add_turns(self.budget)

    def begin(self) -> None:
        """Check that the question fits."""
        self.base_tokens = self.tokens()
        self.left = self.budget - self.base_tokens
        if self.left < 0:
            raise self._too_small(self.base_tokens, "the instructions and the question")

    def add_best_source(self) -> None:
        """Add the first hit of which at least one line fits, cut if needed."""
        for position, hit in enumerate(self.hits):
            add(self.definitions, hit)
            part = _longest_head(hit, lambda head: self.tokens([head]) <= self.budget)
            if part is None:
                continue
            self.hits[position] = part
            self.best, self.next_hit = [part], position + 1
            self.base_tokens = self.tokens([part])
            self.left = self.budget - self.base_tokens
            self.added.append(("source", position))
            return
        if self.hits:
            needed = min(self.tokens([_head(hit, _first_line_with_text(hit))]) for hit in self.hits)
            raise self._too_small(needed, "the instructions, the question and one line of a source")

    def add_sources(self) -> None:
        """Add each further hit that fits whole."""
        for position in range(self.next_hit, len(self.hits)):
            if self.left <= 0:
                return
            cost = self.cost([self.hits[position]])
            if cost <= self.left:
                self._add("source", position, cost)

    def add_turns(self, share: int) -> None:
        """Add turns, the latest first, until one does not fit into the rest of `share` tokens."""
        begin = len(self.turns) - 1 - sum(kind == "turn" for kind, _ in self.added)
        for position in range(begin, -1, -1):
            cost = self.cost(turns=[self.turns[position]])
            if cost > self.left or self.turn_tokens + cost > share:
                return
            self.turn_tokens += cost
            self._add("turn", position, cost)

    def add_parts(self) -> None:
        """Add each part that joins a source and fits whole."""
        if not self.parts or any(kind == "part" for kind, _ in self.added):
            return  # all of them were added with everything else
        shown = self._merged()
        for position, part in enumerate(self.parts if shown else ()):
            joined = [*shown]
            add(joined, part)
            if self.left <= 0:
                return
            if len(joined) <= len(shown) and (cost := self.cost([part])) <= self.left:
                self._add("part", position, cost)
                shown = joined

    def add_outlines(self, pieces: Iterable[Hit]) -> None:
        """Add each piece that fits whole into half of the room; of pieces with the same lines, the first.

        Its cost is estimated from its text.
        """
        room = self.left // 2
        for piece in pieces if room > _MIN_ROOM and self.added else ():
            cost = self._estimate(piece)
            if cost <= room and all(piece.span != other.span for other in self.outlines):
                room -= cost
                self.outlines.append(piece)
                self._add("outline", len(self.outlines) - 1, cost)

    def add_surroundings(self, pieces: Iterable[Hit]) -> None:
        """Add each piece that fits whole and is not shown yet. Its cost is estimated from its text."""
        shown, misses = self._merged(), 0
        for piece in pieces if shown and self.left > _MIN_ROOM else ():
            if any(is_within(piece, hit) for hit in shown):
                continue
            cost = self._estimate(piece)
            fits = cost <= self.left
            misses = 0 if fits else misses + 1
            if fits:
                self.surroundings.append(piece)
                self._add("surroundings", len(self.surroundings) - 1, cost)
                add(shown, piece)
            if self.left <= _MIN_ROOM or misses >= _MAX_MISSES:
                break
        self.merged = shown

    def finished(self, hits_given: int, turns_given: int) -> Prompt:
        """Render what was added; while it is over the budget, remove the last piece."""
        while True:
            turns = [self.turns[i] for i in sorted(i for kind, i in self.added if kind == "turn")]
            text, sources, tokens = self.everything or self._counted(turns)
            if tokens <= self.budget:
                break
            self.added.pop()
            self.merged = None
        return Prompt(
            text=text,
            sources=sources,
            turns=tuple(turns),
            tokens=tokens,
            answer_tokens=self.answer_tokens,
            dropped_sources=hits_given - sum(kind == "source" for kind, _ in self.added),
            dropped_turns=turns_given - len(turns),
        )

    def _counted(self, turns: Sequence[DialogTurn]) -> tuple[str, tuple[NumberedSource, ...], int]:
        merged = self._merged() if self.merged is None else self.merged
        outlines = [self.outlines[i] for kind, i in self.added if kind == "outline"]
        text, sources = self.render([*merged, *outlines], turns)
        return text, sources, self.counter.count(text)

    def _merged(self) -> list[Hit]:
        """Return the hits that were added, merged."""
        if self.everything is not None:
            return [source.hit for source in self.everything[1]]
        return merge(self._shown())

    def _estimate(self, piece: Hit) -> int:
        """Return about the tokens of a piece as a source of its own."""
        head = f"{piece.repo}:{piece.place} {piece.label} {piece.reason}\n"
        return self.counter.count(head + piece.text) + _SOURCE_TOKENS

    def _shown(self) -> list[Hit]:
        """Return the hits that were added, best first, and then the parts."""
        hits = [self.hits[i] for i in sorted(i for kind, i in self.added if kind == "source")]
        hits += [self.parts[i] for kind, i in self.added if kind == "part"]
        return hits + [self.surroundings[i] for kind, i in self.added if kind == "surroundings"]

    def _add(self, kind: str, position: int, cost: int) -> None:
        self.added.append((kind, position))
        self.left -= cost
        self.everything = None

    def _too_small(self, tokens: int, what: str) -> ContextTooSmall:
        return ContextTooSmall(
            context_tokens=self.context_tokens,
            needed_tokens=tokens + self.answer_tokens + _MESSAGE_TOKENS,
            what=f"{what}, with {self.answer_tokens} tokens reserved for the answer",
        )


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
    lines = whole_lines_of(hit.text)
    if count >= len(lines):
        return hit
    text, _ = without_blank_end("".join(lines[:count]))
    span = replace(hit.span, end=hit.start + len(whole_lines_of(text)) - 1)
    return replace(hit, span=span, text=text, blank_end="")


def _first_line_with_text(hit: Hit) -> int:
    return next((n for n, line in enumerate(whole_lines_of(hit.text), start=1) if line.strip()), 1)
