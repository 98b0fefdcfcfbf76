"""The commit that last changed each file, found in one walk."""

from __future__ import annotations

import subprocess

from conftest import git

from rag.corpus.last_changes import last_changes


def commit(root, name: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", name)
    return git(root, "rev-parse", "HEAD")


def blobs(root) -> dict[str, str]:
    listing = subprocess.run(
        ["git", "ls-tree", "-r", "HEAD"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return {line.partition("\t")[2]: line.split()[2] for line in listing.splitlines()}


def test_each_file_has_the_commit_that_gave_it_its_content(tmp_path):
    root = tmp_path / "r"
    (root / "in").mkdir(parents=True)
    git(root, "init", "--quiet")
    (root / "a.txt").write_text("1\n")
    (root / "in/b c.txt").write_text("1\n")
    first = commit(root, "first")
    (root / "a.txt").write_text("2\n")
    second = commit(root, "second")
    last = commit(root, "nothing")
    found = last_changes(root, last, blobs(root))
    assert found == {"a.txt": second, "in/b c.txt": first}
    for path, blob in blobs(root).items():
        assert git(root, "rev-parse", f"{found[path]}:{path}") == blob


def test_what_a_merge_brings_is_changed_by_the_merge(tmp_path):
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "a.txt").write_text("1\n")
    first = commit(root, "first")
    git(root, "checkout", "--quiet", "-b", "side")
    (root / "b.txt").write_text("1\n")
    commit(root, "side")
    git(root, "checkout", "--quiet", "-")
    (root / "c.txt").write_text("1\n")
    third = commit(root, "third")
    git(root, "merge", "--quiet", "--no-ff", "--message", "merge", "side")
    merge = git(root, "rev-parse", "HEAD")
    assert last_changes(root, merge, blobs(root)) == {"a.txt": first, "b.txt": merge, "c.txt": third}


def test_a_folder_without_git_and_other_bytes_have_none(tmp_path):
    (tmp_path / "a.txt").write_text("1\n")
    assert last_changes(tmp_path, "0" * 40, {"a.txt": "0" * 40}) == {}
