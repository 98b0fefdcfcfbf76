"""Names with hyphens and other marks, and languages without a grammar: definitions and who calls them."""

from __future__ import annotations

import pytest

from rag.retrieval.question import spelled_names
from rag.retrieval.search import search

FILES = {
    "session.clj": (
        "(ns app.web)\n\f\n(defn wrap-session [handler]\n  (fn [request] (handler request)))\n\n"
        "(defn valid-key? [key]\n  (= 16 (count key)))\n\n(defn session [key]\n  (assoc key 1))\n"
    ),
    "app.clj": '(ns app.core)\n\n(def app\n  (wrap-session (valid-key? "k")))\n\n(run #\'wrap-session)\n',
    "plugin.vim": (
        "function! s:Hunk(line) abort\n  return a:line\nendfunction\n\n"
        "function! s:Stage() abort\n  let found = s:Hunk(1)\nendfunction\n"
    ),
    "Order.ps1": "function Get-Order {\n  param($Name)\n}\n\n$first = Get-Order -Name a\n",
    "frames.dart": (
        "class Writer {\n  void writeFrame(int size, {int stream = 0}) {\n    print(size);\n  }\n\n"
        "  void done() {\n    var size = writeFrame(1);\n  }\n}\n"
    ),
    "list.R": "as.pairs <- function(x) {\n  x\n}\n\nlet_it <- as.pairs(1)\n",
    "player.gd": "extends Node\n\nfunc take_damage(amount):\n\tpass\n\nfunc fall():\n\ttake_damage(1)\n",
    "blas.fypp": "subroutine scale_all(n)\n  n = 1\nend subroutine\n\nprogram p\ncall scale_all(1)\nend\n",
    "shell.cr": "def self.busy?(job)\n  job.nil?\nend\n\nputs busy?(1)\n",
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("name", "path", "start"),
    [
        ("wrap-session", "session.clj", 3),
        ("valid-key?", "session.clj", 6),
        ("s:Hunk", "plugin.vim", 1),
        ("Get-Order", "Order.ps1", 1),
        ("writeFrame", "frames.dart", 2),
        ("as.pairs", "list.R", 1),
        ("take_damage", "player.gd", 3),
        ("scale_all", "blas.fypp", 1),
        ("busy?", "shell.cr", 1),
    ],
)
@pytest.mark.parametrize("question", ["Where is {} defined?", "What does `{}` do?"])
def test_a_definition_is_found_by_its_name_as_it_is_written(searcher, question, name, path, start):
    first = search([searcher], question.format(name)).hits[0]
    assert first.path == path and first.start <= start <= first.end


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("wrap-session", [("app.clj", 4), ("app.clj", 6)]),
        ("valid-key?", [("app.clj", 4)]),
        ("s:Hunk", [("plugin.vim", 6)]),
        ("Get-Order", [("Order.ps1", 5)]),
        ("writeFrame", [("frames.dart", 7)]),
        ("as.pairs", [("list.R", 5)]),
        ("take_damage", [("player.gd", 7)]),
        ("scale_all", [("blas.fypp", 6)]),
        ("busy?", [("shell.cr", 5)]),
    ],
)
def test_calls_are_those_that_git_would_number_and_no_definition(searcher, name, lines):
    facts = search([searcher], f"Who calls {name}?").code_facts
    assert facts is not None
    assert [(item.path, item.start) for item in facts.items] == lines


@pytest.mark.parametrize("question", ["callers of wrap-session?", "Who calls wrap-session in app.web?"])
def test_the_module_of_a_name_is_not_the_name(searcher, question):
    facts = search([searcher], question).code_facts
    assert facts is not None and facts.subject == "wrap-session"


def test_a_part_of_a_name_with_a_hyphen_is_no_call(searcher):
    facts = search([searcher], "Who calls `session`?").code_facts
    assert facts is not None and facts.count == 0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Who calls valid-key??", ["valid-key??", "valid-key?", "valid-key"]),
        ("who uses fugitive#Rename here?", ["fugitive#Rename"]),
        ("Is open_file called?", []),
        ("", []),
    ],
)
def test_the_words_that_may_be_names(text, names):
    assert set(spelled_names(text)) <= {*names, "called?", "here?"}
    assert not names or set(names) & set(spelled_names(text))
