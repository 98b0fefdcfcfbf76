"""A watched folder, with real files and real events; nothing here waits for a time to pass."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import command, rag
from conftest import git

from rag.errors import BackendMissing, SettingsError, SourceNotFound
from rag.service import Engine, locate
from rag.service.repositories import watch as watch_module
from rag.service.repositories.watch import Update, updates
from rag.settings import Settings
from rag.types import Filters

TIMEOUT_S = 60


@contextmanager
def watching(root: Path, filters: Filters | None = None) -> Iterator[queue.Queue]:
    """The updates of a folder, after the first indexing, and at last what ended them."""
    found: queue.Queue = queue.Queue()
    stop = threading.Event()
    engine = Engine(Settings())

    def follow() -> None:
        try:
            for update in updates(engine, locate(str(root), None, filters), stop=stop):
                found.put(update)
        except SourceNotFound as error:
            found.put(error)
        found.put(None)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        assert found.get(timeout=TIMEOUT_S).report.action == "built"
        yield found
    finally:
        stop.set()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def what(update: Update) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    return update.added, update.changed, update.removed


def test_each_change_is_one_update_that_names_it(sample_repo: Path) -> None:
    with watching(sample_repo) as found:
        (sample_repo / "snip" / "fresh.py").write_text("def borrowed_umbrella():\n    return 1\n")
        assert what(found.get(timeout=TIMEOUT_S)) == (("snip/fresh.py",), (), ())
        (sample_repo / "snip" / "fresh.py").write_text("def borrowed_umbrella():\n    return 2\n")
        assert what(found.get(timeout=TIMEOUT_S)) == ((), ("snip/fresh.py",), ())
        (sample_repo / "snip" / "fresh.py").unlink()
        assert what(found.get(timeout=TIMEOUT_S)) == ((), (), ("snip/fresh.py",))
        folder = sample_repo / "worker"
        files = tuple(sorted(f"worker/{f.relative_to(folder)}" for f in folder.rglob("*") if f.is_file()))
        shutil.rmtree(folder)
        removed: tuple[str, ...] = ()
        while len(removed) < len(files):
            removed += found.get(timeout=TIMEOUT_S).removed
        assert tuple(sorted(removed)) == files


def test_a_branch_switch_of_a_thousand_files_is_one_update(sample_repo: Path) -> None:
    git(sample_repo, "switch", "--quiet", "--create", "many")
    for number in range(1000):
        file = sample_repo / "many" / f"d{number % 10}" / f"m{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def made_{number}():\n    return {number}\n")
    git(sample_repo, "add", "--all")
    git(sample_repo, "commit", "--quiet", "--message", "Many")
    git(sample_repo, "switch", "--quiet", "main")
    with watching(sample_repo) as found:
        git(sample_repo, "switch", "--quiet", "many")
        assert len(found.get(timeout=TIMEOUT_S).added) == 1000
        git(sample_repo, "switch", "--quiet", "main")
        assert len(found.get(timeout=TIMEOUT_S).removed) == 1000


def test_an_update_that_fails_is_told_and_watching_goes_on(sample_repo: Path) -> None:
    with watching(sample_repo) as found:
        (sample_repo / ".ragignore").write_text("!\n")
        update = found.get(timeout=TIMEOUT_S)
        assert update.error and ".ragignore" in str(update.error)
        (sample_repo / ".ragignore").write_text("docs/\n")
        update = found.get(timeout=TIMEOUT_S)
        assert update.error is None
        assert update.removed
        assert all(path.startswith("docs/") for path in update.removed)


def test_watching_ends_with_its_folder(sample_repo: Path) -> None:
    with watching(sample_repo) as found:
        sample_repo.rename(sample_repo.with_name("elsewhere"))
        while isinstance(last := found.get(timeout=TIMEOUT_S), Update):
            pass
        assert isinstance(last, SourceNotFound)


def test_changes_that_no_walk_would_list_do_no_work(
    sample_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sample_repo / ".gitignore").write_text("build/\n*.scratch.py\n")
    (sample_repo / "snip" / ".gitignore").write_text("!kept.scratch.py\n")
    (sample_repo / ".ragignore").write_text("private/\n")
    ignored = ["node_modules/a/b.js", ".git/index", "build/x/y.py", "a.scratch.py", "x.pyc", "photo.png"]
    ignored += ["private/x.py", "snip/excluded.py", ".env", "snip/__pycache__/x.py"]
    asked = []

    class Counting(Engine):
        def repository(self, *arguments, **options):
            asked.append(len(asked))
            return super().repository(*arguments, **options)

    script = [set(), {"nothing.pyc"}, set(ignored), {"snip/kept.scratch.py"}, {"photo.png", "new.py"}]
    monkeypatch.setattr(watch_module, "_events", lambda root, stop: iter(script))
    (sample_repo / "snip" / "kept.scratch.py").write_text("kept = 1\n")
    source = locate(str(sample_repo), None, Filters(exclude=("excluded.py",)))
    assert len(list(updates(Counting(Settings()), source))) == 1  # the first indexing saw everything
    assert len(asked) == 3  # that, and a look for each of the last two batches


def test_what_cannot_be_watched_says_why(sample_repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="omit --ref"):
        next(updates(Engine(Settings()), locate(str(sample_repo), "main")))
    with pytest.raises(SettingsError, match=r"name a folder$"):
        next(updates(Engine(Settings()), locate("https://example.org/team/app.git")))
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(BackendMissing, match=r"pip install '\.\[watch\]'"):
        next(updates(Engine(Settings()), locate(str(sample_repo))))
    stopped = threading.Event()
    stopped.set()
    monkeypatch.undo()
    assert list(updates(Engine(Settings()), locate(str(sample_repo)), stop=stopped)) == []


def test_the_command_tells_each_update_and_ends_with_ctrl_c(sample_repo: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("index", sample_repo, "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr and process.stdout
    lines: queue.Queue = queue.Queue()
    reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stderr])  # type: ignore[union-attr]
    reader.start()
    try:
        while not (line := lines.get(timeout=TIMEOUT_S)).startswith("rag: watching "):
            pass
        (sample_repo / "snip" / "umbrella.py").write_text("def borrowed_umbrella():\n    return 1\n")
        line = lines.get(timeout=TIMEOUT_S)
        assert line.startswith("rag: 1 added (snip/umbrella.py); ")
        assert line.endswith(" ms\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    finally:
        process.kill()
        process.wait()
        reader.join()
        rest = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
    assert rest.startswith("what\thow many")
    assert not list((tmp_path / "rag-home").rglob("*.tmp"))
    found = rag("search", sample_repo, "borrowed umbrella", "--no-refresh", "--json")
    assert "snip/umbrella.py" in found.out
    assert "differ" not in found.err
