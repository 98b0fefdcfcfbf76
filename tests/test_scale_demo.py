"""The demo of several servers, with three repositories: one of each is killed, and nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import git

from tests.servers import postgres
from tools import scale_demo

FILES = 150
"""So many that the build of the repository is seen before it ends, on a fast machine too."""


@pytest.mark.skipif(bool(postgres.missing()), reason="no Postgres can be started here")
def test_one_of_each_is_killed_and_nothing_is_lost(committed_sample: Path, tmp_path: Path) -> None:
    repositories = {name: tmp_path / name for name in ("first", "second", "third")}
    for name, place in repositories.items():
        shutil.copytree(committed_sample, place)
        (place / f"{name}.py").write_text(f"def {name}():\n    return 1\n")  # what the demo asks for
        git(place, "add", "--all")
        git(place, "commit", "--quiet", "--message", "Add a function")
    for number in range(FILES):
        functions = (f"def f{number}_{n}(value):\n    return value + {n}\n\n\n" for n in range(20))
        (repositories["third"] / f"generated_{number}.py").write_text("".join(functions))
    git(repositories["third"], "add", "--all")
    git(repositories["third"], "commit", "--quiet", "--message", "Add generated functions")
    rows = dict(scale_demo.demonstrate(tmp_path, repositories, asked=(3, 5), clients=1))
    print("\n" + "\n".join(f"{name}: {value}" for name, value in rows.items()))
    assert rows["repositories answered by server a, b"] == "3, 3"
    assert rows["acknowledged answers lost"] == "0"
