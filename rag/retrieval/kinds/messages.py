"""Find where a pasted message comes from: the string literal with placeholders that it was written by.

The literals of the best files are compared with the message: the fixed parts of a literal, between its
placeholders, must occur in the message in their order. If a constant holds the literal, the lines that use
the constant follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import chain, islice

from rag.analysis import is_stop_word, words
from rag.retrieval.exact import find_text
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts
from rag.retrieval.kinds.recognition import has_message, is_pasted, is_question
from rag.retrieval.literal import quoted
from rag.retrieval.log_prefix import without_log_prefixes
from rag.retrieval.shown_definition import is_in_test
from rag.types import CodeFacts
from rag.types.question_kinds import MESSAGE

_FILES = 12
_MAX_LINE_CHARS = 500
_MAX_SEARCHED_CHARS = 20_000
"""The literals of a line are read from this much of it."""
_MAX_LITERALS = 4_000
_MAX_MESSAGE_WORDS = 400
_MAX_USES, _MAX_WRITTEN = 4, 6
_MAX_HELD, _MAX_SECONDS = 60, 1.0
"""How many lines with a quoted phrase are read, and how long they are looked for."""
_MAX_TEXT_LINES = 40
"""How far above a line the beginning of a literal of several lines may be."""
_WRITES = "writes the message"
_MIN_WORDS = 4
_MIN_MEANINGFUL = 2
_MAX_WHOLE = 30
"""The most words of a text that is a message only because it is a whole literal."""
_MIN_UNMARKED = 4
"""The least words of a literal, and words with a meaning; more if nothing marks the question as a message."""
_VALUE_WORDS = 2
"""How many words the value for a placeholder has at most."""
_SHORT_SHARE = 0.5
"""A literal of fewer words must be this share of the message."""
_EXCEPTION = re.compile(
    r"(?<!\s)\s*(?:[\w$]{1,60}(?:\.|::)){0,9}[A-Z]\w{0,60}(?:Error|Exception|Warning|Failure): "
)
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.){8,400})\"|'((?:[^'\\]|\\.){8,400})'|`((?:[^`\\]|\\.){8,400})`")
_PLACEHOLDER = re.compile(
    r"%[-+ #0]*[\d.*]*(?:\([\w.]+\))?[hlzL]*[a-zA-Z@]|#\{[^{}]*\}|\$\{[^{}]*\}|\{[^{}\s]*\}|\$\w+|\\[nrt]"
)
_FIRST_WORD = re.compile(r"[ ]*([A-Za-z0-9_]+)(?![A-Za-z0-9_$])")
"""The first word, unless it goes on with a sign that can be part of a word."""
_ESCAPED = re.compile(r"\\([\"'`\\])")
_GOES_ON = re.compile(r"\s*(?:[+.&]\s*|\.\.\s*|<<\s*)?[furbFURB@$]{0,2}[\"'`]")
_MAX_PARTS = 6
"""How a line begins that goes on with the literal of the line before, and how many such lines are joined."""
_CONSTANT = re.compile(r"\s*(?:[\w.]+\s+){0,4}([^\W\d]\w{3,})\s*(?::[^=]{1,40})?(?:=|:=)")


def _may_be_whole(text: str, message: list[str]) -> bool:
    is_long_enough = _count_meaningful(message) >= _MIN_MEANINGFUL
    return is_long_enough and len(message) <= _MAX_WHOLE and "?" not in text and not is_question(text)


def find(asked: Asked) -> CodeFacts | None:
    """Return the lines of the literal that fits the message best, and the uses of its constant."""
    text = asked.question.question.text
    return _answer(asked, _holding(asked, text) or _fitting(asked, text))


def _holding(asked: Asked, text: str) -> list[tuple[FileText, int]]:
    """Return the lines whose string literal holds a quoted phrase as it is written, then those of documents.

    Code comes before tests, unless tests are asked for; none without a literal.
    """
    order = ("test", "code", "doc") if "tests" in asked.question.question.asks else ("code", "test", "doc")
    phrases = [phrase for phrase in quoted(text) if f"`{phrase}`" not in text]  # that may be a command
    for phrase in () if is_pasted(text) else phrases:
        if " " not in phrase.strip() or not _count_meaningful(_lower(phrase)):
            continue
        found = list[tuple[int, FileText, int]]()
        for index in asked.indexes:
            for hit in find_text([index], phrase, k=_MAX_HELD, max_seconds=_MAX_SECONDS).hits:
                file = asked.file(index, hit.path)
                if file is None or hit.kind not in order:
                    continue
                if hit.kind == "doc" or _is_in_literal(phrase, file.lines, hit.start - 1):
                    found.append((order.index(hit.kind), file, hit.start))
        if any(order[rank] != "doc" for rank, *_ in found):
            return [(file, line) for _, file, line in sorted(found, key=lambda one: one[0])]
    return []


def _is_in_literal(phrase: str, lines: Sequence[str], row: int) -> bool:
    """Return whether a line, from 0, has a phrase in a string literal: one of its own, or one that a line
    above begins, which is no docstring.
    """
    literals = _LITERAL.findall(lines[row], 0, _MAX_SEARCHED_CHARS)
    if any(phrase in _ESCAPED.sub(r"\1", part) for parts in literals for part in parts):
        return True
    for line in reversed(lines[max(row - _MAX_TEXT_LINES, 0) : row]):
        before, mark, after = line[:_MAX_LINE_CHARS].rpartition('"""' if '"""' in line else "`")
        if mark:
            return bool(before.strip()) and before.count(mark) % 2 == 0 and not after.strip(" \\")
    return False


def _fitting(asked: Asked, text: str) -> list[tuple[FileText, int]]:
    """Return the lines of the literal in the best files that fits a message best."""
    message, *ends = _messages(text)
    is_whole = _may_be_whole(text, message)
    is_marked = len(message) >= _MIN_WORDS and (
        is_pasted(text) or any(one.hit.legs.get("phrase") for one in asked.best)
    )
    if not is_marked and not is_whole:
        return []
    known, lowered = frozenset(message), text.lower()
    at: list[tuple[FileText, int]] = []
    written: list[list[str]] = []
    best = (_MIN_MEANINGFUL if has_message(text) else _MIN_UNMARKED) - 1
    if not is_whole and _count_meaningful(message) <= best:
        return []  # no literal has more of the message than it has itself
    for file in asked.best_files(_FILES):
        if asked.kind_of(file) in ("code", "config"):
            if max(map(len, file.lines), default=0) > _MAX_SEARCHED_CHARS:
                asked.limits[f"only the first {_MAX_SEARCHED_CHARS:,} characters of a line were read"] = None
            for number, parts in _literals(file, known):
                fit = max(_fit(parts, one) for one in (message, *ends)) if is_marked else 0
                if len(parts) == 1 and "-".join(parts[0]) in lowered:
                    continue  # a name of several words, such as that of an option
                if is_whole and _is_all(parts, message, file.lines[number - 1]):
                    fit = _MAX_MESSAGE_WORDS + sum(map(len, parts))
                if fit > best:
                    best, at, written = fit, [(file, number)], parts
                elif fit == best and parts == written:
                    at.append((file, number))
    return at


def _answer(asked: Asked, at: Sequence[tuple[FileText, int]]) -> CodeFacts | None:
    """Return the lines that write a message as facts, with the uses of its constant."""
    if not at:
        return None
    file, number = at[0]
    found = [_place(asked, *one) for one in {(f.path, n): (f, n) for f, n in at}.values()]
    written = sum(place.reason == _WRITES for place in found) or len(found)
    where = "here" if written == 1 else f"in {written} places"
    if others := len(found) - written:
        where += f", and occurs in {others} line{'s' * (others > 1)} of tests and documents"
    places = asked.first(found, _MAX_WRITTEN, "places with the message are shown")
    constant = _CONSTANT.match(file.lines[number - 1][:_MAX_LINE_CHARS])
    uses = [*islice(_uses(asked, file, number, constant[1]), _MAX_USES + 1)] if constant else []
    uses = asked.first(uses, _MAX_USES, "uses of the constant are shown")
    text = " ".join(file.lines[number - 1].split())[:80]
    return code_facts(asked, MESSAGE, text, f"The message is written {where}", [*places, *uses])


def _place(asked: Asked, file: FileText, number: int) -> FactPlace:
    if is_in_test(file.index, file.path, number):
        return FactPlace(file, number, "has it in a test")
    return FactPlace(file, number, "documents it" if asked.kind_of(file) == "doc" else _WRITES)


def _messages(text: str) -> list[list[str]]:
    """Return the words of a message, and of its last and first line without the exception that they name."""
    text = without_log_prefixes(text).strip()
    lines = text.split("\n")
    ends = (_EXCEPTION.sub("", line) for line in (lines[-1], lines[0]))
    return [_lower(one)[:_MAX_MESSAGE_WORDS] for one in dict.fromkeys((text, *ends))]


def _literals(file: FileText, known: Set[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield the string literals of a file: the line of each, and the words of its fixed parts.

    A literal that goes on in the next line is yielded as a whole as well. Those that do not begin with a
    `known` word may be left out: splitting all into words would take most of the time.
    """
    count, last, end, begun = 0, 0, 0, list[list[str]]()
    is_begun = True
    """Whether all literals of `begun` are split, and none is left out."""
    for number, line in enumerate(file.lines, 1):
        if count > _MAX_LITERALS or not ("'" in line or '"' in line or "`" in line):
            continue
        joins = last and end == number - 1 and number - last <= _MAX_PARTS and _GOES_ON.match(line)
        end = number
        for found in _LITERAL.findall(line, 0, _MAX_SEARCHED_CHARS):
            count += 1
            literal = found[0] or found[1] or found[2]
            is_split = _may_begin_with(literal, known)
            parts = _parts(literal) if is_split else []
            if is_split:
                yield number, parts
            if joins:
                begun, is_begun = [*begun, *parts], is_begun and is_split
                if is_begun:
                    yield last, begun
            else:
                last, begun, is_begun = number, parts, is_split


