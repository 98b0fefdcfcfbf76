"""Find the tests of a definition: "Which tests cover open_file?", "Is Client.send tested?".

These are the places in tests that use the definition, and the tests that are named after it. A use that the
graph of the code does not resolve is found by its name in the text of the tests. For a word of prose they are
the tests that have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from rag.analysis import terms
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.lookup import limit_of_lines
from rag.retrieval.shown_definition import is_in_test, label_at
from rag.retrieval.uses import uses_by_text
from rag.types import CodeDefinition, CodeUse, Hit

_TEST = 1
_TEST_WORDS = frozenset({"test", "tests", "spec", "specs"})
_MAX_FILES = 12
"""How many files are read for tests that are named after a definition."""


def tests_of(asked: Asked, index: ChunkIndex, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
    """Return the uses of some definitions of one name in tests, then the tests that are named after it.

    First are the uses in tests that are named after it; certain ones come before others.
    """
    name = targets[0].name
    found = [use for use in index.graph.uses(targets) if _is_in_test(index, use)]
    if not any(use.certain for use in found):
        known = {(use.path, use.line) for use in found}
        if limit := limit_of_lines(index, name):
            asked.limits[limit] = None
        written = [use for use in uses_by_text(index, name, _is_test) if (use.path, use.line) not in known]
        found += [use for use in written if use.role == "call"] or written
    named = list(_named_after(asked, index, name))
    found.sort(key=lambda use: (not use.certain, not _is_in(use, named), use.role != "call"))
    return [*found, *(one for one in named if not any(_is_in(use, [one]) for use in found))]


def tests_with_word(asked: Asked, index: ChunkIndex, word: str) -> list[CodeUse]:
    """Return the first line of each test that has a word of prose in any form, none of them certain: those
    that are named after it first.
    """
    wanted = terms(word)[-1:]
    found: dict[tuple[str, str], CodeUse] = {}
    for hit in asked.hits_with(index, wanted):
        for number, line in enumerate(lines_of(hit.text), hit.start):
            if wanted[0] in terms(line) and is_in_test(index, hit.path, number):
                within = label_at(index, hit.path, number)
                use = CodeUse(hit.path, number, within, "mention", certain=False)
                found.setdefault((hit.path, within), use)
    return sorted(found.values(), key=lambda use: (wanted[0] not in terms(use.within), not use.within))


def _is_test(hit: Hit) -> bool:
    return hit.kind == "test"


def _is_in_test(index: ChunkIndex, use: CodeUse) -> bool:
    return is_in_test(index, use.path, use.line)


def _named_after(asked: Asked, index: ChunkIndex, name: str) -> Iterator[CodeUse]:
    """Yield the definitions in tests whose names have all words of a name in a row.

    A name of one word must be all of the test's name, without the word for a test.
    """
    own = _words(name)
    holding = [index.postings(term).chunks for word in own for term in terms(word)[-1:]]
    if not holding:
        return
    chunks = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), holding)
    files = index.file[chunks[index.kind[chunks] == _TEST]].tolist()
    paths = [index.file_path(file) for file in dict.fromkeys(files)]
    for path in asked.first(paths, _MAX_FILES, "files of tests were read"):
        for one in index.graph.defined_in(path):
            words = [word for word in _words(one.name) if word not in _TEST_WORDS]
            places = range(len(words) - len(own) + 1) if len(own) > 1 or words == own else ()
            if any(words[at : at + len(own)] == own for at in places) and one.name != name:
                yield CodeUse(path, one.start, one.qualified_name, "mention", certain=False)


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_in(use: CodeUse, tests: Sequence[CodeUse]) -> bool:
    """Return whether a use is within one of some tests."""
    within = f"{use.within}."
    return any(use.path == one.path and within.startswith(f"{one.within}.") for one in tests)
