"""Find the definitions that differ between two trees of a repository."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Protocol

from rag.code.graph import RepositoryGraph
from rag.code.graph_files import GraphFiles
from rag.code.reference_queries import has_references
from rag.lines import lines_of
from rag.memory.anchor import LEAST_MOVED, align, letters
from rag.review.code_text import header, significant
from rag.review.values import SymbolChange, SymbolUnit
from rag.types import CodeDefinition

_RENAMED_SHARE = 0.5
_MAX_RENAMES = 400
"""More removed or added files than this are not compared with each other, except for equal bytes."""
_MAX_COMPARED_LINES = 5_000_000
"""Above this total, files are no longer compared with each other, except for equal bytes."""
_CONSTANT = re.compile(
    r"(?:(?:export|pub(?:\([^)]*\))?|public|private|protected|internal|static|final|const|constexpr|readonly"
    r"|let|var|val|define|declare|extern|unsigned|int|long|char|bool|float|double|string|String|size_t)\s+)*"
    r"\*?((?!\d)[\w$]+)\s*(?:\[[^\]]*\]\s*)?(?::[^=\n]+)?(?:=(?!=)|:=)"
    r"|\s*#\s*define\s+((?!\d)\w+)\s"
)
"""An assignment at the top of a file, or a macro with a value."""


class TreeSide(GraphFiles, Protocol):
    """One of the two trees."""

    @property
    def blobs(self) -> Mapping[str, str]:
        """The blob id of each file, by path."""
        ...

    def content(self, path: str) -> bytes:
        """Return the bytes of a file."""
        ...


class ReviewedTree:
    """A tree with its code graph and the lines of its files."""

    def __init__(self, files: TreeSide) -> None:
        self.files = files
        self.graph = RepositoryGraph(files)
        self.unread: Counter[str] = Counter()
        """How many definitions were not found in a file that cannot be parsed as a whole, by path."""
        self._lines: dict[str, list[str]] = {}
        self._definitions: dict[str, FileDefinitions] = {}

    @cached_property
    def known(self) -> Mapping[str, tuple[str, str]]:
        """The language and kind of each file, by path."""
        return self.files.files()

    def lines(self, path: str) -> list[str]:
        """Return the lines of a file, none if there is no such file."""
        if path not in self._lines:
            text = self.files.content(path).decode("utf-8", "replace").replace("\r\n", "\n")
            self._lines[path] = lines_of(text)
        return self._lines[path]

    def definitions(self, path: str) -> FileDefinitions:
        """Return the definitions of a file, none if there is no such file."""
        if path not in self._definitions:
            known = self.graph.defined_in(path) if path else ()
            self._definitions[path] = FileDefinitions(known, self.lines(path) if path else ())
        return self._definitions[path]

    def is_test(self, path: str) -> bool:
        """Return whether a file is a test."""
        return self.known.get(path, ("", "code"))[1] == "test"

    def is_code(self, path: str) -> bool:
        """Return whether the definitions of a file are compared."""
        language, kind = self.known.get(path, ("", ""))
        return kind in ("code", "test") or (kind == "doc" and has_references(language))


class FileDefinitions:
    """The definitions of a file that are compared, in order: without those within functions.

    Args:
        known: all definitions of the file, in order.
        lines: the lines of the file.
    """

    def __init__(self, known: Iterable[CodeDefinition], lines: Sequence[str]) -> None:
        self.listed: list[CodeDefinition] = []
        self._lines = lines
        end = 0  # of the functions so far
        for one in known:
            if one.start > end or one.end > end:
                self.listed.append(one)
                end = max(end, one.end) if one.unit == "function" else end
        self._texts: dict[tuple[int, int, bool], str] = {}

    @cached_property
    def _innermost(self) -> list[int]:
        """The number of the last definition in the list that holds each line, -1 for none."""
        starting: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(self.listed):
            starting[one.start].append(number)
        found, around = [], list[int]()
        for line in range(1, len(self._lines) + 1):
            for number in starting.get(line, ()):
                heappush(around, -number)
            while around and self.listed[-around[0]].end < line:
                heappop(around)
            found.append(-around[0] if around else -1)
        return found

    @cached_property
    def _own_lines(self) -> dict[int, list[int]]:
        """The lines (from 0) that a definition which begins at a line has and those within it have not."""
        found: dict[int, list[int]] = defaultdict(list)
        for row, number in enumerate(self._innermost):
            if number >= 0:
                found[self.listed[number].start].append(row)
        return found

    def around(self, line: int) -> CodeDefinition | None:
        """Return the innermost definition that holds a line."""
        number = self._innermost[line - 1] if 0 < line <= len(self._lines) else -1
        return self.listed[number] if number >= 0 else None

    def own_text(self, one: CodeDefinition) -> str:
        """Return the lines of a definition; of a class without those of its members."""
        key = one.start, one.end, one.unit == "class"
        if key not in self._texts:
            rows: Iterable[int] = range(one.start - 1, min(one.end, len(self._lines)))
            if one.unit == "class":
                rows = (row for row in self._own_lines.get(one.start, ()) if row < one.end)
            self._texts[key] = "\n".join(self._lines[row] for row in rows)
        return self._texts[key]


@dataclass(frozen=True, slots=True)
class FilePair:
    """A file that differs: its path in the base and in the head, "" where it does not exist."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SymbolPair:
    """A definition that differs: in the base and in the head, None where it does not exist.

    A constant has no definition in the graph: `path`, `name` and the lines say where it is assigned.
    """

    change: SymbolChange
    unit: SymbolUnit
    path: str
    name: str
    start: int
    end: int
    old: CodeDefinition | None = None
    new: CodeDefinition | None = None


