"""A store of several segments answers as one that was built from the same files at once."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import git
from test_quantise import rewritten
from test_update import CountingEmbedder, everything

from rag.backends import open_vector_index, shorten_rows
from rag.backends.static_embedder import StaticEmbedder
from rag.corpus.acquire import acquire, resolve
from rag.database import build, compact, parts
from rag.database import format as store_format
from rag.database.compact import PartUse, to_merge, to_split
from rag.database.locate import remove, store_files, stores
from rag.database.quarantine import Quarantine
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.errors import StoreCorrupt, StoreUnwritable
from rag.retrieval.search import Searcher, search
from rag.types import IndexReport, blob_id
from tests.contracts.hashing_embedder import HashingEmbedder

Indexed = Callable[..., tuple[Store, IndexReport]]
WORDS = "token session link user store login parse file server cache index".split()


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def indexed(sample_repo: Path, tmp_path: Path, embedder: CountingEmbedder) -> Indexed:
    def run(name: str = "s", **how) -> tuple[Store, IndexReport]:
        checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
        return refresh(checkout, tmp_path / "stores" / f"{name}.pkl", embedder, Options(), **how)

    return run


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every newest segment becomes a part."""
    monkeypatch.setattr(compact, "SMALL", 1)


def edited(folder: Path, rng: random.Random) -> None:
    """Change, add, remove, rename and restore some files."""
    files = sorted(folder.rglob("*.py"))
    for file in rng.sample(files, min(len(files), 4)):
        what = rng.randrange(5)
        if what == 0:
            file.write_text(f"def f{rng.randrange(99)}():\n    return {rng.choice(WORDS)}\n")
        elif what == 1 and len(files) > 5:
            file.unlink()
        elif what == 2:
            file.rename(file.with_name(f"moved_{rng.randrange(10**6)}.py"))
        elif what == 3:
            name = f"new_{rng.randrange(10**6)}.py"
            (folder / name).write_text(f"class {rng.choice(WORDS).title()}:\n    '''New.'''\n" * 3)
        else:
            os.utime(file, (rng.randrange(10**9), 1_000_000_000))
    if rng.random() < 0.4:
        git(folder, "checkout", "--quiet", "HEAD", "--", ".")


def assert_equal(store: Store, fresh: Store, embedder: HashingEmbedder) -> None:
    """Both stores hold the same chunks, have the same statistics and rank alike."""
    assert everything(store) == everything(fresh)
    assert store.files() == fresh.files()
    assert {p: row[1:] for p, row in store.known_files().items()} == {
        p: row[1:] for p, row in fresh.known_files().items()
    }
    assert (store.live_count, store.file_count) == (fresh.live_count, fresh.file_count)
    assert store.mean_lengths == fresh.mean_lengths
    assert store.content_skips() == fresh.content_skips()
    vocabulary = [*WORDS, "def", "return", "nowhere"]
    np.testing.assert_array_equal(store.document_frequency(vocabulary), fresh.document_frequency(vocabulary))
    for term in vocabulary:
        found = [
            (sorted(zip(p.body.tolist(), p.head.tolist(), strict=True))) for p in postings(term, store, fresh)
        ]
        assert found[0] == found[1]
        assert len(store.defining(term)) == len(fresh.defining(term))
        assert store.holding(term) == fresh.holding(term)
    for path in fresh.files():
        assert store.file_text(path) == fresh.file_text(path)
        assert store.file_language(path) == fresh.file_language(path)
        assert store.code_graph(path) == fresh.code_graph(path)
        lines = [[s.lines(chunk) for chunk in s.chunks_of(path)] for s in (store, fresh)]
        assert lines[0] == lines[1]
    searchers = [Searcher(s, embedder, open_vector_index(s.vectors)) for s in (store, fresh)]
    for question in ("Where is a token checked?", "session store", "What parses a link?"):
        hits = [search([searcher], question, k=10).hits for searcher in searchers]
        scores = [np.asarray([hit.score for hit in found]) for found in hits]
        np.testing.assert_allclose(*scores, atol=1e-5)
        least = scores[0].min() + 1e-4  # of those with the lowest score any may be left out
        sure = [{(h.path, h.start) for h in found if h.score > least} for found in hits]
        assert sure[0] == sure[1]


def postings(term: str, *of: Store):
    return [store.postings(term) for store in of]


