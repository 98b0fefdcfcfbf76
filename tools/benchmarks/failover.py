"""What is lost when a primary is killed while turns are written: of a Postgres server with one replica."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import psycopg

from rag.backends.postgres.turns import PostgresTurnStore
from rag.errors import StoreError
from rag.ports import TurnStore
from tests.contracts.sample_turns import new_turn
from tests.servers import postgres
from tests.servers.postgres import LocalPostgres
from tools.benchmarks.bench import Bench, NotMeasured, show

KILLS, WRITERS = 6, 8
WRITING_S, PATIENCE_S = 1.5, 60.0


def failover(bench: Bench) -> None:
    """Turns acknowledged and lost when the primary is killed, with and without waiting for a replica."""
    if why := postgres.missing():
        raise NotMeasured(why)
    rows = []
    for synchronous in (False, True):
        mode = "synchronous" if synchronous else "asynchronous"
        rows.append(_row(mode, [_killed_postgres(synchronous=synchronous) for _ in range(KILLS)]))
    _show("a Postgres primary is killed, its replica promoted at once", rows)


def _row(mode: str, seen: Sequence[Seen]) -> tuple[object, ...]:
    return (
        mode,
        len(seen),
        f"{sum(len(each.acknowledged) for each in seen):,}",
        sum(len(each.lost) for each in seen),
        sum(1 for each in seen if each.lost),
        f"{statistics.median(each.per_second for each in seen):,.0f}",
        f"{statistics.median(each.outage_s for each in seen):.1f}",
        f"{max(each.outage_s for each in seen):.1f}",
    )


def _show(what: str, rows: Sequence[tuple[object, ...]]) -> None:
    columns = (
        "replication",
        "kills",
        "acknowledged",
        "lost",
        "kills with a loss",
        "turns/s",
        "outage s",
        "worst s",
    )
    show(f"{what}, {WRITERS} writers", columns, rows)


@dataclass
class Seen:
    """What the writers saw."""

    acknowledged: dict[str, float] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    killed: float = 0.0
    per_second: float = 0.0
    outage_s: float = 0.0


def _killed_postgres(*, synchronous: bool) -> Seen:
    with ExitStack() as servers:
        primary = servers.enter_context(LocalPostgres(durable=True))
        replica = servers.enter_context(LocalPostgres(durable=True, standby_of=primary))
        if synchronous:
            with psycopg.connect(primary.url(), autocommit=True) as db:
                db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                db.execute("SELECT pg_reload_conf()")
        hosts = f"{primary.folder},{replica.folder}"
        with _writing(PostgresTurnStore(f"postgresql://postgres@/postgres?host={hosts}")) as seen:
            _killed(seen, primary.kill)
            with psycopg.connect(replica.url(), autocommit=True) as db:
                db.execute("SELECT pg_promote()")
    return seen


@contextmanager
def _writing(store: TurnStore) -> Iterator[Seen]:
    """Write from several threads; in the block the primary is killed, and another takes its place.

    Afterwards waits until writing goes on, and counts what is gone.
    """
    seen, stop = Seen(), threading.Event()
    here = store.create_conversation()
    writers = [threading.Thread(target=_write, args=(store, here.id, seen, stop)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        time.sleep(WRITING_S)
        yield seen
        while not any(at > seen.killed + 0.5 for at in [*seen.acknowledged.values()]):
            if time.perf_counter() > seen.killed + PATIENCE_S:
                raise NotMeasured(f"a failover within {PATIENCE_S:g} s")
            time.sleep(0.01)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    seen.lost = set(seen.acknowledged) - {turn.id for turn in store.turns(here.id)}
    seen.outage_s = _longest_gap(seen)
    store.close()


def _killed(seen: Seen, kill: Callable[[], None]) -> None:
    seen.killed = time.perf_counter()
    seen.per_second = len(seen.acknowledged) / WRITING_S
    kill()


def _longest_gap(seen: Seen) -> float:
    """Return the longest time after the kill in which nothing was acknowledged."""
    times = sorted(at for at in [seen.killed, *seen.acknowledged.values()] if at >= seen.killed)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def _write(store: TurnStore, conversation: str, seen: Seen, stop: threading.Event) -> None:
    """Append turns one after another; one that fails is tried again, which is safe."""
    while not stop.is_set():
        turn = new_turn("Where is a token checked?", "In authenticate.")
        while not stop.is_set():
            try:
                store.append(turn, conversation=conversation)
            except StoreError:
                time.sleep(0.02)
            else:
                seen.acknowledged[turn.id] = time.perf_counter()
                break
