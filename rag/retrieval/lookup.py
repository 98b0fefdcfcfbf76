"""What is looked up by name rather than searched: where a symbol is defined, and who calls it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.types import Hit

_MOST_READ = 2_000
"""Chunks that are read for calls of one name; beyond them a name is too common to tell anything."""


@dataclass(frozen=True, slots=True)
class Use:
    """A chunk that uses a name, with the lines where it does. `calls` tells calls from mentions."""

    hit: Hit
    lines: tuple[int, ...]
    calls: bool


def definitions(index: ChunkIndex, name: str) -> list[Hit]:
    """Where a symbol is defined: `name` or `Outer.name`, whatever its case, by path and line.

    A scope must be the end of the one the symbol stands in (`Shelf.put` finds `store.Shelf.put`). The
    spelling as given comes before others. Empty when nothing of that name is defined.
    """
    scope, symbol = _parted(name)
    hits = [index.hit(chunk, 1.0, {}) for chunk in index.defining(symbol)]
    within = [hit for hit in hits if not scope or _ends_with(hit.scope, scope)]
    return sorted(within, key=lambda hit: (hit.symbol != symbol, hit.path, hit.start))


def uses(index: ChunkIndex, name: str) -> list[Use]:
    """Who uses a symbol: calls before mentions, code before tests, then by path and line.

    Read off the text: what is called so, not what is bound so; other symbols of the same name are not
    told apart. Comments and strings that mention it count as mentions. At most 2,000 chunks are read.
    """
    _, symbol = _parted(name)
    whole = terms(symbol)[-1:]
    if not whole:
        return []
    found, defining = index.postings(whole[0]), set(index.defining(symbol))
    call = re.compile(rf"(?<![\w$]){re.escape(symbol)}\s*(?:\(|<[\w, ]*>\(|!\()")
    mention = re.compile(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])")
    read = []
    for chunk in found.chunks[found.body > 0][:_MOST_READ].tolist():
        use = _use(index.hit(chunk, 1.0, {}), call, mention, skips_head=chunk in defining)
        if use is not None:
            read.append(use)
    return sorted(read, key=lambda use: (not use.calls, use.hit.kind != "code", use.hit.path, use.hit.start))


def _use(hit: Hit, call: re.Pattern[str], mention: re.Pattern[str], *, skips_head: bool) -> Use | None:
    """The lines of a chunk that use the name. A definition's first line with it is what defines it."""
    lines = hit.text.split("\n")
    mentions = [n for n, line in enumerate(lines) if mention.search(line)]
    if skips_head:
        mentions = mentions[1:]
    calls = [n for n in mentions if call.search(lines[n])]
    if not mentions:
        return None
    return Use(hit, tuple(hit.start + n for n in (calls or mentions)), bool(calls))


def _parted(name: str) -> tuple[str, str]:
    parts = [part for part in re.split(r"::|[.#]", name.strip().removesuffix("()")) if part]
    return ".".join(parts[:-1]), parts[-1] if parts else ""


def _ends_with(scope: str, wanted: str) -> bool:
    return f".{scope}".lower().endswith(f".{wanted}".lower())
