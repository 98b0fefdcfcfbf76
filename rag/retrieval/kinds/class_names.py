"""Find the classes that have a word of the question in their names: "all error classes".

The index knows the names of all classes, so that their files need not be among the best hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import INCOMPLETE, Asked, FactPlace, FileText, Ranked
from rag.retrieval.kinds.line_series import shapes_of
from rag.retrieval.kinds.list_fit import names_all

_CODE, _CLASS = 0, 1
_MIN_CLASSES = 3
_MAX_FILES = 30
_CLASSES = re.compile(r"\b(?:class(?:es)?|structs?|interfaces?|traits?|exceptions?|errors?)$", re.I)
_ANY_CLASS = frozenset(terms("class struct interface trait"))
_Class = tuple[ChunkIndex, str, str]
"""A class: its store, its path, its name."""
_FAILURES = ("error", "exception")
_MORE, _KEPT = 4, 20
"""How many types are added to the hits, and after how many."""


def noun_of(phrase: str) -> list[str]:
    """Return the words of a phrase that asks for classes, without the word for a class; else empty."""
    words = [word for word in re.findall(r"[^\W\d_]\w*", phrase) if not _ANY_CLASS.issuperset(terms(word))]
    return words if _CLASSES.search(phrase) else []


def with_named(asked: Asked, phrase: str) -> Asked:
    """Return what was asked with more hits: a few types whose names hold the last word of the phrase.

    Those whose name is the whole phrase come first.
    """
    sought = terms(phrase)
    last = terms(phrase.split()[-1])[:1] if phrase else []
    found: list[tuple[int, int, int, ChunkIndex]] = []
    for index in asked.indexes if last else ():
        for chunk, _, name in _named_in(index, last[0]):
            held = terms(name)
            found.append((-len(set(held) & set(sought)), len(held), chunk, index))
    found.sort(key=lambda one: one[:3])
    more = [Ranked(index.hit(chunk, 0.0, {}), index) for _, _, chunk, index in found[:_MORE]]
    whole = [one for one in more if names_all(asked, phrase, one.hit.symbol)]
    others = [one for one in more if one not in whole]
    return replace(asked, best=[*whole, *asked.best[:_KEPT], *others, *asked.best[_KEPT:]])


def classes_named(asked: Asked, sought: Sequence[str]) -> tuple[list[FactPlace], str]:
    """Return the declarations of the classes whose names end with the last of the words, and what may be
    missing.

    Of these, only those with the most of the other words in their names and paths, and of these, only those
    with the most words of the question in their folders. Empty for fewer than 3.
    """
    noun = re.sub(r"(?<=[^s])s$", "", sought[-1].lower())
    ends = _FAILURES if noun in _FAILURES else (noun,)
    found = [
        (index, path, name)
        for index in asked.indexes
        for end in ends
        for term in terms(end)[-1:]
        for _, path, name in _named_in(index, term)
        if name.lower().endswith(end)
    ]
    others = {term for word in sought[:-1] for term in terms(word)}
    best = _most(found, [len({*terms(path), *terms(name)} & others) for _, path, name in found])
    own = asked.question.question.terms.keys() - set(terms(" ".join(sought)))
    inside = _most(best, [len(set(terms(path.rpartition("/")[0])) & own) for _, path, _ in best])
    best = inside if len(inside) >= _MIN_CLASSES else best
    files = dict.fromkeys((id(index), path) for index, path, _ in best)
    read = set(list(files)[:_MAX_FILES])
    places: list[FactPlace] = []
    for index, path, name in best:
        file = asked.file(index, path) if (id(index), path) in read else None
        line = _declaring(file, name) if file else 0
        if file and line:
            places.append(FactPlace(file, line, "has the word in its name"))
    note = "" if len(places) == len(best) else f"{INCOMPLETE}only {len(read)} files were read"
    return (places, note) if len(places) >= _MIN_CLASSES else ([], "")


def _most(found: Sequence[_Class], counts: Sequence[int]) -> list[_Class]:
    """Return those with the highest count."""
    return [one for one, count in zip(found, counts, strict=True) if count == max(counts)]


def _named_in(index: ChunkIndex, term: str) -> Iterator[tuple[int, str, str]]:
    """Yield a chunk, the path and the name of each class in the code of a store whose name has a term."""
    postings = index.postings(term)
    chunks = postings.chunks[postings.head > 0]
    chunks = chunks[(index.kind[chunks] == _CODE) & (index.unit[chunks] == _CLASS)].astype(np.int64)
    names = index.names(chunks) if len(chunks) else []
    seen: set[tuple[int, str]] = set()
    for chunk, file, (name, _) in zip(chunks.tolist(), index.file[chunks].tolist(), names, strict=True):
        if (file, name) not in seen and term in terms(name):
            seen.add((file, name))
            yield chunk, index.file_path(file), name


def _declaring(file: FileText, name: str) -> int:
    """Return the line, from 1, that declares a class; 0 if none does."""
    for number, line in enumerate(file.lines, 1):
        if name in line and any(
            shape == "declaration" and declared.rstrip(":") == name for shape, _, declared in shapes_of(line)
        ):
            return number
    return 0
