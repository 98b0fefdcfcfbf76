import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import git

from rag.corpus import read
from rag.corpus.acquire import acquire, resolve
from rag.database.locate import remove, store_path, stores
from rag.database.lock import building
from rag.database.store import Store
from rag.database.update import Options, compare, refresh
from rag.errors import DimensionMismatch, NothingToIndex, StoreBusy, StoreCorrupt
from rag.types import Filters, IndexReport, Source
from tests.contracts.hashing_embedder import HashingEmbedder

EMBEDDER = HashingEmbedder(32)


class CountingEmbedder(HashingEmbedder):
    def __init__(self, dim: int = 32) -> None:
        super().__init__(dim)
        self.embedded: list[str] = []

    def embed(self, texts, *, role):
        self.embedded += texts
        return super().embed(texts, role=role)


@pytest.fixture
def indexed(sample_repo: Path, tmp_path: Path) -> Callable[..., tuple[Store, IndexReport]]:
    def run(*, embedder=EMBEDDER, filters: Filters | None = None, **options) -> tuple[Store, IndexReport]:
        source = replace(resolve(str(sample_repo)), filters=filters or Filters())
        checkout = acquire(source, home=tmp_path)
        return refresh(checkout, tmp_path / "stores" / "s.pkl", embedder, Options(), **options)

    return run


def everything(store: Store) -> set[tuple[str, int, int, str, str]]:
    """All live chunks, as a reader sees them."""
    rows = range(len(store)) if store.dead is None else np.flatnonzero(~store.dead).tolist()
    hits = [store.hit(row, 0.0, {}) for row in rows]
    return {(hit.path, hit.start, hit.end, hit.symbol, hit.text) for hit in hits}


def test_the_store_holds_every_file_as_it_is(indexed, sample_repo):
    store, report = indexed()
    assert report.action == "built"
    texts: dict[str, list[tuple[int, str]]] = {}
    for path, start, _, _, text in sorted(everything(store)):
        texts.setdefault(path, []).append((start, text))
    listed = git(sample_repo, "ls-files").splitlines()
    assert report.files == len(listed)
    assert set(texts) == {path for path in listed if (sample_repo / path).stat().st_size}
    for path in texts:
        rows = [store.hit(row, 0, {}) for row in range(len(store)) if store.hit(row, 0, {}).path == path]
        assert "".join(hit.text + hit.blank_end for hit in rows) == (sample_repo / path).read_text()


def test_a_second_look_changes_nothing(indexed):
    first, _ = indexed()
    before = first.path.stat()
    _, report = indexed()
    assert report.action == "fresh"
    assert first.path.stat().st_mtime_ns == before.st_mtime_ns


def test_one_changed_file_is_all_that_is_read_again(indexed, sample_repo):
    embedder = CountingEmbedder()
    store, _ = indexed(embedder=embedder)
    target = sample_repo / "snip" / "auth.py"
    embedder.embedded.clear()
    target.write_text(target.read_text() + "\n\ndef zebra_crossing():\n    return 'striped'\n")
    store, report = indexed(embedder=embedder)
    assert (report.action, report.changed, report.removed) == ("updated", 1, 0)
    relative = str(target.relative_to(sample_repo).with_suffix(""))
    assert embedder.embedded
    assert all(relative in text.splitlines()[0] for text in embedder.embedded)
    names = store.names(np.asarray(store.defining("zebra_crossing")))
    assert [symbol for symbol, _ in names] == ["zebra_crossing"]


def test_an_update_hides_what_it_replaces(indexed, sample_repo):
    store, _ = indexed()
    path, *_ = next(row for row in sorted(everything(store)) if row[3] and row[0].endswith(".py"))
    (sample_repo / path).write_text("def only_this_is_left():\n    pass\n")
    updated, _ = indexed()
    assert len(updated.segments) == 2
    assert {row[3] for row in everything(updated) if row[0] == path} == {"only_this_is_left"}
    assert updated.live_count == len(everything(updated))
    assert updated.file_count == store.file_count


