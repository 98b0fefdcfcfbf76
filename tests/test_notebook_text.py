"""The cells of notebooks, on the lines of their files."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rag.notebook_text import Notebook, notebook_of, shown_text

PLOT = {"data": {"image/png": "iVBORw0KGgo" * 3_000}, "metadata": {}, "output_type": "display_data"}
STREAM = {"name": "stdout", "output_type": "stream", "text": ["def not_code():\n", "    pass\n"]}
MARKDOWN = ["# Stoats\n", "\n", 'The "score" of `a\\b`.\n', "## Method"]
CODE = [
    "import os\n", "\n", "def score(weights):\n", '    """Return "it"."""\n', "    return sum(weights) % 7\n",
    "\n", "score([1])",
]  # fmt: skip


def code(lines: list[str] | str, *outputs: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": {}, "outputs": list(outputs)}
    return cell | {"source": lines}


def markdown(lines: list[str] | str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": lines}


def notebook(*cells: dict[str, Any], language: str = "python") -> dict[str, Any]:
    return {
        "cells": list(cells),
        "metadata": {
            "kernelspec": {"display_name": "K", "language": language, "name": "k"},
            "language_info": {"name": language},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def third(*cells: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook of nbformat 3."""
    own = [
        {"cell_type": "code", "input": cell["source"], "language": "python", "outputs": cell["outputs"]}
        if cell["cell_type"] == "code"
        else cell
        for cell in cells
    ]
    return {"metadata": {"name": ""}, "nbformat": 3, "worksheets": [{"cells": own, "metadata": {}}]}


def read(text: str, **options: bool) -> Notebook:
    found = notebook_of(text, **options)
    assert found is not None
    assert len(found.text.split("\n")) == len(found.code.split("\n"))
    return found


def lines_of_cells(found: Notebook) -> list[list[str]]:
    lines = found.text.split("\n")
    return [lines[cell.start : cell.end] for cell in found.cells]


CELLS = (markdown(MARKDOWN), code(CODE, PLOT, STREAM), code(["x = 1"]))
WHOLE = (markdown("".join(MARKDOWN)), code("".join(CODE), PLOT), code("x = 1"))
JUPYTER = {
    "indented by one": json.dumps(notebook(*CELLS), indent=1) + "\n",
    "indented by two": json.dumps(notebook(*CELLS), indent=2, ensure_ascii=False),
    "tabs": json.dumps(notebook(*CELLS), indent="\t", sort_keys=True),
    "CR LF": json.dumps(notebook(*CELLS), indent=1).replace("\n", "\r\n"),
    "nbformat 3": json.dumps(third(*CELLS), indent=1),
}
COMPACT = {
    "one line": json.dumps(notebook(*CELLS)),
    "one string a cell": json.dumps(notebook(*WHOLE)),
    "indented, one string a cell": json.dumps(notebook(*WHOLE), indent=1),
}


@pytest.mark.parametrize("form", [*JUPYTER, *COMPACT])
def test_the_cells_are_text_and_the_outputs_are_not(form: str) -> None:
    found = read((JUPYTER | COMPACT)[form])
    expected = [[line.rstrip("\n") for line in lines] for lines in (MARKDOWN, CODE, ["x = 1"])]
    assert lines_of_cells(found) == expected
    assert [(cell.number, cell.is_code) for cell in found.cells] == [(1, False), (2, True), (3, True)]
    assert [line for line in found.text.split("\n") if "%%" in line] == [
        "# %% [markdown] cell 1", "# %% cell 2", "# %% cell 3"
    ]  # fmt: skip
    assert "not_code" not in found.text and "iVBOR" not in found.text
    assert "Stoats" not in found.code and "return sum(weights) % 7" in found.code
    assert found.is_compact == (form in COMPACT)


@pytest.mark.parametrize("form", JUPYTER)
def test_a_line_of_the_text_is_the_line_of_the_file(form: str) -> None:
    text = JUPYTER[form]
    found = read(text)
    shown, written = found.text.split("\n"), text.split("\n")
    assert len(shown) == len(written)
    for cell in found.cells:
        assert written[cell.start - 1].strip() in ('"source": [', '"input": [')
        for row in range(cell.start, cell.end):
            assert json.loads(written[row].strip().removesuffix(",")).rstrip("\n") == shown[row]
    inside = {row for cell in found.cells for row in range(cell.start - 1, cell.end)}
    assert not any(line for row, line in enumerate(shown) if row not in inside)


