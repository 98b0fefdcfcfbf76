"""Notebooks, indexed and asked: definitions, callers, exact search, and what becomes of cited cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rag.backends.memory.turns import MemoryTurnStore
from rag.memory.freshness import check
from rag.retrieval.exact import find_text
from rag.service import Engine, Repository
from rag.service.checks.snapshots import FolderState
from rag.service.repositories.read_lines import read_lines
from rag.service.upkeep.retention import KeptFiles
from rag.settings import Settings
from rag.types import ENCODING_GUESSED, OWN_LINES, Citation, Freshness, blob_id

SCORE = [
    "%time import os\n", "\n", "def stoat_score(weights):\n", '    text = "a \\"b\\" c"\n', "    !ls\n",
    "    return sum(weights)\n",
]  # fmt: skip
CALL = ["best = stoat_score([1, 2])\n", "%matplotlib inline\n", "plot(best)"]


def cell(lines: list[str], kind: str = "code", plots: int = 0) -> dict[str, Any]:
    output = {"data": {"image/png": "iVBORw0KGgo" * 20_000}, "metadata": {}, "output_type": "display_data"}
    made: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": lines}
    return made | ({"execution_count": 1, "outputs": [output] * plots} if kind == "code" else {})


def written(*cells: dict[str, Any], language: str = "python", indent: int | None = 1) -> str:
    kernel = {"kernelspec": {"display_name": "K", "language": language, "name": "k"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=indent)


def study(plots: int = 0, indent: int | None = 1) -> str:
    text = cell(["# Stoats\n", "How the score is computed.\n", "## Weights\n", "They are heavy."], "markdown")
    return written(text, cell(SCORE, plots=plots), cell(CALL, plots=plots), indent=indent)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


def indexed(engine: Engine, root: Path) -> Repository:
    return engine.repository(str(root))


@pytest.mark.parametrize("plots", [0, 1, 12])
@pytest.mark.parametrize("indent", [1, None])
def test_a_notebook_defines_calls_and_is_searched_whatever_it_shows(
    engine: Engine, root: Path, plots: int, indent: int | None
) -> None:
    (root / "study.ipynb").write_text(study(plots, indent))
    store = indexed(engine, root).store
    assert store.files() == {"study.ipynb": ("python", "code")}
    (defined,) = store.graph.definitions("stoat_score")
    (call,) = store.graph.callers([defined])
    lines = read_lines(indexed(engine, root), "study.ipynb").text.split("\n")
    assert lines[defined.start - 1] == "def stoat_score(weights):"
    assert lines[call.line - 1] == "best = stoat_score([1, 2])"
    (hit,) = find_text([store], 'text = "a \\"b\\" c"').hits
    assert (hit.text.strip(), hit.language) == ('text = "a \\"b\\" c"', "python")
    chunks = [store.hit(chunk, 0.0, {}) for chunk in range(len(store))]
    assert [(one.symbol, one.kind) for one in chunks] == [
        ("Stoats", "doc"),
        ("stoat_score", "code"),
        ("", "code"),
    ]
    assert [one.text.split("\n")[0] for one in chunks] == [
        "# %% [markdown] cell 1",
        "# %% cell 2",
        "# %% cell 3",
    ]
    assert not find_text([store], "iVBORw0KGgo").hits


def test_the_lines_of_a_chunk_are_those_of_the_file(engine: Engine, root: Path) -> None:
    (root / "study.ipynb").write_text(study(plots=2))
    store = indexed(engine, root).store
    file = (root / "study.ipynb").read_text().split("\n")
    for chunk in range(len(store)):
        hit = store.hit(chunk, 0.0, {})
        head, *rest = file[hit.start - 1 : hit.end]
        assert head.strip() == '"source": ['
        assert [json.loads(line.strip().removesuffix(",")).rstrip("\n") for line in rest] == hit.text.rstrip(
            "\n"
        ).split("\n")[1:]


@pytest.mark.parametrize(
    ("kernel", "code", "language"),
    [
        ("R", ["score <- function(w) {\n", "  sum(w)\n", "}"], "r"),
        ("julia", ["function score(w)\n", "  sum(w)\n", "end"], "julia"),
        ("javascript", ["function score(w) {\n", "  return w;\n", "}"], "javascript"),
        ("scala", ["def score(w: Int): Int = {\n", "  w\n", "}"], "scala"),
        ("unheard-of", ["score"], "text"),
    ],
)
def test_the_code_is_of_the_language_of_the_kernel(
    engine: Engine, root: Path, kernel: str, code: list[str], language: str
) -> None:
    (root / "a.ipynb").write_text(written(cell(code), language=kernel))
    store = indexed(engine, root).store
    assert store.files() == {"a.ipynb": (language, "code")}
    if language != "text":
        assert {store.hit(chunk, 0.0, {}).symbol for chunk in range(len(store))} == {"score"}


@pytest.mark.parametrize(
    "text", ['{"nbformat": 4, "cells": [', "{}\n", '{"nbformat": 4, "cells": []}', "not JSON at all"]
)
def test_what_is_no_notebook_is_indexed_as_its_text(engine: Engine, root: Path, text: str) -> None:
    (root / "a.ipynb").write_text(text)
    assert indexed(engine, root).store.file_text("a.ipynb") == (text, blob_id(text.encode()))


def test_the_report_names_guesses_and_notebooks_without_lines_of_their_own(
    engine: Engine, root: Path
) -> None:
    (root / "a.ipynb").write_text(study(indent=None))
    (root / "b.ipynb").write_text(study())
    (root / "c.py").write_bytes("# токен истёк, ошибка\n".encode("koi8-r"))
    (root / "d.py").write_bytes("# coding: koi8-r\n# токен истёк, ошибка\n".encode("koi8-r"))
    report = indexed(engine, root).report
    assert report is not None
    assert [(one.path, one.reason, one.detail) for one in report.skipped] == [
        ("a.ipynb", OWN_LINES, ""),
        ("c.py", ENCODING_GUESSED, "koi8_r"),
    ]
    assert [remark.split(";")[0] for remark in report.remarks] == [
        "lines count through the cells, not in the file, of the compact notebooks a.ipynb",
        "the encoding of 1 file was guessed: c.py (koi8_r)",
    ]
    assert indexed(engine, root).coverage.skipped == {}


def became(engine: Engine, root: Path, before: str, after: str) -> list[Freshness]:
    """Return what becomes of each chunk of a notebook that is replaced."""
    (root / "a.ipynb").write_text(before)
    repository = indexed(engine, root)
    store, kept = repository.store, KeptFiles(MemoryTurnStore(), "")
    kept.keep({blob_id(before.encode()): before.encode()})
    cited = [Citation(n, store.hit(n, 0.0, {}).span) for n in range(len(store))]
    (root / "a.ipynb").write_text(after)
    return list(check(cited, {"": FolderState(repository.checkout, kept)}))


@pytest.mark.parametrize("indent", [1, None])
def test_outputs_and_cells_above_do_not_make_an_answer_stale(
    engine: Engine, root: Path, indent: int | None
) -> None:
    first, *_ = rest = [cell(SCORE), cell(CALL)]
    before = written(*rest, indent=indent)
    run = became(engine, root, before, written(cell(SCORE, plots=1), cell(CALL, plots=3), indent=indent))
    assert run[0].state == "fresh"
    assert run[1].state in ("fresh", "moved")
    added = became(engine, root, before, written(cell(["x = 1"]), *rest, indent=indent))
    assert {one.state for one in added} == {"moved"}
    changed = became(engine, root, before, written(first, cell([*CALL[:-1], "plot(best, 3)"]), indent=indent))
    assert [one.state for one in changed] == ["fresh", "changed"]
    longer = became(
        engine, root, before, written(first, cell([*CALL[:-1], f"{CALL[-1]}\n", "x = 2"]), indent=indent)
    )
    assert [one.state for one in longer] == ["fresh", "fresh"]
