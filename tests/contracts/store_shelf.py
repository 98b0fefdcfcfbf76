"""The contract of a `StoreShelf`. Every kind runs all of it, against a real service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest

from rag.errors import NotFound, SettingsError, ShelfConflict, ShelfDamaged, StoreUnwritable
from rag.ports import Clock
from rag.store_shelf import StoreShelf

_CACHE_BYTES = 1 << 30
_AFTER_GRACE = timedelta(days=2)
ABOUT = {"commit": "c0ffee"}


class OpenShelf(Protocol):
    """Opens a shelf of the same place with a disk cache of its own, or with one that was named before."""

    def __call__(
        self, *, cache: str = ..., cache_bytes: int = ..., clock: Clock | None = ...
    ) -> StoreShelf: ...


class RawPlace(Protocol):
    """The objects of the place, as an operator sees them."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


class MakeFiles(Protocol):
    """Writes files of these texts, as a publisher's: `NAME=text` is the file `NAME.pkl`."""

    def __call__(self, **texts: str) -> dict[str, Path]: ...


KilledPublisher = Callable[[str, Mapping[str, Path], str], None]
"""Publishes a key and files in another process, which is killed at a step: an upload or the swap."""


def _later() -> datetime:
    return datetime.now(UTC) + _AFTER_GRACE


