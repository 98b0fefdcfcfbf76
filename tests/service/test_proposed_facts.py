"""Facts that are proposed, confirmed, rejected, superseded and shared, as a person types the commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command import rag
from conftest import git

from rag.memory.facts import Fact, Facts
from rag.memory.stated_facts import by_model, by_rule
from rag.service import Engine
from rag.service.checks.facts import add_fact, facts_of
from rag.settings import Settings
from rag.types import AssistantResponse, Citation, DialogTurn, Source, Span
from tests.servers.provider import ProviderServer

REMEMBER = "How is a code made? Remember that codes must have seven characters."


@pytest.fixture
def asked(sample_repo: Path) -> Path:
    """The sample repository at the tag v1, with a conversation that states a fact."""
    git(sample_repo, "tag", "v1")
    done = rag("ask", sample_repo, REMEMBER, "--conversation", "codes")
    assert "proposed as a fact: Codes must have seven characters." in done.err
    return sample_repo


def commit(root: Path, tag: str) -> None:
    (root / "more.txt").write_text(tag)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", tag)
    git(root, "tag", tag)


def prompt_of(repository: Path) -> str:
    """Return the prompt of a question to a model, in a conversation of its own."""
    with ProviderServer() as server:
        model = ("--base-url", server.base_url, "--model", "m")
        rag("ask", repository, "What is a code?", "--conversation", "other", *model)
    return rag("turns", "show", "1", "--prompt", "--conversation", "other").out


def texts(*arguments: object) -> list[str]:
    return [fact["text"] for fact in rag("facts", *arguments, "--json").json]


def test_what_a_user_states_is_a_fact_once_it_is_confirmed(asked: Path) -> None:
    assert texts("list") == []
    (fact,) = rag("facts", "proposed", "--json").json
    assert (fact["text"], fact["kind"], fact["state"]) == (
        "Codes must have seven characters.",
        "constraint",
        "proposed",
    )
    assert fact["valid_from"] == git(asked, "rev-parse", "HEAD")
    shown = rag("facts", "proposed")
    assert f"{fact['id'][:8]}  Codes must have seven characters.  [constraint]" in shown.out
    confirmed = rag("facts", "confirm", fact["id"][:6], "--json").json
    assert (confirmed["state"], confirmed["id"]) == ("confirmed", fact["id"])
    assert (texts("list"), texts("proposed")) == ([fact["text"]], [])
    assert fact["text"] in prompt_of(asked)


def test_a_rejected_fact_is_not_proposed_again(asked: Path) -> None:
    (fact,) = rag("facts", "proposed", "--json").json
    assert rag("facts", "reject", fact["id"]).out == f"rejected: {fact['text']}\n"
    assert rag("facts", "propose", "--conversation", "codes", "--json").json == []
    rag("ask", asked, REMEMBER, "--conversation", "again")
    assert (texts("list"), texts("proposed")) == ([], [])
    assert texts("proposed", "--rejected") == [fact["text"]]
    assert rag("facts", "confirm", fact["id"]).code == 0
    assert rag("facts", "reject", fact["id"]).code == 2


def test_a_newer_fact_closes_an_older_one_only_when_it_is_named(asked: Path) -> None:
    (old,) = rag("facts", "proposed", "--json").json
    rag("facts", "confirm", old["id"])
    commit(asked, "v2")
    new = rag("facts", "add", "Codes have nine characters", "--repo", asked, "--json").json
    assert new["may_supersede"] == [old["id"]]
    assert len(texts("list")) == 2
    closed = rag("facts", "add", "Codes have nine characters", "--repo", asked, "--supersedes", old["id"][:8])
    assert closed.code == 0
    assert texts("list") == ["Codes have nine characters"]
    assert f"superseded by {new['id'][:8]}" in rag("facts", "list", "--all").out
    assert texts("list", "--at", "v1") == [old["text"]]
    assert texts("list", "--at", "v2") == ["Codes have nine characters"]
    assert rag("facts", "list", "--at", "v9").code == 2
    again = rag("facts", "add", old["text"], "--repo", asked, "--supersedes", new["id"], "--json").json
    assert again["id"] != old["id"]
    assert texts("list", "--at", "v1") == [old["text"]]
    rag("facts", "forget", again["id"])
    assert texts("list") == ["Codes have nine characters"]
    rag("facts", "forget", new["id"])
    assert texts("list") == [old["text"]]


def test_what_is_shared_or_superseded_is_not_proposed_again(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_TEAM", "backend")
    (fact,) = rag("facts", "proposed", "--json").json
    assert rag("facts", "confirm", fact["id"], "--scope", "team", "--json").json["scope"] == "team"
    assert rag("facts", "propose", "--conversation", "codes", "--json").json == []
    rag("facts", "add", "Codes have nine characters", "--repo", asked, "--supersedes", fact["id"])
    assert rag("facts", "propose", "--conversation", "codes", "--json").json == []
    assert (texts("proposed"), texts("list")) == ([], ["Codes have nine characters"])
    rag("ask", asked, REMEMBER, "--conversation", "again")
    assert texts("proposed") == [fact["text"]]


def test_a_fact_cannot_replace_itself_or_what_is_not_there(asked: Path) -> None:
    (fact,) = rag("facts", "proposed", "--json").json
    assert rag("facts", "confirm", fact["id"], "--supersedes", fact["id"]).code == 2
    assert rag("facts", "confirm", fact["id"], "--supersedes", "ffff").code == 2
    assert rag("facts", "add", "Nothing of it", "--repo", asked, "--scope", "moon").code == 2


def test_facts_are_shared_with_a_team_and_the_rest_is_not(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rag("facts", "add", "Mine alone", "--repo", asked)
    nobody = rag("facts", "add", "For all", "--repo", asked, "--scope", "team")
    assert nobody.code == 2 and "RAG_TEAM" in nobody.err
    monkeypatch.setenv("RAG_TEAM", "backend")
    shared = rag("facts", "add", "For the whole team", "--turn", "1", "--scope", "team", "--json").json
    assert shared["scope"] == "team" and shared["citations"]
    monkeypatch.setenv("RAG_NAMESPACE", "bob")
    assert texts("list") == ["For the whole team"]
    assert rag("facts", "check", "--json").json[0]["freshness"]["state"] == "fresh"
    assert texts("list", "--scope", "user") == []
    assert "For the whole team" in prompt_of(asked)
    assert rag("facts", "forget", shared["id"][:8]).code == 0
    assert texts("list") == []


def test_the_bytes_that_a_shared_fact_cites_go_with_it(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag.service.upkeep.retention import KeptFiles

    monkeypatch.setenv("RAG_PROJECT", "shop")
    fact = rag("facts", "add", "Codes are made here", "--turn", "1", "--scope", "project", "--json").json
    engine = Engine(Settings())
    blobs = {citation["blob"] for citation in fact["citations"]}
    assert KeptFiles(engine.turns, "project:shop").missing(blobs) == set()
    rag("facts", "forget", fact["id"])
    assert KeptFiles(engine.turns, "project:shop").missing(blobs) == blobs
    engine.close()


def test_facts_of_older_versions_are_confirmed_ones(tmp_path: Path) -> None:
    engine = Engine(Settings(home=tmp_path, memory="memory:"))
    span = Span("r", "a.py", 1, 2, "b" * 40, "c" * 40)
    fact = Facts(engine.turns).add([Fact("It is old", "/r", citations=(Citation(1, span, location="/r"),))])[
        0
    ]
    (record,) = engine.turns.scan_records(shelf="facts")
    written = json.loads(record[1])
    for name in ("state", "kind", "valid_from", "superseded_by", "closed", "scope", "may_supersede"):
        del written[name]
    engine.turns.put_records({record[0]: json.dumps(written).encode()}, shelf="facts")
    assert facts_of(engine).list() == [fact]
    assert facts_of(engine).list()[0].commit == "c" * 40
    engine.close()


def test_a_folder_without_commits_is_compared_by_time(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    engine = Engine(Settings(home=tmp_path / "home", memory="memory:"))
    fact = add_fact(engine, "It has no commits", source=Source(str(folder)))
    assert fact.valid_from == ""
    assert rag("facts", "list", "--at", "v1").code in (0, 2)
    engine.close()


def test_a_models_reply_is_read_line_by_line() -> None:
    cited = tuple(
        Citation(n, Span("r", f"{n}.py", 1, 2, "b", "c" * 40), location="/r", used=n < 3) for n in (1, 2, 3)
    )
    turn = DialogTurn(id="t", order=4, citations=cited)
    reply = """Here they are:
