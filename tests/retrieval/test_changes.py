"""A pasted change: what is read from it, and that its tests come first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from rag.retrieval.changes import read_change
from rag.retrieval.search import search
from rag.service import Engine, Repository, locate
from rag.service.tools.explore import explore
from rag.settings import Settings

FILES = {
    "app/tokens.py": "def check_token(header):\n    return header == 'secret'\n",
    "app/routes.py": "from app.tokens import check_token\n\n\ndef show(header):\n"
    "    return check_token(header)\n",
    "tests/test_tokens.py": "from app.tokens import check_token\n\n\ndef test_a_token_expires():\n"
    "    assert not check_token('old')\n",
    "tests/test_other.py": "def test_nothing():\n    assert True\n",
    "README.md": "# App\n\nChecks the expiry of tokens in a header.\n",
}
DIFF = """\
diff --git a/app/tokens.py b/app/tokens.py
index 1111111..2222222 100644
--- a/app/tokens.py
+++ b/app/tokens.py
@@ -1,2 +1,2 @@ def check_token(header):
-    return header == 'secret'
+    return header == 'other'
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("app")
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine.repository(locate(str(folder)))


@pytest.mark.parametrize(
    "text",
    [
        f"Expiry of tokens\n\n{DIFF}",
        "Expiry of tokens\n\napp/tokens.py\n",
        "Expiry of tokens\n\nM\tapp/tokens.py\nA\tapp/new.py",
        "Expiry of tokens\n\nChanged files: app/routes.py, app/tokens.py",
        "Expiry of tokens\n- `app/tokens.py`\n- `app/routes.py`",
    ],
)
def test_the_tests_of_a_change_come_first(repository: Repository, text: str) -> None:
    found = search([repository.searcher], text, k=5)
    assert found.hits[0].path == "tests/test_tokens.py"
    assert "changed file" in found.remarks[-1]
    explored = explore(repository, text, counter=_Counter())
    assert explored.places[0].path == "tests/test_tokens.py"


@pytest.mark.parametrize(
    "text",
    [
        "Where is the expiry of tokens checked?\napp/tokens.py",
        "Tokens expire too early\nFile: app/tokens.py\nSeen in the header",
        "app/tokens.py",
        "Expiry of tokens\n\nmissing/file.py",
        "Expiry of tokens\n\ntests/test_tokens.py",
    ],
)
def test_other_texts_with_paths_are_questions(repository: Repository, text: str) -> None:
    found = search([repository.searcher], text, k=5)
    assert not found.changed
    assert not found.remarks


def test_the_lines_of_a_diff_are_left_out() -> None:
    said, changed = read_change(f"Title\n\n{DIFF}")
    assert changed == ("app/tokens.py",)
    assert said == "Title\ndef check_token(header):\napp/tokens.py"
    assert read_change(said) == (said, changed)


class _Counter:
    def count(self, text: str) -> int:
        return len(text) // 4
