"""Whole conversations on the sample repository: what a person sees, from the question to the stored turn."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import git

from rag import RAG, Answer, Dialog, Engine, Settings, load_settings
from rag.errors import ConversationMismatch, NotFound, ProviderBroke, RagError, TemplateError
from rag.ports import TextGenerator
from rag.service import aconverse, converse
from rag.types import DialogTurn
from tests.servers.model import LocalModel
from tests.servers.provider import ProviderServer

pytestmark = pytest.mark.usefixtures("short_pauses")

SIGNED = "How are sessions signed?"
EXPIRE = "And when do they expire?"
KEY = "sk-test-5f0c3a7e9b1d4c2e"


@pytest.fixture
def opened() -> Iterator[Callable[..., Engine]]:
    """Opens engines on the test's home folder, as each new process would; closes them in the end."""
    engines: list[Engine] = []

    def open_engine(**flags: object) -> Engine:
        engines.append(Engine(load_settings(flags)))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def ask(dialog: Dialog, question: str, generator: TextGenerator | None = None, **options: bool) -> Answer:
    *_, answer = converse(dialog, question, generator or dialog.engine.generator(), **options)
    assert isinstance(answer, Answer)
    return answer


def begun(engine: Engine, *folders: Path) -> Dialog:
    return Dialog(engine, [engine.repository(str(folder)) for folder in folders])


def stored_turns(dialog: Dialog) -> list[DialogTurn]:
    """All turns of the newest conversation, with those that have no answer."""
    assert dialog.conversation is not None
    return dialog.engine.turns.turns(dialog.conversation.id)


def assert_cites_what_stands_there(answer: Answer | DialogTurn, root: Path) -> None:
    citations = answer.sources if isinstance(answer, Answer) else answer.citations
    assert citations
    for citation in citations:
        content = (root / citation.path).read_bytes()
        lines = content.decode().splitlines(keepends=True)[citation.start - 1 : citation.end]
        assert citation.end - citation.start + 1 == len(lines)
        assert hashlib.sha256("".join(lines).encode()).hexdigest() == citation.span_hash
        assert citation.place == f"{citation.path}:{citation.start}-{citation.end}"


# ---------------------------------------------------------------- the loop


def test_a_follow_up_is_understood_in_the_light_of_the_question_before(opened, sample_repo):
    dialog = begun(opened(), sample_repo)
    first, second = ask(dialog, SIGNED), ask(dialog, EXPIRE)
    assert first.citations[0].path == second.citations[0].path == "snip/sessions.py"
    assert any("is_expired" in c.symbol or "sign_session" in c.symbol for c in second.citations)
    assert [turn.question for turn in dialog.turns()] == [SIGNED, EXPIRE]
    assert [turn.order for turn in dialog.turns()] == [0, 1]
    for answer in (first, second):
        assert_cites_what_stands_there(answer, sample_repo)


def test_a_stored_turn_says_which_bytes_of_which_commit_it_rests_on(opened, sample_repo):
    dialog = begun(opened(), sample_repo)
    answer = ask(dialog, SIGNED)
    (turn,) = dialog.turns()
    assert (turn.id, turn.answer, turn.model) == (answer.turn_id, answer.text, "extractive")
    assert [c.n for c in turn.citations if c.used] == [c.n for c in answer.citations]
    for citation in turn.citations:
        assert citation.commit == git(sample_repo, "rev-parse", "HEAD")
        assert citation.blob == git(sample_repo, "rev-parse", f"HEAD:{citation.path}")
        assert not citation.dirty
    assert_cites_what_stands_there(turn, sample_repo)


def test_a_citation_of_changed_bytes_says_that_no_commit_holds_them(opened, sample_repo):
    sessions = sample_repo / "snip" / "sessions.py"
    sessions.write_text(sessions.read_text().replace("Whether a session", "Tells whether a session"))
    dialog = begun(opened(), sample_repo)
    ask(dialog, "Is a session expired, and how is the rate limited?")
    dirty = {citation.path: citation.dirty for citation in dialog.turns()[0].citations}
    assert dirty.pop("snip/sessions.py")
    assert dirty
    assert not any(dirty.values())


