"""What `rag storage` lists, and that it removes what was not used longest, and never a turn or a fact."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from command import rag
from conftest import git

from rag.database.locate import mark_used, stores
from rag.parsing import parse_age, parse_size
from rag.service import Engine
from rag.service.repositories.storage import beyond, storage
from rag.settings import Settings, load_settings
from rag.types import now_utc

DAY_S = 86_400


@pytest.fixture
def indexed(sample_repo: Path, tmp_path: Path) -> dict[str, Path]:
    """The sample repository and a bare one, both indexed; a turn and a fact about the first."""
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(sample_repo), str(bare))
    assert rag("ask", sample_repo, "How is a code made?").code == 0
    rag("facts", "add", "Codes are made here", "--turn", "1")
    assert rag("index", bare).code == 0
    return {"sample": sample_repo, "bare": bare}


def age(days: float, name: str = "") -> None:
    """Make the indexes of a repository look as if they were not used for days."""
    at = time.time() - days * DAY_S
    for file in (Settings().home / "stores").glob(f"{name}*"):
        os.utime(file, (at, at))


def listed() -> list[tuple[str, str]]:
    return sorted((one["kind"], one["name"]) for one in rag("storage", "show", "--json").json["items"])


def test_everything_in_the_data_folder_is_listed(indexed: dict[str, Path]) -> None:
    home = Settings().home
    (home / "config.toml").write_text("gate = true\n")
    (home / "notes").mkdir()
    (home / "notes" / "a.txt").write_bytes(b"x" * 1000)
    (home / "hit_vectors.db").write_bytes(b"x" * 10)
    found = rag("storage", "--json").json
    assert found["cap_bytes"] is None and found["held_in_turns"]["facts"] > 0
    assert sorted((one["kind"], one["name"], one["removable"]) for one in found["items"]) == [
        ("clone", str(indexed["bare"]), True),
        ("index", str(indexed["bare"]), True),
        ("index", str(indexed["sample"]), True),
        ("other", "notes", False),
        ("settings", "config.toml", False),
        ("turns", "turns.db", False),
        ("vectors", "hit_vectors.db", True),
    ]
    sizes = [one["size_bytes"] for one in found["items"]]
    assert sizes == sorted(sizes, reverse=True)
    status = [path.stat() for path in home.rglob("*") if path.is_file()]
    on_disk = sum({one.st_ino: one.st_size for one in status}.values())  # two indexes share a file
    assert found["size_bytes"] == sum(sizes) == pytest.approx(on_disk, abs=1)
    assert "turns.db" in rag("storage").out


def test_what_was_not_used_goes_after_it_was_named(indexed: dict[str, Path]) -> None:
    before = listed()
    assert rag("storage", "prune", "--older-than", "30d", "--yes").out == "removed 0 items, 0.0 MB\n"
    age(40, "bare")
    planned = rag("storage", "prune", "--older-than", "30d", "--dry-run")
    assert f"index of {indexed['bare']}" in planned.err and f"clone of {indexed['bare']}" in planned.err
    refused = rag("storage", "prune", "--older-than", "30d")
    assert refused.code == 2 and listed() == before
    done = rag("storage", "prune", "--older-than", "30d", "--yes", "--json").json
    assert [one["kind"] for one in done["removed"]] == ["index", "clone"]
    assert done["freed_bytes"] == sum(one["size_bytes"] for one in done["removed"])
    assert listed() == [("index", str(indexed["sample"])), ("turns", "turns.db")]
    assert len(rag("facts", "list", "--json").json) == len(rag("turns", "show", "--json").json) == 1
    assert rag("search", indexed["bare"], "code").code == 0  # it is made again


def test_a_use_of_an_index_is_recorded(indexed: dict[str, Path]) -> None:
    age(40)
    assert rag("search", indexed["sample"], "code").code == 0
    names = {one["name"]: one["used"] for one in rag("storage", "--json").json["items"]}
    used = datetime.fromisoformat(names[str(indexed["sample"])])
    assert (now_utc() - used).total_seconds() < 60
    (path,) = (path for path, _ in stores(Settings().home) if path.name.startswith("sample"))
    marker = path.with_suffix(".used")
    before = marker.stat().st_mtime_ns
    mark_used(path)
    assert marker.stat().st_mtime_ns == before


def test_a_size_removes_the_oldest_first_and_nothing_in_use(indexed: dict[str, Path]) -> None:
    found = storage(Settings())
    assert beyond(found, 0, now_utc()) == []
    age(2, "bare")
    age(3, "sample")
    found = storage(Settings())
    oldest = beyond(found, found.size_bytes - 1, now_utc())
    assert [(one.kind, one.name) for one in oldest] == [("index", str(indexed["sample"]))]
    kinds = [one.kind for one in beyond(found, 0, now_utc())]
    assert kinds == ["index", "index", "clone"]
    assert rag("storage", "prune", "--max-size", "1GB", "--yes").out.startswith("removed 0 items")


def test_a_repository_is_removed_by_its_name(indexed: dict[str, Path]) -> None:
    assert rag("storage", "prune", indexed["bare"], "--yes").out.startswith("removed 2 items")
    for what in ("turns.db", "nothing-of-this-name"):
        assert rag("storage", "prune", what, "--yes").code == 2
    for wrong in (("--older-than", "x"), ("--max-size", "x"), (), ("a", "--max-size", "1GB")):
        assert rag("storage", "prune", *wrong, "--yes").code == 2, wrong
    assert ("turns", "turns.db") in listed()


def test_what_a_server_holds_stays(indexed: dict[str, Path]) -> None:
    home = Settings().home
    (path,) = (path for path, _ in stores(home) if path.name.startswith("bare"))
    entry = home / "refs" / f"{path.stem}.json"
    entry.parent.mkdir()
    entry.write_text("{}")
    with entry.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        done = rag("storage", "prune", indexed["bare"], "--yes")
    assert done.out.startswith("removed 0 items") and "2 items stayed" in done.err
    assert rag("storage", "prune", indexed["bare"], "--yes").out.startswith("removed 2 items")
    assert not entry.exists()


def test_a_cap_is_kept_after_indexing(indexed: dict[str, Path], tmp_path: Path) -> None:
    age(2)
    third = tmp_path / "third"
    third.mkdir()
    (third / "a.py").write_text("def a():\n    return 1\n")
    notices: list[str] = []
    settings = Settings(storage_cap_bytes=1)
    with closing(Engine(settings, notice=notices.append)) as engine:
        engine.repository(str(third))
    assert [name for kind, name in listed() if kind in ("index", "clone")] == [str(third)]
    assert sum("(storage_cap_bytes)" in notice for notice in notices) == 3


def test_an_empty_home_holds_nothing() -> None:
    found = storage(Settings())
    assert (found.size_bytes, found.items) == (0, ())


def test_sizes_and_ages_are_read_as_people_write_them() -> None:
    assert [parse_size(text) for text in ("5GB", "1.5 MB", "2k", "700", "1 GiB")] == [
        5_000_000_000,
        1_500_000,
        2_000,
        700,
        1_000_000_000,
    ]
    assert [parse_age(text).total_seconds() for text in ("1h", "2d", "1w", "1y")] == [
        3600,
        2 * DAY_S,
        7 * DAY_S,
        365 * DAY_S,
    ]
    for wrong in ("", "5 apples", "-1d", "1.5"):
        with pytest.raises(ValueError, match="is not an age"):
            parse_age(wrong)
    with pytest.raises(ValueError, match="is not a size"):
        parse_size("5 apples")
    assert load_settings(environ={"RAG_STORAGE_CAP": "5GB"}).storage_cap_bytes == 5_000_000_000


def test_storage_shows_an_empty_data_folder_and_creates_nothing(isolated_home):
    done = rag("storage")
    assert done.code == 0 and "nothing is stored yet" in done.err
    assert rag("storage", "--json").json["held_in_turns"]["facts"] == 0
    assert not (Settings().home / "turns.db").exists()


def test_the_cached_renames_can_be_removed(indexed):
    folder = Settings().home / "lineage"
    folder.mkdir(exist_ok=True)
    (folder / "one").write_bytes(b"x" * 100)
    assert ("renames", "lineage", True) in [
        (one["kind"], one["name"], one["removable"]) for one in rag("storage", "--json").json["items"]
    ]
    assert rag("storage", "prune", "lineage", "--yes").code == 0
    assert not folder.exists()
