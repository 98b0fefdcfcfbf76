"""Recordings that are not as expected: odd values, failed calls, copies, and text that nobody typed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command import rag
from test_import import ASK, ASK_AGAIN, commit, grown, imported, recordings, reply, request, shop, turns

from rag.backends.sessions.tool_calls import typed

__all__ = ["shop"]


def questions(agent: str) -> list[str]:
    return [one["question"] for one in turns(agent)]


def codex_file(place: Path, name: str = "c-1") -> Path:
    (file,) = place.rglob(f"*{name}.jsonl")
    return file


def codex_line(**payload: object) -> str:
    return (
        json.dumps({"timestamp": "2025-05-01T10:30:00Z", "type": "response_item", "payload": payload}) + "\n"
    )


def codex_message(role: str, *texts: str) -> str:
    content = [{"type": "input_text", "text": text} for text in texts]
    return codex_line(type="message", role=role, content=content)


@pytest.mark.parametrize("odd", [{"cwd": "/a\ud800"}, {"sessionId": "s\ud800"}, {"cwd": "/a\0b"}])
def test_an_odd_session_does_not_end_the_import(odd, shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    lines = [
        {"sessionId": "s-9", "cwd": str(shop), **odd, **one}
        for one in (request("u\ud800", "Odd?"), reply("No."))
    ]
    (place / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert imported("claude-code", place, shop).code == 0
    assert questions("claude-code") == [ASK, ASK_AGAIN]


def test_a_session_that_cannot_be_read_is_counted(shop, tmp_path):
    place = recordings("opencode", shop, tmp_path)
    odd = {"id": "ses_0\0", "directory": str(shop)}
    (place / "storage" / "session" / "p1" / "ses_0.json").write_text(json.dumps(odd))
    done = imported("opencode", place, shop)
    assert "left out: a session that is not as expected (1)" in done.err
    assert (done.code, questions("opencode")) == (0, [ASK, ASK_AGAIN])


def test_numbers_in_the_database_of_cursor_are_left_out(shop, tmp_path):
    place = recordings("cursor", shop, tmp_path)
    with closing(sqlite3.connect(place / "globalStorage" / "state.vscdb")) as db:
        db.execute("INSERT INTO cursorDiskKV VALUES ('composerData:a', 7), ('bubbleId:k1:a', 8)")
        db.commit()
    (place / "workspaceStorage" / "w0").mkdir()
    (place / "workspaceStorage" / "w0" / "workspace.json").write_text('{"folder": "file://[a/b"}')
    (place / "workspaceStorage" / "w0" / "state.vscdb").write_bytes(b"")
    done = imported("cursor", place, shop)
    assert done.code == 0 and questions("cursor") == [ASK, ASK_AGAIN]


def test_each_namespace_gets_the_turns(shop, tmp_path, monkeypatch):
    place = recordings("claude-code", shop, tmp_path)
    first = imported("claude-code", place, shop)
    ids = {one["id"] for one in turns("claude-code")}
    monkeypatch.setenv("RAG_NAMESPACE", "ci")
    assert imported("claude-code", place, shop).out == first.out == "stored 1 conversation; 2 new turns\n"
    assert questions("claude-code") == [ASK, ASK_AGAIN]
    assert not ids & {one["id"] for one in turns("claude-code")}


@pytest.mark.parametrize(
    ("output", "is_written"),
    [
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. 0 failed", True),
        (json.dumps({"output": "Success", "metadata": {"exit_code": 0}}), True),
        (json.dumps({"output": "no", "metadata": {"exit_code": 1}}), False),
        ("Exit code: 1\nOutput:\n", False),
        ("patch rejected by user", False),
        ("apply_patch verification failed: no such line", False),
    ],
)
def test_a_patch_of_codex_that_was_not_applied_wrote_nothing(output, is_written, shop, tmp_path):
    place = recordings("codex", shop, tmp_path)
    with codex_file(place).open("a") as end:
        end.write(codex_line(type="custom_tool_call_output", call_id="2", output=output))
    imported("codex", place, shop)
    assert bool(turns("codex")[0]["metadata"]["session"]["edited"]) is is_written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<T> or <U>: which type? <b>now</b>", "<T> or <U>: which type? <b>now</b>"),
        ("<div>Why is this empty?</div>", "<div>Why is this empty?</div>"),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
        ("<ide_opened_file>a.py</ide_opened_file>\nWhy?", "Why?"),
        ("Why?\n<system-reminder>Be brief.</system-reminder>", "Why?"),
        ("<command-message>r</command-message>\n<command-name>/review-cart</command-name>\n"
         "<command-args>now please</command-args>", "/review-cart now please"),
        ("<command-name>/clear</command-name><command-args></command-args>", ""),
        ("This session is being continued from a previous conversation that ran out of context.", ""),
        ("<command-name>", "<command-name>"),
    ],
)  # fmt: skip
def test_only_known_tags_are_not_typed(text, said):
    assert typed(text) == said


def test_a_last_turn_that_has_only_new_edits_is_imported_again(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    imported("claude-code", place, shop)
    given = {"file_path": str(shop / "shop" / "util.py")}
    read = {"type": "tool_use", "id": "r9", "name": "Read", "input": given}
    grown(place, {"type": "assistant", "timestamp": "2025-05-01T10:30:00Z", "message": {"content": [read]}})
    imported("claude-code", place, shop)
    assert [one["path"] for one in turns("claude-code")[1]["citations"]] == ["shop/util.py"]


def test_a_copy_of_a_session_adds_nothing_that_was_deleted(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    imported("claude-code", place, shop)
    rag("turns", "delete", turns("claude-code")[0]["id"], "--yes")
    (file,) = place.rglob("s-1.jsonl")
    file.with_name("s-3.jsonl").write_text(file.read_text().replace('"s-1"', '"s-3"'))
    file.with_name("s-4.jsonl").write_text(file.read_text().replace('"s-1"', '"s-4"'))
    done = imported("claude-code", place, shop, "--json").json
    assert (done["conversations"], done["turns"]) == (0, 0)
    assert questions("claude-code") == [ASK_AGAIN]


def test_a_request_that_a_file_repeats_is_stored_once(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    again = request("u-98", "Once?"), reply("Once.")
    grown(place, *again, *again)
    assert imported("claude-code", place, shop).out == "stored 1 conversation; 3 new turns\n"
    assert questions("claude-code") == [ASK, ASK_AGAIN, "Once?"]


def test_a_fork_of_codex_has_only_its_own_turns(shop, tmp_path):
    place = recordings("codex", shop, tmp_path)
    file = codex_file(place)
    head, _, rest = file.read_text().partition("\n")
    forked = head.replace('"id": "c-1"', '"id": "c-8", "forked_from_id": "c-1"')
    more = codex_message("user", "And the cookies?") + codex_message("assistant", "They do too.")
    file.with_name("rollout-z.jsonl").write_text(f"{forked}\n{head}\n{rest}{more}")
    assert imported("codex", place, shop).out == "stored 2 conversations; 3 new turns\n"
    assert questions("codex") == [ASK, ASK_AGAIN]


def test_references_of_the_agent_are_no_citations(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    grown(place, request("u-95", "Which?"), reply("- [1] decision: keep it [2:3]; `rows[0]`."))
    imported("claude-code", place, shop)
    assert turns("claude-code")[-1]["answer"] == "- [ 1] decision: keep it [ 2:3]; `rows[ 0]`."


def test_errors_of_the_api_are_no_answers(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    failed = reply("API Error: 500")
    synthetic = reply("No response requested.")
    synthetic["message"]["model"] = "<synthetic>"
    grown(place, request("u-96", "Go on."), reply("Done."), failed | {"isApiErrorMessage": True}, synthetic)
    imported("claude-code", place, shop)
    assert turns("claude-code")[-1]["answer"] == "Done."


def test_codex_keeps_the_request_without_what_an_editor_adds(shop, tmp_path):
    place = recordings("codex", shop, tmp_path)
    asked = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nWhy two?\n"
    with codex_file(place).open("a") as end:
        end.write(codex_message("user", "<image name=[Image #1]>", "</image>", asked))
        end.write(codex_message("assistant", "Because."))
    imported("codex", place, shop)
    assert questions("codex")[-1] == "Why two?"


def test_the_contents_of_files_are_no_part_of_a_request_to_gemini(shop, tmp_path):
    place = recordings("gemini", shop, tmp_path)
    (file,) = place.rglob("session-*.json")
    added = f"{ASK}\\n--- Content from referenced files ---\\nx = 1"
    file.write_text(file.read_text().replace(ASK, added))
    imported("gemini", place, shop)
    assert questions("gemini") == [ASK, ASK_AGAIN]


def test_a_heading_in_an_answer_of_aider_is_no_request(shop, tmp_path):
    place = recordings("aider", shop, tmp_path)
    text = place.read_text().replace(f"#### {ASK}", f"#### /ask {ASK}  ")
    text = text.replace(f"#### {ASK_AGAIN}", f"#### {ASK_AGAIN}  \n\n#### Details")
    place.write_text(text)
    imported("aider", place, shop)
    assert questions("aider") == [ASK, ASK_AGAIN]
    assert turns("aider")[1]["answer"].startswith("#### Details")


def test_a_clock_in_the_future_moves_no_other_commit(shop, tmp_path):
    commit(shop, "shop/util.py", "LIMIT = 'later'\n", "23:00")
    newest = commit(shop, "shop/util.py", "LIMIT = 'now'\n", "09:30")
    place = recordings("claude-code", shop, tmp_path)
    read = {
        "type": "tool_use",
        "id": "r9",
        "name": "Read",
        "input": {"file_path": str(shop / "shop/util.py")},
    }
    looked = {"type": "assistant", "timestamp": "2025-05-01T10:30:00Z", "message": {"content": [read]}}
    grown(place, request("u-97", "And this?"), looked, reply("It is."))
    imported("claude-code", place, shop)
    assert [one["commit"] for one in turns("claude-code")[-1]["citations"]] == [newest]


def test_sessions_of_a_nested_repository_are_of_another_one(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (shop / "nested" / ".git").mkdir(parents=True)
    lines = [
        {"sessionId": "s-9", "cwd": str(shop / "nested"), **one}
        for one in (request("u-9", "In?"), reply("No."))
    ]
    (place / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert "2 sessions about other folders" in imported("claude-code", place, shop).err
    assert questions("claude-code") == [ASK, ASK_AGAIN]