def changed_files(base: ReviewedTree, head: ReviewedTree) -> list[FilePair]:
    """Return the files that differ, by path.

    A removed file is paired with an added one of the same bytes, else with the one that has most of its
    lines, at least half.
    """
    old, new = base.files.blobs, head.files.blobs
    pairs = [FilePair(path, path) for path in old.keys() & new.keys() if old[path] != new[path]]
    removed, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    if len(removed) * len(added) <= _MAX_RENAMES**2:
        for gone, arrived in _renamed(base, head, removed, added):
            pairs.append(FilePair(gone, arrived))
            removed.remove(gone)
            added.remove(arrived)
    pairs += [FilePair(path, "") for path in removed] + [FilePair("", path) for path in added]
    return sorted(pairs, key=lambda pair: (pair.new or pair.old, pair.old))


def _renamed(
    base: ReviewedTree, head: ReviewedTree, removed: Sequence[str], added: Sequence[str]
) -> Iterable[tuple[str, str]]:
    """Yield the removed and added files that are one file, the most similar first."""
    found = []
    words = {path: Counter(line.strip() for line in head.lines(path) if line.strip()) for path in added}
    left = _MAX_COMPARED_LINES
    for gone in removed:
        before = Counter(line.strip() for line in base.lines(gone) if line.strip())
        for arrived in added:
            least, most = sorted((before.total(), words[arrived].total()))
            if head.files.blobs[arrived] == base.files.blobs[gone]:
                share = 2.0
            elif least < _RENAMED_SHARE * most or not most or left < 0:
                continue
            else:
                left -= len(before)
                share = (before & words[arrived]).total() / most
            if share >= _RENAMED_SHARE:
                found.append((-share, gone.rpartition("/")[2] != arrived.rpartition("/")[2], gone, arrived))
    taken: set[str] = set()
    for _, _, gone, arrived in sorted(found):
        if gone not in taken and f"\0{arrived}" not in taken:
            taken |= {gone, f"\0{arrived}"}
            yield gone, arrived


def changed_symbols(base: ReviewedTree, head: ReviewedTree, files: Sequence[FilePair]) -> list[SymbolPair]:
    """Return the definitions that differ, by path and line.

    Functions within functions belong to the outer one, and a class is only its own lines: its members are
    listed instead. What is removed in one place and added in another is renamed or moved.
    """
    found: list[SymbolPair] = []
    for pair in files:
        if (pair.old and base.is_code(pair.old)) or (pair.new and head.is_code(pair.new)):
            found += _in_file(base, head, pair)
    return sorted(_joined(base, head, found), key=lambda one: (one.path, one.start, one.name))


