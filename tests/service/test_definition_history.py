"""Questions about the history of a definition are answered from git, or the reason is given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from command import rag
from conftest import git
from hypothesis import given
from hypothesis import strategies as st
from live_server import serving

from rag.corpus import line_history
from rag.corpus.line_history import history_of_lines
from rag.errors import SourceError
from rag.retrieval.asked_history import asked_history
from rag.service import Dialog, Engine, converse, locate
from rag.settings import Settings
from rag.types import Answer, SearchFilter

LINES = "".join(f"    part_{number} = text[{number}:] or text\n" for number in range(8))
FIRST = f"def sign(text):\n{LINES}    return text\n\n\ndef check(text):\n{LINES}    return True\n"
SECOND = FIRST.replace("return text", "return text + KEY")
THIRD = "KEY = 'k'\n\n\n" + SECOND


def committed(folder: Path, text: str, message: str, *, author: str, day: str) -> None:
    (folder / "src" / "sign.py").write_text(text)
    git(folder, "add", "--all")
    name, _, address = author.partition(" <")
    mine = {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address.rstrip(">"),
        "GIT_AUTHOR_DATE": f"{day}T10:00:00",
    }
    command = ["git", "commit", "--quiet", "--message", message, f"--date={day}T10:00:00"]
    settings = {"GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@example.org"}
    subprocess.run(command, cwd=folder, env={**os.environ, **settings, **mine}, check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "signer"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "--quiet")
    why = "Links were forged by\nanyone.\n\nSigned-off-by: Ann <ann@example.org>"
    committed(
        folder, FIRST, f"Sign links [1](http://x)\n\n{why}", author="Ann <ann@example.org>", day="2024-03-01"
    )
    committed(
        folder, SECOND, "Use the key of bob@example.org", author="bob@b.org <bob@b.org>", day="2025-04-02"
    )
    committed(folder, THIRD, "Add the key", author="Cleo <cleo@example.org>", day="2026-05-03")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "rag", memory="memory:"))) as engine:
        yield engine


def asked(engine: Engine, folder: Path | str, *questions: str, ref: str | None = None) -> Answer:
    """The answer to the last of some questions."""
    dialog = Dialog(engine, [engine.repository(str(folder), ref=ref)])
    for question in questions:
        *_, answer = converse(dialog, question, engine.generator())
    assert isinstance(answer, Answer)
    return answer


def test_who_last_changed_a_definition(engine: Engine, folder: Path) -> None:
    answer = asked(engine, folder, "Who last changed `sign`?")
    facts = answer.code_facts
    assert facts is not None and (facts.kind, facts.subject, facts.count) == ("history", "sign", 2)
    assert "last changed by bob on 2025-04-02" in facts.summary and "2 commits changed it" in facts.summary
    assert [item.reason.split(" by ")[0] for item in facts.items] == ["changed", "introduced"]
    assert (facts.items[0].path, facts.items[0].start, facts.items[0].end) == ("src/sign.py", 4, 13)
    assert facts.items[0].text == f"def sign(text):\n{LINES}    return text + KEY" and facts.complete
    assert answer.text.startswith("`sign` was last changed by bob")
    assert answer.citations[0].path == "src/sign.py"


@pytest.mark.parametrize("question", ["When was sign introduced?", "Why was the function sign added?"])
def test_when_and_why_a_definition_was_introduced(engine: Engine, folder: Path, question: str) -> None:
    text = asked(engine, folder, question).text
    assert "introduced by Ann on 2024-03-01" in text and "Links were forged by anyone;" in text
    assert "last changed by bob" in text


def test_a_follow_up_is_about_the_definition_last_shown(engine: Engine, folder: Path) -> None:
    facts = asked(engine, folder, "How is a link signed?", "And who wrote it?").code_facts
    assert facts is not None and facts.subject == "sign" and "introduced by Ann" in facts.summary


def test_a_definition_that_does_not_exist_has_no_history(engine: Engine, folder: Path) -> None:
    answer = asked(engine, folder, "Who last changed `verify_all`?")
    assert answer.code_facts is None and not answer.found
    near = asked(engine, folder, "Who last changed the code that signs a text?").code_facts
    assert near is not None and near.certain_count == 0 and not near.items[0].certain


def test_the_history_of_a_file(engine: Engine, folder: Path) -> None:
    facts = asked(engine, folder, "Who last changed src/sign.py?").code_facts
    assert facts is not None and facts.subject == "src/sign.py" and facts.count == 3
    assert "by Cleo on 2026-05-03" in facts.summary


FILES = {
    "Why was src/sign.py added?": "src/sign.py",
    "Why was sign.py introduced?": "src/sign.py",
    "When was src/sign.py created and by whom?": "src/sign.py",
    "Who added src/sign.py?": "src/sign.py",
    "Why did we add sign.py?": "src/sign.py",
    "When did Ann add src/sign.py?": "src/sign.py",
    "What is the reason src/sign.py was added?": "src/sign.py",
    "When was Dockerfile added?": "Dockerfile",
    "Who added the Dockerfile?": "Dockerfile",
}


@pytest.mark.parametrize("question", FILES)
def test_when_and_why_a_file_was_added(engine: Engine, folder: Path, question: str) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\n")
    committed(
        folder, "# Why a file was added.\n" + THIRD, "Ship it", author="Dan <d@d.org>", day="2026-06-01"
    )
    facts = asked(engine, folder, question).code_facts
    assert facts is not None and facts.subject == FILES[question] and facts.certain_count
    first = "by Dan on 2026-06-01" if facts.subject == "Dockerfile" else "by Ann on 2024-03-01"
    assert f"introduced {first}" in facts.summary


def test_no_address_and_no_markup_of_a_commit_is_shown(engine: Engine, folder: Path) -> None:
    answer = asked(engine, folder, "Why was sign added?")
    assert "@" not in answer.text and "](http" not in answer.text and "Signed-off" not in answer.text
    assert '"Sign links (1)(http://x)"' in answer.text


def test_lines_that_moved_or_changed_since_the_commit(engine: Engine, folder: Path) -> None:
    (folder / "src" / "sign.py").write_text("import os\n\n" + THIRD)
    facts = asked(engine, folder, "Who last changed `check`?").code_facts
    assert facts is not None and "by Ann on 2024-03-01" in facts.summary and not facts.note
    (folder / "src" / "sign.py").write_text(THIRD.replace("True", "False"))
    facts = asked(engine, folder, "Who last changed `check`?").code_facts
    assert facts is not None and "not committed" in facts.note and "by Ann" in facts.summary
    (folder / "src" / "new.py").write_text("def fresh():\n    return 1\n")
    facts = asked(engine, folder, "When was `fresh` introduced?").code_facts
    assert facts is not None and "not known: it is not committed yet" in facts.summary


def test_a_ref_of_a_folder_has_the_history_up_to_it(engine: Engine, folder: Path) -> None:
    git(folder, "tag", "v1", "HEAD~2")
    facts = asked(engine, folder, "Who last changed `sign`?", ref="v1").code_facts
    assert facts is not None and "by Ann" in facts.summary and facts.count == 1


def test_without_history_the_reason_is_given(engine: Engine, folder: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "sign.py").write_text(FIRST)
    facts = asked(engine, plain, "Who last changed `sign`?").code_facts
    assert facts is not None and not facts.complete and facts.items[0].path == "sign.py"
    assert facts.summary == "the history of `sign` is not known: the folder has no git history"
    shallow = asked(engine, f"file://{folder}", "When was `sign` introduced?").code_facts
    assert shallow is not None and not shallow.complete and "shallow clone" in shallow.note
    assert "introduced" not in " ".join(item.reason for item in shallow.items)


def test_a_history_that_takes_too_long_is_that_of_the_present_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: object) -> None:
        raise SourceError("too long")

    monkeypatch.setattr(line_history, "log_of_lines", slow)
    commit = git(folder, "rev-parse", "HEAD")
    history = history_of_lines(folder, commit, "src/sign.py", 4, 13)
    assert "it takes too long" in history.note and not history.complete
    assert [change.author for change in history.changes] == ["bob", "Ann"]


def test_long_messages_and_many_commits_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_history, "_MAX_COMMITS", 3)
    for number in range(5):
        text = THIRD.replace("return True", f"return {number}")
        committed(folder, text, "x" * 9_000 + "\n\n" + "y" * 9_000, author="D <d@d.org>", day="2026-06-01")
    history = history_of_lines(folder, git(folder, "rev-parse", "HEAD"), "src/sign.py", 16, 25)
    assert len(history.changes) == 3 and "only the last 3 commits" in history.note
    assert all(len(change.subject) <= 250 and len(change.body) <= 1_200 for change in history.changes)


def test_a_filter_applies_to_what_history_is_asked_of(engine: Engine, folder: Path) -> None:
    (folder / "tools").mkdir()
    (folder / "tools" / "a.py").write_text("def sign():\n    pass\n")
    dialog = Dialog(engine, [engine.repository(str(folder))])
    dialog.restrict(SearchFilter(paths=("tools/",)))
    facts = dialog.search("Who last changed `sign`?").code_facts
    assert facts is not None and facts.items[0].path == "tools/a.py"


def test_a_search_shows_the_history_too(folder: Path) -> None:
    done = rag("search", folder, "Who last changed `sign`?", "--json")
    assert done.json["code_facts"]["kind"] == "history" and done.json["hits"][0]["symbol"] == "sign"


def test_every_interface_knows_when_a_file_was_added(folder: Path, tmp_path: Path) -> None:
    question = "Why was src/sign.py added?"
    told = "introduced by Ann on 2024-03-01"
    with serving(tmp_path, repositories=(("signer", locate(str(folder))),)) as server:
        server.ready()
        body = {"question": question, "repositories": ["signer"]}
        assert told in str(server.post("/api/ask", body).json)
        assert told in str(server.post("/api/search", body).json)
        client = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
        headers = {"Mcp-Session-Id": server.post("/mcp", message).headers["mcp-session-id"]}
        for tool, name in (("ask_question", "question"), ("explore", "question")):
            message |= {"method": "tools/call", "params": {"name": tool, "arguments": {name: question}}}
            result = server.post("/mcp", message, headers=headers).json["result"]
            assert told in result["content"][0]["text"], (tool, result)


QUESTIONS = {
    "Who last changed load?": "changed",
    "Which commit changed load?": "changed",
    "When was load last modified?": "changed",
    "Show me the history of load": "changed",
    "What is the history of the file a.py?": "changed",
    "Does the job trim the stored history of tickets every hour?": None,
    "Why was load rewritten?": "changed",
    "Since when does load exist?": "introduced",
    "Who wrote load?": "introduced",
    "Why was load introduced?": "introduced",
    "When did load appear?": "introduced",
    "When did they add load?": "introduced",
    "Why did anyone add load?": "introduced",
    "Why did the job add a row? It was full.": "event",
    "Why was it slow? load.py was added.": "event",
    "I want the date of the last change. Where is load called?": None,
    "When was load.py moved to the cache?": "event",
    "With which change did load become safe?": "event",
    "Which change in load.py would make it safe?": None,
    "Since when does load count the rows?": "introduced",
    "In which commit did load.py lose its lock?": "event",
    "Where is a token created?": None,
    "When is a session created?": None,
    "Who calls load?": None,
    "What changed the mode?": None,
    "What changed there recently?": "changed",
    "Why does load fail?": None,
    "What was the last change of load?": "changed",
    "And its last change?": "changed",
    "Can you show the last commit of load?": "changed",
    "In which commit was the last change?": "changed",
    "Where do the marks at lines edited since the last commit come from?": None,
    "I'd like the date of last change to be shown next to the size. Where is that printed?": None,
    "Where is the chat history stored?": None,
}


MATCHED = {
    "Since when are empty texts refused in src/sign.py?": ("src/sign.py", "Dan on 2026-06-01"),
    "When did it become impossible to give it empty text (sign.py)?": ("src/sign.py", "Dan on 2026-06-01"),
    "Which commit made `sign` refuse texts without letters?": ("sign", "Dan on 2026-06-01"),
    "Why was src/sign.py changed about links that anyone forged?": ("src/sign.py", "Ann on 2024-03-01"),
    "Who added the key that `sign` uses?": ("sign", "bob on 2025-04-02"),
}


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote `sign`, which must refuse empty texts?",
        "When was the function sign added, with refused texts?",
    ],
)
def test_who_made_a_definition_is_who_introduced_it(engine: Engine, folder: Path, question: str) -> None:
    text = THIRD.replace("def sign(text):\n", "def sign(text):\n    assert text\n")
    committed(folder, text, "Refuse empty texts", author="Dan <d@d.org>", day="2026-06-01")
    facts = asked(engine, folder, question).code_facts
    assert facts is not None and facts.summary.startswith("`sign` was introduced by Ann on 2024-03-01")


@pytest.mark.parametrize("question", MATCHED)
def test_the_commit_that_did_what_the_question_says_comes_first(
    engine: Engine, folder: Path, question: str
) -> None:
    name, by = MATCHED[question]
    text = THIRD.replace("def sign(text):\n", "def sign(text):\n    assert text\n")
    committed(folder, text, "Refuse empty texts", author="Dan <d@d.org>", day="2026-06-01")
    facts = asked(engine, folder, question).code_facts
    assert facts is not None and facts.subject == name
    assert facts.summary.startswith((f"`{name}` was changed by {by}", f"`{name}` was introduced by {by}"))
    assert by in facts.items[0].reason


@pytest.mark.parametrize("question", ["When was src/seal.py moved?", "Since when is seal.py renamed?"])
def test_when_a_file_was_renamed(engine: Engine, folder: Path, question: str) -> None:
    (folder / "src" / "sign.py").rename(folder / "src" / "seal.py")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Tidy")
    committed(folder, "X = 1\n", "Begin again", author="Dan <d@d.org>", day="2026-06-01")
    facts = asked(engine, folder, question).code_facts
    assert facts is not None and facts.count == 4 and '("Tidy")' in facts.summary
    assert facts.summary.startswith("`src/seal.py` was moved or renamed from `src/sign.py` by ")


UNMATCHED = (
    "Why was no colour shown by src/sign.py?",
    "When was the message sent, and where does src/sign.py print it?",
    "When was the message sent?",
    "Why was my text not signed?",
    "Which change in src/sign.py would be needed for a longer key?",
    "I want to see the date of the last change. Where is a text signed?",
    "When was a longer key found to be better, and is it used in src/sign.py?",
)


@pytest.mark.parametrize("question", UNMATCHED)
def test_a_question_that_no_commit_matches_is_not_about_the_history(
    engine: Engine, folder: Path, question: str
) -> None:
    facts = asked(engine, folder, question).code_facts
    assert facts is None or facts.kind != "history"


def test_a_long_report_is_not_about_a_history() -> None:
    assert asked_history("Why was load.py slow after the change?") == "event"
    assert asked_history("Why was load.py slow after the change? " + "It took long?\n" * 30) is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_which_questions_are_about_a_history(question: str) -> None:
    assert asked_history(question) == QUESTIONS[question]


@given(st.text("who last changed when was ?\n", max_size=2_000))
def test_any_text_is_classified(text: str) -> None:
    asked_history(text)
