"""Questions in one open process: `speed_probe.py FILE` prints JSON.

It runs in the environment of any version of rag, so it imports nothing of the benchmarks. FILE has the
questions of each folder, as JSON. Each is asked once, and then all are asked once more, as in a program of
that version: no model, turns in memory, garbage collected as its command line does.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

from rag.answer.extract import ExtractiveGenerator
from rag.service import Dialog, Engine, converse, locate
from rag.settings import load_settings


def main() -> None:
    """Print the CPU milliseconds of each question, first visit and repeated."""
    asked: dict[str, list[str]] = json.loads(Path(sys.argv[1]).read_text())
    gc.set_threshold(100_000, 50, 100)
    engine = Engine(load_settings({"memory": "memory:"}))
    repositories = {folder: engine.repository(locate(folder)) for folder in asked}
    rounds = []
    for _ in range(2):
        took = []
        for folder, questions in asked.items():
            for question in questions:
                began = time.process_time()
                dialog = Dialog(engine, [repositories[folder]])
                for _piece in converse(dialog, question, ExtractiveGenerator()):
                    pass
                took.append((time.process_time() - began) * 1000)
        rounds.append(took)
    sys.stdout.write(json.dumps(rounds) + "\n")


if __name__ == "__main__":
    main()
