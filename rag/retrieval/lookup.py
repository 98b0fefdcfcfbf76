"""Look up a symbol by name instead of searching: where it is defined, and which lines have its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice

import numpy as np

from rag.analysis import terms
from rag.code.languages import HYPHENATED
from rag.code.use_search import family
from rag.identifiers import composed
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.shown_definition import hit_of_lines
from rag.types import CodeDefinition, Hit

_DEFINES = (
    r"\b(?:def|func|fun|function\*?|fn|sub|proc|procedure|class|struct|interface|trait|enum|module|macro)"
)
"""Keywords that define the name after them, in the languages that have such keywords."""
_TYPED = frozenset({"c", "cpp", "csharp", "java", "dart", "gradle"})
_BRACED = _TYPED | {"javascript", "typescript", "tsx", "php"}
_NO_TYPE = r"(?!\s*(?:return|else|throw|new|delete|await|co_\w+|yield|case|goto|not|and|or|in|is|assert)\b)"
_MAX_NAMES, _SIMILAR, _MAX_NAME_CHARS = 2_000, 5, 100
"""How many names that share a word with an unknown one are compared with it, and how many are returned."""
_MAX_LINE_CHARS = 500
"""Whether a line is a definition is read from this much of it."""
_MAX_VALUE_LINES = 24
"""Lines of a value that are shown."""
_COMMENT, _C_COMMENT = re.compile(r"\s*+(?:#|//|/?\*|--)"), re.compile(r"\s*+(?://|/?\*)")
_MAX_CHUNKS_READ = 2_000
"""Chunks that are read for calls of one name; a name with more is too common for a useful result."""


@dataclass(frozen=True, slots=True)
class LinesWithName:
    """The lines of a chunk that have a name, and those of them that call it, other than comments."""

    hit: Hit
    every: tuple[int, ...]
    called: tuple[int, ...]

    @property
    def calls(self) -> bool:
        """Whether one of the lines calls it."""
        return bool(self.called)

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines that call it, or else all."""
        return self.called or self.every


def definitions(index: ChunkIndex, name: str) -> list[Hit]:
    """Return where a symbol is defined: `name` or `Outer.name`, ignoring case, by path and line.

    A scope must be the end of the scope the symbol is in (`Shelf.put` finds `store.Shelf.put`). Matches with
    the given spelling come first, small ones that share a chunk with their own lines, then the values of that
    name that no chunk is named after. Empty when nothing of that name is defined.
    """
    scope, symbol = _split_defined(index, name)
    hits = [index.hit(chunk, 1.0, {}) for chunk in index.defining(symbol)]
    for one in index.graph.definitions(symbol):
        if not any(hit.path == one.path and hit.start <= one.end and one.start <= hit.end for hit in hits):
            hits += _shown(index, one, one.end)
    within = [hit for hit in hits if not scope or _ends_with(hit.scope, scope)]
    found = sorted(within, key=lambda hit: (hit.symbol != symbol, hit.path, hit.start))
    named = [hit for hit in found if hit.symbol]
    for one in index.graph.values(name):
        if not any(_shows(hit, one) for hit in named):
            found += _shown(index, one, min(one.end, one.start + _MAX_VALUE_LINES - 1))
    return found


def _shown(index: ChunkIndex, one: CodeDefinition, end: int) -> list[Hit]:
    hit = hit_of_lines(index, one.path, one.start, end, of=one)
    return [] if hit is None else [replace(hit, score=1.0)]


def _shows(hit: Hit, one: CodeDefinition) -> bool:
    return (hit.path, hit.symbol) == (one.path, one.name) and hit.start <= one.start <= hit.end


def similar_names(index: ChunkIndex, name: str) -> list[str]:
    """Return the names most similar to one that is not defined: they share a word or its first letters."""
    symbol = _split_name(name)[1][:_MAX_NAME_CHARS]
    chunks = [index.postings(term).chunks for term in terms(symbol)]
    every = np.arange(len(index), dtype=np.int64) if index.dead is None else np.flatnonzero(~index.dead)
    alike = {found: None for found, _ in index.names(np.concatenate([*chunks, every[:0]])) if found}
    start = symbol[:2].lower()
    alike |= {found: None for found, _ in index.names(every) if found.lower().startswith(start)}
    return get_close_matches(symbol, list(islice(alike, _MAX_NAMES)), n=_SIMILAR, cutoff=0.5)


