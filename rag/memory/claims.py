"""Find what a text says of the code: paths, lines, symbols, commands and settings that it names.

    src/auth.py, docs/, [guide](docs/guide.md#use)     a path
    src/auth.py:4-6, src/auth.py#L4                    lines
    `Session.sign`, `check_token()`                    a symbol, only between code marks
    `make lint`, `npm run build`, lines of a fence     a command
    `APP_SECRET`, `$APP_SECRET`, `APP_SECRET=1`        a setting, only between code marks

What is found here is only a candidate: whether it means something in the repository is looked up by
`rag.service.checks.claims`, and what is unknown there is not a claim. Every scan is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

MAX_TEXT_CHARS = 2_000_000
MAX_CLAIMS = 5_000
"""The maximum number of candidates of one text; what follows is not read."""
_MAX_LINE_CHARS = 4_000
_MAX_TOKEN_CHARS = 300

ClaimKind = Literal["path", "lines", "symbol", "command", "setting"]
_TICKS = re.compile(r"`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TOKEN = re.compile(r"[^\s`'\"()\[\]{}<>,;|=]+")
_PATH = re.compile(
    r"((?:[\w.+@~-]+/|/)*[\w.+@~-]*)"
    r"(?::(\d{1,7})(?:[-\u2013](\d{1,7})|:\d{1,7})?|#L(\d{1,7})(?:-L?(\d{1,7}))?|#[\w.%-]*)?"
)
_PLACEHOLDERS = frozenset("<>{}*$")
"""Next to one of these a path is only the beginning or the end of one."""
_NAME = r"[^\W\d][\w$]*"
_SYMBOL = re.compile(rf"((?:{_NAME}(?:\.|::|#))*)({_NAME})(\([^()]{{0,200}}\))?")
_ACRONYM = re.compile(r"[A-Z]{2}[a-z]{2}")
_SETTING = re.compile(r"\$?\{?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\}?(?:=\S*)?")
_ASSIGNED = re.compile(r"\w+=\S*")
_WORD = re.compile(r"\S+")
_URL_WORD = re.compile(r"[^\s`'\"()\[\]<>]+")
_BETWEEN_COMMANDS = frozenset({"&&", "||", ";", "|"})
_TARGET = re.compile(r"[\w.:/-]*\w")
_RUNNERS = {"npm": "npm", "pnpm": "npm", "yarn": "npm", "bun": "npm", "make": "make", "just": "just"}
_BEFORE_COMMANDS = frozenset({"$", "sudo", "uv", "poetry", "pipenv", "hatch", "npx", "time"})
_CARGO_NAMES = frozenset({"--bin", "--example", "--test", "--bench"})


@dataclass(frozen=True, slots=True)
class Claim:
    """A place or name that a text names.

    `line` counts from 1; `begin` and `end` are the characters of that line with the place or the bare name,
    which a correction replaces. `path` is the path as written, `first` and `last` are its lines, 0 for none.
    `name` is the bare name of a symbol, a setting or a target, `scope` what is before the name of a symbol,
    the kind of target of a command. `is_marked` means that it is between code marks, or the target of a link,
    `is_fenced` within a code fence.
    """

    kind: ClaimKind
    text: str
    line: int
    begin: int
    end: int
    path: str = ""
    first: int = 0
    last: int = 0
    name: str = ""
    scope: str = ""
    is_marked: bool = False
    is_fenced: bool = False

    @property
    def place(self) -> str:
        """The line and column, from 1, as compilers print them."""
        return f"{self.line}:{self.begin + 1}"


ClaimState = Literal["fresh", "moved", "renamed", "changed", "removed", "absent"]
"""What became of a place or name since its text was written; "absent": it is not there, nor was it then."""
STALE: tuple[ClaimState, ...] = ("moved", "renamed", "changed", "removed")


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim of a file with its state.

    `now` is its present place or name, `commit` the one that removed it, `since` the day on which the text
    was written. `fix` replaces the characters `begin` to `end` of the line; "" if the text must be read.
    `reason` is a short phrase for people.
    """

    file: str
    claim: Claim
    state: ClaimState
    now: str = ""
    commit: str = ""
    since: str = ""
    fix: str = ""
    reason: str = ""

    @property
    def is_stale(self) -> bool:
        """Whether the text is not true any more."""
        return self.state in STALE

    def values(self) -> dict[str, Any]:
        """Return the claim and its state for JSON; columns count from 1, and `end_column` is behind it."""
        claim = self.claim
        return {
            "file": self.file,
            "line": claim.line,
            "column": claim.begin + 1,
            "end_column": claim.end + 1,
            "kind": claim.kind,
            "text": claim.text,
            **{name: getattr(self, name) for name in ("state", "now", "commit", "since", "fix", "reason")},
        }

    def __str__(self) -> str:
        if self.state == "changed" and self.reason:
            return f"{self.claim.text}: {self.reason}"
        at = f", now {self.now}"
        said = {
            "moved": f"moved to {self.now}",
            "renamed": f"renamed to {self.now}",
            "changed": f"changed since {self.since or 'it was written'}{at if ':' in self.now else ''}",
            "removed": f"removed in {self.commit[:10]}" if self.commit else "removed",
            "absent": "names nothing in the repository",
        }.get(self.state, self.state)
        return f"{self.claim.text}: {said}{f' ({self.reason})' if self.reason else ''}"


