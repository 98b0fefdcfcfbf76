"""Pairs from histories: titles of commits, and the definitions that they changed, before the change."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import git

TRAIN = Path(__file__).resolve().parents[2] / "tools" / "train"

LICENCE = "MIT License\n\nPermission is hereby granted, free of charge, to any person …\n"
LINES = "".join(f"    part_{number} = token[{number}:]\n" for number in range(4))
CODE = f"class Keys:\n    def check(self, token):\n{LINES}        return True\n\n\n"
CODE += f"def sign(token):\n{LINES}    return 1\n"
CODE = CODE.replace("    part", "        part", 4)


@pytest.fixture(scope="module")
def miner():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TRAIN))
        import mine_history

        yield mine_history
        for name in ("mine_history", "archives", "pairs", "units"):
            sys.modules.pop(name, None)


def committed(folder: Path, message: str, files: dict[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "acme+locks"
    folder.mkdir()
    git(folder, "init", "--quiet")
    committed(folder, "Begin the project with keys", {"LICENSE": LICENCE, "locks/keys.py": CODE})
    return folder


def test_a_title_finds_the_definition_that_its_commit_changed(miner, folder: Path) -> None:
    commit = committed(
        folder, "fix: refuse tokens that are empty (#12)", {"locks/keys.py": CODE.replace("True", "token")}
    )
    mined = miner.mine(folder / ".git", 10, 1)
    (row,) = mined.rows
    assert (mined.name, mined.licence, mined.commit) == ("acme/locks", "MIT", commit)
    assert (row["query"], row["head"]) == ("refuse tokens that are empty", "locks/keys.py Keys.check")
    assert (row["sort"], row["language"], row["repository"], row["commit"]) == (
        "commit",
        "python",
        "acme/locks",
        commit,
    )
    assert "return True" in row["body"] and "return token" not in row["body"], "as it was before"


@pytest.mark.parametrize(
    "message",
    [
        "Bump version to 1.2.3",
        "Refuse empty tokens",
        "Release of the new version 2.0",
        "Merge branch 'main' into the other",
        "[bot] Refuse tokens that are empty",
    ],
)
def test_chores_and_short_titles_are_left_out(miner, folder: Path, message: str) -> None:
    committed(folder, message, {"locks/keys.py": CODE.replace("True", "token")})
    assert miner.mine(folder / ".git", 10, 1).rows == []


def test_large_commits_tests_and_new_files_are_left_out(miner, folder: Path) -> None:
    committed(folder, "Add many files that are alike", {f"locks/f{n}.py": CODE for n in range(6)})
    changed = CODE.replace("True", "token")
    committed(folder, "Change many files that are alike", {f"locks/f{n}.py": changed for n in range(6)})
    committed(folder, "Test that keys are checked", {"tests/test_keys.py": CODE})
    committed(folder, "Test that keys are checked twice", {"tests/test_keys.py": changed})
    assert miner.mine(folder / ".git", 10, 1).rows == []


@pytest.mark.parametrize("licence", ["GNU GENERAL PUBLIC LICENSE Version 3", "All rights reserved."])
def test_only_permissive_licences_are_mined(miner, folder: Path, licence: str) -> None:
    committed(folder, "Another licence for all of it", {"LICENSE": licence})
    assert miner.mine(folder / ".git", 10, 1).refused == "licence"


def test_repositories_of_the_questions_are_kept_out(miner, folder: Path, tmp_path: Path) -> None:
    other = folder.rename(tmp_path / "pallets+flask")
    assert miner.mine(other / ".git", 10, 1).refused == "kept out"
    assert miner.mine(other.rename(folder) / ".git", 10, 1, ["acme/locks"]).refused == "kept out"


def test_the_command_writes_pairs_and_a_table(
    miner, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(folder, "Refuse tokens that are empty", {"locks/keys.py": CODE.replace("True", "token")})
    (tmp_path / "no+git").mkdir()
    out = tmp_path / "out.jsonl"
    folders = [str(folder / ".git"), str(tmp_path / "no+git")]
    monkeypatch.setattr(sys, "argv", ["mine_history.py", str(out), *folders])
    miner.main()
    assert [json.loads(line)["query"] for line in out.read_text().splitlines()] == [
        "Refuse tokens that are empty"
    ]
    rows = [line.split("\t") for line in out.with_suffix(".tsv").read_text().splitlines()]
    assert [(row[0], row[-1]) for row in rows] == [("acme/locks", "1"), ("no/git", "CalledProcessError")]
