"""Say in words what an answer without a model found: its first sentence, and what each place is.

A sentence is made of the index and of documentation alone. Where the place is probably or only possibly the
right one, one word says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.analysis import terms
from rag.answer.chosen_lines import Sought, names_of_code
from rag.answer.sections import title_at
from rag.quoting import one_line, visible
from rag.types import CodeFacts, Hit, PlaceNote, Prepared
from rag.types.question_kinds import CALLERS, LIST

SURE, LIKELY = 0.65, 0.4
"""The least probability that the facts are right for a sentence without doubt, and for "probably"."""

_MAX_NAMES = 2
_CHOSEN_BY_RANK = frozenset({LIST})
"""Kinds whose facts are certain only if the ranking has chosen the right list."""
_REFERENCE = re.compile(r"[\[【]([\d^][\d,;:\s–-]*)[\]】]")


def without_references(text: str) -> str:
    """Return a text whose `[1]` and `[2:3]` are no references to places; they stay valid as code."""
    return _REFERENCE.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def doubt_of_place(prepared: Prepared, hit: Hit) -> str:
    """Return how sure a first place that the ranking found is: "probably" or "possibly"; "" for a definition
    that the question names.

    Of the most probable ones about six of ten are right: no sentence goes without doubt.
    """
    word = doubt(prepared)
    if hit.symbol in names_of_code(prepared.question) or prepared.confidence is None:
        return ""
    return "possibly" if word else "probably"


def doubt(prepared: Prepared) -> str:
    """Return how sure the facts of an answer are: "", "probably" or "possibly"."""
    probability = prepared.confidence.first_right if prepared.confidence else None
    if probability is None or probability >= SURE or prepared.warning:
        return ""
    return "probably" if probability >= LIKELY else "possibly"


def sentence_of_facts(found: CodeFacts, word: str) -> str:
    """Return what the facts say, without full stop; with a word of doubt where they are not certain."""
    said = visible(found.summary)
    is_certain = found.kind not in _CHOSEN_BY_RANK and found.certain_count == found.count
    if not word or found.kind == CALLERS or is_certain:
        return said  # it says itself how sure it is
    return f"{word.capitalize()} {said[:1].lower() if said[1:2].islower() else said[:1]}{said[1:]}"


def sentence_of_place(hit: Hit, row: int, place: str, note: PlaceNote, word: str, *, is_nearest: bool) -> str:
    """Return the first sentence of an answer: the place, and what its documentation or its calls say.

    `row` is the line that decides, from 0, and `place` the place as it is written, with its number.
    """
    begin = "The nearest place is" if is_nearest else f"This is {word} in".replace("  ", " ")
    named = f"{begin} {_kind(hit, note)}{named_at(hit, row)} {place}"
    if said := documented_at(note, hit.start + row):
        return f"{named}: “{said}”"
    calls = [
        f"has {_and(note.members)}" if note.members else "",
        f"is called by {_and(note.callers)}" if note.callers else "",
        f"calls {_and(note.callees)}" if note.callees else "",
    ]
    facts = " and ".join(filter(None, calls))
    return f"{named}, which {facts}." if facts else f"{named}."


def what_it_is(hit: Hit, row: int, note: PlaceNote, sought: Sought) -> str:
    """Return what a place is, in a few words: its documentation, else its calls, its signature, or the words
    of the question that it has besides its name; "" if its name says as much.
    """
    if said := documented_at(note, hit.start + row):
        return said
    kind = _kind(hit, note).strip()
    if hit.reason:
        return ", ".join(filter(None, [kind, visible(hit.reason)]))
    facts = [
        f"with {_and(note.members)}" if note.members else "",
        f"called by {_and(note.callers[:_MAX_NAMES])}" if note.callers else "",
        f"calls {_and(note.callees[:_MAX_NAMES])}" if note.callees else "",
    ]
    if any(facts) or kind == "test":
        return ", ".join(filter(None, [kind, *facts]))
    if "(" in note.signature or "=" in note.signature:
        return f"{kind} `{one_line(note.signature)}`"
    of_name = set(terms(hit.label))
    matched = [word for word in sought.words_in(hit.text) if of_name.isdisjoint(terms(word))]
    return f"mentions {', '.join(f'*{word}*' for word in matched[:_MAX_NAMES])}" if matched else ""


def named_at(hit: Hit, row: int) -> str:
    """Return the name of what a line of a hit is in: a definition, a section, else a file."""
    if hit.unit == "section" and hit.kind == "doc" and (title := title_at(hit, row)):
        return f"“{_words(title)}”"
    return f"`{one_line(hit.label)}`" if hit.label else f"`{one_line(hit.path.rpartition('/')[2])}`"


def documented_at(note: PlaceNote, line: int) -> str:
    """Return the sentence of the documentation nearest above a line of the file, else the first one."""
    above = [text for at, text in note.sentences if at <= line]
    said = _words((above or [text for _, text in note.sentences[:1]] or [""])[-1])
    return f"{said[:-1]} …" if said.endswith(":") else said


def _kind(hit: Hit, note: PlaceNote) -> str:
    """Return what the language calls a place, with a space; "" where its name says it."""
    if hit.is_test and hit.unit == "function" and hit.symbol:
        return "test "
    if note.word or (hit.unit in ("function", "class") and hit.symbol):
        return f"{note.word or hit.unit} "
    return "" if hit.label else "file "


def _and(names: Sequence[str]) -> str:
    """Return names in a row: `a`, `b` and `c`."""
    shown = [f"`{one_line(name)}`" for name in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _words(text: str) -> str:
    """Return words of the repository as a part of a sentence: they open no code, and are no references."""
    said = _REFERENCE.sub(r"(\1)", visible(text).replace("``", "`"))
    return said.replace("`", "'") if said.count("`") % 2 else said