def claims_in(text: str, *, all_words: bool = False) -> list[Claim]:
    """Return the candidates of a text in their order, at most `MAX_CLAIMS`.

    With `all_words` also symbols and settings that are not between code marks.
    """
    found: list[Claim] = []
    fence = ""
    for number, line in enumerate(text[:MAX_TEXT_CHARS].split("\n"), start=1):
        line = line[:_MAX_LINE_CHARS]
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and not line[mark.end() :].strip())):
            fence = "" if fence else mark[1]
            continue
        found += _of_fenced(line, number) if fence else _of_line(line, number, all_words=all_words)
        if len(found) >= MAX_CLAIMS:
            break
    return found[:MAX_CLAIMS]


def corrected(text: str, claims: Iterable[CheckedClaim]) -> tuple[str, int]:
    """Return a text with the corrections of its claims, and their number.

    All other characters stay as they are.
    """
    lines = text.split("\n")
    count = 0
    for one in sorted(claims, key=lambda one: (one.claim.line, -one.claim.begin)):
        claim = one.claim
        if one.fix and claim.line <= len(lines):
            line = lines[claim.line - 1]
            lines[claim.line - 1] = line[: claim.begin] + one.fix + line[claim.end :]
            count += 1
    return "\n".join(lines), count


def _of_fenced(line: str, number: int) -> Iterator[Claim]:
    for one in (*_paths(line, number, 0, is_marked=False), *_commands(line, number, 0)):
        yield replace(one, is_fenced=True)


def _of_line(line: str, number: int, *, all_words: bool) -> list[Claim]:
    found: list[Claim] = []
    at = 0
    for begin, end in [*_code_spans(line), (len(line), len(line))]:
        found += _prose(line[at:begin], number, at)
        for word in _TOKEN.finditer(line, at, begin) if all_words else ():
            found += _names(word[0].rstrip(".:!?"), number, word.start())
        found += _marked(line[begin:end], number, begin)
        at = end
    return found


