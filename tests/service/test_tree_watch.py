"""The kernel tells of every change that a comparison would find, and of nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from rag.service.repositories.tree_watch import TreeWatch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel has no inotify")


def git(root, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "above" / "repo"
    (folder / "pkg" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "ignored" / "deep").mkdir(parents=True)
    (folder / "ignored" / "deep" / "out.py").write_text("x = 1\n")
    (folder / "node_modules").mkdir()
    (folder / ".gitignore").write_text("ignored/\n")
    (folder / "a.py").write_text("a = 1\n")
    (folder / "pkg" / "deep" / "b.py").write_text("b = 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "branch", "other")
    return folder


@pytest.fixture
def watch():
    made = TreeWatch()
    yield made
    made.close()


def replace_whole(root):
    root.parent.rename(root.parent.with_name("elsewhere"))
    shutil.copytree(root.parent.with_name("elsewhere") / "repo", root)


CHANGES = {
    "written in place": lambda root: (root / "a.py").write_text("a = 2\n"),
    "written and renamed": lambda root: (
        (root / "a.py").with_suffix(".tmp").rename(root / "a.py")
        if (root / "a.py").with_suffix(".tmp").write_text("a = 3\n")
        else None
    ),
    "same bytes, another time": lambda root: os.utime(root / "a.py", (1, 1)),
    "deep": lambda root: (root / "pkg" / "deep" / "b.py").write_text("b = 2\n"),
    "new file": lambda root: (root / "pkg" / "new.py").write_text("n = 1\n"),
    "in an empty folder": lambda root: (root / "empty" / "c.py").write_text("c = 1\n"),
    "new folder": lambda root: (root / "fresh" / "deep").mkdir(parents=True),
    "removed": lambda root: (root / "a.py").unlink(),
    "folder removed": lambda root: shutil.rmtree(root / "pkg"),
    "folder renamed": lambda root: (root / "pkg").rename(root / "package"),
    "ignored no more": lambda root: (root / ".gitignore").write_text("other/\n"),
    "excluded": lambda root: (root / ".git" / "info" / "exclude").write_text("a.py\n"),
    "committed": lambda root: git(root, "commit", "-q", "--allow-empty", "-m", "second"),
    "another branch": lambda root: git(root, "checkout", "-q", "other"),
    "rights": lambda root: (root / "a.py").chmod(0o600),
    "another folder in its place": replace_whole,
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_told_at_once(root, watch, change):
    state = watch.begin(root)
    assert state is not None
    assert watch.is_unchanged(root, state)
    CHANGES[change](root)
    assert not watch.is_unchanged(root, state)


def test_what_is_done_in_folders_that_came_later_is_told(root, watch):
    watch.begin(root)
    (root / "fresh" / "deep").mkdir(parents=True)
    state = watch.begin(root)
    assert watch.is_unchanged(root, state)
    (root / "fresh" / "deep" / "d.py").write_text("d = 1\n")
    assert not watch.is_unchanged(root, state)


def test_a_state_that_was_seen_before_a_change_is_not_the_one_after_it(root, watch):
    first = watch.begin(root)
    (root / "a.py").write_text("a = 2\n")
    second = watch.begin(root)
    assert watch.is_unchanged(root, second)
    assert not watch.is_unchanged(root, first)


def test_reading_and_ignored_folders_change_nothing(root, watch):
    state = watch.begin(root)
    (root / "a.py").read_text()
    git(root, "--no-optional-locks", "status")
    (root / "ignored" / "deep" / "out.py").write_text("x = 2\n")
    (root / "node_modules" / "index.js").write_text("x\n")
    assert watch.is_unchanged(root, state)


def test_folders_beyond_the_budget_are_not_watched_and_those_asked_last_are(root, watch, tmp_path):
    state = watch.begin(root)
    watch._max_watches = len(watch._owners) + 2
    second = tmp_path / "second"
    second.mkdir()
    later = watch.begin(second)
    assert watch.is_unchanged(second, later)
    assert watch.is_unchanged(root, state)
    third = tmp_path / "third"
    (third / "x" / "y").mkdir(parents=True)
    assert watch.begin(third) is not None
    assert not watch.is_unchanged(root, state), "the folder asked least recently makes room"
    watch._max_watches = 2
    assert watch.begin(third / "x") is not None
    assert watch.begin(third) is None


def test_a_folder_that_is_not_there_is_not_watched(watch, tmp_path):
    assert watch.begin(tmp_path / "gone") is None
    assert not watch.is_unchanged(tmp_path / "gone", 1)
