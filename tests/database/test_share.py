"""Work trees, clones and refs of one repository share the segments of their stores."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import git

from rag.corpus.acquire import acquire, resolve
from rag.database import share
from rag.database.locate import disk_bytes, remove, store_path, stores
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.types import Filters, IndexReport
from tests.contracts.hashing_embedder import HashingEmbedder


class CountingEmbedder(HashingEmbedder):
    def __init__(self, dim: int = 32) -> None:
        super().__init__(dim)
        self.embedded: list[str] = []

    def embed(self, texts, *, role):
        self.embedded += texts
        return super().embed(texts, role=role)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def second(sample_repo: Path, tmp_path: Path) -> Path:
    """A second work tree of the sample repository, at the same commit."""
    folder = tmp_path / "second"
    git(sample_repo, "worktree", "add", "--quiet", "-b", "other", str(folder))
    return folder


def indexed(
    folder: Path, home: Path, embedder: HashingEmbedder, *, filters: Filters | None = None, rebuild=False
) -> tuple[Store, IndexReport]:
    source = replace(resolve(str(folder)), filters=filters or Filters())
    checkout = acquire(source, home=home)
    path = store_path(home, source, embedder="e")
    return refresh(checkout, path, embedder, Options(), rebuild=rebuild)


def everything(store: Store) -> set[tuple[str, str, str, int, int, str, str, str]]:
    """All live chunks, as a reader sees them."""
    rows = range(len(store)) if store.dead is None else np.flatnonzero(~store.dead).tolist()
    hits = (store.hit(row, 0.0, {}) for row in rows)
    return {(h.repo, h.location, h.path, h.start, h.end, h.symbol, h.blob, h.text) for h in hits}


def anew(folder: Path, home: Path) -> set[tuple[str, str, str, int, int, str, str, str]]:
    """The chunks of a store that shares nothing."""
    return everything(indexed(folder, home / "anew", HashingEmbedder(32))[0])


def linked(one: Store, other: Store) -> bool:
    inodes = [{file.stat().st_ino for file in store.segment_files} for store in (one, other)]
    return bool(inodes[0] & inodes[1])


def test_a_second_work_tree_shares_the_segments(sample_repo, second, tmp_path, embedder):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    embedder.embedded.clear()
    store, report = indexed(second, tmp_path, embedder)
    assert linked(first, store) and not embedder.embedded
    assert (report.action, report.changed, report.files) == ("built", 0, first.file_count)
    assert everything(store) == anew(second, tmp_path)
    assert indexed(second, tmp_path, embedder)[1].action == "fresh"
    assert not list(store.path.parent.glob(".*.tmp"))


def test_only_what_differs_is_read(sample_repo, second, tmp_path, embedder):
    indexed(sample_repo, tmp_path, embedder)
    embedder.embedded.clear()
    changed = next(iter(sorted(second.rglob("*.py"))))
    changed.write_text(changed.read_text() + "\n\ndef added_in_second():\n    return 2\n")
    (second / "new.py").write_text("def only_in_second():\n    return 1\n")
    removed = sorted(second.rglob("*.md"))[0]
    removed.unlink()
    store, report = indexed(second, tmp_path, embedder)
    assert (report.changed, report.removed) == (2, 1)
    assert 0 < len(embedder.embedded) < 20
    assert everything(store) == anew(second, tmp_path)


def test_bytes_decide_where_size_and_time_are_equal(sample_repo, second, tmp_path, embedder):
    long_ago = (1_000_000_000, 1_000_000_000)
    for folder in (sample_repo, second):
        (folder / "same.py").write_text(f"def in_{folder.name[0]}():\n    return 1\n")
        os.utime(folder / "same.py", long_ago)
    indexed(sample_repo, tmp_path, embedder)
    store, _ = indexed(second, tmp_path, embedder)
    assert everything(store) == anew(second, tmp_path)


def test_each_store_outlives_the_other(sample_repo, second, tmp_path, embedder):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    store, _ = indexed(second, tmp_path, embedder)
    whole = everything(store)
    assert disk_bytes(first.path) == first.path.stat().st_size // 2
    rebuilt, _ = indexed(sample_repo, tmp_path, embedder, rebuild=True)
    assert not linked(rebuilt, store)
    assert everything(Store.open(store.path).at(acquire(resolve(str(second)), home=tmp_path))) == whole
    remove(rebuilt.path)
    assert everything(indexed(second, tmp_path, embedder)[0]) == whole


def test_a_list_of_stores_names_the_source_of_each(sample_repo, second, tmp_path, embedder):
    indexed(sample_repo, tmp_path, embedder)
    indexed(second, tmp_path, embedder)
    found = {header["location"] for _, header in stores(tmp_path) if not isinstance(header, Exception)}
    assert found == {str(sample_repo), str(second)}


def test_filters_may_differ(sample_repo, second, tmp_path, embedder):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    few = Filters(exclude=("*.toml",))
    store, _ = indexed(second, tmp_path, embedder, filters=few)
    assert linked(first, store)
    assert not [hit for hit in everything(store) if hit[2].endswith(".toml")]


@pytest.fixture
def others(sample_repo: Path, tmp_path: Path) -> Iterator[tuple[Path, HashingEmbedder]]:
    """What shares nothing: another repository with the same files, and another embedder."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in git(sample_repo, "ls-files").splitlines():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        (copy / file).write_bytes((sample_repo / file).read_bytes())
    git(copy, "init", "--quiet")
    return iter([(copy, HashingEmbedder(32)), (sample_repo, HashingEmbedder(16))])


