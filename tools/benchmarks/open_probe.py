"""How fast a store opens and takes a change, in one warm process: `open_probe FOLDER FILE` prints JSON.

Opening alone reads the store as it is, as the systems it is compared with do; looking for changes, which
every command of ours does first, is timed beside it.
FOLDER is indexed already. "Warm" is the median of five openings after the first: the modules are imported,
nothing else is kept.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from rag.retrieval.search import search
from rag.service import Engine, locate
from rag.settings import load_settings
from tools.benchmarks.bench import resident_mb

QUESTION = "Where are session cookies signed?"
RUNS = 5


def opened(root: str, *, scanning: bool) -> tuple[float, int]:
    """Seconds from nothing open to the first answer, and the chunks there are."""
    began = time.perf_counter()
    engine = Engine(load_settings())
    repository = engine.repository(locate(root), refreshing=scanning, counting=False)
    search([repository.searcher], QUESTION)
    seconds = time.perf_counter() - began
    engine.close()
    return seconds, repository.store.live_count


def updated(root: str, file: Path, number: int) -> float:
    """Seconds from a changed file to an open store that knows it."""
    file.write_text(file.read_text() + f"\n# change {number}\n")
    began = time.perf_counter()
    engine = Engine(load_settings())
    engine.repository(locate(root))
    seconds = time.perf_counter() - began
    engine.close()
    return seconds


def main() -> None:
    root, file = sys.argv[1], Path(sys.argv[1], sys.argv[2])
    before_mb = resident_mb()
    first_s, chunks = opened(root, scanning=False)
    added_mb = resident_mb() - before_mb
    figures = {
        "chunks": chunks,
        "first_s": first_s,
        "added_mb": added_mb,
        "reopen_s": statistics.median(opened(root, scanning=False)[0] for _ in range(RUNS)),
        "reopen_with_scan_s": statistics.median(opened(root, scanning=True)[0] for _ in range(RUNS)),
        "update_s": statistics.median(updated(root, file, number) for number in range(RUNS)),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
