"""`rag turns`: the conversations kept."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.freshness import about, check, marked_stale, replay
from rag.cli.terminal import (
    counted,
    errors_as_exit_codes,
    opened_engine,
    out,
    out_json,
    say,
    settings_from,
    table,
)
from rag.errors import ConfigError, NotFound
from rag.quoting import visible
from rag.records import conversation_record, turn_record
from rag.types import Conversation, DialogTurn

if TYPE_CHECKING:
    from rag.service import Engine

_SHOWN_OF_AN_ID = 8

app = typer.Typer(help="List, show, export and delete the conversations kept.", no_args_is_help=False)

Which = Annotated[
    str | None, typer.Argument(help="A turn: its number in the conversation, or its id.", metavar="[TURN]")
]
Of = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="NAME", help="A conversation: its name or id; the last when left out."
    ),
]


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """List, show, export and delete the conversations kept."""
    if context.invoked_subcommand is None:
        list_conversations()


@app.command("list")
def list_conversations(json: options.Json = False, memory: options.Memory = None) -> None:
    """List the conversations, the one last written to first.

    rag turns list
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        kept = engine.turns.conversations(namespace=engine.settings.namespace)
        if json:
            out_json([conversation_record(conversation) for conversation in kept])
            return
        rows = []
        for conversation in kept:
            turns = engine.turns.turns(conversation.id, namespace=engine.settings.namespace)
            first = turns[0].question if turns else ""
            about = ", ".join(source.name for source in conversation.sources)
            when = conversation.updated.astimezone().strftime("%Y-%m-%d %H:%M")
            rows.append(
                (conversation.name or _shown_id(conversation.id), about, len(turns), when, first[:60])
            )
        if not rows:
            say('rag: no conversations yet; begin one with `rag ask SOURCE "question"`')
            return
        table("", ("conversation", "about", "turns", "last", "first question"), rows)


@app.command()
def show(
    which: Which = None,
    conversation: Of = None,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Show a conversation, or one turn of it, with citations; what is not as it was says so.

    rag turns show

    rag turns show 2 --conversation login
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        turns = _chosen(engine, which, conversation)
        if json:
            out_json([turn_record(turn) for turn in turns])
            return
        for turn in marked_stale(engine, turns):
            _print_turn(turn)


@app.command()
def export(
    conversation: Of = None,
    everything: Annotated[bool, typer.Option("--all", help="All conversations.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of stdout.")] = None,
    memory: options.Memory = None,
) -> None:
    """Write conversations as JSON lines: one for the conversation, then one for each turn.

    rag turns export --all -o turns.jsonl
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        namespace = engine.settings.namespace
        chosen = (
            engine.turns.conversations(namespace=namespace) if everything else [_named(engine, conversation)]
        )
        lines = []
        for one in chosen:
            lines.append({"conversation": conversation_record(one)})
            lines += [{"turn": turn_record(t)} for t in engine.turns.turns(one.id, namespace=namespace)]
        text = "".join(json_module.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        if output is None:
            out(text, end="")
            return
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror}; choose another file") from error


@app.command()
def delete(
    which: Which = None,
    conversation: Of = None,
    yes: options.Yes = False,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Delete one turn, or a whole conversation.

    rag turns delete 3 --conversation login

    rag turns delete --conversation login --yes
    """
    from rag.service.kept import delete_conversation, delete_turn

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        if which is not None:
            (turn,) = _chosen(engine, which, conversation)
            delete_turn(engine, turn)
            if json:
                out_json({"conversation": turn.conversation_id, "turn": turn.id, "deleted": 1})
            else:
                out(f"deleted turn {_number(turn)}: {turn.question}")
            return
        if conversation is None:
            raise ConfigError("say which: a turn by its number or id, or --conversation NAME for all of it")
        chosen = _named(engine, conversation)
        title = chosen.name or chosen.id
        if not yes and not typer.confirm(f"delete the conversation {title} and all its turns?", err=True):
            raise ConfigError("nothing was deleted")
        gone = delete_conversation(engine, chosen)
        if json:
            out_json({"conversation": chosen.id, "turn": None, "deleted": gone})
        else:
            out(f"deleted {counted(gone, 'turn')} of {title}")


app.command()(check)
app.command()(about)
app.command()(replay)


def _shown_id(conversation: str) -> str:
    """The id; on a terminal its beginning, which names the conversation as well and leaves room."""
    return conversation[:_SHOWN_OF_AN_ID] if sys.stdout.isatty() else conversation


def _named(engine: Engine, name: str | None) -> Conversation:
    return engine.last_conversation() if name is None else engine.find_conversation(name)


def _chosen(engine: Engine, which: str | None, conversation: str | None) -> list[DialogTurn]:
    """All turns of a conversation, or the one that `which` names by number or id.

    Raises:
        NotFound: there is none.
    """
    namespace = engine.settings.namespace
    if which is not None and not which.isdecimal():
        return [engine.turns.turn(which, namespace=namespace)]
    of = _named(engine, conversation)
    turns = engine.turns.turns(of.id, namespace=namespace)
    if which is None:
        return turns
    chosen = [turn for turn in turns if _number(turn) == int(which)]
    if not chosen:
        numbers = ", ".join(str(_number(turn)) for turn in turns) or "none"
        raise NotFound(f"the conversation {of.name or of.id} has no turn {which}; it has {numbers}")
    return chosen


def _number(turn: DialogTurn) -> int:
    return (turn.order or 0) + 1


def _print_turn(turn: DialogTurn) -> None:
    out(f"{_number(turn)}. {turn.question}{'' if turn.complete else '  (broke off)'}")
    if turn.standalone_question not in ("", turn.question):
        out(f"   searched as: {turn.standalone_question}")
    out(f"   {turn.id} · {turn.model}{_when(turn)}")
    out()
    out(turn.answer.rstrip())
    out()
    checks = turn.checks or [None] * len(turn.citations)
    for citation, found in zip(turn.citations, checks, strict=True):
        if citation.used:
            changed = " + changes" if citation.dirty else ""
            commit = f"at {citation.commit[:10]}{changed}" if citation.commit else ""
            now = "" if found is None or found.state == "fresh" else f"now {found}"
            parts = (visible(str(citation)), citation.symbol, commit, visible(now))
            out("  ".join(part for part in parts if part))
    out()


def _when(turn: DialogTurn) -> str:
    asked: Any = turn.user_query_timestamp
    return f" · {asked.astimezone().strftime('%Y-%m-%d %H:%M')}" if asked else ""
