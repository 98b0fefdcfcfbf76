"""The command line: every command and option, what stands on stdout, and the exit codes."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import shlex
import shutil
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from command import command, rag, rag_process
from conftest import git

from tests.servers.provider import ProviderServer

pytestmark = pytest.mark.usefixtures("short_pauses")

SIGNED = "How are sessions signed?"
EXPIRE = "And when do they expire?"
KEY = "sk-test-0a1b2c3d4e5f6a7b8c9d"
CITATION = re.compile(r"^\[\d+\] (?:[\w-]+:)?[\w./-]+:\d+-\d+(?:  \S.*)?$", re.MULTILINE)
COMMANDS = (
    "ask",
    "chat",
    "search",
    "index",
    "turns list",
    "turns show",
    "turns export",
    "turns delete",
    "turns fork",
    "turns rewind",
    "turns undo",
    "turns edit",
    "turns mark",
    "turns unmark",
    "turns rename",
    "turns import",
    "turns backup",
    "turns restore",
    "eval",
    "doctor",
    "agents list",
    "agents install",
    "agents uninstall",
)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(answers=["Sessions are signed with HMAC [1]."]) as running:
        yield running


@pytest.fixture
def other_repo(tmp_path: Path) -> Path:
    root = tmp_path / "kiln"
    root.mkdir()
    (root / "glaze.py").write_text('def fire(kiln):\n    """Heat the kiln until the glaze melts."""\n')
    for thing in ("clay", "wheel", "bisque", "slip", "brush"):
        (root / f"{thing}.py").write_text(
            f'def use_{thing}(potter):\n    """The potter works with {thing}."""\n'
        )
    return root


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    done = rag(*name.split(), "--help")
    assert done.code == 0
    assert re.search(rf"^ rag {name}\b", done.out.partition("╭")[0], re.MULTILINE)


def test_the_command_says_its_version_and_what_it_can_do():
    assert re.fullmatch(r"rag-turns \d+\.\d+\.\d+\n", rag("--version").out)
    for name in COMMANDS:
        assert name.split()[0] in rag("-h").out + rag("admin", "-h").out
    assert rag("nonsense").code == 2


# ---------------------------------------------------------------- ask


def test_an_answer_names_its_places_once(sample_repo):
    done = rag("ask", sample_repo, SIGNED)
    assert done.code == 0
    places = re.findall(r"^- (?:`[\w.]+`|“[^”]+”) — `([\w./-]+:\d+)` \[\d\] — ", done.out, re.MULTILINE)
    assert len(places) == len(set(places)) == 5
    assert CITATION.findall(done.out) == ["[1] snip/sessions.py:34-38"]
    assert "(`snip/sessions.py:34`) [1]" in done.out
    assert "turn 1" in done.err
    assert "\x1b" not in done.out + done.err


def test_a_follow_up_goes_on_in_a_new_process(sample_repo, tmp_path):
    assert rag_process("ask", sample_repo, SIGNED, cwd=tmp_path).code == 0
    done = rag_process("ask", EXPIRE, "-c", "--json", cwd=tmp_path)
    assert done.json["sources"][0]["path"] == "snip/sessions.py"
    assert done.json["number"] == 2
    shown = rag("turns", "show").out
    assert shown.index(SIGNED) < shown.index(EXPIRE)
    assert len(CITATION.findall(shown)) >= 2


def test_one_word_is_the_question_and_the_repository_the_conversations_or_this_folder(
    sample_repo, other_repo
):
    here = rag("ask", "How is the glaze fired?", "--json", cwd=other_repo).json
    assert here["repositories"] == [str(other_repo)]
    begun = rag("ask", sample_repo, SIGNED, "--conversation", "login")
    assert "rag: starting a new conversation, login" in begun.err
    there = rag("ask", EXPIRE, "--conversation", "login", "--json", cwd=other_repo).json
    assert there["repositories"] == [str(sample_repo)]
    assert there["number"] == 2


def test_a_named_conversation_is_not_asked_about_another_repository(sample_repo, other_repo):
    rag("ask", sample_repo, SIGNED, "--conversation", "login")
    done = rag("ask", other_repo, "How is it fired?", "--conversation", "login")
    assert done.code == 2
    assert done.out == ""
    assert "omit the repository" in done.err
    assert "--conversation NAME" in done.err
    assert rag("ask", other_repo, EXPIRE, "-c").code == 2
    assert rag("ask", sample_repo, EXPIRE, "-c").code == 0


def test_there_must_be_something_to_go_on_with(sample_repo):
    done = rag("ask", SIGNED, "-c", cwd=sample_repo)
    assert (done.code, done.out) == (2, "")
    assert "start one with" in done.err


def test_several_repositories_are_named_in_the_citations(sample_repo, other_repo):
    asked = ("ask", "-r", sample_repo, "-r", other_repo, "How is a session signed and the kiln glaze fired?")
    done = rag(*asked)
    assert done.code == 0
    assert re.search(r"`sample_repo:snip/sessions.py:\d+` \[\d\]", done.out)
    assert "[1] kiln:glaze.py:1-2\n" in done.out
    again = rag("ask", "And who heats the kiln?", "-c", "--json")
    assert sorted(again.json["repositories"]) == sorted(map(str, (sample_repo, other_repo)))


def test_an_answer_as_json_holds_all_that_is_known_of_it(sample_repo):
    answer = rag("ask", sample_repo, SIGNED, "--json").json
    assert set(answer) == {
        *("question", "standalone_question", "answer", "found", "sources", "invented", "notes"),
        *("model", "usage", "conversation", "turn", "number", "repositories", "seconds", "confidence"),
        *("code_facts", "subject"),
        *("cached", "warning", "missing_words", "coverage", "complete", "cut", "prompt_hash"),
        *("rationale", "trace", "support"),
    }
    assert answer["found"] is True
    assert answer["model"] == "extractive"
    assert answer["number"] == 1
    citation = answer["sources"][0]
    assert citation["commit"] == git(sample_repo, "rev-parse", "HEAD")
    assert {"n", "repository", "blob", "symbol", "scope", "span_hash", "dirty", "score", "used"} <= set(
        citation
    )
    assert answer["usage"]["total_tokens"] == 0


def test_a_model_answers_in_its_own_words_and_its_tokens_are_told(sample_repo, server):
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--model", "test-model")
    assert done.code == 0
    assert done.out.startswith("Sessions are signed with HMAC [1].\n\n[1] snip/sessions.py:")
    assert re.search(r"\d+ \+ \d tokens · test-model · turn 1", done.err)


def test_what_a_flag_says_is_what_is_sent(sample_repo, server, tmp_path):
    template = tmp_path / "mine.j2"
    template.write_text("Mine: {{ input_str }}{% for c in contexts %}\n{{ c.text }}{% endfor %}")
    flags = (
        "--base-url",
        server.base_url,
        "--template",
        template,
        "--context-tokens",
        400,
        "--answer-tokens",
        33,
    )
    assert rag("ask", sample_repo, SIGNED, *flags).code == 0
    sent = server.chats[-1].body
    assert server.chats[-1].prompt.startswith(f"Mine: {SIGNED}")
    assert sent["max_completion_tokens" if "max_completion_tokens" in sent else "max_tokens"] == 33
    assert len(server.chats[-1].prompt.split()) < 400


def test_what_is_not_in_memory_is_not_kept(sample_repo, tmp_path):
    assert rag("ask", sample_repo, SIGNED, "--memory", "memory:").code == 0
    assert rag("turns", "list", "--json").json == []
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    assert rag("ask", sample_repo, SIGNED, "--memory", elsewhere).code == 0
    assert len(rag("turns", "list", "--json", "--memory", elsewhere).json) == 1
    assert rag("ask", sample_repo, SIGNED, "--memory", "stone tablets").code == 2


def test_globs_choose_what_is_asked(sample_repo):
    only = rag("search", sample_repo, SIGNED, "--json", "--include", "docs/").json["hits"]
    assert only
    assert all(hit["path"].startswith("docs/") for hit in only)
    rest = rag("search", sample_repo, SIGNED, "--json", "--exclude", "*.py", "--exclude", "docs").json["hits"]
    assert not [hit for hit in rest if hit["path"].endswith(".py") or hit["path"].startswith("docs/")]
    assert len(rag("index", "--list", "--json").json) == 2
    listed = rag("index", "--list").out
    assert f"{sample_repo} --include docs/\t" in listed
    assert f"{sample_repo} --exclude *.py --exclude docs\t" in listed


def test_a_ref_is_asked_as_it_was(sample_repo):
    git(sample_repo, "tag", "v1")
    (sample_repo / "snip" / "walrus.py").write_text(
        'def tusk():\n    """Where the walrus keeps its tusk."""\n'
    )
    git(sample_repo, "add", "--all")
    git(sample_repo, "commit", "--quiet", "--message", "Add a walrus")
    now = rag("search", sample_repo, "walrus tusk", "--json", "-k", 1).json["hits"]
    assert now[0]["path"] == "snip/walrus.py"
    then = rag("search", sample_repo, "walrus tusk session", "--json", "--ref", "v1").json["hits"]
    assert "snip/walrus.py" not in {hit["path"] for hit in then}
    assert {hit["commit"] for hit in then} == {git(sample_repo, "rev-parse", "v1")}
    missing = rag("ask", sample_repo, SIGNED, "--ref", "v9")
    assert missing.code == 2
    assert "v9" in missing.err


def test_words_without_quotes_are_pointed_out(sample_repo):
    done = rag("ask", sample_repo, "Where", "is", "it?")
    assert done.code == 2
    assert "put the question in quotes" in done.err
    assert rag("ask", "-r", sample_repo, sample_repo, SIGNED).code == 2


@pytest.mark.parametrize("place", [".", "..", "/", "../api", "https://example.org/team/app.git"])
def test_a_place_alone_is_no_question(place):
    for verb in ("ask", "search"):
        done = rag(verb, place)
        assert done.code == 2 and f"rag ask {place}" in done.err
    assert rag("turns", "list", "--json").json == []


def test_without_refreshing_the_files_behind_are_counted(sample_repo):
    rag("index", sample_repo)
    (sample_repo / "snip" / "walrus.py").write_text("def walrus():\n    pass\n")
    sessions = sample_repo / "snip" / "sessions.py"
    sessions.write_text(sessions.read_text() + "\nmore = 1\n")
    for verb in ("ask", "search"):
        done = rag(verb, sample_repo, "walrus", "--no-refresh")
        assert "rag: sample_repo: 2 files differ" in done.err
        assert "walrus.py" not in done.out
    assert "walrus.py" in rag("search", sample_repo, "walrus").out
    assert "differ" not in rag("search", sample_repo, "walrus", "--no-refresh").err


# ---------------------------------------------------------------- search


def test_hits_as_json_say_where_and_why(sample_repo):
    found = rag("search", sample_repo, SIGNED, "-k", 3, "--json").json
    assert set(found) == {
        *("question", "taken", "confidence", "coverage", "hits", "seconds"),
        *("code_facts", "remarks", "matches", "mode"),
    }
    assert len(found["hits"]) == 3
    assert set(found["hits"][0]) == {
        *("repository", "path", "start_line", "end_line", "symbol", "scope", "unit", "kind", "language"),
        *(
            "score",
            "legs",
            "commit",
            "blob",
            "text",
            "blank_end",
            "dirty",
            "location",
            "reason",
            "asked_line",
        ),
    }
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    for hit in found["hits"]:
        lines = (sample_repo / hit["path"]).read_text().splitlines(keepends=True)
        assert "".join(lines[hit["start_line"] - 1 : hit["end_line"]]) == hit["text"]
    plain = rag("search", sample_repo, SIGNED, "-k", 3).out
    places = [f"{hit['path']}:{hit['start_line']}-{hit['end_line']}" for hit in found["hits"]]
    assert [place in plain for place in places] == [True] * 3


def test_a_hit_is_shown_with_the_line_that_matches_and_a_quoted_string_has_a_hint(tmp_path):
    lines = "".join(f"    step_{n}()\n" for n in range(12))
    (tmp_path / "kiln.py").write_text(f'def fire():\n{lines}    raise Cold("the kiln is cold")\n')
    done = rag("search", tmp_path, "where is 'the kiln is cold'", "-k", 1)
    assert '    14     raise Cold("the kiln is cold")' in done.out
    assert 'rag: --exact finds each line with "the kiln is cold" as it is written' in done.err
    assert "--exact" not in rag("search", tmp_path, "where is the kiln cold", "-k", 1).err


def test_finding_nothing_is_an_exit_code_of_its_own(sample_repo):
    for verb, question in (("search", "??? 🦄"), ("ask", "??? 🦄"), ("ask", "zzyzx qwghlm")):
        done = rag(verb, sample_repo, question, "--json")
        assert done.code == 1
        assert not done.json.get("hits")
        assert not done.json.get("sources")
    nothing = rag("ask", sample_repo, "???").out
    assert nothing.startswith("Not found.\n\nThe question names nothing that could be looked for")


def test_a_batch_is_ready_first_and_answers_every_line_in_its_place(sample_repo):
    requests = [
        json.dumps({"id": 1, "query": SIGNED, "k": 2}),
        "this is no JSON",
        json.dumps({"id": "b", "query": EXPIRE, "history": [SIGNED], "k": 1}),
        "",
        json.dumps({"id": 4, "question": "?"}),
        json.dumps({"id": 5, "query": SIGNED, "k": 0}),
        json.dumps({"id": 6, "query": SIGNED, "history": "none"}),
        json.dumps([1, 2]),
        "[" * 100_000,
        json.dumps({"id": 9, "query": "the 🦄 ?"}),
    ]
    done = rag("search", sample_repo, "--batch", stdin="\n".join(requests) + "\n")
    ready, *replies = [json.loads(line) for line in done.out.splitlines()]
    assert ready == {"ready": True, "chunks": ready["chunks"], "history": True}
    assert ready["chunks"] > 30
    assert [reply["id"] for reply in replies] == [1, None, "b", 4, 5, 6, None, None, 9]
    assert ["error" in reply for reply in replies] == [
        False,
        True,
        False,
        True,
        True,
        True,
        True,
        True,
        False,
    ]
    assert len(replies[0]["results"]) == 2
    names = {"path", "start_line", "end_line", "symbol", "scope", "score"}
    assert set(replies[0]["results"][0]) == names
    assert replies[2]["results"][0]["path"] == "snip/sessions.py"
    assert replies[-1]["results"] == []
    assert done.code == 2
    assert "6 lines of the input" in done.err
    assert replies[1]["error"].startswith("invalid JSON")
    assert rag("search", sample_repo, "--batch", stdin=requests[0] + "\n").code == 0


def test_a_batch_answers_while_its_input_is_still_open(sample_repo):
    with subprocess.Popen(
        command("search", sample_repo, "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        for request in (b'{"id": 1, "query": "session"}', b'{"id": 1, "query": "session \xff\xfe"}'):
            process.stdin.write(request + b"\n")
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
            assert (reply["id"], len(reply["results"])) == (1, 10)
        process.stdin.close()
    assert process.returncode == 0


def test_a_batch_takes_an_edit_in_at_the_next_line(sample_repo):
    request = json.dumps({"id": 1, "query": "paint_zebra_crossing session", "k": 3}).encode() + b"\n"
    with subprocess.Popen(
        command("search", sample_repo, "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def paths():
            process.stdin.write(request)
            process.stdin.flush()
            return [hit["path"] for hit in json.loads(process.stdout.readline())["results"]]

        assert json.loads(process.stdout.readline())["ready"]
        for _ in range(2):
            assert "zebra.py" not in paths()
            (sample_repo / "zebra.py").write_text("def paint_zebra_crossing():\n    return 'stripes'\n")
            assert paths()[0] == "zebra.py"
            (sample_repo / "zebra.py").unlink()
        sample_repo.rename(sample_repo.with_name("elsewhere"))
        process.stdin.write(request)
        process.stdin.flush()
        gone = json.loads(process.stdout.readline())
        assert gone["id"] == 1
        assert "there is no folder" in gone["error"]
        sample_repo.with_name("elsewhere").rename(sample_repo)
        assert paths()
        process.stdin.close()
    assert process.returncode == 2


def test_a_batch_bounds_the_history_of_a_line(sample_repo):
    requests = [
        {"id": 1, "query": SIGNED, "history": [EXPIRE] * 20},
        {"id": 2, "query": SIGNED, "history": [EXPIRE] * 21},
        {"id": 3, "query": SIGNED, "history": ["x" * 16_000]},
        {"id": 4, "query": SIGNED, "history": ["x" * 16_001]},
    ]
    done = rag("search", sample_repo, "--batch", stdin="\n".join(map(json.dumps, requests)))
    replies = [json.loads(line) for line in done.out.splitlines()][1:]
    assert ["error" in reply for reply in replies] == [False, True, False, True]
    assert replies[1]["error"] == '"history" has 21 questions, more than 20; send the last ones'
    assert "16,001 characters, more than 16,000" in replies[3]["error"]


def test_search_loads_no_language_model_and_no_adalflow(sample_repo):
    code = (
        "import sys\nfrom rag.cli import app\n"
        f"app(['search', {str(sample_repo)!r}, {SIGNED!r}], standalone_mode=False)\n"
        "print([n for n in ('adalflow', 'openai', 'tiktoken', 'httpx', 'sqlite3') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_error(sample_repo):
    rag("index", sample_repo)
    line = (
        f"{sys.executable} -m rag search '{sample_repo}' 'session' -k 50 | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    first, code = done.stdout.splitlines()
    assert first.startswith(" 1. ")
    assert code == "0"
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.parametrize("verb", ["ask", "chat"])
def test_an_answer_whose_reader_goes_away_is_a_turn(sample_repo, verb):
    rag("index", sample_repo)
    asked = f"'{SIGNED}'" if verb == "ask" else f"<<< '{SIGNED}'"
    line = f"{sys.executable} -m rag {verb} '{sample_repo}' {asked} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
    assert "Error" not in done.stderr
    assert [turn["question"] for turn in rag("turns", "show", "--json").json] == [SIGNED]


def test_output_survives_a_terminal_that_cannot_show_it(sample_repo):
    (sample_repo / "snip" / "kanji.py").write_text(
        'def kanji():\n    """漢字 … and more."""\n', encoding="utf-8"
    )
    done = rag_process("search", sample_repo, "kanji", "-k", "1", env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0
    assert "and more" in done.out
    done = rag_process("ask", sample_repo, b"kanji \xff\xfe?", "--json")
    assert done.code == 0
    assert done.json["sources"][0]["path"] == "snip/kanji.py"


@pytest.mark.parametrize(("words", "closed"), [("search", ">&-"), ("ask", "<&- >&- 2>&-"), ("chat", "<&-")])
def test_a_stream_that_is_closed_is_no_error(sample_repo, words, closed):
    line = shlex.join(command(words, sample_repo, *([] if words == "chat" else [SIGNED])))
    done = subprocess.run(["bash", "-c", f"{line} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert len(rag("turns", "list", "--json").json) == (words == "ask")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("flag", ["", "--json"])
def test_output_for_which_there_is_no_room_is_an_error(sample_repo, flag):
    line = shlex.join(command("search", sample_repo, "token"))
    done = subprocess.run(
        ["bash", "-c", f"{line} {flag} > /dev/full"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "rag: the output cannot be written: No space left on device"


# ---------------------------------------------------------------- index


def test_the_report_says_what_was_seen_indexed_and_skipped_and_why(sample_repo):
    (sample_repo / "logo.png").write_bytes(b"\x89PNG\r\n")
    (sample_repo / ".env").write_text("TOKEN=1\n")
    done = rag("index", sample_repo)
    assert done.code == 0
    rows = dict(line.split("\t")[:2] for line in done.out.splitlines())
    assert rows["what"] == "how many"
    assert int(rows["files seen"]) == int(rows["indexed"]) + sum(
        int(n) for what, n in rows.items() if what.startswith("skipped")
    )
    assert "skipped: binary" in rows
    assert {".env", "logo.png"} <= set(re.findall(r"[\w.]+", rag("index", sample_repo, "-v").out))


def test_a_report_as_json(sample_repo):
    first, second = (rag("index", sample_repo, "--json").json for _ in range(2))
    assert set(first) == {
        *("source", "action", "reason", "store", "commit", "seen", "files", "chunks", "changed", "removed"),
        *("skipped", "remarks", "size_bytes", "seconds", "recall_at_10"),
    }
    assert (first["action"], second["action"]) == ("built", "fresh")
    assert rag("index", sample_repo, "--rebuild", "--json").json["action"] == "rebuilt"
    assert rag("index", "--json", cwd=sample_repo).json["source"] == str(sample_repo)


def test_stores_are_listed_and_removed_by_their_source(sample_repo, other_repo):
    rag("index", sample_repo)
    rag("index", other_repo)
    listed = rag("index", "--list", "--json").json
    assert {row["source"] for row in listed} == {str(sample_repo), str(other_repo)}
    assert str(sample_repo) in rag("index", "--list").out
    assert rag("storage", "prune", other_repo, "--yes").code == 0
    assert [row["source"] for row in rag("index", "--list", "--json").json] == [str(sample_repo)]
    gone = rag("storage", "prune", other_repo, "--yes")
    assert gone.code == 2
    assert "`rag storage` lists" in gone.err


def test_a_store_can_be_removed_when_its_folder_or_its_bytes_are_gone(sample_repo, other_repo, tmp_path):
    rag("index", other_repo)
    shutil.rmtree(other_repo)
    assert len(rag("storage", "prune", other_repo, "--json", "--yes").json["removed"]) == 1
    store = Path(rag("index", sample_repo, "--json").json["store"])
    store.write_bytes(b"rubbish")
    assert "error" in rag("index", "--list", "--json").json[0]
    assert rag("index", "--list").code == 0
    assert len(rag("storage", "prune", store, "--json", "--yes").json["removed"]) == 1
    assert not store.exists()
    assert rag("storage", "prune", tmp_path / "never" / "there", "--yes").code == 2


# ---------------------------------------------------------------- turns


@pytest.fixture
def conversation(sample_repo: Path) -> str:
    rag("ask", sample_repo, SIGNED, "--conversation", "login")
    rag("ask", EXPIRE, "--conversation", "login")
    rag("ask", sample_repo, "How is the rate limited?")
    return "login"


def test_conversations_are_listed_the_latest_first(conversation):
    latest, first = rag("turns", "list", "--json").json
    assert (first["name"], first["turn_count"], latest["turn_count"]) == ("login", 2, 1)
    table = rag("turns").out
    assert table == rag("turns", "list").out
    assert "login\tsample_repo\t2\t" in table
    assert SIGNED in table


def test_a_name_or_a_question_of_several_lines_is_one_row(sample_repo):
    rag("ask", sample_repo, "How are\nsessions signed?", "--conversation", "two\nlines\tand a tab")
    _, row = rag("turns").out.splitlines()
    assert row.startswith("two\\nlines\\tand a tab\tsample_repo\t1\t")
    assert row.endswith("\tHow are\\nsessions signed?")


def test_turns_are_named_by_number_or_id(conversation):
    first, second = rag("turns", "show", "--conversation", "login", "--json").json
    assert [first["question"], second["question"]] == [SIGNED, EXPIRE]
    assert rag("turns", "show", "2", "--conversation", "login", "--json").json == [second]
    assert rag("turns", "show", first["id"], "--json").json == [first]
    assert first["citations"][0]["commit"]
    assert "How is the rate limited?" in rag("turns", "show").out
    for wrong in ("7", "no-such-id"):
        done = rag("turns", "show", wrong, "--conversation", "login")
        assert (done.code, done.out) == (2, "")
    assert rag("turns", "show", "--conversation", "logout").code == 2


def test_a_conversation_is_named_by_the_beginning_of_its_id_where_that_is_enough(conversation):
    (login,) = [c for c in rag("turns", "list", "--json").json if c["name"] == "login"]
    for name in (login["id"], login["id"][:8]):
        assert len(rag("turns", "show", "--conversation", name, "--json").json) == 2
    assert rag("turns", "show", "--conversation", login["id"][:7]).code == 2


def test_an_export_is_every_turn_on_a_line_of_its_own(conversation, tmp_path):
    lines = [json.loads(line) for line in rag("turns", "export", "--conversation", "login").out.splitlines()]
    assert lines[0]["conversation"]["name"] == "login"
    assert [line["turn"]["question"] for line in lines[1:]] == [SIGNED, EXPIRE]
    target = tmp_path / "turns.jsonl"
    assert rag("turns", "export", "--all", "-o", target).out == ""
    kinds = [next(iter(json.loads(line))) for line in target.read_text().splitlines()]
    assert (kinds.count("conversation"), kinds.count("turn")) == (2, 3)
    assert rag("turns", "export", "-o", tmp_path / "no" / "such" / "folder").code == 2


def test_a_conversation_branches_and_goes_back(conversation):
    of = ("--conversation", "login")
    forked = rag("turns", "fork", "1", *of, "--name", "again", "--json").json
    assert (forked["name"], forked["forked_after"], forked["turn_count"]) == ("again", 1, 1)
    assert rag("turns", "fork", "7", *of).code == 2
    assert rag("turns", "rewind", "1", *of, stdin="n\n").code == 2
    beyond = rag("turns", "rewind", "9", *of, "--yes")
    assert (beyond.code, "has no turn 9" in beyond.err) == (2, True)
    assert rag("turns", "rewind", "1", *of, "--yes").out == "removed 1 turn of login\n"
    assert rag("turns", "undo", "2", *of).code == 2
    assert rag("turns", "undo", *of, "--json").json["taken_back"] == 1
    assert rag("turns", "show", *of, "--json").json == []
    (kept,) = rag("turns", "show", "--conversation", "again", "--json").json
    assert kept["question"] == SIGNED and kept["citations"]
    assert rag("turns", "rewind", "0", "--conversation", "again", "--yes").code == 0
    assert rag("turns", "rename", "login-2026", *of).out == "login is now login-2026\n"
    assert rag("turns", "rename", "again", "--conversation", "login-2026").code == 2


def test_turns_are_marked_and_edited(conversation):
    of = ("--conversation", "login")
    assert rag("turns", "mark", "important", "2", *of).out == "marked 1 turn of login\n"
    assert rag("turns", "mark", "important", *of, "--json").json["changed"] == 1
    assert rag("turns", "unmark", "important", "1", *of).out == "unmarked 1 turn of login\n"
    (marked,) = rag("turns", "show", *of, "--mark", "important", "--json").json
    assert (marked["question"], marked["marks"]) == (EXPIRE, ["important"])
    (other,) = rag("turns", "show", *of, "--exclude-mark", "important", "--json").json
    assert other["question"] == SIGNED
    assert "marked important" in rag("turns", "show", "2", *of).out
    assert rag("turns", "edit", "1", *of).code == 2
    assert rag("turns", "edit", "1", *of, "--answer", "-", stdin="By HMAC.").out == "turn 1 is at version 2\n"
    edited = rag("turns", "edit", "1", *of, "--question", "How?", "--json").json
    assert (edited["version"], edited["question"], edited["answer"]) == (3, "How?", "By HMAC.")


def test_conversations_move_through_files_and_between_stores(conversation, tmp_path):
    rag("turns", "fork", "1", "--conversation", "login", "--name", "again")
    rag("turns", "mark", "important", "1", "--conversation", "login")
    rag("turns", "edit", "1", "--conversation", "login", "--answer", "By HMAC.")
    target, other = tmp_path / "all.jsonl", f"sqlite:///{tmp_path / 'other.db'}"
    rag("turns", "export", "--all", "-o", target)
    assert rag("turns", "import", target, "--memory", other).out == "stored 3 conversations\n"
    assert rag("turns", "import", target, "--memory", other).out == "stored 0 conversations\n"
    assert rag("turns", "export", "--all", "--memory", other).out == target.read_text()
    target.write_text(target.read_text() + "{}\n")
    fourth = f"sqlite:///{tmp_path / 'fourth.db'}"
    assert rag("turns", "import", target, "--memory", fourth).code == 2
    assert rag("turns", "import", tmp_path / "missing").code == 2
    assert rag("turns", "list", "--json", "--memory", fourth).json == []


def test_a_turn_that_is_not_there_is_told_beside_those_that_are(conversation):
    for _ in range(2):
        rag("ask", SIGNED, "--conversation", conversation, "--no-cache")
    rag("turns", "delete", "3", "--conversation", conversation)
    missing = rag("turns", "show", "7", "--conversation", conversation)
    assert missing.code == 2 and "has no turn 7; there are 1-2, 4" in missing.err
    unmarked = rag("turns", "show", "--mark", "important", "--conversation", conversation)
    assert (unmarked.code, unmarked.out) == (1, "") and "no turn of" in unmarked.err


def test_json_and_yes_work_before_a_command(sample_repo):
    assert rag("--json", "turns").json == []
    assert rag("-y", "cache", "clear", "--json").json == {"cleared": 0}
    refused = rag("chat", sample_repo, "--json")
    assert refused.code == 2 and "`rag chat` has no JSON output" in refused.err


@pytest.mark.parametrize("name", ["serve", "mcp"])
def test_what_is_served_may_be_named_without_an_option(tmp_path, name):
    done = rag(name, f"app={tmp_path / 'nowhere'}")
    assert done.code == 2 and str(tmp_path / "nowhere") in done.err


def test_a_setting_that_was_removed_is_named_with_its_line():
    home = Path(os.environ["RAG_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('language = "en"\ngit_timeout_s = 5\n')
    done = rag("turns")
    assert done.code == 2 and "config.toml, line 2, sets git_timeout_s, which is not a setting" in done.err


def test_memory_alone_says_what_there_is():
    done = rag("memory")
    assert done.code == 0 and "persistence" in done.out and "sweep" in done.out


def test_deleting_asks_first_and_says_what_went(conversation):
    assert rag("turns", "delete", "1", "--conversation", "login").out == f"deleted turn 1: {SIGNED}\n"
    assert [t["question"] for t in rag("turns", "show", "--conversation", "login", "--json").json] == [EXPIRE]
    assert rag("turns", "delete").code == 2
    for refusal in ("n\n", ""):
        assert rag("turns", "delete", "--conversation", "login", stdin=refusal).code == 2
    assert rag("turns", "show", "--conversation", "login").code == 0
    assert rag("turns", "delete", "--conversation", "login", "--yes").out == "deleted 1 turn of login\n"
    assert rag("turns", "show", "--conversation", "login").code == 2


# ---------------------------------------------------------------- settings, doctor, eval


def test_a_flag_wins_over_the_environment_and_that_over_the_file(sample_repo, server, tmp_path, monkeypatch):
    server.models = ["from-file", "from-environment", "from-flag"]
    config = tmp_path / "rag-home" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(f'model = "from-file"\nbase_url = "{server.base_url}"\n')
    rag("ask", sample_repo, SIGNED)
    monkeypatch.setenv("RAG_MODEL", "from-environment")
    rag("ask", sample_repo, SIGNED)
    rag("ask", sample_repo, SIGNED, "--model", "from-flag")
    assert [chat.body["model"] for chat in server.chats] == ["from-file", "from-environment", "from-flag"]


def test_no_secret_is_ever_printed(sample_repo, server, monkeypatch):
    server.api_key = KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RAG_GIT_TOKEN", "ghp-" + KEY)
    ran = [
        rag("ask", sample_repo, SIGNED, "--base-url", server.base_url),
        rag("doctor", "--base-url", server.base_url),
        rag("turns", "show"),
        rag("turns", "export", "--all"),
        rag("index", sample_repo),
    ]
    server.api_key = "another"
    ran.append(rag("ask", sample_repo, SIGNED, "--base-url", server.base_url))
    ran.append(rag("doctor", "--base-url", server.base_url, "--json"))
    assert [done.code for done in ran] == [0, 0, 0, 0, 0, 2, 2]
    assert not [done for done in ran if KEY in done.out + done.err]


def test_the_doctor_says_what_is_wrong_and_the_line_that_mends_it(server, tmp_path):
    findings = {finding["name"]: finding for finding in rag("doctor", "--json").json}
    assert set(findings) == {
        *("python", "packages", "git", "home", "settings file", "embedder", "stores", "memory", "model"),
        *("stored secrets", "imports", "shared stores"),
    }
    assert findings["model"]["state"] == "off"
    assert findings["model"]["fix"] == "rag setup"
    well = rag("doctor", "--base-url", server.base_url)
    assert well.code == 0
    assert "test-model" in well.out
    store = tmp_path / "rag-home" / "stores" / "broken-0.pkl"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_bytes(b"rubbish")
    ill = rag("doctor", "--base-url", server.base_url, "--model", "no-such-model")
    assert ill.code == 2
    assert "BAD\tstores" in ill.out
    assert f"rm {store}" in ill.out
    assert "--model one of: test-model" in ill.out
    assert rag("doctor", "--quick", "--base-url", "http://127.0.0.1:9/v1", "--embedder", "static").code == 2


def test_the_doctor_finds_secrets_in_what_is_stored(sample_repo):
    assert "stored secrets\tnone found" in rag("doctor").out
    token = "glpat-" + "".join(random.Random(3).choices(string.ascii_letters, k=20))
    asked = rag("ask", sample_repo, f"{SIGNED} My token is {token}.", "--conversation", "login", "--json")
    found = rag("doctor")
    assert found.code == 2
    assert f"turn {asked.json['turn']} of conversation login: gitlab pat" in found.out
    assert token not in found.out + found.err
    assert "stored secrets" not in rag("doctor", "--quick").out
    rag("turns", "delete", "--conversation", "login", "--yes")
    assert "stored secrets\tnone found" in rag("doctor").out


def test_eval_measures_on_ones_own_questions(sample_repo, tmp_path):
    questions = tmp_path / "questions.jsonl"
    wanted = {"path": "snip/sessions.py", "start": 34, "end": 38}
    asked = {"id": "q1", "repo": "sample_repo", "question": SIGNED, "kind": "newcomer", "answers": [wanted]}
    questions.write_text(json.dumps(asked) + "\n")
    done = rag("eval", sample_repo, "--questions", questions, "--json")
    if done.code:
        pytest.fail(done.err)
    assert done.json
    assert rag("eval", sample_repo).code == 2


# ---------------------------------------------------------------- exit codes of services


def test_a_service_that_fails_is_exit_code_3_and_a_failed_turn(sample_repo, server):
    server.behaviours = ["fails"]
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url)
    assert done.code == 3
    failed, _, quoted = done.out.splitlines()[:3]
    assert failed == "The language model failed; this is quoted without it."
    assert "in function `SessionSigner.sign_session` (`snip/sessions.py:34`) [1]" in quoted
    assert done.err.splitlines()[-1].startswith("rag: 127.0.0.1:")
    told = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--json")
    assert told.code == 3
    assert told.json["error"]["type"] == "ProviderBroke"
    assert told.json["quotes"]["model"] == "extractive"
    assert told.json["quotes"]["sources"][0]["path"] == "snip/sessions.py"
    assert told.json["quotes"]["turn"] == ""
    (turn,) = rag("turns", "show", "--json").json
    assert (turn["question"], turn["state"], turn["answer"]) == (SIGNED, "failed", None)


def test_a_question_is_not_lost_where_no_model_can_be_asked(sample_repo):
    done = rag("ask", sample_repo, SIGNED, "--base-url", "http://127.0.0.1:9/v1")
    assert done.code == 3
    assert "(`snip/sessions.py:34`) [1]" in done.out
    (turn,) = rag("turns", "show", "--json").json
    assert (turn["question"], turn["state"]) == (SIGNED, "failed")


def test_what_is_said_of_an_answer_that_broke_off_gets_a_line_of_its_own(sample_repo, server):
    server.behaviours = ["cut"]
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url)
    assert done.code == 3
    assert done.out.strip() and done.out.endswith("\n")


def test_references_that_were_taken_out_are_told_once(sample_repo, server):
    server.answers = ["Sessions are signed with HMAC [1][98][99]."]
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url)
    assert done.err.count("2 references") == 1


def test_a_key_that_is_missing_or_refused_is_exit_code_2(sample_repo, server, monkeypatch):
    server.api_key = KEY
    missing = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url)
    assert missing.code == 2 and "no key was given" in missing.err and "set OPENAI_API_KEY" in missing.err
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    refused = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url)
    assert refused.code == 2 and "the key was refused" in refused.err
    turns = rag("turns", "list", "--json").json
    assert [conversation["turn_count"] for conversation in turns] == [1, 1]


def test_ctrl_c_ends_an_answer_with_130_and_keeps_nothing(sample_repo, server):
    server.behaviours = ["endless"]
    with subprocess.Popen(
        command("ask", sample_repo, SIGNED, "--base-url", server.base_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(6) == b"and on"
        process.send_signal(signal.SIGINT)
        assert b"interrupted" in process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert server.client_left.wait(25)
    (turn,) = rag("turns", "show", "--json").json
    assert turn["state"] == "partial"
    assert turn["answer"].startswith("and on")


# ---------------------------------------------------------------- a second look

READ = [("read", json.dumps({"path": "snip/app.py", "start": 1, "end": 12}))]


def test_the_steps_of_a_second_look_are_shown_and_kept(sample_repo, server):
    server.answers = [READ, "It is signed with HMAC, see snip/app.py:3."]
    asked = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--steps", 4)
    assert "rag: look read: snip/app.py:1-12 → snip/app.py:1-12 of" in asked.err
    assert "look" not in asked.out
    assert "[1] snip/app.py:1-1" in asked.out
    assert "look read: snip/app.py:1-12 →" in rag("turns", "show").out


def test_ctrl_c_in_a_second_look_gives_the_quotes_of_what_was_found(sample_repo, server):
    server.behaviours, server.answers = ["good", "slow"], [READ]
    with subprocess.Popen(
        command("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--steps", 4),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        while b"look read" not in (line := process.stderr.readline()):
            assert line
        while len(server.chats) < 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        quotes, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"(`snip/app.py:1`) [1]" in quotes
    assert b"interrupted while looking" in said
    assert b"Traceback" not in said
    (turn,) = rag("turns", "show", "--json").json
    assert turn["state"] == "partial"


# ---------------------------------------------------------------- chat


class Terminal:
    """A `rag chat`, or another command, with a person in front of it."""

    def __init__(self, *arguments: object, name: str = "chat") -> None:
        self.seen = ""
        pid, self._fd = pty.fork()
        if pid == 0:
            os.execv(sys.executable, command(name, *arguments))
        self._pid = pid

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str, timeout_s: float = 60) -> str:
        """Read until `text` appears; return what came before it and it."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            ready, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} never came after {self.seen!r}"
            self.seen += os.read(self._fd, 65536).decode("utf-8", "replace")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def press_until(self, key: str, text: str) -> None:
        """Press a key, again each second, until `text` appears, as a person would.

        Python may lose a Ctrl-C that comes between its printing a prompt and its waiting for input.
        """
        for _ in range(30):
            self.type(key)
            with suppress(AssertionError):
                self.wait_for(text, timeout_s=1)
                return
        raise AssertionError(f"{text!r} never came after {self.seen!r}")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while True:
            try:
                if not os.read(self._fd, 65536):
                    break
            except OSError:  # the other side is closed
                break
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def test_ctrl_c_stops_the_answer_and_not_the_chat(sample_repo, server):
    server.behaviours = ["endless", "good"]
    with Terminal(sample_repo, "--base-url", server.base_url) as terminal:
        terminal.wait_for("> ")
        terminal.type(SIGNED + "\n")
        terminal.wait_for("the model reads the question")
        terminal.wait_for("and on and on")
        terminal.type("\x03")
        terminal.wait_for("stopped; the question and the text so far are stored")
        assert server.client_left.wait(25)
        terminal.wait_for("> ")
        terminal.press_until("\x03", "/quit ends the session")
        terminal.wait_for("> ")
        terminal.type(SIGNED + "\n")
        terminal.wait_for("Sessions are signed with HMAC [1].")
        terminal.wait_for("test-model")
        terminal.wait_for("> ")
        terminal.type("/turns\n")
        terminal.wait_for(f"2. {SIGNED}")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [turn["state"] for turn in rag("turns", "show", "--json").json] == ["partial", "answered"]


