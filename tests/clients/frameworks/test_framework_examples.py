"""The files of `examples/` that use these frameworks, run as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize("name", ["langchain_retriever.py", "llamaindex_retriever.py"])
def test_an_example_prints_places_and_scores(name, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "snip/auth.py" in capsys.readouterr().out
