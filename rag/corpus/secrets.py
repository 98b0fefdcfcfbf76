"""Find likely secrets in a text with the rules of gitleaks and a few of our own.

`data/secrets/gitleaks.toml` is gitleaks' configuration as released; `data/secrets/rules.toml` lists the rules
that are not applied and contains ours. A rule is applied as gitleaks applies it: to a text with one of its
keywords, with its minimum entropy, its path and its allow-lists. Obvious placeholders
(`AKIAIOSFODNN7EXAMPLE`, a run of x) are allowed too: a file that is skipped by mistake cannot be found.

Expressions run in RE2, whose time grows with the length of the text and not with its content.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

import re2

from rag.resources import shipped

_Expression: TypeAlias = "re.Pattern[Any]"
"""RE2's expressions have the methods of `re.Pattern` used here, on bytes and on text."""

_KEYWORDS_MEMORY_BYTES = 64 << 20
_ALLOWED_ON_LINE = b"gitleaks:allow"

_PLACEHOLDER = re.compile(
    rb"(?i)example|fake|dummy|sample|placeholder|redacted|changeme|your[-_]?|insert|testing|secret_?key|my[-_]?(?:api|key|token)"
    rb"|x{5}|(.)\1{4}|0123|1234|2345|3456|abcd|bcde|cdef|qwer|deadbeef|foobar"
)
_KEY_BLOCK = "(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_NAMED = (
    r"(?i:(?:pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|private|access)[ _-]?key)[\w.-]*"
    r"|(?:\b|[_-])pass)"
)
_VALUE = (
    r"""(?:\\+"((?:[^"\\\n]|\\[^"\n])+)|\\+'((?:[^'\\\n]|\\[^'\n])+)|"((?:[^"\\\n]|\\.)+)|'((?:[^'\\\n]|\\.)+)"""
    r"""|`([^`\n]+)|((?:[^\s"'`\\]|\\[^\s"'`])+))"""
)
_PREFIXED = r"\b((?:gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|sk-(?:proj|ant|or|svcacct)-|AIza)[\w-]{12,})"
"""Tokens by how they begin, also cut or longer ones that no rule knows."""
_WRITTEN = (
    ("private key", rf"(?s)-----BEGIN {_KEY_BLOCK}.*?(?:-----END {_KEY_BLOCK}|\z)"),
    ("password in an address", r"""://[^\s:/@"'<>]*:(\d+|\d*[^\s/\d@"'<>`][^\s"'<>`]*)@"""),
    ("secret by its name", rf"""{_NAMED}\\*["'`]?[ \t]*(?::=|=>|==?|:)[ \t]*{_VALUE}"""),
    ("secret by its name", rf"--(?:[\w-]+-)?{_NAMED}[ \t]+{_VALUE}"),
    (
        "authorization",
        r"""(?i)authorization\\*["'`]?[ \t]*[:=][ \t]*\\*["'`]?"""
        r"""(?:(?:bearer|basic|token|digest|apikey)[ \t]+)?([^\s"'`\\]{4,})""",
    ),
    ("bearer token", r"(?i)\bbearer[ \t]+([\w.~+/=-]{8,})"),
    ("json web token", r"(eyJ[\w-]{8,}(?:\.[\w-]*){1,4})"),
    (
        "password of a command",
        r"""\bcurl\b(?:[^\n]|\\\n)*?\s(?:-[a-zA-Z]*u|--user)[ =]*["']?[^\s:"']*:([^\s"']+)""",
    ),
    ("password of a command", r"""\b(?:mysql|mariadb)[\w-]*\b(?:[^\n]|\\\n)*?\s-p["']?([^\s"']+)"""),
    ("password of a command", r"(?i)\blogin\s+\S+\s+password\s+(\S+)"),
    ("password of a command", r"""\bsshpass\s+-p\s*["']?([^\s"']+)"""),
)
"""Forms in which people and programs write secrets, with the secret in the last group, or as the whole."""
_LEAST_SECRET_BYTES = 4
_PLAIN_VALUE = re.compile(
    rb"(?:(?i:true|false|none|null|nil|undefined|str|string|bytes|int|integer|number|bool|boolean|object|optional)"
    rb"|\$\{?[A-Za-z_]+\}?|<[\w-]+>|\{\{?[\w.]+\}?\}|\*+|[A-Za-z_.]+[(\[](?:[A-Za-z_.,]*[)\]]+)?"
    rb"|(?:self|this|os|process|settings|config|args|request)\.[A-Za-z_.]+)[,;:.)\]}]*"
)
_WHOLE_BLOCK_RULES = frozenset({"private-key", "putty-private-key"})
"""Rules whose value is a whole block: only their allow-lists apply."""
_FORMLESS_RULES = frozenset({"generic-api-key"})
"""Rules for any value after some word."""


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Matches that are not secrets: by path, by words in the value, by expressions."""

    target: str
    expressions: tuple[_Expression, ...]
    paths: tuple[_Expression, ...]
    words: tuple[bytes, ...]
    needs_all: bool

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> _Allowed:
        return cls(
            entry.get("regexTarget", "secret"),
            tuple(_compiled(text) for text in entry.get("regexes", ())),
            tuple(_compiled(text) for text in entry.get("paths", ())),
            tuple(word.lower().encode() for word in entry.get("stopwords", ())),
            entry.get("condition", "OR").upper() == "AND",
        )

    def holds(self, path: str, value: bytes, match: bytes, line: bytes) -> bool:
        text = {"match": match, "line": line}.get(self.target, value)
        results = []
        if self.paths:
            results.append(any(known.search(path) for known in self.paths))
        if self.expressions:
            results.append(any(known.search(text) for known in self.expressions))
        if self.words:
            results.append(any(word in value.lower() for word in self.words))
        return all(results) if self.needs_all else any(results)


@dataclass(frozen=True)
class _Rule:
    """One rule; its expressions are compiled when a text first contains one of its keywords."""

    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["id"]).replace("-", " ")

    @cached_property
    def expression(self) -> _Expression:
        return _compiled(self.entry["regex"])

    @cached_property
    def path(self) -> _Expression | None:
        return _compiled(self.entry["path"]) if "path" in self.entry else None

    @cached_property
    def allowed(self) -> tuple[_Allowed, ...]:
        return tuple(_Allowed.of(entry) for entry in self.entry.get("allowlists", ()))

    def find(self, content: bytes, path: str, allowed: Sequence[_Allowed]) -> Iterator[tuple[int, int]]:
        """Yield where the secrets of this rule begin and end."""
        for match in self._matches(content, path):
            value, start = self._value(match)
            line = _line_around(content, match.start(), match.end())
            if self._is_real(value) and _ALLOWED_ON_LINE not in line:
                lists = (*self.allowed, *allowed)
                if not any(known.holds(path, value, match.group(0), line) for known in lists):
                    yield start, start + len(value)

    def find_forms(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Yield where something has the form of this rule's secrets, examples and placeholders included."""
        for match in self._matches(content, ""):
            value, start = self._value(match)
            yield start, start + len(value)

    def _matches(self, content: bytes, path: str) -> Iterator[re.Match[bytes]]:
        if self.path is None or self.path.search(path):
            yield from self.expression.finditer(content)

    def _value(self, match: re.Match[bytes]) -> tuple[bytes, int]:
        """Return the secret within a match and its offset: a group of the rule, else the whole match."""
        if group := self.entry.get("secretGroup"):
            return match.group(group), match.start(group)
        for number, text in enumerate(match.groups(), start=1):
            if text:
                return text, match.start(number)
        return match.group(0), match.start()

    def _is_real(self, value: bytes) -> bool:
        if self.entry["id"] in _WHOLE_BLOCK_RULES:
            return True
        return not _PLACEHOLDER.search(value) and _entropy_bits(value) > self.entry.get("entropy", 0.0)