@pytest.mark.parametrize("small", [0, 1, 5, 4_000])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("least_split", [1, 400])
def test_updates_end_where_a_rebuild_ends(
    indexed, sample_repo, embedder, monkeypatch, seed, small, least_split
):
    monkeypatch.setattr(compact, "SMALL", max(small, 1))
    monkeypatch.setattr(compact, "_LEAST_SPLIT", least_split)
    if not small:  # nothing is merged: there are as many parts as updates
        monkeypatch.setattr(compact, "to_merge", lambda parts, newest: [])
    rng = random.Random(seed)
    store, _ = indexed()
    most = 0
    for step in range(9):
        edited(sample_repo, rng)
        store, _ = indexed()
        most = max(most, len(store.all_parts))
        store.verify()
        if least_split == 1 and store.dead is not None:
            assert store.dead.mean() < 1 / 4
        if step % 3 == 2:
            assert_equal(store, indexed("fresh", rebuild=True)[0], embedder)
    assert indexed()[1].action == "fresh"
    assert most > (5 if not small else 0)


def far_branches(folder: Path) -> None:
    """A branch `there` on which each Python file has other bytes, and `here`."""
    git(folder, "branch", "--force", "here")
    git(folder, "checkout", "--quiet", "-b", "there")
    for file in sorted(folder.rglob("*.py")):
        file.write_text(f"def there_{file.stem}():\n    return 'far'\n" * 3)
    git(folder, "commit", "--quiet", "-a", "-m", "there")
    git(folder, "checkout", "--quiet", "here")


def test_a_far_branch_left_and_taken_again_is_read_once(indexed, sample_repo, embedder, small_parts):
    far_branches(sample_repo)
    here, _ = indexed()
    whole = {"here": everything(here)}
    git(sample_repo, "checkout", "--quiet", "there")
    whole["there"] = everything(indexed()[0])
    for name in ("here", "there", "here"):
        git(sample_repo, "checkout", "--quiet", name)
        embedder.embedded.clear()
        store, report = indexed()
        assert report.action == "updated" and report.changed > 5
        assert not embedder.embedded and store.segments[-1].chunk_count == 0
        assert everything(store) == whole[name]
        assert_equal(store, indexed("fresh", rebuild=True)[0], embedder)


def test_a_file_is_reported_as_cut_by_lines_when_its_present_text_is(
    indexed, sample_repo, tmp_path, small_parts
):
    deep, text = sample_repo / "deep.py", "def deep():\n    return 1\n"
    Quarantine(tmp_path / "stores").add({(blob_id(text.encode()), "python"): "it took too long"})
    cut = []
    other = "def other():\n" + "    print('a line of a long function')\n" * 100
    for content in (text, other, text, other):
        deep.write_text(content)
        store, report = indexed()
        cut.append([skip.path for skip in report.skipped].count("deep.py"))
    assert cut == [1, 0, 1, 0]
    assert store.segments[-1].chunk_count == 0


def test_parts_do_not_grow_without_end(indexed, sample_repo, small_parts):
    file = sorted(sample_repo.rglob("*.py"))[0]
    for number in range(40):
        file.write_text(f"def number_{number}():\n    return {number}\n" * 3)
        store, _ = indexed()
        assert len(store.all_parts) <= 14
        on_disk = {f.name for f in store.path.parent.glob("*.part.pkl")}
        assert on_disk == {f.name for f in store.segment_files[1:]}


@pytest.fixture
def split_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "_LEAST_SPLIT", 1)


def rewritten_files(folder: Path) -> None:
    """A branch `there` on which a third of the Python files has other bytes."""
    git(folder, "branch", "--force", "here")
    git(folder, "checkout", "--quiet", "-b", "there")
    for file in sorted(folder.rglob("*.py"))[::3]:
        file.write_text(f"def there_{file.stem}():\n    return 'far'\n" * 3)
    git(folder, "commit", "--quiet", "-a", "-m", "there")


