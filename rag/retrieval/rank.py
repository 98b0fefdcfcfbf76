"""Rank candidates: each signal is a function that gives one number per candidate.

    score = (lexical + synonym + dense + symbol + mention + phrase + path + file + about)
            x kind x place

Each term is a weight times a signal between 0 and 1. The two factors are below 1 for places that a question
seldom means (tests, documentation, examples) unless it asks for them. Chunks that the question refers to
directly always come first. What holds a part of the question word for word (`phrase`) is hardly lowered by
the factors: the text of a message may be in a test, a document or a table. A section of a document whose
heading is about the question counts like code (`prose_factor`), unless the question names code.

Loss of NDCG@10 without a signal on the development questions (measured at commit 7b601db9;
* means that the interval excludes 0):

    signal     newcomer  first turn  docstring  follow-up
    lexical      -.003      .014        .045*      .090*
    synonym       .056*     .001       -.002      -.001
    dense         .021      .012        .028*      .068*
    file          .014      .018*       .026*      .009
    about         .010     -.004        .003       .020*
    symbol        .001      .009        .011*      .009
    test          .105*     .054*       .041*      .070*
    class         .005      .004        .000       .005
    unnamed       .013*     .004        .002      -.003
    history       .000      .000        .000       .224*
    mention, path, doc, config, aside, section, repeat: -.005 to .006 each

On the questions by kind (`tools/questions/kinds`, dev and train: 1,078 questions about 22 repositories)
`phrase` raises NDCG@10 of pasted errors from .842 and .828 to .927 and .904, and of quoted phrases from .853
and .835 to .935 and .892. Documents and settings files, where a setting is asked for, raise it from .472 and
.537 to .591 and .576. Together they change the older dev questions by -.002.

`repeat` and `dense` also raise recall: without them .051* and .128* fewer newcomers' questions have their
answer in the first 200 lines.

Tried and rejected, because the gain did not carry over to the other half of the repositories: definitions
that the best hits call or that matching tests and documents name, pseudo-relevance feedback, the embedding's
own neighbours of a term as synonyms, BM25 over whole files, the neighbouring hits of a chunk, its length, the
names of a class's members in its head, and a second vector of a chunk's documentation and comments alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.code.roles import is_bundle
from rag.ports import ChunkIndex, Vectors
from rag.retrieval.dense import cosines
from rag.retrieval.mentions import is_path
from rag.retrieval.question import ParsedQuestion, last_part
from rag.top_k import distinct, find_sorted

Signal = npt.NDArray[np.float32]
Chunks = npt.NDArray[np.int64]
Name = tuple[str, str]
"""Symbol and scope of a chunk, "" for none."""

CODE, TEST, DOC, CONFIG = 0, 1, 2, 3

_ELSEWHERE = 0.5
"""How well a definition fits that has the last part of a qualified name but is in another class."""
_HEADED_SHARE = 0.3
"""A section is about a question if its heading has this share of the question's words, weighed by rarity."""
_HEADINGS = re.compile(r"^#{1,6}[ \t]+(\S.*)|^(\S.*)\n(?:={3,}|-{3,}|~{3,}|\^{3,})[ \t]*$", re.M)
_MAX_HEADINGS_READ = 2
_MAX_OPENED_FILES = 40
"""How many files are read whole."""


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """The weight of each signal."""

    lexical: float = 1.0
    synonym: float = 1.0
    dense: float = 1.0
    symbol: float = 0.7
    mention: float = 0.8
    pointed: float = 10.0
    phrase: float = 1.5
    phrase_factor: float = 0.8
    path: float = 0.2
    file: float = 1.1
    about: float = 0.5
    test: float = 0.4
    test_topic: float = 1.0
    doc: float = 0.35
    config: float = 0.4
    doc_of_config: float = 1.2
    config_asked: float = 1.5
    aside: float = 0.6
    asked: float = 1.6
    class_: float = 0.75
    section: float = 0.6
    unnamed: float = 0.6
    repeat: float = 0.95


DEFAULT = RankingWeights()

_ASIDE = re.compile(
    r"(^|/)(examples?|samples?|demos?|benchmarks?|bench|fixtures?|mocks?|stubs?|generated|third[-_]?party|vendor)/"
    r"|^(contrib|scripts?|tools?)/|(^|/)(setup|conftest)\.\w+$|\.d\.ts$"
    r"|(\.pb\.\w+|_pb2(_grpc)?\.py|[._-]generated\.\w+|\.designer\.cs|-client-header\.h|-protocol\.[ch])$",
    re.I,
)
"""Auxiliary files by their path. `contrib`, `scripts` and `tools` count only at the top: inside a package
they are parts of it."""


def is_aside(path: str) -> bool:
    """Return whether a file is auxiliary by its path."""
    return _ASIDE.search(path) is not None or is_bundle(path)


def scaled(values: Signal, best: float) -> Signal:
    """Divide by the best value, which becomes 1; negative values become 0."""
    positive: Signal = np.maximum(values, np.float32(0))
    return (positive / best).astype(np.float32) if best > 0 else positive


