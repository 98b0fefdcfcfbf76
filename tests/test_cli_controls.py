"""No command passes on text that commands a terminal, wherever its output goes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import typer
from command import rag
from conftest import git

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b]0;title\x07 \x1b[2J \x9b31m \u202e \u2066"
ASKED = "What does check_token do?"

COMMANDS = {
    "ask": ("ask", "REPO", ASKED),
    "chat": ("chat", "REPO"),
    "search": ("search", "REPO", ASKED),
    "index": ("index", "REPO", "--verbose"),
    "wiki": ("wiki", "REPO", "--output", "OUT"),
    "prefer": ("prefer", "language", f"en{HOSTILE}"),
    "eval": ("eval", "REPO", "--mine", "docstrings", "-n", "2"),
    "doctor": ("doctor", "--quick"),
    "agents list": ("agents", "list"),
    "agents install": ("agents", "install", f"codex{HOSTILE}"),
    "agents uninstall": ("agents", "uninstall", "codex"),
    "turns list": ("turns", "list"),
    "turns show": ("turns", "show"),
    "turns search": ("turns", "search", "check_token"),
    "turns check": ("turns", "check"),
    "turns about": ("turns", "about", "evil.py", "--repo", "REPO"),
    "turns consolidate": ("turns", "consolidate"),
    "turns fork": ("turns", "fork", "1", "--name", f"second{HOSTILE}"),
    "turns edit": ("turns", "edit", "1", "--question", f"{ASKED} {HOSTILE}"),
    "turns mark": ("turns", "mark", f"good{HOSTILE}", "1"),
    "turns unmark": ("turns", "unmark", f"good{HOSTILE}", "1"),
    "turns rename": ("turns", "rename", f"named{HOSTILE}"),
    "turns export": ("turns", "export", "--all"),
    "turns import": ("turns", "import", "FILE"),
    "turns backup": ("turns", "backup", "OUT"),
    "turns restore": ("turns", "restore", "FILE"),
    "review": ("review", "--repo", "REPO"),
    "check": ("check", "--repo", "REPO", "--all"),
    "explore": ("explore", "REPO", "check_token", "--words", HOSTILE),
    "setup": ("setup", "--use", f"cmd:true {HOSTILE}"),
    "facts add": ("facts", "add", f"It holds {HOSTILE}", "--turn", "1"),
    "facts list": ("facts", "list", "--repo", "REPO"),
    "facts check": ("facts", "check", "--repo", "REPO"),
    "facts propose": ("facts", "propose"),
    "facts proposed": ("facts", "proposed"),
    "facts confirm": ("facts", "confirm", HOSTILE),
    "facts reject": ("facts", "reject", HOSTILE),
    "facts forget": ("facts", "forget", HOSTILE),
    "facts push": ("facts", "push", "--repo", "REPO", "--remote", HOSTILE),
    "facts pull": ("facts", "pull", "--repo", "REPO", "--remote", HOSTILE),
    "storage show": ("storage", "show"),
    "storage prune": ("storage", "prune", HOSTILE),
    "storage shared": ("storage", "shared", "--remove", HOSTILE, "--yes"),
    "jobs list": ("jobs", "list", "--shared", HOSTILE),
    "jobs show": ("jobs", "show", "1", "--shared", f"postgresql:///{HOSTILE}?host=/nowhere"),
    "jobs cancel": ("jobs", "cancel", "1", "--shared", f"postgresql:///{HOSTILE}?host=/nowhere"),
    "jobs add": (
        "jobs",
        "add",
        "REPO",
        "--ref",
        HOSTILE,
        "--shared",
        "postgresql:///x?host=/nowhere",
    ),
    "worker": ("worker", "--shared", f"postgresql:///{HOSTILE}?host=/nowhere"),
    "memory namespaces": ("memory", "namespaces"),
    "memory delete": ("memory", "delete", HOSTILE, "--yes"),
    "memory retention": ("memory", "retention", HOSTILE, "90d", "--yes"),
    "keys add": ("keys", "add", HOSTILE),
    "keys list": ("keys", "list"),
    "keys renew": ("keys", "renew", HOSTILE, "--expires", "30d"),
    "keys rotate": ("keys", "rotate", HOSTILE),
    "keys remove": ("keys", "remove", HOSTILE),
    "keys import": ("keys", "import", HOSTILE),
    "memory sweep": ("memory", "sweep"),
    "memory persistence": ("memory", "persistence"),
    "settings": ("settings", "--memory", f"sqlite:///{HOSTILE}.db"),
    "admin": ("admin",),
    "cache stats": ("cache", "stats"),
    "cache list": ("cache", "list"),
    "cache clear": ("cache", "clear"),
    "turns rewind": ("turns", "rewind", "1", "--yes"),
    "turns undo": ("turns", "undo"),
    "turns delete": ("turns", "delete", "1", "--yes"),
}
"""Each command that may print what others wrote, in an order in which there is something to print."""
SERVERS = {"serve", "mcp"}
"""They write logs and protocol messages, not answers."""


def leaves(group, before=()):
    for name, command in group.commands.items():
        path = (*before, name)
        yield from leaves(command, path) if getattr(command, "commands", None) else [" ".join(path)]


@pytest.fixture
def hostile_repo(tmp_path):
    root = tmp_path / "hostile"
    root.mkdir()
    text = f'def check_token(token):\n    """Check a token: {HOSTILE}."""\n    return token  # {HOSTILE}\n'
    (root / "evil.py").write_text(text)
    (root / "esc\x1b[31m\u202e.py").write_text(text.replace("check", "look_at"))
    (root / "\x1b[31m.bin").write_bytes(b"\0" * 100)
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"Begin {HOSTILE}")
    return root


def test_every_command_is_listed_here():
    from rag.cli import app

    assert set(leaves(typer.main.get_command(app))) == COMMANDS.keys() | SERVERS


def test_no_command_writes_controls_of_what_others_wrote(hostile_repo, tmp_path):
    assert rag("ask", hostile_repo, ASKED).code == 0
    exported = tmp_path / "turns.jsonl"
    exported.write_text(rag("turns", "export", "--all").out)
    places = {"REPO": hostile_repo, "OUT": tmp_path / "wiki", "FILE": exported}
    for name, words in COMMANDS.items():
        done = rag(*(places.get(word, word) for word in words), stdin=f"{ASKED}\n/quit\n")
        assert done.code in (0, 1, 2, 3), name
        assert done.out or done.err, name
        assert not CONTROLS.search(done.out), name
        assert not CONTROLS.search(done.err), name


def test_no_command_fails_on_invalid_settings_with_a_traceback(sample_repo, tmp_path):
    home = Path(os.environ["RAG_HOME"])
    home.mkdir()
    (home / "config.toml").write_text("colour = 1\n")
    places = {"REPO": sample_repo, "OUT": tmp_path / "wiki", "FILE": tmp_path / "none.jsonl"}
    done = {name: rag(*(places.get(word, word) for word in words)) for name, words in COMMANDS.items()}
    without = {name for name, one in done.items() if one.code not in (2, 3) or "config.toml" not in one.err}
    assert without == {"admin", "agents list", "agents install", "agents uninstall"}


def test_raw_output_is_as_it_is_and_json_escapes(hostile_repo):
    said = rag("--raw", "search", hostile_repo, ASKED).out
    assert HOSTILE in said
    assert "�" in rag("search", hostile_repo, ASKED).out
    found = rag("search", hostile_repo, ASKED, "--json")
    assert not CONTROLS.search(found.out)
    assert HOSTILE in json.loads(found.out)["hits"][0]["text"]


def test_what_is_exported_is_imported_as_it_was(hostile_repo, tmp_path):
    assert rag("ask", hostile_repo, f"{ASKED} {HOSTILE}").code == 0
    exported = tmp_path / "turns.jsonl"
    exported.write_text(rag("turns", "export", "--all").out)
    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    assert rag("turns", "import", exported, "--memory", elsewhere).code == 0
    before, after = (rag("turns", "show", "--json", *m).json for m in ((), ("--memory", elsewhere)))
    assert [turn["question"] for turn in before] == [turn["question"] for turn in after]
    assert HOSTILE in before[0]["question"]
