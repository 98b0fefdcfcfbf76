"""Questions about the conversation: they are answered from its places, with a line for each."""

from __future__ import annotations

import pytest

import rag.retrieval.question as question_parser
from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.context import CARRY, in_context
from rag.retrieval.question import parse_question
from rag.retrieval.recall import recalled, recalls
from rag.retrieval.working_set import Exchange
from rag.service import Dialog, Engine, locate
from rag.service.loop.ask import converse
from rag.settings import load_settings
from rag.types import Subject
from rag.types.question_kinds import AFFECTED, AGAIN, RECALL

CART = 'def price_of(cart):\n    """Sum the prices of a cart."""\n    return sum(cart)\n'
STAMP = 'def stamp(letter):\n    """Put a stamp on a letter."""\n    return letter + "#"\n'
PAST = [Exchange("How is the price of a cart computed?", (Subject("cart.py", "price_of", "", 1, 3),))]
ORDINARY = [
    "What is a word?",
    "How is a word repeated?",
    "What does repeat do?",
    "Where is it repeated?",
    "repeat",
    "Who?",
    "What else?",
    "Show me more",
    "Why is it repeated?",
    "How do I ask?",
    "How does conversation work?",
    "How do we compute the price of a cart?",
    "Which files compute the price of a cart?",
    "How do we find the last question?",
    "Where do we write files?",
    "Where are files changed?",
    "Which files would I have to change for another price?",
    "What is the summary of a cart?",
    "`summarise`",
    "summarise()",
]
"""Questions with words of those about a conversation."""


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
        ("So which files would I have to change?", AFFECTED),
        ("what are we talking about?", RECALL),
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
        *(
            (text, AGAIN)
            for text in ("and why?", "again", "explain it again, please", "explain that simpler")
        ),
        *((text, "") for text in ORDINARY),
    ],
)
def test_a_question_about_the_conversation_is_recognised(question, kind):
    assert recalls(parse_question(question), PAST) == kind
    assert recalls(parse_question(question), []) == ""


def test_the_places_of_the_conversation_are_listed_in_its_order(dialog):
    asked(dialog, "How is the price of a cart computed?")
    asked(dialog, "How do I water tomatoes?")
    asked(dialog, "Where is a stamp put on a letter?")
    answer = asked(dialog, "Which places did we look at?")
    assert answer.text.splitlines() == [
        "This conversation is about 2 places in 2 files:",
        "",
        "- `price_of` — `cart.py:1` [1] — How is the price of a cart computed?",
        "- `stamp` — `stamp.py:1` [2] — Where is a stamp put on a letter?",
    ]
    assert answer.found and not answer.warning
    assert [citation.path for citation in answer.citations] == ["cart.py", "stamp.py"]


def test_a_change_affects_the_files_that_use_the_subject_and_its_tests(dialog, tmp_path):
    shop = tmp_path / "shop"
    (shop / "till.py").write_text(
        "from cart import price_of\n\n\ndef pay(cart):\n    return price_of(cart)\n", encoding="utf-8"
    )
    (shop / "test_cart.py").write_text(
        "from cart import price_of\n\n\ndef test_price():\n    assert price_of([1]) == 1\n", encoding="utf-8"
    )
    updated = Dialog(dialog.engine, [dialog.engine.repository(locate(str(shop)))])
    asked(updated, "Where is a stamp put on a letter?")
    asked(updated, "How is the price of a cart computed?")
    assert asked(updated, "Which files would I have to change?").text.splitlines() == [
        "A change of `price_of` affects 3 files:",
        "",
        "- `price_of` — `cart.py:1` [1] — defined here",
        "- `pay` — `till.py:5` [2] — uses `price_of`",
        "- `test_price` — `test_cart.py:5` [3] — uses `price_of`",
    ]


def test_the_latest_places_are_listed_where_there_are_many():
    places = [Subject("cart.py", f"step_{n}", "", n, n) for n in range(1, 11)]
    past = [Exchange(f"How does step {place.start} work?", (place,)) for place in places]
    shown, is_cut = recalled(RECALL, past)
    assert [one.place for one in shown] == places[3:] and is_cut
    shown, is_cut = recalled(RECALL, past[:7])
    assert [one.place for one in shown] == places[:7] and not is_cut


def test_the_sentence_on_the_latest_places_gives_no_total(dialog, tmp_path):
    steps = "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(8))
    (tmp_path / "shop" / "steps.py").write_text(steps, encoding="utf-8")
    updated = Dialog(dialog.engine, [dialog.engine.repository(locate(str(tmp_path / "shop")))])
    for n in range(8):
        asked(updated, f"Where is `step_{n}` defined?")
    lines = asked(updated, "recap").text.splitlines()
    assert lines[0] == "The latest 7 places of this conversation are in 1 file:"
    assert "step_1" in lines[2] and "step_7" in lines[8]


def test_each_earlier_question_is_parsed_once():
    past = [Exchange(f"How is the price of cart {n} computed?", PAST[0].places) for n in range(400)]
    question_parser._parsed.cache_clear()
    for question in ("who calls it?", "is it tested?", "recap"):
        in_context(parse_question(question), past, CARRY)
    assert question_parser._parsed.cache_info().misses == len(past) + 3


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
    place = "`price_of` — `cart.py:1` [1] — outdated: the code has changed since — How"
    assert place in asked(again, "recap").text
    (tmp_path / "shop" / "cart.py").unlink()
    updated = dialog.engine.repository(locate(str(tmp_path / "shop")))
    gone = Dialog(dialog.engine, [updated], history=dialog.history)
    assert "\n- 1 of its places is gone\n" in asked(gone, "recap").text