- [5] decision: Tokens live in Redis. [2]
[5] A slug means a code
[9] convention: Of no turn.
none
"""
    first, second = by_model(reply, [turn], ["/r"])
    assert (first.text, first.kind, [c.n for c in first.citations]) == (
        "Tokens live in Redis.",
        "decision",
        [2],
    )
    assert (second.text, second.kind, [c.n for c in second.citations]) == (
        "A slug means a code",
        "definition",
        [1, 2],
    )
    assert (first.turn, first.valid_from) == ("t", "c" * 40)


def test_quoted_lines_are_no_statements(sample_repo: Path) -> None:
    cited = Citation(1, Span("r", "a.py", 1, 2, "b", "c" * 40), location="/r")
    text = 'A code must be unique: `raise ValueError("a code must be unique")` [1].'
    turn = DialogTurn(assistant_response=AssistantResponse(text), citations=(cited,), model="m")
    assert len(by_rule(turn, ["/r"], {})) == 1
    assert by_rule(replace(turn, model="extractive"), ["/r"], {}) == []


def test_an_answer_and_a_model_propose_facts_with_their_lines(asked: Path) -> None:
    answers = [
        "The link with a code must be found, expired or not [1]. Codes must be sold by `weight_kg` [1]. "
        "A short code redirects to its link [2].",
        "- [1] decision: A short code redirects. [2]\n- [1] constraint: Codes must be sold by weight_kg. [1]",
    ]
    with ProviderServer(answers=answers) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        done = rag("ask", asked, "How is a code made?", "--conversation", "model", *model)
        assert "proposed as a fact: The link with a code must be found, expired or not." in done.err
        (found,) = rag("facts", "propose", "--conversation", "model", *model, "--json").json
        assert "[1] User: How is a code made?" in server.requests[-1].prompt
        assert rag("facts", "propose", "--conversation", "model", *model).err.startswith(
            "rag: 0 new proposals"
        )
    turn = rag("turns", "show", "--conversation", "model", "--json").json[0]
    cited = {one["n"]: one["path"] for one in turn["citations"] if one["used"]}
    assert (found["text"], found["kind"]) == ("A short code redirects.", "decision")
    assert [one["path"] for one in found["citations"]] == [cited[2]]
    (said,) = (fact for fact in rag("facts", "proposed", "--json").json if "expired" in fact["text"])
    assert not any("weight" in fact["text"] for fact in rag("facts", "proposed", "--json").json)
    assert (said["turn"], [one["path"] for one in said["citations"]]) == (turn["id"], [cited[1]])