def test_a_program_opened_again_goes_on_where_the_other_ended(opened, sample_repo):
    ask(begun(opened(), sample_repo), SIGNED)
    engine = opened()
    conversation = engine.last_conversation()
    dialog = Dialog(engine, [engine.repository(s) for s in conversation.sources], conversation)
    answer = ask(dialog, EXPIRE)
    assert answer.citations[0].path == "snip/sessions.py"
    assert [turn.question for turn in dialog.turns()] == [SIGNED, EXPIRE]


def test_a_name_that_two_programs_begin_at_once_is_one_conversation(opened, sample_repo):
    one, two = (
        Dialog(engine, [engine.repository(str(sample_repo))], name="login") for engine in (opened(), opened())
    )
    first = converse(one, SIGNED, one.engine.generator())
    next(first)
    ask(two, EXPIRE)
    *_, answer = first
    assert answer.turn_order == 1
    assert one.conversation.id == two.conversation.id


def test_several_repositories_are_asked_at_once_and_citations_say_which(opened, sample_repo, tmp_path):
    other = tmp_path / "kiln"
    other.mkdir()
    (other / "glaze.py").write_text('def fire(kiln):\n    """Heat the kiln until the glaze melts."""\n')
    dialog = begun(opened(), sample_repo, other)
    answer = ask(dialog, "How are sessions signed, and how is the glaze fired in the kiln?")
    cited = {citation.repo: citation for citation in answer.sources}
    assert set(cited) == {"sample_repo", "kiln"}
    assert cited["kiln"].path == "glaze.py"
    assert cited["kiln"].location == str(other)
    assert "`kiln:glaze.py:1-2`" in answer.text or "kiln" in {c.repo for c in answer.sources}
    assert len(dialog.turns()) == 1
    assert {Path(s.location).name for s in dialog.conversation.sources} == {"sample_repo", "kiln"}


def test_a_changed_repository_is_answered_from_its_new_lines(opened, sample_repo):
    engine = opened()
    dialog = begun(engine, sample_repo)
    before = ask(dialog, SIGNED).citations[0]
    sessions = sample_repo / "snip" / "sessions.py"
    sessions.write_text("# one more line\n" * 7 + sessions.read_text())
    dialog.repositories = (engine.repository(str(sample_repo)),)
    answer = ask(dialog, SIGNED)
    after = next(c for c in answer.citations if c.symbol == before.symbol)
    assert (after.start, after.end) == (before.start + 7, before.end + 7)
    assert after.blob != before.blob
    assert_cites_what_stands_there(answer, sample_repo)


# ---------------------------------------------------------------- streaming


def test_pieces_joined_are_the_answer(opened, sample_repo, server):
    server.answers = ["Sessions are signed with *HMAC* [1], and [77] not otherwise [2].\n\n```\na[9]\n```\n"]
    dialog = begun(opened(base_url=server.base_url, steps=0), sample_repo)
    *pieces, answer = converse(dialog, SIGNED, dialog.engine.generator())
    assert len(pieces) > 3
    assert "".join(pieces) == answer.text == dialog.turns()[0].answer
    assert "[77]" not in answer.text


async def test_an_event_loop_is_told_the_same(sample_repo, server):
    server.answers = [
        "Sessions are signed [1].",
        "When do sessions expire?",
        "After their lifetime [1] [88].",
    ]
    rag = RAG(base_url=server.base_url, steps=0)
    rag.prepare_retriever(str(sample_repo))
    whole = await rag.acall(SIGNED)
    assert whole.text == "Sessions are signed [1]."
    pieces = [piece async for piece in rag.astream(EXPIRE)]
    assert len(pieces) > 1
    assert [turn.answer for turn in rag.memory().values()] == [whole.text, "".join(pieces)]
    assert "[88]" not in "".join(pieces)


async def test_a_stream_given_up_keeps_what_came_and_leaves_the_server(sample_repo, server):
    server.behaviours = ["endless", "endless"]
    rag = RAG(base_url=server.base_url)
    rag.prepare_retriever(str(sample_repo))
    came = []
    pieces = rag.stream(SIGNED)
    came.append(next(pieces))
    pieces.close()
    assert await asyncio.to_thread(server.client_left.wait, 25)
    server.client_left.clear()
    apieces = rag.astream(SIGNED)
    came.append(await anext(apieces))
    await apieces.aclose()
    assert await asyncio.to_thread(server.client_left.wait, 25)
    turns = list(rag.memory().values())
    assert [(turn.complete, turn.answer.startswith(one)) for turn, one in zip(turns, came, strict=True)] == [
        (False, True)
    ] * 2


