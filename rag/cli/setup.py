"""`rag setup`: find a language model, and keep the choice."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.settings_options import settings_from
from rag.cli.terminal import NOTHING_FOUND, Waiting, out, out_json, say, seconds, table, wants_json
from rag.errors import ConfigError
from rag.processes import users_command
from rag.quoting import visible
from rag.settings import Settings, load_settings, store_settings

if TYPE_CHECKING:
    from rag.service.upkeep.model_choices import FoundModels, ModelChoice

_MAX_REPLY_CHARS = 100


def setup(
    use: Annotated[
        str | None,
        typer.Option(
            "--use",
            metavar="CHOICE",
            help="Choose without a question: a number or name of the list, or any command, as "
            'cmd:"llm -m NAME". With `--model NAME`, another model of it.',
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Send one small question to the configured model.")
    ] = False,
) -> None:
    """Find a language model that you have already, and store the choice in the settings file.

    It looks for keys in the environment, servers on this machine, and commands. Nothing outside this machine
    is contacted. Of a key, only the name of its variable is stored.

    rag setup

    rag setup --use ollama --model qwen3

    rag setup --use cmd:"llm -m NAME" --check
    """
    from rag.service.upkeep.model_choices import find_models

    settings = settings_from()
    if use is not None or not check:
        found = find_models()
        if use is None and wants_json():
            out_json(_as_json(found))
            return
        choice = found.chosen(use) if use is not None else _asked(found)
        if choice is not None:
            settings = _stored(choice, shown=not check)
            if not check and not choice.reranks:
                say("rag: `rag setup --check` sends it one small question")
    if check:
        _check(settings)
    elif not found.choices and use is None:
        raise typer.Exit(NOTHING_FOUND)


def _as_json(found: FoundModels) -> dict[str, object]:
    """Return what was found as JSON values."""
    choices = [{"number": n, **asdict(choice)} for n, choice in enumerate(found.choices, start=1)]
    return {"choices": choices}


def _asked(found: FoundModels) -> ModelChoice | None:
    """Show what was found, and ask once on a terminal; return the choice, or None."""
    settings = settings_from()
    if settings.has_model:
        say(f"rag: configured now: {_shown(settings)}{settings.source_of('model')}")
    if not found.choices:
        say(
            "rag: no model was found: no key in the environment (such as OPENAI_API_KEY), no server on this "
            "machine (Ollama, LM Studio, llama-server, vLLM), no command (claude, codex, gemini, llm, ollama)"
        )
        say('rag: install or start one of them, or name another command: rag setup --use cmd:"COMMAND"')
        return None
    rows = [
        (n, one.name, one.model or "…", _meaning(one) + ("; it orders what is found" if one.reranks else ""))
        for n, one in enumerate(found.choices, start=1)
    ]
    table("", ("", "name", "model", "questions and excerpts of the code"), rows)
    if not sys.stdin.isatty():
        say("rag: choose one with: rag setup --use NUMBER")
        return None
    question = "Which one? Its number, or Enter for none"
    try:
        wanted = typer.prompt(question, default="", show_default=False, err=True)
    except typer.Abort:
        say("\nrag: nothing was changed")
        return None
    return found.chosen(wanted.strip()) if wanted.strip() else None


def _meaning(choice: ModelChoice) -> str:
    """Return what a choice means for the code, and which key it uses."""
    where = f"are sent to {choice.sends_to}" if choice.sends_to else "stay on this machine"
    return f"{where}; the key in {choice.api_key_variable}" if choice.api_key_variable else where


def _stored(choice: ModelChoice, *, shown: bool) -> Settings:
    """Store a choice, with the model of `--model` if that is given; return the settings as they are then."""
    given = settings_from()
    how, model = given.set_by.get("model", ("", ""))
    if how == "--model" and not choice.reranks:
        choice = choice.with_model(model)
    if not choice.model:
        raise ConfigError(f"{choice.name} needs a model: rag setup --use {choice.name} --model NAME")
    if (command := Settings(model=choice.model).command) is not None:
        users_command(command)
    changes = choice.changes(load_settings())
    store_settings(given.config_file, changes)
    if shown and wants_json():
        out_json(asdict(choice))
    say(f"rag: stored in {given.config_file}: {visible(choice.model)}")
    say(f"rag: questions and excerpts of the code {_meaning(choice)}")
    if choice.reranks:
        say("rag: it orders the first 50 results of a search again, as far as it is ready within a second")
    elif (server := changes.get("embedding_base_url")) is not None:
        say(f"rag: the embedder still sends the code to {visible(server)} (embedding_base_url)")
    settings = load_settings()
    names = ("model",) if settings.command is not None else ("model", "base_url", "client")
    for name in tuple(choice.settings) if choice.reranks else names:
        if settings.source_of(name) and getattr(settings, name) != choice.settings[name]:
            say(f"rag: {name} is {getattr(settings, name)}{settings.source_of(name)}, not what was stored")
    return settings


def _shown(settings: Settings) -> str:
    model = settings.model or "the usual model of its server"
    has_server = settings.base_url and settings.command is None
    return visible(f"{model} at {settings.base_url}" if has_server else model)


def _check(settings: Settings) -> None:
    """Send one small question to the configured model, and print what came back."""
    from rag.service.upkeep.model_choices import check_model

    waiting = Waiting("waiting for the model …")
    try:
        waiting.start()
        checked = check_model(settings)
    finally:
        waiting.stop()
    if wants_json():
        out_json(asdict(checked))
        return
    text = visible(" ".join(checked.reply.split()))
    short = text if len(text) <= _MAX_REPLY_CHARS else f"{text[:_MAX_REPLY_CHARS]}…"
    out(f"{visible(checked.model)} answered “{short}” in {seconds({'': checked.seconds}).strip()}")
