"""Vectors in 8 bits say nearly what they said, and a store whose vectors are damaged is named."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rag.corpus.acquire import acquire, resolve
from rag.database import format as store_format
from rag.database.quantise import quantised, restored
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.errors import StoreCorrupt, StoreOutdated
from tests.contracts.hashing_embedder import HashingEmbedder

EMBEDDER = HashingEmbedder(32)


def unit(vectors):
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32)


@given(
    hnp.arrays(
        np.float32, st.tuples(st.integers(0, 20), st.integers(1, 40)), elements=st.floats(-1, 1, width=32)
    )
)
def test_rows_come_back_as_unit_rows_that_point_the_same_way(vectors):
    vectors = unit(vectors.astype(np.float64))
    back = restored(*quantised(vectors))
    assert back.shape == vectors.shape
    length = np.linalg.norm(back, axis=1)
    there = np.linalg.norm(vectors, axis=1) > 0
    np.testing.assert_allclose(length, there.astype(float), atol=1e-5)
    # Half a step of 1/127 of the largest number, in each of the numbers.
    angle = np.arccos(np.clip((back * vectors).sum(axis=1)[there], -1, 1))
    assert (angle <= 0.5 / 127 * np.sqrt(vectors.shape[1]) + 1e-3).all()


def test_an_index_of_a_store_restores_each_chunk(store_of):
    store = store_of()
    (rows,) = store.vectors
    for chunk in range(len(store)):
        np.testing.assert_allclose(store.vector(chunk), rows.codes[chunk] * rows.scale[chunk], rtol=1e-6)


@pytest.fixture
def store_of(sample_repo: Path, tmp_path: Path):
    def build(**options) -> Store:
        checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
        return refresh(checkout, tmp_path / "s.pkl", EMBEDDER, Options(), **options)[0]

    return build


def rewritten(path: Path, change) -> None:
    """Write a store again as `change(header, columns)` left it."""
    header, columns = store_format.read(path)
    header = {k: v for k, v in header.items() if k not in ("magic", "format", "columns", "data_bytes")}
    columns = {name: column.copy() for name, column in columns.items()}
    change(header, columns)
    store_format.write(path, header, columns)


@pytest.mark.parametrize(
    "damaged",
    [
        {"vector_codes": lambda c: c.view(np.uint8)},
        {"vector_codes": lambda c: c[:-1]},
        {"vector_codes": lambda c: c.ravel()},
        {"vector_scale": lambda c: c[:-1]},
        {"vector_scale": lambda c: c.astype(np.int32)},
        {"vector_scale": lambda c: np.zeros(0, np.float32)},
    ],
)
def test_vectors_that_do_not_fit_are_an_error(store_of, damaged):
    path = store_of().path
    rewritten(path, lambda _, columns: columns.update({n: f(columns[n]) for n, f in damaged.items()}))
    with pytest.raises(StoreCorrupt, match="vectors do not fit"):
        Store.open(path)


def as_format(path: Path, number: int) -> None:
    header, _ = store_format.read(path)
    head = pickle.dumps({**header, "format": number}, 5)
    path.write_bytes(head + bytes(-len(head) % 4096) + path.read_bytes()[-header["data_bytes"] :])


def test_a_store_of_an_older_format_is_made_anew_and_says_so(store_of, sample_repo, tmp_path):
    store = store_of()
    as_format(store.path, store_format.FORMAT - 1)
    with pytest.raises(StoreOutdated, match="rebuild"):
        Store.open(store.path)
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    again, report = refresh(checkout, store.path, EMBEDDER, Options())
    assert (report.action, report.reason) == ("rebuilt", "an older version of rag wrote it")
    assert again.live_count == store.live_count


def test_a_part_of_an_older_format_is_rebuilt_too(store_of, sample_repo, tmp_path):
    store_of()
    (sample_repo / "late.py").write_text("def late():\n    pass\n")
    store = store_of()
    as_format(store.segment_files[1], store_format.FORMAT - 1)
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    again, report = refresh(checkout, store.path, EMBEDDER, Options())
    assert (report.action, report.reason) == ("rebuilt", "an older version of rag wrote it")
    assert again.segment_files == [store.path] and again.defining("late")
    assert not [file for file in store.path.parent.iterdir() if ".part." in file.name]
