"""The gate: what is there is answered, what is not is warned of, in repositories of any size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.retrieval.answerability import judge, signals
from rag.retrieval.search import Searcher, search, search_in_turn
from rag.service import Engine
from rag.settings import Settings
from rag.types import Confidence
from tests.contracts.hashing_embedder import HashingEmbedder


@pytest.fixture
def judged(searcher: Searcher) -> Callable[..., Confidence]:
    def judged(question: str, *earlier: str) -> Confidence:
        return judge([searcher], search_in_turn([searcher], question, earlier))

    return judged


@pytest.mark.parametrize(
    "question",
    [
        "How are sessions signed?",
        "How is the rate limited?",
        "What happens when a link has expired?",
        "How can I keep someone from asking too often?",
        "What does `is_expired` do?",
        "who calls sign_session?",
        "SessionSigner",
        "Which tests are there for the rate limiter?",
        "How does snip count clicks?",
    ],
)
def test_what_a_small_repository_holds_needs_no_warning(judged, question):
    confidence = judged(question)
    assert confidence.is_sure
    assert confidence.missing_words == ()


@pytest.mark.parametrize(
    ("question", "absent"),
    [
        ("Where are Kafka messages consumed?", "Kafka"),
        ("How is GraphQL exposed?", "GraphQL"),
        ("What does `FrobnicatorFactory` do?", "FrobnicatorFactory"),
        ("Where is parse_yaml_manifest defined?", "parse_yaml_manifest"),
        ("How is the LDAP directory queried?", "LDAP"),
        ("How are uploaded images resized?", "images"),
        ("Which class trains the neural network?", "network"),
    ],
)
def test_what_it_does_not_hold_is_not_sure_and_the_missing_word_is_named(judged, question, absent):
    confidence = judged(question)
    assert not confidence.is_sure
    assert absent in confidence.absent
    assert absent in confidence.sought
    assert confidence.missing_words == (*confidence.absent, *confidence.unmet)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Where are Kafka messages consumed?", True),  # "messages" occurs
        ("How does parse_zookeeper_url work?", True),  # a part of the name occurs
        ("Where is the zebra?", False),
        ("Kafka zookeeper brokers?", False),
        ("What is FrobnicatorQuux? Thanks in advance, answer in German.", False),
        ("会话如何签名?", False),
    ],
)
def test_it_is_found_unless_no_word_occurs_anywhere(judged, question, found):
    assert judged(question).found is found


@pytest.mark.parametrize("question", ["Who calls `t`?", "Where is `t` defined?", "Who calls `_`?"])
def test_a_name_of_one_letter_is_a_name(searcher_of, question):
    one = searcher_of({"a.py": "def t(x):\n    return x\n\n\ndef _(y):\n    return t(y)\n\n\n_(t(1))\n"})
    found = search([one], question)
    assert judge([one], found).is_sure and (found.code_facts or "defined" in question)


WRAPPINGS = [
    "{} TLDR please",
    "ELI5: {}",
    "{} lol",
    "{} thx",
    "{} Thanks in advance, John",
    "{} I need this ASAP",
    "FYI I am on a Mac. {}",
    "{} Answer in German.",
    "{} Format it as a markdown table.",
    "{} Answer in bullet points.",
    "{} Use at most three sentences.",
    "Hello! {} Thanks!",
    "I'm new to this codebase. {}",
    "My boss asked me: {}",
    "{} Explain it for a junior developer.",
    "{} Please answer in one sentence.",
    "hey {}",
]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_is_said_around_a_question_changes_nothing(judged, wrapping):
    for question in ("How are sessions signed?", "What happens when a link has expired?"):
        assert judged(wrapping.format(question)).is_sure
    confidence = judged(wrapping.format("How is the LDAP directory queried?"))
    assert not confidence.is_sure
    assert confidence.missing_words[0] == "LDAP"
    assert {*confidence.missing_words} <= {"LDAP", "directory", "queried"}
    assert not judged(wrapping.format("Where is the zebra?")).found


@pytest.mark.parametrize(
    "follow_up",
    ["Summarize that in one sentence.", "Translate your answer to German.", "Write a unit test for it."],
)
def test_a_follow_up_that_only_says_how_to_answer_is_found(judged, follow_up):
    confidence = judged(follow_up, "How are sessions signed?")
    assert confidence.found
    assert confidence.missing_words == ()


def test_a_follow_up_that_names_nothing_rests_on_what_was_asked_before(judged):
    assert judged("And when do they expire?", "How are sessions signed?").is_sure
    assert judged("who calls it?", "What does sign_session do?").is_sure
    warned = judged("And how does Kafka get them?", "How are sessions signed?")
    assert (warned.found, warned.is_sure, warned.missing_words) == (True, False, ("Kafka",))


def test_a_repository_of_one_file_knows_what_it_has(tmp_path):
    (tmp_path / "pottery").mkdir()
    (tmp_path / "pottery" / "glaze.py").write_text(
        'def fire(kiln):\n    """Heat the kiln until the glaze melts."""\n    kiln.heat(1200)\n'
    )
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path / "pottery")).searcher
        found = {
            q: judge([searcher], search([searcher], q)).is_sure
            for q in ("How is the glaze fired?", "kiln", "How are invoices sent?", "Where is the database?")
        }
    assert list(found.values()) == [True, True, False, False]


def test_another_language_is_left_to_an_embedder_that_may_understand_it(searcher):
    foreign = "Wo werden sessions signiert?"
    hashing = Searcher(searcher.index, HashingEmbedder(searcher.embedder.dim), searcher.vectors)
    assert not judge([searcher], search([searcher], foreign)).is_sure
    assert judge([hashing], search([hashing], foreign)).is_sure
    assert not judge([hashing], search([hashing], "Where are the Kafka messages consumed?")).is_sure


def test_a_title_or_a_shout_names_nothing(judged):
    assert judged("HOW ARE SESSIONS SIGNED?").is_sure
    assert judged("How Is The Rate Limited?").is_sure


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "sessions",
                "Kafka",
                "how",
                "`session signing`",
                "storage",
                "`x_y`",
                "?",
                "会话",
                "why",
                "thing",
                "é",
                "HTTP/2",
                "\0",
            ]
        )
    ).map(" ".join)
    | st.text(max_size=40)
)
def test_confidence_is_a_share_and_without_hits_there_is_none(searcher, question):
    found = search([searcher], question)
    confidence = judge([searcher], found)
    assert 0 <= confidence.value <= 1
    assert confidence.is_sure == (confidence.value >= 0.5)
    assert confidence.found >= confidence.is_sure
    assert found.hits or (confidence.value == 0 and not confidence.found)
    assert {*confidence.absent, *confidence.unmet} <= {*confidence.sought}
    assert not {*confidence.absent} & {*confidence.unmet}
    assert not any(word.lower() in hit.text.lower() for word in confidence.unmet for hit in found.ranked[:3])
    assert all(0 <= signal <= 1 for signal in signals([searcher], found))
