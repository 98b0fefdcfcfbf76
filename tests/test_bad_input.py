"""Bad input, bad disks, bad services: a clear error, the right exit code, and nothing lost."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pickle
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import Ran, command, rag, rag_process

import rag as rag_module
from rag import Engine, load_settings
from rag.database import format as store_format
from rag.quoting import without_secrets
from tests.servers.provider import ProviderServer

SIGNED = "How are sessions signed?"
EXPIRE = "And when do they expire?"


def refused(done: Ran, told: str, *, code: int = 2) -> None:
    """The command ended with this code, printed no result, and said this in its last words."""
    assert (done.code, done.out) == (code, ""), done
    assert "Traceback" not in done.err
    assert told in done.err.splitlines()[-1], done.err


def quoted_instead(done: Ran, told: str, *, code: int = 3) -> None:
    """The model failed: the nearest lines are quoted, the last words say why, the question failed."""
    assert done.code == code, done
    assert done.out.startswith("The language model failed")
    assert "snip/sessions.py" in done.out
    assert "Traceback" not in done.err
    assert told in done.err.splitlines()[-1], done.err
    *_, turn = rag("turns", "show", "--json").json
    assert (turn["state"], turn["answer"]) == ("failed", None)
    assert told in turn["error"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    root.mkdir()
    return root


@pytest.fixture
def rag_home(tmp_path: Path) -> Path:
    return tmp_path / "rag-home"


# ---------------------------------------------------------------- repositories


@pytest.mark.parametrize("verb", ["ask", "search", "index", "chat"])
def test_a_folder_that_is_not_there(tmp_path, verb):
    question = [SIGNED] if verb in ("ask", "search") else []
    refused(rag(verb, tmp_path / "nowhere", *question), "there is no folder")


def test_what_is_no_repository(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("x = 1\n")
    refused(rag("ask", file, SIGNED), "is a file, not a folder")
    refused(rag("ask", f"file://{tmp_path}/nowhere.git", SIGNED), "no repository found")
    refused(rag("ask", "gopher://example.org/x", SIGNED), "cannot be fetched")
    refused(rag("ask", "owner/name", SIGNED, cwd=tmp_path), "https://github.com/owner/name")


def test_an_empty_repository(folder, rag_home):
    for prepare in (lambda: None, lambda: subprocess.run(["git", "init", "-q"], cwd=folder, check=True)):
        prepare()
        refused(rag("ask", folder, SIGNED), "0 files seen")
    assert not list((rag_home / "stores").glob("*.pkl"))


def test_only_binaries(folder):
    (folder / "logo.png").write_bytes(b"\x89PNG")
    (folder / "tool").write_bytes(bytes(range(256)) * 8)
    refused(rag("ask", folder, SIGNED), "2 files seen, none usable (2 binary")


def _modes_bind_root() -> None:
    """Give up what lets root pass over file modes, from the next program on."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "root cannot give up its privileges here")


@pytest.fixture(scope="module")
def unprivileged() -> Callable[..., Ran]:
    """Runs the command as somebody whom file modes bind."""
    if sys.platform != "linux" and os.geteuid() == 0:
        pytest.skip("root cannot give up its privileges on this system")
    return functools.partial(rag_process, preexec_fn=_modes_bind_root)


def test_no_permission_to_read(sample_repo, unprivileged):
    secret = sample_repo / "snip" / "sessions.py"
    secret.chmod(0)
    (sample_repo / "docs").chmod(0)
    done = unprivileged("index", sample_repo, "-v")
    assert done.code == 0
    assert "snip/sessions.py" in done.out
    assert "docs" in done.out
    assert "unreadable" in done.out or "cannot be read" in done.out
    (sample_repo / "docs").chmod(0o755)
    sample_repo.chmod(0)
    refused(unprivileged("ask", sample_repo, SIGNED), "no permission to read")
    sample_repo.chmod(0o755)


