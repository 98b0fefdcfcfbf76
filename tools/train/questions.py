"""Measure tables on questions people asked.

    python questions.py QUESTIONS.jsonl REPOSITORIES TABLE.bin

Every repository is cut into windows of 40 lines headed by their path; a file is as good as its best
window. NDCG@10 over files (an answer's file counts once), by kind of question, of BM25, each table, and
both together. For a question mined from a doc comment the comment is taken out of the repository first.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rag.analysis import TermBags, count_terms
from rag.backends.static_embedder import StaticEmbedder
from scipy import sparse

from measure import K1, B, fused, interval

SUFFIXES = frozenset(
    ".py .js .mjs .cjs .ts .tsx .go .rs .java .c .h .cc .cpp .hpp .rb .php .md .rst .toml .yml .sh".split()
)
WINDOW = 40


def windows(root: Path, stripped: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Paths and texts of all windows, without the lines that questions were made from."""
    gone: dict[str, set[int]] = defaultdict(set)
    for question in stripped:
        doc = question["doc"]
        gone[doc["path"]].update(range(doc["start"] - 1, doc["end"]))
    paths, texts = [], []
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.suffix not in SUFFIXES or not file.is_file() or file.stat().st_size > 400_000:
            continue
        lines = file.read_text(errors="replace").split("\n")
        kept = [line for i, line in enumerate(lines) if i not in gone[path]]
        for start in range(0, len(kept), WINDOW):
            paths.append(path)
            texts.append("\n".join(kept[start : start + WINDOW]))
    return paths, texts


def inverse_frequency(bags: TermBags) -> np.ndarray:
    """Of each term of the vocabulary."""
    df = bags.document_frequency()
    return np.log1p((len(bags) - df + 0.5) / (df + 0.5)).astype(np.float32)


def bm25(bags: TermBags, idf: np.ndarray, asked: TermBags) -> np.ndarray:
    """Scores, shape (questions, windows); the path counts as often as the body."""
    tf = bags.body.astype(np.float32) + 2.0 * bags.head
    counts = sparse.csr_matrix((tf, bags.terms, bags.indptr), shape=(len(bags), len(bags.vocabulary)))
    length = np.asarray(counts.sum(axis=1)).ravel()
    norm = np.repeat(K1 * (1 - B + B * length / length.mean()), np.diff(bags.indptr))
    counts.data = counts.data * (K1 + 1) / (counts.data + norm) * idf[bags.terms]
    number = {term: i for i, term in enumerate(bags.vocabulary)}
    rows = np.repeat(np.arange(len(asked)), np.diff(asked.indptr))
    columns = np.asarray([number.get(asked.vocabulary[t], -1) for t in asked.terms])
    known = columns >= 0
    queries = sparse.csr_matrix(
        (known[known], (rows[known], columns[known])), shape=(len(asked), counts.shape[1])
    )
    return np.asarray((queries.astype(np.float32) @ counts.T).todense())


def dense(table: StaticEmbedder, bags: TermBags, idf: np.ndarray, asked: TermBags) -> np.ndarray:
    """Cosines, shape (questions, windows)."""
    known = dict(zip(bags.vocabulary, idf.tolist(), strict=True))
    unseen = float(np.log1p((len(bags) + 0.5) / 0.5))
    asked_idf = np.asarray([known.get(term, unseen) for term in asked.vocabulary], np.float32)
    return table.embed_bags(asked, asked_idf, role="query") @ table.embed_bags(bags, idf, role="passage").T


def ndcg(scores: np.ndarray, paths: np.ndarray, answers: set[str]) -> float:
    """NDCG@10 over files, binary gains."""
    order = dict.fromkeys(paths[np.argsort(-scores, kind="stable")].tolist())
    gains = [1 / np.log2(place + 2) for place, path in enumerate(list(order)[:10]) if path in answers]
    return sum(gains) / sum(1 / np.log2(place + 2) for place in range(min(10, len(answers))))


def measure(
    questions: list[dict[str, Any]], root: Path, tables: dict[str, StaticEmbedder]
) -> dict[str, list[float]]:
    """NDCG@10 of every system for the questions about one repository, in their order."""
    found: dict[str, list[float]] = defaultdict(list)
    paths, texts = windows(root, [q for q in questions if q.get("strip")])
    bags, asked = (
        count_terms(paths, texts),
        count_terms([""] * len(questions), [q["question"] for q in questions]),
    )
    idf = inverse_frequency(bags)
    systems = {"bm25": bm25(bags, idf, asked)}
    for name, table in tables.items():
        systems[name] = dense(table, bags, idf, asked)
        for weight in (0.5, 1.0, 1.5):
            systems[f"{name}+bm25 w{weight}"] = fused(systems["bm25"], systems[name], weight)
    for system, scores in systems.items():
        for question, row in zip(questions, scores, strict=True):
            answers = {answer["path"] for answer in question["answers"]}
            found[system].append(ndcg(row, np.asarray(paths), answers))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("tables", type=Path, nargs="+")
    given = parser.parse_args()
    asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in given.questions.read_text().splitlines():
        question = json.loads(line)
        asked[question["repo"]].append(question)
    tables = {path.stem: StaticEmbedder(path) for path in given.tables}
    values: dict[str, list[float]] = defaultdict(list)
    kinds: list[str] = []
    for repository, questions in sorted(asked.items()):
        for system, scores in measure(questions, given.repositories / repository, tables).items():
            values[system] += scores
        kinds += [question["kind"] for question in questions]
    kind, base = np.asarray(kinds), np.asarray(values["bm25"])
    masks = {name: kind == name for name in sorted(set(kinds))} | {"hand-written": kind != "docstring"}
    print(
        "| system | "
        + " | ".join(f"{n} ({m.sum()})" for n, m in masks.items())
        + " | hand-written minus bm25, 95 % |"
    )
    for system, scores in values.items():
        row = np.asarray(scores)
        low, high = interval((row - base)[masks["hand-written"]])
        means = " | ".join(f"{row[mask].mean():.3f}" for mask in masks.values())
        print(f"| {system} | {means} | {low:+.3f}, {high:+.3f} |")


if __name__ == "__main__":
    main()
