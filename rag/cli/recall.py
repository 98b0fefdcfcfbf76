"""`rag turns search` and `consolidate`: search in conversations, and summarise them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.selectors import OfArgument, named, number, title
from rag.cli.terminal import nothing, opened_engine, out, out_json, say, wants_json
from rag.errors import NotFound
from rag.quoting import counted, one_line
from rag.schema import to_json
from rag.types import DialogTurn, Message

if TYPE_CHECKING:
    from rag.ports import Recalled
    from rag.service import Engine

_SHOWN_CHARS = 200
_WORD = re.compile(r"\w")


def search(
    words: Annotated[list[str], typer.Argument(help="Words, or names as written in code.")],
    conversation: Annotated[
        str | None,
        typer.Option(
            "--conversation",
            metavar="NAME",
            help="Only this conversation. Default: all.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("-k", min=1, help="The maximum number of results.")] = 10,
) -> None:
    """Search in conversations, best match first. Names are split into words; Chinese needs no spaces.

    A single Chinese or Japanese character is searched in the newest 2,000 turns only.

    rag turns search user name

    rag turns search 北京 --conversation login
    """
    from rag.analysis import terms
    from rag.service.checks.recall import recall_said

    with opened_engine() as engine:
        query = " ".join(words)
        shown = recall_said(engine, query, conversation=conversation, k=limit)
        sought = set(terms(query))
        if wants_json():
            out_json([_json(one, item) for one, item in shown])
        for one, item in [] if wants_json() else shown:
            _print(engine, one, item, sought)
        if not shown:
            nothing(f"no turn or message contains {query!r}")


@options.grouped
def consolidate(
    conversation: OfArgument = None,
    keep_recent: Annotated[
        int, typer.Option("--keep-recent", min=0, help="Do not summarise the newest N turns.")
    ] = 0,
) -> None:
    """Update the summary of a conversation. The turns do not change.

    A model writes the summary and proposes facts (see `rag facts proposed`); without a model it is a
    digest. Turns that are already summarised are skipped.

    rag turns consolidate

    rag turns consolidate login --keep-recent 10
    """
    from rag.service.checks.facts import consolidate_conversation

    with opened_engine() as engine:
        of = named(engine, conversation)
        done = consolidate_conversation(engine, of, keep_recent=keep_recent)
        if wants_json():
            facts = [to_json(fact) for fact in done.facts]
            out_json({"conversation": of.id, "summary": done.summary, "turns": done.turns, "facts": facts})
            return
        if done.summary:
            out(done.summary)
        say(
            f"rag: summarised {counted(done.turns, 'new turn')} of {title(of)}, "
            f"{counted(len(done.facts), 'proposed fact')}"
        )


def _json(one: Recalled, item: DialogTurn | Message) -> dict[str, Any]:
    return {"score": one.score, "kind": one.kind, **to_json(item)}


def _print(engine: Engine, one: Recalled, item: DialogTurn | Message, sought: set[str]) -> None:
    try:
        of = title(engine.turns.conversation(one.conversation, namespace=engine.settings.namespace))
    except NotFound:  # it was said in a conversation that is gone; a fork shows it
        of = one.conversation
    if isinstance(item, DialogTurn):
        out(f"{of} {number(item)}. {one_line(item.question)}")
        out(f"   {_excerpt(item.answer, sought)}")
    else:
        from rag.searchable import searchable

        out(f"{of} ({item.role}) {_excerpt(searchable(item), sought)}")


def _excerpt(text: str, sought: set[str]) -> str:
    """Return the text on one line, starting at the line with the most search words."""
    from rag.analysis import terms

    lines = [line for line in text.splitlines() if _WORD.search(line)] or [text]
    best = max(range(len(lines)), key=lambda n: len(sought & set(terms(lines[n]))))
    line = " ".join(["[…]" if best else "", *lines[best:]]).strip()
    line = " ".join(line.split())
    return line if len(line) <= _SHOWN_CHARS else line[:_SHOWN_CHARS].rsplit(" ", 1)[0] + " […]"
