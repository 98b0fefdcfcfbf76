"""Evidence in long conversations: LoCoMo (Maharana and others, 2024), found by the recall that prompts use.

The data is public (CC BY-NC 4.0) and not ours to pass on: name the file with LOCOMO. A question of the
categories 1 to 4 is asked of its dialogue; what is sought are the turns that its authors marked as evidence.
Dialogues 1 to 5 were looked at while the recall was made, 6 to 10 were not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from rag import backends
from rag.memory.recall import recall_turns
from rag.memory.search import search_text
from rag.ports import Embedder, MemoryStore
from rag.settings import Settings
from rag.types import DialogTurn, UserQuery
from tools.benchmarks.bench import Bench, NotMeasured, show

SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop"}
DEVELOPMENT, HELD_BACK = range(5), range(5, 10)
K = 10

Find = Callable[[MemoryStore, str, str], list[str]]
"""The ids of the ten best turns for a question in a namespace, best first."""


@dataclass(frozen=True)
class Question:
    """What is asked of a dialogue, and the turns that answer it."""

    dialogue: str
    text: str
    category: int
    evidence: frozenset[str]


def locomo(bench: Bench) -> None:
    """Evidence found in LoCoMo's dialogues (LOCOMO=FILE names the data)."""
    dialogues = read_dialogues()
    engine = Settings(memory="memory:")
    embedder = backends.open_embedder(engine)
    for title, numbers in (("held back, 6 to 10", HELD_BACK), ("development, 1 to 5", DEVELOPMENT)):
        store = backends.open_turn_store(engine)
        questions = [question for n in numbers for question in remember(store, dialogues[n], str(n))]
        rows = [
            _row("recall", questions, partial(_recalled, embedder), store),
            _row("recall, words alone", questions, partial(_recalled, None), store),
            _row("BM25 of single turns", questions, _by_words, store),
        ]
        columns = ("found by", "questions", "recall@10", "95 %", "MRR", *CATEGORIES.values(), "p50")
        show(f"LoCoMo, evidence among ten turns, conversations {title}", columns, rows)
        store.close()


def read_dialogues() -> list[dict[str, Any]]:
    """The ten dialogues of the file that LOCOMO names.

    Raises:
        NotMeasured: it names none, or another file.
    """
    named = os.environ.get("LOCOMO")
    if not named:
        raise NotMeasured("LOCOMO=FILE names locomo10.json (2.8 MB, public, CC BY-NC 4.0)")
    try:
        content = Path(named).expanduser().read_bytes()
    except OSError as error:
        raise NotMeasured(f"{named} cannot be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise NotMeasured(f"{named} is another file: its SHA-256 is {found}, not {SHA256}")
    dialogues: list[dict[str, Any]] = json.loads(content)
    return dialogues


def remember(store: MemoryStore, dialogue: dict[str, Any], namespace: str) -> Iterator[Question]:
    """Store a dialogue, each session as a conversation of a namespace; yield what is asked of it."""
    said = dialogue["conversation"]
    sessions = sorted(int(key.split("_")[1]) for key in said if re.fullmatch(r"session_\d+", key))
    known = set()
    for session in sessions:
        when = said[f"session_{session}_date_time"]
        turns = [_turn(namespace, one, when) for one in said[f"session_{session}"]]
        conversation = store.create_conversation(namespace=namespace, name=f"session {session}")
        store.extend(turns, conversation=conversation.id, namespace=namespace)
        known |= {turn.id for turn in turns}
    for asked in dialogue["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(asked["evidence"]))
        evidence = frozenset(f"{namespace}/{one}" for one in named) & known
        if asked["category"] in CATEGORIES and evidence:
            yield Question(namespace, asked["question"], asked["category"], evidence)


def _turn(namespace: str, said: dict[str, Any], when: str) -> DialogTurn:
    """An utterance as a turn: who says what when, and what a picture shows."""
    picture = said.get("blip_caption", "")
    shown = f" (showing {picture})" if picture else ""
    text = f"{when}, {said['speaker']}{shown}: {said['text']}"
    return DialogTurn(id=f"{namespace}/{said['dia_id']}", user_query=UserQuery(text))


def _recalled(embedder: Embedder | None, store: MemoryStore, question: str, namespace: str) -> list[str]:
    found = recall_turns(store, question, embedder=embedder, namespace=namespace, k=K)
    return [one.turn.id for one in found]


def _by_words(store: MemoryStore, question: str, namespace: str) -> list[str]:
    return [one.id for one in search_text(store, question, namespace=namespace, kind="turn", k=K)]


def _row(name: str, questions: Sequence[Question], find: Find, store: MemoryStore) -> list[str]:
    recalls, ranks, seconds = [], [], []
    for question in questions:
        began = time.perf_counter()
        found = find(store, question.text, question.dialogue)
        seconds.append(time.perf_counter() - began)
        recalls.append(len(question.evidence.intersection(found)) / len(question.evidence))
        ranks.append(next((1 / n for n, one in enumerate(found, 1) if one in question.evidence), 0.0))
    low, high = _interval(recalls)
    of_kind = [
        fmean(r for r, question in zip(recalls, questions, strict=True) if question.category == category)
        for category in CATEGORIES
    ]
    numbers = [f"{fmean(recalls):.3f}", f"{low:.3f}-{high:.3f}", f"{fmean(ranks):.3f}"]
    by_kind = [f"{value:.2f}" for value in of_kind]
    return [name, str(len(questions)), *numbers, *by_kind, f"{median(seconds) * 1e3:.1f} ms"]


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies for 95 of 100 samples of the questions."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (1000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)