class StoreShelfContract:
    """Fixtures: `open_shelf`, `raw`, `killed_publisher`, `cached_files`, all for one empty place."""

    @pytest.fixture
    def shelf(self, open_shelf: OpenShelf) -> StoreShelf:
        return open_shelf()

    @pytest.fixture
    def made(self, tmp_path: Path) -> MakeFiles:
        count = 0

        def make(**texts: str) -> dict[str, Path]:
            nonlocal count
            count += 1
            files = {}
            for name, text in texts.items():
                path = tmp_path / f"made-{count}" / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
                files[f"{name}.pkl"] = path
            return files

        return make

    @staticmethod
    def texts(folder: Path) -> dict[str, str]:
        return {path.name: path.read_text() for path in folder.iterdir()}

    @staticmethod
    def publish(
        shelf: StoreShelf, key: str, files: Mapping[str, Path], about: Mapping[str, str] = ABOUT
    ) -> str:
        present = shelf.current(key)
        expect = None if present is None else present.id
        return shelf.publish(key, files, about=about, expect=expect).generation.id

    # ------------------------------------------------------------ publish and fetch

    def test_an_empty_shelf_has_nothing(self, shelf: StoreShelf) -> None:
        assert shelf.current("app") is None
        assert shelf.last_fetched("app") is None
        assert shelf.keys() == []
        assert not shelf.delete("app")
        with pytest.raises(NotFound, match="nothing is published as app"):
            shelf.fetch("app")

    def test_what_is_published_is_current_and_arrives_complete(
        self, shelf: StoreShelf, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        files = made(store="newest", part="older" * 1000, empty="")
        published = shelf.publish("app", files, about=ABOUT, expect=None)
        assert published.uploaded_files == 3
        assert published.uploaded_bytes == published.generation.size_bytes == 5006
        found = open_shelf().current("app")
        assert found is not None and found == published.generation
        assert found.about == ABOUT and found.published.tzinfo is not None
        fetched = open_shelf(cache="other").fetch("app")
        assert fetched.generation == found and fetched.downloaded_bytes == 5006
        assert self.texts(fetched.folder) == {
            "store.pkl": "newest", "part.pkl": "older" * 1000, "empty.pkl": ""
        }  # fmt: skip

    def test_a_large_file_arrives_complete(self, shelf: StoreShelf, tmp_path: Path) -> None:
        content = bytes(range(256)) * 80_000
        (tmp_path / "large").write_bytes(content)
        shelf.publish("app", {"large": tmp_path / "large"}, about={}, expect=None)
        assert (shelf.fetch("app").folder / "large").read_bytes() == content

    def test_a_generation_that_is_cached_is_not_downloaded_again(
        self, shelf: StoreShelf, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        self.publish(shelf, "app", made(store="one"))
        first = shelf.fetch("app")
        again = open_shelf().fetch("app")
        assert (first.downloaded_bytes, again.downloaded_bytes) == (3, 0)
        assert again.folder == first.folder

    def test_publishing_the_same_again_changes_and_uploads_nothing(
        self, shelf: StoreShelf, made: MakeFiles
    ) -> None:
        first = self.publish(shelf, "app", made(store="one"))
        again = shelf.publish("app", made(store="one"), about=ABOUT, expect="any")
        assert (again.generation.id, again.uploaded_files, again.uploaded_bytes) == (first, 0, 0)

    def test_only_what_differs_is_uploaded_and_downloaded(self, shelf: StoreShelf, made: MakeFiles) -> None:
        first = self.publish(shelf, "app", made(store="one", part="shared" * 100))
        shelf.fetch("app")
        second = shelf.publish("app", made(store="two!", part="shared" * 100), about=ABOUT, expect=first)
        assert (second.uploaded_files, second.uploaded_bytes) == (1, 4)
        fetched = shelf.fetch("app")
        assert fetched.downloaded_bytes == 4
        assert self.texts(fetched.folder) == {"store.pkl": "two!", "part.pkl": "shared" * 100}

    def test_a_file_is_stored_once_for_all_keys(self, shelf: StoreShelf, made: MakeFiles) -> None:
        self.publish(shelf, "app", made(part="shared", store="a"))
        other = shelf.publish("fork", made(part="shared", store="b"), about=ABOUT, expect=None)
        assert other.uploaded_files == 1

    def test_facts_alone_make_another_generation(self, shelf: StoreShelf, made: MakeFiles) -> None:
        first = self.publish(shelf, "app", made(store="one"), {"commit": "a"})
        second = self.publish(shelf, "app", made(store="one"), {"commit": "b"})
        assert first != second
        assert shelf.fetch("app").generation.about == {"commit": "b"}

    def test_the_last_fetched_generation_is_found_without_the_service(
        self, shelf: StoreShelf, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        first = self.publish(shelf, "app", made(store="one"))
        shelf.fetch("app")
        self.publish(shelf, "app", made(store="two"))
        found = open_shelf().last_fetched("app")
        assert found is not None and found.generation.id == first
        assert self.texts(found.folder) == {"store.pkl": "one"}
        assert open_shelf().last_fetched("other") is None

    def test_keys_are_listed_by_prefix_and_deleted(self, shelf: StoreShelf, made: MakeFiles) -> None:
        for key in ("b-1", "a-2", "a-1"):
            self.publish(shelf, key, made(store=key))
        assert shelf.keys() == ["a-1", "a-2", "b-1"]
        assert shelf.keys("a-") == ["a-1", "a-2"]
        assert shelf.delete("a-2") and not shelf.delete("a-2")
        assert shelf.keys() == ["a-1", "b-1"] and shelf.current("a-2") is None

    @pytest.mark.parametrize("key", ["", "a/b", "../a", ".a", "a b", "ä", "a\n", "a" * 201])
    def test_an_invalid_key_is_refused(self, shelf: StoreShelf, made: MakeFiles, key: str) -> None:
        for call in (shelf.current, shelf.fetch, shelf.delete, shelf.last_fetched):
            with pytest.raises(SettingsError, match="cannot be the key"):
                call(key)
        with pytest.raises(SettingsError, match="cannot be the key"):
            shelf.publish(key, made(store="one"), about={}, expect=None)

    # ------------------------------------------------------------ several publishers and readers

    @pytest.mark.parametrize("there", [False, True])
    def test_an_unexpected_generation_is_not_replaced(
        self, shelf: StoreShelf, made: MakeFiles, there: bool
    ) -> None:
        first = self.publish(shelf, "app", made(store="one")) if there else None
        wrong = None if there else "0" * 64
        with pytest.raises(ShelfConflict, match="another process has published") as caught:
            shelf.publish("app", made(store="two"), about=ABOUT, expect=wrong)
        assert (caught.value.key, caught.value.expected, caught.value.found) == ("app", wrong, first)
        found = shelf.current("app")
        assert (None if found is None else found.id) == first

    @pytest.mark.parametrize("there", [False, True])
    def test_of_publishers_at_once_one_wins(
        self, open_shelf: OpenShelf, made: MakeFiles, there: bool
    ) -> None:
        expect = self.publish(open_shelf(), "app", made(store="before")) if there else None
        files = [made(store=f"publisher {n}", part=f"{n}" * 100) for n in range(6)]
        barrier = threading.Barrier(len(files))

        def publish(number: int) -> str | None:
            shelf = open_shelf(cache=f"cache-{number}")
            barrier.wait()
            try:
                return shelf.publish("app", files[number], about=ABOUT, expect=expect).generation.id
            except ShelfConflict:
                return None

        with ThreadPoolExecutor(len(files)) as pool:
            ids = list(pool.map(publish, range(len(files))))
        won = [number for number, one in enumerate(ids) if one is not None]
        assert len(won) == 1
        fetched = open_shelf().fetch("app")
        assert fetched.generation.id == ids[won[0]]
        assert self.texts(fetched.folder)["store.pkl"] == f"publisher {won[0]}"

    def test_no_publication_is_lost_and_no_reader_sees_parts_of_two(
        self, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        writers, rounds = 3, 4
        self.publish(open_shelf(), "app", made(store="0", part="0"))
        done = threading.Event()

        def count_up(number: int) -> None:
            shelf = open_shelf(cache=f"cache-{number}")
            left = rounds
            while left:
                fetched = shelf.fetch("app")
                text = str(int(self.texts(fetched.folder)["store.pkl"]) + 1)
                try:
                    shelf.publish(
                        "app",
                        made(store=text, part=text),
                        about={"by": str(number)},
                        expect=fetched.generation.id,
                    )
                    left -= 1
                except ShelfConflict:
                    continue

        def read() -> list[dict[str, str]]:
            shelf, seen = open_shelf(cache="reader"), []
            while not done.is_set():
                seen.append(self.texts(shelf.fetch("app").folder))
            return seen

        with ThreadPoolExecutor(writers + 1) as pool:
            reader = pool.submit(read)
            list(pool.map(count_up, range(writers)))
            done.set()
            seen = reader.result()
        assert self.texts(open_shelf().fetch("app").folder)["store.pkl"] == str(writers * rounds)
        assert seen and all(texts["store.pkl"] == texts["part.pkl"] for texts in seen)
        order = [int(texts["store.pkl"]) for texts in seen]
        assert order == sorted(order)

    @pytest.mark.parametrize("step", ["first upload", "second upload", "swap"])
    def test_a_killed_publisher_changes_nothing(
        self, shelf: StoreShelf, made: MakeFiles, killed_publisher: KilledPublisher, step: str
    ) -> None:
        first = self.publish(shelf, "app", made(store="one"))
        files = made(store="two", part="more")
        killed_publisher("app", files, step)
        found = shelf.current("app")
        assert found is not None and found.id == first
        assert self.texts(shelf.fetch("app").folder) == {"store.pkl": "one"}
        self.publish(shelf, "app", files)
        assert self.texts(shelf.fetch("app").folder) == {"store.pkl": "two", "part.pkl": "more"}

    # ------------------------------------------------------------ damage

    def object_of(self, raw: RawPlace, text: str) -> str:
        return next(
            name for name in raw.names() if name.startswith("objects/") and raw.read(name) == text.encode()
        )

    @pytest.mark.parametrize("wrong", ["TWO", "tw", "two and more", ""])
    def test_wrong_bytes_are_refused_and_nothing_of_them_is_kept(
        self,
        shelf: StoreShelf,
        made: MakeFiles,
        raw: RawPlace,
        cached_files: Callable[[], list[Path]],
        wrong: str,
    ) -> None:
        self.publish(shelf, "app", made(store="two", part="part"))
        name = self.object_of(raw, "two")
        raw.write(name, wrong.encode())
        with pytest.raises(ShelfDamaged, match="other bytes than were published"):
            shelf.fetch("app")
        assert cached_files() == []
        assert shelf.last_fetched("app") is None
        raw.write(name, b"two")
        assert self.texts(shelf.fetch("app").folder) == {"store.pkl": "two", "part.pkl": "part"}

    def test_a_missing_file_is_an_error(self, shelf: StoreShelf, made: MakeFiles, raw: RawPlace) -> None:
        self.publish(shelf, "app", made(store="two"))
        raw.remove(self.object_of(raw, "two"))
        with pytest.raises(ShelfDamaged, match="a file of app is missing"):
            shelf.fetch("app")

    @pytest.mark.parametrize("texts", [{"a": "1", "b": "22"}, {"a": "1", "b": "22", "c": "333"}])
    @pytest.mark.parametrize("damage", ["lost", "cut"])
    def test_publishing_again_repairs_lost_files(
        self,
        open_shelf: OpenShelf,
        made: MakeFiles,
        raw: RawPlace,
        texts: dict[str, str],
        damage: str,
    ) -> None:
        shelf = open_shelf()
        first = self.publish(shelf, "app", made(a="1", b="22"))
        lost = self.object_of(raw, "22")
        raw.remove(lost)
        if damage == "cut":
            raw.write(lost, b"2")
        done = shelf.publish("app", made(**texts), about=ABOUT, expect=first)
        assert done.uploaded_files == len(texts) - 1
        again = shelf.publish("app", made(**texts), about=ABOUT, expect=done.generation.id)
        assert again.uploaded_files == 0
        found = self.texts(open_shelf(cache="new").fetch("app").folder)
        assert sorted(found.values()) == sorted(texts.values())

    def test_verifying_removes_wrong_files_so_that_publishing_repairs_them(
        self, open_shelf: OpenShelf, made: MakeFiles, raw: RawPlace
    ) -> None:
        shelf = open_shelf()
        assert shelf.verify() == (0, 0, ())
        first = self.publish(shelf, "app", made(a="1", b="22", c="333"))
        self.publish(shelf, "other", made(b="22"))
        assert shelf.verify() == (3, 6, ())
        raw.write(self.object_of(raw, "22"), b"XX")
        raw.remove(self.object_of(raw, "333"))
        wrong = (("app", "b.pkl"), ("app", "c.pkl"), ("other", "b.pkl"))
        assert shelf.verify() == (3, 6, wrong)
        done = shelf.publish("app", made(a="1", b="22", c="333"), about=ABOUT, expect=first)
        assert (done.uploaded_files, shelf.verify().damaged) == (2, ())
        assert len(self.texts(open_shelf(cache="new").fetch("app").folder)) == 3

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: "",
            lambda text: text[: len(text) // 2],
            lambda text: "[" * 100_000,
            lambda text: "null",
            lambda text: " " * (1 << 21),
            lambda text: text.replace("store.pkl", "../../store.pkl"),
            lambda text: text.replace('"format": 1', '"format": 2'),
            lambda text: text.replace('"size_bytes": 3', '"size_bytes": -3'),
            lambda text: text.replace('"size_bytes": 3', '"size_bytes": 4'),
            lambda text: text.replace('"key": "app"', '"key": "other"'),
        ],
    )
    def test_an_invalid_pointer_is_refused_and_can_be_replaced(
        self,
        shelf: StoreShelf,
        open_shelf: OpenShelf,
        made: MakeFiles,
        raw: RawPlace,
        change: Callable[[str], str],
    ) -> None:
        self.publish(shelf, "app", made(store="two"))
        pointer = raw.read("keys/app.json").decode()
        assert change(pointer) != pointer
        raw.write("keys/app.json", change(pointer).encode())
        for call in (shelf.current, shelf.fetch):
            with pytest.raises(ShelfDamaged, match="app"):
                call("app")
        with pytest.raises(ShelfDamaged):  # what it names is not known, so nothing is removed
            open_shelf(clock=_later).collect_garbage()
        shelf.publish("app", made(store="new"), about=ABOUT, expect=None)
        assert self.texts(shelf.fetch("app").folder) == {"store.pkl": "new"}

    # ------------------------------------------------------------ the disk cache

    def test_the_cache_keeps_what_was_used_last_within_its_limit(
        self, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        shelf = open_shelf(cache_bytes=2500)
        for key in ("a", "b", "c"):
            self.publish(shelf, key, made(store=key * 1000))
        shelf.fetch("a")
        shelf.fetch("b")
        assert shelf.fetch("a").downloaded_bytes == 0
        assert shelf.fetch("c").downloaded_bytes == 1000
        assert shelf.last_fetched("b") is None
        assert [shelf.fetch(key).downloaded_bytes for key in ("a", "c", "b")] == [0, 0, 1000]

    def test_a_generation_larger_than_the_cache_is_refused(
        self, open_shelf: OpenShelf, made: MakeFiles, cached_files: Callable[[], list[Path]]
    ) -> None:
        shelf = open_shelf(cache_bytes=2500)
        self.publish(shelf, "small", made(store="s"))
        self.publish(shelf, "large", made(store="l" * 2000, part="m" * 2000))
        shelf.fetch("small")
        with pytest.raises(StoreUnwritable, match=r"takes 4,000 bytes, and the cache may have 2,500"):
            shelf.fetch("large")
        assert len(cached_files()) == 1
        assert shelf.fetch("small").downloaded_bytes == 0

    def test_shared_files_are_counted_once(self, open_shelf: OpenShelf, made: MakeFiles) -> None:
        shelf = open_shelf(cache_bytes=2500)
        for key in ("a", "b", "c"):
            self.publish(shelf, key, made(store=key, part="shared" * 300))
            shelf.fetch(key)
        assert [shelf.fetch(key).downloaded_bytes for key in ("a", "b", "c")] == [0, 0, 0]

    def test_an_open_file_survives_its_eviction(self, open_shelf: OpenShelf, made: MakeFiles) -> None:
        shelf = open_shelf(cache_bytes=1500)
        for key in ("a", "b"):
            self.publish(shelf, key, made(store=key * 1000))
        with (shelf.fetch("a").folder / "store.pkl").open() as opened:
            shelf.fetch("b")
            assert opened.read() == "a" * 1000

    def test_a_file_that_was_cut_in_the_cache_is_fetched_again(
        self, shelf: StoreShelf, made: MakeFiles
    ) -> None:
        self.publish(shelf, "app", made(store="content"))
        (shelf.fetch("app").folder / "store.pkl").write_text("cont")
        assert shelf.last_fetched("app") is None
        assert self.texts(shelf.fetch("app").folder) == {"store.pkl": "content"}

    # ------------------------------------------------------------ garbage

    def test_only_old_files_without_a_key_are_garbage(
        self, open_shelf: OpenShelf, made: MakeFiles, raw: RawPlace
    ) -> None:
        shelf, later = open_shelf(), open_shelf(clock=_later)
        self.publish(shelf, "app", made(store="one", part="shared"))
        self.publish(shelf, "app", made(store="two", part="shared"))
        assert shelf.collect_garbage().objects == 0
        collected = later.collect_garbage()
        assert (collected.objects, collected.size_bytes) == (1, 3)
        assert self.texts(open_shelf(cache="other").fetch("app").folder) == {
            "store.pkl": "two", "part.pkl": "shared"
        }  # fmt: skip
        shelf.delete("app")
        assert later.collect_garbage().objects == 2
        assert raw.names() == []
        assert later.collect_garbage().objects == 0

    def test_a_publisher_uploads_again_what_may_be_garbage(
        self, open_shelf: OpenShelf, made: MakeFiles
    ) -> None:
        shelf, later = open_shelf(), open_shelf(clock=_later)
        self.publish(shelf, "app", made(part="shared"))
        shelf.delete("app")
        published = later.publish("app", made(part="shared"), about=ABOUT, expect=None)
        assert published.uploaded_files == 1

    def test_a_short_grace_period_is_refused(self, shelf: StoreShelf) -> None:
        with pytest.raises(ValueError, match="at least"):
            shelf.collect_garbage(grace_s=3600)
