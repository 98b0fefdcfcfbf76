"""Where the repository probably holds no answer every way of asking warns in the same words.

Where no word of the question occurs it is "not found", and no model is sent anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from command import rag

from rag import RAG, Answer, Dialog, Engine, load_settings
from rag.answer.not_found import FOREIGN
from rag.errors import ProviderError, SettingsError
from rag.service import aconverse, converse
from tests.servers.provider import ProviderServer

KAFKA = "Where are Kafka messages consumed?"
WARNING = "`Kafka` occurs nowhere in this repository. What you ask for may have another name."
ZEBRA = "How does Zookeeper elect brokers?"
SIGNED = "How are sessions signed?"


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(answers=["Nowhere [1]."]) as running:
        yield running


def dialog_on(sample_repo, **flags) -> Dialog:
    engine = Engine(load_settings({"memory": "memory:", **flags}))
    return Dialog(engine, [engine.repository(str(sample_repo))])


def component_on(sample_repo, server) -> RAG:
    component = RAG(base_url=server.base_url)
    component.prepare_retriever(str(sample_repo))
    return component


def ask(dialog: Dialog, question: str) -> Answer:
    *pieces, answer = converse(dialog, question, dialog.engine.generator())
    assert isinstance(answer, Answer)
    assert "".join(map(str, pieces)) == answer.text
    return answer


def test_without_a_model_the_nearest_places_are_quoted_under_a_warning(sample_repo):
    answer = ask(dialog_on(sample_repo), KAFKA)
    assert answer.found
    assert answer.warning == WARNING
    assert answer.missing_words == ("Kafka",)
    assert answer.text.startswith(f"{WARNING}\n\nThe nearest place is function `SnipClient.send` (")
    assert f"`{answer.sources[0].path}:" in answer.text
    assert answer.citations


def test_a_question_in_another_language_is_noted_also_where_places_have_its_words(sample_repo):
    answer = ask(dialog_on(sample_repo), "que fait sign_session avec une session signed et verify?")
    assert answer.warning == ""
    assert FOREIGN in answer.notes
    assert FOREIGN not in ask(dialog_on(sample_repo), SIGNED).notes
    warned = ask(dialog_on(sample_repo), "Wo werden die Rechnungen verschickt?")
    assert FOREIGN in warned.text
    assert FOREIGN not in warned.notes


def test_a_first_question_about_it_is_answered_under_a_warning_that_it_means_nothing_yet(sample_repo):
    dialog = dialog_on(sample_repo)
    first = ask(dialog, "Who calls it?")
    assert first.warning.startswith("It is not known what this question is about")
    assert first.warning in first.text
    assert ask(dialog, SIGNED).warning == ""
    assert ask(dialog, "Who calls it?").warning == "", "the sessions are the subject now"


def test_what_occurs_nowhere_is_not_found_and_named(sample_repo):
    answer = ask(dialog_on(sample_repo), "What is `zebra_quux` of Zookeeper? Answer in German.")
    assert not answer.found
    assert answer.text.startswith("Not found")
    assert "`zebra_quux`" in answer.text
    assert "`Zookeeper`" in answer.text
    assert "German" not in answer.text
    assert (answer.citations, answer.sources, answer.model, answer.usage.total_tokens) == ((), (), "", 0)
    assert (answer.warning, set(answer.missing_words)) == ("", {"zebra_quux", "Zookeeper"})


@pytest.mark.parametrize(("steps", "missing"), [("0", ("Kafka",)), ("auto", ())])
async def test_every_way_of_asking_warns_the_model_and_not_before_its_answer(
    sample_repo, server, monkeypatch, steps, missing
):
    monkeypatch.setenv("RAG_STEPS", steps)  # a model that could look further has decided itself
    dialog = dialog_on(sample_repo, base_url=server.base_url)
    answers = [ask(dialog, KAFKA)]
    dialog = dialog_on(sample_repo, base_url=server.base_url)
    async for piece in aconverse(dialog, KAFKA, dialog.engine.generator()):
        if isinstance(piece, Answer):
            answers.append(piece)
    answers += [
        component_on(sample_repo, server)(KAFKA),
        await component_on(sample_repo, server).acall(KAFKA),
    ]
    asked = rag("ask", sample_repo, KAFKA, "--base-url", server.base_url, "--json")
    texts = [answer.text for answer in answers] + [asked.json["answer"]]
    assert texts == ["Nowhere [1]."] * 5
    assert asked.code == 0
    assert {answer.warning for answer in answers} == {asked.json["warning"]} == {""}
    assert {answer.missing_words for answer in answers} == {tuple(asked.json["missing_words"])} == {missing}
    assert "".join(component_on(sample_repo, server).stream(KAFKA)) == texts[0]
    plain = rag("ask", sample_repo, KAFKA, "--base-url", server.base_url)
    assert (plain.code, plain.out.splitlines()[0]) == (0, "Nowhere [1].")
    assert "nowhere in" not in plain.out + plain.err
    assert len(server.chats) == 7
    for chat in server.chats:
        assert "The sources lack these words of the question: Kafka." in chat.prompt


async def test_every_way_of_asking_finds_nothing_alike_and_sends_nothing(sample_repo, server, monkeypatch):
    monkeypatch.setenv("RAG_STEPS", "0")  # a model that looks further would be asked
    dialog = dialog_on(sample_repo, base_url=server.base_url, steps=0)
    texts = [ask(dialog, ZEBRA).text]
    async for piece in aconverse(dialog, ZEBRA, dialog.engine.generator()):
        if isinstance(piece, Answer):
            texts.append(piece.text)
    component = component_on(sample_repo, server)
    texts += [component(ZEBRA).text, "".join(component.stream(ZEBRA)), (await component.acall(ZEBRA)).text]
    asked = rag("ask", sample_repo, ZEBRA, "--base-url", server.base_url)
    texts.append(asked.out)
    assert asked.code == 1
    assert len(texts) == 6
    assert len(set(texts)) == 1
    assert server.chats == []


def test_a_sure_answer_has_no_warning_and_the_model_is_told_none(sample_repo, server):
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--json").json
    assert (done["answer"], done["warning"], done["missing_words"]) == ("Nowhere [1].", "", [])
    assert "A search by words found" not in server.chats[0].prompt


def test_a_broken_answer_of_a_model_has_no_warning(sample_repo):
    class Broken:
        model, usage = "broken", None

        def stream(self, prepared):
            yield "It is "
            raise ProviderError("gone", provider="test", retryable=False)

    dialog = dialog_on(sample_repo)
    with pytest.raises(ProviderError):
        list(converse(dialog, KAFKA, Broken(), keep_broken=True))
    assert dialog.turns()[0].answer == "It is "


def test_the_gate_can_be_turned_off(sample_repo, server, monkeypatch):
    for flags in (("--no-gate",), ()):
        for question in (KAFKA, ZEBRA):
            done = rag("ask", sample_repo, question, "--base-url", server.base_url, "--json", *flags)
            assert (done.json["warning"], done.json["missing_words"]) == ("", [])
            assert done.json["confidence"] is None
        done = rag("ask", sample_repo, KAFKA, "--base-url", server.base_url, "--json", *flags)
        assert (done.json["found"], done.json["answer"]) == (True, "Nowhere [1].")
        monkeypatch.setenv("RAG_GATE", "off")
    assert WARNING in rag("ask", sample_repo, KAFKA, "--gate").out
    monkeypatch.setenv("RAG_GATE", "perhaps")
    with pytest.raises(SettingsError, match="on or off"):
        load_settings()


def test_search_is_not_gated_and_says_how_sure_it_is(sample_repo):
    done = rag("search", sample_repo, KAFKA, "--json")
    assert done.code == 0
    assert done.json["hits"]
    assert done.json["confidence"]["value"] < 0.5
    assert done.json["confidence"]["absent"] == ["Kafka"]
    assert rag("search", sample_repo, SIGNED, "--json").json["confidence"]["value"] > 0.9


def test_the_turn_is_kept_and_a_follow_up_goes_on_with_the_last_thing_found(sample_repo):
    dialog = dialog_on(sample_repo)
    with closing(dialog.engine):
        ask(dialog, SIGNED)
        ask(dialog, ZEBRA)
        answer = ask(dialog, "And when do they expire?")
        assert [turn.question for turn in dialog.turns()][1] == ZEBRA
        assert [turn.citations == () for turn in dialog.turns()] == [False, True, False]
    assert answer.found
    assert answer.citations[0].path == "snip/sessions.py"
    assert "Zookeeper" not in answer.standalone_question


def test_a_warned_answer_is_a_turn_like_any_other(sample_repo, server):
    dialog = dialog_on(sample_repo, base_url=server.base_url)
    with closing(dialog.engine):
        answer = ask(dialog, KAFKA)
        (turn,) = dialog.turns()
    assert turn.answer == answer.text
    assert turn.citations == answer.sources


def test_a_warned_answer_is_not_cached(sample_repo, server):
    server.answers = ["Nowhere [1].", "Still nowhere [1].", "With HMAC [1]."]
    dialog = dialog_on(sample_repo, base_url=server.base_url)
    with closing(dialog.engine):
        texts = []
        for question in (KAFKA, KAFKA, SIGNED, SIGNED):
            *_, answer = converse(
                Dialog(dialog.engine, dialog.repositories), question, dialog.engine.generator(), cache=True
            )
            texts.append(answer.text)
    assert texts == [
        "Nowhere [1].",
        "Still nowhere [1].",
        "With HMAC [1].",
        "With HMAC [1].",
    ]
    assert len(server.chats) == 3


def test_a_question_that_a_model_spoilt_is_searched_as_it_was_typed(sample_repo, server):
    server.answers = ["With HMAC [1].", "Zebras quux?", "In a day [1]."]
    dialog = dialog_on(sample_repo, base_url=server.base_url, model="test-model")
    with closing(dialog.engine):
        ask(dialog, SIGNED)
        answer = ask(dialog, "And when do they expire?")
        assert (answer.found, answer.text) == (True, "In a day [1].")
        assert answer.citations[0].path == "snip/sessions.py"
        assert "zebras" not in answer.standalone_question.lower()