def test_what_is_dead_is_archived_and_taken_again(indexed, sample_repo, embedder, small_parts, split_early):
    here, _ = indexed()
    rewritten_files(sample_repo)
    there, _ = indexed()
    (archive,) = there.archived
    assert there.dead is None and archive.chunk_count == len(here) - there.parts[0].chunk_count
    assert_equal(there, indexed("fresh", rebuild=True)[0], embedder)
    for name, was in (("here", here), ("there", there)) * 2:
        git(sample_repo, "checkout", "--quiet", name)
        embedder.embedded.clear()
        store, _ = indexed()
        assert everything(store) == everything(was)
        assert not embedder.embedded and store.dead is None and len(store.archived) == 1
        assert {one.header["id"] for one in there.all_parts} <= {one.header["id"] for one in store.all_parts}


def test_a_few_files_of_an_archive_are_taken_without_the_rest(indexed, sample_repo, embedder, split_early):
    indexed()
    rewritten_files(sample_repo)
    (archive,) = indexed()[0].archived
    path = archive.paths[0]
    git(sample_repo, "checkout", "--quiet", "here", "--", path)
    embedder.embedded.clear()
    store, _ = indexed()
    assert not embedder.embedded and store.dead is None
    assert archive.header["id"] in [one.header["id"] for one in store.archived]
    assert_equal(store, indexed("fresh", rebuild=True)[0], embedder)


def test_a_file_that_a_part_and_an_archive_have_is_taken_from_the_part(indexed, sample_repo, split_early):
    """A part that is mostly dead is archived whole, with its files that are live in a part of their own."""
    indexed()
    *rest, last = sorted(sample_repo.rglob("*.*"))
    for file in (file for file in rest if file.suffix in (".py", ".md")):
        file.write_text("# Other\n" * 9)
    before, text = indexed()[0], last.read_text()
    assert [len(before.parts), len(before.archived)] == [1, 1]
    for content in ("Other words.\n", text):
        last.write_text(content)
        store, _ = indexed()
    assert store.segment_files[1:] == before.segment_files[1:]


def test_the_size_of_a_store_that_is_replaced_meanwhile_is_no_error(indexed, sample_repo, small_parts):
    indexed()
    (sample_repo / "new.py").write_text("def new():\n    return 1\n")
    store, _ = indexed()
    assert store.size_bytes == sum(file.stat().st_size for file in store.segment_files)
    store.segment_files[1].unlink()
    assert store.size_bytes == store.path.stat().st_size


def test_an_archive_has_the_last_contents_of_a_path_once(indexed, sample_repo, small_parts, split_early):
    files = sorted(sample_repo.rglob("*.py"))[:4]
    for number in range(3):
        for file in files:
            file.write_text(f"def number_{number}():\n    return {number}\n" * 3)
        store, _ = indexed()
        for archive in store.archived:
            assert len(archive.file_numbers) == archive.file_count


def test_a_full_disk_while_parts_are_split_leaves_the_store_that_was(
    indexed, sample_repo, monkeypatch, split_early
):
    store, _ = indexed()
    before, written = everything(store), store_format.write
    rewritten_files(sample_repo)
    for parts_that_fit in (0, 1, 2):

        def full(file: Path, *rest, most: int = parts_that_fit) -> None:
            if len(list(store.path.parent.glob("*.part.pkl"))) >= most:
                raise StoreUnwritable(path=str(file), why="no space left on the disk")
            written(file, *rest)

        with monkeypatch.context() as disk:
            disk.setattr(build.store_format, "write", full)
            with pytest.raises(StoreUnwritable):
                indexed()
        assert everything(Store.open(store.path)) == before
    again, report = indexed()
    assert (report.action, len(again.archived)) == ("updated", 1)
    assert sorted(again.path.parent.glob("*.pkl")) == sorted(again.segment_files)


def test_a_part_of_another_store_too_is_not_split(indexed, sample_repo, split_early):
    store, _ = indexed()
    os.link(store.path, store.path.with_name("of another store"))
    rewritten_files(sample_repo)
    updated, _ = indexed()
    assert not updated.archived and updated.parts[0].header["id"] == store.header["id"]


def test_parts_with_many_dead_chunks_are_split():
    whole, some, few = PartUse(70_000, 0, 1), PartUse(70_000, 20_000, 1), PartUse(70_000, 5_000, 1)
    assert to_split([whole, few, PartUse(100, 90, 1)]) == []
    assert to_split([some, whole, some, few, some, some]) == [[0, 2, 4], [5]]


def test_little_that_is_dead_stays():
    assert to_merge([], 10) == []
    assert to_merge([PartUse(100_000, 0, 1)], 10) == []
    assert to_merge([PartUse(100_000, 99_000, 1), PartUse(90_000, 0, 2)], 10) == []


