"""The notebooks run offline from top to bottom, and show what they promise.

`python tests/test_notebooks.py` runs them and writes their outputs anew.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path) -> Any:
    """The notebook with the outputs of a run from top to bottom."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    return tidied(notebook)


def tidied(notebook: Any) -> Any:
    """Leave out what differs from run to run: where something is drawn, its plain form is not kept."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                output.data = {"text/html": output.data["text/html"]}
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


def asks_a_repository(printed: str, drawn: str) -> None:
    assert "left out: .env (likely secret)" in printed
    assert "a-key-that-nobody-should-find" not in printed + drawn
    assert re.search(r"^\[1\] snip/sessions\.py:\d+-\d+ SessionSigner", printed, re.MULTILINE)
    assert "How are sessions signed?</div>" in drawn
    assert "2. And when do they expire?</div>" in drawn
    assert "snip/sessions.py" in drawn
    assert re.search(r"updated: 1 of \d+ files read again", printed)
    assert "5. And who verifies them?" in printed
    assert "You know the repository snip by heart." in printed
    assert re.search(r"^[2-5] turns and \d+ sources in the prompt", printed, re.MULTILINE)


def has_a_memory_that_knows_the_code(printed: str, drawn: str) -> None:
    assert "to be reviewed: ['How are sessions signed?', 'How is a password checked?']" in printed
    assert printed.count("→ ['How is a password checked?']") == 2
    assert "keys\n   1. How are sessions signed?\n   2. And which key signs them?\n" in printed
    for state in ("sessions signed?  [changed]", "rate limited?  [moved]", "clicks counted?  [gone]"):
        assert state in printed
    assert "snip/sessions.py:34-38   moved → snip/sessions.py:35-39" in printed
    for state in ("fresh", "moved", "changed", "gone"):
        assert f">{state}</text>" in drawn
    assert re.search(r"rate limited\?  snip/ratelimit\.py:\S+ \S+: moved → snip/limits\.py:31-41", printed)
    assert printed.count("[Stale: the code has changed since.") == 2
    assert re.search(r"[1-9]\d* lines of the answer differ", printed)
    assert "   - snip/jobs.py:39-51       gone (the lines were deleted)" in printed
    assert "of the first commit the same answer: True\n4 turns, as before" in printed


STORIES = {
    "01_ask_a_repository": asks_a_repository,
    "02_memory_that_knows_the_code": has_a_memory_that_knows_the_code,
}


def shows_its_story(path: Path, notebook: Any) -> None:
    assert outputs(notebook, "stderr") == ""
    STORIES[path.stem](outputs(notebook, "stdout"), outputs(notebook, "text/html"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path: Path) -> None:
    shows_its_story(path, executed(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_outputs_kept_are_small_and_of_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    shows_its_story(path, notebook)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert not re.search(rf"{re.escape(tempfile.gettempdir())}/|/home/|/root/|/Users/", text)
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-", text)


if __name__ == "__main__":
    for notebook_path in NOTEBOOKS:
        nbformat.write(executed(notebook_path), notebook_path)
