"""Indexes shared between machines: publish, fetch and update that of Django 5.2, in a folder and a bucket."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.errors import RagError
from rag.evaluation.repositories import obtain
from rag.service import Engine, locate
from rag.service.published_index import take
from rag.service.repository import Repository
from rag.service.shared_stores import SharedStores
from rag.settings import Settings
from tests.servers.object_store import MotoServer
from tools.benchmarks.bench import Bench, NotMeasured, show
from tools.benchmarks.django import DJANGO, TOUCHED

_RUNS = 3
_OTHER = "django/contrib/auth/tokens.py"
_LOGIN = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}


@dataclass
class Measured:
    """Seconds and bytes of each step, one of each run."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    size_bytes: dict[str, list[int]] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[list[int]]:
        """Time a step; it appends the bytes that it transferred to what this yields."""
        moved: list[int] = []
        began = time.perf_counter()
        yield moved
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)
        self.size_bytes.setdefault(name, []).append(sum(moved))

    def rows(self) -> list[tuple[str, str, str]]:
        return [
            (
                name,
                f"{statistics.median(taken):.2f} s",
                f"{statistics.median(self.size_bytes[name]) / 1e6:.2f} MB",
            )
            for name, taken in self.seconds.items()
        ]


def shelf(bench: Bench) -> None:
    """Django 5.2: an index published, fetched and updated in a folder and in a bucket; bytes and seconds."""
    try:
        sources = obtain(DJANGO, bench.cache)
    except RagError as error:
        raise NotMeasured(error) from error
    with TemporaryDirectory(prefix="rag-bench-shelf-") as workplace:
        folder = Path(workplace, "folder")
        folder.mkdir()
        _measured("a folder", sources, Path(workplace, "1"), lambda run: str(_made(folder / str(run))))
        with MotoServer() as server, _environment(_LOGIN | {"AWS_ENDPOINT_URL": server.url}):
            server.create("bench")
            _measured(
                "a bucket (moto's server on loopback)",
                sources,
                Path(workplace, "2"),
                lambda run: f"s3://bench/{run}",
            )


def _measured(what: str, sources: Path, workplace: Path, place: Callable[[int], str]) -> None:
    measured = Measured()
    for run in range(_RUNS):
        _run(measured, sources, workplace / str(run), place(run))
    show(f"Django 5.2 shared through {what}, medians of {_RUNS}", ("step", "time", "moved"), measured.rows())


def _run(measured: Measured, sources: Path, workplace: Path, stores: str) -> None:
    """One run: machine A indexes and publishes, machine B begins from that; then each changes a file."""
    origin = workplace / "origin"
    shutil.copytree(sources, origin)
    _git(origin, "init", "--quiet")
    _commit(origin)
    homes = {name: workplace / name for name in ("a", "b")}
    with measured.step("A: clone and index, nothing published"):
        _opened(homes["a"], stores, origin)
    with measured.step("A: open again, publish") as moved:
        moved.append(_published(homes["a"], stores, origin))
    key = _shared(homes["b"], stores).shelf.keys()[0]
    with measured.step("C: ask git for the commit, fetch, open: ready without a clone"):
        _taken(workplace / "c", stores, origin)
    with measured.step("B: fetch, cold") as moved:
        moved.append(_shared(homes["b"], stores).shelf.fetch(key).downloaded_bytes)
    with measured.step("B: fetch, cached") as moved:
        moved.append(_shared(homes["b"], stores).shelf.fetch(key).downloaded_bytes)
    with measured.step("B: clone, compare every file, open"):
        _opened(homes["b"], stores, origin)
    with measured.step("B: open again"):
        _opened(homes["b"], stores, origin)
    _changed(origin, TOUCHED)
    with measured.step("A: one file changed: fetch, index, publish") as moved:
        moved.append(_published(homes["a"], stores, origin))
    with measured.step("B: fetch that") as moved:
        moved.append(_shared(homes["b"], stores).shelf.fetch(key).downloaded_bytes)
    with measured.step("B: open it"):
        _opened(homes["b"], stores, origin)
    _changed(origin, _OTHER)
    with measured.step("B: another file changed: fetch, index, publish") as moved:
        moved.append(_published(homes["b"], stores, origin))


def _engine(home: Path, stores: str) -> Engine:
    return Engine(Settings(home=home, stores=stores))


def _shared(home: Path, stores: str) -> SharedStores:
    shared = _engine(home, stores).shared
    assert shared is not None
    return shared


def _opened(home: Path, stores: str, origin: Path) -> Repository:
    return _engine(home, stores).repository(locate(f"file://{origin}"))


def _taken(home: Path, stores: str, origin: Path) -> None:
    """Do what a server does when it starts with a listed URL that is published."""
    found = take(_engine(home, stores), locate(f"file://{origin}"), is_checked=True)
    assert found is not None and found[1]


def _published(home: Path, stores: str, origin: Path) -> int:
    engine = _engine(home, stores)
    return engine.publish(engine.repository(locate(f"file://{origin}"))).uploaded_bytes


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _changed(origin: Path, path: str) -> None:
    with (origin / path).open("a", encoding="utf-8") as file:
        file.write("\n\ndef appended_by_the_benchmark():\n    return 1\n")
    _commit(origin)


def _commit(origin: Path) -> None:
    _git(origin, "add", "--all", "--force")
    _git(origin, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "-m", "x")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
