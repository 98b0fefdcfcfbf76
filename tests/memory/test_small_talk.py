"""Questions about the conversation itself: they are answered from its turns."""

from __future__ import annotations

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.memory.about_conversation import is_about_conversation
from rag.service import Dialog, Engine, locate
from rag.service.ask import converse
from rag.settings import load_settings

CART = 'def price_of(cart):\n    """Sum the prices of a cart."""\n    return sum(cart)\n'
STAMP = 'def stamp(letter):\n    """Put a stamp on a letter."""\n    return letter + "#"\n'


@pytest.fixture
def dialog(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    root = tmp_path / "shop"
    root.mkdir()
    (root / "cart.py").write_text(CART, encoding="utf-8")
    (root / "stamp.py").write_text(STAMP, encoding="utf-8")
    engine = Engine(load_settings({"memory": "memory:"}))
    return Dialog(engine, [engine.repository(locate(str(root)))])


def asked(dialog, question):
    *pieces, answer = converse(dialog, question, ExtractiveGenerator())
    assert "".join(pieces) == answer.text
    return answer


@pytest.mark.parametrize(
    "question",
    [
        "summarise what we found",
        "Can you summarize our conversation so far?",
        "What have we found out so far?",
        "recap please",
        "what did I ask first?",
        "What was my last question?",
        "thanks, that helps!",
        "Ok, great. Thank you very much!",
        "Perfect, thanks",
    ],
)
def test_a_question_about_the_conversation_is_recognised(question):
    assert is_about_conversation(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "ok",
        "bye bye birdie",
        "Summarise the parser.",
        "summarise what the parser found",
        "What did the user ask first?",
        "thanks, and who calls it?",
        "Where are thanks sent?",
        "What was the last release?",
        "list my orders",
        "hello world example",
        "What can you do with a cart?",
        "Who are you users of this?",
    ],
)
def test_a_question_about_the_code_is_not(question):
    assert not is_about_conversation(question)


def test_a_summary_has_a_line_for_each_answered_question(dialog):
    asked(dialog, "How is the price of a cart computed?")
    asked(dialog, "How do I water tomatoes?")
    asked(dialog, "Where is a stamp put on a letter?")
    answer = asked(dialog, "summarise what we found")
    assert answer.text.splitlines() == [
        "2 questions with an answer in this conversation:",
        "",
        "- How is the price of a cart computed? — quoted `price_of`, `stamp` (cart.py:1-3, stamp.py:1-3)",
        "- Where is a stamp put on a letter? — quoted `stamp`, `price_of` (stamp.py:1-3, cart.py:1-3)",
    ]
    assert answer.found and not answer.warning and not answer.citations


def test_the_first_and_the_last_question(dialog):
    asked(dialog, "How is the price of a cart computed?")
    asked(dialog, "Where is a stamp put on a letter?")
    assert "price of a cart" in asked(dialog, "what did I ask first?").text
    assert "on a letter" in asked(dialog, "what was my last question?").text


def test_an_answer_whose_code_has_changed_is_marked(dialog, tmp_path):
    asked(dialog, "How is the price of a cart computed?")
    (tmp_path / "shop" / "cart.py").write_text(CART.replace("sum(cart)", "max(cart) * 2"), encoding="utf-8")
    updated = dialog.engine.repository(locate(str(tmp_path / "shop")))
    again = Dialog(dialog.engine, [updated], history=dialog.history)
    assert asked(again, "recap").text.endswith("— outdated: the code has changed since")


def test_thanks_do_not_change_the_subject(dialog):
    asked(dialog, "How is the price of a cart computed?")
    assert asked(dialog, "thanks, that helps!").text == "Nothing is asked here, so nothing was searched."
    assert dialog.next_subject().symbol == "price_of"
