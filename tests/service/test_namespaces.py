"""What a namespace holds, how it is moved, and that its deletion leaves nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from command import rag

from rag.service import Engine
from rag.settings import Settings
from rag.types import now_utc
from tests.servers.provider import ProviderServer

QUESTION = "How is a code made? Remember that codes are short."


@pytest.fixture
def two(sample_repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same question in two namespaces; only `ci` has a fact, a preference and a cached answer."""
    rag("ask", sample_repo, QUESTION)
    monkeypatch.setenv("RAG_NAMESPACE", "ci")
    with ProviderServer(answers=["A short code is made here [1]."]) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        rag("ask", sample_repo, QUESTION, "--cache", "--conversation", "codes", *model)
    rag("facts", "add", "Codes are made here", "--turn", "1")
    rag("prefer", "style", "short")
    monkeypatch.delenv("RAG_NAMESPACE")
    return sample_repo


def held() -> dict[str, dict[str, int]]:
    return {one.pop("namespace"): one for one in rag("memory", "namespaces", "--json").json}


def test_everything_of_a_namespace_goes_together(two: Path) -> None:
    before = held()
    ci = before["ci"]
    assert {name: ci[name] for name in ("conversations", "turns", "facts", "preferences")} == {
        "conversations": 1,
        "turns": 1,
        "facts": 2,
        "preferences": 1,
    }
    assert ci["cached_answers"] == ci["prompts"] == 1 and ci["files"] > 1
    refused = rag("memory", "delete", "ci", stdin="n\n")
    assert refused.code == 2 and "1 conversation, 1 turn, 2 facts, 1 preference" in refused.err
    assert held() == before
    gone = rag("memory", "delete", "ci", "--yes", "--json").json
    assert {name: gone[name] for name in ci} == ci
    assert held() == {"": before[""]}
    assert rag("memory", "delete", "ci", "--yes").code == 2
    engine = Engine(Settings())
    assert list(engine.turns.dump(namespace="ci")) == []
    engine.close()


def test_a_namespace_is_exported_and_imported_as_a_whole(two: Path, tmp_path: Path) -> None:
    file = tmp_path / "ci.jsonl"
    assert rag("turns", "export", "--namespace", "ci", "-o", file).code == 0
    before = held()["ci"]
    rag("memory", "delete", "ci", "--yes")
    assert rag("turns", "import", file, "--namespace", "copy").out == "stored 1 conversation\n"
    assert held()["copy"] == before
    assert rag("turns", "export", "--namespace", "nowhere").code == 2


def test_old_conversations_go_and_facts_stay_with_their_files(two: Path) -> None:
    before = held()["ci"]
    kept = rag("memory", "delete", "ci", "--older-than", "1d", "--yes")
    assert kept.out == "deleted nothing\n" and held()["ci"] == before
    gone = rag("memory", "delete", "ci", "--older-than", "0h", "--yes")
    assert gone.out.startswith("deleted 1 conversation, 1 turn, 1 cached answer, 1 prompt")
    now = held()["ci"]
    assert (now["turns"], now["facts"], now["preferences"], now["prompts"]) == (0, 2, 1, 0)
    assert 0 < now["files"] <= before["files"]
    wrong = rag("memory", "delete", "ci", "--older-than", "soon", "--yes")
    assert wrong.code == 2 and "is not an age" in wrong.err


def test_the_retention_of_a_namespace_is_set_shown_and_applied(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "everything is kept" in rag("memory", "retention").err
    (would,) = rag("memory", "retention", "ci", "1h", "--dry-run", "--json").json
    assert would["expired"]["turns"] == 0
    assert "everything is kept" in rag("memory", "retention").err  # a dry run sets nothing
    assert rag("memory", "retention", "ci", "30m").code == 2
    assert rag("memory", "retention", "ci", "0d").code == 2
    assert rag("memory", "retention", "ci", "90d").code == 0
    assert "retention of ci: 90d, last applied: never" in rag("storage").err
    assert rag("storage", "show", "--json").json["retention_s"] == {"ci": 90 * 86_400}
    later = now_utc() + timedelta(days=100)
    monkeypatch.setattr("rag.cli.memory.now_utc", lambda: later)
    before = held()
    refused = rag("memory", "retention", "ci", "60d", stdin="n\n")
    assert refused.code == 2 and "1 conversation, 1 turn, 2 facts, 1 cached answer" in refused.err
    assert held() == before
    assert "1 turn" in rag("memory", "retention").out and held() == before
    (gone,) = rag("memory", "retention", "--apply", "--json").json
    assert (gone["deleted"]["turns"], gone["deleted"]["facts"]) == (1, 2)
    after = held()
    assert after[""] == before[""] and after["ci"]["turns"] == after["ci"]["facts"] == 0
    assert after["ci"]["preferences"] == 1 and after["ci"]["files"] == 0
    rag("memory", "retention", "ci", "off")
    assert "everything is kept" in rag("memory", "retention").err
