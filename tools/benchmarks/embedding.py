"""Our static table beside WordLlama's and MiniLM, on the same chunks: alone, and fused in our ranking."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rag.analysis import count_terms
from rag.backends import open_vector_index
from rag.backends.static_embedder import StaticEmbedder
from rag.cli.terminal import out
from rag.database.digest import head_text
from rag.database.embed import idf
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.evaluation.evaluation import Evaluation
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import FOLLOW_UP, Question, read_questions
from rag.evaluation.runner import Outcome, Scores, Start, judge
from rag.evaluation.summary import summarise
from rag.evaluation.systems import System
from rag.evaluation.trees import Tree, indexed_folder, plan
from rag.ports import Embedder, Role, Vectors
from rag.retrieval.dense import embed_question, nearest
from rag.retrieval.question import parse_question
from rag.retrieval.rank import DEFAULT
from rag.retrieval.search import Searcher, search
from rag.types import Checkout, Hit, Source
from tools.benchmarks.bench import (
    CHECKOUT,
    QUESTIONS,
    Bench,
    NotMeasured,
    draw,
    not_measured,
    show,
    show_quality,
)
from tools.benchmarks.quality import repositories_of
from tools.benchmarks.vectors import KeptMiniLm, WordLlamaEmbedder, wordllama

DEPTH = 50
WEIGHTS = (0.4, 0.8, 1.2, 1.6)
"""What the dense leg may weigh in the ranking; each embedder has the one that is best for it on dev."""
CURVES = ("doc_mrr", "doc_fused_mrr", "newcomer_ndcg", "newcomer_fused_ndcg")
MINILM_CHUNKS = 10_000
"""MiniLM is measured on the smallest repositories that have so many chunks together: 20 minutes of it."""


@dataclass(frozen=True)
class Indexed:
    """A tree on disk, its store with our vectors, and the texts of its chunks as text embedders get them."""

    tree: Tree
    root: Path
    store: Store
    texts: list[str]


def embedding_dev(bench: Bench) -> None:
    """Embedders side by side on the dev questions; chooses what the dense leg weighs for each."""
    _measure(bench, "dev")
    _learning_curve(CHECKOUT / "tools" / "train" / "learning_curve.tsv")


def embedding_test(bench: Bench) -> None:
    """Embedders side by side on the test questions: for final figures, by hand."""
    _measure(bench, "test")


def _measure(bench: Bench, name: str) -> None:
    files = [QUESTIONS / f"{name}.jsonl", QUESTIONS / f"{name}_conversations.jsonl"]
    questions = [question for question in read_questions(files) if question.kind != FOLLOW_UP]
    folders = repositories_of(QUESTIONS / f"{name}_repositories.toml", questions, bench.cache)
    chosen = _weights(bench, name)
    results: dict[str, Any] = {"weights": chosen}
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="rag-bench-")))
        indexed = [
            _indexed(tree, stack.enter_context(indexed_folder(tree)), home / f"{n}.pkl")
            for n, tree in enumerate(plan(questions, folders))
        ]
        embedders: dict[str, Embedder] = {"static": StaticEmbedder()}
        try:
            embedders["wordllama"] = wordllama(bench)
        except NotMeasured as reason:
            not_measured(reason)
        results |= _compared("all repositories", indexed, embedders, chosen)
        try:
            embedders["minilm"] = KeptMiniLm(bench.cache / "minilm_vectors.npz")
            small = _smallest(indexed)
            names = ", ".join(sorted({one.tree.repo for one in small}))
            results |= _compared(f"with MiniLM, on {names}", small, embedders, chosen)
        except NotMeasured as reason:
            not_measured(reason)
    bench.results.mkdir(parents=True, exist_ok=True)
    file = bench.results / f"embedding_{name}.json"
    file.write_text(json.dumps(results, indent=1), encoding="utf-8")
    out(f"figures: {file}")


def _learning_curve(file: Path) -> None:
    """What was measured when the table was trained; repeating it takes the 6 GB that it learnt from."""
    if not file.is_file():
        not_measured(f"the learning curve: there is no {file.name}")
        return
    head, *rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line]
    found = [dict(zip(head, row, strict=True)) for row in rows]
    title = "Learning curve, as measured in training (data/embedding/PROVENANCE.md), not measured here"
    show(title, [name.replace("_", " ") for name in head], rows)
    axes = "MRR@10 of doc comments → code, NDCG@10 of newcomers' questions"
    for axis, name in (("pairs", "more data, 128 dimensions"), ("dimensions", "more dimensions, all data")):
        chosen = [row for row in found if row["curve"] in (axis, "both")]
        points = {f.replace("_", " "): [(float(row[axis]), float(row[f])) for row in chosen] for f in CURVES}
        draw(f"Learning curve: {name}", (axis, axes), points)


def _weights(bench: Bench, name: str) -> dict[str, float]:
    """The dense weights that dev chose; empty while they are to be chosen."""
    if name == "dev":
        return {}
    try:
        found = json.loads((bench.results / "embedding_dev.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotMeasured("the weights: run `--only embedding` first, they are chosen on dev") from error
    return {embedder: float(weight) for embedder, weight in found["weights"].items()}


def _indexed(tree: Tree, root: Path, file: Path) -> Indexed:
    store, _ = refresh(Checkout(Source(str(root)), root), file, StaticEmbedder(), Options())
    hits = [store.hit(chunk, 0.0, {}) for chunk in range(len(store))]
    texts = [f"{head_text(h.span)}\n{h.text}" for h in hits]
    return Indexed(tree, root, store, texts)


def _smallest(indexed: Sequence[Indexed]) -> list[Indexed]:
    """The trees of the smallest repositories, by chunks, that have MINILM_CHUNKS together."""
    sizes: dict[str, int] = {}
    for one in indexed:
        sizes[one.tree.repo] = max(len(one.store), sizes.get(one.tree.repo, 0))
    total = np.cumsum(sorted(sizes.values()))
    taken = set(sorted(sizes, key=lambda repo: sizes[repo])[: int((total <= MINILM_CHUNKS).sum())])
    return [one for one in indexed if one.tree.repo in taken]


def _compared(
    title: str, indexed: Sequence[Indexed], embedders: Mapping[str, Embedder], chosen: dict[str, float]
) -> dict[str, Any]:
    """Both tables, printed; as JSON by title. A weight that is not among `chosen` is chosen, and added."""
    questions = [question for one in indexed for question in one.tree.questions]
    alone, fused = [], []
    for name, embedder in embedders.items():
        out(f"{title}: {name} …")
        weights = (chosen[name],) if name in chosen else WEIGHTS
        measured = _ask(name, embedder, indexed, weights)
        alone.append(measured[0.0])
        best = max(weights, key=lambda w: np.mean([s.ndcg for s in measured[w].scores.values()]))
        chosen[name] = best
        fused.append(measured[best])
    fused.append(_ask_without(indexed))
    found: dict[str, Any] = {"chunks_per_cpu_s": _speeds(alone)}
    for kind, outcomes in (("alone", alone), ("fused", fused)):
        summary = summarise(questions, outcomes, k=DEPTH)
        show_quality(f"Embedders {kind}, {title}", summary)
        found[f"{kind}, {title}"] = Evaluation(tuple(questions), tuple(outcomes), DEPTH).to_json()
    return found


def _ask(
    name: str, embedder: Embedder, indexed: Sequence[Indexed], weights: Sequence[float]
) -> dict[float, Outcome]:
    """What one embedder finds: under 0 by cosine alone, under each weight fused in our ranking."""
    scores: dict[float, dict[str, Scores]] = {weight: {} for weight in (0.0, *weights)}
    starts = []
    for one in indexed:
        store = _embedded(one, embedder)
        starts.append(Start(one.tree.label, _embedding_s(embedder, one.texts), len(store)))
        searcher = Searcher(store, embedder, open_vector_index(store.vectors))
        for question in one.tree.questions:
            scores[0.0][question.id] = _by_cosine(searcher, question)
            for weight in weights:
                weighed = replace(searcher, weights=replace(DEFAULT, dense=weight))
                scores[weight][question.id] = _asked(weighed, question)
        sys.stderr.write(f"{name}: {one.tree.label}\n")
    return {
        weight: Outcome(
            System(f"{name}, weight {weight}" if weight else name, (embedder.fingerprint,)),
            False,
            tuple(starts),
            found,
        )
        for weight, found in scores.items()
    }


def _embedded(one: Indexed, embedder: Embedder) -> Store:
    """The tree's store with the vectors of an embedder, indexed as in use."""
    if isinstance(embedder, StaticEmbedder):
        return one.store
    if isinstance(embedder, WordLlamaEmbedder):
        embedder.fit(one.texts)
    file = one.store.path.with_suffix(".other.pkl")
    checkout = Checkout(Source(str(one.root)), one.root)
    return refresh(checkout, file, embedder, Options(), rebuild=True)[0]