def test_a_chat_reads_its_questions_from_a_pipe_too(sample_repo):
    typed = f"{SIGNED}\n\n/sources\n/nonsense\n/turn\n{EXPIRE}\n/new\n{SIGNED}\n/turns\n/quit\nnever read\n"
    done = rag("chat", sample_repo, stdin=typed)
    assert done.code == 0
    assert done.out.count("snip/sessions.py:34-38") >= 3
    assert "/turns    the questions so far" in done.out
    assert "rag: there is no command /nonsense; a question does not begin with /" in done.err
    assert "rag: there is no command /turn; did you mean /turns?" in done.err
    assert "turn 2" in done.err
    first_of_new, kept = rag("turns", "list", "--json").json
    assert (first_of_new["turn_count"], kept["turn_count"]) == (1, 2)
    assert "continuing" not in done.err
    again = rag("chat", "-c", stdin=EXPIRE)
    assert again.code == 0
    assert f'rag: continuing after "{SIGNED}", 1 question so far (/turns)' in again.err
    assert len(rag("turns", "show", "--json").json) == 2


def test_a_warning_names_an_option_of_the_command_and_none_in_a_chat(sample_repo):
    question = "How do quarks decay in the Kubernetes operator?"
    assert "use --no-gate" in rag("ask", sample_repo, question).err
    done = rag("chat", sample_repo, stdin=f"{question}\nDoes it decay?\n")
    assert (done.code, "--" in done.err + done.out) == (0, False)