def test_a_new_cell_above_changes_no_line_that_is_compared() -> None:
    text = json.dumps(notebook(code(["x = 1"]), code(CODE)), indent=1).encode()
    before = [
        line for line in shown_text(json.dumps(notebook(code(CODE)), indent=1).encode()).split("\n") if line
    ]
    assert [line for line in shown_text(text).split("\n") if line] == ["# %%", "x = 1", *before]


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("%time f(1)", "f(1)"),
        ("%timeit -n 3 f(1)", "f(1)"),
        ("    %time f(1)", "    f(1)"),
        ("%matplotlib inline", "0"),
        ("!pip install x", "0"),
        ("    !ls", "    0"),
        ("files = !ls", "files = 0"),
        ("a, b = %env HOME", "a, b = 0"),
        ("f?", "0"),
        ("??f.g", "0"),
        ("x = 5 % 2", "x = 5 % 2"),
        ("    % (a, b))", "    % (a, b))"),
        ("a != b", "a != b"),
        ("print('what?')", "print('what?')"),
        ("x = '!ls'", "x = '!ls'"),
    ],
)
def test_magics_are_shown_and_not_parsed(line: str, parsed: str) -> None:
    found = read(json.dumps(notebook(code(["def f(n):\n", f"{line}\n", "    return n"])), indent=1))
    assert lines_of_cells(found) == [["def f(n):", line, "    return n"]]
    assert [one for one in found.code.split("\n") if one] == ["def f(n):", parsed, "    return n"]


@pytest.mark.parametrize(("magic", "is_parsed"), [
    ("%%time", True), ("%%timeit -n 3", True), ("%%capture out", True), ("%%bash", False), ("%%html", False),
    ("%%writefile a.txt", False), ("%sql", False), ("%md", False),
])  # fmt: skip
def test_a_cell_in_another_language_is_not_parsed(magic: str, is_parsed: bool) -> None:
    found = read(json.dumps(notebook(code([f"{magic}\n", "f(1)"])), indent=1))
    assert lines_of_cells(found) == [[magic, "f(1)"]]
    assert ("f(1)" in found.code) == is_parsed


@pytest.mark.parametrize(
    ("language", "mark"), [("R", "#"), ("julia", "#"), ("scala", "//"), ("C++", "//"), ("", "#")]
)
def test_the_language_is_that_of_the_kernel(language: str, mark: str) -> None:
    found = read(json.dumps(notebook(code(["x"]), language=language), indent=1))
    assert (found.language, found.text.split("\n")[found.cells[0].start - 1]) == (
        language or "python",
        f"{mark} %% cell 1",
    )


def test_odd_characters_are_replaced() -> None:
    text = json.dumps(notebook(code(["x = '\ud800'\n", "y = '\0'\n", "😀"])), indent=1)
    assert lines_of_cells(read(text)) == [["x = '\ufffd'", "y = '\ufffd'", "😀"]]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", "null", '{"cells": []}', '{"cells": 3, "nbformat": 4}',
        '{"cells": [{"source": [1]}]}', '{"cells": ["source", {"x": 1}]}',
        '{"worksheets": [], "cells": [[]]}',
        '{"cells": [{"source": [], "outputs": []}], "nbformat": 4}', '{"cells": [{"source": ["a"]}',
        '{"cells": [{"source": ["a"]}]}}', '{"cells": [{"source": ["a"}]]}',
        '{"cells": [\n<<<<<<< HEAD\n{"source": ["a"]}]}', '{"cells": [{"source": ["a\\q"]}]}',
        '{"cells": [{"source": ["a"], "outputs": ' + "[" * 300 + "]" * 300 + "}]}",
    ],
)  # fmt: skip
def test_what_is_no_notebook_has_no_cells(text: str) -> None:
    assert notebook_of(text) is None
    assert shown_text(b'{"nbformat": 4} ' + text.encode()) == '{"nbformat": 4} ' + text


@pytest.mark.parametrize(
    "piece", ["[", "{", '{"cells":[', '"', "\\", "1,", '{"a":', "[],", '{"cells":[{"source":["a\\n"]}]}', " "]
)
def test_the_time_of_a_hostile_text_is_bounded(piece: str) -> None:
    began = time.thread_time()
    notebook_of(piece * (4_000_000 // len(piece)))
    notebook_of('{"cells":[{"source":["a",' + piece * (4_000_000 // len(piece)))
    assert time.thread_time() - began < 8


def test_plots_of_any_size_cost_little() -> None:
    plot = {"data": {"image/png": "A" * 10_000_000}, "metadata": {}, "output_type": "display_data"}
    text = json.dumps(notebook(*(code(CODE, plot) for _ in range(3))), indent=1)
    began = time.thread_time()
    assert len(lines_of_cells(read(text))) == 3
    assert time.thread_time() - began < 1
