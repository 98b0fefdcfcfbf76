"""What a question points at: files and folders it names, and what custom says of any project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.mentions import is_path
from rag.retrieval.search import RetrievalResult, Searcher, search_in_turn
from rag.service import Engine


@pytest.fixture
def found(searcher: Searcher) -> Callable[..., RetrievalResult]:
    def found(question: str, *earlier: str) -> RetrievalResult:
        return search_in_turn([searcher], question, earlier)

    return found


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("What does this project do?", "README.md:1-7"),
        ("What is Snip?", "README.md:1-7"),
        ("What is this about?", "README.md:1-7"),
        ("what does it do?", "README.md:1-7"),
        ("What license is this project under?", "LICENSE:1-17"),
        ("Which version is it?", "pyproject.toml:1-16"),
        ("What Python version does snip need?", "pyproject.toml:1-16"),
        ("How do I run the tests?", "README.md:24-26"),
        ("What are its dependencies?", "pyproject.toml:1-16"),
        ("Where is the main entry point?", "pyproject.toml:1-16"),
        ("What environment variables does it read?", "snip/config.py:30-44"),
        ("How is the code base structured?", "docs/architecture.md:1-3"),
        ("Which CLI options are there?", "snip/cli.py:20-33"),
    ],
)
def test_what_is_asked_of_any_project_is_found_where_custom_has_it(found, searcher, question, place):
    answer = found(question)
    assert answer.hits[0].place == place
    assert judge([searcher], answer).found


@pytest.mark.parametrize(
    "question",
    [
        "version",
        "Where is the version checked?",
        "Which license keys expire?",
        "How do I install a plugin?",
        "What depends on the storage?",
        "How does `install` run?",
        "what does the code do when the version is wrong?",
        "What is a session?",
        "How do I run the tests of the worker against Redis in a container, and where do they leave "
        "their data, if at all, on this machine or another?",
    ],
)
def test_a_question_that_asks_more_points_nowhere(found, question):
    assert not any("pointed" in hit.legs for hit in found(question).hits)


def test_the_text_of_a_readme_comes_before_the_logo_above_it(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "README.md").write_text(
        f'<p align="center">\n  <a href="https://kiln.example"><img src="{"logo" * 40}.png" alt="Kiln"></a>\n'
        "</p>\n\n"
        f"# kiln\n\n[![Build](badge.svg)](ci)\n\n{'Kiln fires pots in the order in which they dry. ' * 8}\n"
    )
    (tmp_path / "kiln.py").write_text("def fire(pot):\n    return pot\n")
    (first, *_) = search_in_turn([engine.repository(str(tmp_path)).searcher], "What is this about?", ()).hits
    assert "Kiln fires pots" in first.text


def test_in_a_conversation_it_is_not_the_project(found):
    asked = "How does snip count clicks?"
    for later in ("How does it start?", "What does this do?"):
        assert not any("pointed" in hit.legs for hit in found(later, asked).hits)
    assert found("What license is this project under?", asked).hits[0].path == "LICENSE"
    assert found("What license is this project under?", asked).hits[0].legs["pointed"] > 0


@pytest.mark.parametrize(
    "question", ["snip/config.py", "What does snip/config.py do?", "Explain snip/config"]
)
def test_a_file_that_is_asked_about_is_found_from_its_beginning(found, question):
    hits = [hit for hit in found(question).hits if "pointed" in hit.legs]
    assert {hit.path for hit in hits} == {"snip/config.py"}
    assert hits[0].start == 1
    assert [hit.start for hit in hits] == sorted(hit.start for hit in hits)


def test_a_folder_that_is_asked_about_is_found_by_the_beginnings_of_its_files(found):
    hits = [hit for hit in found("What is in clients/typescript?").hits if "pointed" in hit.legs]
    assert len({hit.path for hit in hits}) == len(hits) > 2
    assert all(hit.path.startswith("clients/typescript/") for hit in hits)


@pytest.mark.parametrize(
    ("path", "mentioned", "same"),
    [
        ("src/app.py", "app.py", True),
        ("src/app.py", "./src/app.py", True),
        ("src/app.py", "src/app", True),
        ("app.py", "/home/me/shop/app.py", True),
        ("src/app.py", "lib/app.py", False),
        ("src/webapp.py", "app.py", False),
        ("src/app", "src/app", True),
        ("LICENSE", "src/LICENSE.d", False),
    ],
)
def test_a_path_may_lack_its_first_folders_or_its_extension(path, mentioned, same):
    assert is_path(path, mentioned) is same
