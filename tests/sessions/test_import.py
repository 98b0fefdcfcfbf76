"""`rag turns import --from`: the recorded sessions of coding agents as conversations about the code."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from command import Ran, rag

from rag.backends.sessions import READERS
from rag.corpus.secrets import without_secrets
from rag.service.repositories.engine import Engine
from rag.service.upkeep.retention import KeptFiles
from rag.settings import Settings
from rag.types import blob_id

RECORDED = Path(__file__).parent
AGENTS = sorted(READERS)
ASK, ASK_AGAIN = "Compare tokens in constant time.", "Is that true of sessions too?"
OLD = (
    "def check(token):\n    if not token:\n        return False\n    return token == secret()\n"
    "\n\ndef secret():\n    return read('secret')\n"
)
NEW = (
    'def check(token):\n    """Check a token once, in constant time."""\n'
    "    return bool(token) and compare_digest(token, secret())\n"
    "\n\ndef secret():\n    return read('secret')\n"
)
HEADER = "# Tokens of the shop.\n\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository: what the sessions read at 9, what they wrote at 11, and lines that move it at 12."""
    root = tmp_path / "shop"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "sessions.py").write_text("from shop.auth import check\nCHECKS = [check]\n")
    (root / "shop" / "util.py").write_text("LIMIT_OF_TRIES_WITH_A_TOKEN = 3\n")
    commit(root, "shop/auth.py", OLD, "09:00")
    commit(root, "shop/auth.py", NEW, "11:00")
    commit(root, "shop/auth.py", HEADER + NEW, "12:00")
    return root