def test_a_home_that_cannot_be_written(sample_repo, rag_home, unprivileged):
    rag_home.mkdir(mode=0o500)
    refused(unprivileged("ask", sample_repo, SIGNED), "set RAG_HOME to a writable folder")
    done = unprivileged("doctor")
    assert done.code == 2
    assert "export RAG_HOME=" in done.out
    rag_home.chmod(0o700)


@pytest.mark.parametrize("verb", ["index", "ask", "turns", "keys"])
@pytest.mark.parametrize("kind", ["file", "link to nothing", "pipe"])
def test_a_home_that_is_no_folder(sample_repo, rag_home, kind, verb):
    if kind == "file":
        rag_home.write_text("")
    elif kind == "pipe":
        os.mkfifo(rag_home)
    else:
        rag_home.symlink_to(rag_home.parent / "nowhere")
    words = {"index": [sample_repo], "ask": [sample_repo, SIGNED], "turns": ["list"], "keys": ["add", "x"]}
    refused(rag(verb, *words[verb]), f"{rag_home} is not a folder")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_settings_file_that_is_no_file(sample_repo, rag_home, make):
    rag_home.mkdir()
    make(rag_home / "config.toml")
    refused(rag("index", sample_repo), "it is no regular file")


def test_a_200_mb_file_is_named_and_costs_nothing(sample_repo):
    with (sample_repo / "dump.py").open("wb") as file:
        file.truncate(200_000_000)
    report = rag("index", sample_repo, "--json").json
    assert [s["detail"] for s in report["skipped"] if s["path"] == "dump.py"] == ["200000000 bytes"]
    assert rag("ask", sample_repo, SIGNED).code == 0


def test_a_line_of_five_megabytes(sample_repo, monkeypatch):
    (sample_repo / "bundle.js").write_text("var a=1;" * 625_000)
    monkeypatch.setenv("RAG_MAX_FILE_BYTES", "10000000")
    report = rag("index", sample_repo, "--json").json
    assert "lines of 5000000 characters" in next(
        s["detail"] for s in report["skipped"] if s["path"] == "bundle.js"
    )
    (sample_repo / "bundle.js").write_text("// " + "session " * 5_000 + "\n" + "x = 1\n" * 90_000)
    found = rag("search", sample_repo, "session", "--json", "-k", 100).json["hits"]
    assert all(len(hit["text"]) < 20_000 for hit in found)


def test_bytes_that_are_no_utf_8(sample_repo):
    (sample_repo / "latin.py").write_bytes(b'def caf\xe9():\n    """Der K\xe4se \xff\xfe walrus."""\n')
    found = rag("search", sample_repo, "walrus", "--json").json["hits"]
    assert found[0]["path"] == "latin.py"
    assert "Käse" in found[0]["text"]


def test_a_loop_of_links(sample_repo):
    (sample_repo / "loop").symlink_to(sample_repo)
    (sample_repo / "a").symlink_to(sample_repo / "b")
    (sample_repo / "b").symlink_to(sample_repo / "a")
    shutil.rmtree(sample_repo / ".git")
    report = rag("index", sample_repo, "--json").json
    assert {"loop", "a", "b"} <= {skip["path"] for skip in report["skipped"]}
    refused(rag("ask", sample_repo / "a", SIGNED), "loop")


@pytest.mark.parametrize("in_git", [False, True])
def test_names_that_nobody_would_choose(folder, in_git):
    names = [
        "new\nline.py",
        "quo'te\".py",
        " space .py",
        "-rf.py",
        "back`tick.py",
        "$(id).py",
        "ünïcödé.py",
        "%s{x}.py",
    ]
    for number, name in enumerate(names):
        (folder / name).write_text(f"def walrus_{number}():\n    return 'tusk'\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.py")).write_text("def walrus_9():\n    pass\n")
    if in_git:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    report = rag("index", folder, "--json").json
    assert report["files"] == len(names)
    assert [skip["path"] for skip in report["skipped"]] == ["\\xff\\xfe.py"]
    found = rag("search", folder, "walrus tusk", "--json", "-k", 20).json["hits"]
    assert {hit["path"] for hit in found} == set(names)
    lines = rag("search", folder, "walrus tusk", "-k", 20).out.splitlines()
    assert len([line for line in lines if "def walrus" in line]) == len(names)
    assert [line for line in lines if line.startswith("line.py")] == []
    for name in names:
        done = rag("ask", folder, f"walrus_{names.index(name)}", "--json")
        assert done.code == 0
    assert rag("turns", "show").code == 0
    assert rag("index", folder, "--json").json["action"] == "fresh"


