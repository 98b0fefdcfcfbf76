"""What a step can do: search, find text, read lines, outline, find definitions and callers, recall turns.

Every tool works on the indexes that it is given, which are those of the question with its filter: a path is
looked up among the indexed files and never opened, so no path outside of them can be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import groupby

import numpy as np

from rag.agent.budget import MAX_READ_RESULT
from rag.agent.protocol import StepRequest, ToolSpec, tool_specs
from rag.agent.results import NEAR_LINES, Found, FoundPart, failed, rest_of_lines
from rag.answer.references import with_places
from rag.corpus.ignore import Patterns
from rag.errors import NotFound, SearchInvalid, SourceError
from rag.lines import whole_lines_of
from rag.ports import ChunkIndex
from rag.prompt.views import plain, short_line
from rag.quoting import counted, visible
from rag.retrieval.exact import TextResult, alternatives
from rag.retrieval.lookup import definitions, similar_names
from rag.retrieval.overview import outline_of_file
from rag.retrieval.question import bare_name, last_part
from rag.retrieval.shown_definition import definition_at, hit_of_lines, line_of
from rag.retrieval.uses import Uses, indexed_files, summary, uses_of_name
from rag.types import Citation, DialogTurn, FileOutline, Hit, PatternMatches

MAX_READ = 120
"""The most lines of one `read`."""
_READ_ON = 80
"""The lines that are read if the last one is not given."""
_DEFINITIONS, _DEFINITION_LINES = 8, 70
_GAP = 3
"""The most lines between two parts of one definition, the others being blank."""
_MEANT = 3
"""With more definitions of a name, it is not known which one is meant: of each, one line is shown."""
_CALLS, _CALLS_IN_TESTS = 30, 4
_LISTED = 60
_NAMES_OF_FILE = 4
_ANSWER_CHARS = 600
_NEAREST = 3
_ESCAPED = re.compile(r"\\.", re.DOTALL)

Lines = Mapping[str, Set[int]]
"""Line numbers by path."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Texts to find, or expressions, in all files or only those of a path."""

    texts: Sequence[str]
    is_regex: bool = False
    path: str = ""

    @classmethod
    def of(cls, text: str, *, is_regex: bool, path: str) -> TextQuery:
        """Return a query for a text, or for each alternative of an expression."""
        return cls(alternatives(text) if is_regex else [text], is_regex, path)

    def ignores_case(self, text: str) -> bool:
        """Return whether one of the texts ignores case: it has no capital letters."""
        written = _ESCAPED.sub("", text) if self.is_regex else text
        return written == written.lower()


