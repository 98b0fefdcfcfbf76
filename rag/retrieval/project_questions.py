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

_WORDS = """
a about an and are be can codebase could do does exactly for get give got has have here i in into is it
its me my need of on one or our please program project repo repository code base see should software that
the there this to tool app application library package us use used uses using want we what whats where
which who how with would you your find at actually all any by file files from kind now currently tell
show
"""

NEUTRAL_WORDS = frozenset(_WORDS.split())
"""Neutral words, allowed in any such question."""

_NOUN = r"(?:project|repo|repository|package|library|program|tool|app|application)"
_SETTINGS = r"(?:config\w*|settings|preferences)"
_OF_CODE = (
    r"\b(?:what|which) (?:files?|code|packages?|librar(?:y|ies)|modules?|parts?)"
    r" (?:(?:is|are) run|(?:use|need|depend|require|run|read|change|start)s?)\b",
    r"\bwhat (?:depends on|(?:needs|requires|uses|changes) (?:to (?:run|use)|it|this|that|the)\b)",
    r"\bwhere\b.*\bused?\b|\b(?:used|docs|examples?) .*\bin (?:the|this|our) (?:code|source)|\bdead code\b",
    r"\b(?:in|of|from|use|read|with) (?:the|this|that|an?) file\b|\bfix (?:the|this|that|an?) tests?\b",
    r"\b(?:what|which) (?:file )?formats?\b|\bwhere\b.*\blayout\b|\bdoes \w+ report\b",
    rf"\b{_SETTINGS} (?:.*\bfrom|used)\b|\b(?:use|get)s? (?:its|the|our|my|these) {_SETTINGS}\b(?! file)",
    r"\Ahow(?:['’]s| is| are) \w+ going\b",
    rf"\A(?!.*\b(?:it|this|the {_NOUN})\b).*\ban? {_NOUN}\b",
)
OF_CODE = re.compile("|".join(_OF_CODE), re.I)
"""What asks for a part of the code, or for any project, in words of a question about the whole project."""


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
    """Return the topics of the file by the first lines of their blocks."""
    found: dict[str, list[ProjectQuestion]] = defaultdict(list)
    named = dict(NAMED)
    for block in shipped("data/project_topics.txt").read_text(encoding="utf-8").split("\n\n"):
        first, *lines = (line for line in block.splitlines() if not line.startswith("#"))
        for line in (first, *lines) if first.startswith("let ") else ():
            _, name, pattern = line.split(" ", 2)
            named[name] = _whole(pattern, named)
        if not first.startswith("let "):
            found[first] += _topics(lines, named)
    return found


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


PROJECT = frozenset(
    """app application code codebase framework library package program project repo repository software source
    system tool""".split()
)
_STRUCTURED = frozenset(
    """architecture design folders layout organisation organised organization organized parts structure
    structured tour""".split()
)
_WHOLE = _STRUCTURED | frozenset(
    """about components consist consists contain contains contents describe explain goal idea introduction
    main outline overview point purpose responsibilities responsibility responsible summarise summarize
    summary work working works""".split()
)
"""Words of a question for a whole."""
_BEGINNING = frozenset("begin beginning first new newcomer newcomers beginner start starting started".split())
_READER = frozenset("i im we one newcomer newcomers beginner beginners to".split())
_WITH_THEM = frozenset(
    """at basic between big brief briefly each general good high how inside internally internals its key learn
    level me most of out overall picture read reading role short through together understand walk way
    whole""".split()
)
_QUALIFIED = frozenset("basic big good key short".split())
"""Words that make a thing of the project of its parts: the key of a package, a short code."""
_PARTS = frozenset(("file", "files"))
_INTO = frozenset("in with to on about read reading learn understand".split())
"""Words of a question for where to start with a project, rather than for what starts it."""


def asks_for_whole(asked: Set[str]) -> bool:
    """Return whether the words of a question, without the name of its subject, ask for a whole, and for
    nothing else.
    """
    return not asked - NEUTRAL_WORDS - _WHOLE - _WITH_THEM - PROJECT and not asked.isdisjoint(_WHOLE)


def overview_question(asked: Set[str], own: Set[str], *, begins: bool) -> ProjectQuestion | None:
    """Return the kind of a question about the project as a whole, given its words: it has none of a subject.

    `own` are the names of the project. "This" is it only in the question that `begins` a conversation.
    """
    known = NEUTRAL_WORDS | PROJECT | _WHOLE | _WITH_THEM | _BEGINNING | _READER | own
    if asked - known or not asked.isdisjoint(_PARTS):
        return None
    is_named = begins or not asked.isdisjoint(PROJECT | own | {"architecture", "overview"})
    says_what = not asked.isdisjoint(("what", "whats")) and not asked.isdisjoint(
        PROJECT | own | {"this", "it"}
    )
    says_what = says_what and asked.isdisjoint(_QUALIFIED)
    starts_it = not asked.isdisjoint(("start", "begin")) and not asked.isdisjoint(PROJECT | own)
    if starts_it and asked.isdisjoint(_INTO):
        return None
    if not asked.isdisjoint(_BEGINNING):
        is_asked = not asked.isdisjoint(_READER) and "how" not in asked
    else:
        is_asked = is_named and (says_what or not asked.isdisjoint(_WHOLE))
    kind = "overview" if asked.isdisjoint(_STRUCTURED) else "structure"
    return _read()[kind][0] if is_asked else None
