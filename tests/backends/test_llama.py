"""A model from a file: its description, its server in a child process, and questions to it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command import rag

from rag import processes
from rag.backends import LOCAL_CONTEXT_TOKENS, fitted, open_generator, remote_model_host
from rag.backends.adal_generator import AdalGenerator
from rag.backends.llama.client import LlamaClient
from rag.backends.llama.server import LlamaServer, close_all, server_of
from rag.errors import ProviderBroke, SettingsError
from rag.settings import Settings, load_settings, with_absolute_paths
from rag.types import Conversation, Prepared, Prompt
from tests.servers.model import missing, model_path

CONTEXT = 512
DEADLINE_S = 60
needs_model = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path


# ---------------------------------------------------------------- settings


def test_a_missing_file_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "none.gguf", tmp_path, tmp_path / "pipe.gguf", Path("/dev/zero")):
        with pytest.raises(SettingsError, match="there is no model file"):
            LlamaClient(path, CONTEXT)


def test_a_model_is_a_file_if_it_is_called_so_and_no_server_is_named(small: Path) -> None:
    named = Settings(model=str(small))
    assert named.local_model == small
    assert named.has_model
    assert remote_model_host(named) is None
    assert Settings(model="qwen3").local_model is None
    assert replace(named, base_url="http://127.0.0.1:8080/v1").local_model is None
    assert replace(named, client="ollama").local_model is None


def test_a_relative_model_is_that_of_the_folder_where_it_was_named(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    assert with_absolute_paths(Settings(model=small.name)).model == str(small)
    assert with_absolute_paths(Settings(model="qwen3")).model == "qwen3"


@pytest.mark.parametrize(
    ("flags", "context", "answer"),
    [
        ({}, LOCAL_CONTEXT_TOKENS, 1500),
        ({"context_tokens": 1600, "answer_tokens": 100}, 1600, 100),
        ({"context_tokens": 1600}, 1600, 800),
    ],
)
def test_the_context_of_a_model_file_is_small_unless_set(
    small: Path, flags: dict[str, int], context: int, answer: int
) -> None:
    found = fitted(load_settings({"model": str(small), **flags}))
    assert (found.context_tokens, found.answer_tokens) == (context, answer)


def test_the_doctor_names_what_a_model_file_lacks(small: Path, tmp_path: Path) -> None:
    sound = rag("doctor", "--quick", "--model", small).out
    assert f"ok\tmodel\t{small} (0.0 GB); context of 4,096 tokens; not loaded" in sound
    absent = rag("doctor", "--quick", "--model", tmp_path / "none.gguf")
    assert absent.code == 2
    assert "BAD\tmodel\tthere is no model file" in absent.out


def test_the_doctor_names_the_extra_of_model_files(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.backends.llama.server.PACKAGE", "xllamacpp_is_not_here")
    found = rag("doctor", "--quick", "--model", small)
    assert "BAD\tmodel server\t" in found.out
    assert "pip install '.[local]'" in found.out
    asked = rag("ask", Path(__file__).parent, "What is it?", "--model", small)
    assert asked.code == 2
    assert "pip install '.[local]'" in asked.err


# ---------------------------------------------------------------- the child


@pytest.fixture
def server() -> Iterator[LlamaServer]:
    serving = LlamaServer(model_path(), CONTEXT)
    yield serving
    serving.close()


@needs_model
def test_a_model_is_loaded_once_and_unloaded_when_nobody_asks() -> None:
    server = LlamaServer(model_path(), CONTEXT, idle_s=0.05)
    assert server.pid is None
    first, pid = server.begin(), server.pid
    assert server.begin() == first
    assert server.pid == pid
    server.end()
    time.sleep(0.1)  # longer than idle: one use is left
    assert server.pid == pid
    server.end()
    wait_until(lambda: server.pid is None)
    again = server.begin()
    assert again != first
    assert server.pid not in (None, pid)
    server.end()
    wait_until(lambda: server.pid is None)


@needs_model
def test_a_child_ends_with_its_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom rag.backends.llama.server import LlamaServer\n"
        f"server = LlamaServer(Path({str(model_path())!r}), {CONTEXT})\n"
        "server.begin()\nprint(server.pid, flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait_until(lambda: not is_running(pid))


@needs_model
def test_a_child_ends_with_its_parent_while_it_loads() -> None:
    child = processes.start(
        processes.python_command("rag.backends.llama.child"), stdin=processes.PIPE, stdout=processes.PIPE
    )
    wanted = {"path": str(model_path()), "name": "m", "context_tokens": 512, "threads": 1, "key": "k"}
    with child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(wanted).encode() + b"\n")
        child.stdin.close()
        assert child.stdout.read() == b""
        assert child.wait(DEADLINE_S) in (0, -signal.SIGIO)


@needs_model
def test_a_damaged_model_is_an_error_with_the_reason(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    with model_path().open("rb") as whole, damaged.open("wb") as part:
        shutil.copyfileobj(whole, part)
        part.truncate(50_000_000)
    with pytest.raises(SettingsError, match=r"cannot be loaded: tensor .* is not within the file bounds"):
        LlamaServer(damaged, CONTEXT).begin()


def test_a_file_that_only_looks_like_a_model_is_an_error(small: Path) -> None:
    if missing() is not None:
        pytest.skip(missing() or "")
    with pytest.raises(SettingsError, match="cannot be loaded: "):
        LlamaServer(small, CONTEXT).begin()


# ---------------------------------------------------------------- questions


@pytest.fixture
def writer() -> Iterator[AdalGenerator]:
    yield AdalGenerator(
        LlamaClient(model_path(), CONTEXT, timeout_s=60.0, first_byte_s=120.0, at_once=1),
        "smollm2",
        {"temperature": 0},
    )
    close_all()


def prepared(question: str, answer_tokens: int = 200) -> Prepared:
    prompt = Prompt(text=question, sources=(), turns=(), tokens=1, answer_tokens=answer_tokens)
    return Prepared(question, question, Conversation(id="c"), (), prompt)


COUNT = "Count from one to one hundred."


@needs_model
def test_a_model_file_answers_and_one_question_waits_for_the_other(writer: AdalGenerator) -> None:
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append("".join(writer.stream(prepared(COUNT, 8)))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert answers[0].strip()
    assert writer.usage is not None and writer.usage.answer_tokens == 8

    async def ask() -> list[str]:
        return await asyncio.gather(writer.acomplete(COUNT, 8), writer.acomplete(COUNT, 8))

    assert asyncio.run(ask()) == [answers[0]] * 2


@needs_model
@pytest.mark.parametrize("how", ["stream", "astream"])
def test_a_child_that_is_killed_is_an_error_and_the_next_question_loads_the_model_again(
    writer: AdalGenerator, how: str
) -> None:
    server = server_of(model_path(), CONTEXT)

    def kill() -> int:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        return server.pid or 0

    async def ask() -> None:
        stream = writer.astream(prepared(COUNT))
        await anext(stream)
        kill()
        async for _ in stream:
            pass

    with pytest.raises(ProviderBroke, match=r"local model .* ended after [\d,]+ characters .* \(killed"):
        if how == "astream":
            asyncio.run(ask())
        else:
            stream = writer.stream(prepared(COUNT))
            next(stream)
            kill()
            list(stream)
    assert writer.complete(COUNT, 2).strip()


@needs_model
def test_a_question_that_is_left_frees_the_model(writer: AdalGenerator) -> None:
    with writer.stream(prepared(COUNT)) as stream:
        next(stream)
    assert writer.complete(COUNT, 2).strip()


@needs_model
def test_the_settings_open_a_model_file(tmp_path: Path) -> None:
    writer = open_generator(fitted(Settings(model=str(model_path()))))
    assert writer.model == "SmolLM2-135M-Instruct.Q4_1"
    assert str(model_path().parent) not in writer.fingerprint
    with pytest.raises(SettingsError, match="no model file"):
        open_generator(Settings(model=str(tmp_path / "none.gguf")))
