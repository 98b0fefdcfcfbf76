"""The notebooks run offline from top to bottom, and show what they promise.

`python tests/test_notebooks.py` runs them and writes their outputs again.
"""

import html
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
DRAWN = ("text/markdown", "text/html")


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of a run from top to bottom in a folder."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return tidied(notebook)


def tidied(notebook: Any) -> Any:
    """Leave out what differs from run to run: where something is drawn, its plain form is not kept."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            shown = [kind for kind in DRAWN if kind in output.get("data", {})]
            if shown:
                output.data = {kind: output.data[kind] for kind in shown}
    return notebook


def outputs(notebook: Any, kind: str) -> str:
    """All outputs of one kind: `stdout`, `stderr`, or a MIME type. A busy kernel sends a cell's in pieces."""
    parts = []
    for cell in notebook.cells:
        found = [
            o["text"] if o.get("name") == kind else o["data"][kind]
            for o in cell.get("outputs", ())
            if o.get("name") == kind or kind in o.get("data", {})
        ]
        if found:
            parts.append("".join(found))
    return "\n".join(parts)


def understands_a_codebase(printed: str, drawn: str) -> None:
    assert re.search(r"<th>files</th><td>\d+ of \d+ seen", drawn)
    assert drawn.count("<strong>How is the source of a template turned into tokens?</strong>") == 1
    assert drawn.count("<strong>And who reads them?</strong>") == 1
    assert "searching …" not in drawn, "an answer replaces what was shown while it was searched"
    assert 'href="work/understand/jinja2/' in drawn, "a source opens its file"
    assert '<span class="k">def</span>' in drawn
    assert 'class="dataframe"' in drawn
    turns = re.findall(r"^(\d\. .*)$", printed, re.MULTILINE)
    assert turns[1:] == ["2. And who reads them?", "3. Where is Python code generated"]


def shows_how_a_conversation_ages(printed: str, drawn: str) -> None:
    assert "0.24  2014-03-28" in printed
    assert "2.2.0  2024-04-16" in printed
    for state in ("fresh", "moved", "changed", "gone"):
        assert f" {state}" in drawn
    row = re.search(r"How does JSONWebSignatureSerializer.*?</tr>", drawn, re.DOTALL)
    assert row is not None
    releases = re.findall(r"^([\d.]+)  \d{4}-", printed, re.MULTILINE)
    states = dict(zip(releases, re.findall(r"<td>(\w+)", row[0]), strict=True))
    assert (states["1.1.0"], states["2.1.0"]) == ("fresh", "gone"), "jws.py was removed in 2.1.0"
    assert re.search(r"1\. How is a value signed\?.*itsdangerous\.py:\d+-\d+: changed", printed)
    assert printed.count("[Stale: the code has changed since.") >= 3


def measures_retrieval(printed: str, drawn: str) -> None:
    assert re.search(r"^ndcg 0\.\d", printed, re.MULTILINE)
    assert "rag reranker=student" in drawn
    assert "not found" in printed + drawn
    assert re.search(r"^ndcg +[+-]\.?\d", printed, re.MULTILINE)
    assert "How does a loader find a file?" in drawn


STORIES = {
    "01_understand_a_codebase": understands_a_codebase,
    "02_a_conversation_ages": shows_how_a_conversation_ages,
    "03_measure_retrieval": measures_retrieval,
}


def shows_its_story(path: Path, notebook: Any) -> None:
    assert outputs(notebook, "stderr") == ""
    STORIES[path.stem](
        outputs(notebook, "stdout") + outputs(notebook, "text/plain"),
        outputs(notebook, "text/html") + html.unescape(outputs(notebook, "text/markdown")),
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "data", tmp_path / "data")
    shows_its_story(path, executed(path, tmp_path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_outputs_kept_are_small_and_of_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    shows_its_story(path, notebook)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert not re.search(rf"{re.escape(tempfile.gettempdir())}/|/home/|/root/|/Users/", text)
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-", text)


if __name__ == "__main__":
    for notebook_path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as workplace:
            shutil.copytree(FOLDER / "data", Path(workplace) / "data")
            nbformat.write(executed(notebook_path, Path(workplace)), notebook_path)
