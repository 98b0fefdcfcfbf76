"""A store that is damaged, before a server starts or while it runs, is rebuilt, or named where that fails."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_server import IndexedSample, Served, sample_copy, serving

from rag.service import Engine
from rag.settings import Settings
from rag.types import Source

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut in its head": lambda data: data[:1000],
    "cut in its columns": lambda data: data[: len(data) * 2 // 3 // 4096 * 4096],
    "empty": lambda data: b"",
    "flipped in its columns": lambda data: bytes(
        byte ^ 0x55 if number >= 4096 and number % 7 == 0 else byte for number, byte in enumerate(data)
    ),
    "flipped in one byte": lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:],
    "flipped in its head": lambda data: bytes([*data[:40], data[40] ^ 0xFF, *data[41:]]),
}
ASKED = {"question": "How are sessions signed?", "repositories": ["sample"]}


def store_of(home: Path) -> Path:
    (store,) = [path for path in (home / "stores").glob("*.pkl") if ".part." not in path.name]
    return store


def spoil(home: Path, damage: str) -> bytes:
    """Damage the store in place, as a failing disk does: what is mapped of it changes too."""
    store = store_of(home)
    before = store.read_bytes()
    spoilt = DAMAGE[damage](before)
    assert spoilt != before
    with store.open("r+b") as file:
        file.write(spoilt)
        file.truncate(len(spoilt))
    return spoilt


def found(served: Served) -> list[str]:
    reply = served.post("/api/search", ASKED)
    assert reply.status == 200, reply.body
    return [f"{hit['path']}:{hit['start_line']}" for hit in reply.json["hits"]]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return sample_copy(tmp_path)


@pytest.fixture
def indexed(tmp_path: Path, source: Source) -> Source:
    """A source that the home of a server has an index of."""
    with closing(Engine(Settings(home=tmp_path / "rag-home", memory="memory:"))) as engine:
        engine.repository(source)
    return source


@pytest.fixture(scope="module")
def usual_hits(tmp_path_factory: pytest.TempPathFactory, indexed_sample: IndexedSample) -> list[str]:
    """What is found where no store is damaged."""
    home = tmp_path_factory.mktemp("usual")
    with serving(home, repositories=(("sample", indexed_sample.put_into(home)),)) as running:
        return found(running.ready())


@pytest.fixture
def served(tmp_path: Path, source: Source) -> Iterator[Served]:
    with serving(tmp_path, repositories=(("sample", source),)) as running:
        yield running.ready()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_store_damaged_while_the_server_runs_is_rebuilt(served: Served, damage: str) -> None:
    before = found(served)
    home = served.home / "rag-home"
    spoilt = spoil(home, damage)
    assert found(served) == before
    assert store_of(home).read_bytes() != spoilt
    assert found(served) == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_store_damaged_before_the_server_starts_is_rebuilt(
    tmp_path: Path, indexed: Source, usual_hits: list[str], damage: str
) -> None:
    spoilt = spoil(tmp_path / "rag-home", damage)
    with serving(tmp_path, repositories=(("sample", indexed),)) as served:
        served.wait_until(lambda: served.post("/api/search", ASKED).status != 503)
        assert found(served) == usual_hits
        assert store_of(tmp_path / "rag-home").read_bytes() != spoilt


@pytest.mark.parametrize("damage", ["cut in its columns", "flipped in its columns"])
def test_without_its_source_a_damaged_store_is_named_as_such(
    served: Served, source: Source, damage: str
) -> None:
    assert found(served)
    spoil(served.home / "rag-home", damage)
    shutil.rmtree(source.location)
    _is_named(served)


@pytest.mark.parametrize("damage", ["cut in its columns", "flipped in its columns"])
def test_a_server_that_starts_without_the_source_of_a_damaged_store_names_it(
    tmp_path: Path, indexed: Source, damage: str
) -> None:
    spoil(tmp_path / "rag-home", damage)
    shutil.rmtree(indexed.location)
    with serving(tmp_path, repositories=(("sample", indexed),)) as served:
        _is_named(served)


def _is_named(served: Served) -> None:
    served.wait_until(lambda: served.post("/api/search", ASKED).status != 503)
    reply = served.post("/api/search", ASKED)
    assert reply.status == 424
    said = reply.json["error"]["message"]
    assert "the index of sample is damaged (" in said
    assert "could not be rebuilt: there is no folder" in said
    assert served.get("/health").status == 200


def test_another_file_in_its_place_leaves_what_is_open_in_use(served: Served, source: Source) -> None:
    before = found(served)
    shutil.rmtree(source.location)
    store = store_of(served.home / "rag-home")
    damaged = store.with_suffix(".new")
    damaged.write_bytes(store.read_bytes()[:5000])
    damaged.replace(store)
    assert found(served) == before


def test_over_stdio_a_damaged_store_is_rebuilt(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="the client of the protocol is not installed")
    from test_mcp import called, connected

    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-P", "-m", "rag", "mcp", "--repo", source.location]

    async def search() -> None:
        async with connected(command) as session:
            for _ in range(2):
                text, _, failed = await called(session, "search_code", query="How are sessions signed?")
                assert not failed and "snip/sessions.py" in text
                spoil(tmp_path / "home", "cut in its columns")

    for _ in range(2):  # the second process finds the damage that was done last
        asyncio.run(search())