class _Rules:
    """All rules, and the expression that selects those whose keywords a text contains."""

    def __init__(self, entries: Iterable[Mapping[str, Any]], allowed: Sequence[_Allowed]) -> None:
        self.rules = [_Rule(entry) for entry in entries]
        self._allowed = tuple(allowed)
        options = re2.Options()
        options.case_sensitive = False
        options.max_mem = _KEYWORDS_MEMORY_BYTES
        self._keywords = re2.Set.SearchSet(options)
        for rule in self.rules:
            self._keywords.Add("|".join(re.escape(word) for word in rule.entry["keywords"]))
        self._keywords.Compile()

    def find(self, content: bytes, path: str) -> Iterator[tuple[_Rule, Iterator[tuple[int, int]]]]:
        """Yield each rule that may find a secret, with what it finds, in the order of the rules."""
        for rule in self._candidates(content):
            yield rule, rule.find(content, path, self._allowed)

    def find_in_text(self, content: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield where secrets begin and end in a text, and their kinds. What has the form of one is one."""
        for rule in self._candidates(content):
            has_form = rule.entry["id"] not in _FORMLESS_RULES
            spans = rule.find_forms(content) if has_form else rule.find(content, "", self._allowed)
            yield from ((*span, rule.name) for span in spans)

    def _candidates(self, content: bytes) -> Iterator[_Rule]:
        yield from (self.rules[number] for number in sorted(self._keywords.Match(content) or ()))


def find_secret(text: str, path: str = "") -> str | None:
    """Return the kind and line of the first likely secret, "github pat on line 3"; None when there is none.

    The value itself is never returned.

    Args:
        text: any text.
        path: of the file; some rules are for some files only, and for no other text ("").
    """
    content = text.encode("utf-8", "replace")
    firsts = ((rule, next(found, None)) for rule, found in _rules().find(content, path))
    found = min(((rule, first[0]) for rule, first in firsts if first), key=lambda pair: pair[1], default=None)
    if found is None:
        return None
    rule, start = found
    line = content.count(b"\n", 0, start) + 1
    return f"{rule.name} on line {line}"


def without_secrets(text: str) -> str:
    """Return a text with each likely secret replaced by its kind, as `[removed: github pat]`.

    Stricter than `find_secret`: a word less is a small loss for a text, but a file would not be indexed.
    """
    content = text.encode("utf-8", "replace")
    found = [(*match.span(1), "token") for match in _compiled(_PREFIXED).finditer(content)]
    found += _rules().find_in_text(content)
    found += [
        (*match.span(match.lastindex or 0), kind)
        for kind, expression in _written()
        for match in expression.finditer(content)
        if not _is_plain(kind, match)
    ]
    pieces, rest = list[bytes](), len(content)
    for start, end, name in _apart(found):
        pieces += [content[end:rest], b"[removed: %b]" % name.encode()]
        rest = start
    pieces.append(content[:rest])
    return b"".join(reversed(pieces)).decode("utf-8", "replace") if found else text


def _is_plain(kind: str, match: re.Match[bytes]) -> bool:
    """Whether what follows the name of a secret is code, a number of tokens, or a placeholder."""
    value = match.group(match.lastindex or 0)
    if kind == "bearer token":
        return value.islower() and value.isalpha()
    if kind != "secret by its name":
        return False
    if value.rstrip(b",;.)]}").isdigit() and b"tokens" in match.group(0).lower():
        return True
    return len(value) < _LEAST_SECRET_BYTES or bool(_PLAIN_VALUE.fullmatch(value))


def _apart(spans: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yield the union of spans that overlap, from the last to the first."""
    last: tuple[int, int, str] | None = None
    for start, end, name in sorted(spans, key=lambda span: -span[1]):
        if last and end > last[0]:
            last = min(start, last[0]), last[1], name
        else:
            if last:
                yield last
            last = start, end, name
    if last:
        yield last


@cache
def _written() -> list[tuple[str, _Expression]]:
    return [(kind, _compiled(text)) for kind, text in _WRITTEN]


@cache
def _rules() -> _Rules:
    gitleaks = tomllib.loads((shipped("data/secrets") / "gitleaks.toml").read_text(encoding="utf-8"))
    ours = tomllib.loads((shipped("data/secrets") / "rules.toml").read_text(encoding="utf-8"))
    replaced = {*ours["unused"], *(entry["id"] for entry in ours["rules"])}
    kept = [entry for entry in gitleaks["rules"] if entry["id"] not in replaced]
    everywhere = {name: value for name, value in gitleaks["allowlist"].items() if name != "paths"}
    return _Rules([*ours["rules"], *kept], [_Allowed.of(everywhere)])


def _compiled(expression: str) -> _Expression:
    compiled: _Expression = re2.compile(expression)
    return compiled


def _line_around(content: bytes, start: int, end: int) -> bytes:
    first = content.rfind(b"\n", 0, start) + 1
    last = content.find(b"\n", end)
    return content[first : last if last >= 0 else len(content)]


def _entropy_bits(value: bytes) -> float:
    """Return the Shannon entropy in bits per byte."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
