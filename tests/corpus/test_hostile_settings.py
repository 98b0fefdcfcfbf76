"""A repository's own settings name programs: none of them is run, and nothing is fetched for it."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from conftest import git

from rag.corpus import line_history
from rag.corpus.acquire import acquire, resolve
from rag.corpus.git import GitError
from rag.corpus.history import differing, files_at, present, read_blobs
from rag.corpus.lineage import Lineage
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.service import Engine
from rag.service.commit_history import commits
from rag.service.review import ReviewRange, review
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
    list(commits(folder, limit=9))
    with suppress(GitError):
        line_history.log_of_lines(folder, head, "a.py", 1, 1)
    line_history.blamed(folder, head, "a.py", 1, 1, timeout_s=9)
    line_history.history_of_lines(folder, head, "a.py", 1, 1)
    acquire(resolve(str(folder), "HEAD"), home=home)
    acquire(resolve(f"file://{folder}"), home=home)
    touched(folder)
    assert Lineage(folder, head).since(before, {"a.py": "", "b.md": ""}) is not None
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        for compared in ("HEAD~2..HEAD", "HEAD~2...HEAD", "HEAD~2", None):
            found = review(engine, source, ReviewRange.parse(compared))
            assert found.counts.files or compared is None


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
    assert len(list(commits(repository, limit=9))) == 2
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
    with pytest.raises(SourceError, match="cannot read the git history of"):
        looked_at(repository, tmp_path / "home")
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