def test_the_dead_that_were_not_used_longest_go_first():
    old, far = PartUse(100_000, 100_000, 1), PartUse(100_000, 100_000, 5)
    here, other = PartUse(40_000, 0, 9), PartUse(90_000, 80_000, 3)
    assert to_merge([far, other, here, old], 0) == [1, 3]
    assert to_merge([far, other, here], 0) == [1]
    assert to_merge([far, here], 20_000) == []


def test_parts_of_a_size_are_merged():
    four = [PartUse(5_000, 100, n) for n in range(4)]
    assert to_merge([PartUse(200_000, 0, 0), *four], 10) == [1, 2, 3, 4]
    assert to_merge([PartUse(200_000, 0, 0), *four[:3]], 10) == []
    assert to_merge([PartUse(100_000, 0, n) for n in range(9)], 10) == []


@pytest.mark.parametrize("links", [True, False])
def test_a_store_on_a_disk_without_links_is_copied(indexed, sample_repo, monkeypatch, embedder, links):
    def refused(*paths: object) -> None:
        raise OSError(errno.EPERM, "no links")

    indexed()
    if not links:
        monkeypatch.setattr(parts.os, "link", refused)
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store, _ = indexed()
    assert len(store.parts) == 1 and not list(store.path.parent.glob(".*.tmp"))
    assert_equal(store, indexed("fresh", rebuild=True)[0], embedder)


