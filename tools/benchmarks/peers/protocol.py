"""What every peer shares: which files it reads, and the JSON lines it speaks on its standard streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SUFFIXES = frozenset(
    ".bash .c .cc .cpp .cs .css .cxx .go .h .hh .hpp .htm .html .java .js .json .jsx .kt .lua .md .mjs .cjs "
    ".php .py .pyi .rb .rs .rst .scala .sh .sql .swift .toml .ts .tsx .txt .xml .yaml .yml".split()
)
SKIPPED_FOLDERS = frozenset(
    {".git", "node_modules", "__pycache__", "build", "dist", "target", ".venv", "venv"}
)
MAX_FILE_BYTES = 1_000_000

Result = dict[str, Any]


def files(root: Path) -> Iterator[tuple[str, str]]:
    """The path (relative, forward slashes) and the text of each source or text file, in order of path."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix.lower() not in SUFFIXES or not path.is_file():
                continue
            if path.stat().st_size <= MAX_FILE_BYTES:
                text = path.read_bytes().decode("utf-8", errors="replace")
                yield path.relative_to(root).as_posix(), text


def result(path: str, start: int, end: int, score: float) -> Result:
    """One place that was found, as the protocol writes it."""
    return {"path": path, "start": start, "end": end, "symbol": "", "score": round(float(score), 6)}


def serve(search: Callable[[str, int], list[Result]], *, chunks: int) -> None:
    """Say that the index is ready, then answer each request line until the input ends."""
    _say({"ready": True, "chunks": chunks, "history": False})
    for line in sys.stdin:
        if line.strip():
            request = json.loads(line)
            _say({"id": request["id"], "results": search(request["query"], request.get("k", 10))})


def _say(reply: dict[str, Any]) -> None:
    # __stdout__, since a peer may have sent what its libraries print elsewhere.
    stream = sys.__stdout__
    assert stream is not None
    stream.write(json.dumps(reply) + "\n")
    stream.flush()
