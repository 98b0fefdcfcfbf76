"""Outlines of a repository, a folder and a file, for questions about them as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rag.database.filtering import filtered
from rag.retrieval import overview
from rag.retrieval.overview import outlines
from rag.retrieval.search import Searcher, search
from rag.service import Engine
from rag.settings import Settings
from rag.types import FileOutline, SearchFilter

LEDGER = """import os


class LedgerBook:
    \"\"\"Holds the entries.\"\"\"

    def add_entry(self, entry):
        return entry


def open_book(path):
    return LedgerBook()


def run(path):
    return open_book(path)
"""
GO = """package rates

// TaxOf returns the tax.
func TaxOf(amount int) int { return amount }
"""
TYPESCRIPT = """export class PageView {
  render(): string {
    return "";
  }
}
"""
FILES = {
    "shop/ledger.py": LEDGER,
    "shop/till.py": "from shop.ledger import open_book\n\n\ndef pay(path):\n    return open_book(path)\n",
    "shop/desk.py": "from shop.ledger import LedgerBook, open_book\n\nbook = open_book(LedgerBook)\n",
    "rates/rates.go": GO,
    "rates/main.go": "package rates\n\nfunc Main() int { return TaxOf(2) }\n",
    "web/page.ts": TYPESCRIPT,
    "web/app.ts": "import { PageView } from './page';\n\nexport const view = new PageView();\n",
    "README.md": "# Shop\n\nThe LedgerBook of a shop.\n",
    "tests/test_ledger.py": "from shop.ledger import LedgerBook\n\nassert LedgerBook()\n",
}


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    root = tmp_path_factory.mktemp("code") / "bookshop"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine.repository(str(root)).searcher


def outlined(searcher: Searcher, question: str) -> list[FileOutline]:
    return list(outlines([searcher], search([searcher], question)))


@pytest.mark.parametrize(
    "question",
    [
        "How does this project work?",
        "Give me an overview of the repository",
        "Describe the architecture",
        "What does bookshop do?",
        "What is in this codebase?",
        "Walk me through the main parts of this application, please.",
    ],
)
def test_a_question_about_the_whole_has_the_most_used_files(searcher: Searcher, question: str) -> None:
    found = outlined(searcher, question)
    assert found[0].path == "shop/ledger.py"
    assert {"rates/rates.go", "web/page.ts"} <= {one.path for one in found}
    assert not {"README.md", "tests/test_ledger.py"} & {one.path for one in found}


def test_an_outline_has_definitions_with_their_lines_and_counts_the_others(searcher: Searcher) -> None:
    outline = outlined(searcher, "How does this project work?")[0]
    assert [(one.start, one.end, one.name) for one in outline.definitions] == [
        (4, 8, "LedgerBook"),
        (7, 8, "LedgerBook.add_entry"),
        (11, 12, "open_book"),
        (15, 16, "run"),
    ]
    assert (outline.repo, outline.path, outline.more) == ("bookshop", "shop/ledger.py", 0)


@pytest.mark.parametrize(
    ("question", "paths"),
    [
        ("What is in the rates module?", {"rates/rates.go", "rates/main.go"}),
        ("Explain the `web` folder", {"web/page.ts"}),
        ("What does shop/ledger.py do?", {"shop/ledger.py"}),
        ("Summarize ledger.py", {"shop/ledger.py"}),
        ("How does the ledger module work?", {"shop/ledger.py"}),
        ("What does the package shop.till contain?", {"shop/till.py"}),
    ],
)
def test_a_named_folder_or_file_is_outlined_alone(searcher: Searcher, question: str, paths: set[str]) -> None:
    assert {one.path for one in outlined(searcher, question)} == paths


@pytest.mark.parametrize(
    "question",
    [
        "How does the ledger module open a book?",
        "How do I use this library?",
        "Where is the tax computed?",
        "How does it work?",
        "How does the parser module work?",
        "What does open_book do?",
        "Which settings does this project read?",
        "",
    ],
)
def test_other_questions_have_no_outline(searcher: Searcher, question: str) -> None:
    assert outlined(searcher, question) == []


def test_files_that_are_not_searched_have_no_outline(searcher: Searcher) -> None:
    only = replace(searcher, index=filtered(searcher.index, SearchFilter(paths=("web/**",))))
    assert {one.path for one in outlined(only, "How does this project work?")} == {"web/page.ts"}


def test_the_outline_of_a_large_file_has_the_first_of_its_definitions(tmp_path: Path) -> None:
    root = tmp_path / "long"
    root.mkdir()
    (root / "long.py").write_text("".join(f"def part_{n}():\n    return {n}\n\n\n" for n in range(60)))
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        found = outlined(engine.repository(str(root)).searcher, "What does long.py do?")
    assert [(len(one.definitions), one.more) for one in found] == [(40, 20)]


def test_files_are_listed_only_for_a_question_about_a_whole(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[object] = []
    original = overview._code_files
    monkeypatch.setattr(overview, "_code_files", lambda index: listed.append(index) or original(index))
    assert not outlined(searcher, "Where is the book opened?")
    assert not listed
    assert outlined(searcher, "How does this project work?")
    assert len(listed) == 1
