"""Find the lines of code that a highlighter colours wrongly: those of a string or comment that is cut.

A quote may begin or end inside a docstring, a block comment, a heredoc or a template string. A highlighter
then takes the closing mark for an opening one, or text for code. Such lines are shown without colours.

The constructs are found by their marks, with a table for each family of languages. Whether a text itself
begins inside one cannot be known for certain; it is assumed where a closing mark comes first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

MAX_CHARS = 100_000
"""In a longer text no cut is looked for."""
_BLOCK, _TRIPLES, _TAGS = ("/*", "*/"), ('"""', "'''"), ("<!--", "-->")
_TEXT = r'"(?:\\.|[^"\\\n])*"?'
_LETTER = r"'(?:\\.|[^'\\\n])'"
_WORD = r"'(?:\\.|[^'\\\n])*'?"
_SLASHES = r"//[^\n]*"
_HASH = r"(?<![^\s;(){}\[\],])#[^\n]*"
_DASHES = r"--[^\n]*"
_HEREDOC = r"<<[~-]?(?P<{0}q>['\"]?)(?P<{0}>[^\W\d]\w*)(?P={0}q)(?![^\n]*<<)[^\n]*\n"

_ABOVE_CHARS = 80


@dataclass(frozen=True, slots=True)
class _Family:
    """The marks of a family of languages.

    `single` are patterns of what ends on its line; `pairs` open and close comments, `quotes` open and close
    strings of several lines; `raw` opens a raw string or PHP's heredoc, which ends with the captured marks.
    Block comments of an `is_starred` family have a star at the begin of their lines. After the opening marks
    in `runs_on`, highlighters colour a text without the closing mark rightly.
    """

    single: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    quotes: tuple[str, ...] = ()
    heredoc: bool = False
    raw: str = ""
    is_starred: bool = False
    runs_on: tuple[str, ...] = ()


_C = _Family((_SLASHES, _TEXT, _LETTER), (_BLOCK,), is_starred=True)
_FAMILIES: tuple[tuple[str, _Family], ...] = (
    ("c cpp objc proto thrift zig glsl solidity v d", _C),
    ("javascript typescript tsx", _Family((_SLASHES, _TEXT, _WORD), (_BLOCK,), ("`",), is_starred=True)),
    ("go", _Family((_SLASHES, _TEXT, _LETTER), (_BLOCK,), ("`",), is_starred=True)),
    (
        "java kotlin scala swift csharp dart gradle",
        _Family((_SLASHES, _TEXT, _LETTER), (_BLOCK,), ('"""',), is_starred=True),
    ),
    (
        "rust",
        _Family((_SLASHES, _LETTER), (_BLOCK,), ('"',), raw=r"\bb?r(?P<raw>#+)\"", is_starred=True),
    ),
    (
        "php",
        _Family(
            (_SLASHES, r"#(?!\[)[^\n]*", _TEXT, _WORD),
            (_BLOCK,),
            raw=r"<<<[\"']?(?P<raw>[^\W\d]\w*)[\"']?(?=\n)",
            is_starred=True,
        ),
    ),
    ("css scss", _Family((_TEXT, _WORD), (_BLOCK,), is_starred=True)),
    ("python bazel", _Family((r"#[^\n]*", _TEXT, _WORD), (), _TRIPLES, runs_on=_TRIPLES)),
    ("toml", _Family((r"#[^\n]*", _TEXT, _WORD), (), _TRIPLES)),
    ("elixir", _Family((_HASH, _TEXT, _LETTER), (), _TRIPLES, runs_on=('"""',))),
    ("julia", _Family((r"#(?!=)[^\n]*", _TEXT), (("#=", "=#"),), ('"""',))),
    ("ruby crystal", _Family((_HASH, _TEXT, _WORD), (("\n=begin", "\n=end"),), heredoc=True)),
    ("perl", _Family((_HASH, _TEXT, _WORD), (("\n=pod", "\n=cut"), ("\n=head", "\n=cut")), heredoc=True)),
    ("bash fish", _Family((_HASH,), (), ("'", '"'), heredoc=True)),
    ("terraform", _Family((_HASH, _SLASHES, _TEXT), (_BLOCK,), heredoc=True)),
    ("docker", _Family((_HASH, _TEXT), (), heredoc=True)),
    ("lua", _Family((r"--(?!\[=*\[)[^\n]*", _TEXT, _WORD), (("--[[", "]]"), ("[[", "]]")))),
    ("sql", _Family((_DASHES, _WORD), (_BLOCK,))),
    ("haskell elm purescript", _Family((_DASHES, _TEXT, _LETTER), (("{-", "-}"),))),
    ("ocaml fsharp", _Family((_TEXT, _LETTER), (("(*", "*)"),))),
    ("nix", _Family((_HASH, _TEXT), (_BLOCK,), ("''",))),
    ("powershell", _Family((r"(?<!<)#(?!>)[^\n]*", _TEXT, _WORD), (("<#", "#>"),))),
    ("html xml vue svelte", _Family((), (_TAGS,))),
    ("markdown", _Family((), (_TAGS,), ("\n```",))),
)  # fmt: skip
_COMMON = frozenset({"]]"})
"""Closing marks that code has, too."""
_STARRED = re.compile(r"\s*\*(?:\s|/|$)")
_OPENS_AFTER = re.compile(
    r"(?:^|[=(\[{,:+%|&>]|\b(?:return|yield|in|and|or|not|if|else)|@\w{1,40})\s*~?[A-Za-z]{0,2}['\"]?$"
)


