"""Split a model's answer into statements, each with the numbers of the sources that it cites.

A statement is a sentence or list item outside headings, tables and fenced code that is not a question, a
lead-in ("The steps are:"), a phrase of a few words, or a sentence on what the sources do not show.

A statement cites the references that it has itself; in a list without any, those of the lead-in before the
list. One without references `introduces` what follows if a later sentence of its paragraph, or the paragraph
or list after it in the same section (which ends at a heading), has some; in the first paragraph, if any later
one has some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rag.answer.markdown import closes_fence, code_spans, opened_fence

MAX_CHARS = 60_000
"""The part of an answer that is examined."""
MAX_STATEMENTS = 400
_MAX_LINE_CHARS = 5_000
_MIN_WORDS = 4

_NUMBER = r"\d{1,3}(?::\d{1,7}(?:-\d{1,7})?)?"
REFERENCE = re.compile(rf"\[({_NUMBER}(?:[ \t]{{0,3}}[,;–-][ \t]{{0,3}}{_NUMBER}){{0,40}})\]")
"""A reference as an answer has it: numbers of sources, also with lines."""
SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?。！？]"
    r"(?:[*_\"')\]]|[ \t]{0,3}\[[\d:,; –-]{1,200}\])*(?=\s|$)(?![ \t]{0,3}\[\d)"
)
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]|[ \t]{0,3}(?:\*\*[^*]{1,100}\*\*|__[^_]{1,100}__):?[ \t]*$")
_ITEM = re.compile(r"[ \t>]{0,40}(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_TABLE = re.compile(r"[ \t]{0,3}\|")
_WORD = re.compile(r"\w+")
_DISCOURSE = re.compile(
    r"(?:in (?:summary|short|conclusion)|to summari[sz]e|overall|here (?:is|are)|let me|i hope|note that this"
    r"|the (?:given|provided|shown) (?:code|context|sources?|snippets?|lines)|sorry|unfortunately"
    r"|based on the)\b",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r":[*_ \t]*$")
_SOURCES = (
    r"(?:sources?|excerpts?|snippets?|(?:provided|given|quoted|shown|indexed) (?:code|context|lines|files?))"
)
_NEGATION = r"(?:\b(?:not|no|never|cannot|nothing|none|neither|only|without)\b|n['’]t\b)"
_ADMISSION = re.compile(
    rf"\b{_SOURCES}\b[^.;]{{0,60}}{_NEGATION}|{_NEGATION}[^.;]{{0,120}}\b{_SOURCES}\b"
    r"|(?:\bnot|n['’]t) (?:shown|visible|included|quoted) here\b"
    r"|\bcode do(?:es)?(?: not|n['’]t) (?:show|say)\b",
    re.IGNORECASE,
)
"""A sentence on what the model was not shown: the system prompt asks for it."""


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """A sentence: its place in the answer (character offsets, the end excluded), text, and cited numbers."""

    begin: int
    end: int
    text: str
    cited: tuple[int, ...] = ()
    claims: bool = True
    introduces: bool = False


def whole_sentences(text: str) -> str:
    """Return the text up to the end of its last whole sentence or list item; unchanged if it has none."""
    kept = text.rstrip()
    fence, opened_at, position = None, 0, 0
    for line in kept.split("\n"):
        if fence is None and (fence := opened_fence(line)) is not None:
            opened_at = position
        elif fence is not None and closes_fence(line, fence):
            fence = None
        position += len(line) + 1
    if fence is not None:
        kept = kept[:opened_at].rstrip()
    ends = [match.end() for match in SENTENCE_END.finditer(kept)]
    return kept[: ends[-1]] if ends else text


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fenced code, each with its offset in the text; "" for each fenced block."""
    fence, position = None, 0
    for line in text.split("\n"):
        if fence is not None:
            fence = None if closes_fence(line, fence) else fence
        elif (fence := opened_fence(line)) is None:
            yield position, line
        else:
            yield position, ""
        position += len(line) + 1