# ---------------------------------------------------------------- stores


@pytest.fixture
def store(sample_repo: Path) -> Path:
    assert rag("ask", sample_repo, SIGNED).code == 0
    return Path(rag("index", sample_repo, "--json").json["store"])


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch hostile-code-ran",)


def _newer(content: bytes) -> bytes:
    now = b"\x8c\x06format\x94K" + bytes([store_format.FORMAT])
    assert now in content
    return content.replace(now, b"\x8c\x06format\x94K\x63", 1)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda content: content[:1000], "not plain data"),
        (lambda content: content[:-100], "bytes instead of"),
        (lambda content: b"", "the file is empty"),
        (lambda content: pickle.dumps({"magic": store_format.MAGIC, "db": Hostile()}), "not plain data"),
        (lambda content: pickle.dumps(["a", "list"]), "not written by rag"),
    ],
    ids=["a header cut short", "cut short", "empty", "hostile", "foreign"],
)
@pytest.mark.parametrize("verb", ["ask", "search"])
def test_a_damaged_store_is_rebuilt_and_that_is_said(sample_repo, store, damage, told, verb, tmp_path):
    store.write_bytes(damage(store.read_bytes()))
    assert "BAD\tstores" in rag("doctor", "--quick", cwd=tmp_path).out
    done = rag(verb, sample_repo, SIGNED, cwd=tmp_path)
    assert done.code == 0
    assert re.search(rf"was rebuilt: it was damaged: .*{told}", done.err)
    again = rag("ask", EXPIRE, "-c")
    assert (again.code, "damaged" in again.err) == (0, False)
    assert not (tmp_path / "hostile-code-ran").exists()


def test_a_store_of_a_newer_version_is_left_as_it_is(sample_repo, store, tmp_path):
    content = _newer(store.read_bytes())
    store.write_bytes(content)
    for verb in ("ask", "search"):
        done = rag(verb, sample_repo, SIGNED, cwd=tmp_path)
        refused(done, "upgrade rag")
        assert "--rebuild" in done.err
    assert store.read_bytes() == content
    assert "BAD\tstores" in rag("doctor", "--quick", cwd=tmp_path).out
    assert rag("index", sample_repo, "--rebuild").code == 0
    assert rag("ask", EXPIRE, "-c").code == 0
    assert len(rag("turns", "show", "--json").json) == 2


