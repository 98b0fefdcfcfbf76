"""`rag facts` and `rag prefer`: facts about repositories, and the user's preferences."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import completion, options
from rag.cli.freshness import AsOf
from rag.cli.selectors import Of, chosen
from rag.cli.terminal import (
    NOTHING_FOUND,
    errors_as_exit_codes,
    opened_engine,
    out,
    out_json,
    say,
    settings_from,
)
from rag.errors import ConfigError
from rag.quoting import visible
from rag.schema import to_json
from rag.types import Source

if TYPE_CHECKING:
    from rag.memory.facts import Fact
    from rag.service import Engine

_SHOWN_OF_AN_ID = 8

app = typer.Typer(
    help="Store facts about a repository, and check which are still true.", no_args_is_help=False
)

Repository = Annotated[
    str | None,
    typer.Option(
        "--repo",
        "-r",
        metavar="SOURCE",
        help="Only facts about this repository. Default: all.",
        autocompletion=completion.repository,
    ),
]


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """Store facts about a repository, and check which are still true."""
    if context.invoked_subcommand is None:
        list_facts()


@app.command("list")
def list_facts(repo: Repository = None, json: options.Json = False, memory: options.Memory = None) -> None:
    """List the facts, oldest first.

    rag facts list --repo .
    """
    from rag.service.facts import facts_of

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        facts = facts_of(engine).list(_location(repo))
        if json:
            out_json([to_json(fact) for fact in facts])
            return
        for fact in facts:
            _print(fact)
        if not facts:
            say(
                'rag: no facts yet; keep one with `rag facts add "…"`, or let a model name some when it'
                " consolidates: `rag turns consolidate`"
            )


@app.command()
def add(
    text: Annotated[str, typer.Argument(help="The fact, as a sentence.")],
    turn: Annotated[
        str | None,
        typer.Option("--turn", metavar="TURN", help="The turn that the fact comes from: its number or id."),
    ] = None,
    conversation: Of = None,
    repo: Annotated[
        str | None,
        typer.Option(
            "--repo", "-r", metavar="SOURCE", help="The repository, if the fact comes from no turn."
        ),
    ] = None,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Store a fact. With --turn, it depends on the lines that the turn cites.

    rag facts add "Sessions end after one hour" --turn 2

    rag facts add "Releases are cut on Fridays" --repo .
    """
    from rag.service.facts import add_fact

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        stated = chosen(engine, turn, conversation)[0] if turn is not None else None
        fact = add_fact(engine, text, turn=stated, source=_source(repo))
        if json:
            out_json(to_json(fact))
        else:
            _print(fact)


@app.command()
def forget(
    fact: Annotated[str, typer.Argument(help="The id of the fact, or its first characters.")],
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Forget a fact.

    rag facts forget 3f2c
    """
    from rag.service.facts import forget_fact

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        gone = forget_fact(engine, fact)
        if json:
            out_json(to_json(gone))
        else:
            out(f"forgot: {gone.text}")


@app.command()
def check(
    repo: Repository = None,
    as_of: AsOf = None,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Check which facts are still true: the state of the lines they depend on.

    rag facts check

    rag facts check --repo . --as-of v2.0
    """
    from rag.service.facts import check_facts, facts_of

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        facts = facts_of(engine).list(_location(repo))
        if not facts:
            say("rag: there are no facts to check")
            raise typer.Exit(NOTHING_FOUND)
        found = check_facts(engine, facts, _sources(engine, facts), as_of=as_of)
        if json:
            out_json([to_json(fact) for fact in found])
            return
        for fact in found:
            _print(fact)


def prefer(
    key: Annotated[str | None, typer.Argument(help="The name of the preference. Default: list all.")] = None,
    value: Annotated[str | None, typer.Argument(help="The value: JSON or text.", metavar="VALUE")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the preference.")] = False,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Show or change your preferences, which are part of every prompt. `language` is the language of answers.

    rag prefer language zh-CN

    rag prefer style "short, with an example"

    rag prefer style --forget
    """
    from rag.memory.preferences import Preferences
    from rag.service.recall import USER

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        kept = Preferences(engine.turns, namespace=engine.settings.namespace)
        if forget and (key is None or value is not None):
            raise ConfigError("--forget needs a key and no value: `rag prefer KEY --forget`")
        if key is not None and forget:
            if not kept.delete(USER, key):
                say(f"rag: there is no preference {visible(key)}")
                raise typer.Exit(NOTHING_FOUND)
        elif key is not None and value is not None:
            kept.save(USER, key, _value(value))
        every = kept.get_all(USER)
        shown = every if key is None or forget else {key: every[key]} if key in every else {}
        if json:
            out_json(shown)
        for name, preferred in shown.items() if not json else ():
            text = preferred if isinstance(preferred, str) else json_.dumps(preferred, ensure_ascii=False)
            out(f"{visible(name)}: {visible(text)}")
        if key is not None and not shown and not forget:
            say(f"rag: there is no preference {visible(key)}")
            raise typer.Exit(NOTHING_FOUND)
        if not every and not json and not forget:
            say("rag: there are no preferences yet; for example `rag prefer language zh-CN`")


def _value(text: str) -> Any:
    try:
        return json_.loads(text, parse_constant=str)
    except ValueError:
        return text


def _source(repo: str | None) -> Source | None:
    from rag.service.engine import locate

    return None if repo is None else locate(repo)


def _location(repo: str | None) -> str | None:
    source = _source(repo)
    return None if source is None else source.location


def _sources(engine: Engine, facts: list[Fact]) -> list[Source]:
    """Return the repositories of the facts, with the names that conversations use."""
    known = {
        source.location: source
        for conversation in engine.turns.conversations(namespace=engine.settings.namespace)
        for source in conversation.sources
    }
    return [known.get(place, Source(place)) for place in dict.fromkeys(fact.location for fact in facts)]


def _print(fact: Fact) -> None:
    state = f"  [{fact.freshness.state}]" if fact.freshness else ""
    out(f"{fact.id[:_SHOWN_OF_AN_ID]}  {visible(fact.text)}{state}")
    places = dict.fromkeys(citation.place for citation in fact.citations)
    about = Source(fact.location).name
    reason = f" ({visible(fact.freshness.reason)})" if fact.freshness and fact.freshness.reason else ""
    out(f"          {visible(about)}{': ' if places else ''}{visible(', '.join(places))}{reason}")