def _in_file(base: ReviewedTree, head: ReviewedTree, pair: FilePair) -> list[SymbolPair]:
    old, new = base.definitions(pair.old).listed, head.definitions(pair.new).listed
    before: dict[tuple[str, str], deque[CodeDefinition]] = defaultdict(deque)
    for one in old:
        before[one.qualified_name, one.unit].append(one)
    found = []
    for one in new:
        same = before[one.qualified_name, one.unit]
        if not same:
            found.append(_symbol("added", None, one))
            continue
        was = same.popleft()
        change = _difference(base, head, was, one)
        if change is not None:
            found.append(_symbol(change, was, one))
    removed = [one for rest in before.values() for one in rest]
    if removed and pair.new and _is_partly_read(base, removed, head.lines(pair.new), new):
        head.unread[pair.new] = len(removed)
        found = [one for one in found if one.change != "added"]  # maybe these, under another name
    else:
        found += [_symbol("removed", one, None) for one in removed]
    if pair.old and pair.new:
        found += _constants(base, head, pair, old, new)
    return found


def _is_partly_read(
    base: ReviewedTree,
    removed: Sequence[CodeDefinition],
    lines: Sequence[str],
    found: Sequence[CodeDefinition],
) -> bool:
    """Return whether the lines of a file begin a definition that parsing it did not find, as after a syntax
    error: the line with its name is there more often than definitions of that name were found.
    """
    written = Counter(line.strip() for line in lines)
    read = Counter(one.name for one in found)
    for one in removed:
        named = re.compile(rf"(?<![\w$]){re.escape(one.name)}(?![\w$])")
        own = base.lines(one.path)[one.start - 1 : one.end]
        begins = next((line.strip() for line in own if named.search(line)), "")
        if begins and written[begins] > read[one.name]:
            return True
    return False


def _symbol(change: SymbolChange, old: CodeDefinition | None, new: CodeDefinition | None) -> SymbolPair:
    shown = new or old
    assert shown is not None, "it exists in one of them"
    return SymbolPair(change, shown.unit, shown.path, shown.qualified_name, shown.start, shown.end, old, new)


def _difference(
    base: ReviewedTree, head: ReviewedTree, was: CodeDefinition, now: CodeDefinition
) -> SymbolChange | None:
    """Return how a definition differs; None if its own lines are the same."""
    before = base.definitions(was.path).own_text(was)
    after = head.definitions(now.path).own_text(now)
    if before == after:
        return None
    language = head.known[now.path][0]
    if significant(before, language) == significant(after, language):
        return "comment"
    return "body" if header(before, language) == header(after, language) else "signature"


# ---------------------------------------------------------------- constants


def _constants(
    base: ReviewedTree,
    head: ReviewedTree,
    pair: FilePair,
    old: Sequence[CodeDefinition],
    new: Sequence[CodeDefinition],
) -> list[SymbolPair]:
    """Return the names that are assigned on changed lines outside of all definitions.

    A change in the lines below an assignment, up to the next line that is not indented, is one of it.
    """
    language = head.known[pair.new][0]
    before, after = _assigned(base, pair.old, old), _assigned(head, pair.new, new)
    found = []
    for name, (start, end, text) in after.items():
        was = before.get(name)
        if was is None:
            found.append(SymbolPair("added", "constant", pair.new, name, start, end))
        elif was[2] != text:
            same = significant(was[2], language) == significant(text, language)
            found.append(SymbolPair("comment" if same else "body", "constant", pair.new, name, start, end))
    for name, (start, end, _) in before.items():
        if name not in after:
            found.append(SymbolPair("removed", "constant", pair.old, name, start, end))
    return found