class Constructs:
    """The strings and comments of several lines in a text, of which parts are to be shown."""

    def __init__(self, lines: Sequence[str], language: str) -> None:
        self._found = list(_spanning(lines, language))

    def parts(self, first: int, last: int) -> list[tuple[int, int, bool]]:
        """Split a range of lines into those that are code, and those that are not to be coloured as such.

        Lines count from 0, both ends are inclusive. Return (first, last, whether it is code) of each part.
        """
        cut = set[int]()
        for begin, end, runs_on in self._found:
            if begin < first <= end or (first <= begin <= last < end and not runs_on):
                cut.update(range(max(begin, first), min(end, last) + 1))
        parts: list[tuple[int, int, bool]] = []
        for n in range(first, last + 1):
            begin, is_code = n, n not in cut
            if parts and parts[-1][2] == is_code:
                begin = parts.pop()[0]
            parts.append((begin, n, is_code))
        return parts


def parts_of(text: str, language: str) -> list[tuple[str, bool]]:
    """Split a text into parts of whole lines, each with whether it is code to be coloured.

    Joined with newlines they are the text.
    """
    lines = text.split("\n")
    parts = Constructs(lines, language).parts(0, len(lines) - 1)
    return [("\n".join(lines[first : last + 1]), is_code) for first, last, is_code in parts]


def _spanning(lines: Sequence[str], language: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the strings and comments of several lines, ascending: first and last line, and whether
    highlighters colour it rightly without its end.

    The first line is -1 if it begins before the text, the last the number of lines if it ends after it.
    """
    family = _families().get(language)
    text = "\n" + "\n".join(lines)  # marks that begin a line follow a newline
    if family is None or len(text) > MAX_CHARS:
        return
    at = 1
    inside = _end_of_cut(text, family)
    if inside:
        yield (
            -1,
            min(text.count("\n", 0, inside) - 1, len(lines)) if inside < len(text) else len(lines),
            False,
        )
        at = inside
    token = _pattern(family)
    newlines = [at for at, char in enumerate(text) if char == "\n"]
    while found := token.search(text, at if text[at - 1 : at] != "\n" else at - 1):
        mark = found[0]
        if found.lastgroup == "single":
            at = max(found.end(), at + 1)
            continue
        end = _end(text, found, family)
        begins = bisect_left(newlines, found.start() + mark.startswith("\n")) - 1
        ends = bisect_left(newlines, end) - 1 if end >= 0 else len(lines)
        if ends > begins:
            yield begins, ends, mark in family.runs_on
        if end < 0:
            return
        at = max(end, at + 1)


def _end(text: str, found: re.Match[str], family: _Family) -> int:
    """Return where a string or comment that was found ends, -1 if it does not in this text."""
    groups: Mapping[str, str | None] = found.groupdict()
    if word := groups.get("here"):
        closing = re.compile(rf"\n[ \t]*{re.escape(word)}\b").search(text, found.end() - 1)
    elif word := groups.get("raw"):
        mark = rf'"{re.escape(word)}' if word.startswith("#") else rf"\n[ \t]*{re.escape(word)}\b"
        closing = re.compile(mark).search(text, found.end())
    else:
        mark = dict(family.pairs).get(found[0], found[0])
        # The second alternative is for a string in which a backslash is a character like others.
        escaped = r"(?:(?:\\.|[^\\])*?|.*?)" if len(mark) == 1 and mark != "'" else r".*?"
        closing = re.compile(escaped + re.escape(mark), re.DOTALL).match(text, found.end())
    return closing.end() if closing else -1


def _end_of_cut(text: str, family: _Family) -> int:
    """Return where a string or comment ends that was begun before the text; 0 if there is none."""
    starred = [line for line in text.split("\n") if line.strip()]
    if family.is_starred and starred and _STARRED.match(starred[0]):
        end = text.find("*/")
        if end >= 0:
            return end + 2
        return len(text) if all(map(_STARRED.match, starred)) else 0
    for opening, closing in family.pairs:
        end = text.find(closing)
        begin = text.find(opening)
        line = text[end:].partition("\n")[0]
        is_last = not line[len(closing) :].strip()
        if end >= 0 and is_last and closing not in _COMMON and (begin < 0 or end < begin):
            return end + len(closing)
    for mark in family.quotes:
        end = text.find(mark)
        if len(mark) < 3 or end < 0 or any(0 <= text.find(other) < end for other in family.quotes):
            continue
        if _is_closing(text, mark, end):
            return end + len(mark)
    return 0


def _is_closing(text: str, mark: str, at: int) -> bool:
    """Return whether the first mark of a text, which opens and closes strings, is likely to close one."""
    before = text[:at].rpartition("\n")[2] if mark[0] != "\n" else ""
    if before.strip():
        return not _OPENS_AFTER.search(before) and "#" not in before
    behind = text[at + len(mark) :].partition("\n")[0]
    is_alone = not behind.strip(" ,);")
    above = text[:at].rstrip()[-_ABOVE_CHARS:] if mark[0] != "\n" else ""
    return is_alone and text.count(mark) % 2 == 1 and not (above and _OPENS_AFTER.search(above))


@cache
def _pattern(family: _Family) -> re.Pattern[str]:
    """Return the pattern of what a scan stops at: what opens a string or comment, or is one on its line."""
    opening = [re.escape(mark) for mark, _ in family.pairs]
    opening += [re.escape(mark) for mark in family.quotes]
    opening += [_HEREDOC.format("here")] if family.heredoc else []
    opening += [family.raw] if family.raw else []
    opens = "|".join(opening)
    single = "|".join(family.single)
    return re.compile(rf"(?P<opens>{opens})" + (rf"|(?P<single>{single})" if single else ""))


@cache
def _families() -> dict[str, _Family]:
    return {language: family for names, family in _FAMILIES for language in names.split()}
