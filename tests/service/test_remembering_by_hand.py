"""`rag turns search`, `consolidate`, `show --prompt`, `rag facts`, `rag prefer`, as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import rag
from conftest import git

from tests.servers.provider import ProviderServer

QUESTION = "How is a token signed?"
CODE = '''def sign_the_token(token, pepper):
    """Sign a token with the pepper of the house."""
    mixture = stir(token, pepper)
    return seal(mixture, with_wax=True)
'''


@pytest.fixture
def asked(sample_repo: Path) -> Path:
    """The sample repository, of which one question was asked in the conversation `signing`."""
    write(sample_repo, CODE)
    assert rag("ask", sample_repo, QUESTION, "--conversation", "signing").code == 0
    return sample_repo


def write(root: Path, text: str) -> None:
    (root / "signing.py").write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "next")


def ask_model(repository: Path, question: str, conversation: str) -> None:
    with ProviderServer() as server:
        model = ("--base-url", server.base_url, "--model", "m")
        assert rag("ask", repository, question, "--conversation", conversation, *model).code == 0


def test_words_find_what_was_said(asked):
    rag("ask", asked, "What is in 北京?", "--conversation", "places", "--no-gate")
    found = rag("turns", "search", "tokenSigned")
    assert found.out.startswith(f"signing 1. {QUESTION}\n   This is possibly in function `sign_the_token`")
    assert found.out.endswith("[…]\n")
    assert "sign_the_token" in found.out.splitlines()[1][:60]
    assert [one["question"] for one in rag("turns", "search", "北京", "--json").json] == ["What is in 北京?"]
    assert rag("turns", "search", "token", "--conversation", "places", "-k", "1").code in (0, 1)
    nothing = rag("turns", "search", "zeppelin")
    assert (nothing.code, nothing.out) == (1, "")
    assert rag("turns", "search", "token", "--conversation", "nowhere").code == 2


def test_a_conversation_is_consolidated_once(asked):
    nothing = rag("turns", "consolidate", "signing", "--keep-recent", "10")
    assert nothing.out == "" and "summarised 0 new turns of signing" in nothing.err
    first = rag("turns", "consolidate", "signing")
    assert first.out.startswith(f"- {QUESTION} — quoted `sign_the_token`")
    assert "1 new turn of signing" in first.err
    again = rag("turns", "consolidate", "--json").json
    assert again["turns"] == 0
    assert again["summary"] == first.out.rstrip("\n")


def test_what_the_model_was_shown_is_shown_again(asked):
    without_model = rag("turns", "show", "1", "--prompt")
    assert without_model.out.startswith("1. no prompt of this turn is stored")
    ask_model(asked, QUESTION, "shown")
    shown = rag("turns", "show", "1", "--prompt", "--conversation", "shown")
    assert shown.out.startswith("SYSTEM: You answer questions")
    assert f"Question: {QUESTION}" in shown.out
    (record,) = rag("turns", "show", "1", "--prompt", "--conversation", "shown", "--json").json
    assert record["prompt"].rstrip() == shown.out.rstrip()


def test_a_fact_holds_as_long_as_its_lines(asked):
    assert rag("facts").code == 0
    added = rag("facts", "add", "Tokens are signed with pepper", "--turn", "1", "--json").json
    assert added["citations"]
    assert rag("facts", "check", "--json").json[0]["freshness"]["state"] == "fresh"
    assert "Tokens are signed with pepper" in rag("facts", "list", "--repo", asked).out
    write(asked, CODE.replace("True", "False"))
    checked = rag("facts", "check")
    assert f"{added['id'][:8]}  Tokens are signed with pepper  [changed]" in checked.out
    rag("ask", asked, QUESTION, "--conversation", "again")
    rag("facts", "add", "tokens are signed with pepper.", "--turn", "1", "--conversation", "again")
    (renewed,) = rag("facts", "check", "--json").json
    assert (renewed["id"], renewed["freshness"]["state"]) == (added["id"], "fresh")
    shipped = rag("facts", "add", "It ships on Fridays", "--json", cwd=Path(asked)).json
    assert shipped["location"] == rag("facts", "list", "--json").json[0]["location"], "of the current folder"
    assert rag("facts", "forget", added["id"][:6]).out == "forgot: Tokens are signed with pepper\n"
    assert rag("facts", "forget", added["id"]).code == 2
    assert [fact["text"] for fact in rag("facts", "list", "--json").json] == ["It ships on Fridays"]


def test_what_is_preferred_is_told(asked):
    assert rag("prefer", "language", "zh-CN").out == "language: zh-CN\n"
    rag("prefer", "examples", "true")
    assert rag("prefer", "--json").json == {"examples": True, "language": "zh-CN"}
    ask_model(asked, "What is sealed with wax?", "wax")
    shown = rag("turns", "show", "1", "--prompt", "--conversation", "wax").out
    assert 'Answer in the language with the code "zh-CN"' in shown
    assert "- examples: true" in shown
    assert rag("prefer", "examples", "--forget").code == 0
    assert rag("prefer", "examples", "--forget").code == 1
    assert rag("prefer", "--forget").code == 2
    nothing = rag("prefer", "examples")
    assert (nothing.code, nothing.out) == (1, "") and "there is no preference examples" in nothing.err
    assert rag("prefer", "examples", "--json").json == {}
