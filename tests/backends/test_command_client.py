"""A command as a model: real scripts, which answer, fail, never end, print too much, and leave children."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag import backends
from rag.backends.adal_generator import AdalGenerator
from rag.errors import ProviderBroke, ProviderUnreachable, SettingsError
from rag.ports import is_completing, is_tool_calling
from rag.processes import users_command
from rag.settings import Settings
from rag.types import Conversation, Prepared, Prompt

PROMPT = (
    "<START_OF_SYSTEM_PROMPT>Be brief.<END_OF_SYSTEM_PROMPT><START_OF_USER_PROMPT>Where?<END_OF_USER_PROMPT>"
)

Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a shell script that is executable; return its path."""

    def written(text: str) -> str:
        path = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return written


class Held:
    """A FIFO that a script and all that it starts hold open; it ends when the last of them has ended."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.line = f"exec 9>{path};"

    def has_ended(self) -> bool:
        """Wait for the end."""
        return bool(select.select([self._reader], [], [], 30)[0]) and not os.read(self._reader, 1)

    def close(self) -> None:
        os.close(self._reader)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with closing(Held(tmp_path / "held")) as fifo:
        yield fifo


def generator(command: str, timeout_s: float = 60.0) -> AdalGenerator:
    return backends.open_generator(Settings(model=f"cmd:{command}", timeout_s=timeout_s))


def prepared(answer_tokens: int = 400) -> Prepared:
    prompt = Prompt(text=PROMPT, sources=(), turns=(), tokens=10, answer_tokens=answer_tokens)
    return Prepared("Where?", "Where?", Conversation(id="c"), (), prompt)


async def collected(model: AdalGenerator) -> str:
    return "".join([piece async for piece in model.astream(prepared())])


WAYS = {
    "stream": lambda model: "".join(model.stream(prepared())),
    "astream": lambda model: asyncio.run(collected(model)),
    "complete": lambda model: model.complete(PROMPT),
    "acomplete": lambda model: asyncio.run(model.acomplete(PROMPT)),
}


@pytest.fixture(params=WAYS)
def said(request: pytest.FixtureRequest) -> Callable[[AdalGenerator], str]:
    """The whole answer, by each of the ways to get one."""
    way: Callable[[AdalGenerator], str] = WAYS[request.param]
    return way


def test_a_command_gets_the_prompt_and_its_arguments_without_a_shell(script, said, monkeypatch):
    monkeypatch.setenv("MY_KEY", "kept")
    model = generator(f"""{script('cat; printf "|%s" "$@" "$MY_KEY"')} 'a b' '$HOME' ';id'""")
    assert said(model) == "Be brief.\n\nWhere?|a b|$HOME|;id|kept"
    assert model.model == f"cmd:{Path(model.generator.model_client.arguments[0]).name}"
    assert is_completing(model) and not is_tool_calling(model)


def test_a_command_gets_the_keys_of_providers_but_none_of_our_settings(script, said, monkeypatch):
    for name in ("RAG_GIT_TOKEN", "RAG_SERVER_KEYS", "RAG_API_KEY", "RAG_MEMORY", "RAG_SHARED"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "kept")
    assert said(generator(script("env | grep -E '^(RAG_|OPENAI_API_KEY=)'"))).split() == [
        "OPENAI_API_KEY=kept"
    ]


def test_a_command_runs_in_an_empty_folder_that_is_removed(script, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENTS.md").write_text("Do as I say.")
    folder, pwd, entries = said(generator(script("pwd -P; printenv PWD; ls -A | wc -l"))).split()
    assert entries == "0"
    assert Path(folder) == Path(pwd).resolve() != tmp_path
    assert not Path(folder).exists()


def test_text_is_streamed_at_the_boundaries_of_characters(script, tmp_path):
    os.mkfifo(tmp_path / "go")
    model = generator(script(rf"printf 'h\303'; cat {tmp_path}/go; printf '\244\360\237\230\200 \377.'"))
    with model.stream(prepared()) as pieces:
        assert next(pieces) == "h"
        (tmp_path / "go").write_text("")
        assert "".join(pieces) == "ä😀 \ufffd."
    assert pieces.finish_reason == "stop"


def test_a_command_that_fails_is_an_error_with_its_last_words(script, said):
    failing = script("printf 'The first part'; echo 'no credit' >&2; exit 3")
    with pytest.raises(ProviderBroke, match=r"exit code 3 after 14 characters of the answer: no credit"):
        said(generator(failing))


def test_the_text_before_a_failure_is_given(script):
    with generator(script("printf 'The first part'; kill -9 $$")).stream(prepared()) as pieces:
        assert next(pieces) == "The first part"
        with pytest.raises(ProviderBroke, match="ended with SIGKILL after 14 characters"):
            next(pieces)


def test_a_command_that_prints_nothing_is_an_error_that_says_why(script, said):
    with pytest.raises(ProviderBroke, match="without an answer: please log in"):
        said(generator(script("echo please log in >&2")))


def test_a_long_complaint_is_cut_at_its_beginning(script):
    with pytest.raises(ProviderBroke) as raised:
        generator(script("yes spam | head -c 20000000 >&2; echo the reason >&2; exit 1")).complete(PROMPT)
    assert str(raised.value).endswith("the reason") and len(str(raised.value)) < 600


def test_a_command_that_never_ends_is_stopped(script, said, held):
    with pytest.raises(ProviderUnreachable, match=r"did not finish within 1 s.*RAG_TIMEOUT"):
        said(generator(script(f"{held.line} exec sleep 1000"), timeout_s=0.2))
    assert held.has_ended()


SHORT = {
    "complete": lambda model: model.complete(PROMPT, within_s=0.5),
    "acomplete": lambda model: asyncio.run(model.acomplete(PROMPT, within_s=0.5)),
}


@pytest.mark.parametrize("way", SHORT.values(), ids=SHORT)
def test_a_short_question_has_its_own_time_limit(script, held, way):
    with pytest.raises(ProviderUnreachable, match=r"did not finish within 0\.\d+ s"):
        way(generator(script(f"{held.line} exec sleep 1000")))
    assert held.has_ended()


@pytest.mark.parametrize("way", SHORT.values(), ids=SHORT)
def test_the_time_limit_of_a_short_question_includes_its_place_in_the_queue(script, way):
    model = generator(script("echo Ready.; exec sleep 1000"))
    with model.stream(prepared()) as running:
        assert next(running)
        with pytest.raises(ProviderUnreachable, match=r"busy with other questions for 0\.5 s"):
            way(model)


def test_a_command_that_prints_without_end_is_cut_at_the_limit_of_the_answer(script, held):
    model = generator(script(f"{held.line} yes 'one two three four' | head -c 100000000"))
    with model.stream(prepared(answer_tokens=100)) as pieces:
        assert 300 < len("".join(pieces)) < 1_000
    assert pieces.finish_reason == "length"
    assert held.has_ended()


def test_a_whole_reply_of_100_mb_is_refused(script, held):
    endless = script(f"{held.line} yes | head -c 100000000")
    with pytest.raises(ProviderBroke, match="more than 4,500,000 bytes and was stopped"):
        generator(endless).complete(PROMPT)
    assert held.has_ended()


CHILDREN = "(trap '' TERM; sleep 1000 & wait) & printf begun; wait"


def test_closing_an_answer_ends_all_that_the_command_has_started(script, held):
    with generator(script(f"{held.line} {CHILDREN}")).stream(prepared()) as pieces:
        assert next(pieces) == "begun"
    assert held.has_ended()


def test_cancelling_a_task_ends_all_that_the_command_has_started(script, held):
    model = generator(script(f"{held.line} {CHILDREN}"))

    async def left() -> None:
        begun = asyncio.Event()

        async def asking() -> None:
            async with model.astream(prepared()) as pieces:
                async for _ in pieces:
                    begun.set()

        task = asyncio.create_task(asking())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(left())
    assert held.has_ended()


def test_what_a_command_leaves_behind_neither_delays_its_answer_nor_survives_it(script, held):
    model = generator(script(f"{held.line} sleep 1000 & printf done"))
    assert model.complete(PROMPT) == "done"
    assert held.has_ended()


def test_one_command_runs_at_a_time(script, tmp_path):
    counting = script(f"mkdir {tmp_path}/running && printf alone; cat >/dev/null; rmdir {tmp_path}/running")

    async def all_said() -> list[str]:
        return await asyncio.gather(*(generator(counting).acomplete(PROMPT) for _ in range(4)))

    assert asyncio.run(all_said()) == ["alone"] * 4


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("model 'open", "No closing quotation"),
        ("no-such-model --fast", "there is no command 'no-such-model'"),
        ("./model", "relative to the current folder"),
        ("bin/model", "relative to the current folder"),
        ("/no/such/model", "there is no command '/no/such/model'"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_before_the_question(command, why, tmp_path, monkeypatch):
    for name in ("model", "bin/model"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\ntouch ran\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=why):
        generator(command)


def test_the_current_folder_is_not_searched_even_if_the_path_names_it(script, tmp_path, monkeypatch):
    Path(script("touch ran")).rename(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")
    with pytest.raises(SettingsError, match="there is no command 'model'"):
        users_command("model")


@pytest.mark.parametrize(
    ("command", "shown"),
    [("/opt/team/ask -m a", "cmd:ask"), ("'/a b/ask' x", "cmd:ask"), ("", "cmd:"), ("'ask", "cmd:")],
)
def test_the_name_of_a_command_in_answers_is_its_program(command, shown):
    assert Settings(model=f"cmd:{command}").shown_model == shown


def test_commands_with_other_arguments_are_other_models(script):
    path = script("cat")
    assert generator(f"{path} a").fingerprint != generator(f"{path} b").fingerprint


def test_who_receives_the_code_is_named(tmp_path):
    settings = Settings(model="cmd:claude -p", base_url="http://127.0.0.1:1/v1")
    assert backends.remote_model_host(settings) == "the command `claude -p`"
    assert settings.local_model is None and Settings(model="cmd:run x.gguf").local_model is None
