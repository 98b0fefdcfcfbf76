"""Find where a pasted message comes from: the string literal with placeholders that it was written by.

The literals of the best files are compared with the message: the fixed parts of a literal, between its
placeholders, must occur in the message in their order. If a constant holds the literal, the lines that use
the constant follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice

from rag.analysis import is_stop_word, words
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, code_facts
from rag.retrieval.kinds.recognition import MESSAGE, has_message, is_pasted, is_question
from rag.types import CodeFacts

_FILES = 12
_MAX_LINE_CHARS = 500
_MAX_LITERALS = 4_000
_MAX_MESSAGE_WORDS = 400
_MAX_PHRASES = 50
_MAX_USES = 4
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
_QUOTED = re.compile(r"[\"“«`]([^\"“”«»`\n]{6,400})[\"”»`]|(?<!\w)['‘]([^'‘’\n]{6,400})['’](?!\w)")
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.){8,400})\"|'((?:[^'\\]|\\.){8,400})'|`((?:[^`\\]|\\.){8,400})`")
_PLACEHOLDER = re.compile(
    r"%[-+ #0]*[\d.*]*(?:\([\w.]+\))?[hlzL]*[a-zA-Z@]|#\{[^{}]*\}|\$\{[^{}]*\}|\{[^{}\s]*\}|\$\w+|\\[nrt]"
)
_ESCAPED = re.compile(r"\\([\"'`\\])")
_GOES_ON = re.compile(r"\s*(?:[+.&]\s*|\.\.\s*|<<\s*)?[furbFURB@$]{0,2}[\"'`]")
_MAX_PARTS = 6
"""How a line begins that goes on with the literal of the line before, and how many such lines are joined."""
_CONSTANT = re.compile(r"\s*(?:[\w.]+\s+){0,4}([A-Za-z_]\w{3,})\s*(?::[^=]{1,40})?(?:=|:=)")


def _may_be_whole(text: str, message: list[str]) -> bool:
    is_long_enough = sum(not is_stop_word(word) for word in message) >= _MIN_MEANINGFUL
    return is_long_enough and len(message) <= _MAX_WHOLE and "?" not in text and not is_question(text)


def find(asked: Asked) -> CodeFacts | None:
    """Return the line of the literal that fits the message best, and the uses of its constant."""
    text = asked.question.question.text
    message = _lower(text)[:_MAX_MESSAGE_WORDS]
    is_whole = _may_be_whole(text, message)
    is_marked = len(message) >= _MIN_WORDS and (
        is_pasted(text) or any(one.hit.legs.get("phrase") for one in asked.best)
    )
    if not is_marked and not is_whole:
        return None
    phrases = _phrases(text)
    may_fit = _with_words_of(message, phrases)
    at = None
    best = (_MIN_MEANINGFUL if has_message(text) else _MIN_UNMARKED) - 1
    for file in asked.best_files(_FILES):
        if asked.kind_of(file) in ("code", "config"):
            for number, parts in _literals(file, may_fit):
                fit = max(_fit(parts, message), _quoted(parts, phrases)) if is_marked else 0
                if is_whole and _is_all(parts, message, file.lines[number - 1]):
                    fit = _MAX_MESSAGE_WORDS + sum(map(len, parts))
                # Of literals with the same words, "missing '['" and "missing ']'", the marks decide.
                if fit > best or (
                    at and fit == best and _is_nearer(file.lines[number - 1], at[0].lines[at[1] - 1], text)
                ):
                    best, at = fit, (file, number)
    if at is None:
        return None
    file, number = at
    place = FactPlace(file, number, "writes the message")
    constant = _CONSTANT.match(file.lines[number - 1][:_MAX_LINE_CHARS])
    uses = list(_uses(asked, file, number, constant[1])) if constant else []
    text = " ".join(file.lines[number - 1].split())[:80]
    return code_facts(MESSAGE, text, "The message is written here", [place, *uses])


def _with_words_of(message: list[str], phrases: Mapping[str, int]) -> Callable[[str], bool]:
    """Return a function that finds out quickly that no word of a text is one of the message.

    Function words of the message do not count: no literal of them alone fits.
    """
    held = {word for word in message if not is_stop_word(word)}.union(*map(str.split, phrases))
    search = re.compile("|".join(map(re.escape, held)) or r"(?!)").search

    def may_fit(text: str) -> bool:
        return not text.isascii() or search(text.lower()) is not None

    return may_fit


def _literals(file: FileText, may_fit: Callable[[str], bool]) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield the string literals of a file that may fit: the line of each, and the words of its fixed parts.

    A literal that goes on in the next line is yielded as a whole as well.
    """
    count, last, begun = 0, 0, list[str]()
    for number, line in enumerate(file.lines, 1):
        if (
            len(line) > _MAX_LINE_CHARS
            or count > _MAX_LITERALS
            or not ("'" in line or '"' in line or "`" in line)
        ):
            continue
        joins = last and number - last <= _MAX_PARTS and _GOES_ON.match(line)
        for found in _LITERAL.findall(line):
            count += 1
            literal = next(filter(None, found))
            begun = [*begun, literal] if joins else [literal]
            if not joins:
                last = number
            if may_fit(literal):
                yield number, _fixed_parts(literal)
                if joins:
                    yield last, [part for each in begun for part in _fixed_parts(each)]


def _fixed_parts(literal: str) -> list[list[str]]:
    """Return the words of the parts of a literal between its placeholders."""
    return [words for part in _PLACEHOLDER.split(literal) if (words := _lower(part))]


def _fit(parts: list[list[str]], message: list[str]) -> int:
    """Return the number of meaningful words of a literal; 0 if its parts are not in the message in order."""
    every = [word for part in parts for word in part]
    meaningful = sum(not is_stop_word(word) for word in every)
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


def _is_nearer(line: str, other: str, text: str) -> bool:
    return not _is_verbatim(other, text) and _is_verbatim(line, text)


def _is_verbatim(line: str, text: str) -> bool:
    """Return whether the fixed parts of a literal of a line are in a text, with their marks."""
    literals = (next(filter(None, found)) for found in _LITERAL.findall(line[:_MAX_LINE_CHARS]))
    return any(
        all(_ESCAPED.sub(r"\1", part).strip() in text for part in _PLACEHOLDER.split(literal))
        for literal in literals
    )


def _phrases(question: str) -> dict[str, int]:
    """Return the first phrases in quotes that are long enough, between spaces, and their lengths in words."""
    quoted = (_lower(part) for parts in _QUOTED.findall(question) for part in parts if part)
    long_enough = {f" {' '.join(said)} ": len(said) for said in quoted if len(said) >= _MIN_UNMARKED}
    return dict(islice(long_enough.items(), _MAX_PHRASES))


def _quoted(parts: list[list[str]], phrases: Mapping[str, int]) -> int:
    """Return the number of words of the longest phrase that a fixed part of a literal holds, twice."""
    held = [f" {' '.join(part)} " for part in parts]
    found = (2 * count for phrase, count in phrases.items() if any(phrase in part for part in held))
    return max(found, default=0)


def _lower(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


def _uses(asked: Asked, near: FileText, number: int, name: str) -> Iterator[FactPlace]:
    """Yield lines of the best files that use a constant, in its own file first."""
    word, left = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), _MAX_USES
    for file in (near, *(one for one in asked.best_files(_FILES) if one is not near)):
        for at, line in enumerate(file.lines, 1):
            if not left:
                return
            is_other = file is not near or at != number
            if is_other and name in line and word.search(line[:_MAX_LINE_CHARS]):
                left -= 1
                yield FactPlace(file, at, f"uses `{name}`")
