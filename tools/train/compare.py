"""The shipped table beside others, on packages kept from training.

    python compare.py PAIRS [--wordllama WHEEL] [--minilm]

Doc comment to code: for each held-out package up to `--documents` functions and types, `--queries` of
them asked for with their documentation, MRR@10. Systems: BM25, the table, WordLlama's table pooled by
idf (of the wheel `wordllama==0.4.0.post1`), all-MiniLM-L6-v2 int8, and each with
BM25 at its best weight of four. Intervals: 95 %, paired bootstrap over queries.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rag.analysis import count_terms
from rag.backends.minilm_embedder import MiniLmEmbedder
from rag.backends.static_embedder import StaticEmbedder

from bags import held_out
from measure import fused, interval, reciprocal_ranks
from questions import bm25, dense, inverse_frequency
from wordllama import WordLlama

WEIGHTS = (0.5, 1.0, 1.5, 2.0)
Scorer = Callable[[list[str], list[str], list[str]], np.ndarray]  # heads, bodies, queries -> scores


def wordllama(model: WordLlama) -> Scorer:
    """WordLlama's cosines."""

    def score(heads: list[str], bodies: list[str], queries: list[str]) -> np.ndarray:
        texts = [f"{head} {body}" for head, body in zip(heads, bodies, strict=True)]
        model.fit(texts)
        return model.vectors(queries) @ model.vectors(texts).T

    return score


def static(table: StaticEmbedder) -> Scorer:
    """The table's cosines."""

    def score(heads: list[str], bodies: list[str], queries: list[str]) -> np.ndarray:
        bags = count_terms(heads, bodies)
        return dense(table, bags, inverse_frequency(bags), count_terms([""] * len(queries), queries))

    return score


def lexical(heads: list[str], bodies: list[str], queries: list[str]) -> np.ndarray:
    """BM25 scores."""
    bags = count_terms(heads, bodies)
    return bm25(bags, inverse_frequency(bags), count_terms([""] * len(queries), queries))


def minilm(model: MiniLmEmbedder) -> Scorer:
    """MiniLM's cosines."""

    def score(heads: list[str], bodies: list[str], queries: list[str]) -> np.ndarray:
        texts = [f"{head}\n{body}" for head, body in zip(heads, bodies, strict=True)]
        return model.embed(queries, role="query") @ model.embed(texts, role="passage").T

    return score


def packages(pairs: Path, documents: int, a_language: int) -> list[list[dict[str, Any]]]:
    """Held-out packages' documented functions and types, the same for the same arguments."""
    found, taken = [], defaultdict[str, int](int)
    for file in sorted(pairs.glob("*/*.jsonl.gz")):
        if not held_out(f"{file.parent.name}/{file.name.removesuffix('.jsonl.gz')}"):
            continue
        with gzip.open(file, "rt") as stream:
            rows = [row for row in map(json.loads, stream) if row["sort"] in ("function", "class")]
        rows = list({row["head"]: row for row in rows}.values())[:documents]
        language = max({r["language"] for r in rows}, key=[r["language"] for r in rows].count) if rows else ""
        if len(rows) >= 40 and taken[language] < a_language:
            taken[language] += 1
            found.append(rows)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--wordllama", type=Path)
    parser.add_argument("--minilm", action="store_true")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--packages", type=int, default=1000, help="of each language at most")
    given = parser.parse_args()
    systems: dict[str, Scorer] = {"static": static(StaticEmbedder(given.table))}
    if given.wordllama:
        systems["wordllama-idf"] = wordllama(WordLlama(given.wordllama))
    if given.minilm:
        systems["minilm int8"] = minilm(MiniLmEmbedder())
    ranks, languages = defaultdict[str, list[np.ndarray]](list), []
    for rows in packages(given.pairs, given.documents, given.packages):
        heads, bodies = [r["head"] for r in rows], [r["body"] for r in rows]
        asked = rows[: given.queries]
        queries, answers = [r["query"] for r in asked], np.arange(len(asked))
        words_only = lexical(heads, bodies, queries)
        ranks["bm25"].append(reciprocal_ranks(words_only, answers))
        for name, score in systems.items():
            scores = score(heads, bodies, queries)
            ranks[name].append(reciprocal_ranks(scores, answers))
            for weight in WEIGHTS:
                ranks[f"{name}+bm25 w{weight}"].append(
                    reciprocal_ranks(fused(words_only, scores, weight), answers)
                )
        languages += [row["language"] for row in asked]
    report({name: np.concatenate(values) for name, values in ranks.items()}, np.asarray(languages))


def report(ranks: dict[str, np.ndarray], languages: np.ndarray) -> None:
    """Print a table: all, by language, and the static table's lead over each other system."""
    for name in [n for n in ranks if f"{n}+bm25 w0.5" in ranks]:  # of the fusions, the best weight only
        fusions = [f"{name}+bm25 w{weight}" for weight in WEIGHTS]
        best = max(fusions, key=lambda f: ranks[f].mean())
        for fusion in set(fusions) - {best}:
            del ranks[fusion]
    spoken = [name for name in np.unique(languages) if (languages == name).sum() >= 50]
    names = " | ".join(f"{name} ({(languages == name).sum()})" for name in spoken)
    print(f"| system | all ({len(languages)}) | 95 % | static minus it, 95 % | {names} |")
    for system, values in ranks.items():
        low, high = interval(values)
        least, most = interval(ranks["static"] - values)
        by_language = " | ".join(f"{values[languages == name].mean():.3f}" for name in spoken)
        figures = f"{values.mean():.3f} | {low:.3f}, {high:.3f} | {least:+.3f}, {most:+.3f}"
        print(f"| {system} | {figures} | {by_language} |")


if __name__ == "__main__":
    main()
