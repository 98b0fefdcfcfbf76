"""`rag turns`: stored conversations."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.freshness import about, check, marked_stale
from rag.cli.recall import consolidate, search
from rag.cli.selectors import (
    SHOWN_TURNS,
    Of,
    Which,
    announce,
    chosen,
    named,
    number,
    place_in,
    title,
    turn_to_change,
)
from rag.cli.terminal import listing, nothing, opened_engine, out, out_json, result, wants_json
from rag.cli.terminal_markdown import TerminalMarkdown
from rag.cli.turns_edit import edit, fork, mark, rename, rewind, undo, unmark
from rag.cli.turns_move import backup, export, import_, restore
from rag.errors import ConfigError
from rag.quoting import counted, visible
from rag.schema import to_json
from rag.types import Conversation, DialogTurn

if TYPE_CHECKING:
    from rag.service import Engine

_SHOWN_OF_AN_ID = 8

app = options.group("List, show, change and move stored conversations.", default="list")


@app.command("list")
def list_conversations() -> None:
    """List the conversations, the most recent first.

    rag turns list
    """
    with opened_engine() as engine:
        kept = engine.turns.conversations(namespace=engine.settings.namespace)
        rows = [
            (
                one.name or _shown_id(one.id),
                ", ".join(source.name for source in one.sources),
                one.turn_count,
                f"{one.updated.astimezone():%F %H:%M}",
                "" if wants_json() else _first_question(engine, one)[:60],
            )
            for one in kept
        ]
        empty = 'no conversations yet; start one with `rag ask SOURCE "question"`'
        columns = ("conversation", "about", "turns", "last", "first question")
        listing([to_json(one) for one in kept], columns, rows, empty)


@app.command()
def show(
    which: Which = None,
    conversation: Of = None,
    marked: Annotated[
        list[str] | None,
        typer.Option("--mark", help="Only turns with one of these marks. Repeatable."),
    ] = None,
    unmarked: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude-mark",
            help="Only turns without any of these marks. Repeatable.",
        ),
    ] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show the exact prompt of the turn.")] = False,
) -> None:
    """Show a conversation or one of its turns, with citations; stale ones are marked.

    rag turns show

    rag turns show 2 --conversation login

    rag turns show 2 --prompt

    rag turns show --mark important
    """
    with opened_engine() as engine:
        turns = [
            turn
            for turn in chosen(engine, which, conversation)
            if (not marked or not set(marked).isdisjoint(turn.marks))
            and set(unmarked or ()).isdisjoint(turn.marks)
        ]
        if prompt:
            _show_prompts(engine, turns)
            return
        if wants_json():
            out_json([to_json(turn) for turn in turns])
            return
        for turn in marked_stale(engine, turns):
            _print_turn(turn)
        if not turns:
            nothing(f"no turn of {title(named(engine, conversation))} matches")


@app.command()
def delete(
    which: Which = None,
    conversation: Of = None,
) -> None:
    """Delete one turn, or a whole conversation.

    rag turns delete 3 --conversation login

    rag turns delete --conversation login --yes
    """
    from rag.service.upkeep.retention import delete_conversation, delete_turn

    with opened_engine() as engine:
        if which is not None:
            of, turn = turn_to_change(engine, which, conversation)
            announce("delete", of, [turn])
            delete_turn(engine.turns, turn)
            result(
                {"conversation": turn.conversation_id, "turn": turn.id, "deleted": 1},
                f"deleted turn {number(turn)}: {turn.question}",
            )
            return
        if conversation is None:
            raise ConfigError(
                "name a turn by its number or id, or a whole conversation with --conversation NAME"
            )
        of = named(engine, conversation)
        turns = engine.turns.turns(of.id, namespace=engine.settings.namespace, last=SHOWN_TURNS)
        announce("delete", of, turns, always_ask=True, count=of.turn_count)
        gone = delete_conversation(engine.turns, of, last_turn=turns[-1].id if turns else "")
        result(
            {"conversation": of.id, "turn": None, "deleted": gone},
            f"deleted {counted(gone, 'turn')} of {title(of)}",
        )


for command in (
    search,
    check,
    about,
    consolidate,
    fork,
    rewind,
    undo,
    edit,
    mark,
    unmark,
    rename,
    export,
    backup,
    restore,
):
    app.command()(command)
app.command("import")(import_)


def _show_prompts(engine: Engine, turns: list[DialogTurn]) -> None:
    from rag.service.upkeep.retention import kept_prompt

    shown = {turn.id: kept_prompt(engine, turn) for turn in turns}
    if wants_json():
        out_json([{"turn": turn.id, "number": number(turn), "prompt": shown[turn.id]} for turn in turns])
    for turn in [] if wants_json() else turns:
        text = shown[turn.id]
        missing = f"{number(turn)}. no prompt of this turn is stored; answers without a model have none"
        out(text.rstrip() if text else missing)


def _first_question(engine: Engine, conversation: Conversation) -> str:
    read = partial(engine.turns.turns, conversation.id, namespace=engine.settings.namespace)
    turns = read(before=1) or read()
    return turns[0].question if turns else ""


def _shown_id(conversation: str) -> str:
    """Return the id; on a terminal, only its first characters."""
    return conversation[:_SHOWN_OF_AN_ID] if sys.stdout.isatty() else conversation


def _print_turn(turn: DialogTurn) -> None:
    stale = "  (stale: the code has changed since)" if turn.freshness and turn.freshness.is_stale else ""
    out(f"{number(turn)}. {turn.question}{_state(turn)}{stale}")
    if turn.standalone_question not in ("", turn.question):
        out(f"   searched as: {turn.standalone_question}")
    for step in turn.trace:
        if step.is_look or step.is_phrasing:
            out(f"   {visible(step.line)}")
    out(f"   {turn.id}{' · ' if turn.model else ''}{turn.model}{_when(turn)}{_history(turn)}")
    out()
    if turn.answer:
        prose = TerminalMarkdown()
        prose.write(turn.answer.rstrip() + "\n")
        prose.end()
        out()
    checks = turn.checks or [None] * len(turn.citations)
    for citation, found in zip(turn.citations, checks, strict=True):
        if citation.used:
            changed = " + changes" if citation.dirty else ""
            commit = f"at {citation.commit[:10]}{changed}" if citation.commit else ""
            now = "" if found is None or found.state == "fresh" else f"now {found}"
            place = f"[{citation.n}] {place_in(turn, citation)}"
            parts = (place, citation.qualified_name, commit, visible(now))
            out("  ".join(part for part in parts if part))
    if turn.support and turn.support.summary:
        out(f"check: {visible(turn.support.summary)}")
    out()


def _state(turn: DialogTurn) -> str:
    """Return how far the answer of a turn got, if it has no whole one."""
    if turn.state == "failed":
        return f"  (failed: {visible(turn.error)})"
    return {"partial": "  (broke off)", "asked": "  (being answered)"}.get(turn.state, "")


def _when(turn: DialogTurn) -> str:
    asked: Any = turn.user_query_timestamp
    return f" · {asked.astimezone().strftime('%Y-%m-%d %H:%M')}" if asked else ""


def _history(turn: DialogTurn) -> str:
    version = f" · version {turn.version}" if turn.version > 1 else ""
    cached = (turn.metadata or {}).get("cached")
    again = f" · repeats turn {visible(str(cached))}" if cached else ""
    return version + again + (f" · marked {', '.join(map(visible, turn.marks))}" if turn.marks else "")
