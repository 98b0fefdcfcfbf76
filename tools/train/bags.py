"""Pairs become counted terms: one array file that training and measuring read.

`python bags.py PAIRS BAGS.npz [--limit N]` analyzes every pair with rag's own analyzer. Terms that at
least `MIN_PACKAGES` packages use form the vocabulary; all others share hash buckets, as they do in use.
The columns `tf` hold 1 + log of a count. The inverse document frequency of a term is that of its
package, as in use it is that of the repository searched.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from array import array
from collections import Counter
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rag.analysis import TermBags, count_terms

MIN_PACKAGES = 4
BUCKETS = 8192
MAX_TERMS = 26_000
MIN_PAIRS = 12
HELD_OUT = 0.06
"""Share of the packages that is never trained on, chosen by a hash of the name."""


def term_hash(term: str) -> int:
    """The 64-bit name of a term, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def held_out(name: str) -> bool:
    """Whether a package is kept for validation."""
    return term_hash("held out " + name) % 10_000 < HELD_OUT * 10_000


def is_english(name: str) -> bool:
    """Whether a package is a part of WordNet, which teaches words and no code."""
    return name.startswith("wordnet/")


def inverse_frequency(bags: TermBags) -> npt.NDArray[np.float32]:
    """log(1 + (n - df + .5) / (df + .5)) of each term of the vocabulary."""
    frequency = bags.document_frequency()
    return np.log1p((len(bags) - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)


def analyze(
    job: tuple[Path, int],
) -> tuple[str, list[str], TermBags, TermBags, list[str], list[str], list[int]]:
    """Count the terms of one package's pairs."""
    file, limit = job
    with gzip.open(file, "rt") as stream:
        rows = [json.loads(line) for line in islice(stream, limit)]
    documents = count_terms([r["head"] for r in rows], [r["body"] for r in rows])
    queries = count_terms([""] * len(rows), [r["query"] for r in rows])
    name = f"{file.parent.name}/{file.name.removesuffix('.jsonl.gz')}"
    return (
        name,
        [r["sort"] for r in rows],
        documents,
        queries,
        [r["language"] for r in rows],
        [r["head"] for r in rows],
        [term_hash(r["query"]) for r in rows],
    )


class _Columns:
    """Rows of one side: row i is `[indptr[i]:indptr[i + 1]]` of the other columns."""

    def __init__(self) -> None:
        self.lengths, self.terms, self.tf, self.idf, self.head = array("i"), [], [], [], []

    def add(self, bags: TermBags, idf: npt.NDArray[np.float32], ids: npt.NDArray[np.int32]) -> None:
        self.lengths.extend(np.diff(bags.indptr).astype(np.int32).tolist())
        self.terms.append(ids[bags.terms])
        self.tf.append((1 + np.log(bags.body.astype(np.float32) + bags.head)).astype(np.float16))
        self.idf.append(idf[bags.terms].astype(np.float16))
        self.head.append(bags.head > 0)

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[np.generic]]:
        indptr = np.concatenate(([0], np.cumsum(np.asarray(self.lengths, np.int64))))
        columns = {"terms": self.terms, "tf": self.tf, "idf": self.idf, "head": self.head}
        return {f"{prefix}_indptr": indptr} | {f"{prefix}_{k}": np.concatenate(v) for k, v in columns.items()}


def _vocabulary(packages: list[Counter[str]], limit: int) -> list[str]:
    """The terms of the most packages, at most `limit`, in alphabetical order."""
    used: Counter[str] = Counter()
    for terms in packages:
        used.update(terms.keys())
    common = [(count, term) for term, count in used.items() if count >= MIN_PACKAGES]
    return sorted(term for _, term in sorted(common, key=lambda c: (-c[0], c[1]))[:limit])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("bags", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=2000, help="pairs a package")
    parser.add_argument("--max-terms", type=int, default=MAX_TERMS)
    given = parser.parse_args()
    files = sorted(given.pairs.glob("*/*.jsonl.gz"))
    with Pool(given.jobs) as pool:
        analyzed = [
            p
            for p in pool.imap(analyze, [(f, given.limit) for f in files], chunksize=8)
            if len(p[1]) >= MIN_PAIRS
        ]
    training = [p for p in analyzed if not held_out(p[0]) and not is_english(p[0])]
    vocabulary = _vocabulary([Counter(p[2].vocabulary + p[3].vocabulary) for p in training], given.max_terms)
    number = {term: i for i, term in enumerate(vocabulary)}
    queries, documents = _Columns(), _Columns()
    package, sorts, languages, same, asked_for = array("i"), [], [], array("q"), array("Q")
    for n, (_, sort, docs, asked, language, heads, queries_named) in enumerate(analyzed):
        idf = inverse_frequency(docs)
        known = dict(zip(docs.vocabulary, idf.tolist(), strict=True))
        unseen = float(np.log1p((len(docs) + 0.5) / 0.5))
        asked_idf = np.asarray([known.get(t, unseen) for t in asked.vocabulary], np.float32)
        for side, bags, weights in ((documents, docs, idf), (queries, asked, asked_idf)):
            ids = [number.get(t, len(vocabulary) + term_hash(t) % BUCKETS) for t in bags.vocabulary]
            side.add(bags, weights, np.asarray(ids, np.int32))
        package.extend([n] * len(sort))
        sorts += sort
        languages += language
        asked_for.extend(queries_named)
        same.extend(term_hash(f"{n} {head}") >> 1 for head in heads)
    np.savez(
        given.bags, vocabulary=np.asarray(vocabulary), package=np.asarray(package),
        names=np.asarray([p[0] for p in analyzed]),
        sort=np.asarray(sorts), language=np.asarray(languages), same=np.asarray(same),
        asked=np.asarray(asked_for, np.uint64),
        **queries.arrays("q"), **documents.arrays("d"),
    )  # fmt: skip
    print(f"{len(package)} pairs, {len(analyzed)} packages, {len(vocabulary)} terms, {BUCKETS} buckets")


if __name__ == "__main__":
    main()
