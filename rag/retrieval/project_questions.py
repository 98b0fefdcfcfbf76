"""Questions about a project as a whole, and the places where projects conventionally answer them.

"How do I install it?": the words occur in a hundred functions, but the answer is in the README. A question is
about a topic of `data/project_topics.txt` when it has the words of the topic and no others but neutral words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from rag.resources import shipped
from rag.retrieval.conventional_places import NAMED, Place, headed


@cache
def _blocks() -> Mapping[str, Sequence[Sequence[str]]]:
    """Return the lines of the blocks of the file by the first word of each block."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for block in shipped("data/project_topics.txt").read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        for first in lines[:1]:
            found[first].append(lines[1:])
    return found


_WORDS = {line.split()[0]: frozenset(line.split()[1:]) for line in _blocks()["words"][0]}
NEUTRAL_WORDS = _WORDS["neutral"]
"""Neutral words, allowed in any such question."""
OF_CODE = re.compile("|".join(_blocks()["not"][0]), re.I)
"""What asks for a part of the code, or for any project, in words of a question about the whole project."""
_PROJECT, _STRUCTURED, _BEGINNING = _WORDS["project"], _WORDS["structured"], _WORDS["beginning"]
_WHOLE = _STRUCTURED | _WORDS["whole"]
"""Words of a question for a whole."""


@dataclass(frozen=True, slots=True)
class ProjectQuestion:
    """A topic: one word of each group in `asked` and no others but those of `extra`; and the places, best
    first. `purpose` is that of the commands that answer it, "" for none.
    """

    asked: tuple[frozenset[str], ...]
    extra: frozenset[str]
    places: tuple[Place, ...]
    purpose: str = ""

    def is_asked(self, asked_words: frozenset[str]) -> bool:
        """Return whether the words of a question, in lower case, include one of each group."""
        return not any(map(asked_words.isdisjoint, self.asked))

    def left_over(self, asked_words: frozenset[str]) -> frozenset[str]:
        """Return the words that ask for something else."""
        return asked_words.difference(NEUTRAL_WORDS, self.extra, *self.asked)


def project_questions() -> Sequence[ProjectQuestion]:
    """Return the topics; when a question fits two, it is about the first one."""
    return _read()["topic"]


@cache
def topic_words() -> frozenset[str]:
    """Return all words that a question about one of the topics may have."""
    every = (words for row in project_questions() for words in (row.extra, *row.asked))
    return NEUTRAL_WORDS.union(*every)


@cache
def asked_words() -> frozenset[str]:
    """Return the words that such questions ask with, also those that are written as names are: e2e."""
    return _WHOLE.union(*(group for row in project_questions() for group in row.asked))


@cache
def _read() -> Mapping[str, Sequence[ProjectQuestion]]:
    """Return the topics of the file by the kinds of their blocks."""
    named = dict(NAMED)
    for line in _blocks()["let"][0]:
        name, _, pattern = line.partition(" ")
        named[name] = _whole(pattern, named)
    kinds = ("topic", "overview", "structure")
    return {kind: [one for lines in _blocks()[kind] for one in _topics(lines, named)] for kind in kinds}


def _topics(lines: Sequence[str], named: Mapping[str, str]) -> Iterator[ProjectQuestion]:
    """Yield the topic of a block, or one for each of its lines "for"."""
    said: dict[str, list[str]] = defaultdict(list)
    for key, _, rest in (line.partition(" ") for line in lines):
        said[key].append(rest)
    for each in said["for"] or [""]:
        words, _, pattern = each.partition(" : ")
        asked = tuple(frozenset(group.split()) for group in (*said["ask"], words) if group)
        known = {**named, "it": pattern}
        places = tuple(_place(line, known) for line in lines if line.startswith(("in ", "head ")))
        yield ProjectQuestion(
            asked, frozenset(" ".join(said["with"]).split()), places, "".join(said["purpose"])
        )


def _place(line: str, named: Mapping[str, str]) -> Place:
    where, _, pattern = line.partition(" : ")
    key, path, *options = where.split()
    path, pattern = named.get(path, path), _whole(pattern, named)
    given = {name: value for name, _, value in (one.partition("=") for one in options)}
    most, terms = int(given.get("most", 3)), given.get("terms", "").split(",")
    if key == "head":
        return headed(path, pattern, most)
    return Place(path, pattern, most, tuple(filter(None, terms)), by_count="near" not in given)


def _whole(pattern: str, named: Mapping[str, str]) -> str:
    """Return a pattern with those that it names."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: named[name[1]], pattern)


_QUALIFIED = frozenset("basic big good key short".split())
"""Words that make a thing of the project of its parts: the key of a package, a short code."""
_PARTS = frozenset(("file", "files"))
_INTO = frozenset("in with to on about read reading learn understand".split())
"""Words of a question for where to start with a project, rather than for what starts it."""


def asks_for_whole(asked: Set[str]) -> bool:
    """Return whether the words of a question, without the name of its subject, ask for a whole, and for
    nothing else.
    """
    return not asked - NEUTRAL_WORDS - _WHOLE - _WORDS["with_them"] - _PROJECT and not asked.isdisjoint(
        _WHOLE
    )


def overview_question(asked: Set[str], own: frozenset[str], *, begins: bool) -> ProjectQuestion | None:
    """Return the kind of a question about the project as a whole, given its words: it has none of a subject.

    `own` are the names of the project. "This" is it only in the question that `begins` a conversation.
    """
    known = own.union(*_WORDS.values())
    if asked - known or not asked.isdisjoint(_PARTS):
        return None
    is_named = begins or not asked.isdisjoint(_PROJECT | own | {"architecture", "overview"})
    says_what = not asked.isdisjoint(("what", "whats")) and not asked.isdisjoint(
        _PROJECT | own | {"this", "it"}
    )
    says_what = says_what and asked.isdisjoint(_QUALIFIED)
    starts_it = not asked.isdisjoint(("start", "begin")) and not asked.isdisjoint(_PROJECT | own)
    if starts_it and asked.isdisjoint(_INTO):
        return None
    if not asked.isdisjoint(_BEGINNING):
        is_asked = not asked.isdisjoint(_WORDS["reader"]) and "how" not in asked
    else:
        is_asked = is_named and (says_what or not asked.isdisjoint(_WHOLE))
    kind = "overview" if asked.isdisjoint(_STRUCTURED) else "structure"
    return _read()[kind][0] if is_asked else None
