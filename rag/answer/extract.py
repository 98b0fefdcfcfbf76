"""Answer without a model: one sentence, one quotation, and up to five other places, on one screen.

The sentence says where the answer is, by the documentation or the calls of the first place; for a question of
a known kind, its facts come instead. The quotation is one piece of the first source, with the line that
decides. Every other place has its name and what it is. Nothing is claimed but what the index has.

The whole has at most 25 lines of 80 columns in every interface. Only what is asked for may be longer: all
members of a list, all lines that a question names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rag.answer.chosen_lines import (
    ChosenLines,
    Sought,
    chosen_lines,
    defining_row,
    short,
    without_marks,
)
from rag.answer.one_screen import ROWS, Extract, NamedPlace, Quotation, lines_named, rows_of
from rag.answer.wording import (
    doubt,
    doubt_of_place,
    named_at,
    sentence_of_facts,
    sentence_of_place,
    what_it_is,
)
from rag.cut_code import Constructs
from rag.lines import lines_of
from rag.quoting import code_span, one_line, visible
from rag.types import CodeFact, CodeFacts, Hit, NumberedSource, PlaceNote, Prepared, Usage, source_of
from rag.types.answer import QUOTING
from rag.types.question_kinds import AFFECTED, LISTS, RECALL

_PLACES = 5
"""The most places, those that are facts included."""
_FEW_FACTS = 7
"""More facts are listed by file, and no lines are quoted."""
_FEW_OF_FILE = 3
"""More facts of a file have only their lines."""
_MAX_CODE_CHARS = 40


class ExtractiveGenerator:
    """A generator that needs no model. It sends nothing over the network and costs nothing."""

    model = QUOTING

    quoted_sources = 1
    """The number of sources whose lines are quoted; the others are only named."""

    def __init__(self) -> None:
        self.extract: Extract | None = None
        """The last answer, if it was written here."""
        self.quoted: list[tuple[int, str, int, int]] = []
        """Each place of the last answer, if it was written here: facts, the quotation, then the others; the
        number of the source, path, first and last line."""

    @property
    def usage(self) -> Usage | None:
        """None: it uses no tokens."""
        return Usage(estimated=False, cost_usd=0.0)

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield the answer in its parts."""
        self.extract, self.quoted = None, []
        if prepared.quotes is not None:
            return iter(prepared.quotes)
        self.extract = extracted(prepared, self.quoted)
        return self.extract.pieces()


def extract(prepared: Prepared) -> Iterator[str]:
    """Yield the answer without a model in its parts, as Markdown."""
    return extracted(prepared).pieces()


def extracted(prepared: Prepared, places: list[tuple[int, str, int, int]] | None = None) -> Extract:
    """Return the answer without a model; its places are appended to `places`.

    If the question names lines, these alone are quoted. If there are no sources, the answer says so.
    """
    sources = prepared.prompt.sources
    if not sources:
        found = (
            "The template in use shows no sources" if prepared.hits else "Nothing was found on this question"
        )
        return Extract(f"{found}.")
    return _Writing(prepared, [] if places is None else places).extract()