@pytest.mark.parametrize("behaviour", ["cut", "error_in_stream", "stops_short"])
def test_an_answer_that_breaks_off_is_an_error_and_a_failed_turn(opened, sample_repo, server, behaviour):
    server.behaviours = [behaviour, "good"]
    server.answers = ["It is signed by HMAC of the payload under the key [1].", "Signed [1]."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    with pytest.raises(ProviderBroke, match=r"broke off|ended|stopped") as caught:
        ask(dialog, SIGNED)
    quotes = caught.value.quotes
    assert quotes is not None
    assert (quotes.model, quotes.turn_id) == ("extractive", "")
    assert quotes.citations[0].path == "snip/sessions.py"
    assert dialog.turns() == []
    assert ask(dialog, SIGNED).text == "Signed [1]."
    assert [turn.order for turn in dialog.turns()] == [1]
    failed, _ = stored_turns(dialog)
    assert (failed.state, failed.error) == ("failed", str(caught.value))
    assert failed.answer.startswith("It is signed")


def test_an_answer_that_is_cut_at_its_limit_says_so(opened, sample_repo, server):
    server.behaviours = ["length", "good"]
    server.answers = ["It is signed by [1]", "Signed [1]."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    cut = ask(dialog, SIGNED)
    assert (cut.cut, cut.complete) == (True, True)
    assert any("cut at 1,500 tokens" in note for note in cut.notes)
    assert not ask(dialog, "How are sessions renewed?").cut


def test_a_cut_answer_is_stored_up_to_its_last_whole_sentence(opened, sample_repo, server):
    server.behaviours = ["length"]
    server.answers = ["It is signed by HMAC [1]. And it is th"]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    cut = ask(dialog, SIGNED)
    assert cut.text == dialog.turns()[0].answer == "It is signed by HMAC [1]."
    assert any("stored up to its last whole sentence" in note for note in cut.notes)


def test_the_statements_of_an_answer_are_checked_and_stored_with_the_turn(opened, sample_repo, server):
    server.answers = ["`frobnicate_all` signs the cookie with a key [1]. The cookie has been signed twice."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    answer = ask(dialog, SIGNED)
    check = answer.support
    assert check is not None and answer.text == server.answers[0]
    assert (check.statements, check.unsupported, check.uncited) == (2, 1, 0)
    assert check.unknown_names == ("frobnicate_all",)
    assert dialog.turns()[0].support == check
    assert check.summary.startswith("1 of 2 statements is not supported by its sources: `frobnicate_all`")


def test_an_answer_without_a_model_is_not_checked(opened, sample_repo):
    assert ask(begun(opened(), sample_repo), SIGNED).support is None


def test_a_broken_answer_is_partial_on_request(opened, sample_repo, server):
    server.behaviours = ["cut"]
    server.answers = ["It is signed by HMAC of the payload under the key."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    generator = dialog.engine.generator()
    with pytest.raises(ProviderBroke):
        ask(dialog, SIGNED, generator, keep_broken=True)
    (kept,) = stored_turns(dialog)
    assert kept.state == "partial"
    assert kept.answer.startswith("It is signed")


# ---------------------------------------------------------------- a model


def test_the_model_is_shown_the_sources_and_the_turns_before(opened, sample_repo, server):
    server.answers = ["Sessions are signed with HMAC [1].", "When do signed sessions expire?", "Later [1]."]
    dialog = begun(opened(base_url=server.base_url, model="test-model"), sample_repo)
    first, second = ask(dialog, SIGNED), ask(dialog, EXPIRE)
    asked, condensing, again = server.chats
    assert [m["role"] for m in asked.body["messages"]] == ["system", "user"]
    assert "sample_repo" in asked.body["messages"][0]["content"]
    assert "def sign_session" in asked.body["messages"][1]["content"]
    assert SIGNED in asked.prompt
    assert "_OF_" not in asked.prompt
    (cited,) = first.citations
    place = f"{cited.path}:{cited.start}-{cited.end}"
    for words in (SIGNED, first.text.replace("[1]", f"[{place}]"), EXPIRE):
        assert words in condensing.prompt
        assert words in again.prompt
    assert second.standalone_question == "When do signed sessions expire?"
    assert dialog.turns()[1].standalone_question == second.standalone_question
    assert first.seconds["answer"] > 0
    took = dialog.turns()[0].assistant_response_timestamp - dialog.turns()[0].user_query_timestamp
    assert took.total_seconds() >= sum(first.seconds.values())
    assert second.citations[0].path == "snip/sessions.py"
    assert not second.usage.estimated
    assert min(second.usage.prompt_tokens, first.usage.prompt_tokens) > 100


def test_a_follow_up_that_cannot_be_rewritten_is_still_answered(sample_repo, server):
    told: list[str] = []
    engine = Engine(load_settings({"base_url": server.base_url}), notice=told.append)
    with closing(engine):
        dialog = begun(engine, sample_repo)
        ask(dialog, SIGNED)
        server.behaviours = ["unauthorized", "good"]
        assert ask(dialog, EXPIRE).citations[0].path == "snip/sessions.py"
    assert [text for text in told if "was not rewritten" in text]


@pytest.mark.parametrize("said", [EXPIRE, "They expire after a day.", "Rewritten question:\n", " "])
def test_a_question_that_a_model_does_not_rewrite_is_searched_in_the_light_of_the_turns(
    opened, sample_repo, server, said
):
    server.answers = ["Sessions are signed with HMAC [1].", said, "After a while [1]."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    ask(dialog, SIGNED)
    answer = ask(dialog, EXPIRE)
    assert SIGNED in answer.standalone_question
    assert answer.citations[0].path == "snip/sessions.py"


SPANISH = "¿Cómo se firman las sesiones?"


@pytest.mark.parametrize("gate", [True, False])
def test_a_question_in_another_language_is_searched_in_english(opened, sample_repo, server, gate):
    server.answers = [
        "How are sessions signed?",
        "Con HMAC [1].",
        "When do signed sessions expire?",
        "Así [1].",
    ]
    dialog = begun(opened(base_url=server.base_url, gate=gate), sample_repo)
    first = ask(dialog, SPANISH)
    translating, asked = server.chats
    assert "into English" in translating.prompt
    assert SPANISH in translating.prompt
    assert SPANISH in asked.prompt  # and not the English one: the answer is to be in its language
    assert first.standalone_question == "How are sessions signed?"
    assert first.citations[0].path == "snip/sessions.py"
    assert dialog.turns()[0].question == SPANISH
    second = ask(dialog, "¿Y cuándo caducan?")
    assert "in English" in server.chats[2].prompt
    assert second.citations[0].path == "snip/sessions.py"


def test_an_answer_in_another_language_is_not_given_to_an_english_question(opened, sample_repo, server):
    server.answers = ["How are sessions signed?", "Con HMAC [1].", "By HMAC [1].", "How are sessions signed?"]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    engine = dialog.engine
    texts = []
    for question in (SPANISH, "How are sessions signed?", SPANISH):
        asked = begun(engine, sample_repo)
        *_, answer = converse(asked, question, engine.generator(), cache=True)
        assert isinstance(answer, Answer)
        texts.append((answer.text, answer.cached != ""))
    assert texts == [("Con HMAC [1].", False), ("By HMAC [1].", False), ("Con HMAC [1].", True)]


def test_without_a_model_a_question_in_another_language_is_told_what_would_help(opened, sample_repo):
    answer = ask(begun(opened(), sample_repo), "会话是如何签名的？")
    assert not answer.found
    assert "not to be in English" in answer.text


def test_who_calls_it_is_not_rewritten_but_answered_along_the_relation(opened, sample_repo, server):
    server.answers = ["It is checked by `authenticate`."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    ask(dialog, "Where is a token checked?")
    answer = ask(dialog, "And who calls it?")
    assert len(server.chats) == 2
    assert answer.hits[0].symbol != "authenticate"
    assert "authenticate(" in answer.hits[0].text


async def test_an_event_loop_keeps_a_broken_answer_as_partial_only_on_request(opened, sample_repo, server):
    server.behaviours = ["cut"]
    server.answers = ["It is signed by HMAC of the payload under the key."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    generator = dialog.engine.generator()
    for keep_broken in (False, True):
        with pytest.raises(ProviderBroke):
            [piece async for piece in aconverse(dialog, SIGNED, generator, keep_broken=keep_broken)]
        assert [turn.complete for turn in dialog.turns()] == [False] * keep_broken
    assert [turn.state for turn in stored_turns(dialog)] == ["failed", "partial"]


def test_what_a_reasoning_model_thinks_aloud_is_neither_shown_nor_stored(opened, sample_repo, server):
    thought = "<think>\nPerhaps [2]? Or in the cookie.\n</think>\n\n"
    server.answers = [
        f"{thought}With HMAC [1].",
        f"{thought}When do sessions expire?",
        f"{thought}Later [1].",
    ]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    assert ask(dialog, SIGNED).text == "With HMAC [1]."
    answer = ask(dialog, EXPIRE)
    assert (answer.text, answer.standalone_question) == ("Later [1].", "When do sessions expire?")
    assert [turn.answer for turn in dialog.turns()] == ["With HMAC [1].", "Later [1]."]


def test_an_invented_citation_is_taken_out_and_counted(opened, sample_repo, server):
    server.answers = ["Signed with HMAC [1], sealed with wax [99]."]
    dialog = begun(opened(base_url=server.base_url), sample_repo)
    answer = ask(dialog, SIGNED)
    assert answer.text == "Signed with HMAC [1], sealed with wax."
    assert answer.invented == 1
    assert [c.n for c in answer.citations] == [1]
    assert dialog.turns()[0].answer == answer.text


def test_a_key_is_sent_to_its_server_and_kept_nowhere(opened, sample_repo, server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    server.api_key = KEY
    dialog = begun(opened(base_url=server.base_url, api_key=KEY), sample_repo)
    ask(dialog, SIGNED)
    ask(dialog, EXPIRE)
    assert {request.headers["authorization"] for request in server.chats} == {f"Bearer {KEY}"}
    assert KEY not in repr(dialog.engine.settings)
    assert KEY not in caplog.text
    files = [file for file in (tmp_path / "rag-home").rglob("*") if file.is_file()]
    assert {"turns.db"} < {file.name for file in files}
    for file in files:
        assert KEY.encode() not in file.read_bytes(), file


def test_a_real_model_holds_a_conversation(sample_repo, real_model: LocalModel, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", real_model.api_key)
    monkeypatch.setenv("RAG_CONTEXT_TOKENS", "700")
    monkeypatch.setenv("RAG_ANSWER_TOKENS", "12")
    rag = RAG(base_url=real_model.base_url, model=real_model.model)
    rag.prepare_retriever(str(sample_repo))
    pieces = list(rag.stream(SIGNED))
    second = rag(EXPIRE)
    first_turn, second_turn = rag.memory().values()
    assert first_turn.answer
    assert "".join(pieces).startswith(first_turn.answer)  # it is cut at 12 tokens
    assert second_turn.answer == second.text
    assert second.usage.prompt_tokens > 100
    assert second.model == real_model.model
    prepared = rag._dialog().prepare("And who renews them?")
    for words in (SIGNED, first_turn.answer.strip().splitlines()[0], EXPIRE):
        assert words in prepared.prompt.text


# ---------------------------------------------------------------- RAG, the component


def test_an_answer_unpacks_as_deepwikis_pair(sample_repo):
    rag = RAG()
    rag.prepare_retriever(str(sample_repo))
    answer, documents = rag(SIGNED)
    assert isinstance(answer, Answer)
    assert answer.answer == answer.text
    assert documents[0].documents[0].meta_data["file_path"] == "snip/sessions.py"
    again = rag(SIGNED)
    assert again[0].answer == again.text
    assert again[1][0].documents[0].meta_data["file_path"] == "snip/sessions.py"
    assert len(documents[0].doc_indices) == len(documents[0].doc_scores) == len(documents[0].documents)


async def test_the_same_question_is_answered_alike_in_every_way_of_asking(sample_repo):
    rag = RAG()
    rag.prepare_retriever(str(sample_repo))

    def anew() -> None:
        rag.memory.conversation = None

    expected = rag(SIGNED).text
    for ask_again in (lambda: rag.call(SIGNED).text, lambda: "".join(rag.stream(SIGNED))):
        anew()
        assert ask_again() == expected
    anew()
    assert (await rag.acall(SIGNED)).text == expected
    anew()
    assert "".join([piece async for piece in rag.astream(SIGNED)]) == expected


def test_a_named_conversation_goes_on_in_a_new_instance(sample_repo, tmp_path):
    first = RAG(conversation="login")
    first.prepare_retriever(str(sample_repo))
    first(SIGNED)
    second = RAG(conversation="login")
    assert second(EXPIRE).citations[0].path == "snip/sessions.py"
    assert [turn.question for turn in second.memory().values()] == [SIGNED, EXPIRE]
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.py").write_text("def a():\n    pass\n")
    with pytest.raises(ConversationMismatch, match="login"):
        second.prepare_retriever(str(other))


def test_a_repository_that_is_added_is_asked_too_and_once(sample_repo, tmp_path):
    kiln = tmp_path / "kiln"
    kiln.mkdir()
    (kiln / "glaze.py").write_text('def fire(kiln):\n    """Heat the kiln until the glaze melts."""\n')
    rag = RAG()
    rag.prepare_retriever(str(sample_repo))
    first = rag(SIGNED).conversation_id
    for _ in range(2):
        rag.add_repository(str(kiln))
    assert [repository.source.name for repository in rag.repositories] == ["sample_repo", "kiln"]
    answer = rag("How are sessions signed, and how is the glaze fired in the kiln?")
    assert {citation.repo for citation in answer.sources} == {"sample_repo", "kiln"}
    assert answer.conversation_id != first


def test_rag_without_a_repository_says_what_to_call():
    with pytest.raises(NotFound, match="prepare_retriever"):
        RAG()(SIGNED)


# ---------------------------------------------------------------- templates


def test_a_template_of_ones_own_is_what_the_model_is_sent(sample_repo, server, tmp_path):
    (tmp_path / "mine.j2").write_text(
        "From a file: {{ input_str }}{% for c in contexts %} {{ c.place }}{% endfor %}"
    )
    folder = tmp_path / "rag-home" / "templates"
    folder.mkdir(parents=True)
    (folder / "short.j2").write_text("From the folder: {{ input_str }}")
    (folder / "answer.j2").write_text("Always: {{ input_str }}")
    given = {
        "Given: {{ input_str }}": "Given",
        str(tmp_path / "mine.j2"): "From a file",
        "short": "From the folder",
        None: "Always",
    }
    for template, beginning in given.items():
        rag = RAG(base_url=server.base_url, template=template, steps=0)
        rag.prepare_retriever(str(sample_repo))
        rag(SIGNED)
        assert server.chats[-1].prompt.startswith(f"{beginning}: {SIGNED}")
    assert "snip/sessions.py:" in server.chats[1].prompt


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ input_str }} {{ question }}", "'question', which does not exist"),
        ("{{ input_str }} {% for %}", "has a mistake"),
        ("{{ input_str }} {{ contexts[0].nothing }}", "cannot be rendered"),
        ("nowhere.j2", "there is no template"),
        ("{{ contexts }}", "never shows the question"),
    ],
)
def test_a_template_that_cannot_serve_is_an_error_that_says_why(server, sample_repo, template, told):
    rag = RAG(template=template, base_url=server.base_url, model="test-model")
    rag.prepare_retriever(str(sample_repo))
    with pytest.raises(TemplateError, match=told):
        rag(SIGNED)
    assert rag.memory() == {}


def test_where_text_goes_is_said_once(tmp_path):
    """Nothing is sent here: only naming the receiver is looked at."""
    told: list[str] = []
    settings = Settings(home=tmp_path, model="m", base_url="https://llm.example.org/v1", api_key="k")
    for _ in range(2):
        Engine(settings, notice=told.append).generator()
    assert told == [
        "questions and excerpts of the code are sent to llm.example.org; this notice is shown once"
    ]
    Engine(replace(settings, base_url="http://127.0.0.1:1/v1"), notice=told.append).generator()
    for unusable in (replace(settings, base_url=None, api_key=None), replace(settings, client="nobody")):
        with pytest.raises(RagError):
            Engine(unusable, notice=told.append).generator()
    assert len(told) == 1