def lines_with(
    index: ChunkIndex, name: str, wanted: Callable[[str], bool] = lambda path: True
) -> list[LinesWithName]:
    """Return the lines whose text has a name: calls before mentions, code before tests, then by place.

    They are lines to show, and no answer to who uses a definition, which `rag.retrieval.uses` gives: other
    symbols of the same name are not distinguished, and comments and strings that contain the name count as
    mentions. At most 2,000 chunks are read, of the files whose paths are `wanted`.
    """
    symbol = _split_defined(index, name)[1]
    whole = terms(symbol)[-1:]
    if not whole:
        return []
    found, defining = index.postings(whole[0]), set(index.defining(symbol))
    own = [one for one in index.graph.definitions(symbol) if one.name == symbol]
    patterns, hyphenated = _Patterns.of(symbol), _Patterns.of(symbol, "-")
    read, paths = [], dict[int, bool]()
    for chunk in found.chunks[found.body > 0][:_MAX_CHUNKS_READ].tolist():
        file = int(index.file[chunk])
        if file not in paths:
            paths[file] = wanted(index.file_path(file))
        if not paths[file]:
            continue
        hit = index.hit(chunk, 1.0, {})
        written = hyphenated if hit.language in HYPHENATED else patterns
        inside = [one for one in own if one.path == hit.path and hit.start <= one.start <= hit.end]
        use = _use(hit, written, inside, skips_head=chunk in defining)
        if use is not None:
            read.append(use)
    return sorted(read, key=lambda use: (not use.calls, use.hit.kind != "code", use.hit.path, use.hit.start))


def limit_of_lines(index: ChunkIndex, name: str) -> str:
    """Return which limit `lines_with` meets for a name ("only 2,000 chunks were read"), "" for none."""
    whole = terms(_split_name(name)[1])[-1:]
    count = sum(int(np.count_nonzero(index.postings(term).body)) for term in whole)
    return f"only {_MAX_CHUNKS_READ:,} chunks were read" if count > _MAX_CHUNKS_READ else ""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns for a line that calls a name, mentions it, or defines it: after a keyword, after a type, or
    before a body.
    """

    call: re.Pattern[str]
    mention: re.Pattern[str]
    defined: re.Pattern[str]
    typed: re.Pattern[str]
    braced: re.Pattern[str]

    @classmethod
    def of(cls, symbol: str, marks: str = "") -> _Patterns:
        """Return the patterns for one name, in languages whose names may have these marks too."""
        name = re.escape(symbol)
        return cls(
            call=re.compile(rf"(?<![\w${marks}]){name}\s*(?:\(|<[\w, ]*>\(|!\()"),
            mention=re.compile(rf"(?<![\w${marks}]){name}(?![\w${marks}])"),
            defined=re.compile(rf"{_DEFINES}\s+(?:\([^()]*\)\s*)?(?:[\w.:<>]*[.:])?{name}(?![\w$])"),
            typed=re.compile(rf"^{_NO_TYPE}\s*(?:[\w:<>,\[\]?]+[\s*&]+)+(?:\w+::)*{name}\s*\("),
            braced=re.compile(rf"^\s*(?:[\w$]+\s+)*{name}\s*\([^;]*\)[^;=]*\{{\s*$"),
        )

    def defines(self, line: str, language: str) -> bool:
        """Return whether a line that mentions the name defines or declares it."""
        line = line[:_MAX_LINE_CHARS]
        if self.defined.search(line):
            return True
        if language in _TYPED and self.typed.search(line):
            return True
        return language in _BRACED and bool(self.braced.search(line))


def _use(
    hit: Hit, patterns: _Patterns, own: Sequence[CodeDefinition], *, skips_head: bool
) -> LinesWithName | None:
    """Return the lines of a chunk that use the name, without those that define it: the first one in each of
    its `own` definitions, and those that look like it. If there are none, it is the first line.
    """
    lines = lines_of(composed(hit.text))
    every = [n for n, line in enumerate(lines) if patterns.mention.search(line)]
    spans = [range(one.start - hit.start, one.end - hit.start + 1) for one in own]
    heads = {next((n for n in every if n in span), None) for span in spans}
    mentions = [n for n in every if n not in heads and not patterns.defines(lines[n], hit.language)]
    if skips_head and len(mentions) == len(every):
        mentions = mentions[1:]
    if not mentions:
        return None
    calls = [n for n in mentions if patterns.call.search(lines[n]) and not is_comment(lines[n], hit.language)]
    return LinesWithName(hit, tuple(hit.start + n for n in mentions), tuple(hit.start + n for n in calls))


def is_comment(line: str, language: str) -> bool:
    """Return whether a line begins with the mark of a comment."""
    found = _C_COMMENT.match(line) if family(language) == "c" else _COMMENT.match(line)
    return found is not None


def _split_defined(index: ChunkIndex, name: str) -> tuple[str, str]:
    """Return the scope and the symbol of a name; one that is defined as it is written, `#send`, is whole."""
    name = composed(name)
    marked = (one.name for one in index.graph.definitions(name) if not one.name.isidentifier())
    whole = next(filter(name.endswith, marked), "")
    return (name.removesuffix(whole).rstrip(".:#"), whole) if whole else _split_name(name)


def _split_name(name: str) -> tuple[str, str]:
    parts = [part for part in re.split(r"::|[.#]", composed(name).strip().removesuffix("()")) if part]
    return ".".join(parts[:-1]), parts[-1] if parts else ""


def _ends_with(scope: str, wanted: str) -> bool:
    return f".{scope}".lower().endswith(f".{wanted}".lower())
