"""Split names that are written as one word into the words that the repository writes: `reverseproxy`.

A split counts if prose or identifiers have the two words (`reverse proxy`, `ReverseProxy`) more often than
prose has the one. The name of the project before another word says nothing in its own wiki: `caddytls`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from rag.code.survey import Survey

ACRONYMS = frozenset(
    "acl api asgi ast cgi cli css csv dap db dns dsl ftp gpu grpc gui html http https id io ip ipc json jwt"
    " lsp mvcc oci orm os pdf pki rpc sdk smtp sql ssh ssl tcp tls tui udp ui uri url utf8 vcs vm wal wsgi"
    " xml yaml".split()
)
ABBREVIATIONS = {
    "auth": "authentication",
    "cfg": "configuration",
    "cmd": "command",
    "conn": "connection",
    "const": "constants",
    "ctx": "context",
    "env": "environment",
    "gen": "generator",
    "msg": "message",
    "req": "request",
}
"""Short forms of words, which a title has in full if the repository uses the word."""
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")
_PROSE_WORD = re.compile(r"(?<![\w./`-])[A-Za-z][A-Za-z0-9]+(?![\w`(]|\.\w)")
_INSIDE = re.compile(r"(?<=[a-z,] )[A-Za-z][A-Za-z0-9]+(?![\w`(]|\.\w)")
"""A word that does not begin a sentence, whose capitals are its own."""
_MIN_CHARS = 6
"""Shorter words are not split."""
_MIN_PART_CHARS = 3
_CAPITAL_SHARE = 0.5
"""A word that prose writes with a capital as often as this is a name."""
_MIN_CAPITALS, _ACRONYM_SHARE = 3, 0.7
"""A word that prose writes in capitals this often, and in few other ways, is an acronym."""
_MAX_PROSE_CHARS = 200_000


def is_acronym(word: str) -> bool:
    """Return whether a word, with a number at its end or without, is an acronym for everybody: `http11`."""
    return word.lower() in ACRONYMS or word.lower().rstrip("0123456789") in ACRONYMS


class CompoundWords:
    """The words that a repository writes apart or in capitals, for some names of its files.

    Args:
        survey: the repository.
        names: words in lower case; others are returned as they are.
    """

    def __init__(self, survey: Survey, names: Iterable[str]) -> None:
        names = set(names)
        known = {name for name in names if len(name) >= _MIN_CHARS}
        self._short = frozenset(name for name in names if _MIN_PART_CHARS <= len(name) < _MIN_CHARS)
        self._names = frozenset(known | {name.removesuffix("s") for name in known})
        self._project = re.sub(r"[^a-z0-9]", "", survey.name.lower())
        self._apart: dict[str, Counter[str]] = {}
        self._whole: dict[str, Counter[str]] = {}
        self._words: set[str] = set()
        self._defined: set[str] = set()
        if self._names or self._short:
            for name in dict.fromkeys(one.name for path in survey.files for one in survey.symbols(path)):
                self._defined.add(name)
                self._read([word.lower() for word in _NAME_WORDS.findall(name)])
            for text in dict.fromkeys(_prose(survey)):
                self._read([word.lower() for word in _PROSE_WORD.findall(text)])
                for word in _INSIDE.findall(text):
                    if word.lower() in self._names or len(word) < _MIN_CHARS:
                        self._whole.setdefault(word.lower(), Counter())[word] += 1

    def __call__(self, word: str) -> str:
        """Return a word of a file's name as words that a reader knows; acronyms are in capitals."""
        name = word.lower()
        if self._is_acronym(name):
            return name.upper()
        if name in ABBREVIATIONS and ABBREVIATIONS[name] in self._words:
            return ABBREVIATIONS[name]
        if own := self._proper_name(name):
            return own
        if name not in self._names:
            return word
        if written := self._written(name):
            return written
        if name.endswith("s") and (written := self._written(name.removesuffix("s"))):
            return f"{written}s"
        rest = name.removeprefix(self._project) if self._project else name
        if len(rest) >= _MIN_PART_CHARS and rest != name and (rest in self._words or is_acronym(rest)):
            return self._cased(rest)
        return word

    def _is_acronym(self, name: str) -> bool:
        """Return whether a word is an acronym for everybody, or in the prose of this repository."""
        found = self._whole.get(name, Counter())
        is_own = len(name) < _MIN_CHARS and found[name.upper()] >= max(
            _MIN_CAPITALS, _ACRONYM_SHARE * found.total()
        )
        return is_acronym(name) or is_own

    def _proper_name(self, name: str) -> str:
        """Return how prose writes the name of another product, as `GitHub` or `JRuby`; "" if it does not."""
        whole = self._whole.get(name, Counter())
        inside = {text: n for text, n in whole.items() if not (text.isupper() or text[1:].islower())}
        best = self._best(Counter(inside))
        is_usual = sum(inside.values()) >= _CAPITAL_SHARE * whole.total()
        return best if is_usual and best not in self._defined else ""

    def _written(self, name: str) -> str:
        """Return how the repository writes a name: its words apart, or with its capitals; "" as it is."""
        whole, apart = self._whole.get(name, Counter()), self._apart.get(name, Counter())
        if apart.total() > whole.total():
            return " ".join(self._cased(part) for part in self._best(apart).split())
        capital = Counter({text: n for text, n in whole.items() if not (text.islower() or text.isupper())})
        if capital.total() < _CAPITAL_SHARE * max(1, whole.total()):
            return ""
        best = self._best(capital)
        parts = [part.lower() for part in _NAME_WORDS.findall(best)]
        if len(parts) == 1:
            return "" if best in self._defined else best
        return best if set(parts) & ACRONYMS else " ".join(parts)

    def _cased(self, word: str) -> str:
        return word.upper() if self._is_acronym(word) else word

    @staticmethod
    def _best(found: Counter[str]) -> str:
        return min(found, key=lambda text: (-found[text], text), default="")

    def _read(self, words: list[str]) -> None:
        self._words.update(words)
        for one, other in pairwise(words):
            joined = one + other
            if joined in self._names and min(len(one), len(other)) >= _MIN_PART_CHARS:
                self._apart.setdefault(joined, Counter())[f"{one} {other}"] += 1
        for three in zip(words, words[1:], words[2:], strict=False):
            if "".join(three) in self._names:
                self._apart.setdefault("".join(three), Counter())[" ".join(three)] += 1


def _prose(survey: Survey) -> Iterator[str]:
    """Yield documents and the documentation of definitions."""
    for file in survey.of_kind("doc"):
        yield file.text[:_MAX_PROSE_CHARS]
    for path in survey.files:
        for symbol in survey.symbols(path):
            if symbol.summary is not None:
                yield symbol.summary.text
