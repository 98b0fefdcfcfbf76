"""Questions mined from a repository that is made here, commit by commit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import rag
from conftest import git

from rag.errors import SettingsError
from rag.evaluation.mine import doc_lines, first_sentence, mine_commits, question_of
from rag.service import Engine
from rag.settings import Settings
from rag.types import Hit, Span

Commit = Callable[..., str]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "grown"
    root.mkdir()
    git(root, "init", "--quiet")
    return root


@pytest.fixture
def commit(repo: Path) -> Commit:
    def make(title: str, **files: str | None) -> str:
        for name, text in files.items():
            path = repo / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--allow-empty", "--message", title)
        return git(repo, "rev-parse", "HEAD")

    return make


def test_commits_ask_the_tree_before_the_oldest_of_them(repo: Path, commit: Commit, tmp_path: Path) -> None:
    commit("Begin", a_py="def a():\n    return 1\n", b_py="def b():\n    return 1\n", README_md="hello\n")
    before = commit("Bump version to 2", a_py="def a():\n    return 2\n")
    first = commit("fix(core): count the umbrellas that came back (#12)", a_py="umbrellas = 3\n")
    commit("Describe how the umbrellas are counted", README_md="umbrellas\n")
    commit("Make the new cellar for the umbrellas", cellar_py="cellar = 1\n")
    commit("Sweep every single room at once", **{f"r{n}_py": f"r = {n}\n" for n in range(6)})
    commit("Rename what b.py says about rain", b_py="rain = 1\n")
    last = commit("Let both of them know of the rain", a_py="x = 1\n", b_py="y = 1\n", c_py="z = 1\n")
    mined = mine_commits(Engine(Settings(home=tmp_path / "home")), repo, 10)
    found = {r["id"]: (r["question"], [a["path"] for a in r["answers"]]) for r in mined.records}
    assert found == {
        last[:12]: ("Let both of them know of the rain", ["a.py", "b.py"]),
        first[:12]: ("count the umbrellas that came back", ["a.py"]),
    }
    assert "umbrellas" not in (mined.root / "a.py").read_text(), "the tree holds what the commit brought"
    assert git(mined.root, "rev-parse", "HEAD") == before


@pytest.mark.parametrize(
    "title",
    [
        "Bump lodash from 1 to 2 in /web",
        "chore(deps): update all of them",
        "v2.3.1 is out for everyone",
        "Merge branch 'x' into main",
        "fix typo",
        "docs: say what it does and why",
        "[pre-commit.ci] autoupdate",
    ],
)
def test_chores_ask_nothing(title: str) -> None:
    assert question_of(title) == ""


def test_a_repository_without_telling_commits_says_what_to_do(repo: Path, commit: Commit) -> None:
    commit("Begin", a_py="a = 1\n")
    with pytest.raises(SettingsError, match="--mine docstrings"):
        mine_commits(Engine(Settings()), repo, 10)


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


def test_the_command_measures_commits(repo: Path, commit: Commit) -> None:
    commit("Begin", a_py="def count_umbrellas():\n    return 1\n", b_py="def dig():\n    return 2\n")
    commit("Count umbrellas that came back", a_py="def count_umbrellas():\n    return 2\n")
    done = rag("eval", repo, "--mine", "commits", "--json")
    assert done.code == 0, done.err
    assert "1 question from 1 commit, " in done.err
    assert done.json["groups"][0]["rows"][0]["means"]["ndcg"] == 1.0


def test_mining_is_of_one_folder(tmp_path: Path) -> None:
    assert "give DIR" in rag("eval", "--mine", "commits").err
    assert "no folder" in rag("eval", tmp_path / "none", "--mine", "commits").err
    done = rag("eval", tmp_path, "--mine", "commits")
    assert done.code == 2
    assert "git history" in done.err