class _Writing:
    """Makes the parts of one answer."""

    def __init__(self, prepared: Prepared, places: list[tuple[int, str, int, int]]) -> None:
        self._prepared, self._places = prepared, places
        self._sources: Sequence[NumberedSource] = prepared.prompt.sources
        self._sought = Sought.of(prepared, [source.hit for source in self._sources])
        self._several = len({(source.hit.repo, source.hit.location) for source in self._sources}) > 1
        self._facts = prepared.code_facts
        if not self._facts and self._sought.called:
            calling = self._sought.calling
            self._sources = sorted(self._sources, key=lambda source: not calling(source.hit))

    def extract(self) -> Extract:
        """Return the parts."""
        asked_for = [source for source in self._sources if self._sought.named_lines(source.hit)]
        first = (asked_for or self._sources)[0]
        chosen = chosen_lines(first.hit, self._sought)
        facts, more, note = tuple[NamedPlace, ...](), 0, ""
        is_quoted = bool(asked_for) or len(self._sought.members(first.hit)) > 0
        if found := self._facts:
            listed = self._listed(found)
            facts, more = ((), 0) if is_quoted else (listed, max(found.count - len(found.items), 0))
            note = visible(found.note)
            end = ":" if facts or is_quoted else "."
            sentence = f"{sentence_of_facts(found, doubt(self._prepared))}{end}"
        else:
            sentence = self._sentence(first, chosen)
        is_quoted = (
            is_quoted
            or found is None
            or (len(found.items) <= _FEW_FACTS and found.kind not in (AFFECTED, RECALL, *LISTS))
        )
        quoted = asked_for or ([first] if is_quoted else [])
        quotations = tuple(self._quotation(one) for one in quoted)
        others = () if asked_for else self._others(quoted, _PLACES - len(facts))
        whole = Extract(sentence, facts, more, quotations, note, others)
        warning = self._prepared.warning
        shown = whole.fitted(ROWS - (rows_of(warning) + 1 if warning else 0))
        self._places += [(one.source.n, one.source.hit.path, one.first, one.last) for one in shown.quotations]
        self._places += [
            (one.sources[0], one.at.path, int(one.lines), int(one.lines)) for one in shown.others
        ]
        return shown

    def _sentence(self, source: NumberedSource, chosen: ChosenLines) -> str:
        hit, note = source.hit, self._note(source)
        word = doubt_of_place(self._prepared, hit)
        line = self._line(hit, note, chosen.best)
        place = f"(`{self._path(hit)}:{line}`) [{source.n}]"
        is_nearest = bool(self._prepared.warning)
        return sentence_of_place(hit, chosen.best, place, note, word, is_nearest=is_nearest)

    def _quotation(self, source: NumberedSource) -> Quotation:
        hit = source.hit
        lines = tuple(short(line.rstrip("\r"), self._sought) for line in lines_of(hit.text))
        constructs = Constructs(lines, hit.language)
        chosen = without_marks(chosen_lines(hit, self._sought), lines, constructs)
        first, last, best = (hit.start + row for row in (chosen.first, chosen.last, chosen.best))
        is_answer = bool(self._sought.named_lines(hit) or self._sought.members(hit))
        return Quotation(source, self._path(hit), first, last, best, lines, constructs, is_answer)

    def _others(self, quoted: Sequence[NumberedSource], limit: int) -> tuple[NamedPlace, ...]:
        """Return the next places: not the quoted one, not the facts, each line once."""
        found: dict[tuple[str, str, int], NamedPlace] = {}
        for source in self._sources:
            hit, note = source.hit, self._note(source)
            says_nothing = hit.kind == "doc" and not hit.label and not note.sentences
            if source in quoted or says_nothing or len(found) >= limit:
                continue
            is_defined = hit.start <= note.line <= hit.end
            row = note.line - hit.start if is_defined else chosen_lines(hit, self._sought).best
            line = self._line(hit, note, row)
            key = (hit.location, hit.path, line)
            if key in found or self._has_fact(hit):
                continue
            what = what_it_is(hit, row, note, self._sought)
            found[key] = NamedPlace(named_at(hit, row), hit, self._path(hit), str(line), what, (source.n,))
        return tuple(found.values())

    def _has_fact(self, hit: Hit) -> bool:
        return self._facts is not None and any(
            (fact.location, fact.path) == (hit.location, hit.path) and hit.start <= fact.start <= hit.end
            for fact in self._facts.items
        )

    def _listed(self, found: CodeFacts) -> tuple[NamedPlace, ...]:
        """Return the facts: one each if they are few, else one for each file; and how many more there are."""
        numbers = [source_of(item, self._sources) for item in found.items]
        self._places += [
            (n, item.path, item.start, item.end) for n, item in zip(numbers, found.items, strict=True)
        ]
        each = list(zip(found.items, numbers, strict=True))
        if found.is_about_one_place:
            shown = [self._fact(*each[0], found)]
            shown += [NamedPlace(visible(item.reason), item, "", "", "") for item in found.items[1:]]
        elif len(each) <= _FEW_FACTS or found.kind == AFFECTED:
            shown = [self._fact(item, n, found) for item, n in each]
        else:
            by_file = groupby(each, lambda one: (one[0].location, one[0].path))
            shown = [self._facts_of_file(list(group), found) for _, group in by_file]
        return tuple(shown)

    def _fact(self, item: CodeFact, n: int, found: CodeFacts) -> NamedPlace:
        text = next((line.strip() for line in lines_of(item.text) if line.strip()), "")
        doubted = "" if item.certain else "possibly"
        differ = found.kind in (AFFECTED, RECALL) or len({one.reason for one in found.items}) > 1
        reason = visible(item.reason) if differ else ""
        what = " ".join(filter(None, [doubted, reason]))  # the doubt first: the end may be cut
        is_named = item.label and (found.kind not in LISTS or _have_names(found))
        text = item.path.rpartition("/")[2] if found.kind == RECALL else text
        name = f"`{one_line(item.label)}`" if is_named else _cut(text, _MAX_CODE_CHARS)
        lines, sources = lines_named(item.start, item.end), (n,) if n else ()
        return NamedPlace(name, item, self._path(item), lines, what, sources).on_one_line

    def _facts_of_file(self, each: Sequence[tuple[CodeFact, int]], found: CodeFacts) -> NamedPlace:
        """Return the facts of one file: a member by its name and lines, others by line."""
        first = each[0][0]
        lines = dict[str, list[str]]()
        for item, _ in each:
            name = ""
            if found.kind in LISTS and _have_names(found):
                name = f"`{one_line(item.label)}` "
            elif found.kind in LISTS:
                text = next((line.strip(" \t\r,;") for line in lines_of(item.text) if line.strip()), "")
                name = f"{_cut(text, _MAX_CODE_CHARS)} "
            elif item.label and len(each) <= _FEW_OF_FILE:
                name = f"`{one_line(item.label)}` "
            lines.setdefault(name, []).append(f"{item.start}{'' if item.certain else ' (possibly)'}")
        named = ", ".join(f"{name}{', '.join(at)}" for name, at in lines.items())
        numbers = tuple(dict.fromkeys(n for _, n in each if n))
        return NamedPlace("", first, self._path(first), "", named, numbers)

    def _note(self, source: NumberedSource) -> PlaceNote:
        return self._prepared.notes.get(source.n, PlaceNote())

    def _line(self, hit: Hit, note: PlaceNote, best: int) -> int:
        """Return the line of a place: where its definition begins, else the one that decides."""
        if hit.start <= note.line <= hit.end:
            return note.line
        defines = defining_row(hit, lines_of(hit.text))
        return hit.start + (best if defines is None or hit.unit == "section" else defines)

    def _path(self, one: Hit | CodeFact) -> str:
        return one_line(f"{one.repo}:{one.path}" if self._several else one.path)


def _have_names(found: CodeFacts) -> bool:
    """Return whether each member of a list has a name of its own, rather than that of what holds them all."""
    return len({item.label for item in found.items}) == len(found.items)


def _cut(line: str, width: int) -> str:
    """Return a line of code as inline code, cut to a width."""
    shown = visible(" ".join(line.split()))
    return code_span(shown if len(shown) <= width else shown[:width].rstrip() + "…") if shown else "(empty)"
