"""Choose the code that a model is shown for a question: blocks of lines, best first, and outlines of files.

The best hits are shown as whole definitions, if these have at most `_MAX_LINES`; of the next ones the lines
that have most of the question; then what the best hit certainly calls, and who calls it; then further hits.
Tests, examples, copies, translated documents and imports are left out unless the question asks for them. The
prompt has as many blocks as fit, and one line of other places: of the facts of a rule, of constants that the
best hits use, and of further hits.
Outlines name the definitions of the hits, also of those that do not fit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import NamedTuple

from rag.analysis import term_set
from rag.code.languages import is_translated
from rag.code.roles import is_carried, is_generated
from rag.identifiers import names_in
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.overview import outline_of, outlines
from rag.retrieval.rank import is_aside
from rag.retrieval.search import RetrievalResult, Searcher
from rag.retrieval.shown_definition import definition_at, hit_of_lines, line_of
from rag.types import CodeDefinition, CodeFacts, DialogTurn, FileOutline, Hit, Kind

MAX_BLOCKS = 20
_WHOLE, _BEFORE_RELATED = 5, 10
"""How many of the best hits are shown as whole definitions, and how many hits come before calls."""
_MAX_LINES, _WINDOW_LINES, _FAR_LINES = 60, 14, 6
"""The most lines of a whole definition, and of the other hits before calls and after them."""
_MAX_CALLED, _MAX_CALLERS = 3, 3
_MAX_CALLED_LINES, _CALLER_LINES = 40, 8
_OUTLINED_FILES, _OUTLINED, _OUTLINED_ELSEWHERE = 4, 8, 16
"""How many files are outlined, with how many definitions each; and how many hits in other files are named."""
_CARRIED_TURNS, _MAX_CARRIED, _MAX_CARRIED_LINES = 2, 4, 24
"""How many of the last turns are carried, how many places that they cite, and of each how many lines."""
_MAX_CONSTANTS, _MIN_CONSTANT_CHARS = 5, 4
"""How many constants that the best hits use are shown with their values."""
_RANK_OFFSET = 3
"""Added to the rank of a hit, whose reciprocal is its weight for its file."""
_MIN_SHARE_OF_IMPORTS = 0.8


class ShownCode(NamedTuple):
    """The code to show, best first: blocks of lines, places of one line each, and outlines of files.

    A block may have lines of another, and a place is the line of a block for if the block is not shown.
    """

    blocks: Sequence[Hit]
    places: Sequence[Hit] = ()
    outlines: Sequence[FileOutline] = ()


def shown_code(
    searchers: Sequence[Searcher], found: RetrievalResult, carried: Sequence[Hit] = ()
) -> ShownCode:
    """Return the code to show; `carried` are lines that earlier answers cite, see `cited_code`."""
    wanted = _wanted(searchers, found)
    outlined = list(outlines(searchers, found)) or _outlines(searchers, wanted)
    return _Chosen(searchers, found, wanted).shown(carried, outlined)


def lines_of_facts(searchers: Sequence[Searcher], facts: CodeFacts | None) -> list[Hit]:
    """Return the first line of each fact that is listed; of a file that is not indexed there is none."""
    items = facts.items if facts else ()
    indexes = ((item, _index_of(searchers, item.location, item.path)) for item in items)
    found = (hit_of_lines(index, item.path, item.start, item.start) for item, index in indexes if index)
    return [hit for hit in found if hit]


def cited_code(searchers: Sequence[Searcher], turns: Sequence[DialogTurn]) -> list[Hit]:
    """Return the lines that the answers of the last turns cite, where they are now, the latest turn first.

    Lines that have changed, or could not be compared, are left out; of long ones the first are shown.
    """
    found: list[Hit] = []
    for turn in reversed(turns[-_CARRIED_TURNS:]):
        for cited, check in turn.with_current_citations().checked:
            last = min(cited.end, cited.start + _MAX_CARRIED_LINES - 1)
            index = _index_of(searchers, cited.location, cited.path)
            if index is None or not cited.used or check.state not in ("fresh", "moved", "reformatted"):
                continue
            reason = f"cited in turn {turn.number}"
            if piece := hit_of_lines(index, cited.path, cited.start, last, reason=reason):
                found.append(piece)
    return found[:_MAX_CARRIED]


def _wanted(searchers: Sequence[Searcher], found: RetrievalResult) -> list[Hit]:
    """Return the hits without what the question does not ask for; the best one and those with facts stay.

    If hardly any is left, the repository has nothing else: then all stay.
    """
    every = (*found.hits, *found.further)
    asks, paths = found.sought.question.asks, found.sought.question.paths
    kept = [
        hit
        for rank, hit in enumerate(every)
        if rank == 0
        or _facts_in(found, hit)
        or any(path in hit.path for path in paths)
        or not (
            (is_test(hit.kind, hit.scope, hit.symbol) and asks.isdisjoint({"tests", "test_code"}))
            or (hit.kind == "doc" and is_translated(hit.path))
            or (_is_aside(hit.path) and "example" not in asks)
            or _is_imports(searchers, hit)
        )
    ]
    return kept if len(kept) >= _WHOLE else list(every)


def is_test(kind: Kind, scope: str, name: str) -> bool:
    """Return whether a definition is a test; languages such as Rust have them next to the code."""
    return kind == "test" or scope.split(".")[0] == "tests" or name.startswith("test_")


def _is_aside(path: str) -> bool:
    return is_carried(path) or is_generated(path) or is_aside(path)


def _facts_in(found: RetrievalResult, hit: Hit) -> list[tuple[int, int]]:
    """Return the lines of the facts that begin in a hit."""
    items = found.code_facts.items if found.code_facts else ()
    return [
        (item.start, min(item.end, hit.end))
        for item in items
        if (item.location, item.path) == (hit.location, hit.path) and hit.start <= item.start <= hit.end
    ]


def _is_imports(searchers: Sequence[Searcher], hit: Hit) -> bool:
    if hit.kind != "code" or hit.symbol or (index := _index_of(searchers, hit.location, hit.path)) is None:
        return False
    lines = {n for n, line in enumerate(whole_lines_of(hit.text), hit.start) if line.strip()}
    imported = index.graph.imports_of(hit.path, frozenset(names_in(hit.text)))
    covered = {n for start, end in imported for n in range(start, end + 1)}
    return len(lines & covered) >= _MIN_SHARE_OF_IMPORTS * len(lines)


def _index_of(searchers: Sequence[Searcher], location: str, path: str) -> ChunkIndex | None:
    """Return the store that has a file of the repository at a location."""
    for searcher in searchers:
        chunks = searcher.index.chunks_of(path)
        if chunks and searcher.index.hit(chunks[0], 0.0, {}).location == location:
            return searcher.index
    return None


@dataclass(frozen=True, slots=True)
class _Chosen:
    searchers: Sequence[Searcher]
    found: RetrievalResult
    wanted: Sequence[Hit]

    def shown(self, carried: Sequence[Hit], outlined: Sequence[FileOutline]) -> ShownCode:
        """Return the blocks in their order, and the places: see `shown_code`."""
        weights = _weights(self.found.sought.terms, self.wanted)
        shown = [self._whole(hit) for hit in self.wanted[:_WHOLE]]
        shown += [self._window(hit, weights, _WINDOW_LINES) for hit in self.wanted[_WHOLE:_BEFORE_RELATED]]
        shown += [self._window(hit, weights, _FAR_LINES) for hit in self.wanted[_BEFORE_RELATED:MAX_BLOCKS]]
        related = [piece for hit in shown[:1] for piece in self._related(hit)]
        first, further = shown[:_BEFORE_RELATED], shown[_BEFORE_RELATED:]
        blocks = [*first[:_WHOLE], *carried, *first[_WHOLE:], *related, *further]

        def score(line: str) -> float:
            return math.fsum(weights.get(term, 0.0) for term in term_set(line))

        asks_for_tests = not self.found.sought.question.asks.isdisjoint({"tests", "test_code"})
        hits = [
            hit
            for hit in (*shown, *self.wanted[MAX_BLOCKS:])
            if asks_for_tests or not is_test(hit.kind, hit.scope, hit.symbol)
        ]
        named = {(hit.location, hit.path, hit.label or str(hit.start)): hit for hit in reversed(hits)}
        places = [line_of(hit, score) for hit in reversed(named.values())]
        facts = lines_of_facts(self.searchers, self.found.code_facts)
        constants = islice(self._constants(blocks[:_WHOLE]), _MAX_CONSTANTS)
        return ShownCode(blocks, [*facts, *constants, *places], outlined)

    def _constants(self, blocks: Sequence[Hit]) -> Iterator[Hit]:
        """Yield the lines with the values of constants that blocks use, if a name is declared only once."""
        seen: set[str] = set()
        for hit in blocks:
            index = _index_of(self.searchers, hit.location, hit.path) if hit.kind == "code" else None
            for name in names_in(hit.text) if index else ():
                if name in seen or not (name.isupper() and len(name) >= _MIN_CONSTANT_CHARS):
                    continue
                seen.add(name)
                declared = index.graph.values(name) if index else []
                one = declared[0] if len(declared) == 1 else None
                if index and one and (found := hit_of_lines(index, one.path, one.start, one.start, of=one)):
                    yield found

    def _whole(self, hit: Hit) -> Hit:
        """Return the definition that a hit is a part of; of a long one the hit."""
        index = _index_of(self.searchers, hit.location, hit.path)
        around = definition_at(index, hit.path, hit.start) if index and hit.symbol else None
        if index is None or around is None or around.end - around.start >= _MAX_LINES:
            return hit
        if around.end < hit.end or hit.start < around.start:
            return hit
        piece = hit_of_lines(index, hit.path, around.start, around.end, of=around, reason=hit.reason)
        return replace(piece, score=hit.score, kind=hit.kind) if piece else hit

    def _window(self, hit: Hit, weights: Mapping[str, float], size: int) -> Hit:
        """Return the lines of a hit that have most of the question, or its facts."""
        lines = whole_lines_of(hit.text)
        if facts := _facts_in(self.found, hit):
            first, last = min(facts)[0] - hit.start, max(end for _, end in facts) - hit.start
            first, last = max(0, first - 1), max(last + 1, first + size - 2)
            return _part(hit, lines, first, min(last + 1, first + _MAX_LINES))
        if len(lines) <= size * 3 // 2:
            return hit
        bags = [term_set(line) for line in lines]

        def score(first: int) -> float:
            held = frozenset().union(*bags[first : first + size])
            return math.fsum(weights.get(term, 0.0) for term in held)

        best = max(range(len(lines) - size + 1), key=lambda first: (score(first), -first))
        return _part(hit, lines, best, best + size)

    def _related(self, hit: Hit) -> Iterator[Hit]:
        """Yield what a hit in code certainly calls, and the calls of it."""
        index = _index_of(self.searchers, hit.location, hit.path) if hit.kind == "code" else None
        if index is None:
            return
        within = [
            one
            for one in index.graph.defined_in(hit.path)
            if one.unit == "function" and one.start <= hit.end and hit.start <= one.end
        ]
        yield from _called(index, hit, within)
        yield from _callers(index, hit, [one for one in within if one.name == hit.symbol])


def _called(index: ChunkIndex, hit: Hit, within: Sequence[CodeDefinition]) -> Iterator[Hit]:
    followed: dict[tuple[str, int], None] = {}
    for caller in within:
        for use, target in index.graph.callees(caller):
            key = target.path, target.start
            is_short = target.end - target.start < _MAX_CALLED_LINES
            if key in followed or not (use.certain and is_short and hit.start <= use.line <= hit.end):
                continue
            followed[key] = None
            reason = f"called by `{one_line(caller.name)}` in line {use.line}"
            piece = hit_of_lines(index, target.path, target.start, target.end, of=target, reason=reason)
            if piece:
                yield piece
            if len(followed) >= _MAX_CALLED:
                return


def _callers(index: ChunkIndex, hit: Hit, targets: Sequence[CodeDefinition]) -> Iterator[Hit]:
    shown = 0
    for use in index.graph.callers(targets) if targets else ():
        around = definition_at(index, use.path, use.line)
        inside = use.path == hit.path and hit.start <= use.line <= hit.end
        if not use.certain or inside or around is None:
            continue
        first = max(around.start, use.line - _CALLER_LINES // 2)
        last = min(around.end, first + _CALLER_LINES - 1)
        reason = f"calls `{one_line(hit.symbol)}` in line {use.line}"
        piece = hit_of_lines(index, use.path, first, last, of=around, reason=reason)
        if (
            piece is not None
            and not is_test(piece.kind, piece.scope, piece.symbol)
            and not _is_aside(use.path)
        ):
            yield piece
            shown += 1
        if shown >= _MAX_CALLERS:
            return


def _weights(wanted: Mapping[str, float], hits: Sequence[Hit]) -> dict[str, float]:
    """Return the weight of each term of a question: rare ones among the hits weigh more."""
    bags = [term_set(hit.text) for hit in hits]
    held = {term: sum(term in bag for bag in bags) for term in wanted}
    return {term: wanted[term] * math.log(1 + len(bags) / count) for term, count in held.items() if count}


def _part(hit: Hit, lines: Sequence[str], first: int, last: int) -> Hit:
    """Return some lines of a hit, numbered from 0, `last` excluded, without blank ones at the ends."""
    while first < last - 1 and not lines[first].strip():
        first += 1
    text, _ = without_blank_end("".join(lines[first:last]))
    start = hit.start + first
    end = start + len(whole_lines_of(text)) - 1
    reason = "; ".join(filter(None, (hit.reason, f"of lines {hit.start}-{hit.end}")))
    span = replace(hit.span, start=start, end=end)
    return replace(hit, span=span, text=text, blank_end="", reason=reason)


def _outlines(searchers: Sequence[Searcher], wanted: Sequence[Hit]) -> list[FileOutline]:
    """Return outlines of the files that most hits are in, then of others the definitions that hits are in."""
    by_file: dict[tuple[str, str], list[Hit]] = {}
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for rank, hit in enumerate(wanted):
        if hit.kind == "code":
            file = hit.location, hit.path
            by_file.setdefault(file, []).append(hit)
            weights[file] += 1 / (rank + _RANK_OFFSET)
    found, elsewhere = [], _OUTLINED_ELSEWHERE
    for place, file in enumerate(sorted(by_file, key=lambda file: -weights[file])):
        hits = by_file[file]
        index = _index_of(searchers, hits[0].location, hits[0].path)
        defined = _innermost(index.graph.defined_in(hits[0].path)) if index else []
        held = [one for one in defined if any(_begins_near(one, hit) for hit in hits)]
        if place < _OUTLINED_FILES:
            others = sorted((one for one in defined if one not in held), key=lambda one: one.start - one.end)
            found.append(outline_of(hits[0].repo, hits[0].path, [*held, *others], _OUTLINED))
        elif held[:elsewhere]:
            found.append(outline_of(hits[0].repo, hits[0].path, held[:elsewhere], elsewhere))
            elsewhere -= len(held[:elsewhere])
    return [one for one in found if one.definitions]


def _innermost(defined: Sequence[CodeDefinition]) -> list[CodeDefinition]:
    """Return the definitions that enclose no other: the names of these have those of the others."""
    pairs = zip_longest(defined, defined[1:])
    return [one for one, after in pairs if after is None or one.end < after.start]


def _begins_near(one: CodeDefinition, hit: Hit) -> bool:
    """Return whether a hit is named by a definition, or has its first line."""
    is_named = (one.name, one.scope) == (hit.symbol, hit.scope) and one.start <= hit.end
    return (is_named and hit.start <= one.end) or hit.start <= one.start <= hit.end