def test_strangers_share_nothing(sample_repo, others, tmp_path, embedder):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    before = first.path.stat().st_ino
    for folder, other in others:
        assert indexed(folder, tmp_path, other)[0].path.stat().st_ino != before


def test_without_hard_links_the_store_is_built(sample_repo, second, tmp_path, embedder, monkeypatch):
    def refused(*paths: object) -> None:
        raise OSError("Operation not supported")

    indexed(sample_repo, tmp_path, embedder)
    embedder.embedded.clear()
    monkeypatch.setattr(share.os, "link", refused)
    store, _ = indexed(second, tmp_path, embedder)
    assert embedder.embedded and len(store.segments) == 1
    assert not list(store.path.parent.glob(".*.tmp"))


def test_a_store_replaced_meanwhile_is_not_taken(sample_repo, second, tmp_path, embedder, monkeypatch):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    real = os.link

    def late(source: Path, target: Path) -> None:
        indexed(sample_repo, tmp_path, HashingEmbedder(32), rebuild=True)
        real(source, target)

    monkeypatch.setattr(share.os, "link", late)
    store, _ = indexed(second, tmp_path, embedder)
    assert len(store.segments) == 1 and not linked(first, store)
    assert everything(store) == anew(second, tmp_path)


def test_a_branch_left_and_taken_again_is_read_once(sample_repo, tmp_path, embedder):
    git(sample_repo, "branch", "--force", "here")
    store, _ = indexed(sample_repo, tmp_path, embedder)
    whole = everything(store)
    git(sample_repo, "checkout", "--quiet", "-b", "there")
    changed = sorted(sample_repo.rglob("*.py"))[0]
    changed.write_text("def of_the_branch():\n    return 3\n")
    git(sample_repo, "rm", "--quiet", str(sorted(sample_repo.rglob("*.md"))[0]))
    git(sample_repo, "commit", "--quiet", "-a", "-m", "there")
    assert everything(indexed(sample_repo, tmp_path, embedder)[0]) != whole
    embedder.embedded.clear()
    git(sample_repo, "checkout", "--quiet", "here")
    back, _ = indexed(sample_repo, tmp_path, embedder)
    assert everything(back) == whole
    assert not embedder.embedded and not back.dead_files.any() and back.segments[-1].chunk_count == 0


def test_the_newest_segment_of_the_other_store_is_taken_too(sample_repo, second, tmp_path, embedder):
    indexed(sample_repo, tmp_path, embedder)
    for folder in (sample_repo, second):
        (folder / "both.py").write_text("def in_both_work_trees():\n    return 1\n")
    (sample_repo / "one.py").write_text("def in_one_work_tree():\n    return 1\n")
    first, _ = indexed(sample_repo, tmp_path, embedder)
    assert len(first.segments) == 2
    embedder.embedded.clear()
    store, _ = indexed(second, tmp_path, embedder)
    assert not embedder.embedded
    assert everything(store) == anew(second, tmp_path)


def test_a_far_branch_is_taken_from_the_work_tree_that_has_it(sample_repo, second, tmp_path, embedder):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    for file in sorted(second.rglob("*.py")):
        file.write_text(f"def rewritten_{file.stem}():\n    return 1\n")
    git(second, "commit", "--quiet", "-a", "-m", "far")
    far, _ = indexed(second, tmp_path, embedder)
    assert not linked(first, far)
    embedder.embedded.clear()
    git(sample_repo, "checkout", "--quiet", "--detach", "other")
    store, report = indexed(sample_repo, tmp_path, embedder)
    assert linked(far, store) and not embedder.embedded
    assert report.action == "updated" and everything(store) == anew(sample_repo, tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_store_is_not_shared(sample_repo, second, tmp_path, embedder, seed):
    first, _ = indexed(sample_repo, tmp_path, embedder)
    content = bytearray(first.path.read_bytes())
    rng = random.Random(seed)
    for _ in range(200):
        content[rng.randrange(len(content) // 50, len(content))] ^= 1 + rng.randrange(255)
    first.path.write_bytes(content)
    store, _ = indexed(second, tmp_path, embedder)
    assert not linked(first, store)
    assert everything(store) == anew(second, tmp_path)