def commit(root: Path, path: str, text: str, at: str) -> str:
    (root / path).write_text(text)
    time = f"2025-05-01T{at}:00Z"
    who = {f"GIT_{one}_{what}": "a" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = os.environ | who | {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", at), ("rev-parse", "HEAD")):
        done = subprocess.run(
            ["git", *command], cwd=root, env=env, check=True, capture_output=True, text=True
        )
    return done.stdout.strip()


def commits(root: Path) -> list[str]:
    done = subprocess.run(
        ["git", "log", "--format=%H", "--reverse"], cwd=root, capture_output=True, text=True
    )
    return done.stdout.split()


def recordings(agent: str, root: Path, folder: Path) -> Path:
    """Copy the recordings of an agent, about this repository; return what is to be imported."""
    target = folder / f"recordings-{agent}"
    shutil.copytree(RECORDED / agent, target)
    for path in [one for one in target.rglob("*") if one.is_file()]:
        text = path.read_text().replace("ROOT", str(root)).replace("COMMIT", commits(root)[1][:7])
        path.write_text(text)
    if agent == "aider":
        return Path(shutil.move(target / "history.md", root / ".aider.chat.history.md"))
    if agent == "cursor":
        state_of_cursor(target, root)
    return target


def state_of_cursor(target: Path, root: Path) -> None:
    rows = json.loads((target / "rows.json").read_text())
    workspace = target / "workspaceStorage" / "w1"
    workspace.mkdir(parents=True)
    (workspace / "workspace.json").write_text(json.dumps({"folder": root.as_uri()}))
    composers = {"composer.composerData": {"allComposers": [{"composerId": "k1"}]}}
    for folder, table, values in (
        (workspace, "ItemTable", composers),
        (target / "globalStorage", "cursorDiskKV", rows),
    ):
        folder.mkdir(exist_ok=True)
        with closing(sqlite3.connect(folder / "state.vscdb")) as db:
            db.execute(f"CREATE TABLE {table} (key TEXT UNIQUE, value BLOB)")
            pairs = [(key, json.dumps(value)) for key, value in values.items()]
            db.executemany(f"INSERT INTO {table} VALUES (?, ?)", pairs)
            db.commit()


def imported(agent: str, place: Path, root: Path, *more: str) -> Ran:
    return rag("turns", "import", "--from", agent, place, "--repo", root, *more)


def turns(agent: str) -> list[dict]:
    return rag("turns", "show", "--conversation", f"{agent}: {ASK}", "--json").json


@pytest.mark.parametrize("agent", AGENTS)
def test_each_request_is_a_turn_with_the_last_text_of_the_agent(agent, shop, tmp_path):
    done = imported(agent, recordings(agent, shop, tmp_path), shop)
    assert (done.code, done.out) == (0, "stored 1 conversation; 2 new turns\n")
    first, second = turns(agent)
    assert [one["question"] for one in (first, second)] == [ASK, ASK_AGAIN]
    assert first["answer"].endswith("`check` now compares in constant time.")
    assert second["answer"] == "Yes: sessions call `check`."
    assert {one["model"] for one in (first, second)} == {agent}
    assert first["metadata"]["session"]["agent"] == agent
    assert first["asked"].startswith("2025-05-01T")
    assert agent in rag("turns", "list").out and f" · {agent} · " in rag("turns", "show", first["id"]).out
    everything = json.dumps([first, second])
    for noise in ("sub-agent", "summary of all", "<", "Caveat", "synthetic", "AGENTS.md", "Added shop"):
        assert noise not in everything


@pytest.mark.parametrize("agent", AGENTS)
def test_what_was_edited_is_cited_where_it_was_committed_and_what_was_read_as_it_was_then(
    agent, shop, tmp_path
):
    imported(agent, recordings(agent, shop, tmp_path), shop)
    before, after, _ = commits(shop)
    first, second = turns(agent)
    cited = {(one["path"], one["start_line"], one["end_line"], one["commit"]) for one in first["citations"]}
    reads = {("shop/sessions.py", 1, 2, before), ("shop/util.py", 1, 1, before)}
    assert cited == {("shop/auth.py", 2, 3, after)} | (reads if agent != "aider" else set())
    assert first["metadata"]["session"]["edited"] == [1] and second["citations"] == []


@pytest.mark.parametrize("agent", AGENTS)
def test_a_line_is_answered_with_the_session_that_wrote_it(agent, shop, tmp_path):
    imported(agent, recordings(agent, shop, tmp_path), shop)
    (found,) = rag("turns", "about", shop / "shop/auth.py:5", "--json").json
    assert found["question"] == ASK and found["wrote"] is True
    (cited,) = [one for one in found["citations"] if one["path"] == "shop/auth.py"]
    assert cited["freshness"]["state"] == "moved" and cited["freshness"]["start_line"] == 4
    shown = rag("turns", "about", shop / "shop/auth.py:5").out
    assert f"{agent}: {ASK} 1. {ASK}  [moved]" in shown and "   wrote shop/auth.py:5" in shown
    assert rag("turns", "about", shop / "shop/auth.py:8").code == 1
    commit(shop, "shop/auth.py", NEW.replace("bool(token) and ", ""), "13:00")
    (stale,) = rag("turns", "about", shop / "shop/auth.py:3", "--json").json
    assert (stale["freshness"]["state"], stale["wrote"]) == ("changed", False)


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_is_imported_twice(agent, shop, tmp_path):
    place = recordings(agent, shop, tmp_path)
    imported(agent, place, shop)
    before = turns(agent)
    assert imported(agent, place, shop, "--json").json["turns"] == 0
    assert turns(agent) == before


def grown(place: Path, *rows: dict) -> None:
    (file,) = place.rglob("s-1.jsonl")
    with file.open("a") as end:
        end.writelines(json.dumps({"sessionId": "s-1", **row}) + "\n" for row in rows)


def request(id_: str, text: str) -> dict:
    return {"type": "user", "uuid": id_, "timestamp": "2025-05-01T10:09:00Z", "message": {"content": text}}


def reply(text: str) -> dict:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "timestamp": "2025-05-01T10:09:01Z", "message": {"content": content}}


def test_a_session_that_has_grown_gets_its_new_turns(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    imported("claude-code", place, shop)
    grown(place, reply("And the cookies do."), request("u-90", "And what of the tests?"))
    grown(place, reply("They pass."))
    done = imported("claude-code", place, shop)
    assert done.out == "stored 0 conversations; 1 new turn, 1 of them in known conversations\n"
    _, second, third = turns("claude-code")
    assert second["answer"] == "Yes: sessions call `check`.\n\nAnd the cookies do." and second["version"] == 2
    assert (third["question"], third["answer"]) == ("And what of the tests?", "They pass.")


def test_what_was_deleted_stays_deleted(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    imported("claude-code", place, shop)
    rag("turns", "delete", turns("claude-code")[0]["id"], "--yes")
    assert imported("claude-code", place, shop, "--json").json["turns"] == 0
    assert [one["question"] for one in turns("claude-code")] == [ASK_AGAIN]
    rag("turns", "delete", "--conversation", f"claude-code: {ASK}", "--yes")
    assert imported("claude-code", place, shop, "--json").json["conversations"] == 0


def test_a_session_that_was_resumed_in_another_file_is_stored_once(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (file,) = place.rglob("s-1.jsonl")
    copy = file.read_text().replace('"s-1"', '"s-3"')
    file.with_name("s-3.jsonl").write_text(copy)
    imported("claude-code", place, shop)
    found = rag("turns", "search", "constant", "--json").json
    assert len(found) == 1


def test_only_sessions_of_the_repository_are_imported(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    assert "1 session about other folders: not imported" in imported("claude-code", place, shop).err
    assert "Not about this" not in rag("turns", "list").out


def test_likely_secrets_are_removed(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    token = "ghp_" + "aZ3kQ9mX7vB2nL5tR8wY1pD4sF6gH0jKcVuE"
    grown(place, request("u-91", f"Use {token} for it."), reply(f"I use {token} now."))
    imported("claude-code", place, shop)
    last = turns("claude-code")[-1]
    assert last["question"] == "Use [removed: github pat] for it."
    assert last["answer"] == "I use [removed: github pat] now."
    assert token not in rag("turns", "export", "--all").out


def test_thoughts_and_examples_of_tokens_are_removed(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    token = "ghp_" + "abcd1234" * 4 + "abcd"
    text = f"<think>It must use {token}, I guess.</think>It is in `{token}`."
    grown(place, request("u-91", f"Where is {token}?"), reply(text))
    imported("claude-code", place, shop)
    last = turns("claude-code")[-1]
    assert last["answer"] == "It is in `[removed: github pat]`."
    exported = rag("turns", "export", "--all").out
    assert token not in exported and "I guess" not in exported


KEY = "-----BEGIN RSA PRIVATE KEY-----", "MIIEowIBAAKCAQ", "-----END RSA PRIVATE KEY-----"
SECRETS = {
    "\n".join(KEY): ("MIIEow", "private key"),
    "\\n".join(KEY): ("MIIEow", "private key"),
    "\n".join(KEY[:2]): ("MIIEow", "private key"),
    "postgres://ada:hunter2@db/shop": ("hunter2", "password in an address"),
    "DB_PASSWORD=hunter2": ("hunter2", "secret by its name"),
    "password: 'hunter2 and more'": ("hunter2", "secret by its name"),
    '{"api_key": "hunter2"}': ("hunter2", "secret by its name"),
    '{\\"client-secret\\": \\"hunter2\\"}': ("hunter2", "secret by its name"),
    'password = "pa\\"hunter2"': ("hunter2", "secret by its name"),
    "PASS=a\\hunter2": ("hunter2", "secret by its name"),
    "machine shop login ada password hunter2": ("hunter2", "password of a command"),
    "deploy --db-password hunter2": ("hunter2", "secret by its name"),
    "Authorization: Basic YWRhOmh1bnRlcjI=": ("YWRhOm", "authorization"),
    "a header Bearer 0123456789abc": ("0123456789abc", "bearer token"),
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln": ("eyJ", "json web token"),
    "curl -su ada:hunter2 shop.example": ("hunter2", "password of a command"),
    "mysql -u root -phunter2 shop": ("hunter2", "password of a command"),
}


@pytest.mark.parametrize("text", SECRETS)
def test_forms_of_secrets_are_removed(text):
    secret, kind = SECRETS[text]
    found = without_secrets(f"Use this: {text}")
    assert secret not in found and f"[removed: {kind}]" in found


@pytest.mark.parametrize(
    "text",
    ["def check(token: str) -> bool:", "token = request.headers['x']", "max_tokens=4096", "PASSWORD=$PW",
     "http://localhost:80/users/@me", "password=None", "bearer authentication",
     "token == secret()", "tests passed: 1200"],
)  # fmt: skip
def test_code_about_secrets_is_kept(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "unit", ['password="', "token='`\"", "curl -u ", "://a:", KEY[0], "eyJ12345678.", "curl a\\\n"]
)
def test_secrets_are_removed_in_linear_time(unit):
    without_secrets(unit)
    began = time.process_time()
    without_secrets(unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 5


def test_secrets_of_a_session_are_stored_nowhere(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (shop / ".env").write_text("LEVEL=swordfish-of-the-shop\n")
    given = {"file_path": str(shop / ".env")}
    read = {"type": "tool_use", "id": "r", "name": "Read", "input": given}
    looked = {"type": "assistant", "timestamp": "2025-05-02T00:00:00Z", "message": {"content": [read]}}
    asked = [f"Why? {one}" for one in SECRETS]
    grown(
        place, *[request(f"u-{n}", one) for n, one in enumerate(asked, 200)], looked, reply("So: hunter2=1")
    )
    grown(place, *[one for n, text in enumerate(asked) for one in (request(f"v-{n}", text), reply(text))])
    imported("claude-code", place, shop)
    exported = rag("turns", "export", "--all").out
    assert "Why? " in exported and ".env" in exported
    for secret in ("MIIEow", ":hunter2@", "hunter2 and", "YWRhOm", "swordfish"):
        assert secret not in exported
    env, auth = blob_id((shop / ".env").read_bytes()), blob_id(NEW.encode())
    with closing(Engine(Settings(home=Path(os.environ["RAG_HOME"])))) as engine:
        assert KeptFiles(engine.turns, "").missing([env, auth]) == {env}


def test_hostile_lines_are_counted_and_left_out(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (file,) = place.rglob("s-1.jsonl")
    with file.open("ab") as end:
        end.write(b"not json\n" + b"[" * 200_000 + b"\n" + b"\xff\xfe\n" + b'{"n": ' + b"9" * 5000 + b"}\n")
        end.write(b'{"type": "user", "message": 7}\n{"type": "user", "message": {"content": [3, null]}}\n')
    grown(place, request("u-92", "Lone \ud800 surrogate and \0."), reply("../../etc"))
    edit = {"type": "tool_use", "name": "Edit", "input": {"file_path": "../../x", "new_string": "a"}}
    grown(
        place, {"type": "assistant", "timestamp": 1e300, "message": {"content": [edit, edit | {"input": 3}]}}
    )
    done = imported("claude-code", place, shop)
    assert done.code == 0 and "rag: left out: a damaged line (4)" in done.err
    assert [one["question"] for one in turns("claude-code")][:2] == [ASK, ASK_AGAIN]


def test_links_are_not_followed(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (file,) = place.rglob("s-1.jsonl")
    elsewhere = tmp_path / "elsewhere.jsonl"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)
    (place / "folder").symlink_to(tmp_path)
    assert imported("claude-code", place, shop, "--json").json["turns"] == 0


def test_a_fifo_is_not_waited_for(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    os.mkfifo(place / "a.jsonl")
    assert imported("claude-code", place, shop, "--json").json["turns"] == 2


def test_the_folder_of_an_agent_is_read_only_after_agreement(shop):
    home = Path.home() / ".claude"
    shutil.move(recordings("claude-code", shop, shop.parent), home / "projects")
    refused = rag("turns", "import", "--from", "claude-code", "--repo", shop)
    assert refused.code == 2 and f"agree with --yes that {home / 'projects'} is read" in refused.err
    agreed = rag("turns", "import", "--from", "claude-code", "--yes", cwd=shop / "shop")
    assert agreed.out == "stored 1 conversation; 2 new turns\n"
    missing = rag("turns", "import", "--from", "codex", "--yes", "--repo", shop)
    assert missing.code == 2 and "there are no sessions of codex at" in missing.err


def test_an_unknown_agent_is_refused(shop):
    refused = rag("turns", "import", "--from", "vim", "--repo", shop, "--yes")
    assert refused.code == 2 and "--from is one of claude-code, codex, opencode, gemini" in refused.err
    assert rag("turns", "import").code == 2


def test_sessions_of_opencode_are_read_from_its_database(shop, tmp_path):
    storage = recordings("opencode", shop, tmp_path) / "storage"
    place = tmp_path / "opencode"
    place.mkdir()
    with closing(sqlite3.connect(place / "opencode.db")) as db:
        db.execute("CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT)")
        db.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        db.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        for file in storage.glob("session/*/*.json"):
            one = json.loads(file.read_text())
            row = (one["id"], one.get("parentID"), one["directory"])
            db.execute("INSERT INTO session VALUES (?, ?, ?)", row)
        for file in storage.glob("message/*/*.json"):
            one = json.loads(file.read_text())
            row = (one["id"], one["sessionID"], one["time"]["created"], file.read_text())
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            for part in storage.glob(f"part/{one['id']}/*.json"):
                row = (one["id"] + part.stem, one["id"], one["sessionID"], part.read_text())
                db.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
        db.commit()
    assert imported("opencode", place, shop).out == "stored 1 conversation; 2 new turns\n"
    assert turns("opencode")[0]["citations"][0]["path"] == "shop/auth.py"
    assert sorted(one.name for one in place.iterdir()) == ["opencode.db"]


def test_a_checkpoint_of_gemini_counts_where_no_session_was_recorded(shop, tmp_path):
    place = recordings("gemini", shop, tmp_path)
    shutil.rmtree(place / "shop" / "chats")
    assert imported("gemini", place, shop).out == "stored 1 conversation; 1 new turn\n"


def test_a_heading_that_aider_writes_into_a_file_is_no_request(shop, tmp_path):
    place = recordings("aider", shop, tmp_path)
    (session,) = place.read_text().split("# aider chat")[1:]
    edit = "NOTES.md\n```\n<<<<<<< SEARCH\n=======\n#### Notes\n>>>>>>> REPLACE\n```\n"
    again = session.replace(ASK, "Write notes.").replace(ASK_AGAIN, f"Go on.\n\n{edit}")
    place.write_text(f"# aider chat{session}\n# aider chat{again}")
    assert imported("aider", place, shop).out == "stored 2 conversations; 4 new turns\n"
    assert "#### Notes" not in rag("turns", "export", "--all").out


def test_what_is_not_committed_is_cited_as_it_is_in_the_folder(shop, tmp_path):
    place = recordings("claude-code", shop, tmp_path)
    (shop / "shop" / "fees.py").write_text("def fee(order):\n    return order.total * RATE_OF_THE_SHOP\n")
    content = {
        "file_path": str(shop / "shop" / "fees.py"),
        "content": (shop / "shop" / "fees.py").read_text(),
    }
    write = {"type": "tool_use", "id": "w", "name": "Write", "input": content}
    message = {"type": "assistant", "timestamp": "2025-05-02T00:00:00Z", "message": {"content": [write]}}
    (shop / "notes.txt").write_text("A fee is a share of the total.\n")
    read = {
        "type": "tool_use",
        "id": "r",
        "name": "Read",
        "input": {"file_path": str(shop / "notes.txt"), "limit": 9},
    }
    looked = {"type": "assistant", "timestamp": "2025-05-02T00:00:00Z", "message": {"content": [read]}}
    grown(place, request("u-93", "Add a fee."), looked, message, reply("Added."))
    imported("claude-code", place, shop)
    cited, read = turns("claude-code")[-1]["citations"]
    assert (read["path"], read["dirty"]) == ("notes.txt", True)
    assert (cited["path"], cited["start_line"], cited["end_line"], cited["dirty"]) == (
        "shop/fees.py",
        1,
        2,
        True,
    )
    (found,) = rag("turns", "about", shop / "shop/fees.py:2", "--json").json
    assert found["wrote"] is True and found["freshness"]["state"] == "fresh"


def test_imported_turns_are_searched_and_checked_like_others(shop, tmp_path):
    imported("codex", recordings("codex", shop, tmp_path), shop)
    assert ASK in rag("turns", "search", "constant", "time").out
    checked = rag("turns", "check", f"codex: {ASK}")
    assert f"1. {ASK}  [moved]" in checked.out
    changed = (HEADER + NEW).replace("bool(token) and ", "")
    commit(shop, "shop/auth.py", changed, "13:00")
    reviewed = rag("review", "HEAD~1..HEAD", "--repo", shop)
    assert ASK in reviewed.out
