"""List all members of something: of the registry, enum, table or base class that a question asks for.

The answer is the series of similar lines (`series`) in the best files that fits the question best
(`list_fit`). A series whose lines share a name (a base class, a function that registers, a decorator) is
completed from the other files that hold the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from rag.analysis import terms
from rag.code.languages import kind_of_path
from rag.identifiers import UPPER
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import INCOMPLETE, MAX_FACTS, Asked, FactPlace, FileText, code_facts, named
from rag.retrieval.kinds.class_names import classes_named, noun_of, with_named
from rag.retrieval.kinds.folder_list import folder_named
from rag.retrieval.kinds.line_series import Series, series_of, shapes_of
from rag.retrieval.kinds.list_claim import is_the_list
from rag.retrieval.kinds.list_fit import (
    CLASS_KEYWORDS,
    CLASS_TERMS,
    FUNCTION_KEYWORDS,
    SHARED,
    Fit,
    candidates,
    phrase_of,
    subject_of,
    weights,
    words_of_phrase,
)
from rag.types import CodeFacts
from rag.types.question_kinds import LIST

_MIN_SCORE = 0.7
_OTHER_FILES, _MEMBER_FILES = 40, 120
"""How many files are read to complete a list, by their text and as the graph has the members."""
_CODE = 0
_DERIVED = re.compile(
    rf"\b([{UPPER}]\w+) (?:sub-?classes|implementations)\b"
    rf"|\b(?:sub-?classes|implementations) of (?:the )?`?([{UPPER}]\w+)"
    rf"|\b(?:deriv|inherit|extend)\w* (?:from )?`?([{UPPER}]\w+)"
)
_DERIVED_TERMS = frozenset(terms("subclass inherit derive derived extend"))
_EVERYWHERE = CLASS_KEYWORDS | FUNCTION_KEYWORDS | {"enum", "instance", "impl", "@callback"}
_WORDS = {
    "call": ("is called in", "places"),
    "decorated": ("decorates", "definitions"),
    "assignment": ("is set in", "places"),
    "subclass": ("has", "direct subclasses"),
    "strings": ("has a line with", "values"),
}


def find(asked: Asked) -> CodeFacts | None:
    """Return the members of the series that fits the question best; None if none fits well enough."""
    if derived := _derived(asked):
        return derived
    asked = with_named(asked, phrase_of(asked))
    wanted = weights(asked)
    fits = [
        fit for fit in candidates(asked, wanted) if fit.score >= _MIN_SCORE and not _is_outline(fit, wanted)
    ]
    best = max(fits, key=lambda fit: fit.score, default=None)
    if best and not is_the_list(asked, best, wanted):
        best = None
    found = _answer(asked, best, wanted) if best else None
    found = found if found and found.count > 1 else None
    return _classes(asked, best, found) or _folder(asked, best, found) or found


def _derived(asked: Asked) -> CodeFacts | None:
    """Return the classes that derive from the one that is named; None if that is not asked, or none do."""
    matched = _DERIVED.search(asked.question.question.text)
    name = next(filter(None, matched.groups()), "") if matched else ""
    for index in asked.indexes if name else ():
        for path in dict.fromkeys(index.hit(chunk, 0.0, {}).path for chunk in index.defining(name)):
            if (file := asked.file(index, path)) is None:
                continue
            places, note, count = _everywhere(asked, file, Series("subclass", name, 0, 0), [])
            if places:
                summary = f"{named(name)} has {count} direct subclasses"
                return code_facts(asked, LIST, name, summary, places, note=note, count=count)
    return None


def _classes(asked: Asked, best: Fit | None, found: CodeFacts | None) -> CodeFacts | None:
    """Return the classes with the name that is asked for; None if the best series has what is asked for."""
    phrase = phrase_of(asked)
    sought = noun_of(phrase)
    if not sought:
        return None
    places, note = classes_named(asked, sought)
    is_fit = best and set(terms(" ".join(sought))) <= {
        *terms(subject_of(best.file, best.series)),
        *terms(best.file.path),
    }
    if not places or (is_fit and found and 2 * found.count >= len(places)):
        return None
    summary = f"{len(places)} classes have names that fit {named(phrase)}"
    return code_facts(asked, LIST, phrase, summary, places, note=note)


def _folder(asked: Asked, best: Fit | None, found: CodeFacts | None) -> CodeFacts | None:
    """Return the members of the folder that is asked for; None without one, or if the best series is named
    as they are, or has most of them and is in one file.
    """
    count_best = found.count if found else 0
    subject = subject_of(best.file, best.series) if best and found else ""
    is_file = best is not None and best.file.path.endswith(subject)
    if subject and not is_file and set(words_of_phrase(asked)) <= {*terms(subject)}:
        return None
    folder, places, count = folder_named(asked)
    if not places or (best and best.series.shape not in SHARED and 2 * count_best >= count):
        return None
    summary = f"The list is {named(folder)}, which has {count} members"
    return code_facts(asked, LIST, folder, summary, places, count=count)


def _is_outline(fit: Fit, wanted: Mapping[str, float]) -> bool:
    """Return whether a series is only the definitions of a file, whatever they are about."""
    series = fit.series
    if series.shape != "declaration" or series.anchor not in _EVERYWHERE or fit.parts:
        return False
    if series.anchor.startswith("@") and not wanted.keys().isdisjoint(terms(series.anchor)):
        return False
    meant = sum(not wanted.keys().isdisjoint(terms(name)) for name in series.members.values())
    return 2 * meant < len(series.members)


def _answer(asked: Asked, best: Fit, wanted: Mapping[str, float]) -> CodeFacts | None:
    """Return the members of a series as facts, completed from other files; a base class comes before them."""
    file, series = best.file, best.series
    subject = subject_of(file, series)
    note = f"{INCOMPLETE}only lines near the best hits were read" if best.is_cut else ""
    base: list[FactPlace] = []
    places, every = [FactPlace(file, line, f"member of {named(subject)}") for line in series.members], 0
    if best.parts or (series.shape in SHARED and series.anchor not in _EVERYWHERE):
        is_base_shown = series.shape == "subclass" and _DERIVED_TERMS.isdisjoint(wanted)
        base = _definition(asked, places, subject) if is_base_shown else []
        more, note, every = _everywhere(asked, file, series, [one.file.path for one in base])
        places = places if len(more) < len(places) else more
    count = max(every, len({(one.file.path, one.line) for one in places}))
    verb, noun = _WORDS.get(series.shape, ("has", "members"))
    if series.shape == "strings":
        count = int(series.anchor)
    where = named(file.path) if file.path.endswith(subject) else f"{named(subject)} in {named(file.path)}"
    summary = f"The list is {where}, which {verb} {count} {noun}"
    # A base class that is named is one of the "error classes" that are asked for, but no "storage type".
    is_asked_for = not (set(terms(subject)).isdisjoint(wanted) or CLASS_TERMS.isdisjoint(wanted))
    places = [*base, *places] if is_asked_for else [*places, *base]
    return code_facts(asked, LIST, subject, summary, places, note=note, count=count)


def _definition(asked: Asked, places: list[FactPlace], name: str) -> list[FactPlace]:
    """Return where the code declares a name, at most one place: where the index or a member's file has it."""
    index = places[0].file.index
    hits = [index.hit(chunk, 0.0, {}) for chunk in index.defining(name)[:_OTHER_FILES]]
    hits.sort(key=lambda hit: hit.kind != "code")
    paths = [*(hit.path for hit in hits), *(place.file.path for place in places)]
    for path in dict.fromkeys(paths):
        file = asked.file(index, path)
        for number, line in enumerate(file.lines if file else [], 1):
            shapes = shapes_of(line) if name in line else []
            if file and any(
                shape == "declaration" and declared.rstrip(":") == name for shape, _, declared in shapes
            ):
                return [FactPlace(file, number, "their base class")]
    return []


