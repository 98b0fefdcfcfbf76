"""How far a run is, and what failed: one JSON file, replaced whole after each block."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzz.worker import Outcome

BLOCK = 50
"""Inputs that are taken at once, and run again when a run stops among them."""


@dataclass(slots=True)
class Progress:
    """One target's part of a run. `blocks` are those that are done."""

    planned: int
    blocks: list[int] = field(default_factory=list)
    run: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    slowest: float = 0.0
    """The largest share of the time that an input may take."""
    size_bytes: int = 0

    def count(self, outcome: Outcome, share: float) -> None:
        """Add an outcome; `share` is what it took of the time it had."""
        self.run += 1
        self.failed += outcome.kind != "passed"
        self.cpu_s += outcome.cpu_s
        self.slowest = max(self.slowest, round(share, 3))
        self.size_bytes += outcome.size


class State:
    """The state of a run in a folder. Threads may share it."""

    def __init__(self, folder: Path, seed: str, planned: dict[str, int]) -> None:
        self.file = folder / "state.json"
        self.lock = threading.Lock()
        found: dict[str, Any] = json.loads(self.file.read_text()) if self.file.is_file() else {}
        if found.get("seed") != seed:
            found = {}
        self.seed = seed
        self.seconds: float = found.get("seconds", 0.0)
        self.failures: list[dict[str, Any]] = found.get("failures", [])
        known = found.get("targets", {})
        self.targets = {
            name: Progress(**{**known.get(name, {}), "planned": count}) for name, count in planned.items()
        }

    def blocks(self) -> list[tuple[str, int]]:
        """The blocks that are left, of all targets in turn."""
        left = []
        for name, progress in self.targets.items():
            total = -(-progress.planned // BLOCK)
            done = set(progress.blocks)
            left += [((n + 0.5) / total, name, n) for n in range(total) if n not in done]
        return [(name, number) for _, name, number in sorted(left)]

    def finish(self, name: str, block: int, counted: Progress) -> None:
        """A block is done."""
        with self.lock:
            progress = self.targets[name]
            progress.blocks = sorted({*progress.blocks, block})
            progress.run += counted.run
            progress.failed += counted.failed
            progress.cpu_s = round(progress.cpu_s + counted.cpu_s, 3)
            progress.size_bytes += counted.size_bytes
            progress.slowest = max(progress.slowest, counted.slowest)
            self.save()

    def save(self) -> None:
        """Write the file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        made = {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "targets": {name: asdict(progress) for name, progress in self.targets.items()},
            "failures": self.failures,
        }
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(made, indent=1, ensure_ascii=True))
        part.replace(self.file)
