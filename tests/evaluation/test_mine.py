"""Questions mined from the documentation of a repository."""

import json
from pathlib import Path

import pytest
from command import rag

from rag.evaluation.mine import doc_lines, first_sentence
from rag.types import Hit, Span

BACK = "Give the umbrella back to its owner"
DOCUMENTED = [
    ("python", f'def f():\n    """{BACK}.\n\n    More.\n    """\n    x = 1\n', [1, 2, 3, 4], BACK),
    ("python", "def f():\n    return 1\n", [], ""),
    (
        "rust",
        "  /// Give the umbrella back\n  /// to its owner. It is wet.\n  #[must_use]\n  fn f() {}\n",
        [0, 1],
        BACK,
    ),
    ("java", f"/**\n * {BACK}.\n *\n * @param x the umbrella\n */\nvoid f() {{}}\n", [0, 1, 2, 3, 4], BACK),
    ("go", "// Give the umbrella back to its\n// owner.\nfunc Give() {}\n", [0, 1], BACK),
    ("ruby", f"# {BACK}\ndef give\nend\n", [0], BACK),
]


@pytest.mark.parametrize(("language", "text", "offsets", "sentence"), DOCUMENTED)
def test_documentation_is_found_where_it_stands(
    language: str, text: str, offsets: list[int], sentence: str
) -> None:
    lines = doc_lines(Hit(Span("r", "f", 1, 9, symbol="f"), text, 1.0, unit="function", language=language))
    assert [offset for offset, _ in lines] == offsets
    assert first_sentence(lines) == sentence


def test_mined_docstrings_are_proper_questions_about_emptied_docs(sample_repo: Path, tmp_path: Path) -> None:
    saved = tmp_path / "mined.jsonl"
    done = rag("eval", sample_repo, "--mine", "docstrings", "-n", 8, "--json", "--save", saved)
    assert done.code == 0, done.err
    records = [json.loads(line) for line in saved.read_text().splitlines()]
    assert len(records) == 8
    measured = done.json
    assert measured["groups"][0]["count"] == 8
    assert measured["starts"]["rag"][0]["tree"].endswith("docs emptied")


def test_a_repository_without_documentation_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    done = rag("eval", tmp_path, "--mine", "docstrings")
    assert done.code == 2
    assert "write some questions" in done.err


def test_mining_is_of_one_folder(tmp_path: Path) -> None:
    assert "give DIR" in rag("eval", "--mine", "docstrings").err
    assert "no folder" in rag("eval", tmp_path / "none", "--mine", "docstrings").err