def test_a_file_of_turns_that_is_damaged_is_left_alone(sample_repo, rag_home):
    rag_home.mkdir()
    database = rag_home / "turns.db"
    database.write_bytes(b"this is no database" * 100)
    refused(rag("ask", sample_repo, SIGNED, "-c"), "nothing was changed")
    assert database.read_bytes() == b"this is no database" * 100


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE item SET record = substr(record, 1, 40)", "are invalid"),
        ("UPDATE conversation SET record = '{}'", "has no beginning"),
        ("UPDATE conversation SET record = substr(record, 1, 20)", "are invalid"),
        ("UPDATE conversation SET expires = 'tomorrow'", "isoformat"),
        ("UPDATE conversation SET updated = '[]'", "isoformat"),
        ("UPDATE conversation SET record = json_set(record, '$.spans[0]', 5)", "TypeError"),
        ("UPDATE conversation SET record = json_set(record, '$.spans[0][1]', 'x')", "is none, or too large"),
        ("UPDATE conversation SET record = json_set(record, '$.first.turn', 1e30)", "is none, or too large"),
        ("UPDATE conversation SET record = json_set(record, '$.first', 5)", "TypeError"),
        ("UPDATE conversation SET record = json_set(record, '$.ttl_s', json('[]'))", "TypeError"),
        ("UPDATE conversation SET record = json_set(record, '$.keep_last', -1)", "keep_last must be from 1"),
        ("UPDATE item SET record = 'null'", "TypeError"),
        ("UPDATE item SET record = '[' || replace(hex(zeroblob(50000)), '0', '[')", "RecursionError"),
        ("UPDATE item SET marks = '5'", "TypeError"),
    ],
)
def test_turns_that_make_no_sense_are_a_damaged_file(sample_repo, rag_home, damage, told):
    rag("ask", sample_repo, SIGNED)
    with contextlib.closing(sqlite3.connect(rag_home / "turns.db", isolation_level=None)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute(damage)
    done = rag("turns", "show")
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "nothing was changed" in done.err
    assert rag("turns", "export", "--all").code == 2


@pytest.mark.parametrize(
    "damage",
    [
        "json_remove(record, '$.id')",
        "json_set(record, '$.citations', 'x')",
        "json_set(record, '$.citations[0]', json('{}'))",
        "json_set(record, '$.asked', 5)",
        "json_set(record, '$.order', -1)",
    ],
)
def test_a_turn_that_rag_does_not_write_is_damage_in_a_memory_and_in_a_backup(
    sample_repo, rag_home, tmp_path, damage
):
    rag("ask", sample_repo, SIGNED)
    with contextlib.closing(sqlite3.connect(rag_home / "turns.db", isolation_level=None)) as database:
        database.execute(f"UPDATE item SET record = {damage}")
    assert rag("turns", "backup", tmp_path / "b.db").code == 0
    into = ("--memory", f"sqlite:///{tmp_path}/into.db")
    for done in (rag("turns", "restore", tmp_path / "b.db", *into), rag("turns", "show")):
        assert done.code in (0, 2), done  # raises what is no exit code
    assert rag("turns", "restore", tmp_path / "b.db", *into).code == 2
    assert rag("turns", "list", "--json", *into).json == []


def test_a_long_address_of_a_memory_is_refused_at_once():
    assert without_secrets("red:/" + "/" * 5 + "ada:x@h?password='a b'&y=1@z") == "red://////…@z"
    assert without_secrets("h?PASSWD = q w") == "h?PASSWD = … w"
    began = time.process_time()
    for text in ("a" * 100_000, "a:" + "/" * 100_000, "passwd" + " " * 100_000, "@" * 100_000):
        without_secrets(text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["RAG_HOME", "RAG_MEMORY", "RAG_STORES", "RAG_TEMPLATE", "RAG_MODEL"])
def test_a_folder_of_a_user_who_does_not_exist_is_named(name, sample_repo, monkeypatch):
    where = {"RAG_MEMORY": "sqlite:///~no-such-user/x", "RAG_MODEL": "~no-such-user/x.gguf"}
    monkeypatch.setenv("RAG_MODEL", "cmd:cat")  # without a model no template is used
    monkeypatch.setenv(name, where.get(name, "~no-such-user/x"))
    done = rag("ask", sample_repo, SIGNED)
    assert (done.code, done.out) == (2, "")
    assert "~no-such-user" in done.err


def rag_with_small_files(limit_bytes: int, *arguments: object) -> Ran:
    """Run a command that can write no more to a file. Python would cut its compiled modules short too."""
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    return rag_process(*arguments, preexec_fn=limit, env={"PYTHONDONTWRITEBYTECODE": "1"})


def test_an_export_of_nothing_but_brackets_is_no_export(tmp_path):
    file = tmp_path / "turns.jsonl"
    file.write_text("[" * 200_000)
    refused(rag("turns", "import", file), "nothing was stored")


def test_a_full_disk_while_indexing_leaves_the_store_that_was(sample_repo, store):
    before = store.read_bytes()
    for number in range(40):
        (sample_repo / f"more_{number}.py").write_text(f"def walrus_{number}():\n    return {number}\n" * 20)
    full = functools.partial(rag_with_small_files, 20_000)
    refused(full("index", sample_repo), "no space left")
    refused(full("index", sample_repo, "--rebuild"), "no space left")
    assert store.read_bytes() == before
    assert [file.name for file in store.parent.iterdir() if file.name.endswith(".tmp")] == []
    assert rag("index", sample_repo, "--json").json["changed"] == 40


def test_a_full_disk_while_saving_a_turn_loses_no_other(sample_repo, store):
    done = rag_with_small_files(8_192, "ask", EXPIRE, "-c")
    assert done.code == 2
    assert "free some disk space" in done.err.splitlines()[-1]
    assert [turn["question"] for turn in rag("turns", "show", "--json").json] == [SIGNED]
    assert rag("ask", EXPIRE, "-c", "--json").json["number"] == 2


def test_two_builders_at_once_both_succeed(sample_repo):
    running = [
        subprocess.Popen(
            command("index", sample_repo, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=60), process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    assert len(rag("index", "--list", "--json").json) == 1
    assert rag("index", sample_repo, "--json").json["action"] == "fresh"


def test_killed_while_indexing_and_asked_again(sample_repo, rag_home):
    for number in range(300):
        (sample_repo / f"more_{number}.py").write_text(f"def walrus_{number}():\n    return {number}\n" * 40)
    with subprocess.Popen(command("index", sample_repo), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"reading" in process.stderr.readline()
        process.kill()
    assert process.returncode == -signal.SIGKILL
    done = rag("ask", sample_repo, SIGNED)
    assert done.code == 0
    assert "snip/sessions.py" in done.out
    assert [f.name for f in (rag_home / "stores").iterdir() if f.name.endswith(".tmp")] == []


def test_killed_while_saving_turns_every_saved_turn_is_whole(sample_repo):
    code = textwrap.dedent(f"""
        from rag import Dialog, Engine, load_settings
        from rag.service import converse
        engine = Engine(load_settings())
        dialog = Dialog(engine, [engine.repository({str(sample_repo)!r})], name="long")
        for number in range(10_000):
            *_, answer = converse(dialog, f"How are sessions signed, time {{number}}?", engine.generator())
            print(answer.turn_order, flush=True)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(5):
            said = int(process.stdout.readline())
        process.kill()
    turns = rag("turns", "show", "--conversation", "long", "--json").json
    assert len(turns) >= said + 1 == 5
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    assert all(turn["answer"] and turn["citations"] and turn["complete"] for turn in turns)
    assert rag("ask", EXPIRE, "--conversation", "long", "--json").json["number"] == len(turns) + 1


# ---------------------------------------------------------------- services


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for between two tries."""
    from rag.backends.openai import client as openai_client

    retries = functools.partial(openai_client.Retries, sleep=lambda pause_s: None)
    monkeypatch.setattr(openai_client, "Retries", retries)


@pytest.fixture
def server(impatient: None) -> Iterator[ProviderServer]:
    with ProviderServer(answers=["Sessions are signed with HMAC of the payload [1]."]) as running:
        yield running


def test_nobody_answers_at_the_address(sample_repo, impatient):
    for flags in (("--model", "m"), ()):
        done = rag("ask", sample_repo, SIGNED, "--base-url", "http://127.0.0.1:9/v1", *flags)
        quoted_instead(done, "nothing answers at 127.0.0.1:9")


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("unauthorized", "to a valid key"),
        ("rate_limited", "try again in"),
        ("out_of_quota", "billing"),
        ("fails", "try again later"),
        ("not_json", "usually ends in /v1"),
        ("unknown_model", "--model"),
        ("too_long", "--context-tokens"),
        ("empty", "gave no answer"),
    ],
)
def test_a_service_that_refuses_or_fails(sample_repo, server, behaviour, told):
    server.behaviours = [behaviour]
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--model", "test-model")
    quoted_instead(done, told, code=2 if behaviour == "unauthorized" else 3)


def test_an_answer_cut_in_the_middle_is_shown_and_not_kept_unless_asked(sample_repo, server):
    server.behaviours = ["cut"]
    # While a model may call tools, so short a text is held back: it may come before a call.
    flags = ("--base-url", server.base_url, "--model", "test-model", "--steps", "0")
    done = rag("ask", sample_repo, SIGNED, *flags)
    assert done.code == 3
    assert done.out.startswith("Sessions are")
    assert "broke off after" in done.err
    assert "(failed: " in rag("turns", "show").out
    assert rag("ask", sample_repo, SIGNED, *flags, "--keep-broken").code == 3
    assert "(broke off)" in rag("turns", "show").out


def test_a_service_that_does_not_answer_in_time(sample_repo, server, monkeypatch):
    server.behaviours = ["slow"]
    monkeypatch.setenv("RAG_TIMEOUT", "0.2")
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--model", "test-model")
    quoted_instead(done, "RAG_TIMEOUT")


@pytest.mark.parametrize("context_tokens", [20, 300])
def test_a_context_too_small_for_one_line_of_a_source(sample_repo, server, context_tokens):
    limits = ("--context-tokens", context_tokens, "--answer-tokens", 10)
    done = rag("ask", sample_repo, SIGNED, "--base-url", server.base_url, "--model", "test-model", *limits)
    refused(done, "raise --context-tokens")
    assert server.chats == []


# ---------------------------------------------------------------- settings and questions


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model = ", "fix or remove it"),
        ('modle = "x"\n', "config.toml, line 1, sets modle, which is not a setting"),
        ('# ours\n\ncontext_tokens = "many"\n', "line 3, sets context_tokens = 'many', which cannot be used"),
        ("context_tokens = true\n", "a whole number is expected"),
        ('embedder = "abacus"\n', "config.toml, line 1); use"),
        ("context_tokens = -5\n", "must be above zero"),
        ('base_url = "not an address"\n', "use one like http://"),
        ("api_key = 12345678\n", "text is expected"),
    ],
)
def test_a_settings_file_that_is_wrong(sample_repo, rag_home, text, told):
    rag_home.mkdir()
    (rag_home / "config.toml").write_text(text)
    done = rag("ask", sample_repo, SIGNED)
    refused(done, told)
    assert "12345678" not in done.err


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("RAG_TIMEOUT", "soon", "the environment sets RAG_TIMEOUT = 'soon', which cannot be used: a number"),
        ("RAG_TIMEOUT", "nan", "a number is expected"),
        ("RAG_TIMEOUT", "inf", "it must be at most 1000000000"),
        ("RAG_CONTEXT_TOKENS", "9" * 400, "it must be at most 1000000000000"),
        ("RAG_MEMORY", "tape://x", "unknown memory 'tape://x' (RAG_MEMORY)"),
        ("OPENAI_BASE_URL", "there", "the address 'there' (OPENAI_BASE_URL) is invalid"),
    ],
)
def test_a_variable_that_is_wrong_is_named(sample_repo, monkeypatch, variable, value, told):
    monkeypatch.setenv(variable, value)
    refused(rag("ask", sample_repo, SIGNED), told)


