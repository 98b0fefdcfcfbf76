"""What an error or an answer advises can be done in the interface that shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rag
from rag.errors import ContextTooSmall, ConversationChanged, ConversationMismatch
from rag.hints import _HINTS, for_callers

PACKAGES = (
    "agent",
    "answer",
    "answer_cache",
    "corpus",
    "memory",
    "prompt",
    "retrieval",
    "review",
    "service",
    "turns",
)
COMMAND = re.compile(r"`rag (?!serve|keys|worker)[a-z]|(?<![\w`])--[a-z]{2,}")
OF_GIT = re.compile(r"`git |\bgit config|\bdiff --git|%\(|--format=%")
OF_OPERATORS = {
    # of commands that no caller of a server starts: setup, publishing, backups, groups of the command line,
    # storage, the import of sessions; and an expression
    "rag/corpus/secrets.py",
    "rag/corpus/shared_files.py",
    "rag/service/upkeep/backup.py",
    "rag/service/loop/current_conversation.py",
    "rag/service/repositories/discovery.py",
    "rag/service/repositories/engine.py",
    "rag/service/repositories/groups.py",
    "rag/service/upkeep/model_choices.py",
    "rag/service/upkeep/namespace_retention.py",
    "rag/service/upkeep/namespaces.py",
    "rag/service/checks/sessions.py",
    "rag/service/checks/shared_facts.py",
    "rag/service/repositories/shared_stores.py",
    "rag/service/repositories/storage.py",
}
SOURCES = Path(rag.__file__).parent


def messages() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for file in sorted((SOURCES / package).rglob("*.py")):
            tree = ast.parse(file.read_text())
            parts = {
                id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
            }
            documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if id(node) in parts | documents:
                    continue
                if isinstance(node, ast.JoinedStr):
                    text = "".join(one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                else:
                    continue
                if " " in text and not OF_GIT.search(text):
                    yield f"rag/{file.relative_to(SOURCES).as_posix()}", text


@pytest.mark.parametrize("interface", ["api", "mcp"])
def test_no_message_for_callers_of_a_server_names_a_command(interface):
    named = {(path, text) for path, text in messages() if COMMAND.search(for_callers(text, interface))}
    assert {pair for pair in named if pair[0] not in OF_OPERATORS} == set()
    assert {path for path, _ in named} == OF_OPERATORS


def test_an_unknown_conversation_names_the_route_that_lists_them(served):
    said = served.get("/api/conversations/nonsense").json["error"]["message"]
    assert said == "there is no conversation 'nonsense'; GET /api/conversations lists the existing ones"


@pytest.mark.parametrize("interface", ["api", "mcp"])
def test_only_our_own_option_for_a_ref_is_renamed(interface):
    assert for_callers("name a branch with --ref.", interface) == "name a branch with ref."
    for other in ("git ls-remote --refs", "git clone --reference x", "a---ref", "there is no branch '--ref'"):
        assert for_callers(other, interface) == other


def test_every_hint_is_one_of_a_message():
    known = [text for _, text in messages()]
    known += map(
        str,
        (
            ContextTooSmall(context_tokens=1, needed_tokens=2, what="it"),
            ConversationChanged(conversation="a", expected="b", found="c"),
            ConversationMismatch(conversation="a", about="b", asked="c"),
        ),
    )
    for hint in _HINTS:
        assert any(hint in text for text in known), hint