def test_a_chat_without_answers_says_so_and_long_questions_are_cut(sample_repo):
    long = "zyxwvut" * 700
    done = rag("chat", sample_repo, stdin=f"/sources\n/turns\n{long}\n/sources\n/turns\n")
    assert done.err.count("there is no question yet; type one") == 2
    assert "the last answer has no sources" in done.err
    assert f"1. {long[:200]}…\n" in done.out
    assert f"Looked for `{long[:80]}…`" in done.out
    assert max(map(len, done.out.splitlines())) < 400
    again = rag("chat", "-c", stdin="").err
    assert f'continuing after "{long[:200]}…", 1 question' in again


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_a_chat_ends_with_the_word_alone(sample_repo, word):
    done = rag("chat", sample_repo, stdin=f"help\n{word}\nnever asked\n")
    assert (done.code, rag("turns", "list", "--json").json) == (0, [])
    assert "/turns    the questions so far" in done.out


def test_the_subject_is_shown_and_can_be_set(sample_repo):
    done = rag("ask", sample_repo, "who calls it?", "--about", "authenticate")
    assert "it = `authenticate` (snip/auth.py:27-39)" in done.err
    assert rag("ask", "is it tested?", "-c", "--json").json["subject"]["name"] == "authenticate"
    unknown = rag("ask", sample_repo, "who calls it?", "--about", "authentikate")
    assert unknown.code == 2
    assert "similar names: authenticate" in unknown.err
    typed = "/about\n/about Storage.user_by_token\nwho calls it?\n/about\n/about nothing_like_it\n"
    chat = rag("chat", sample_repo, stdin=typed).err
    assert '"it" means nothing yet' in chat
    assert chat.count("it = `Storage.user_by_token`") == 3
    assert "nothing is called 'nothing_like_it'" in chat


