"""The models that a question may choose: those that the operator has named, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import IndexedSample, Served, serving

from tests.servers.provider import ProviderServer

SIGNED = "How are sessions signed?"


@pytest.fixture(scope="module")
def offering(
    tmp_path_factory: pytest.TempPathFactory, indexed_sample: IndexedSample
) -> Iterator[tuple[Served, ProviderServer]]:
    home = tmp_path_factory.mktemp("models")
    command = home / "model"
    command.write_text('#!/bin/sh\ncat >/dev/null\necho "From a command${1:+, $1} [1]."\n')
    command.chmod(0o755)
    with ProviderServer(answers=["From the service [1]."]) as provider:
        engine = {"base_url": provider.base_url, "model": "usual", "api_key": "k", "gate": False}
        repositories = (("sample", indexed_sample.put_into(home)),)
        models = ("other", f"cmd:{command}", f"cmd:{command} again")
        with serving(home, repositories=repositories, engine=engine, models=models, deepwiki=True) as served:
            yield served.ready(), provider


def ask(served: Served, **more: Any) -> Any:
    return served.post("/api/ask", {"question": SIGNED, "repositories": ["sample"], **more})


@pytest.mark.parametrize(("chosen", "sent"), [({}, "usual"), ({"model": "other"}, "other")])
def test_a_question_is_answered_by_the_model_that_it_names(offering, chosen, sent):
    served, provider = offering
    reply = ask(served, **chosen)
    assert reply.json["model"] == sent, reply.json
    assert provider.requests[-1].body["model"] == sent


@pytest.mark.parametrize(
    ("chosen", "text"),
    [("cmd:model", "From a command [1]."), ("cmd:model (2)", "From a command, again [1].")],
)
def test_a_command_of_the_operator_is_chosen_by_the_name_of_its_program(offering, chosen, text):
    served, _ = offering
    assert served.get("/api/models").json["models"] == ["usual", "other", "cmd:model", "cmd:model (2)"]
    reply = ask(served, model=chosen).json
    assert (reply["answer"].strip(), reply["model"]) == (text, "cmd:model")


def test_models_in_files_are_listed_without_their_folders(tmp_path: Path, indexed_sample: IndexedSample):
    repositories = (("sample", indexed_sample.put_into(tmp_path)),)
    engine, models = {"model": f"{tmp_path}/a/q.gguf"}, (f"{tmp_path}/b/q.gguf", f"{tmp_path}/c/r.gguf")
    with serving(tmp_path, repositories=repositories, engine=engine, models=models, deepwiki=True) as served:
        assert served.ready().get("/api/models").json["models"] == ["q", "q (2)", "r"]
        (menu,) = served.get("/models/config").json["providers"]
        assert [model["name"] for model in menu["models"]] == ["q", "q (2)", "r"]


@pytest.mark.parametrize(
    "name", ["unknown", "cmd:touch ran", "/etc/passwd.gguf", "https://example.org/v1", "usual ", "x" * 300]
)
def test_a_model_that_is_not_offered_is_refused_before_anything_is_asked(offering, name):
    served, provider = offering
    before = len(provider.requests)
    reply = ask(served, model=name)
    assert reply.status == 400 and reply.json["error"]["param"] == "model", reply.json
    assert "does not offer the model" in reply.json["error"]["message"]
    assert len(provider.requests) == before


def test_a_server_without_a_model_offers_none(served):
    assert served.get("/api/models").json == {"models": []}
    reply = ask(served, model="gpt-4.1-mini")
    assert reply.status == 400 and "no model is connected" in reply.json["error"]["message"]


def test_the_menu_of_deepwiki_has_the_same_models_and_ignores_others(offering):
    served, provider = offering
    (menu,) = served.get("/models/config").json["providers"]
    assert [model["id"] for model in menu["models"]][:2] == ["usual", "other"]
    for asked, sent in (("other", "other"), ("gpt-4o", "usual"), (None, "usual")):
        body = {"repo_url": "sample", "messages": [{"role": "user", "content": SIGNED}], "model": asked}
        assert served.post("/chat/completions/stream", {**body, "provider": "openai"}).status == 200
        assert provider.requests[-1].body["model"] == sent


def test_without_a_named_model_the_first_is_called_default(tmp_path: Path, indexed_sample: IndexedSample):
    with ProviderServer(models=["only"]) as provider:
        repositories = (("sample", indexed_sample.put_into(tmp_path)),)
        with serving(tmp_path, repositories=repositories, engine={"base_url": provider.base_url}) as served:
            assert served.ready().get("/api/models").json == {"models": ["default"]}
            assert ask(served, model="default").json["model"] == "only"
