"""A large store is searched by short codes, which lose little; what changes later is searched exactly."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_quantise import rewritten

from rag.backends import faiss_index
from rag.backends.faiss_index import FaissIndex, shorten
from rag.corpus.acquire import acquire, resolve
from rag.database import approximate
from rag.database import format as store_format
from rag.database.quantise import quantised
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.errors import StoreCorrupt
from rag.ports import Rows, ShortCodes
from rag.retrieval.dense import nearest
from tests.contracts.hashing_embedder import HashingEmbedder

EMBEDDER = HashingEmbedder(32)
BY_SHORT_CODES = Options(approximate_from=20, shorten=shorten)


@pytest.fixture
def indexed(sample_repo: Path, tmp_path: Path):
    def run(options: Options = BY_SHORT_CODES, **how):
        checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
        return refresh(checkout, tmp_path / "s.pkl", EMBEDDER, options, **how)

    return run


def test_a_store_has_short_codes_from_the_size_on_that_is_asked_for(indexed):
    store, report = indexed()
    (rows,) = store.vectors
    about = store.header["short_codes"]
    assert rows.short is not None
    assert about["examined"] == rows.short.examined
    assert rows.short.codebook.shape == (16, 16, 2)
    assert rows.short.packed.shape == (-(-len(store) // 32), 32, 8)
    assert report.recall_at_10 == about["recall_at_10"] >= approximate.RECALL
    for without in ({"approximate_from": len(store) + 1}, {"shorten": None}):
        store, report = indexed(replace(BY_SHORT_CODES, **without), rebuild=True)
        assert store.vectors[0].short is None
        assert report.recall_at_10 is None


def test_the_recall_that_is_stated_is_the_recall_there_is():
    random = np.random.default_rng(0)
    middles = random.standard_normal((50, 24)) * 2
    rows = middles[random.integers(0, 50, 5_000)] + random.standard_normal((5_000, 24))
    codes = np.clip(np.rint(rows * 15), -127, 127).astype(np.int8)
    scale = (1 / np.linalg.norm(codes.astype(np.float32), axis=1)).astype(np.float32)
    columns, about = approximate.with_short_codes({"vector_codes": codes, "vector_scale": scale}, shorten)
    short = ShortCodes(columns["short_codebook"], columns["short_codes"], about["examined"])
    queries = approximate._sample(codes, scale)
    exact = FaissIndex([Rows(codes, scale)]).search(queries, 10)[1]
    found = FaissIndex([Rows(codes, scale, short)]).search(queries, 10)[1]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])
    assert recall == pytest.approx(about["recall_at_10"], abs=0.005)
    assert about["examined"] < len(codes) // 4


def test_blocks_share_the_rows_that_are_compared_exactly(monkeypatch):
    random = np.random.default_rng(1)
    blocks, compared = [], []
    for _ in range(6):
        rows = random.standard_normal((6_000, 24))
        codes = np.clip(np.rint(rows * 30), -127, 127).astype(np.int8)
        scale = (1 / np.linalg.norm(codes.astype(np.float32), axis=1)).astype(np.float32)
        columns, _ = approximate.with_short_codes({"vector_codes": codes, "vector_scale": scale}, shorten)
        blocks.append(Rows(codes, scale, ShortCodes(columns["short_codebook"], columns["short_codes"], 400)))
    queries = approximate._sample(blocks[0].codes, blocks[0].scale)[:20]
    exact = FaissIndex([block._replace(short=None) for block in blocks]).search(queries, 10)[1]
    cosines = faiss_index._cosines

    def counted(block, query, rows=None):
        compared.append(len(block.codes) if rows is None else len(rows))
        return cosines(block, query, rows)

    monkeypatch.setattr(faiss_index, "_cosines", counted)
    found = FaissIndex(blocks).search(queries, 10)[1]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact, strict=True)]) >= 0.97
    assert sum(compared) <= 20 * 2 * 400 + 20 * 6  # ties


def test_all_rows_can_be_asked_for(indexed):
    store, _ = indexed()
    query = store.vector(0)[None]
    cosines, rows = FaissIndex(store.vectors).search(query, len(store))
    assert sorted(rows[0].tolist()) == list(range(len(store)))
    assert rows[0, 0] == 0 or cosines[0, 0] == cosines[0, rows[0].tolist().index(0)]


def test_what_changed_is_searched_exactly_and_hides_what_it_replaces(indexed, sample_repo):
    options = replace(BY_SHORT_CODES, approximate_from=64)
    before, _ = indexed(options)
    assert len(before) >= options.approximate_from
    (sample_repo / "late.py").write_text("def unheard_of_zebra():\n    return 'zebra crossing'\n")
    (sample_repo / "snip" / "auth.py").write_text("def only_this():\n    pass\n")
    store, report = indexed(options)
    assert report.recall_at_10 == before.recall_at_10
    index = FaissIndex(store.vectors)
    query = EMBEDDER.embed(["zebra crossing unheard_of_zebra"], role="query")[0]
    found = nearest(index, store, query, 5)
    assert store.names(found[:1])[0][0] == "unheard_of_zebra"
    everything = nearest(index, store, query, len(store))
    assert sorted(everything.tolist()) == np.flatnonzero(~store.dead).tolist()
    # A small newest segment has no short codes of its own.
    assert [rows.short is not None for rows in store.vectors] == [True, False]


def test_a_part_of_a_tenth_of_a_large_store_has_short_codes(indexed, sample_repo):
    options = replace(BY_SHORT_CODES, approximate_from=64)
    indexed(options)
    functions = (f"def f{n}():\n" + f"    value_{n} = {n}\n" * 60 for n in range(6))
    (sample_repo / "late.py").write_text("\n\n".join(functions))
    store, _ = indexed(options)
    assert 6 <= store.segments[-1].chunk_count < options.approximate_from // 4
    assert all(rows.short is not None for rows in store.vectors)


def test_the_same_rows_give_the_same_short_codes(indexed):
    first = indexed()[0].vectors[0].short
    second = indexed(rebuild=True)[0].vectors[0].short
    assert first is not None and second is not None
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shortening_that_fails_leaves_the_store_that_was(indexed, sample_repo):
    def broken(codes, scale, queries, k):
        raise MemoryError

    store, _ = indexed()
    header = store.path.read_bytes()
    with pytest.raises(MemoryError):
        indexed(replace(BY_SHORT_CODES, shorten=broken), rebuild=True)
    assert store.path.read_bytes() == header
    assert not list(store.path.parent.glob(".*.tmp"))


@pytest.mark.parametrize("dim", [7, 8, 9, 10])
@pytest.mark.parametrize("count", [3, 31, 32, 33, 700])
def test_rows_of_any_width_and_number_are_searched(dim, count):
    vectors = np.random.default_rng(dim).standard_normal((count, dim)).astype(np.float32)
    codes, scale = quantised(vectors)
    book, packed, order = shorten(codes, scale, vectors[:2], count)
    assert order.shape == (2, count) and set(order.ravel().tolist()) <= {-1, *range(count)}
    index = FaissIndex([Rows(codes, scale, ShortCodes(book, packed, 8)), Rows(codes, scale)])
    query = vectors[1] / np.linalg.norm(vectors[1])
    _, rows = index.search(query[None], 2)
    assert sorted(rows[0].tolist()) == [1, count + 1]


@pytest.mark.parametrize("dead_share", [0.0, 0.2, 0.5, 0.9, 0.999, 1.0])
def test_dead_rows_take_no_place_of_others(dead_share):
    random = np.random.default_rng(5)
    codes, scale = quantised(random.standard_normal((4_000, 16)).astype(np.float32))
    query = codes[7] * scale[7]
    near = (codes.astype(np.float32) @ query) * scale
    dead = near > np.quantile(near, 1 - dead_share) if dead_share else near > 2  # the nearest ones are dead
    book, packed, _ = shorten(codes, scale, query[None], 10)
    index = FaissIndex([Rows(codes, scale, ShortCodes(book, packed, 100))])
    cosines, rows = index.search(query[None], 10, dead=dead)
    assert len(rows[0]) == min(10, np.count_nonzero(~dead)) and not dead[rows[0]].any()
    np.testing.assert_allclose(cosines[0], near[rows[0]], rtol=1e-5)


@pytest.mark.parametrize(
    "damage",
    [
        lambda header, columns: columns.pop("short_codes"),
        lambda header, columns: columns.update(short_codes=columns["short_codes"][:-1]),
        lambda header, columns: columns.update(short_codes=columns["short_codes"][:, :16]),
        lambda header, columns: columns.update(short_codes=columns["short_codes"].ravel()),
        lambda header, columns: columns.update(short_codes=columns["short_codes"].view(np.int8)),
        lambda header, columns: columns.update(short_codebook=columns["short_codebook"][1:]),
        lambda header, columns: columns.update(short_codebook=columns["short_codebook"][:, :8]),
        lambda header, columns: columns.update(short_codebook=columns["short_codebook"].astype(np.float64)),
        lambda header, columns: columns.update(short_codebook=columns["short_codebook"][:0]),
        lambda header, columns: header.update(short_codes="yes"),
        lambda header, columns: header.update(short_codes={"examined": 0}),
        lambda header, columns: header.update(short_codes={"examined": "all"}),
    ],
)
def test_short_codes_that_do_not_fit_are_an_error(indexed, damage):
    path = indexed()[0].path
    rewritten(path, damage)
    with pytest.raises(StoreCorrupt, match="do not fit"):
        _ = Store.open(path).vectors
    assert store_format.read(path)[0]["id"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_hostile_codebook_finds_live_rows_only(value):
    codes, scale = quantised(np.random.default_rng(1).standard_normal((900, 8)).astype(np.float32))
    query = codes[3] * scale[3]
    book, packed, _ = shorten(codes, scale, query[None], 1)
    short = ShortCodes(np.full_like(book, value), packed, 50)
    _, rows = FaissIndex([Rows(codes, scale, short)]).search(query[None], 5)
    assert len(set(rows[0].tolist())) == 5 and set(rows[0].tolist()) <= set(range(900))


def test_a_hostile_number_of_examined_rows_compares_all(indexed):
    path = indexed()[0].path
    rewritten(path, lambda header, _: header["short_codes"].update(examined=10**9))
    store = Store.open(path)
    _, rows = FaissIndex(store.vectors).search(store.vector(0)[None], 5)
    assert rows.shape == (1, 5)


def test_a_store_with_the_lists_of_an_older_version_is_searched_exactly(indexed):
    path = indexed()[0].path

    def older(header, columns):
        header["approximate"] = {"lists": 1, "probes": 1, "recall_at_10": 0.98, "sample": 1}
        del header["short_codes"], columns["short_codebook"], columns["short_codes"]
        columns["list_rows"] = np.zeros(1, np.int32)

    rewritten(path, older)
    store = Store.open(path)
    assert store.vectors[0].short is None
    _, rows = FaissIndex(store.vectors).search(store.vector(3)[None], 1)
    assert store.vector(int(rows[0, 0])) == pytest.approx(store.vector(3))