def test_a_flag_that_is_wrong_is_named(sample_repo, monkeypatch):
    monkeypatch.setenv("RAG_EMBEDDER", "static")
    refused(rag("ask", sample_repo, SIGNED, "--context-tokens", 0), "sets --context-tokens = '0'")
    refused(rag("ask", sample_repo, SIGNED, "--embedder", "abacus"), "unknown embedder 'abacus' (--embedder)")


def test_a_question_of_16_000_characters(sample_repo):
    long = "How are sessions signed? " * 640
    assert len(long) == 16_000
    done = rag("ask", sample_repo, long, "--context-tokens", 100_000)
    assert done.code == 0
    assert "snip/sessions.py" in done.out
    assert rag("search", sample_repo, long).code == 0


def test_a_longer_question(sample_repo):
    for verb in ("ask", "search"):
        refused(
            rag(verb, sample_repo, "x" * 16_001), "has 16,001 characters, the limit is 16,000; shorten it"
        )


@pytest.mark.parametrize("question", ["", "   ", "\n\t"])
def test_an_empty_question(sample_repo, question):
    for verb in ("ask", "search"):
        refused(rag(verb, sample_repo, question), "the question is empty")


@pytest.mark.parametrize("verb", ["ask", "search"])
def test_a_question_before_its_source_is_corrected(verb, sample_repo):
    answer = rag(verb, "Where is it checked?", sample_repo)
    refused(answer, f"the source comes before the question: rag ask {sample_repo} 'Where is it checked?'")


