"""The same values through every interface: the JSON of each as a file, and one citation object in all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from command import rag
from live_server import Served
from test_mcp import called, over_http

GOLDEN = Path(__file__).parent.parent / "golden" / "json"
UPDATE = "UPDATE_GOLDEN"  # set this in the environment to write the files again
QUESTION = "How are session tokens signed?"
NAME = "golden"
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|chatcmpl-[0-9a-f]{32}")
_CHANGING = {
    **dict.fromkeys(("asked", "answered", "created", "updated"), "TIME"),
    **dict.fromkeys(("location", "repositories"), "PLACE"),
    **dict.fromkeys(("x", "y"), "PLACED"),
    **dict.fromkeys(("score", "legs", "value", "first_right", "seconds", "checked_ago_s"), "NUMBER"),
    **dict.fromkeys(("prompt_hash", "prompt_tokens", "answer_tokens", "total_tokens"), "PROMPT"),
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "metadata"), "PROMPT"),
}
"""Fields that differ from run to run, from machine to machine, or with the words of a template."""


def steady(value: Any, left_out: frozenset[str] = frozenset(), name: str = "") -> Any:
    """JSON without what changes from run to run, and without some names."""
    if name in _CHANGING and value is not None and not (name == "answered" and isinstance(value, bool)):
        return _CHANGING[name]
    if isinstance(value, dict):
        return {key: steady(one, left_out, key) for key, one in value.items() if key not in left_out}
    if isinstance(value, list):
        return [steady(one, left_out, name) for one in value]
    if isinstance(value, str):
        return re.sub(r"http://127\.0\.0\.1:\d+", "http://server", _IDS.sub("ID", value))
    return value


@pytest.fixture(scope="module")
def sent(served: Served) -> dict[str, Any]:
    """What each interface sends of one turn, of its conversation, and of a search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_HOME", str(served.home / "rag-home"))
        question = {"question": QUESTION, "repositories": ["sample"]}
        asked = served.post("/api/ask", question | {"conversation": NAME})
        turn, where = asked.json["turn"], f"/api/conversations/{asked.json['conversation']}"
        source = served.service.registry.source("sample").location
        chat = {"model": "rag:sample", "messages": [{"role": "user", "content": QUESTION}]}
        export = served.get(f"{where}/export").body.decode().splitlines()

        cli_ask = rag("ask", source, QUESTION, "--json").json  # before the fact, which prompts show
        fact = served.post("/api/facts", {"text": "Tokens are signed", "turn": turn}).json

        async def through_mcp(session: Any) -> tuple[Any, ...]:
            facts = (await called(session, "facts", repoName="sample"))[1]
            checked = (await called(session, "check_turns", conversation=NAME))[1]
            about = (await called(session, "turns_about", path=fact["citations"][0]["path"]))[1]
            answer = (await called(session, "ask_question", repoName="sample", question=QUESTION))[1]
            hits = (await called(session, "search_code", query=QUESTION, limit=1))[1]
            turns = await session.read_resource(f"turns://conversations/{NAME}")
            return answer, hits, json.loads(turns.contents[0].text), facts, checked, about

        mcp = over_http(served, through_mcp)
        return {
            "api_ask": asked.json,
            "api_turn": served.get(f"/api/turns/{turn}").json,
            "api_conversation": served.get(where).json,
            "api_freshness": served.get(f"{where}/freshness").json,
            "api_search": served.post("/api/search", question | {"k": 1}).json,
            "api_facts": served.get("/api/facts?check=true").json,
            "api_calls": served.get("/api/repositories/sample/calls?symbol=sign_session").json,
            "api_wiki": served.get("/api/repositories/sample/wiki").json,
            "openai_chat": served.post("/v1/chat/completions", chat).json,
            "mcp_ask": mcp[0],
            "mcp_search": mcp[1],
            "mcp_turns": mcp[2],
            "mcp_facts": mcp[3],
            "mcp_check_turns": mcp[4],
            "mcp_turns_about": mcp[5],
            "cli_facts": rag("facts", "check", "--json").json,
            "cli_turns_show": rag("turns", "show", "--conversation", NAME, "--json").json,
            "cli_turns_check": rag("turns", "check", NAME, "--json").json,
            "cli_turns_list": [one for one in rag("turns", "list", "--json").json if one["name"] == NAME],
            "cli_ask": cli_ask,
            "cli_search": rag("search", source, QUESTION, "-k", 1, "--json").json,
            "export": [json.loads(line) for line in export],
        }


@pytest.mark.parametrize(
    "name",
    [
        *("api_ask", "api_turn", "api_conversation", "api_freshness", "api_search", "openai_chat"),
        *("mcp_ask", "mcp_search", "mcp_turns", "export", "cli_ask", "cli_search"),
        *("cli_turns_show", "cli_turns_check", "cli_turns_list"),
        *("api_calls", "api_wiki"),
        *("api_facts", "mcp_facts", "cli_facts", "mcp_check_turns", "mcp_turns_about"),
    ],
)
def test_what_an_interface_sends_is_as_it_was(sent: dict[str, Any], name: str) -> None:
    found = json.dumps(steady(sent[name]), indent=2, ensure_ascii=False) + "\n"
    file = GOLDEN / f"{name}.json"
    if UPDATE in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8"), f"{UPDATE}=1 writes the file again"


def test_a_citation_is_the_same_object_in_every_interface(sent: dict[str, Any]) -> None:
    (exported,) = [line["turn"] for line in sent["export"] if "turn" in line]
    choice = sent["openai_chat"]["choices"][0]["message"]
    shown = {
        "api_ask": sent["api_ask"]["sources"],
        "api_turn": sent["api_turn"]["citations"],
        "api_freshness": sent["api_freshness"][0]["citations"],
        "openai_chat": [one["rag"] for one in choice["annotations"]],
        "mcp_ask": sent["mcp_ask"]["sources"],
        "mcp_turns": sent["mcp_turns"][0]["citations"],
        "api_facts": sent["api_facts"][0]["citations"],
        "mcp_facts": sent["mcp_facts"]["facts"][0]["citations"],
        "cli_facts": sent["cli_facts"][0]["citations"],
        "mcp_check_turns": sent["mcp_check_turns"]["turns"][0]["citations"],
        "cli_ask": sent["cli_ask"]["sources"],
        "cli_turns_show": sent["cli_turns_show"][0]["citations"],
        "cli_turns_check": sent["cli_turns_check"][0]["citations"],
        "export": exported["citations"],
    }
    added = frozenset({"url", "freshness"})
    first = {name: steady(citations[0], added) for name, citations in shown.items()}
    assert first["cli_ask"]["symbol"]
    assert all(citation == first["export"] for citation in first.values()), first


def test_an_answer_and_its_turn_agree(sent: dict[str, Any]) -> None:
    asked, (shown,) = sent["cli_ask"], sent["cli_turns_show"]
    names = asked.keys() & shown.keys() - {"citations", "conversation"}
    assert {"question", "answer", "number", "usage", "model", "complete"} <= names
    agreed = names - {"trace"}  # its seconds differ: they are two runs
    assert {name: asked[name] for name in agreed} == {name: shown[name] for name in agreed}
    assert steady(asked["trace"]) == steady(shown["trace"])
    assert sent["api_ask"]["trace"]
    assert sent["api_turn"]["usage"] == shown["usage"] == sent["api_ask"]["usage"]
    assert sent["api_ask"]["confidence"] == asked["confidence"] == sent["openai_chat"]["rag"]["confidence"]