def symbol_signal(names: Sequence[Name], wanted: Mapping[str, float], total: float) -> Signal:
    """Return how much of the question is in the name that a chunk defines, each word weighted by its rarity.

    `wanted` holds the question's terms and their synonyms with their idf; `total` is the sum over its own
    terms. A name whose words are all asked for gets the share of the question's rarity that it covers; a
    scope counts a third.
    """
    known, are_foreign = {}, wanted.keys().isdisjoint
    for name in set(names):  # for two hundred names, plain loops take half the time of comprehensions
        if not name[0]:
            known[name] = 0.0
            continue
        named, around = _terms_of_name(name)
        covered, held, around_share = 0.0, 0, 0.0
        if not are_foreign(named):
            for term in named:
                if term in wanted:
                    covered += wanted[term]
                    held += 1
        if not are_foreign(around):
            for term in around:
                if term in wanted:
                    around_share += wanted[term]
        known[name] = (covered * held / max(len(named), 1) + around_share / 3) / total
    return np.minimum(np.asarray([known[name] for name in names], np.float32), np.float32(1))


@lru_cache(maxsize=65_536)
def _terms_of_name(name: Name) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the terms of the symbol, and the other terms of its scope."""
    named, around = map(_terms_in, name)
    return named, tuple(term for term in around if term not in named)


@lru_cache(maxsize=65_536)
def _terms_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms(text)))


def mention_signal(index: ChunkIndex, chunks: Chunks, question: ParsedQuestion) -> Signal:
    """Return 1 for chunks that define a name the question mentions, or are in a file that it mentions.

    Of the definitions of `Client.send` those in another class than `Client` get a half, if it has one.
    """
    defining: dict[int, float] = {}
    for name in question.names:
        for chunk, value in defining_chunks(index, name):
            defining[chunk] = max(defining.get(chunk, 0.0), value)
    values = np.zeros(len(chunks), np.float32)
    if defining:
        values += np.asarray([defining.get(chunk, 0.0) for chunk in chunks.tolist()], np.float32)
    if question.paths:
        files = {f: index.file_path(f) for f in set(index.file[chunks].tolist())}
        named = {f for f, path in files.items() if any(is_path(path, p) for p in question.paths)}
        inside = np.asarray([f in named for f in index.file[chunks].tolist()], np.float32)
        values = np.maximum(values, inside)
    return values


def defining_chunks(index: ChunkIndex, name: str) -> Iterator[tuple[int, float]]:
    """Yield the chunks that define a name, with how well the class or module that it is written with fits."""
    last = last_part(name)
    chunks = list(index.defining(last))
    around = last_part(name[: -len(last)].rstrip(".:#->"))
    names = index.names(np.asarray(chunks, np.int64)) if around and chunks else []
    inside = {chunk for chunk, (_, scope) in zip(chunks, names, strict=False) if last_part(scope) == around}
    for chunk in chunks:
        yield chunk, 1.0 if chunk in inside or not inside else _ELSEWHERE


def chunk_at(index: ChunkIndex, chunks: Sequence[int], line: int) -> int:
    """Return which of the chunks of a file, ascending, holds a line, from 1."""
    place = bisect_right(chunks, line, key=lambda chunk: index.lines(chunk)[0])
    return chunks[max(place - 1, 0)]


def reference_signal(chunks: Chunks, pointed: Mapping[int, float]) -> Signal:
    """Return how strongly the question refers to each chunk."""
    if not pointed:
        return np.zeros(len(chunks), np.float32)
    return np.asarray([pointed.get(chunk, 0.0) for chunk in chunks.tolist()], np.float32)


def path_signal(index: ChunkIndex, chunks: Chunks, wanted: Mapping[str, float], total: float) -> Signal:
    """Return how much of the question the file's path covers; the stem counts in full, the folders half."""
    files = index.file[chunks].tolist()
    by_file = {}
    for file in set(files):
        stem, around = _terms_of_path(index.file_path(file))
        covered = around_share = 0.0
        for term in stem:
            if term in wanted:
                covered += wanted[term]
        for term in around:
            if term in wanted:
                around_share += wanted[term]
        by_file[file] = min((covered + around_share / 2) / total, 1.0)
    return np.asarray([by_file[file] for file in files], np.float32)