def _everywhere(
    asked: Asked, file: FileText, series: Series, also: list[str]
) -> tuple[list[FactPlace], str, int]:
    """Return the lines of all files that have the shape of a series, what may be missing, and their number.

    `also` are paths to read that the index does not have as code. If not all files are read,
    subclasses are also those of the graph.
    """
    index, subject = file.index, subject_of(file, series)
    term = terms(series.anchor)[-1:]
    chunks = index.postings(term[0]).chunks if term else np.zeros(0, np.int32)
    numbers = dict.fromkeys(index.file[chunks[index.kind[chunks] == _CODE]].tolist())
    paths = [file.path, *also, *(index.file_path(number) for number in numbers)]
    first, *others = dict.fromkeys(paths)
    others.sort(key=lambda path: (_distance(first, path), path))
    places, is_partial = list[FactPlace](), len(others) >= _OTHER_FILES
    needle = series.anchor.rpartition(" ")[2]
    for path in [first, *others][:_OTHER_FILES]:
        if (other := asked.file(index, path)) is None:
            is_partial = True
            continue
        places += [
            FactPlace(other, number, f"member of {named(subject)}")
            for number in _lines_of(other.lines, series, needle)
        ]
    known = {(one.file.path, one.line) for one in places}
    more = _subclasses(index, series.anchor) if is_partial and series.shape == "subclass" else []
    more = [at for at in more if at not in known]
    count = len(places) + len(more)
    for path, line in more[: max(MAX_FACTS - len(places), 0)]:
        if (other := asked.file(index, path, most=_MEMBER_FILES)) is not None:
            places.append(FactPlace(other, line, f"member of {named(subject)}"))
    is_partial = is_partial and not (series.shape == "subclass" and index.graph.definitions(series.anchor))
    return places, f"{INCOMPLETE}only {_OTHER_FILES} files were read" if is_partial else "", count


def _subclasses(index: ChunkIndex, name: str) -> list[tuple[str, int]]:
    """Return where the direct subclasses of the classes with a name begin, without tests."""
    bases = [one for one in index.graph.definitions(name) if one.unit != "function"]
    uses = [(use.path, use.line) for base in bases for use in index.graph.subclasses(base)]
    return [at for at in dict.fromkeys(uses) if kind_of_path(at[0]) != "test"]


def _lines_of(lines: list[str], series: Series, needle: str) -> Iterator[int]:
    """Yield the numbers of the lines that have the shape of a series, and so the `needle`, ascending."""
    if series.shape == "decorated":  # on a line above
        if any(needle in line for line in lines):
            same = (
                one for one in series_of(lines) if (one.shape, one.anchor) == ("decorated", series.anchor)
            )
            yield from sorted(number for one in same for number in one.members)
        return
    for number, line in enumerate(lines, 1):
        shapes = ((shape, anchor) for shape, anchor, _ in shapes_of(line)) if needle in line else ()
        if (series.shape, series.anchor) in shapes:
            yield number


def _distance(one: str, other: str) -> int:
    """Return the number of folders between two files."""
    a, b = one.split("/")[:-1], other.split("/")[:-1]
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return len(a) + len(b) - 2 * same
