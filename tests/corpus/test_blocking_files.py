"""A pipe or a device where git reads a file: git would wait for it without end."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from command import rag
from conftest import git

from rag.corpus import git as git_module
from rag.corpus.acquire import acquire, resolve
from rag.corpus.blocking_files import blocking_file
from rag.corpus.git import run_git
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.types import Filters

IN_WORK_TREE = [".gitignore", ".gitattributes", "inner/.gitignore", ".mailmap"]
IN_REPOSITORY = [
    f".git/{name}"
    for name in (
        "config HEAD index packed-refs commondir shallow info/exclude info/attributes info/grafts"
        " refs/heads/main objects/info/alternates objects/info/commit-graph"
    ).split()
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(git_module, "_SILENCE_S", 0.2)
    folder = tmp_path / "repository"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    (folder / "a.py").write_text("print(1)\n")
    (folder / "inner/b.py").write_text("print(2)\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Print")
    (folder / "a.py").write_text("print(3)\n")
    return folder


def read(folder: Path, home: Path) -> None:
    """Ask git all that is asked when a folder is searched and its history shown."""
    acquire(resolve(str(folder)), home=home)
    walk(folder, Filters(), max_file_bytes=1000)
    run_git(["blame", "-p", "a.py"], cwd=folder)


def place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("name", IN_WORK_TREE + IN_REPOSITORY)
def test_a_pipe_is_named_within_seconds(repository, tmp_path, name):
    os.mkfifo(place(repository / name))
    started = time.monotonic()
    with pytest.raises(SourceError, match=rf"waits for \S*{name}, which is a pipe or a device"):
        read(repository, tmp_path / "home")
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "text",
    [
        "[include]\n\tpath = {0}\n",
        '[include] path = "{0}"\n',
        "[include]\n\tpath = ../../pipe\n",
        "[include]\n\tpath = ~/../pipe\n",
        '[includeIf "gitdir:**"]\n\tPath={0}\n',
        "[core]\n\texcludesFile = {0}\n",
        "[core]\n\texcludesFile = ../pipe\n",
        "[core]\n\tattributesFile = {0}\n",
        "[core]\n\tworktree = ..\n\texcludesFile = {0}\n",
    ],
)
@pytest.mark.parametrize("including", ["config", "inner/more"])
def test_a_pipe_that_a_setting_names_is_named(text, including, repository, tmp_path):
    if "../../pipe" in text and including != "config":
        text = text.replace("../../pipe", "../../../pipe")
    os.mkfifo(tmp_path / "pipe")
    file = repository / ".git" / including
    file.parent.mkdir(exist_ok=True)
    if including != "config":
        with (repository / ".git/config").open("a") as config:
            config.write(f"[include]\n\tpath = {including}\n")
    with file.open("a") as settings:
        settings.write(text.format(tmp_path / "pipe"))
    with pytest.raises(SourceError, match=r"waits for \S*pipe, which is a pipe or a device"):
        read(repository, tmp_path / "home")


@pytest.mark.parametrize("name", ["pack/pack-1.idx", "pack/multi-pack-index", "info/alternates"])
@pytest.mark.parametrize("is_far", [False, True])
def test_a_pipe_in_a_store_that_the_repository_borrows_objects_from_is_named(
    name, is_far, repository, tmp_path
):
    own = repository / ".git/objects"
    near, far = tmp_path / "near", tmp_path / "far"
    place(own / "info/alternates").write_text(f"# of another\n{near}\n")
    place(near / "info/alternates").write_text("../far\n../near\n/no/such/store\n")
    store = far if is_far else near
    os.mkfifo(place(store / name))
    assert blocking_file(repository / "inner").resolve() == store / name


def test_git_is_stopped_at_a_pipe_in_a_store_that_it_borrows_from(repository, tmp_path):
    store = tmp_path / "store"
    os.mkfifo(place(store / "info/alternates"))
    place(repository / ".git/objects/info/alternates").write_text(f"{store}\n")
    began = time.monotonic()
    with pytest.raises(SourceError, match="store/info/alternates, which is a pipe"):
        run_git(["status"], cwd=repository)
    assert time.monotonic() - began < 30


def test_a_device_without_end_of_which_git_complains_without_end_is_named(repository, tmp_path):
    git(repository, "config", "core.attributesFile", "/dev/urandom")
    started = time.monotonic()
    with pytest.raises(SourceError, match=r"waits for /dev/urandom, which is a pipe or a device"):
        read(repository, tmp_path / "home")
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "name",
    [".git/info/exclude", ".git/commondir", ".git/refs/heads/other", ".git/config", ".gitignore", "named"],
)
def test_a_huge_file_that_git_reads_whole_is_found(name, repository, tmp_path):
    if name == "named":
        git(repository, "config", "core.excludesFile", str(repository / name))
        git(repository, "config", "remote.origin.url", str(repository / "bundle"))
        (repository / "bundle").touch()
        os.truncate(repository / "bundle", 1 << 30)
    assert blocking_file(repository) is None
    path = repository / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, (64 << 20) + 1)
    assert blocking_file(repository) == path


def test_git_is_stopped_at_a_huge_file(repository, tmp_path):
    exclude = place(repository / ".git/info/exclude")
    exclude.touch()
    os.truncate(exclude, 4 << 30)
    with pytest.raises(SourceError, match=r"info/exclude, which is larger than 64 MB"):
        run_git(["status"], cwd=repository)


def test_settings_that_name_the_null_device_or_no_path_are_not_named(repository, tmp_path):
    with (repository / ".git/config").open("ab") as config:
        config.write(b"[core]\n\texcludesFile = /dev/null\n[user]\n\tname = a\0b\xff\n")
    assert blocking_file(repository) is None


@pytest.mark.parametrize("name", ["info/attributes", "objects/info/alternates", "info/grafts", "commondir"])
def test_a_link_to_a_device_is_named(repository, tmp_path, name):
    place(repository / ".git" / name).symlink_to("/dev/zero")
    with pytest.raises(SourceError, match=rf"{name}, which is a pipe or a device|memory"):
        read(repository, tmp_path / "home")


@pytest.mark.parametrize("name", IN_WORK_TREE)
def test_links_folders_and_sockets_there_stop_nothing(repository, tmp_path, name, monkeypatch):
    path = place(repository / name)
    path.symlink_to("/dev/zero")
    read(repository, tmp_path / "home")
    place(path).symlink_to(path.name)
    read(repository, tmp_path / "home")
    place(path).mkdir()
    read(repository, tmp_path / "home")
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(path.parent)  # a path of a socket must be short
        sock.bind(path.name)
        read(repository, tmp_path / "home")


def test_the_command_says_what_to_remove(repository):
    os.mkfifo(repository / ".gitignore")
    ran = rag("search", repository, "print")
    assert ran.code == 2 and ".gitignore, which is a pipe" in ran.err.replace("\n", "")


def test_a_pipe_in_a_linked_work_tree_a_bare_repository_and_a_folder_below(repository, tmp_path):
    git(repository, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    os.mkfifo(place(repository / ".git/info/exclude"))
    with pytest.raises(SourceError, match="info/exclude, which is a pipe"):
        read(tmp_path / "linked", tmp_path / "home")
    assert blocking_file(repository / "inner") == repository / ".git/info/exclude"
    (repository / ".git/info/exclude").unlink()
    os.mkfifo(tmp_path / "linked/.gitignore")
    assert blocking_file(tmp_path / "linked") == tmp_path / "linked/.gitignore"
    git(tmp_path, "clone", "--quiet", "--bare", f"file://{repository}", "bare")
    os.mkfifo(place(tmp_path / "bare/packed-refs"))
    with pytest.raises(SourceError, match="packed-refs, which is a pipe"):
        acquire(resolve(str(tmp_path / "bare")), home=tmp_path / "home")


def test_a_slow_git_without_such_a_file_goes_on(repository, tmp_path, monkeypatch):
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nread line < pipe\necho done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    os.mkfifo(repository / "pipe")  # not a file of git's
    looked = []

    def look(folder: Path) -> None:
        looked.append(folder)
        with (repository / "pipe").open("w") as pipe:
            pipe.write("on\n")

    monkeypatch.setattr(git_module, "blocking_file", look)
    assert run_git(["version"], cwd=repository) == b"done\n"
    assert looked == [repository]
