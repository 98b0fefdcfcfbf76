"""What the benchmark of growth measures is a real store, only larger."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rag.backends import gather_rows, open_vector_index
from rag.backends.static_embedder import StaticEmbedder
from rag.corpus.acquire import acquire, resolve
from rag.database import format as store_format
from rag.database.store import Store
from rag.database.update import Options, refresh
from rag.retrieval.search import Searcher, search
from tools.benchmarks.resampled import resampled
from tools.benchmarks.scale import exponent, write_tree

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_exponent_is_that_of_the_power_law():
    for power in (0.0, 0.5, 1.0):
        assert exponent([(n, 3.0 * n**power) for n in (1e5, 3e5, 1e6)]) == pytest.approx(power)


def test_a_resampled_store_is_a_store(sample_repo, tmp_path):
    checkout = acquire(resolve(str(sample_repo)), home=tmp_path)
    embedder = StaticEmbedder()
    base, _ = refresh(checkout, tmp_path / "base.pkl", embedder, Options(gather=gather_rows))
    header, columns = resampled(base.path, 5 * len(base), 1)
    store_format.write(tmp_path / "large.pkl", header, columns)
    large = Store.open(tmp_path / "large.pkl")
    assert 5 * len(base) <= len(large) < 7 * len(base)
    for term in ("session", "token", "link"):
        chunks = large.postings(term).chunks
        assert (np.diff(chunks) > 0).all()
        assert len(chunks) > 2 * len(base.postings(term).chunks)
    for path in large.known_files():  # the rules of kinds read the graphs of files
        original = path.partition("/")[2]
        assert large.code_graph(path) == base.code_graph(original)
        assert large.bytes_of(path) == base.bytes_of(original)
    searcher = Searcher(large, embedder, open_vector_index(large.vectors))
    hits = search([searcher], "Where are sessions signed?", k=20).hits
    assert len(hits) == 20
    assert all(hit.text.strip() and hit.path.startswith("copy") for hit in hits)
    for name in {hit.symbol for hit in hits} - {""}:
        assert len(large.defining(name)) > 1


def test_the_tree_has_as_many_files_as_asked_for_and_no_two_alike(sample_repo, tmp_path):
    paths = write_tree(sample_repo, tmp_path / "tree", 40)
    assert len({path.read_text() + path.name for path in paths}) == 40
    assert len(list((tmp_path / "tree").rglob("*.py"))) == 40


def test_without_its_input_it_says_so(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.benchmarks",
            "--only",
            "scale",
            "--cache",
            str(tmp_path),
            "--results",
            str(tmp_path),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not measured: Django 5.2: cannot fetch" in done.stdout
