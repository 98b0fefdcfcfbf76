"""German questions of known words are read in English."""

from __future__ import annotations

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.german import function_words, in_english
from rag.retrieval.question import parse_question
from rag.retrieval.search import search
from rag.service import Dialog, Engine, locate
from rag.service.loop.ask import converse
from rag.settings import load_settings


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("Wer ruft das auf?", "who calls that?"),
        ("ist das getestet?", "is that tested?"),
        ("gibt es dafür Tests?", "is that tested?"),
        ("was passiert, wenn es fehlschlägt?", "what happens, if it fails?"),
        ("was gibt es zurück?", "what gives it back?"),
        ("seit wann ist das so?", "since when is that like this?"),
        ("zeig mir die ganze Funktion", "show me the whole function"),
        ("Und wer ruft `send_all` auf?", "and who calls `send_all`?"),
        ("Wie werden Passwoerter gespeichert?", "how are passwords stored?"),
        ("Wo wird das Passwort geprüft?", "where is the password checked?"),
        ("nein, ich meinte den Parser", "no, I meant the parser"),
        ("Wo wird client_id gesetzt?", "where is client_id set?"),
        ("wo wird server.client gelesen", "where is server.client read"),
        ("welche Optionen gibt es?", "which options are there?"),
        ("wann läuft die Sitzung ab?", "when expires the session?"),
        ("ist das über dem Limit?", "is that about the limit?"),
        ("wo wird --limit gelesen", "where is --limit read"),
        ("Wer ruft sendAll() auf?", "who calls sendAll()?"),
        ("was macht das (genau)?", "what does that (exactly)?"),
        ('Wo wird die Meldung "der Fehler" erzeugt?', 'where is the message "der Fehler" created?'),
    ],
)
def test_a_question_of_known_words_is_put_into_english(german, english):
    assert in_english(german) == english
    assert parse_question(german).text == english


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("Wo wird ein kurzer Code erzeugt?", {"wo", "wird", "ein"}),
        ("Wie werden Rechnungen und Mahnungen verschickt?", {"wie", "werden", "und"}),
        ("die hard mode is on", set()),
        ("Where is the text cut?", set()),
    ],
)
def test_words_that_only_build_a_german_sentence_are_not_missing(text, ignored):
    assert function_words(text) == ignored


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Wo werden die Rechnungen verschickt?",
        "who was the man in die hard?",
        "option in server",
        "Where is `der` set?",
        "what is das keyboard",
        "wer ruft das auf? " * 20,
    ],
)
def test_other_questions_are_left(text):
    assert in_english(text) == text


def test_a_name_that_the_code_defines_stays(searcher_of):
    searcher = searcher_of(
        {"konto.py": "class Benutzer:\n    pass\n", "user.py": "def user():\n    return Benutzer()\n"}
    )
    for question in ("Wo ist die Klasse Benutzer?", "Wer ruft Benutzer auf?"):
        assert "`Benutzer`" in search([searcher], question).sought.question.text
    assert search([searcher], "Wo wird der Wert gesetzt?").sought.question.text == "where is the value set?"


def test_a_german_follow_up_is_answered(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    root = tmp_path / "mail"
    root.mkdir()
    (root / "mail.py").write_text(
        "def deliver(message):\n    if not message:\n        raise ValueError('no message')\n"
        "    return message\n\n\ndef deliver_all(messages):\n"
        "    return [deliver(message) for message in messages]\n",
        encoding="utf-8",
    )
    engine = Engine(load_settings({"memory": "memory:"}))
    dialog = Dialog(engine, [engine.repository(locate(str(root)))])
    questions = ["Where is deliver defined?", "wer ruft das auf?", "und was passiert, wenn es fehlschlägt?"]
    _, callers, failure = [list(converse(dialog, q, ExtractiveGenerator()))[-1] for q in questions]
    assert callers.text.startswith("`deliver` is called in 1 place") and not callers.warning
    assert (failure.citations[0].path, failure.citations[0].start) == ("mail.py", 1) and not failure.warning