def _ask_without(indexed: Sequence[Indexed]) -> Outcome:
    """Our ranking when it sees no vectors at all."""
    scores: dict[str, Scores] = {}
    starts = []
    for one in indexed:
        searcher = Searcher(one.store, _Blind(), open_vector_index(one.store.vectors))
        starts.append(Start(one.tree.label, 0.0, len(one.store)))
        scores |= {question.id: _asked(searcher, question) for question in one.tree.questions}
    return Outcome(System("no vectors", ("none",)), False, tuple(starts), scores)


class _Blind:
    """An embedder that knows no word: the search takes the zero vector as no vector."""

    dim, fingerprint = 128, "none"

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Zero rows."""
        return np.zeros((len(texts), self.dim), np.float32)


def _asked(searcher: Searcher, question: Question) -> Scores:
    began = time.perf_counter()
    hits = search([searcher], question.text, k=DEPTH).hits
    return judge(question, [_span(hit) for hit in hits], time.perf_counter() - began)


def _by_cosine(searcher: Searcher, question: Question) -> Scores:
    """The chunks by their cosine with the question, and nothing else."""
    began = time.perf_counter()
    index = searcher.index
    query = embed_question(searcher.embedder, index, question.text, parse_question(question.text).terms)
    near = nearest(searcher.vectors, index, query, DEPTH)
    spans = [_span(index.hit(int(chunk), 0.0, {})) for chunk in near]
    return judge(question, spans, time.perf_counter() - began)


def _span(hit: Hit) -> LineSpan:
    return LineSpan(hit.path, hit.start, hit.end)


def _embedding_s(embedder: Embedder, texts: Sequence[str]) -> float:
    """CPU-seconds from texts to vectors; those of MiniLM, whose vectors are kept, at its speed."""
    if isinstance(embedder, KeptMiniLm):
        return len(texts) / embedder.per_cpu_s
    began = time.process_time()
    if isinstance(embedder, StaticEmbedder):
        bags = count_terms([""] * len(texts), texts)
        embedder.embed_bags(bags, idf(bags.document_frequency(), len(bags)), role="passage")
    elif isinstance(embedder, WordLlamaEmbedder):
        embedder.fit(texts)
        embedder.embed(texts, role="passage")
    return time.process_time() - began


def _speeds(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Chunks that each embeds in a CPU-second."""
    found = {}
    for outcome in outcomes:
        seconds = sum(start.ready_s for start in outcome.starts)
        found[outcome.system.name] = sum(start.chunks for start in outcome.starts) / seconds
    rows = [(name, f"{speed:,.0f}") for name, speed in found.items()]
    show("Embedding, from text", ["embedder", "chunks per CPU-second"], rows)
    return found
