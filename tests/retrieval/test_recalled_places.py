"""Questions about the conversation: they are answered from its places, with a line for each."""

from __future__ import annotations

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.question import parse_question
from rag.retrieval.recall import recalls
from rag.retrieval.working_set import Exchange
from rag.service import Dialog, Engine, locate
from rag.service.ask import converse
from rag.settings import load_settings
from rag.types import Subject
from rag.types.question_kinds import AGAIN, RECALL

CART = 'def price_of(cart):\n    """Sum the prices of a cart."""\n    return sum(cart)\n'
STAMP = 'def stamp(letter):\n    """Put a stamp on a letter."""\n    return letter + "#"\n'
PAST = [Exchange("How is the price of a cart computed?", (Subject("cart.py", "price_of", "", 1, 3),))]


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
    ("question", "kind"),
    [
        ("So which files would I have to change?", RECALL),
        ("Which files would I have to change for the price of a cart?", RECALL),
        ("which files did we go through?", RECALL),
        ("where were we?", RECALL),
        ("what did we decide?", RECALL),
        ("What did we look at so far?", RECALL),
        ("summarise", RECALL),
        ("recap please", RECALL),
        ("Can you summarize our conversation so far?", RECALL),
        ("what did I ask first?", RECALL),
        ("What was my last question?", RECALL),
        ("why?", AGAIN),
        ("explain again, simpler", AGAIN),
        ("explain it in simple words", AGAIN),
        ("summarise that", AGAIN),
        ("what is it?", ""),
        ("is it tested?", ""),
        ("which file is it in?", ""),
        ("Which files are compressed?", ""),
        ("Summarise the parser.", ""),
        ("Where are feeds looked up?", ""),
        ("What was the last release?", ""),
        ("list my orders", ""),
        ("explain `price_of` again", ""),
    ],
)
def test_a_question_about_the_conversation_is_recognised(question, kind):
    assert recalls(parse_question(question), PAST) == kind
    assert recalls(parse_question(question), []) == ""


def test_the_places_of_the_conversation_are_listed_in_its_order(dialog):
    asked(dialog, "How is the price of a cart computed?")
    asked(dialog, "How do I water tomatoes?")
    asked(dialog, "Where is a stamp put on a letter?")
    answer = asked(dialog, "Which files would I have to change?")
    assert answer.text.splitlines() == [
        "This conversation is about 2 places in 2 files:",
        "",
        "- `price_of` — `cart.py:1` [1] — How is the price of a cart computed?",
        "- `stamp` — `stamp.py:1` [2] — Where is a stamp put on a letter?",
    ]
    assert answer.found and not answer.warning
    assert [citation.path for citation in answer.citations] == ["cart.py", "stamp.py"]


def test_a_question_about_the_conversation_does_not_change_its_subject(dialog):
    asked(dialog, "How is the price of a cart computed?")
    asked(dialog, "Where is a stamp put on a letter?")
    asked(dialog, "where were we?")
    assert dialog.next_subject().symbol == "stamp"
    asked(dialog, "thanks, that helps!")
    assert dialog.next_subject().symbol == "stamp"


def test_the_last_answer_is_shown_again(dialog):
    asked(dialog, "How is the price of a cart computed?")
    answer = asked(dialog, "explain it again, simpler")
    assert answer.text.startswith("The last answer is about `price_of`:")
    assert "return sum(cart)" in answer.text and not answer.warning


def test_a_place_that_has_changed_is_marked(dialog, tmp_path):
    asked(dialog, "How is the price of a cart computed?")
    (tmp_path / "shop" / "cart.py").write_text(CART.replace("sum(cart)", "max(cart) * 2"), encoding="utf-8")
    updated = dialog.engine.repository(locate(str(tmp_path / "shop")))
    again = Dialog(dialog.engine, [updated], history=dialog.history)
    assert "`price_of` — `cart.py:1` [1] — How is the price" in asked(again, "recap").text
    assert "outdated: the code has changed since" in asked(again, "recap").text
    (tmp_path / "shop" / "cart.py").unlink()
    updated = dialog.engine.repository(locate(str(tmp_path / "shop")))
    gone = Dialog(dialog.engine, [updated], history=dialog.history)
    assert "1 of its places is gone." in asked(gone, "recap").text
