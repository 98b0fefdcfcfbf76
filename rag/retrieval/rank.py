"""From candidates to an order: every signal is a function of its own, one number a candidate.

    score = (lexical + dense + symbol + mention + path + file) x kind x place

Each term is a weight times a signal between 0 and 1; the two factors are below 1 for places a question
seldom means (tests, documentation, examples) unless it asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.question import Question, last_part

Signal = npt.NDArray[np.float32]
Chunks = npt.NDArray[np.int64]

TEST, DOC, CONFIG = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal is worth."""

    lexical: float = 1.0
    dense: float = 0.8
    symbol: float = 0.7
    mention: float = 0.8
    path: float = 0.3
    file: float = 1.1
    test: float = 0.4
    doc: float = 0.35
    config: float = 0.4
    aside: float = 0.6
    asked: float = 1.6
    class_: float = 0.75
    section: float = 0.6
    repeat: float = 0.95


DEFAULT = Weights()

_ASIDE = re.compile(
    r"(^|/)(examples?|samples?|demos?|benchmarks?|bench|compat|legacy|deprecated|contrib|scripts?|tools?|fixtures?"
    r"|mocks?|stubs?|generated|third[-_]?party|vendor|migrations?)(/|$)|(^|/)(_?compat|setup|conftest)\.\w+$|\.d\.ts$",
    re.I,
)


def scaled(values: Signal, best: float) -> Signal:
    """Divide by the best value there is, so that it has 1; negative values become 0."""
    positive: Signal = np.maximum(values, np.float32(0))
    return (positive / best).astype(np.float32) if best > 0 else positive


def symbol_signal(index: ChunkIndex, chunks: Chunks, wanted: Mapping[str, float]) -> Signal:
    """How much of the name a chunk defines is in the question, each word as rare as it is.

    `wanted` holds the question's terms with their idf. A name of which every word is asked for has the
    rarity it covers of the question; a scope counts a third.
    """
    total = sum(wanted.values()) or 1.0
    known: dict[tuple[str, str], float] = {}
    values = []
    for chunk in chunks.tolist():
        name = index.name(chunk)
        if name not in known:
            known[name] = _named(*name, wanted) / total if name[0] else 0.0
        values.append(known[name])
    return np.minimum(np.asarray(values, np.float32), np.float32(1))


def _named(symbol: str, scope: str, wanted: Mapping[str, float]) -> float:
    named = set(terms(symbol))
    common = named & wanted.keys()
    value = sum(wanted[term] for term in common) * len(common) / len(named) if common else 0.0
    around = (set(terms(scope)) & wanted.keys()) - common if scope else ()
    return value + sum(wanted[term] for term in around) / 3


def mention_signal(index: ChunkIndex, chunks: Chunks, question: Question) -> Signal:
    """1 for chunks that define a name the question mentions, or lie in a file that it mentions."""
    defining = set()
    for name in question.names:
        defining.update(index.defining(last_part(name)))
    values = np.asarray([chunk in defining for chunk in chunks.tolist()], np.float32)
    if question.paths:
        files = {f: index.file_path(f) for f in set(index.file[chunks].tolist())}
        named = {f for f, path in files.items() if any(_is_path(path, p) for p in question.paths)}
        inside = np.asarray([f in named for f in index.file[chunks].tolist()], np.float32)
        values = np.maximum(values, inside)
    return values


def _is_path(path: str, mentioned: str) -> bool:
    return path == mentioned or path.endswith(f"/{mentioned.lstrip('/')}")


def path_signal(index: ChunkIndex, chunks: Chunks, wanted: Mapping[str, float]) -> Signal:
    """How much of the question the file's path covers; its stem counts whole, its folders half."""
    total = sum(wanted.values()) or 1.0
    files = index.file[chunks]
    by_file = {}
    for file in set(files.tolist()):
        folder, _, name = index.file_path(file).rpartition("/")
        stem = set(terms(name.split(".", 1)[0]))
        around = set(terms(folder)) - stem
        covered = sum(wanted.get(term, 0.0) for term in stem)
        covered += sum(wanted.get(term, 0.0) for term in around) / 2
        by_file[file] = min(covered / total, 1.0)
    return np.asarray([by_file[file] for file in files.tolist()], np.float32)


def file_signal(index: ChunkIndex, chunks: Chunks, relevance: Signal) -> Signal:
    """How much the other chunks of the same file say too: the sum of the file's five best, scaled."""
    files = index.file[chunks]
    order = np.argsort(-relevance, kind="stable")
    seen: dict[int, int] = {}
    sums: dict[int, float] = {}
    for i in order.tolist():
        file = int(files[i])
        if seen.setdefault(file, 0) < 5:
            seen[file] += 1
            sums[file] = sums.get(file, 0.0) + float(relevance[i])
    values = np.asarray([sums[file] for file in files.tolist()], np.float32)
    return scaled(values, float(values.max(initial=0.0)))


def kind_factor(index: ChunkIndex, chunks: Chunks, question: Question, weights: Weights) -> Signal:
    """Below 1 for tests, documentation, configuration, heads of classes; above 1 for what is asked for."""
    by_kind = np.asarray([1.0, weights.test, weights.doc, weights.config], np.float32)
    for ask, kind, factor in (
        ("tests", TEST, weights.asked),
        ("docs", DOC, weights.asked),
        ("config", CONFIG, 1.0),
    ):
        if ask in question.asks:
            by_kind[kind] = factor
    by_unit = np.asarray([1.0, weights.class_, weights.section, 1.0], np.float32)
    factors: Signal = by_kind[index.kind[chunks]] * by_unit[index.unit[chunks]]
    return factors


def place_factor(index: ChunkIndex, chunks: Chunks, question: Question, weights: Weights) -> Signal:
    """Below 1 for files that stand aside: examples, benchmarks, compatibility, tools."""
    files = index.file[chunks]
    aside = {f for f in set(files.tolist()) if _ASIDE.search(index.file_path(f))}
    factor = 1.0 if "example" in question.asks else weights.aside
    return np.asarray([factor if file in aside else 1.0 for file in files.tolist()], np.float32)


def spread(index: ChunkIndex, chunks: Chunks, scores: Signal, weights: Weights) -> list[int]:
    """Positions in their final order: best first, the further chunks of a file held back a little.

    Equal scores stand in the order of the chunks.
    """
    files = index.file[chunks]
    order = np.lexsort((chunks, -scores))
    count: dict[int, int] = {}
    held = np.empty(len(chunks), np.float32)
    for i in order.tolist():
        file = int(files[i])
        held[i] = scores[i] * weights.repeat ** count.setdefault(file, 0)
        count[file] += 1
    return [int(i) for i in np.lexsort((chunks, -held))]


def union(parts: Sequence[Chunks]) -> Chunks:
    """All chunks of several lists, once each, ascending."""
    # Not numpy.unique: it imports numpy.ma at its first call, which costs more than the search.
    ordered = np.sort(np.concatenate([np.asarray(part, np.int64) for part in parts]))
    return np.asarray(ordered[np.diff(ordered, prepend=-1) != 0])