Search = Callable[[str, Lines], Found]
"""Returns the places for a query, best first, without lines that were shown before."""
Find = Callable[[TextQuery], tuple[Sequence[TextResult], str]]
"""Returns the lines with each of the texts, and if there are none in words what is not indexed.

Raises:
    NotFound, SearchInvalid, SourceError: the expression is invalid, or the path, or no file has it.
"""
Recall = Callable[[str], Sequence[DialogTurn]]
"""Returns the stored turns that match a query, best first."""
Unread = Callable[[str, int], str]
"""Returns in words where a name is in what is not indexed, and what was not searched."""
Changes = Callable[[str, str | None], Sequence[tuple[str, str]]]
"""Returns what was done ("A", "M", "D") and the path of each changed file between two states.

Raises:
    SourceError: there is no history, or no such state.
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one question.

    `indexes` hold only the files that may be searched, `names` the names of their repositories. The tools of
    `recall` and `changes` do not exist if these are None.
    """

    indexes: Sequence[ChunkIndex]
    search: Search
    find: Find
    recall: Recall | None = None
    changes: Changes | None = None
    names: Sequence[str] = field(default=())
    unread: Unread = lambda name, count: "files that are not indexed were not searched"

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as a model sees them."""
        missing = {"recall_turns": self.recall is None, "changed_since": self.changes is None}
        return [spec for spec in tool_specs() if not missing.get(spec.name)]

    def run(self, request: StepRequest, seen: Lines) -> Found:
        """Run a step; what cannot be found or read is an error in the result. `seen` lines were shown before.

        Raises:
            StoreCorrupt, StoreError: a store cannot be read.
        """
        if request.error:
            return failed(request.error)
        given = request.arguments
        try:
            match request.tool:
                case "search":
                    return self.search(given["query"], seen)
                case "find_text":
                    path = given.get("path") or ""
                    return self._find(
                        TextQuery.of(given["text"], is_regex=bool(given.get("regex")), path=path)
                    )
                case "read":
                    return self._read(given["path"], given.get("start"), given.get("end"))
                case "outline":
                    return self._outline(given["path"])
                case "definition":
                    return self._definition(given["name"])
                case "callers":
                    return self._callers(given["name"], given.get("path") or "")
                case "recall_turns" if self.recall:
                    return self._recall(self.recall(given["query"]))
                case "changed_since" if self.changes:
                    changed = self.changes(given["since"], given.get("until"))
                    return _listed("changed file", [f"{what} {visible(path)}" for what, path in changed])
        except (NotFound, SearchInvalid, SourceError) as error:
            return failed(str(error))
        raise AssertionError(f"a request names a known tool, not {request.tool}")

    def _find(self, wanted: TextQuery) -> Found:
        results, unread = self.find(wanted)
        if not wanted.is_regex and "|" in wanted.texts[0] and not any(one.hits for one in results):
            text = wanted.texts[0]
            try:
                return self._find(TextQuery.of(text, is_regex=True, path=wanted.path))
            except SearchInvalid:  # then the texts between the bars are meant
                return self._find(replace(wanted, texts=[part for part in text.split("|") if part]))
        pairs = sorted(zip(wanted.texts, results, strict=True), key=lambda pair: pair[1].matches.lines)
        folded = [text for text in wanted.texts if wanted.ignores_case(text)]
        is_mixed = 0 < len(folded) < len(wanted.texts)
        counts = [
            _count_of(text if len(pairs) > 1 else "", found.matches)
            + (", ignoring case" if is_mixed and text in folded else "")
            for text, found in pairs
        ]
        case = ", ignoring case" if folded and not is_mixed else ""
        where = f"only in {wanted.path[:200]}" if wanted.path else f"in {self._files}"
        note = f"{'; '.join(counts)} ({where}{case})"
        hits = {(hit.location, hit.path, hit.start): hit for _, found in pairs for hit in found.hits}
        if not hits:
            return failed("; ".join(filter(None, (note, unread))))
        parts = (FoundPart(visible(plain(f"{note}:"))), *map(self._match, hits.values()))
        lines = sum((Counter(dict(found.lines_by_path)) for found in results), Counter[str]())
        return Found(parts, note, rest=rest_of_lines(parts, lines))

    def _match(self, hit: Hit) -> FoundPart:
        """Return the lines of a match; a very long one is shown around it."""
        lines = enumerate(whole_lines_of(hit.text), hit.start)
        for index in self.indexes:
            found = hit_of_lines(index, hit.path, hit.start, hit.end)
            if found is not None and found.location == hit.location:
                return FoundPart("", found, tuple((number, line.strip("\r\n")) for number, line in lines))
        return FoundPart(hit.place)

    def _definition(self, name: str) -> Found:
        name = bare_name(name)
        found = [one for index in self.indexes for one in _definitions(index, name)]
        if not found:
            near = dict.fromkeys(one for index in self.indexes for one in similar_names(index, name))
            similar = f"; similar names: {', '.join(near)}" if near else ""
            note = self.unread(name, 0)
            return failed(f"{name[:200]!r} is not defined in {self._files}{similar}; {note}")
        found.sort(key=lambda one: one[0].kind != "code")
        shown = found[:_DEFINITIONS]
        more = [FoundPart(f"… and {len(found) - len(shown)} more")] if len(found) > len(shown) else []
        if len(found) > _MEANT:
            return Found((*(headed(hit) for hit, _ in shown), *more), counted(len(found), "definition"))
        parts = [self._whole(hit, last) for hit, last in shown]
        return Found((*parts, *more), counted(len(found), "definition"))

    def _whole(self, hit: Hit, last: int) -> FoundPart:
        """Return a definition, or its first lines if it is long."""
        end = min(last, hit.start + _DEFINITION_LINES - 1)
        index = next((i for i in self.indexes if i.file_text(hit.path)), None)
        whole = hit_of_lines(index, hit.path, hit.start, end) if index and end > hit.end else None
        whole = replace(whole, span=replace(whole.span, symbol=hit.symbol, scope=hit.scope)) if whole else hit
        rest = f"cut, goes on to line {last}" if last > whole.end else ""
        return FoundPart(rest, whole)

    def _read(self, path: str, start: int | None, end: int | None) -> Found:
        first = max(1, start or 1)
        last = first + _READ_ON - 1 if end is None else min(end, first + MAX_READ - 1)
        if last < first:
            return failed(f"{first}-{end} is not a range of lines")
        for index, known in self._candidates(path):
            content = index.file_text(known)
            if content is None:
                continue
            total = len(whole_lines_of(content[0]))
            around = definition_at(index, known, last)
            ends = (end or 0, total, around.end if around else 0)
            last = max((one for one in ends if last < one <= last + NEAR_LINES), default=last)
            hit = hit_of_lines(index, known, first, last)
            if hit is None:
                return failed(f"{known} has {total} lines; there is no text in {first}-{last}")
            is_cut = last < total and (end is None or end > last)
            note = f"of {total} lines" + (f"; cut, read on from {last + 1}" if is_cut else "")
            return Found((FoundPart(note, hit),), f"{hit.place} {note}", max_tokens=MAX_READ_RESULT)
        return failed(f"no file {path[:200]!r} is indexed{self._similar_paths(path)}")

    def _candidates(self, path: str) -> Iterator[tuple[ChunkIndex, str]]:
        """Yield where a path may be: as it is written, or after the name of a repository."""
        path = path.strip().removeprefix("./")
        repository, found, rest = path.partition(":")
        for index, name in zip(self.indexes, self.names, strict=True):
            if found and repository == name:
                yield index, rest
        yield from ((index, path) for index in self.indexes)

    def _similar_paths(self, path: str) -> str:
        name, known = path.rpartition("/")[2], self._paths()
        alike = [one for one in known if one.rpartition("/")[2] == name]
        alike = (alike or get_close_matches(path, known, n=_NEAREST))[:_NEAREST]
        return f"; did you mean {', '.join(alike)}?" if alike else ""

    @property
    def _files(self) -> str:
        return indexed_files(sum(index.file_count for index in self.indexes))

    def _paths(self) -> list[str]:
        """Return the paths of all files that may be searched, in order."""
        paths = []
        for index in self.indexes:
            live = index.file if index.dead is None else index.file[~index.dead]
            paths += [index.file_path(file) for file in np.unique(live).tolist()]
        return sorted(paths)

    def _outline(self, path: str) -> Found:
        for index, known in self._candidates(path):
            if (outline := outline_of_file(index, known, most=_LISTED)) is not None:
                return _outlined(index, outline)
            if (content := index.file_text(known)) is not None:
                total = len(whole_lines_of(content[0]))
                return failed(f"{known} has {total} lines and no definitions; read it")
        every, wanted = self._paths(), path.strip().removeprefix("./").rstrip("/")
        inside = [one for one in every if wanted in ("", ".") or one.startswith(f"{wanted}/")]
        if not inside:
            inside = list(filter(Patterns.of([path], where="the path", paths=every).match, every))
        if not inside:
            return failed(f"no indexed file or folder is {path[:200]!r}{self._similar_paths(path)}")
        if len(inside) > _LISTED:
            depth = wanted.count("/") + 1 if wanted and every else 0
            folders = groupby(inside, lambda one: "/".join(one.split("/")[: depth + 1]))
            grouped = [(visible(name), len(list(files))) for name, files in folders]
            lines = [f"{name}/ ({n} files)" if n > 1 else name for name, n in grouped]
            return _listed("file", lines, of=len(inside))
        return _listed("file", [self._named(one) for one in inside])

    def _named(self, path: str) -> str:
        """Return a path with the names of the first definitions of the file."""
        graphs = (index.graph for index in self.indexes if index.file_text(path) is not None)
        names = (one.name for graph in graphs for one in graph.defined_in(path) if not one.scope)
        defined = list(dict.fromkeys(names))
        more = ", …" if len(defined) > _NAMES_OF_FILE else ""
        shown = visible(", ".join(defined[:_NAMES_OF_FILE]))
        return visible(path) + (f": {shown}{more}" if defined else "")

    def _callers(self, name: str, path: str) -> Found:
        name = bare_name(name)
        every = [uses_of_name(index, name) for index in self.indexes]
        if path:
            is_wanted = Patterns.of([path], where="the path", paths=self._paths()).match
            every = [found.only(is_wanted) for found in every]
        note = self.unread(name, sum(len(found.found) for found in every)) if not path else ""
        unread = f"; only in {path[:200]}" if path else f"; {note}" if note else ""
        parts: list[FoundPart] = []
        lines: Counter[str] = Counter()
        for index, found in zip(self.indexes, every, strict=True):
            if not (found.targets or found.found or found.is_file):
                continue
            parts.append(FoundPart(visible(plain(f"{summary(found, files=index.file_count)}{unread}:"))))
            parts += _use_parts(index, found, last_part(name))
            known = {(use.path, use.line) for use in (*found.found, *found.shown)}
            lines.update(path for path, _ in known)
        if not parts:
            return failed(f"no definition or call of {name[:200]!r} was found in {self._files}{unread}")
        count = sum(part.hit is not None for part in parts)
        return Found(tuple(parts), counted(count, "use"), rest=rest_of_lines(tuple(parts), lines))

    def _recall(self, turns: Sequence[DialogTurn]) -> Found:
        """Return earlier answers, each once, and the lines they cite that are still the same."""
        turns = list({(turn.question, turn.answer): turn for turn in reversed(turns)}.values())[::-1]
        if not turns:
            return failed("no earlier question matches")
        parts = []
        for turn in turns:
            text = with_places(turn).answer
            answer = text[:_ANSWER_CHARS] + (" …" if len(text) > _ANSWER_CHARS else "")
            parts.append(FoundPart(f"Asked before: {visible(plain(turn.question))}", text=plain(answer)))
            cited = (self._still(one) for one in turn.citations if one.used)
            parts += [headed(hit) for hit in cited if hit]
        return Found(tuple(parts), counted(len(turns), "turn"))

    def _still(self, cited: Citation) -> Hit | None:
        for index in self.indexes:
            content = index.file_text(cited.path)
            if content is not None and content[1] == cited.blob:
                return hit_of_lines(index, cited.path, cited.start, cited.end)
        return None


def _count_of(text: str, matches: PatternMatches) -> str:
    """Return in words how often one of several texts was found."""
    count = replace(matches, more=0).note if matches.count else "0 matches"
    return f"`{text}` {count}" if text else count


def _use_parts(index: ChunkIndex, found: Uses, name: str) -> Iterator[FoundPart]:
    """Yield the first places that use a name: those in code, and a few of those in tests."""
    places = [(use, hit_of_lines(index, use.path, use.line, use.line)) for use in found.shown]
    held = [(use, hit) for use, hit in places if hit]
    code = [pair for pair in held if not pair[1].is_test]
    tests = [pair for pair in held if pair[1].is_test]
    for use, hit in [*code, *tests[: _CALLS if not code else _CALLS_IN_TESTS]][:_CALLS]:
        reason = "" if use.role == "call" and use.certain else f": {found.reason(use)}"
        doubt = "" if use.certain else " (possibly)"
        within = f"in {use.within or 'the file'}{reason}{doubt}"
        line = short_line(hit.text.strip("\r\n"), name)
        yield FoundPart(visible(plain(within)), hit, ((use.line, line),))


def headed(hit: Hit) -> FoundPart:
    """Return a place of which one line is shown: the first with its name."""
    one = line_of(hit)
    return FoundPart("", one, ((one.start, short_line(one.text.strip("\r\n"), one.symbol)),))


def _definitions(index: ChunkIndex, name: str) -> list[tuple[Hit, int]]:
    """Return the definitions of a name, each with its last line; of a long one the hit is the first part."""
    found: list[tuple[Hit, int]] = []
    for hit in definitions(index, name):
        if found:
            first, last = found[-1]
            same = (hit.path, hit.scope, hit.symbol) == (first.path, first.scope, first.symbol)
            if same and 0 < hit.start - last <= _GAP:
                found[-1] = first, hit.end
                continue
        found.append((hit, hit.end))
    return found


def _outlined(index: ChunkIndex, outline: FileOutline) -> Found:
    """Return the definitions of a file as a place, whose lines can be cited."""
    defined, count = outline.definitions, len(outline.definitions) + outline.more
    first, last = min(one.start for one in defined), max(one.end for one in defined)
    said = counted(count, "definition")
    more = f", the first {len(defined)}" if outline.more else ""
    text = "\n".join(f"{one.start}-{one.end} {visible(one.name)}" for one in defined)
    hit = hit_of_lines(index, outline.path, first, last)
    return Found((FoundPart(f"{said}{more}", hit, text=plain(text)),), said)


def _listed(what: str, lines: Sequence[str], *, of: int | None = None) -> Found:
    """Return the first lines of a list; the summary counts all."""
    more = f" (the first {_LISTED} lines)" if len(lines) > _LISTED else ""
    said = counted(len(lines) if of is None else of, what)
    return Found((FoundPart(f"{said}{more}:", text=plain("\n".join(lines[:_LISTED]))),), said)