@lru_cache(maxsize=65_536)
def _terms_of_path(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the terms of the file's stem, and the other terms of its folders."""
    folder, _, name = path.rpartition("/")
    stem, around = dict.fromkeys(terms(name.split(".", 1)[0])), dict.fromkeys(terms(folder))
    return tuple(stem), tuple(term for term in around if term not in stem)


def file_signal(index: ChunkIndex, chunks: Chunks, relevance: Signal) -> Signal:
    """Return the relevance of the file that a chunk is in: the sum of the file's five best chunks."""
    files = index.file[chunks]
    among_best = _place_in_file(files, chunks, relevance) < 5
    sums = np.bincount(files, weights=np.where(among_best, relevance, 0), minlength=1)
    values: Signal = sums[files].astype(np.float32)
    return values


def about_signal(index: ChunkIndex, chunks: Chunks, query: Vectors) -> Signal:
    """Return the topic match of the whole file: the mean similarity of all its chunks to the question.

    Computed only for the files of the first chunks in the order given, 0 for the others.
    """
    files = index.file[chunks]
    opened = np.sort(np.asarray(list(dict.fromkeys(files.tolist()))[:_MAX_OPENED_FILES], files.dtype))
    first, end = (find_sorted(index.file, opened, side) for side in ("left", "right"))
    count = end - first
    start = np.cumsum(count) - count
    inside = np.arange(count.sum()) + np.repeat(first - start, count)
    near = np.maximum(cosines(index, inside, query), np.float32(0))
    mean = scaled((np.add.reduceat(near, start) / count).astype(np.float32), 1.0)
    row = np.minimum(np.searchsorted(opened, files), len(opened) - 1)
    values: Signal = np.where(opened[row] == files, mean[row], np.float32(0))
    return values


def _place_in_file(files: npt.NDArray[np.int32], chunks: Chunks, scores: Signal) -> npt.NDArray[np.int64]:
    """Return the rank of each chunk within its file, from 0, best first, ties by number."""
    order = np.lexsort((chunks, -scores, files))
    begins = np.flatnonzero(np.diff(files[order], prepend=-1))
    place = np.empty(len(files), np.int64)
    place[order] = np.arange(len(files)) - np.repeat(begins, np.diff(begins, append=len(files)))
    return place


def kind_factor(
    index: ChunkIndex, chunks: Chunks, question: ParsedQuestion, weights: RankingWeights
) -> Signal:
    """Return a factor below 1 for tests, documentation, configuration, class heads, and lines without a name
    of their own (imports, licences, loose code); above 1 for what is asked for.
    """
    by_kind = np.asarray([1.0, weights.test, weights.doc, weights.config], np.float32)
    for ask, kind, factor in (
        ("tests", TEST, weights.asked),
        ("docs", DOC, weights.asked),
        ("config", CONFIG, weights.config_asked),
    ):
        if ask in question.asks:
            by_kind[kind] = factor
    if "test_code" in question.asks and "tests" not in question.asks:
        by_kind[TEST] = weights.test_topic
    if "config" in question.asks and "docs" not in question.asks:
        by_kind[DOC] = weights.doc_of_config
    by_unit = np.asarray([1.0, weights.class_, weights.section, 1.0], np.float32)
    factors: Signal = by_kind[index.kind[chunks]] * by_unit[index.unit[chunks]]
    factors[index.unnamed(chunks)] *= np.float32(weights.unnamed)
    return factors


def prose_factor(index: ChunkIndex, chunks: Chunks, wanted: Mapping[str, float], total: float) -> Signal:
    """Return which share of the question's rarity documents hold whose heading or path has enough of it.

    It is 0 for the others, and for code. A section about what is asked for is as good as code.
    """
    headed, held = np.zeros(len(chunks), np.float32), np.zeros(len(chunks), np.float32)
    for term, value in wanted.items():
        found = index.postings(term)
        if len(found.chunks):
            place = found.chunks.searchsorted(chunks).clip(max=len(found.chunks) - 1)
            (there,) = (found.chunks[place] == chunks).nonzero()
            held[there] += value / total
            headed[there[found.head[place[there]] > 0]] += value / total
    held[index.kind[chunks] != DOC] = 0
    best = (-held).argsort(kind="stable")[:_MAX_HEADINGS_READ]
    unclear = (held[best] >= _HEADED_SHARE) & (headed[best] < _HEADED_SHARE)
    for at in best[unclear].tolist():  # several small sections may share a chunk
        titles = _HEADINGS.findall(index.hit(int(chunks[at]), 0.0, {}).text)
        shares = [sum([wanted[term] for term in wanted.keys() & terms(a or b)]) / total for a, b in titles]
        headed[at] = max([headed[at], *shares])
    held[headed < _HEADED_SHARE] = 0
    return held


def place_factor(
    index: ChunkIndex, chunks: Chunks, question: ParsedQuestion, weights: RankingWeights
) -> Signal:
    """Return a factor below 1 for auxiliary files: examples, benchmarks, tools, bundles."""
    factors = np.ones(len(chunks), np.float32)
    if "example" in question.asks:
        return factors
    files = index.file[chunks].tolist()
    known = _AUXILIARY.setdefault(index, {})
    for file in {*files}:
        if file not in known:
            known[file] = is_aside(index.file_path(file))
    factors[[known[file] for file in files]] = weights.aside
    return factors


_AUXILIARY: WeakKeyDictionary[ChunkIndex, dict[int, bool]] = WeakKeyDictionary()
"""Whether a file of a store is auxiliary by its path, as far as it was asked: paths are slow to look up."""


def penalize_repeats(index: ChunkIndex, chunks: Chunks, scores: Signal, weights: RankingWeights) -> Signal:
    """Return the scores, lowered a little for each further chunk of the same file."""
    held: Signal = scores * np.float32(weights.repeat) ** _place_in_file(index.file[chunks], chunks, scores)
    return held


def union(parts: Sequence[Chunks]) -> Chunks:
    """Return all chunks of several lists, once each, ascending."""
    return distinct(np.concatenate([np.asarray(part, np.int64) for part in parts]))