def _assigned(
    tree: ReviewedTree, path: str, definitions: Sequence[CodeDefinition]
) -> dict[str, tuple[int, int, str]]:
    """Return the first and last line, and the text, of each name that is assigned at the top of a file."""
    lines = tree.lines(path)
    covered = {row for one in definitions for row in range(one.start - 1, one.end)}
    names = {one.name for one in definitions}
    texts: dict[str, list[str]] = defaultdict(list)
    begins: dict[str, int] = {}
    current, first = "", 0
    for row in range(len(lines) + 1):
        line = "" if row == len(lines) or row in covered else lines[row]
        is_top = row == len(lines) or row in covered or (line[:1].strip() and line[:1] not in ")]}")
        if not is_top:
            continue
        if current:
            texts[current].append("\n".join(lines[first:row]).rstrip())
            begins.setdefault(current, first + 1)
        match = _CONSTANT.match(line)
        name = (match[1] or match[2]) if match else ""
        current, first = ("" if name in names else name), row
    whole = {name: "\n".join(parts) for name, parts in texts.items()}
    return {name: (begins[name], begins[name] + text.count("\n"), text) for name, text in whole.items()}


# ---------------------------------------------------------------- renamed and moved


def _joined(base: ReviewedTree, head: ReviewedTree, found: Sequence[SymbolPair]) -> list[SymbolPair]:
    """Return the symbols, where a removed and an added one with the same code are one.

    A candidate is used if it is the only one; one with the same name is preferred.
    """
    removed = [one for one in found if one.change == "removed" and one.old]
    added = [one for one in found if one.change == "added" and one.new]
    by_code: dict[tuple[str, ...], list[SymbolPair]] = defaultdict(list)
    for one in added:
        if (code := _code_of(head, one.new)) is not None:
            by_code[code].append(one)
    gone: set[int] = set()
    made: list[SymbolPair] = []
    for one in removed:
        code = _code_of(base, one.old)
        same = [other for other in by_code.get(code, ()) if id(other) not in gone] if code else []
        name = one.name.rpartition(".")[2]
        named = [other for other in same if other.name.rpartition(".")[2] == name]
        chosen = named if len(named) == 1 else same
        if len(chosen) == 1:
            other = chosen[0]
            change: SymbolChange = "moved" if named else "renamed"
            made.append(
                SymbolPair(
                    change, other.unit, other.path, other.name, other.start, other.end, one.old, other.new
                )
            )
            gone |= {id(one), id(other)}
    rest = [one for one in found if id(one) not in gone]
    return [*made, *_moved_with_changes(base, head, rest)]


def _moved_with_changes(
    base: ReviewedTree, head: ReviewedTree, found: Sequence[SymbolPair]
) -> list[SymbolPair]:
    """Return the symbols, where one that was removed and the only one of its qualified name that was added in
    another file are one whose code differs.
    """
    removed: dict[tuple[str, str], list[SymbolPair]] = defaultdict(list)
    added: dict[tuple[str, str], list[SymbolPair]] = defaultdict(list)
    for one in found:
        if one.change in ("removed", "added") and (one.old or one.new):
            (removed if one.old else added)[one.name, one.unit].append(one)
    gone: set[int] = set()
    made = []
    for key, before in removed.items():
        after = added.get(key, [])
        if len(before) == len(after) == 1 and before[0].path != after[0].path:
            old, new = before[0].old, after[0].new
            assert old is not None and new is not None, "a removed and an added one"
            change = _difference(base, head, old, new)
            made.append(_symbol(change if change in ("signature", "body") else "moved", old, new))
            gone |= {id(before[0]), id(after[0])}
    return [*made, *(one for one in found if id(one) not in gone)]


def _code_of(tree: ReviewedTree, one: CodeDefinition | None) -> tuple[str, ...] | None:
    """Return the code of a definition without its name and its indent; None if it is too short to be
    recognized.
    """
    if one is None:
        return None
    text = tree.definitions(one.path).own_text(one)
    if letters([line.encode() for line in text.split("\n")]) < LEAST_MOVED:
        return None
    words = significant(text, tree.known[one.path][0])
    return (one.unit, *("·" if word == one.name else word for word in words))


def line_map(base: ReviewedTree, head: ReviewedTree, pair: FilePair) -> list[int]:
    """Return the line of the head (from 0) for each line of the base, -1 for none."""
    return align([line.encode() for line in base.lines(pair.old)],
                 [line.encode() for line in head.lines(pair.new)])  # fmt: skip
