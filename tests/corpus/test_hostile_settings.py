"""A repository's own settings name programs: none of them is run, and nothing is fetched for it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import git

from rag.corpus import last_changes, line_history, named_history
from rag.corpus.acquire import acquire, resolve
from rag.corpus.git import GitError, _end, _started, run_git
from rag.corpus.history import (
    commit_time,
    differing,
    files_at,
    first_parents,
    is_ancestor,
    named_commit,
    present,
    read_blobs,
)
from rag.corpus.lineage import Lineage
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.processes import share_of_memory
from rag.service import Engine
from rag.service.checks.review import ReviewRange, review
from rag.settings import Settings
from rag.types import Filters


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--template=")
    for number in range(3):
        (folder / "a.py").write_text(f"print({number})\n")
        (folder / "b.md").write_text(f"Text {number}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"Change {number}")
    return folder


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The program that settings name: it writes down that it was run, and by whom."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/ran"\ncat\n')
    program.chmod(0o755)
    return program


def touched(folder: Path) -> None:
    """Other times than git knows: it has to look into the files."""
    for path in folder.iterdir():
        os.utime(path, (1, 1))


def looked_at(folder: Path, home: Path) -> None:
    """All that is done with a folder that somebody has."""
    source = resolve(str(folder))
    head = git(folder, "rev-parse", "HEAD")
    before = git(folder, "rev-parse", "HEAD~2")
    touched(folder)
    checkout = acquire(source, home=home)
    assert checkout.commit == head
    assert {"a.py", "b.md"} <= {entry.path for entry in walk(folder, Filters(), max_file_bytes=1000).files}
    for commit in (head, before):
        touched(folder)
        with suppress(GitError):  # where a blob is missing git needs it or not, as the clock will have it
            differing(folder, commit)
        present(checkout)
        listing = files_at(folder, commit)
        if listing is not None:
            read_blobs(folder, listing.files.values())
    with suppress(GitError):
        line_history.log_of_lines(folder, head, "a.py", 1, 1)
    line_history.blamed(folder, head, "a.py", 1, 1, timeout_s=9)
    line_history.history_of_lines(folder, head, "a.py", 1, 1)
    acquire(resolve(str(folder), "HEAD"), home=home)
    acquire(resolve(f"file://{folder}"), home=home)
    touched(folder)
    named_history.line_commits(folder, "a.py", {1})
    named_history.files_with(folder, {"print"})
    with suppress(SourceError):  # where a blob is missing
        named_history.files_once_with(folder, {"print"}, [before])
    named_history.versions(folder, head, {"a.py"})
    Lineage(folder, head).since(before, {"a.py": "", "b.md": ""})
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        for compared in ("HEAD~2..HEAD", "HEAD~2...HEAD", "HEAD~2", None):
            found = review(engine, source, ReviewRange.parse(compared))
            assert found.counts.files or compared is None


@pytest.mark.parametrize("commit", ["a\0b", "\ud800", "x" * 200_000, "-h", "", "HEAD@{1000000}"])
def test_a_commit_that_others_have_written_down_is_no_commit(commit, repository):
    head = named_commit(repository, "HEAD")
    assert named_commit(repository, commit) is None
    assert not is_ancestor(repository, commit, of=head) and not is_ancestor(repository, head, of=commit)
    assert files_at(repository, commit) is None
    with pytest.raises(GitError):
        commit_time(repository, commit)


def test_filters_hooks_and_monitors_are_not_run(repository, ran, tmp_path):
    (repository / ".gitattributes").write_text("*.py filter=one diff=one\n*.md filter=x.Y\\ z diff=one\n")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        (hooks / name).symlink_to(ran)
    for key in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "core.pager",
        "core.editor",
        "core.gitProxy",
        "credential.helper",
        "diff.external",
        "diff.one.command",
        "diff.one.textconv",
        "filter.one.process",
        "filter.x.Y z.clean",
        "filter.x.Y z.smudge",
        "uploadpack.packObjectsHook",
        "alias.status",
        "alias.log",
    ):
        git(repository, "config", key, f"{ran} {key}")
    git(repository, "config", "filter.one.required", "true")
    git(repository, "config", "core.hooksPath", str(hooks))
    looked_at(repository, tmp_path / "home")
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_filters_of_included_settings_are_not_run(repository, ran, tmp_path):
    (repository / ".gitattributes").write_text("* filter=one\n")
    (repository / "more").write_text(f'[filter "one"]\n\tclean = {ran} one\n')
    git(repository, "config", "include.path", "../more")
    looked_at(repository, tmp_path / "home")
    assert not (tmp_path / "ran").exists()


def test_signatures_are_not_checked_by_the_program_of_the_repository(repository, ran, tmp_path):
    text = git(repository, "cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    written = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=repository,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    git(repository, "reset", "--quiet", "--soft", written.stdout.strip())
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", str(ran))
    looked_at(repository, tmp_path / "home")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("url", ["{0}", "file://{0}", "ssh://nowhere.invalid/x"])
def test_what_a_partial_clone_lacks_is_not_fetched(url, repository, ran, tmp_path, monkeypatch):
    for lacking in ("HEAD~2:a.py", "HEAD~1^{tree}"):
        blob = git(repository, "rev-parse", lacking)
        (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": url.format(tmp_path / "origin"),
        "remote.origin.uploadpack": f"{ran} upload",
    }.items():
        git(repository, "config", key, value)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{ran} ssh")
    with suppress(SourceError):
        looked_at(repository, tmp_path / "home")
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def read_from(folder: Path) -> list[object]:
    """All that is read of history, as values that can be compared."""
    head, before = git(folder, "rev-parse", "HEAD"), git(folder, "rev-parse", "HEAD~2")
    (folder / "a.py").write_text("print(9)\n")
    touched(folder)
    line_history._history.cache_clear()
    last_changes._changes.cache_clear()
    files = files_at(folder, head)
    assert files
    return [
        files,
        read_blobs(folder, files.files.values()),
        differing(folder, head),
        first_parents(folder, 9),
        commit_time(folder, head),
        line_history.history_of_lines(folder, head, "a.py", 1, 1),
        line_history.blamed(folder, before, "b.md", 1, 1, timeout_s=9),
        last_changes.last_changes(folder, head, files.files),
        Lineage(folder, head).since(before, {"a.py": "", "b.md": ""}),
        Lineage(folder, head).ended(),
        named_history.line_commits(folder, "b.md", {1}),
        named_history.files_with(folder, {"print"}),
        named_history.files_once_with(folder, {"print"}, [before, head]),
        named_history.blobs_at(folder, [(before, "a.py")]),
        named_history.versions(folder, head, {"a.py"}),
        named_history.commit_days(folder, [before, head]),
        named_history.ignored(folder, ["a.py"]),
        [entry.path for entry in walk(folder, Filters(), max_file_bytes=1000).files],
        replace(acquire(resolve(str(folder)), home=folder / ".git" / "home"), remote=None),
    ]


@pytest.mark.parametrize(
    "setting",
    [
        *(f"{name}=/nowhere/at/all" for name in ("diff.orderFile", "mailmap.file", "blame.ignoreRevsFile")),
        "i18n.logOutputEncoding=UTF-16",
        "i18n.commitEncoding=UTF-16",
        "blame.blankBoundary=true",
        "blame.showEmail=true",
        *(f"grep.{name}=true" for name in ("column", "extendedRegexp", "fullName", "lineNumber")),
        "grep.patternType=fixed",
        "color.ui=always",
        "column.ui=always",
        "core.abbrev=4",
        "core.quotePath=true",
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.relative=true",
        "diff.renames=copies",
        "diff.context=9",
        "diff.interHunkContext=9",
        "diff.submodule=log",
        "diff.wordRegex=.",
        "format.pretty=raw",
        "log.abbrevCommit=true",
        "log.date=raw",
        "log.decorate=full",
        "log.diffMerges=off",
        "log.follow=true",
        "log.showRoot=false",
        "status.relativePaths=false",
        "status.showUntrackedFiles=no",
        "status.branch=true",
    ],
)
def test_a_setting_of_the_repository_does_not_change_what_is_read(setting, repository):
    expected = read_from(repository)
    git(repository, "config", *setting.split("=", 1))
    assert read_from(repository) == expected


@pytest.mark.parametrize(
    "date", ["99999999999999 +0000", "253402300800 +0000", "-5 +0000", "never", "", "1 +999999"]
)
@pytest.mark.parametrize("title", ["plain", "a\x01b\x01\x01", "\x1b[31m\u202e", "\x00", ""])
def test_whatever_a_commit_says_is_read(date, title, repository):
    (repository / "\x01\nM\n:1").write_text("x\n")
    git(repository, "add", "--all")
    tree, parent = git(repository, "write-tree"), git(repository, "rev-parse", "HEAD")
    text = f"tree {tree}\nparent {parent}\nauthor \x01 <\x02@x> {date}\ncommitter C <c@x> {date}\n\n{title}\n"
    written = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        cwd=repository,
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    head = written.stdout.decode().strip()
    git(repository, "update-ref", "HEAD", head)
    assert first_parents(repository, 9)[0][0] == head
    changed = files_at(repository, head).files.keys() - files_at(repository, parent).files.keys()
    assert changed == {"\x01\nM\n:1"}
    assert 1970 <= commit_time(repository, head).year <= 9999
    assert read_from(repository)


def bomb(repository: Path, levels: int) -> None:
    """Commit a tree of few objects that means ten to the power of `levels` files."""
    tree, entry = git(repository, "rev-parse", "HEAD:a.py"), "100644 blob"
    for _ in range(levels):
        listing = "".join(f"{entry} {tree}\t{number}.py\n" for number in range(10))
        written = subprocess.run(
            ["git", "mktree"], cwd=repository, input=listing, capture_output=True, text=True, check=True
        )
        tree, entry = written.stdout.strip(), "040000 tree"
    git(repository, "update-ref", "HEAD", git(repository, "commit-tree", tree, "-m", "bomb"))


@pytest.mark.parametrize("limit", ["_MAX_FILES", "_MAX_BYTES"])
def test_a_commit_that_is_too_large_is_not_checked_out(limit, repository, tmp_path, monkeypatch):
    bomb(repository, 3)
    source = resolve(f"file://{repository}")
    acquire(source, home=tmp_path / "fits")
    monkeypatch.setattr(f"rag.corpus.acquire.{limit}", 30)
    with pytest.raises(SourceError, match="clone it yourself"):
        acquire(source, home=tmp_path / "home")
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


def test_a_commit_that_cannot_be_checked_out_is_an_error_that_names_it(repository, tmp_path):
    blob = git(repository, "rev-parse", "HEAD:a.py")
    git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{'n' * 300}.py")
    git(repository, "commit", "--quiet", "--message", "long")
    with pytest.raises(SourceError, match="cannot check out"):
        acquire(resolve(f"file://{repository}"), home=tmp_path / "home")


def test_output_and_memory_of_git_are_limited(repository):
    with pytest.raises(SourceError, match="printed more than"):
        run_git(["cat-file", "--batch-all-objects", "--batch"], cwd=repository, max_bytes=100)
    process = _started(["cat-file", "--batch"], repository, dict(os.environ), reads=True)
    try:
        if sys.platform == "linux":
            assert resource.prlimit(process.pid, resource.RLIMIT_DATA)[0] == share_of_memory(0.25)
    finally:
        _end(process)


def test_blobs_that_are_too_large_are_left_out_and_the_others_are_read(repository, monkeypatch):
    (repository / "large").write_bytes(bytes(range(256)) * 40)
    git(repository, "add", "large")
    small, large = git(repository, "rev-parse", "HEAD:a.py", ":large").split()
    assert set(read_blobs(repository, [small, large])) == {small, large}
    monkeypatch.setattr("rag.corpus.history._MAX_BLOBS_BYTES", 5_000)
    assert read_blobs(repository, [small, large]) == {small: b"print(2)\n"}