@pytest.mark.parametrize("question", ["the of and is", "???", "🦄🦄", "\x00\x1b[31m", "--", "<|endoftext|>"])
def test_a_question_of_nothing_to_search_for(sample_repo, question):
    done = rag("ask", "--json", "--", sample_repo, question)
    assert done.code in (0, 1)
    assert done.json["found"] is (done.code == 0)
    assert done.json["answer"]
    assert rag("ask", "-c", EXPIRE).code in (0, 1)


def test_python_refuses_an_empty_question_too(sample_repo):
    from rag import RAG
    from rag.errors import ConfigError

    rag_component = RAG()
    rag_component.prepare_retriever(str(sample_repo))
    with pytest.raises(ConfigError, match="empty"):
        rag_component("  ")
    assert rag_component.memory() == {}
    assert Engine(load_settings()).turns.conversations() == []


# ---------------------------------------------------------------- other users


@pytest.mark.parametrize(
    "words", [("index",), ("ask", SIGNED), ("chat",), ("search", SIGNED), ("wiki", "--output", "wiki-of-it")]
)
def test_what_is_kept_is_the_users_own_whatever_the_umask(sample_repo, rag_home, words):
    before = os.umask(0)
    try:
        assert rag(*words[:1], sample_repo, *words[1:], cwd=sample_repo.parent).code == 0
    finally:
        os.umask(before)
    assert oct(rag_home.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "add", "ann"),
        ("turns", "list"),
        ("facts", "list"),
        ("doctor", "--quick", "--server"),
        ("turns", "import", "no-such-file"),
    ],
)
def test_the_data_folder_is_the_users_own_whatever_makes_it_first(rag_home, words):
    before = os.umask(0)
    try:
        rag(*words)
    finally:
        os.umask(before)
    made = [rag_home, *rag_home.rglob("*")] if rag_home.exists() else []
    assert [str(one) for one in made if one.is_dir() and one.stat().st_mode & 0o077] == []