def _parts(literal: str) -> list[list[str]]:
    """Return the words of the fixed parts of a literal, between its placeholders."""
    return [words for part in _PLACEHOLDER.split(literal) if (words := _lower(part))]


def _may_begin_with(literal: str, known: Set[str]) -> bool:
    """Return whether the first word of a literal may be one of these; True where that is not easily seen."""
    matched = _FIRST_WORD.match(literal)
    return matched is None or not literal.isascii() or matched[1].lower() in known


def _fit(parts: list[list[str]], message: list[str]) -> int:
    """Return the number of meaningful words of a literal; 0 if its parts are not in the message in order."""
    every = [word for part in parts for word in part]
    meaningful = _count_meaningful(every)
    is_most = meaningful >= _MIN_MEANINGFUL and len(every) >= _SHORT_SHARE * len(message)
    if (len(every) < _MIN_WORDS and not is_most) or not set(every) <= set(message):
        return 0
    at = 0
    for part in parts:
        while at <= len(message) - len(part) and message[at : at + len(part)] != part:
            at += 1
        if at > len(message) - len(part):
            return 0
        at += len(part)
    return meaningful


def _is_all(parts: list[list[str]], message: list[str], line: str) -> bool:
    """Return whether the literal of a line is all of a message: its parts, and the values of placeholders."""
    every = list(chain(*parts))
    if every == message:
        return True
    values = len(message) - len(every)
    return (
        0 < values <= _VALUE_WORDS * len(parts)
        and _PLACEHOLDER.search(line) is not None
        and _fit(parts, message) > 0
    )


def _count_meaningful(words: Sequence[str]) -> int:
    return sum(not is_stop_word(word) for word in words)


def _lower(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


def _uses(asked: Asked, near: FileText, number: int, name: str) -> Iterator[FactPlace]:
    """Yield lines of the best files that use a constant, in its own file first."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for file in (near, *(one for one in asked.best_files(_FILES) if one is not near)):
        for at, line in enumerate(file.lines, 1):
            is_other = file is not near or at != number
            if is_other and name in line and word.search(line[:_MAX_LINE_CHARS]):
                yield FactPlace(file, at, f"uses `{name}`")
