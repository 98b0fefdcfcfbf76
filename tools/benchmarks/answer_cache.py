"""When is an answer given before an answer to this question? Paraphrases, and hard negatives.

`tools/questions/cache_dev.jsonl` and `cache_final.jsonl` hold questions, each with others that the same
answer serves (`same`) and others that are alike and that it does not serve (`different`): another verb,
negation, number, name, role, direction, question word, or repository. Most are written by hand; the others
are templates over names of real repositories ("how" tells). Repositories, names and templates of dev and
final are apart; the rules of `rag.answer_cache.question_equivalence` were written with dev alone.

`cache_pairs.jsonl` holds single pairs, most of them negatives that differ in one word or its form, as
`{"question": …, "other": …, "same": …, "kind": …, "symbols": […]}`: the symbols are identifiers that exist in
the repository. `cache_strangers.jsonl` has the same form, and was written by someone who has not seen the
rules; they were not changed for it. `--pairs FILE` measures another file of this form instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from rag.answer_cache.cache import AnswerCache
from rag.answer_cache.question_equivalence import meaning
from rag.backends import open_embedder
from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.corpus.git import run_git
from rag.corpus.read import file_blob
from rag.errors import BackendMissing, SettingsError
from rag.evaluation.questions import read_records
from rag.ports import RecordStore
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer, Prepared, Usage
from tools.benchmarks.bench import CHECKOUT, QUESTIONS, Bench, not_measured, show

PRECISION = 0.99
COMMITS = 14
ASKED = """Where are turns stored in SQLite?
How is a question put on its own?
Where is the prompt composed?
How are vectors quantised?
Where are citations resolved?
How does the server limit requests?
Where is a repository cloned?
How is a file cut into chunks?
Where are secrets skipped?
Where is the wiki structure read?
How are token counts estimated?
Who closes the turn store?
Where are globs of .ragignore matched?
How is the gate fitted?
How does `rag turns check` decide?
Where is the OpenAI protocol served?
How are synonyms looked up?
Where is the confidence judged?""".splitlines()
ENTRIES = 20_000
LOOKUPS = 500


@dataclass(frozen=True)
class Pair:
    """A question that was answered, and one that is asked now. `same` tells whether the answer serves it."""

    repo: str
    first: str
    other_repo: str
    second: str
    kind: str
    how: str
    same: bool
    symbols: frozenset[str] = frozenset()

    def is_symbol(self, word: str) -> bool:
        """Whether the repository defines something of this name, whatever its case."""
        return word.lower() in self.symbols


Likeness = Callable[[list[Pair]], npt.NDArray[np.float64]]
"""How alike the questions of each pair are, from 0 to 1; 0 where something rules them out."""


def read_pairs(name: str) -> list[Pair]:
    """The pairs of `dev` or `final`, in the order of the file."""
    return list(_pairs(QUESTIONS / f"cache_{name}.jsonl"))


def _pairs(path: Path) -> Iterator[Pair]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for same in (True, False):
            for other in row["same" if same else "different"]:
                yield Pair(
                    row["repo"],
                    row["question"],
                    other.get("repo", row["repo"]),
                    other["question"],
                    other["kind"],
                    row["how"],
                    same,
                )


def read_single_pairs(path: Path) -> list[Pair]:
    """The pairs of a file with one pair on each line.

    Raises:
        SettingsError: the file cannot be read, or a line is not such a pair.
    """
    pairs = []
    for number, row in enumerate(read_records(path), 1):
        try:
            symbols = frozenset(str(symbol).lower() for symbol in row.get("symbols", ()))
            texts = str(row["question"]), str(row["other"])
            pairs.append(Pair("", texts[0], "", texts[1], str(row["kind"]), "", bool(row["same"]), symbols))
        except (KeyError, TypeError) as error:
            raise SettingsError(
                f"{path}, record {number} is no pair of questions ({error}); fix it"
            ) from error
    return pairs


def by_meaning(pairs: list[Pair]) -> npt.NDArray[np.float64]:
    """1 where both questions mean the same to the cache as it is shipped."""
    return np.array(
        [
            float(
                pair.repo == pair.other_repo
                and meaning(pair.first, (pair.repo,), pair.is_symbol)
                == meaning(pair.second, (pair.repo,), pair.is_symbol)
            )
            for pair in pairs
        ]
    )


def by_words(pairs: list[Pair]) -> npt.NDArray[np.float64]:
    """1 where both are the same but for case, blanks and the mark at the end."""

    def plain(text: str) -> str:
        return " ".join(text.casefold().split()).rstrip("?.! ")

    return np.array(
        [float(p.repo == p.other_repo and plain(p.first) == plain(p.second)) for p in pairs], np.float64
    )


def by_vectors(embedder: str, pairs: list[Pair]) -> npt.NDArray[np.float64]:
    """The cosine of both questions; 0 for another repository, which no vector can tell."""
    opened = open_embedder(Settings(embedder=embedder))
    first = opened.embed([pair.first for pair in pairs], role="query")
    second = opened.embed([pair.second for pair in pairs], role="query")
    cosines = np.einsum("ij,ij->i", first, second).astype(np.float64)
    return np.where([pair.repo == pair.other_repo for pair in pairs], cosines, 0.0)


def answer_cache(bench: Bench) -> None:
    """Which answers given before may be given again: precision, hit rate, and how long it takes to look."""
    if bench.pairs is not None:
        _show_pairs(bench.pairs)
        return
    dev, final = read_pairs("dev"), read_pairs("final")
    likenesses: dict[str, Likeness] = {
        "the same words": by_words,
        "vectors, static": partial(by_vectors, "static"),
        "vectors, minilm": partial(by_vectors, "minilm"),
        "the same meaning (as shipped)": by_meaning,
    }
    rows = []
    for name, likeness in likenesses.items():
        try:
            on_dev, on_final = likeness(dev), likeness(final)
        except BackendMissing as error:
            not_measured(error)
            continue
        least = threshold(on_dev, dev)
        for part, found, pairs in (("dev", on_dev, dev), ("final", on_final, final)):
            rows.append([name, f"{least:.3f}", part, *_figures(found >= least, pairs)])
    columns = ["likeness", "from", "pairs", "hit rate", "wrongly served", "precision"]
    show(f"Served from the cache, at precision ≥ {PRECISION} on dev", columns, rows)
    _show_kinds(dev, final)
    _show_pairs(QUESTIONS / "cache_pairs.jsonl")
    _show_pairs(QUESTIONS / "cache_strangers.jsonl")
    _show_times()
    _show_history()


def threshold(found: npt.NDArray[np.float64], pairs: list[Pair]) -> float:
    """The least likeness from which PRECISION is kept on these pairs, and no more negatives than 1 in 100."""
    same = np.array([pair.same for pair in pairs])
    for least in np.unique(found[same]):
        served = found >= least
        wrong = np.count_nonzero(served & ~same)
        if wrong <= (1 - PRECISION) * np.count_nonzero(served) and wrong <= (1 - PRECISION) * (~same).sum():
            return float(max(least, 1e-9))
    return 1.001


def _figures(served: npt.NDArray[np.bool_], pairs: list[Pair]) -> list[str]:
    same = np.array([pair.same for pair in pairs])
    right, wrong = np.count_nonzero(served & same), np.count_nonzero(served & ~same)
    precision = f"{right / (right + wrong):.3f}" if right + wrong else "–"
    return [
        f"{right / same.sum():.2f} ({right} of {same.sum()})",
        f"{wrong} of {(~same).sum()}",
        precision,
    ]


def _show_kinds(dev: list[Pair], final: list[Pair]) -> None:
    rows = []
    kinds = dict.fromkeys((pair.same, kind) for pair in dev for kind in (pair.how, pair.kind))
    for same, kind in sorted(kinds, reverse=True):
        row = ["same" if same else "different", kind]
        for pairs in (dev, final):
            served = by_meaning(pairs) > 0
            mine = [n for n, pair in enumerate(pairs) if pair.same == same and kind in (pair.kind, pair.how)]
            row.append(f"{np.count_nonzero(served[mine])} of {len(mine)}")
        rows.append(row)
    show("Served by meaning, by kind", ["pairs", "kind", "dev", "final"], rows)


def _show_pairs(path: Path) -> None:
    """What is served of a file of single pairs, by kind, and which pairs are served wrongly."""
    pairs = read_single_pairs(path)
    served = by_meaning(pairs) > 0
    rows = []
    for same, kind in sorted({(pair.same, pair.kind) for pair in pairs}, reverse=True):
        mine = [n for n, pair in enumerate(pairs) if (pair.same, pair.kind) == (same, kind)]
        row = ["same" if same else "different", kind, f"{np.count_nonzero(served[mine])} of {len(mine)}"]
        rows.append(row)
    show(f"Served by meaning: {path.name}, by kind", ["pairs", "kind", "served"], rows)
    figures = []
    for same in (True, False):
        mine = [n for n, pair in enumerate(pairs) if pair.same == same]
        figures.append(f"{np.count_nonzero(served[mine])} of {len(mine)}")
    show(f"Served by meaning: {path.name}", ["paraphrases", "wrongly served"], [figures])
    wrong = [
        [pair.kind, pair.first, pair.second]
        for pair, found in zip(pairs, served, strict=True)
        if found and not pair.same
    ]
    if wrong:
        show("Wrongly served", ["kind", "question", "other"], wrong)


def _show_times() -> None:
    with TemporaryDirectory(prefix="rag-bench-") as folder:
        sqlite = SqliteTurnStore(Path(folder) / "turns.db")
        rows = [[name, *_times(store)] for name, store in (("memory", MemoryTurnStore()), ("sqlite", sqlite))]
        sqlite.close()
    columns = ["store", "hit p50", "hit p95", "miss p50", "miss p95", "hit, counted p50", "put p50"]
    show(f"A look-up among {ENTRIES:,} entries, in ms", columns, rows)


def _times(store: RecordStore) -> list[str]:
    cache = AnswerCache(store)
    scope = {"repositories": ["/repositories/api"], "model": "m"}
    text = "The token is checked in `authenticate` [1]. " * 20
    puts = _timed(lambda n: cache.put(f"Where is token {n} checked?", text, scope=scope), ENTRIES)
    hits = _timed(lambda n: cache.find(f"where do we check token {n * 7}", scope=scope), LOOKUPS)
    misses = _timed(lambda n: cache.find(f"where do we delete token {n * 7}", scope=scope), LOOKUPS)
    counted = _timed(lambda n: cache.get(f"where do we check token {n * 3}", scope=scope), LOOKUPS)
    assert cache.stats().hit_rate == 1.0
    figures = [(hits, 50), (hits, 95), (misses, 50), (misses, 95), (counted, 50), (puts, 50)]
    return [f"{np.percentile(times, q) * 1000:.2f}" for times, q in figures]


class _Pointer:
    """Writes an answer that refers to its first two sources."""

    model = "pointer"
    usage: Usage | None = None

    def stream(self, prepared: Prepared) -> Iterator[str]:
        yield "It is there [1], and there [2]."


def _show_history() -> None:
    """The same questions at every tenth commit of this project: how many answers are given again."""
    if not (CHECKOUT / ".git").exists():
        not_measured("the checkout has no history of its own")
        return
    with TemporaryDirectory(prefix="rag-bench-") as folder:
        root = Path(folder) / "checkout"
        run_git(["clone", "--quiet", str(CHECKOUT), str(root)], cwd=CHECKOUT)
        commits = run_git(["rev-list", "--reverse", "--first-parent", "HEAD"], cwd=root).decode().split()
        engine = Engine(Settings(home=Path(folder) / "home", memory="memory:", cache=True))
        answers = []
        for commit in commits[-10 * COMMITS :: 10]:
            run_git(["checkout", "--quiet", commit], cwd=root)
            repository = engine.repository(str(root))
            for question in ASKED:
                *_, answer = converse(Dialog(engine, [repository]), question, _Pointer(), cache=True)
                assert isinstance(answer, Answer)
                differs = any(file_blob(root, source.path) != source.blob for source in answer.sources)
                answers.append((bool(answer.cached), differs))
        engine.close()
    again = answers[len(ASKED) :]
    served = [differs for cached, differs in again if cached]
    show(
        f"The same {len(ASKED)} questions at every tenth of the last commits of this project",
        ["asked again", "served", "served although a file that was shown differs"],
        [[len(again), f"{len(served)} ({len(served) / max(len(again), 1):.0%})", sum(served)]],
    )


def _timed(do: Callable[[int], object], count: int) -> list[float]:
    times = []
    for n in range(count):
        began = time.perf_counter()
        do(n)
        times.append(time.perf_counter() - began)
    return times