def test_a_file_that_only_got_a_new_time_is_not_read_twice(indexed, sample_repo):
    embedder = CountingEmbedder()
    indexed(embedder=embedder)
    embedder.embedded.clear()
    for file in sample_repo.rglob("*.py"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    store, report = indexed(embedder=embedder)
    assert report.changed == 0
    assert embedder.embedded == []
    assert indexed(embedder=embedder)[1].action == "fresh"
    assert store.known_files()[file.relative_to(sample_repo).as_posix()][0] == 1_700_000_000 * 10**9


def test_a_file_written_just_after_the_scan_is_looked_at_again(indexed, sample_repo):
    store, _ = indexed()
    target = next(sample_repo.rglob("*.py"))
    stat = target.stat()
    text = target.read_text()
    swapped = text.replace("a", "b", 1)
    target.write_text(swapped)
    os.utime(target, ns=(stat.st_atime_ns, int(store.header["scanned_ns"])))
    assert indexed()[1].changed == 1


@pytest.mark.skipif(os.name == "nt", reason="the system does not tell when a file was changed")
def test_other_bytes_of_the_same_size_and_time_are_found(indexed, sample_repo):
    long_ago = 1_700_000_000
    for file in sample_repo.rglob("*.*"):
        os.utime(file, (long_ago, long_ago))
    indexed()
    target = next(sample_repo.rglob("*.py"))
    target.write_text(target.read_text().replace("a", "b", 1))
    os.utime(target, (long_ago, long_ago))
    other = next(file for file in sample_repo.rglob("*.py") if file != target)
    other.chmod(0o600)
    assert [indexed()[1].changed for _ in range(2)] == [1, 0]
    other.chmod(0o644)
    assert [indexed()[1].action for _ in range(2)] == ["updated", "fresh"]


def test_another_embedder_rebuilds_and_says_so(indexed):
    indexed()
    _, report = indexed(embedder=HashingEmbedder(16))
    assert (report.action, report.reason) == ("rebuilt", "another embedder than the store was made with")


def test_a_store_made_with_other_rules_for_secrets_is_rebuilt(indexed, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("rag.database.update.SECRET_RULES_VERSION", "older")
        indexed()
    _, report = indexed()
    assert (report.action, report.reason) == ("rebuilt", "another secret_rules than the store was made with")


def test_an_embedder_that_changes_its_width_is_an_error(indexed, sample_repo):
    class Shifting(HashingEmbedder):
        fingerprint = "shifting"

    indexed(embedder=Shifting(8))
    (sample_repo / "new.py").write_text("x = 1\n")
    with pytest.raises(DimensionMismatch, match="8 dimensions, but got 9"):
        indexed(embedder=Shifting(9))


class Opened:
    """What unpickling it would run, had anybody done so."""

    def __reduce__(self):
        return (Path.touch, (Path("unpickled"),))


DAMAGE = {
    "cut": lambda data: data[:1000],
    "empty": lambda data: b"",
    "flipped": lambda data: bytes(b ^ 0x55 if n >= 4096 and n % 7 == 0 else b for n, b in enumerate(data)),
    "its head flipped": lambda data: bytes([*data[:40], data[40] ^ 0xFF, *data[41:]]),
    "foreign": lambda data: b"no store at all" * 100,
    "a pickle of others": lambda data: pickle.dumps(Opened()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("of", ["whole", "newest", "part"])
def test_a_damaged_store_is_rebuilt_and_that_is_reported(
    indexed, sample_repo, tmp_path, monkeypatch, damage, of
):
    monkeypatch.chdir(tmp_path)
    store, _ = indexed()
    if of != "whole":
        (sample_repo / "late.py").write_text("def late():\n    pass\n")
        store, _ = indexed()
    expected = everything(store)
    file = store.segment_files[1] if of == "part" else store.path
    file.write_bytes(damage(file.read_bytes()))
    try:
        Store.open(store.path).verify()
    except StoreCorrupt:
        pass
    else:
        pytest.fail("the damage is none")
    (sample_repo / "later.py").write_text("def later():\n    pass\n")  # so that all of it is looked at
    mended, report = indexed()
    if report.action == "updated":  # what is damaged was not needed: a search comes upon it
        mended.verify()
    assert report.action in ("rebuilt", "updated")
    if report.action == "rebuilt":
        assert "damaged" in report.reason
    assert {row for row in everything(mended) if row[0] != "later.py"} == expected
    assert not (tmp_path / "unpickled").exists()


def test_nothing_to_index_says_what_was_seen(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "image.bin").write_bytes(bytes(range(256)) * 10)
    checkout = acquire(resolve(str(folder)), home=tmp_path)
    with pytest.raises(NothingToIndex) as caught:
        refresh(checkout, tmp_path / "s.pkl", EMBEDDER, Options())
    assert caught.value.seen == 1
    assert not (tmp_path / "s.pkl").exists()


def test_skipped_by_content_is_remembered_and_reported(indexed, sample_repo):
    (sample_repo / "blob.py").write_bytes(b"x = 1\n\0\0\0binary\n" * 50)
    os.utime(sample_repo / "blob.py", (1_700_000_000, 1_700_000_000))
    _, first = indexed()
    _, second = indexed()
    assert second.action == "fresh"
    assert [s.path for s in second.skipped if s.path == "blob.py"] == ["blob.py"]
    assert first.skipped == second.skipped
    (sample_repo / "other.py").write_text("y = 2\n")
    _, third = indexed()
    assert third.changed == 1
    assert "blob.py" in {s.path for s in third.skipped}


def test_two_builders_do_not_race(indexed, tmp_path):
    indexed()
    path = tmp_path / "stores" / "s.pkl"
    with (
        building(path, wait_s=0),
        pytest.raises(StoreBusy, match="another process"),
        building(path, wait_s=0),
    ):
        pass


def test_many_builders_at_once_leave_one_good_store(sample_repo, tmp_path):
    code = textwrap.dedent(f"""
        from pathlib import Path
        from rag.corpus.acquire import acquire, resolve
        from rag.database.update import Options, refresh
        from tests.contracts.hashing_embedder import HashingEmbedder
        checkout = acquire(resolve({str(sample_repo)!r}), home=Path({str(tmp_path)!r}))
        store, report = refresh(checkout, Path({str(tmp_path / "s.pkl")!r}), HashingEmbedder(32), Options())
        print(report.action, store.live_count)
    """)
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [process.communicate()[0].split() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert len({count for _, count in said}) == 1
    assert sorted(action for action, _ in said).count("built") == 1


def test_a_builder_killed_in_the_middle_leaves_the_old_store(indexed, sample_repo, tmp_path):
    store, _ = indexed()
    before = everything(store)
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    code = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from rag.corpus.acquire import acquire, resolve
        from rag.database.update import Options, refresh
        from tests.contracts.hashing_embedder import HashingEmbedder
        def wait(stage, done, total):
            if stage == "write":
                (Path({str(store.path.parent)!r}) / ".s.pkl.left.tmp").write_text("half")
                print("writing", flush=True)
                sys.stdin.read()
        checkout = acquire(resolve({str(sample_repo)!r}), home=Path({str(tmp_path)!r}))
        refresh(checkout, Path({str(store.path)!r}), HashingEmbedder(32), Options(), progress=wait)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
    assert everything(Store.open(store.path)) == before
    updated, report = indexed()
    assert (report.action, report.changed) == ("updated", 1)
    assert not list(store.path.parent.glob(".*.tmp"))
    assert updated.defining("late")


def test_behind_counts_without_changing(indexed, sample_repo, tmp_path):
    store, _ = indexed()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    (sample_repo / "snip" / "auth.py").write_text("x = 1\n")
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    assert len(compare(store, checkout, Options()).behind) == 2
    assert not Store.open(store.path).defining("late")


def test_an_older_listing_removes_nothing_that_another_process_has_added(indexed, sample_repo, tmp_path):
    store, _ = indexed()
    (sample_repo / "early.py").write_text("def early():\n    pass\n")
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    listed = compare(store, checkout, Options()).listed
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    indexed()
    (sample_repo / "early.py").write_text("def early():\n    return 1\n")
    updated, _ = indexed(listed=listed)
    assert updated.defining("late") and "return 1" in str(everything(updated))


@pytest.mark.parametrize("most_bytes", [300 << 20, 0])
def test_workers_digest_as_one_process_does(indexed, sample_repo, monkeypatch, most_bytes):
    monkeypatch.setattr("rag.database.workers._MOST_BETWEEN_BYTES", most_bytes)
    alone, _ = indexed()
    monkeypatch.setattr("rag.database.workers._MIN_BYTES_FOR_PROCESSES", 0)
    monkeypatch.setattr("rag.database.workers._BATCH_BYTES", 12_000)
    together, _ = indexed(rebuild=True)
    assert everything(alone) == everything(together)
    np.testing.assert_array_equal(alone.vectors[0].codes, together.vectors[0].codes)


def test_a_batch_of_files_without_text_is_passed_over(indexed, sample_repo, monkeypatch):
    (sample_repo / "aaa.py").write_text("")
    (sample_repo / "aab.py").write_bytes(b"x = 1\n\0\0\0binary\n" * 50)
    monkeypatch.setattr("rag.database.workers._BATCH_BYTES", 1)
    store, report = indexed()
    assert report.chunks == len(everything(store)) > 10


def test_filters_are_part_of_the_key(tmp_path):
    plain = Source("/a/b")
    narrowed = replace(plain, filters=Filters(include=("*.py",)))
    paths = {
        store_path(tmp_path, source, embedder=name)
        for source in (plain, narrowed, Source("/c/b"), Source("/a/b", "v1"))
        for name in ("static", "minilm")
    }
    assert len(paths) == 8
    assert all(path.name.startswith("b-") for path in paths)


def test_stores_are_listed_and_removed(indexed, sample_repo, tmp_path):
    store, _ = indexed()
    ((path, header),) = stores(tmp_path)
    assert path == store.path
    assert header["location"] == str(sample_repo.resolve())
    assert remove(path) > 0
    assert list(stores(tmp_path)) == []
    assert remove(path) == 0


@pytest.mark.parametrize("count", [0, 1, 5, 10])
def test_an_update_costs_what_changed(indexed, sample_repo, monkeypatch, count):
    """Files that are opened, and chunks that are embedded: as many as changed, however many there are."""
    modules = [sample_repo / f"module_{n}.py" for n in range(30)]
    for n, module in enumerate(modules):
        module.write_text(f"def function_{n}():\n    return {n}\n")
        os.utime(module, (1_700_000_000, 1_700_000_000))
    embedder = CountingEmbedder()
    for file in sample_repo.rglob("*.*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    indexed(embedder=embedder)
    embedder.embedded.clear()
    opened: list[str] = []
    original = read._opened
    monkeypatch.setattr(read, "_opened", lambda root, path: opened.append(path) or original(root, path))
    for module in modules[:count]:
        module.write_text(module.read_text() + "# changed\n")
    _, report = indexed(embedder=embedder)
    assert report.changed == count
    assert len(embedder.embedded) == count
    assert set(opened) == {module.name for module in modules[:count]}


def test_the_named_definitions_of_a_file_are_those_of_its_graph(indexed):
    store, _ = indexed()
    graphs = {path: store.code_graph(path).definitions for path in store.files()}
    names = {one.name for definitions in graphs.values() for one in definitions}
    some = set(sorted(names)[::2])
    for wanted in (names, some):
        found = {path: store.definitions_in(path, wanted) for path in store.files()}
        assert found == {path: [d for d in graph if d.name in wanted] for path, graph in graphs.items()}
        assert sum(map(len, found.values())) > 10
    assert store.definitions_in("nowhere.py", names) == []
