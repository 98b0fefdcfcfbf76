"""Where the repository holds no answer every way of asking says so, and no model is sent anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from command import rag

from rag import RAG, Answer, Dialog, Engine, load_settings
from rag.errors import SettingsError
from rag.service import aconverse, converse
from rag.testing.provider_server import ProviderServer

KAFKA = "Where are Kafka messages consumed?"
SIGNED = "How are sessions signed?"


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(answers=["Nowhere [1]."]) as running:
        yield running


def dialog_on(sample_repo, **flags) -> Dialog:
    engine = Engine(load_settings({"memory": "memory:", **flags}))
    return Dialog(engine, [engine.repository(str(sample_repo))])


def ask(dialog: Dialog, question: str) -> Answer:
    *pieces, answer = converse(dialog, question, dialog.engine.generator())
    assert isinstance(answer, Answer)
    assert "".join(map(str, pieces)) == answer.text
    return answer


def test_what_is_missing_is_named_with_what_came_nearest(sample_repo):
    answer = ask(dialog_on(sample_repo), KAFKA)
    assert not answer.found
    assert answer.text.startswith(
        "Not found in sample_repo.\n\nLooked for *Kafka*, *messages* and *consumed*."
    )
    assert "*Kafka* stands nowhere in it." in answer.text
    assert f"- `{answer.hits[0].place}`" in answer.text
    assert (answer.citations, answer.sources, answer.model, answer.usage.total_tokens) == ((), (), "", 0)
    assert answer.confidence is not None
    assert answer.confidence.absent == ("Kafka",)


async def test_every_way_of_asking_refuses_alike_and_sends_nothing(sample_repo, server):
    dialog = dialog_on(sample_repo, base_url=server.base_url)
    texts = [ask(dialog, KAFKA).text]
    async for piece in aconverse(dialog, KAFKA, dialog.engine.generator()):
        if isinstance(piece, Answer):
            texts.append(piece.text)
    component = RAG(base_url=server.base_url)
    component.prepare_retriever(str(sample_repo))
    texts += [component(KAFKA).text, "".join(component.stream(KAFKA)), (await component.acall(KAFKA)).text]
    asked = rag("ask", sample_repo, KAFKA, "--base-url", server.base_url)
    texts.append(asked.out)
    assert asked.code == 1
    assert len(texts) == 6
    assert len(set(texts)) == 1
    assert server.chats == []


def test_the_gate_can_be_turned_off(sample_repo, server, monkeypatch):
    for flags in (("--no-gate",), ()):
        done = rag("ask", sample_repo, KAFKA, "--base-url", server.base_url, "--json", *flags)
        assert done.json["found"]
        assert done.json["answer"] == "Nowhere [1]."
        assert done.json["confidence"] is None
        monkeypatch.setenv("RAG_GATE", "off")
    assert rag("ask", sample_repo, KAFKA, "--gate").code == 1
    monkeypatch.setenv("RAG_GATE", "perhaps")
    with pytest.raises(SettingsError, match="on or off"):
        load_settings()


def test_search_is_not_gated_and_says_how_sure_it_is(sample_repo):
    done = rag("search", sample_repo, KAFKA, "--json")
    assert done.code == 0
    assert done.json["results"]
    assert done.json["confidence"]["found"] is False
    assert rag("search", sample_repo, SIGNED, "--json").json["confidence"]["value"] > 0.9


def test_the_turn_is_kept_and_a_follow_up_goes_on_with_the_last_thing_found(sample_repo):
    dialog = dialog_on(sample_repo)
    with closing(dialog.engine):
        ask(dialog, SIGNED)
        ask(dialog, KAFKA)
        answer = ask(dialog, "And when do they expire?")
        assert [turn.question for turn in dialog.turns()][1] == KAFKA
        assert [turn.citations == () for turn in dialog.turns()] == [False, True, False]
    assert answer.found
    assert answer.citations[0].path == "snip/sessions.py"
    assert "Kafka" not in answer.standalone_question


def test_a_question_that_a_model_spoilt_is_searched_as_it_was_typed(sample_repo, server):
    server.answers = ["With HMAC [1].", "Zebras quux?", "In a day [1]."]
    dialog = dialog_on(sample_repo, base_url=server.base_url, model="test-model")
    with closing(dialog.engine):
        ask(dialog, SIGNED)
        answer = ask(dialog, "And when do they expire?")
        assert (answer.found, answer.text) == (True, "In a day [1].")
        assert answer.citations[0].path == "snip/sessions.py"
        assert "zebras" not in answer.standalone_question.lower()
