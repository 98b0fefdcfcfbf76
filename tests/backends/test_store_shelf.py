"""The shelf in a folder; the one in object storage is in test_object_store.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rag import backends
from rag.backends.shelf.disk_cache import DiskCache
from rag.backends.shelf.folder import FolderObjects
from rag.backends.shelf.shelf import ObjectShelf
from rag.errors import SettingsError, ShelfRefused, ShelfUnreachable
from rag.settings import Settings
from tests.contracts.store_shelf import StoreShelfContract

KILLED = """
import os, signal, sys
from pathlib import Path
from rag import backends
from rag.settings import load_settings

shelf = backends.open_shelf(load_settings())
key, step, *files = sys.argv[1:]
objects, uploads = shelf._objects, iter(["first upload", "second upload"])
upload, swap = objects.upload, objects.swap

def kill(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def killed_upload(name, file):
    if next(uploads) == step:
        kill()
    upload(name, file)

objects.upload = killed_upload
objects.swap = kill if step == "swap" else swap
present = shelf.current(key)
named = dict(zip(files[::2], map(Path, files[1::2])))
shelf.publish(key, named, about={}, expect=present.id if present else None)
"""


def killed_publisher_in(environment):
    """A `KilledPublisher` in a child with these variables."""

    def publish(key, files, step):
        arguments = [str(part) for pair in files.items() for part in pair]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, key, step, *arguments],
            env=os.environ | environment, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    return publish


def opener(settings, tmp_path):
    """An `OpenShelf` of the place that the settings name."""

    def open_shelf(*, cache="cache", cache_bytes=1 << 30, clock=None):
        home = tmp_path / "homes" / cache
        shelf = backends.open_shelf(replace(settings, home=home, stores_cache_bytes=cache_bytes))
        if clock is not None:
            shelf._clock = clock
        return shelf

    return open_shelf


@pytest.fixture
def cached_files(tmp_path):
    """The files in the caches of all readers."""

    def listed():
        caches = tmp_path.glob("homes/*/fetched")
        return [path for cache in caches for path in cache.rglob("files/*")]

    return listed


class RawFolder:
    def __init__(self, folder):
        self.folder = folder

    def names(self):
        files = (path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock")
        return sorted(str(path.relative_to(self.folder)) for path in files)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def write(self, name, content):
        (self.folder / name).write_bytes(content)

    def remove(self, name):
        (self.folder / name).unlink()


class TestFolderShelf(StoreShelfContract):
    @pytest.fixture
    def place(self, tmp_path):
        folder = tmp_path / "shared"
        folder.mkdir()
        return folder

    @pytest.fixture
    def open_shelf(self, place, tmp_path):
        return opener(Settings(stores=str(place)), tmp_path)

    @pytest.fixture
    def raw(self, place):
        return RawFolder(place)

    @pytest.fixture
    def killed_publisher(self, place, tmp_path):
        return killed_publisher_in({"RAG_STORES": str(place), "RAG_HOME": str(tmp_path / "killed")})

    def test_a_missing_folder_is_not_created(self, tmp_path):
        shelf = backends.open_shelf(Settings(home=tmp_path, stores=str(tmp_path / "absent")))
        for call in (shelf.keys, lambda: shelf.current("app"), shelf.collect_garbage):
            with pytest.raises(ShelfRefused, match=r"there is no such folder; .*mkdir -p"):
                call()
        with pytest.raises(ShelfRefused, match="there is no such folder"):
            shelf.publish("app", {"store.pkl": Path(__file__)}, about={}, expect=None)
        assert not (tmp_path / "absent").exists()

    def test_a_held_lock_is_an_error_after_a_time(self, open_shelf, place, made):
        import fcntl

        shelf = open_shelf()
        shelf._objects._timeout_s = 0.1
        with (place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(ShelfUnreachable, match="has held its lock"):
                self.publish(shelf, "app", made(store="one"))
        self.publish(shelf, "app", made(store="one"))

    def test_what_a_killed_publisher_left_is_garbage_later(self, open_shelf, place, made):
        from tests.contracts.store_shelf import _later

        self.publish(open_shelf(), "app", made(store="one"))
        left = place / "objects" / "ab" / ".abcdef.tmp"
        left.parent.mkdir(exist_ok=True)
        left.write_text("half")
        assert open_shelf(clock=_later).collect_garbage().objects == 1
        assert not left.exists()


@pytest.mark.parametrize("stores", ["gs://bucket", "http://user:secret@host/x", "S3://bucket"])
def test_an_unknown_place_is_refused_without_its_secrets(tmp_path, stores):
    with pytest.raises(SettingsError, match="use the path of a folder or s3://") as caught:
        backends.open_shelf(Settings(home=tmp_path, stores=stores))
    assert "secret" not in str(caught.value)


def test_the_download_of_a_killed_process_is_removed(tmp_path, monkeypatch):
    from rag.backends.shelf.generations import described
    from rag.store_shelf import ShelfFile
    from rag.types import now_utc

    cache = DiskCache(tmp_path, max_bytes=1000)
    content = b"content"
    import hashlib

    file = ShelfFile("store.pkl", hashlib.sha256(content).hexdigest(), len(content))
    generation = described("app", [file], {}, now_utc())
    code = (
        "import os, signal, sys; from pathlib import Path; "
        "from rag.backends.shelf.disk_cache import DiskCache; "
        "from rag.backends.shelf.generations import from_document; "
        "cache = DiskCache(Path(sys.argv[1]), max_bytes=1000); "
        "cache.install(from_document(sys.stdin.buffer.read()), "
        "lambda file, path: (path.write_bytes(b'cont'), os.kill(os.getpid(), signal.SIGKILL)))"
    )
    from rag.backends.shelf.generations import to_document

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], input=to_document(generation), timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert cache.find(generation) is None and len(list((tmp_path / "incoming").iterdir())) == 1
    folder, size = cache.install(generation, lambda file, path: path.write_bytes(content) and None)
    assert size == len(content) and (folder / "store.pkl").read_bytes() == content
    assert list((tmp_path / "incoming").iterdir()) == []


def test_objects_of_other_programs_are_no_keys(tmp_path):
    folder = tmp_path / "shelf"
    (folder / "keys/deeper").mkdir(parents=True)
    for name in ("a b.json", "deeper/x.json", "-x.json", ".x.json", "é.json", "x.json.bak"):
        (folder / "keys" / name).write_text("{}")
    shelf = ObjectShelf(
        FolderObjects(folder, timeout_s=5), DiskCache(tmp_path / "cache", max_bytes=1_000_000)
    )
    assert shelf.keys() == []
    assert shelf.collect_garbage().objects == 0


def test_a_pipe_in_the_folder_is_an_error_and_nobody_waits(tmp_path):
    folder = tmp_path / "shelf"
    (folder / "keys").mkdir(parents=True)
    os.mkfifo(folder / "keys/a.json")
    shelf = ObjectShelf(
        FolderObjects(folder, timeout_s=5), DiskCache(tmp_path / "cache", max_bytes=1_000_000)
    )
    with pytest.raises(ShelfUnreachable, match=r"a\.json is no regular file"):
        shelf.current("a")


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_lock_that_is_no_file_is_an_error_and_nothing_is_created_elsewhere(tmp_path, kind):
    folder, lock = tmp_path / "shelf", tmp_path / "shelf" / ".lock"
    folder.mkdir()
    make = {"pipe": os.mkfifo, "link": lambda path: path.symlink_to(tmp_path / "new"), "folder": os.mkdir}
    make[kind](lock)
    with pytest.raises(ShelfUnreachable):
        FolderObjects(folder, timeout_s=5).swap("keys/a.json", b"{}", version=None)
    assert not (tmp_path / "new").exists() and not (folder / "keys").exists()
