"""List all members of something: of the registry, enum, table or base class that a question asks for.

The answer is the series of similar lines (`series`) in the best files that fits the question best
(`list_fit`). A series whose lines share a name (a base class, a function that registers, a decorator) is
completed from the other files that hold the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from rag.analysis import terms
from rag.code.languages import kind_of_path
from rag.identifiers import UPPER
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import INCOMPLETE, MAX_FACTS, Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.line_series import Series, series_of, shapes_of
from rag.retrieval.kinds.list_fit import KEYWORDS, SHARED, Fit, best_fit, is_the_list, sort_of, weights
from rag.types import CodeDefinition, CodeFacts
from rag.types.question_kinds import LIST

_MIN_SCORE = 0.7
_OTHER_FILES, _MEMBER_FILES = 40, 120
"""How many files are read to complete a list, by their text and as the graph has the members."""
_CODE = 0
_ONLY_ALIKE = f"{INCOMPLETE}only lines like the first were read"
_DERIVED = re.compile(
    rf"\b([{UPPER}]\w+) (?:sub-?classes|implementations)\b"
    rf"|\b(?:sub-?classes|implementations) of (?:the )?`?([{UPPER}]\w+)"
    rf"|\b(?:deriv|inherit|extend)\w* (?:from )?`?([{UPPER}]\w+)"
)
_CLASS_TERMS = frozenset(terms("class exception error interface trait struct"))
_DERIVED_TERMS = frozenset(terms("subclass inherit derive derived extend"))
_WORDS = {
    "call": ("is called in", "places"),
    "decorated": ("decorates", "definitions"),
    "subclass": ("has", "direct subclasses"),
    "strings": ("has a line with", "values"),
}


def find(asked: Asked) -> CodeFacts | None:
    """Return the members of the series that fits the question best; None if none fits well enough."""
    if derived := _derived(asked):
        return derived
    wanted = weights(asked)
    if not any(wanted.values()):
        return None  # "All of them, please."
    best = best_fit(asked, wanted)
    if best is None or best.score < _MIN_SCORE or not is_the_list(asked, best):
        return None
    found = _answer(asked, best, wanted)
    return found if found and found.count > 1 else None


def _derived(asked: Asked) -> CodeFacts | None:
    """Return the classes that derive from the one that is named; None if that is not asked, or none do."""
    matched = _DERIVED.search(asked.question.question.text)
    name = next(filter(None, matched.groups()), "") if matched else ""
    for index in asked.indexes if name else ():
        for path in dict.fromkeys(index.hit(chunk, 0.0, {}).path for chunk in index.defining(name)):
            if (file := asked.file(index, path)) is None:
                continue
            places, note, count = _everywhere(asked, file, Series("subclass", name, 0, 0), name)
            if places:
                summary = f"{named(name)} has {count} direct subclasses"
                return code_facts(asked, LIST, name, summary, places, note=note, count=count)
    return None


def _answer(asked: Asked, best: Fit, wanted: Mapping[str, float]) -> CodeFacts | None:
    """Return the members of a series as facts, completed from other files; a base class comes before them."""
    file, series, subject = best.file, best.series, best.subject
    note = f"{INCOMPLETE}only lines near the best hits were read" if best.is_cut else ""
    base: list[FactPlace] = []
    places, every = [_member(file, line, name, subject) for line, name in series.members.items()], 0
    if best.is_shared or (series.shape in SHARED and series.anchor not in KEYWORDS):
        is_base_shown = series.shape == "subclass" and _DERIVED_TERMS.isdisjoint(wanted)
        base = _definition(asked, file.index, subject) if is_base_shown else []
        more, note, every = _everywhere(asked, file, series, subject)
        places = places if len(more) < len(places) else more
    elif sort_of(file, series) == "enum" and (values := _values(best)):
        subject, first = values[0].scope.rpartition(".")[2], min(series.members)
        before = file.lines[first - 1].partition(series.members[first])[0]
        alike = [one.start for one in values if file.lines[one.start - 1].startswith(before + one.name)]
        names = series.members | {one.start: one.name for one in values if one.start in alike}
        places, every = [_member(file, *each, subject) for each in sorted(names.items())], len(alike)
        note = "" if every == len(values) else _ONLY_ALIKE
    elif sort_of(file, series) == "enum":
        note = note or _ONLY_ALIKE
    if note and series.shape == "call" and sort_of(file, series) in ("function", "call"):
        return None  # a call in so many files does something, and registers nothing
    count = max(every, len({(one.file.path, one.line) for one in places}))
    verb, noun = _WORDS.get(series.shape, ("has", "members"))
    if series.shape == "strings":
        count = int(series.anchor)
    where = named(file.path) if file.path.endswith(subject) else f"{named(subject)} in {named(file.path)}"
    summary = f"The list is {where}, which {verb} {count} {noun}"
    # A base class that is named is one of the "error classes" that are asked for, but no "storage type".
    is_asked_for = not (set(terms(subject)).isdisjoint(wanted) or _CLASS_TERMS.isdisjoint(wanted))
    places = [*base, *places] if is_asked_for else [*places, *base]
    return code_facts(asked, LIST, subject, summary, places, note=note, count=count)


def _values(best: Fit) -> list[CodeDefinition]:
    """Return all values that the enum with the members of a series declares; none if that is not known."""
    first, path, graph = min(best.series.members), best.file.path, best.file.index.graph
    values = graph.values_in(path)
    scope = next((one.scope for one in values if one.start == first), "")
    same = (one for one in graph.defined_in(path) if one.qualified_name == scope)
    around = next((range(one.start, one.end + 1) for one in same if one.start <= first <= one.end), ())
    return [one for one in values if one.scope == scope and one.start in around]


def _definition(asked: Asked, index: ChunkIndex, name: str) -> list[FactPlace]:
    """Return where the code declares a class, at most one place."""
    found = (one for one in index.graph.definitions(name) if one.unit != "function")
    places = (asked.place(index, one.path, one.start, "their base class") for one in found)
    return [place for place in places if place is not None][:1]


def _everywhere(
    asked: Asked, file: FileText, series: Series, subject: str
) -> tuple[list[FactPlace], str, int]:
    """Return the lines of all files that have the shape of a series, what may be missing, and their number.

    If not all files are read, subclasses are also those of the graph.
    """
    index = file.index
    term = terms(series.anchor)[-1:]
    chunks = index.postings(term[0]).chunks if term else np.zeros(0, np.int32)
    numbers = dict.fromkeys(index.file[chunks[index.kind[chunks] == _CODE]].tolist())
    paths = [file.path, *(index.file_path(number) for number in numbers)]
    first, *others = dict.fromkeys(paths)
    others.sort(key=lambda path: (_distance(first, path), path))
    places, is_partial = list[FactPlace](), len(others) >= _OTHER_FILES
    needle = series.anchor.rpartition(" ")[2]
    for path in [first, *others][:_OTHER_FILES]:
        if (other := asked.file(index, path)) is None:
            is_partial = True
            continue
        places += [
            _member(other, number, name, subject) for number, name in _lines_of(other.lines, series, needle)
        ]
    known = {(one.file.path, one.line) for one in places}
    more = _subclasses(index, series.anchor) if is_partial and series.shape == "subclass" else []
    more = [at for at in more if at not in known]
    count = len(places) + len(more)
    for path, line in more[: max(MAX_FACTS - len(places), 0)]:
        if (other := asked.file(index, path, most=_MEMBER_FILES)) is not None:
            places.append(_member(other, line, "", subject))
    is_partial = is_partial and not (series.shape == "subclass" and index.graph.definitions(series.anchor))
    return places, f"{INCOMPLETE}only {_OTHER_FILES} files were read" if is_partial else "", count


def _subclasses(index: ChunkIndex, name: str) -> list[tuple[str, int]]:
    """Return where the direct subclasses of the classes with a name begin, without tests."""
    bases = [one for one in index.graph.definitions(name) if one.unit != "function"]
    uses = [(use.path, use.line) for base in bases for use in index.graph.subclasses(base)]
    return [at for at in dict.fromkeys(uses) if kind_of_path(at[0]) != "test"]


def _member(file: FileText, line: int, name: str, subject: str) -> FactPlace:
    return FactPlace(file, line, f"member of {named(subject)}", key=name)


def _lines_of(lines: list[str], series: Series, needle: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that have the shape of a series, and so the `needle`, ascending, and their names."""
    if series.shape == "decorated":  # on a line above
        if any(needle in line for line in lines):
            same = (
                one for one in series_of(lines) if (one.shape, one.anchor) == ("decorated", series.anchor)
            )
            yield from sorted(member for one in same for member in one.members.items())
        return
    for number, line in enumerate(lines, 1):
        shapes = shapes_of(line) if needle in line else ()
        found = (name for shape, anchor, name in shapes if (shape, anchor) == (series.shape, series.anchor))
        yield from ((number, name) for name in islice(found, 1))


def _distance(one: str, other: str) -> int:
    """Return the number of folders between two files."""
    a, b = one.split("/")[:-1], other.split("/")[:-1]
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return len(a) + len(b) - 2 * same
