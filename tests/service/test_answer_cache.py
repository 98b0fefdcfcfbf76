"""An answer is given again while the code it rests on is as it was, and never otherwise."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command import rag
from conftest import git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import RAG
from rag.answer_cache.cache import KEYS_BY_TURN, SHELF, normalised
from rag.memory.preferences import Preferences
from rag.service import Dialog, Engine, aconverse, converse
from rag.service.loop.cached_answers import answers_of
from rag.service.loop.corrections import correct_turn
from rag.service.upkeep.retention import KeptFiles, delete_conversation, delete_turn
from rag.settings import Settings
from rag.types import Answer, Filters, Prepared, Source, Usage, blob_id
from tests.servers.provider import ProviderServer

QUESTION = "Where is a session token signed?"
SAME = "where is a session  token signed"
OTHER = "Where is a session token deleted?"
SIGN = '''def sign_token(token, secret_key):
    """Sign a session token with the secret key of the shop."""
    digest = keyed_digest(secret_key, token)
    return token + separator + digest
'''
CLOCK = '''def wind_clock(clock, hours):
    """Wind the big clock in the hall for some hours."""
    clock.spring.turn(hours * TURNS_AN_HOUR)
    return clock.spring.tension
'''


class Writer:
    """Quotes its first source; says how often it was asked. A follow-up it puts as it is told to."""

    model = "writer"
    usage: Usage | None = None

    def __init__(self, standalone: str = "", model: str = "writer") -> None:
        self.asked, self.standalone, self.model = 0, standalone, model

    def stream(self, prepared: Prepared) -> Iterator[str]:
        self.asked += 1
        yield "It reads: "
        yield "".join(f"{source.hit.text} [{source.n}]" for source in prepared.prompt.sources[:1])

    def complete(self, text: str, answer_tokens: int = 500, within_s: float | None = None) -> str:
        return self.standalone


@pytest.fixture(params=["memory:", ""], ids=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(Settings(home=tmp_path / "home", memory=request.param, cache=True, gate=False))
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "tokens.py").write_text(SIGN)
    (root / "clock.py").write_text(CLOCK)
    (root / "till.py").write_text("def open_till(till, secret_key):\n    till.open(secret_key)\n")
    (root / "README.md").write_text("# Shop\n\nEvery session of it begins with a token.\n")
    git(root, "init", "--quiet", "--template=")
    commit(root)
    return root


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "next")


def dialog_on(engine: Engine, root: Path) -> Dialog:
    return Dialog(engine, [engine.repository(Source(str(root)))])


def ask(on: Dialog, question: str, writer: Writer, *, cache: bool | None = None) -> Answer:
    *pieces, answer = converse(on, question, writer, cache=cache)
    assert isinstance(answer, Answer)
    shown = "".join(map(str, pieces))
    assert shown == answer.text or (answer.cut and shown.startswith(answer.text))
    return answer


def asked(engine: Engine, root: Path, question: str, writer: Writer) -> Answer:
    return ask(dialog_on(engine, root), question, writer)


def counted(engine: Engine) -> tuple[int, int, int]:
    stats = answers_of(engine).stats()
    return stats.hits, stats.misses, stats.stale


# ---------------------------------------------------------------- what is given again


def test_a_word_that_the_repository_defines_is_no_other_form_of_itself(engine, shop):
    questions = ("Token of a clock: where is it signed?", "token of a clock: where is it signed?")
    writer = Writer()
    assert [bool(asked(engine, shop, question, writer).cached) for question in questions] == [False, True]
    (shop / "tokens.py").write_text(SIGN + "\n\nclass Token:\n    pass\n")
    commit(shop)
    assert [bool(asked(engine, shop, question, writer).cached) for question in questions] == [False, False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where is Item set?", "Where is item set?"),
        ("What is ..?", "What is ...?"),
        ("Where is a token signed?", "Where is a token not signed?"),
        ("Which 2 tokens are signed?", "Which 3 tokens are signed?"),
        ("Where is `sign` called?", "Where is `Sign` called?"),
        ("Where are tokens signed?", "Where is a token signed?"),
    ],
)
def test_questions_that_differ_in_a_name_a_number_or_a_negation_are_two(one, other):
    assert normalised(one) != normalised(other)


def test_a_definition_is_the_same_question_in_both_orders_of_chinese():
    assert normalised("什么是 RAG？") == normalised("RAG 是什么？") == normalised("RAG是什么")
    assert normalised("RAG 是什么？") != normalised("RAG 不是什么？")
    assert normalised("为什么是 RAG？") != normalised("什么是 RAG？")


def test_unicode_blanks_the_first_capital_and_the_last_mark_are_ignored():
    assert normalised("Where is  the caf\u00e9 set?") == normalised("where is the cafe\u0301 set")


def test_the_same_question_is_answered_again_and_stored_as_a_turn_of_its_own(engine, shop):
    writer = Writer()
    first = asked(engine, shop, QUESTION, writer)
    again = asked(engine, shop, SAME, writer)
    assert (writer.asked, again.cached, first.cached) == (1, first.turn_id, "")
    assert (again.text, again.model, again.sources) == (first.text, "writer", first.sources)
    assert again.usage == Usage(estimated=False, cost_usd=0.0)
    turn = engine.turns.turn(again.turn_id)
    assert (turn.question, turn.standalone_question) == (SAME, SAME)
    assert turn.metadata == {"cached": first.turn_id}
    assert turn.citations == engine.turns.turn(first.turn_id).citations
    assert turn.prompt_hash == first.prompt_hash
    assert turn.conversation_id != first.conversation_id
    assert (again.hits[0].text, again.hits[0].language) == (SIGN, "python")
    assert asked(engine, shop, OTHER, writer).cached == ""
    assert counted(engine) == (1, 2, 0)
    assert answers_of(engine).clear() == 2
    assert asked(engine, shop, QUESTION, writer).cached == ""


def test_an_event_loop_is_given_the_same(engine, shop):
    async def aasked(question: str) -> Answer:
        *_, answer = [x async for x in aconverse(dialog_on(engine, shop), question, writer, cache=None)]
        assert isinstance(answer, Answer)
        return answer

    writer = Writer()
    first = asyncio.run(aasked(QUESTION))
    assert asyncio.run(aasked(SAME)).cached == first.turn_id
    (shop / "tokens.py").write_text(SIGN + CLOCK)
    assert asyncio.run(aasked(SAME)).cached == ""
    assert (writer.asked, counted(engine)) == (2, (1, 1, 1))


def test_it_is_off_where_it_is_not_wanted(engine, shop):
    writer = Writer()
    for cache, times in ((False, 1), (None, 2), (True, 2), (False, 3)):
        ask(dialog_on(engine, shop), QUESTION, writer, cache=cache)
        assert writer.asked == times
    off = engine.with_settings(cache=None)  # no model is configured: nothing is to be saved
    ask(dialog_on(off, shop), QUESTION, writer)
    assert writer.asked == 4
    list(converse(dialog_on(engine, shop), QUESTION, writer))
    assert writer.asked == 5


def test_what_an_answer_depends_on_keeps_answers_apart(engine, shop, tmp_path):
    writer = Writer()
    asked(engine, shop, QUESTION, writer)
    template = tmp_path / "mine.j2"
    template.write_text("{{ input_str }} {% for c in contexts %}[{{ c.n }}] {{ c.text }}{% endfor %}")
    times = 1
    for changes in (
        {"namespace": "ada"},
        {"language": "zh"},
        {"context_tokens": 9_000},
        {"answer_tokens": 900},
        {"model": "other"},
        {"template": str(template)},
    ):
        other = engine.with_settings(**changes)
        assert asked(other, shop, QUESTION, writer).cached == "", changes
        times += 1
        assert asked(other, shop, QUESTION, writer).cached, changes
    assert asked(engine, shop, QUESTION, Writer(model="larger")).cached == ""
    filtered = engine.repository(Source(str(shop), filters=Filters(("*.py",))))
    assert ask(Dialog(engine, [filtered]), QUESTION, writer).cached == ""
    template.write_text("Changed. " + template.read_text())
    assert asked(engine.with_settings(template=str(template)), shop, QUESTION, writer).cached == ""
    Preferences(engine.turns).save("", "tone", "formal")
    assert asked(engine, shop, QUESTION, writer).cached == ""
    Preferences(engine.turns).delete("", "tone")
    assert asked(engine, shop, QUESTION, writer).cached
    assert writer.asked == times + 3


def test_answers_that_are_no_whole_answer_from_sources_are_not_kept(engine, shop):
    class Silent(Writer):
        def stream(self, prepared: Prepared) -> Iterator[str]:
            yield "I do not know."

    class Cut(Writer):
        finish_reason = "length"

    class Broken(Writer):
        def stream(self, prepared: Prepared) -> Iterator[str]:
            yield from super().stream(prepared)
            raise RuntimeError("cut")

    asked(engine, shop, QUESTION, Silent())
    asked(engine, shop, QUESTION, Cut())
    with pytest.raises(RuntimeError):
        list(converse(dialog_on(engine, shop), QUESTION, Broken(), keep_broken=True, cache=True))
    gated = engine.with_settings(gate=True)
    assert not asked(gated, shop, "Where are zebras painted in the kitchen?", Writer()).found
    assert answers_of(engine).stats().entries == 0


def test_an_answer_goes_with_its_turn(engine, shop):
    writer = Writer()
    first = asked(engine, shop, QUESTION, writer)
    turn = engine.turns.turn(first.turn_id)
    engine.turns.edit_turn(
        replace(turn, assistant_response=replace(turn.assistant_response, response_str="No."))
    )
    assert asked(engine, shop, QUESTION, writer).cached == ""
    second = asked(engine, shop, QUESTION, writer)
    assert second.cached
    delete_turn(engine.turns, engine.turns.turn(second.cached))
    assert answers_of(engine).entries() == []
    third = asked(engine, shop, QUESTION, writer)
    assert (third.cached, writer.asked, counted(engine)) == ("", 3, (1, 2, 1))
    correct_turn(engine.turns, third.turn_id, namespace="", answer="[redacted]")
    assert answers_of(engine).entries() == []
    fourth = asked(engine, shop, QUESTION, writer)
    conversation = engine.turns.conversation(fourth.conversation_id)
    engine.turns.fork(conversation.id, name="goes on")
    delete_conversation(engine.turns, conversation)
    assert asked(engine, shop, QUESTION, writer).cached == fourth.turn_id
    delete_conversation(engine.turns, engine.turns.conversation("goes on"))
    assert answers_of(engine).entries() == []
    assert engine.turns.count_records(shelf=KEYS_BY_TURN) == 0
    fifth = asked(engine, shop, QUESTION, writer)
    engine.turns.delete_turn(fifth.turn_id)  # by a process that is killed before it has forgotten the rest
    KeptFiles(engine.turns, "").sweep()
    assert answers_of(engine).entries() == []


# ---------------------------------------------------------------- follow-ups


@pytest.mark.parametrize("damage", ["a newer rag", "cut off", "no record"])
def test_an_entry_that_cannot_be_read_is_made_anew(engine, shop, damage):
    writer = Writer()
    asked(engine, shop, QUESTION, writer)
    ((key, value),) = engine.turns.scan_records(shelf=SHELF)
    record = json.loads(zlib.decompress(value)) | {"mood": "new"}
    other = {"a newer rag": zlib.compress(json.dumps(record).encode()), "cut off": value[:9]}
    engine.turns.put_records({key: other.get(damage, zlib.compress(b"[1]"))}, shelf=SHELF)
    assert answers_of(engine).entries() == []
    asked(engine, shop, QUESTION, writer)
    assert writer.asked == 2
    assert asked(engine, shop, QUESTION, writer).cached
    assert answers_of(engine).clear() == 1


def test_a_follow_up_is_found_by_its_standalone_question_never_by_its_words(engine, shop):
    writer = Writer("Where is the big clock wound?")
    on = dialog_on(engine, shop)
    ask(on, QUESTION, writer)
    follow = ask(on, "And the other one?", writer)
    assert follow.standalone_question == "Where is the big clock wound?"
    assert asked(engine, shop, "where is the big clock wound", Writer()).cached == follow.turn_id
    elsewhere = dialog_on(engine, shop)
    ask(elsewhere, OTHER, writer)
    writer.standalone = "Where is the key digested?"
    assert ask(elsewhere, "And the other one?", writer).cached == ""
    writer.standalone = "where is the  big clock wound?"
    assert ask(elsewhere, "And the other one?", writer).cached == follow.turn_id


@pytest.mark.parametrize("standalone", ["", "Who calls that with the token it signed?"])
def test_without_a_question_that_stands_alone_all_that_was_said_before_counts(engine, shop, standalone):
    writer = Writer(standalone)
    follow = "Who calls it?"
    given = []
    for begin in (QUESTION, "Where is the clock wound?", QUESTION):
        on = dialog_on(engine, shop)
        given.append([ask(on, begin, writer), ask(on, follow, writer)])
    assert [[answer.cached for answer in pair] for pair in given] == [
        ["", ""],
        ["", ""],
        [answer.turn_id for answer in given[0]],
    ]
    again = engine.turns.turn(given[2][1].turn_id)
    assert again.standalone_question == given[0][1].standalone_question
    assert asked(engine, shop, follow, writer).cached == ""


# ---------------------------------------------------------------- changes of the code


def test_a_walk_through_what_can_happen_to_the_code(engine, shop):
    writer = Writer()

    def again() -> bool:
        return bool(asked(engine, shop, SAME, writer).cached)

    asked(engine, shop, QUESTION, writer)
    commit(shop)
    assert again()
    (shop / "notes.md").write_text("# Bread\n\nHow to bake it.\n")
    assert again()  # the index has changed, what would be shown has not
    (shop / "tokens.py").write_text(SIGN.replace("digest", "checksum"))
    assert not again()
    assert again()
    (shop / "sessions.py").write_text(SIGN.replace("def sign", "def really_sign"))
    assert not again()  # nothing cited has changed, but a new file answers, too
    assert again()
    git(shop, "checkout", "--", "tokens.py")
    assert not again()
    (shop / "sessions.py").unlink()
    assert not again()
    (shop / "tokens.py").rename(shop / "t.py")
    assert not again()
    hits, misses, stale = counted(engine)
    assert (hits, misses, stale, writer.asked) == (4, 1, 5, 6)


FILES = ("tokens.py", "clock.py", "sessions.py", "README.md")
TEXTS = (
    SIGN,
    CLOCK,
    SIGN + "\n\n" + CLOCK,
    SIGN.replace("digest", "checksum"),
    "# Tokens\n\nAre signed.\n",
    None,
)
EDIT = st.tuples(
    st.sampled_from(FILES),
    st.sampled_from(TEXTS),
    st.booleans(),
    st.sampled_from([QUESTION, SAME, OTHER]),
    st.booleans(),
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=st.lists(EDIT, min_size=2, max_size=6))
def test_no_answer_is_given_again_although_a_file_it_was_shown_differs(tmp_path_factory, edits):
    root = tmp_path_factory.mktemp("edited")
    (root / "tokens.py").write_text(SIGN)
    git(root, "init", "--quiet", "--template=")
    commit(root)
    engine = Engine(
        Settings(home=root.parent / f"{root.name}-home", memory="memory:", cache=True, gate=False)
    )
    writer = Writer()
    asked(engine, root, QUESTION, writer)
    for path, text, committed, question, refreshing in edits:
        if text is None:
            (root / path).unlink(missing_ok=True)
            (root / "kept.txt").write_text("Something has to be there.\n")
        else:
            (root / path).write_text(text)
        if committed:
            commit(root)
        dialog = Dialog(engine, [engine.repository(Source(str(root)), refreshing=refreshing)])
        answer = ask(dialog, question, writer)
        if answer.cached or refreshing:
            for citation in answer.sources:
                assert blob_id((root / citation.path).read_bytes()) == citation.blob
        if answer.cached:
            fresh = ask(Dialog(engine, dialog.repositories), question, writer, cache=False)
            assert fresh.sources[0].path in [citation.path for citation in answer.sources]


def test_an_index_that_is_behind_serves_nothing_that_has_changed(engine, shop):
    writer = Writer()
    asked(engine, shop, QUESTION, writer)
    (shop / "tokens.py").write_text(SIGN.replace("digest", "checksum"))
    behind = Dialog(engine, [engine.repository(Source(str(shop)), refreshing=False)])
    assert ask(behind, QUESTION, writer).cached == ""
    assert counted(engine) == (0, 1, 1)


# ---------------------------------------------------------------- the command line, and who counts


def test_a_person_asks_again_changes_the_code_and_gets_a_fresh_answer(shop):
    first = rag("ask", shop, QUESTION, "--cache", "--json").json
    assert first["cached"] is None
    again = rag("ask", shop, SAME, "--cache", "--json").json
    assert (again["cached"], again["answer"]) == (first["turn"], first["answer"])
    shown = rag("turns", "show", again["turn"]).out
    assert f"repeats turn {first['turn']}" in shown
    told = rag("ask", shop, SAME, "--cache")
    assert "answered just now, and its sources are unchanged; without the answer cache" in told.err
    (shop / "tokens.py").write_text(SIGN.replace("digest", "checksum"))
    fresh = rag("ask", shop, SAME, "--cache", "--json").json
    assert fresh["cached"] is None
    assert "checksum" in fresh["answer"]
    assert rag("ask", shop, SAME, "--json").json["cached"] is None  # without a model only on request
    stats = rag("cache", "stats", "--json").json
    assert stats == {"entries": 1, "hits": 2, "misses": 1, "stale": 1, "lookups": 4, "hit_rate": 0.5}
    assert "2 hits" in rag("cache", "stats").out
    (entry,) = rag("cache", "list", "--json").json
    assert (entry["question"], entry["turn"], entry["repositories"]) == (SAME, fresh["turn"], [str(shop)])
    assert SAME in rag("cache", "list").out
    assert rag("cache", "clear", "--json").json == {"cleared": 1}
    assert rag("cache", "clear").out == "cleared 0 cached answers\n"
    assert rag("cache", "list").code == 0


def test_a_model_is_asked_once_by_the_command_line_and_by_the_component(shop, monkeypatch):
    text = "It is signed in `sign_token` [1]."
    with ProviderServer(answers=[text, QUESTION, text]) as server:
        monkeypatch.setenv("RAG_BASE_URL", server.base_url)
        monkeypatch.setenv("RAG_MODEL", "fake-model")
        first = rag("ask", shop, QUESTION, "--json").json
        assert (first["cached"], len(server.chats)) == (None, 1)
        again = rag("ask", shop, SAME)
        assert (again.out.split("\n")[0], len(server.chats)) == (text, 1)
        component = RAG()
        component.prepare_retriever(str(shop))
        assert component(SAME).cached == first["turn"]
        assert asyncio.run(component.acall(QUESTION)).text == first["answer"]
        assert len(server.chats) == 2  # a follow-up is put on its own by the model
        assert rag("ask", shop, QUESTION, "--no-cache", "--json").json["cached"] is None
        assert len(server.chats) == 3