def test_a_batch_of_questions_alone_has_the_subject_of_a_conversation(sample_repo):
    request = {"id": 1, "query": "is it tested?", "history": ["Where is a token checked?", "who calls it?"]}
    done = rag("search", sample_repo, "--batch", stdin=json.dumps(request) + "\n")
    reply = json.loads(done.out.splitlines()[-1])
    assert reply["subject"]["name"] == "authenticate"
    assert reply["results"][0]["path"] == "tests/test_auth.py"


def test_a_chat_outlives_a_service_that_fails(sample_repo, server):
    server.behaviours = ["unauthorized", "good"]
    done = rag("chat", sample_repo, "--base-url", server.base_url, stdin=f"{SIGNED}\n{SIGNED}\n")
    assert done.code == 0
    assert "the key" in done.err or "no key" in done.err
    assert done.out.count("Sessions are signed with HMAC [1].") == 1


def test_what_was_typed_in_a_chat_comes_back_in_the_next(sample_repo):
    with Terminal(sample_repo) as terminal:
        terminal.wait_for("> ")
        terminal.type("/turns\n")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    with Terminal(sample_repo) as terminal:
        terminal.wait_for("> ")
        terminal.type("\x1b[A")
        terminal.wait_for("/turns")
        terminal.type("\n")
        terminal.wait_for("> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0


def test_a_question_about_nothing_yet_has_no_gate_to_turn_off(sample_repo):
    done = rag("ask", sample_repo, "Who calls it?")
    assert "Name it in the question" in done.out + done.err and "--no-gate" not in done.err
