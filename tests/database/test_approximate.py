"""A large store is searched by lists, which lose little; what changes later is searched beside them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_quantise import rewritten

from rag.backends.faiss_index import FaissIndex, gather
from rag.corpus.acquire import acquire, resolve
from rag.database import approximate
from rag.database import format as store_format
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.errors import StoreCorrupt
from rag.ports import Rows
from rag.retrieval.dense import nearest
from rag.testing.hashing_embedder import HashingEmbedder

EMBEDDER = HashingEmbedder(32)
BY_LISTS = Options(approximate_from=20, gather=gather)


@pytest.fixture
def indexed(sample_repo: Path, tmp_path: Path):
    def run(options: Options = BY_LISTS, **how):
        checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
        return refresh(checkout, tmp_path / "s.pkl", EMBEDDER, options, **how)

    return run


def test_a_store_has_lists_from_the_size_on_that_is_asked_for(indexed):
    store, report = indexed()
    (rows,) = store.vectors
    about = store.header["approximate"]
    assert rows.lists is not None
    assert about["lists"] == len(rows.lists.centroids) == 3 * int(len(store) ** 0.5)
    assert sorted(rows.lists.rows.tolist()) == list(range(len(store)))
    assert report.recall_at_10 == about["recall_at_10"] >= approximate.RECALL
    for larger in (replace(BY_LISTS, approximate_from=len(store) + 1), replace(BY_LISTS, gather=None)):
        store, report = indexed(larger, rebuild=True)
        assert store.vectors[0].lists is None
        assert report.recall_at_10 is None


def test_the_recall_that_is_stated_is_the_recall_there_is():
    random = np.random.default_rng(0)
    middles = random.standard_normal((50, 24)) * 2
    rows = middles[random.integers(0, 50, 5_000)] + random.standard_normal((5_000, 24))
    codes = np.clip(np.rint(rows * 15), -127, 127).astype(np.int8)
    scale = (1 / np.linalg.norm(codes.astype(np.float32), axis=1)).astype(np.float32)
    columns, about = approximate.with_lists({"vector_codes": codes, "vector_scale": scale}, gather)
    lists = store_lists(columns, about["probes"])
    queries = approximate._sample(codes, scale)
    exact = FaissIndex([Rows(codes, scale)]).search(queries, 10)[1]
    found = FaissIndex([Rows(codes, scale, lists)]).search(queries, 10)[1]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])
    assert recall == pytest.approx(about["recall_at_10"], abs=0.005)
    assert about["probes"] < about["lists"]


def store_lists(columns, probes):
    from rag.ports import Lists

    return Lists(columns["list_centroids"], columns["list_indptr"], columns["list_rows"], probes)


def test_more_is_asked_for_than_the_lists_hold(indexed):
    store, _ = indexed()
    query = store.vector(0)[None]
    cosines, rows = FaissIndex(store.vectors).search(query, len(store))
    assert sorted(rows[0].tolist()) == list(range(len(store)))
    assert rows[0, 0] == 0 or cosines[0, 0] == cosines[0, rows[0].tolist().index(0)]


def test_what_changed_is_searched_beside_the_lists_and_hides_what_it_replaces(indexed, sample_repo):
    before, _ = indexed()
    (sample_repo / "late.py").write_text("def unheard_of_zebra():\n    return 'zebra crossing'\n")
    (sample_repo / "snip" / "auth.py").write_text("def only_this():\n    pass\n")
    store, report = indexed()
    assert report.recall_at_10 == before.recall_at_10
    index = FaissIndex(store.vectors)
    query = EMBEDDER.embed(["zebra crossing unheard_of_zebra"], role="query")[0]
    found = nearest(index, store, query, 5)
    assert store.names(found[:1])[0][0] == "unheard_of_zebra"
    everything = nearest(index, store, query, len(store))
    assert sorted(everything.tolist()) == np.flatnonzero(~store.dead).tolist()
    # A small newest segment has no lists of its own.
    assert [rows.lists is not None for rows in store.vectors] == [True, False]


def test_the_same_rows_give_the_same_lists(indexed):
    first = indexed()[0].vectors[0].lists
    second = indexed(rebuild=True)[0].vectors[0].lists
    assert first is not None and second is not None
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gathering_that_fails_leaves_the_store_that_was(indexed, sample_repo):
    def broken(codes, scale, lists):
        raise MemoryError

    store, _ = indexed()
    header = store.path.read_bytes()
    with pytest.raises(MemoryError):
        indexed(replace(BY_LISTS, gather=broken), rebuild=True)
    assert store.path.read_bytes() == header
    assert not list(store.path.parent.glob(".*.tmp"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda header, columns: columns.pop("list_rows"),
        lambda header, columns: columns.update(list_rows=columns["list_rows"][:-1]),
        lambda header, columns: columns.update(list_rows=columns["list_rows"].astype(np.int64)),
        lambda header, columns: columns.update(list_rows=columns["list_rows"] + 1),
        lambda header, columns: columns.update(list_rows=columns["list_rows"] - 1),
        lambda header, columns: columns.update(list_indptr=columns["list_indptr"] + 1),
        lambda header, columns: columns.update(list_indptr=columns["list_indptr"][::-1]),
        lambda header, columns: columns.update(list_centroids=columns["list_centroids"][:, 1:]),
        lambda header, columns: columns.update(list_centroids=columns["list_centroids"][:0]),
        lambda header, columns: header.update(approximate="yes"),
        lambda header, columns: header.update(approximate={"probes": 0}),
        lambda header, columns: header.update(approximate={"probes": "all"}),
    ],
)
def test_lists_that_do_not_fit_are_an_error(indexed, damage):
    path = indexed()[0].path
    rewritten(path, damage)
    with pytest.raises(StoreCorrupt, match="do not fit"):
        _ = Store.open(path).vectors
    assert store_format.read(path)[0]["id"]


def test_a_hostile_number_of_probes_looks_into_every_list(indexed):
    path = indexed()[0].path
    rewritten(path, lambda header, _: header["approximate"].update(probes=10**9))
    store = Store.open(path)
    _, rows = FaissIndex(store.vectors).search(store.vector(0)[None], 5)
    assert rows.shape == (1, 5)
