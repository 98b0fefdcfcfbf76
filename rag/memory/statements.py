"""Sentences that state a decision, a convention, a constraint or a definition, found by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.analysis import is_stop_word, term_set
from rag.identifiers import LOWER, UPPER
from rag.memory.facts import Fact, FactKind
from rag.types import SupportCheck

_MAX_CHARS = 20_000
_MAX_SENTENCE_CHARS = 300
_MIN_WORDS = 4
_MIN_CHINESE = 6
_SHARED = 0.5
"""The share of the words of the shorter of two sentences that both have, if they have the same subject."""
_SHARED_WITH_FLAG = 0.7
_SHORT = 3
"""A sentence with at most so few words of its subject may share only one."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_NOT_PROSE = re.compile(r"\s*(?:[|>#]|\[\d|Sources?:)")
_OUR_NOTE = re.compile(r"\s*Note:")
"""What answers begin a remark about themselves with; from a user it begins a statement."""
_OPENING = re.compile(r"(?:(?:by the way|btw|also|and|but|so|ok(?:ay)?|well|actually),?\s+)+", re.I)
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_CITED = r"\^?\d{1,3}(?::\d{1,7}(?:-\d{1,7})?)?"
_REFERENCE = rf"[\[【]{_CITED}(?:\s*[,;–-]\s*{_CITED})*[\]】]"
_REFERENCES = re.compile(_REFERENCE)
_END = re.compile(rf"[.!?](?:\s*{_REFERENCE})*(?=\s+[^\sa-z]|\s*$)|[。！？](?:\s*{_REFERENCE})*")
_NUMBER = re.compile(r"(\d+)(?:\s*[–-]\s*\^?(\d+))?")
_NAME = re.compile(
    rf"(?<!\w)(?=\w*?(?:\w_\w|[{LOWER}][{UPPER}])|\w+\.[^\W\d_])[^\W\d_]\w*+(?:\.[^\W\d_]\w*+)*+|(?<=`)[^`\s]+(?=`)"
)
_CHINESE = re.compile(r"[\u3400-\u9fff]")

_ASKS = re.compile(
    r"(?:what|where|when|why|who|whom|whose|which|how|is|are|was|were|do|does|did|can|could|should|would|will|has"
    r"|have|show|find|list|explain|describe|give)\b",
    re.I,
)
_EXPLICIT = re.compile(
    r"(?:(?:please|also|and),?\s+)*(?:(?:remember|note|keep in mind|bear in mind|do not forget|don't forget"
    r"|for the record)(?:\s*[:,]|\s+that\b)|fyi\b[:,]?)\s*(.+)|(?:请?记住|请注意|注意)[:：,，]?\s*(.+)",
    re.I | re.S,
)
_POINTS_BACK = re.compile(
    r"(?:it|its|this|that|these|those|they|their|he|she|here|there|i|you|both|such)\b", re.I
)
_KINDS: tuple[tuple[FactKind, re.Pattern[str]], ...] = (
    (
        "decision",
        re.compile(
            r"\b(?:we|the team|i|they)(?:\s+have|'ve)?\s+(?:decided|agreed|chose|settled on|opted)\b"
            r"|\bit (?:was|is) (?:decided|agreed)\b|^decision\s*:|\bby design\b|\bon purpose\b"
            r"|\b(?:deliberately|intentionally)\b|我们(?:决定|商定|选择)",
            re.I,
        ),
    ),
    (
        "convention",
        re.compile(
            r"\b(?:always|never)\b|\bby convention\b|^(?:convention|rule)\s*:|\bthe convention is\b"
            r"|\bas a rule\b|\bour (?:convention|rule|policy|style)\b"
            r"|\bwe (?:use|prefer|avoid|follow|name|write)\b|始终|从不|一律|约定",
            re.I,
        ),
    ),
    (
        "constraint",
        re.compile(
            r"\b(?:must|mustn't|may not|may only|shall)\b|^constraint\s*:"
            r"|\bis(?:n't| not)? (?:allowed|permitted)\b"
            r"|\b(?:is|are) (?:required|forbidden|limited to|mandatory)\b|\bno (?:more|fewer|less) than\b"
            r"|\bat (?:most|least)\b|必须|不得|不能超过|禁止",
            re.I,
        ),
    ),
    (
        "definition",
        re.compile(
            r"\b(?:means|denotes)\b|\bis (?:defined as|short for)\b|^definition\s*:"
            r"|\bby [`\w' -]{1,40} we mean\b|\bwe call\b"
            r"|^(?:an? |the )?[`\w'-]+(?: [`\w'-]+){0,3} is (?:an?|the) [`\w'-]+(?: [`\w'-]+)?"
            r" (?:that|which|of|for)\b|指的是|的意思是|定义为",
            re.I,
        ),
    ),
)
_REPORTS = re.compile(
    r"(?!.*\b(?:we|you|should|must) (?:always|never)\b)(?!always\b|never\b).*\b(?:always|never)\b", re.I
)
"""A user's sentence in which something always or never happens, which may be a report of a fault."""
_STATING = frozenset(term_set("always never must may shall decide decided agree agreed convention rule use"))
"""Words that many statements have, whatever their subject."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that may be a fact. `numbers` are those of the sources that follow it, in order."""

    text: str
    kind: FactKind
    numbers: tuple[int, ...] = ()


def stated_by_user(message: str) -> list[Statement]:
    """Return the statements in a user's message, in order: none of a message that only asks."""
    found = []
    for sentence, _ in _sentences(message):
        explicit = _EXPLICIT.fullmatch(sentence)
        text = (explicit[1] or explicit[2]).strip() if explicit else sentence
        text = text[opening.end() :] if (opening := _OPENING.match(text)) else text
        if text.endswith(("?", "？")) or (not explicit and _ASKS.match(text)):
            continue
        kind = kind_of(text)
        is_rule = bool(kind) and (
            kind == "decision" or not (_POINTS_BACK.match(text) or _REPORTS.match(text))
        )
        if (explicit or is_rule) and _is_long_enough(text, explicit=bool(explicit)):
            found.append(Statement(_begun(text), kind))
    return found


def stated_by_answer(answer: str) -> list[Statement]:
    """Return the statements of an answer that are followed by references to sources, in order.

    Code, quotes, tables and headings are left out, and so are sentences that need the one before them.
    """
    return [
        Statement(text, kind, numbers)
        for text, numbers in _sentences(answer)
        if numbers and not _OUR_NOTE.match(text)
        if (kind := kind_of(text)) and not _POINTS_BACK.match(text) and not text.endswith("?")
        if _is_long_enough(text)
    ]


def kind_of(sentence: str) -> FactKind:
    """Return what a sentence states; "" if its words do not show it."""
    return next((kind for kind, pattern in _KINDS if pattern.search(sentence)), "")


def on_same_subject(fact: Fact, others: Sequence[Fact]) -> list[Fact]:
    """Return those of other facts about the same repository that have the same subject, in their order.

    They share half of the words of the shorter sentence, not counting stop words and numbers; or a name of
    code and another word; or they cite the same lines and share a word.
    """
    mine, names = _subject(fact.text), _names(fact.text)
    found = []
    for other in others:
        if other.id == fact.id or other.location != fact.location:
            continue
        theirs = _subject(other.text)
        shared, fewer = mine & theirs, min(len(mine), len(theirs))
        is_enough = len(shared) >= 2 or (fewer <= _SHORT and fact.kind == other.kind != "")
        is_alike = bool(shared) and is_enough and len(shared) >= _SHARED * fewer
        has_name = bool(names & _names(other.text)) and len(shared) >= 2
        if is_alike or has_name or (shared and _cite_the_same(fact, other)):
            found.append(other)
    return found


def is_flagged(sentence: str, check: SupportCheck | None) -> bool:
    """Return whether a sentence says what its answer was flagged for: most of its words are in one flag."""
    said = term_set(sentence)
    flags = [term_set(one.text) for one in check.flagged] if check else []
    return any(len(said & flag) >= _SHARED_WITH_FLAG * len(said) for flag in flags)


def mentions(sentence: str, name: str) -> bool:
    """Whether a sentence contains a name of code, as a word of its own."""
    return len(name) > 2 and bool(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", sentence))


def _begun(text: str) -> str:
    """Return a sentence with a capital letter; a name of code at its beginning stays as it is."""
    first = text.split()[0]
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() else text


def _subject(text: str) -> frozenset[str]:
    words = {word for word in term_set(text) if not word.isdecimal() and not is_stop_word(word)}
    return frozenset(words - _STATING)


def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))


def _cite_the_same(one: Fact, other: Fact) -> bool:
    return any(
        a.path == b.path and a.start <= b.end and b.start <= a.end
        for a in one.citations
        for b in other.citations
    )


def _sentences(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the sentences of a text without references, each with the numbers of its own."""
    for line in _FENCE.sub("\n", text[:_MAX_CHARS]).splitlines():
        if _NOT_PROSE.match(line) or not line.strip():
            continue
        line = _LIST_MARK.sub("", line).strip()
        parts, at = [], 0
        for end in _END.finditer(line):
            parts.append(line[at : end.end()])
            at = end.end()
        parts.append(line[at:])
        for part in parts:
            sentence = " ".join(_REFERENCES.sub("", part).split())
            sentence = re.sub(r"\s+(?=[.,;:!?])", "", sentence)
            if sentence and len(sentence) <= _MAX_SENTENCE_CHARS:
                yield sentence, tuple(_numbers(part))


def _numbers(part: str) -> Iterator[int]:
    for reference in _REFERENCES.findall(part):
        for first, last in _NUMBER.findall(reference):
            yield from range(int(first), min(int(last or first), int(first) + 50) + 1)


def _is_long_enough(text: str, *, explicit: bool = False) -> bool:
    chinese = len(_CHINESE.findall(text))
    return chinese >= _MIN_CHINESE or len(text.split()) >= (2 if explicit else _MIN_WORDS)