def statements(text: str) -> list[AnswerStatement]:
    """Return the statements of an answer in order; of its first `MAX_CHARS`, at most `MAX_STATEMENTS`."""
    found: list[AnswerStatement] = []
    opening = -1
    for section in _sections(text[:MAX_CHARS]):
        lead: tuple[int, ...] = ()
        for block, following in zip(section, [*section[1:], []], strict=True):
            spread = _spread(block, lead, any(one.cited for one in following))
            found += [one for one in spread if one.claims]
            opening = len(found) if opening < 0 else opening
            lead = spread[-1].cited if _LEAD_IN.search(spread[-1].text) else ()
        if len(found) >= MAX_STATEMENTS:
            break
    if any(one.cited for one in found[opening:]) and not any(one.cited for one in found[:opening]):
        found[:opening] = [replace(one, introduces=True) for one in found[:opening]]
    return found[:MAX_STATEMENTS]


def numbers_of(text: str) -> tuple[int, ...]:
    """Return the numbers of the references in a text, in order, each once; a range has all its numbers."""
    found: dict[int, None] = {}
    for match in REFERENCE.finditer(text):
        for part in re.split(r"[,;]", match[1]):
            first, *last = (int(number) for number in re.findall(r"\d+", part.partition(":")[0]))
            end = last[0] if last else first
            found.update(dict.fromkeys(range(first, min(end, first + 100) + 1)))
    return tuple(found)


def sentence_at(line: str, position: int) -> str:
    """Return the sentence of a line at a position, without list and heading marks."""
    begin, end = next((a, b) for a, b in _sentences(line) if position < b)
    return line[begin:end].strip(" \t-*#>")


def _sections(text: str) -> Iterator[list[list[AnswerStatement]]]:
    """Yield the paragraphs and lists between two headings or tables, each as its sentences.

    Blank lines between the items of a list do not end it.
    """
    section: list[list[AnswerStatement]] = [[]]
    in_list = is_blank = False
    for offset, line in outside_fences(text):
        if not line.strip():
            is_blank = True
            continue
        item = _ITEM.match(line[:_MAX_LINE_CHARS])
        if _HEADING.match(line[:_MAX_LINE_CHARS]) or _TABLE.match(line):
            yield from _whole(section)
            section, in_list = [[]], False
            continue
        continues = (in_list and line[:1] in " \t") or (in_list and item) or not is_blank
        if section[-1] and (not continues or (item and not in_list)):
            section.append([])
        in_list = bool(item) or (in_list and bool(section[-1]))
        is_blank = False
        section[-1] += _of_line(line[:_MAX_LINE_CHARS], offset, item.end() if item else 0)
    yield from _whole(section)


def _whole(section: list[list[AnswerStatement]]) -> Iterator[list[list[AnswerStatement]]]:
    """Yield a section without its empty blocks, if anything is left."""
    if blocks := [block for block in section if block]:
        yield blocks


def _of_line(line: str, offset: int, start: int) -> list[AnswerStatement]:
    found = []
    for begin, end in _sentences(line[start:]):
        text = line[start + begin : start + end]
        stripped = text.strip()
        if stripped:
            at = offset + start + begin + len(text) - len(text.lstrip())
            cited = numbers_of(stripped)
            found.append(AnswerStatement(at, at + len(stripped), stripped, cited, _claims(stripped)))
    return found


def _sentences(line: str) -> list[tuple[int, int]]:
    """Return start and end of the sentences of a line; a full stop in code font ends none."""
    masked = line
    for start, end in code_spans(line):
        masked = masked[:start] + "x" * (end - start) + masked[end:]
    ends = [match.end() for match in SENTENCE_END.finditer(masked)]
    return list(pairwise([0, *(end for end in ends if end < len(line)), len(line)]))


def _claims(sentence: str) -> bool:
    """Whether a sentence states something of the code."""
    bare = REFERENCE.sub("", sentence).strip(" \t*_")
    if bare.endswith("?") or _LEAD_IN.search(bare) or _DISCOURSE.match(bare) or _ADMISSION.search(bare):
        return False
    return len(_WORD.findall(bare)) >= _MIN_WORDS


def _spread(block: list[AnswerStatement], lead: tuple[int, ...], is_followed: bool) -> list[AnswerStatement]:
    """Return the sentences of a block; `lead` are the references before it, and some may follow it."""
    covering = () if any(one.cited for one in block) else lead
    last = max((n for n, one in enumerate(block) if one.cited), default=-1)
    return [
        replace(
            one,
            cited=one.cited or covering,
            introduces=not one.cited and not covering and (n < last or (is_followed and last < 0)),
        )
        for n, one in enumerate(block)
    ]
