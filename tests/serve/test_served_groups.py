"""Groups of repositories through every interface of the server."""

from __future__ import annotations

from typing import Any

import pytest
from live_server import serving

from rag.errors import SettingsError
from rag.serve.config import read_config
from rag.serve.settings import ServerSettings, check_settings
from rag.types import Source

SUBJECTS = ["invoice", "parcel", "ticket", "recipe", "voucher"]
QUESTION = "Where is the recipe loaded?"


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    listed = []
    for number, subject in enumerate(SUBJECTS):
        root = folder / f"repo{number}"
        root.mkdir()
        text = f"def load_{subject}(number):\n    '''Load the {subject}.'''\n    return number\n"
        (root / "app.py").write_text(text)
        listed.append((f"repo{number}", Source(str(root.resolve()))))
    groups = (("last", ("repo2", "repo3", "repo4")),)
    with serving(folder, repositories=tuple(listed), groups=groups, max_repositories=2) as served:
        for name, _ in listed:
            served.wait_until(
                lambda name=name: served.get(f"/api/repositories/{name}").json["state"] == "ready"
            )
        yield served


def note_in(notes: list[str]) -> str:
    (note,) = [one for one in notes if one.startswith("asked 2 of ")]
    return note


@pytest.mark.parametrize(("group", "total"), [("@all", 5), ("@last", 3)])
def test_ask_and_search_choose_by_the_question(grouped, group, total) -> None:
    body = {"question": QUESTION, "repositories": [group]}
    found = grouped.post("/api/search", body).json
    assert found["hits"][0]["repository"] == "repo3"
    assert note_in(found["remarks"]).startswith(f"asked 2 of {total} repositories")
    answer = grouped.post("/api/ask", body).json
    assert answer["sources"][0]["repository"] == "repo3"
    assert "repo3" in note_in(answer["notes"])


def test_a_conversation_keeps_the_repositories_of_its_first_question(grouped) -> None:
    body = {"question": QUESTION, "repositories": ["@all"], "conversation": "kept"}
    first = grouped.post("/api/ask", body).json
    second = grouped.post("/api/ask", body | {"question": "Where is the invoice loaded?"}).json
    assert second["conversation"] == first["conversation"]
    chosen = note_in(first["notes"]).split(": ")[1].split(", ")
    assert {source["repository"] for source in second["sources"]} <= {*chosen}


def test_a_named_repository_is_always_asked(grouped) -> None:
    body = {"question": QUESTION, "repositories": ["repo0", "@last"]}
    assert "repo0, repo3" in note_in(grouped.post("/api/ask", body).json["notes"])


def test_chat_completions_choose_by_the_first_question(grouped) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    first = grouped.post("/v1/chat/completions", {"model": "rag:@all", "messages": messages}).json
    (choice,) = first["choices"]
    assert choice["message"]["annotations"][0]["rag"]["repository"] == "repo3"
    messages += [choice["message"], {"role": "user", "content": "Where is the invoice loaded?"}]
    plain = [{"role": one["role"], "content": one["content"]} for one in messages]
    second = grouped.post("/v1/chat/completions", {"model": "rag:@all", "messages": plain}).json
    assert second["rag"]["conversation"] == first["rag"]["conversation"]


def test_responses_continue_with_the_repositories_of_the_conversation(grouped) -> None:
    first = grouped.post("/v1/responses", {"model": "rag:@all", "input": QUESTION}).json
    more = {"model": "rag:@all", "input": "Where is the invoice?", "previous_response_id": first["id"]}
    second = grouped.post("/v1/responses", more)
    assert second.status == 200, second.body
    assert second.json["rag"]["conversation"] == first["rag"]["conversation"]
    stored = grouped.get(f"/v1/responses/{first['id']}").json
    (part,) = stored["output"][0]["content"]
    assert part["annotations"][0]["filename" if "filename" in part["annotations"][0] else "url"]


def test_models_list_the_groups(grouped) -> None:
    ids = [model["id"] for model in grouped.get("/v1/models").json["data"]]
    assert ids == [*(f"rag:repo{n}" for n in range(5)), "rag:@all", "rag:@last"]
    assert grouped.get("/v1/models/rag:@last").json["id"] == "rag:@last"
    page = grouped.get("/v1/models?after=rag:repo4&limit=1").json
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (["rag:@all"], True)
    assert grouped.get("/v1/models/rag:@none").status == 404


def test_mcp_takes_a_group(grouped) -> None:
    test_mcp = pytest.importorskip("test_mcp")

    async def talk(session: Any) -> Any:
        return await test_mcp.called(session, "ask_question", repoName="@all", question=QUESTION)

    text, result, failed = test_mcp.over_http(grouped, talk)
    assert not failed, text
    assert "asked 2 of 5 repositories" in text
    assert result["sources"][0]["repository"] == "repo3"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"repositories": ["@none"]}, 404, "there is no group '@none'; there are @all, @last"),
        ({"repositories": ["repo0", "repo1", "repo2"]}, 400, "the limit is 2"),
        ({"repositories": ["repo0", "repo1", "@last"]}, 400, "leave out the group"),
        ({"repositories": ["@all"], "mode": "exact"}, 400, "a group needs a question"),
    ],
)
def test_what_cannot_be_asked_is_refused(grouped, body, status, message) -> None:
    reply = grouped.post("/api/search", {"question": QUESTION, **body})
    assert (reply.status, message in reply.body.decode()) == (status, True), reply.body


def test_groups_of_the_file_are_checked(tmp_path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('version = 1\n[repositories]\na = "."\n[groups]\nmine = ["a", "b"]\n')
    found = read_config(file)
    assert found["groups"] == (("mine", ("a", "b")),)
    with pytest.raises(SettingsError, match="the group mine names 'b', which is not under"):
        check_settings(ServerSettings(**found), has_keys=False)
    with pytest.raises(SettingsError, match="max_repositories is 0"):
        check_settings(ServerSettings(max_repositories=0), has_keys=False)
    file.write_text('version = 1\n[groups]\nall = ["a"]\n')
    with pytest.raises(SettingsError, match="groups is invalid: 'all' is not the name of a group"):
        read_config(file)