def test_one_function_makes_folders_that_are_kept():
    """What writes elsewhere than in the data folder is named: shared stores, archives that are unpacked, a
    wiki, the folders of agents."""
    elsewhere = {"integrations/agents.py": 1, "resources.py": 1}
    elsewhere |= {"backends/shelf/folder.py": 1}
    package = Path(rag_module.__file__).parent
    found = {}
    for file in package.rglob("*.py"):
        if count := file.read_text(encoding="utf-8").count(".mkdir(parents=True"):
            found[str(file.relative_to(package))] = count
    assert found == elsewhere


ENDLESS = {
    "zeros": ("exec cat /dev/zero", "a line has more than 1 MB"),
    "lines": ("exec yes ''", "it sends more than 3 MB"),
    "other lines": ("exec yes", "not JSON|Expecting value"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_import_without_end_ends(name, tmp_path, monkeypatch):
    monkeypatch.setattr("rag.cli.turns_move._MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("rag.cli.turns_move._MAX_STREAM_BYTES", 3 << 20)
    script, why = ENDLESS[name]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"{script} > {pipe} 2> /dev/null"])
    try:
        ran = rag("turns", "import", pipe)
    finally:
        writer.kill()
        writer.wait()
    assert ran.code == 2 and re.search(why, ran.err.replace("\n", " ")), ran.err
    assert "nothing was stored" in ran.err.replace("\n", " ")


def test_an_import_reads_its_input_in_pieces(tmp_path):
    file = tmp_path / "turns.jsonl"
    file.write_text("\r\n\n  \n" * 5)
    assert rag("turns", "import", file).out == "stored 0 conversations\n"
    assert rag("turns", "import", "-", stdin="\n\n").out == "stored 0 conversations\n"
    assert rag("turns", "import", tmp_path).code == 2
