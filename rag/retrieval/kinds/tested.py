"""Find the tests of a definition: "Which tests cover open_file?", "Is Client.send tested?".

These are the places in tests that use the definition. A use that the graph of the code does not resolve is
found by its name in the text of the tests. For a word of prose they are the tests that have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag.analysis import terms
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.lookup import limit_of_lines
from rag.retrieval.shown_definition import is_in_test, label_at
from rag.retrieval.uses import uses_by_text
from rag.types import CodeDefinition, CodeUse, Hit


def tests_of(asked: Asked, index: ChunkIndex, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
    """Return the uses of some definitions of one name in tests: certain ones before others, calls first."""
    name = targets[0].name
    found = [use for use in index.graph.uses(targets) if _is_in_test(index, use)]
    if not any(use.certain for use in found):
        known = {(use.path, use.line) for use in found}
        if limit := limit_of_lines(index, name):
            asked.limits[limit] = None
        written = [use for use in uses_by_text(index, name, _is_test) if (use.path, use.line) not in known]
        found += [use for use in written if use.role == "call"] or written
    return sorted(found, key=lambda use: (not use.certain, use.role != "call"))


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