def test_a_full_disk_leaves_the_store_that_was(indexed, sample_repo, monkeypatch, small_parts):
    store, _ = indexed()
    before = everything(store)
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    with monkeypatch.context() as full:

        def no_space(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr("rag.database.format.os.fsync", no_space)
        with pytest.raises(StoreUnwritable, match="no space"):
            indexed()
    assert everything(Store.open(store.path)) == before
    again, report = indexed()
    assert (report.action, report.changed) == ("updated", 1)
    assert sorted(again.path.parent.glob("*.pkl")) == sorted(again.segment_files)
    assert not list(store.path.parent.glob(".*.tmp"))


def test_a_builder_killed_between_part_and_list_leaves_the_old_store(indexed, sample_repo, tmp_path):
    store, _ = indexed()
    before = everything(store)
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    code = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from rag.corpus.acquire import acquire, resolve
        from rag.database import format as store_format
        from rag.database.update import Options, refresh
        from tests.contracts.hashing_embedder import HashingEmbedder
        def wait(*how):
            print("writing", flush=True)
            sys.stdin.read()
        store_format.write = wait
        checkout = acquire(resolve({str(sample_repo)!r}), home=Path({str(tmp_path)!r}))
        refresh(checkout, Path({str(store.path)!r}), HashingEmbedder(32), Options())
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert list(store.path.parent.glob("*.part.pkl"))
        process.send_signal(signal.SIGKILL)
    assert everything(Store.open(store.path)) == before
    updated, report = indexed()
    assert (report.action, report.changed) == ("updated", 1)
    assert sorted(updated.path.parent.glob("*.pkl")) == sorted(updated.segment_files)


def test_a_reader_that_comes_between_list_and_parts_reads_the_new_list(
    indexed, sample_repo, monkeypatch, small_parts
):
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    indexed()
    (sample_repo / "late.py").write_text("def later():\n    pass\n")
    first, _ = indexed()
    opened, real = [], parts.open_segment

    def late(path: Path):
        segment = real(path)
        if not opened:
            opened.append(path)
            indexed(rebuild=True)  # removes the parts that were just listed
        return segment

    monkeypatch.setattr(parts, "open_segment", late)
    assert everything(Store.open(first.path)) == everything(first)


def test_a_missing_part_is_damage(indexed, sample_repo, small_parts):
    indexed()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store, _ = indexed()
    store.segment_files[1].unlink()
    with pytest.raises(StoreCorrupt, match="missing"):
        Store.open(store.path)
    (again, report) = indexed()
    assert report.action == "rebuilt" and "missing" in report.reason
    assert again.defining("late")


@pytest.mark.parametrize(
    "hostile",
    [["../../../etc/passwd"], "abc", [1], ["0" * 31], [None], {"a": 1}, ["0" * 32] * 2],
)
def test_a_hostile_list_of_parts_is_damage(indexed, sample_repo, hostile):
    indexed()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store, _ = indexed()
    rewritten(store.path, lambda header, _: header.update(parts=hostile))
    with pytest.raises(StoreCorrupt, match="list of parts"):
        Store.open(store.path)


def test_a_part_of_another_store_is_damage(indexed, sample_repo):
    indexed()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store, _ = indexed()
    other, _ = indexed("other", rebuild=True)
    shutil.copyfile(other.path, store.segment_files[1])
    with pytest.raises(StoreCorrupt, match="another part"):
        Store.open(store.path)


def test_parts_belong_to_their_store(indexed, sample_repo, tmp_path, small_parts):
    indexed()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store, _ = indexed()
    indexed("s.other")
    assert [path for path, _ in stores(tmp_path)] == sorted([store.path, store.path.with_name("s.other.pkl")])
    assert set(store.segment_files) < set(store_files(store.path))
    assert all(parts.belongs(str(file), store.path) for file in store.segment_files)
    assert not parts.belongs(str(store.path.with_name("s.other.pkl")), store.path)
    older = store.path.with_suffix(".delta.pkl")
    older.write_bytes(b"of an older version")
    remove(store.path)
    left = {file.name for file in store.path.parent.glob("*.pkl")}
    assert left == {file.name for file in Store.open(store.path.with_name("s.other.pkl")).segment_files}


def test_a_store_built_in_groups_is_the_store_built_at_once(sample_repo, tmp_path, monkeypatch):
    embedder = StaticEmbedder()
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    (sample_repo / "blob.txt").write_bytes(b"x = 1\n\0\0\0binary\n" * 50)
    (sample_repo / "deep.py").write_text("x = " + "(" * 5_000 + ")" * 5_000 + "\n")
    monkeypatch.setattr("rag.database.workers._BATCH_BYTES", 4_000)
    options = Options(approximate_from=20, shorten=shorten_rows)
    whole, one = refresh(checkout, tmp_path / "whole.pkl", embedder, options)
    monkeypatch.setattr(build, "_MOST_IN_GROUP", 40)
    store, report = refresh(checkout, tmp_path / "grouped" / "s.pkl", embedder, options)
    store.verify()
    assert len(store.parts) > 3 and all(part.chunk_count for part in store.parts)
    assert (report.files, report.chunks, report.skipped) == (one.files, one.chunks, one.skipped)
    assert report.recall_at_10 is not None and all(rows.short for rows in store.vectors[:-1])
    for name in ("codes", "scale"):  # the statistics of all groups count in each
        joined = np.concatenate([getattr(rows, name) for rows in store.vectors])
        np.testing.assert_array_equal(joined, getattr(whole.vectors[0], name))
    assert_equal(store, whole, embedder)
    for file in sorted(sample_repo.rglob("*.py"))[::2]:
        file.write_text(file.read_text() + "\n\ndef appended():\n    return 1\n" * 3)
    updated, report = refresh(checkout, store.path, embedder, options)
    assert report.action == "updated"
    assert everything(updated) == everything(
        refresh(checkout, whole.path, embedder, options, rebuild=True)[0]
    )
    assert refresh(checkout, store.path, embedder, options)[1].action == "fresh"


def test_a_full_disk_between_groups_leaves_the_store_that_was(sample_repo, tmp_path, monkeypatch):
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    path, embedder = tmp_path / "stores" / "s.pkl", StaticEmbedder()
    store, _ = refresh(checkout, path, embedder, Options())
    before = everything(store)
    monkeypatch.setattr("rag.database.workers._BATCH_BYTES", 4_000)
    monkeypatch.setattr(build, "_MOST_IN_GROUP", 40)
    written = store_format.write

    def full(file: Path, *rest) -> None:
        if len(list(path.parent.glob("*.part.pkl"))) == 2:
            raise StoreUnwritable(path=str(file), why="no space left on the disk")
        written(file, *rest)

    with monkeypatch.context() as disk:
        disk.setattr(build.store_format, "write", full)
        with pytest.raises(StoreUnwritable):
            refresh(checkout, path, embedder, Options(), rebuild=True)
    assert everything(Store.open(path)) == before
    again, _ = refresh(checkout, path, embedder, Options(), rebuild=True)
    assert everything(again) == before
    assert sorted(path.parent.glob("*.pkl")) == sorted(again.segment_files)
