"""A folder that a question names in words is where its answer is, and that of the next questions."""

from __future__ import annotations

from contextlib import closing

import pytest

from rag.retrieval.named_folders import named_files
from rag.retrieval.search import search_in_turn
from rag.service import Engine
from rag.settings import Settings

ROLES = ("node_exporter", "mysqld-exporter", "blackbox", "grafana")
DEFAULTS = "---\nlisten_address: 0.0.0.0\nmetrics_path: /metrics\n"
TASKS = "---\n- name: Start the exporter\n  service:\n    name: exporter\n    state: started\n"


@pytest.fixture(scope="module")
def searcher(tmp_path_factory):
    root = tmp_path_factory.mktemp("monitoring")
    for role in ROLES:
        for path, text in {"defaults/main.yml": DEFAULTS, "tasks/main.yml": TASKS}.items():
            (root / "roles" / role / path).parent.mkdir(parents=True)
            (root / "roles" / role / path).write_text(text, encoding="utf-8")
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine.repository(str(root)).searcher


@pytest.mark.parametrize(
    ("question", "folder"),
    [
        ("Where does the node exporter role set the metrics path?", "roles/node_exporter"),
        ("What does the mysqld exporter start?", "roles/mysqld-exporter"),
        ("Is the exporter a node?", ""),
        ("Where is the metrics path set?", ""),
        ("", ""),
    ],
)
def test_the_files_of_a_named_folder_are_found(searcher, question, folder):
    paths = [searcher.index.file_path(int(file)) for file in named_files(searcher.index, question)]
    assert sorted(paths) == sorted(f"{folder}/{name}/main.yml" for name in ("defaults", "tasks") if folder)


def test_a_folder_with_most_of_the_files_is_not_a_part(tmp_path):
    (tmp_path / "repo" / "rest_framework").mkdir(parents=True)
    (tmp_path / "repo" / "rest_framework" / "views.py").write_text("def view():\n    pass\n")
    (tmp_path / "repo" / "README.md").write_text("# Views\n")
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        index = engine.repository(str(tmp_path / "repo")).searcher.index
        assert not len(named_files(index, "Where does the rest framework have views?"))


@pytest.mark.parametrize("role", ["node exporter", "mysqld exporter"])
def test_a_conversation_stays_in_the_folder_that_it_named(searcher, role):
    earlier = [f"Which address does the {role} listen on?", "And what is the metrics path?"]
    for asked in (1, 2):
        first, *_ = search_in_turn([searcher], "Where is it started?", earlier[:asked]).hits
        assert first.path.replace("_", "-") == f"roles/{role.replace(' ', '-')}/tasks/main.yml"


def test_words_without_terms_name_no_folder(searcher):
    assert not len(named_files(searcher.index, "sign for _, __ in $ $"))
