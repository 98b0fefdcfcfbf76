"""Records of a dump that a stranger wrote, or that are damaged: no command fails on them with a traceback."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from rag import parsing
from rag.parsing import decompressed, stored_number, stored_text
from tests.command import rag
from tests.servers.provider import ProviderServer

_VALUES = {
    "empty": b"",
    "no text": b"\xff\x00junk",
    "another object": b'{"a": [1]}',
    "a number": b"-1",
    "a long number": b"9" * 5_000,
    "deep": b"[" * 50_000,
    "compressed junk": zlib.compress(b"\xff\xfejunk"),
    "compressed list": zlib.compress(b"[1, 2]"),
    "compressed deep": zlib.compress(b"[" * 50_000),
    "cut": zlib.compress(b"text" * 100)[:-6],
    "too large": zlib.compress(b"x" * 20_000),
}
_COMMANDS = (
    ("turns", "list"),
    ("turns", "show", "1"),
    ("turns", "show", "1", "--prompt"),
    ("turns", "check"),
    ("turns", "about", "auth.py"),
    ("turns", "consolidate"),
    ("turns", "export", "--all"),
    ("facts", "list"),
    ("facts", "check"),
    ("prefer",),
    ("cache", "stats"),
    ("ask", ".", "What does check_token return?", "--cache"),
    ("turns", "undo", "--yes"),
)


@pytest.fixture
def dump(tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the lines of a dump with a record of every kind; the current folder is the repository."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    Path("auth.py").write_text("def check_token(token):\n    return token == 1\n")
    memory = f"sqlite:///{tmp_path}/first.db"
    for words in (
        ("ask", ".", "What does check_token return?", "--cache"),
        ("facts", "add", "Tokens are numbers.", "--turn", "1"),
        ("prefer", "style", "short"),
        ("turns", "consolidate"),
    ):
        assert rag(*words, "--memory", memory).code == 0
    with ProviderServer() as server:
        model = ("--base-url", server.base_url, "--model", "m")
        assert rag("ask", ".", "What is a token?", "--memory", memory, *model).code == 0
    return [json.loads(line) for line in rag("turns", "export", "--all", "--memory", memory).out.splitlines()]


@pytest.mark.parametrize("kind", _VALUES)
def test_no_command_fails_on_a_damaged_record(
    kind: str, dump: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "MAX_DECOMPRESSED_BYTES", 10_000)
    shelves = {line["record"]["shelf"] for line in dump if "record" in line}
    assert shelves >= {"answer", "answer-count", "answer-turn", "blob", "facts", "preferences", "prompt"}
    for line in dump:
        if "record" in line:
            line["record"]["value"] = base64.b64encode(_VALUES[kind]).decode()
    file = tmp_path / "hostile.jsonl"
    file.write_text("\n".join(map(json.dumps, dump)))
    memory = ("--memory", f"sqlite:///{tmp_path}/second.db")
    assert rag("turns", "import", file, *memory).code == 0
    for words in _COMMANDS:
        done = rag(*words, *memory)  # raises what is no exit code
        assert done.code in (0, 1, 2), (words, done)
    assert "check_token" in rag("ask", ".", "What does check_token return?", *memory).out


def test_what_is_decompressed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MAX_DECOMPRESSED_BYTES", 1_000)
    assert decompressed(zlib.compress(b"x" * 1_000)) == b"x" * 1_000
    for damaged in (zlib.compress(b"x" * 1_001), zlib.compress(b"x")[:-1], b"", b"x"):
        with pytest.raises(zlib.error):
            decompressed(damaged)


def test_damaged_text_and_numbers_are_read_as_far_as_possible() -> None:
    assert stored_text("a\udc80".encode("utf-8", "surrogatepass")) == "a\udc80"
    assert stored_text(b"a\xff") == "a\ufffd"
    assert [stored_number(record, -1) for record in (b"-7", b"12", None, b"", b"1.5", b"9" * 20)] == [
        -7,
        12,
        -1,
        -1,
        -1,
        -1,
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"sources": [{"location": "\ud800"}]},
        {"sources": [{"location": "a\0b"}]},
        {"sources": [{"location": "/a", "ref": "\ud800"}]},
        {"sources": [{"location": "/a", "ref": "a\0b"}]},
        {"turn_count": float("inf")},
        {"turn_count": {}},
        {"message_count": "many"},
        {"message_count": -1},
    ],
)
def test_a_conversation_that_can_be_no_conversation_is_refused(
    change: dict[str, Any], dump: list[dict[str, Any]], tmp_path: Path
) -> None:
    for line in dump:
        if "conversation" in line:
            line["conversation"] |= change
    (tmp_path / "hostile.jsonl").write_text("\n".join(map(json.dumps, dump)))
    memory = ("--memory", f"sqlite:///{tmp_path}/second.db")
    refused = rag("turns", "import", tmp_path / "hostile.jsonl", *memory)
    assert refused.code == 2 and "nothing was stored" in refused.err