def _code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield what is between runs of as many backticks, in order."""
    runs = list(_TICKS.finditer(line))
    following: dict[int, int] = {}
    closing = [0] * len(runs)
    for n in range(len(runs) - 1, -1, -1):
        length = len(runs[n][0])
        closing[n] = following.get(length, 0)
        following[length] = n
    n = 0
    while n < len(runs):
        if closing[n]:
            yield runs[n].end(), runs[closing[n]].start()
            n = closing[n]
        n += 1


def _prose(part: str, number: int, offset: int) -> Iterator[Claim]:
    yield from _paths(part, number, offset, is_marked=False)
    if part.startswith("$ "):
        yield from _commands(part, number, offset)


def _marked(span: str, number: int, offset: int) -> list[Claim]:
    begin = offset + len(span) - len(span.lstrip())
    names = _names(span.strip(), number, begin)
    return [*_paths(span, number, offset, is_marked=True), *(names or _commands(span, number, offset))]


def _names(text: str, number: int, begin: int) -> list[Claim]:
    """Return the setting or symbol that a word is, if it looks like one."""
    if setting := _SETTING.fullmatch(text):
        at = begin + setting.start(1)
        shown = text.partition("=")[0]  # a value may be a secret
        return [Claim("setting", shown, number, at, at + len(setting[1]), name=setting[1], is_marked=True)]
    symbol = _SYMBOL.fullmatch(text)
    if symbol is None or not _is_code(symbol[1], symbol[2], symbol[3] or ""):
        return []
    at = begin + symbol.start(2)
    scope = symbol[1].rstrip(".:#").replace("::", ".").replace("#", ".")
    name = symbol[2]
    return [Claim("symbol", text, number, at, at + len(name), name=name, scope=scope, is_marked=True)]


def _is_code(scope: str, name: str, call: str) -> bool:
    """Whether a word between code marks looks like a name in code: with a mark, a scope or a call."""
    bare = name.strip("_")
    has_hump = any(a.islower() and b.isupper() for a, b in pairwise(bare)) or _ACRONYM.search(bare)
    return len(bare) > 2 and ("_" in bare or bool(has_hump or call or scope))


def _paths(part: str, number: int, offset: int, *, is_marked: bool) -> Iterator[Claim]:
    urls = [one.span() for one in _URL_WORD.finditer(part) if "://" in one[0]] if "://" in part else []
    for token in _TOKEN.finditer(part):
        while urls and urls[0][1] <= token.start():
            urls.pop(0)
        if urls and urls[0][0] < token.end():
            continue
        word = token[0].rstrip(".:!?")
        around = part[max(token.start() - 1, 0) : token.start()] + part[token.end() : token.end() + 1]
        if _PLACEHOLDERS & set(around):
            continue
        if len(word) > _MAX_TOKEN_CHARS or ("/" not in word and "." not in word[1:]):
            continue
        parsed = _PATH.fullmatch(word)
        if parsed is None or not _is_path(path := parsed[1]):
            continue
        first, last = (int(parsed[2] or parsed[4] or 0), int(parsed[3] or parsed[5] or 0))
        begin = offset + token.start()
        is_link = part[max(token.start() - 2, 0) : token.start()] == "]("
        end = begin + (len(word) if first else len(path))
        yield Claim(
            "lines" if first else "path",
            word,
            number,
            begin,
            end,
            path=path,
            first=first,
            last=max(first, last),
            is_marked=is_marked or is_link,
        )


def _is_path(path: str) -> bool:
    """Whether a word may be a path: it has a folder, or an extension with a letter; `@a/b` is a package."""
    name = path.rpartition("/")[2]
    extension = name.rpartition(".")[2] if "." in name else ""
    has_folder = len(path.strip("/")) > 1 and "/" in path
    return not path.startswith("@") and (
        has_folder or (len(extension) <= 10 and any(map(str.isalpha, extension)))
    )


def _commands(part: str, number: int, offset: int) -> Iterator[Claim]:
    words = [(one[0], offset + one.start()) for one in _WORD.finditer(part)]
    begin = 0
    for n, (word, _) in enumerate([*words, (";", 0)]):
        if word in _BETWEEN_COMMANDS or word.endswith(";"):
            yield from _command(words[begin : n + (word[:-1] != "" and word.endswith(";"))], number)
            begin = n + 1


def _command(words: list[tuple[str, int]], number: int) -> Iterator[Claim]:
    """Yield the targets of one command: its words, each with its place. What else it says may be secret."""
    rest = [(word.rstrip(";,."), at) for word, at in words]
    while rest and (rest[0][0] in _BEFORE_COMMANDS or _ASSIGNED.fullmatch(rest[0][0])):
        is_runner = rest[0][0] in ("uv", "poetry", "pipenv", "hatch")
        rest = rest[2:] if is_runner and len(rest) > 1 and rest[1][0] == "run" else rest[1:]
    if not rest or rest[0][0].startswith("#"):
        return
    program = rest[0][0]
    kind = _RUNNERS.get(program, "cargo" if program == "cargo" else "program")
    runs = " run" if [word for word, _ in rest[1:2]] == ["run"] else ""
    for word, at in _named(kind, rest):
        if _TARGET.fullmatch(word):
            shown = word if kind == "program" else f"{program}{runs} {word}"[:_MAX_TOKEN_CHARS]
            yield Claim("command", shown, number, at, at + len(word), name=word, scope=kind, is_marked=True)


def _named(kind: str, words: list[tuple[str, int]]) -> list[tuple[str, int]]:
    if kind == "program":
        return [one for one in words[:1] if "/" not in one[0] and ":" not in one[0]]
    rest = words[1:]
    if kind == "cargo":
        pairs = pairwise(rest)
        return [name for option, name in pairs if option[0] in _CARGO_NAMES]
    if kind == "npm":
        if rest and rest[0][0] in ("run", "run-script"):
            return rest[1:2]
        return rest[:1] if words[0][0] == "yarn" else []
    stop = next((n for n, (word, _) in enumerate(rest) if word.startswith(("#", "-C", "-f"))), len(rest))
    targets = [one for one in rest[:stop] if not one[0].startswith("-") and "=" not in one[0]]
    return targets if kind == "make" and stop == len(rest) else targets[:1]
