"""The conversation and the turns that a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rag.errors import NotFound
from rag.quoting import visible
from rag.types import Citation, Conversation, DialogTurn

if TYPE_CHECKING:
    from rag.service import Engine

Which = Annotated[
    str | None, typer.Argument(help="A turn: its number in the conversation, or its id.", metavar="TURN")
]
Of = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="NAME", help="A conversation: its name or id; the last when left out."
    ),
]


def named(engine: Engine, name: str | None) -> Conversation:
    """The conversation of this name or id; the last one when none is named. Raises NotFound."""
    return engine.last_conversation() if name is None else engine.find_conversation(name)


def chosen(engine: Engine, which: str | None, conversation: str | None) -> list[DialogTurn]:
    """All turns of a conversation, or the one that `which` names by number or id.

    Raises:
        NotFound: there is none.
    """
    namespace = engine.settings.namespace
    if which is not None and not which.isdecimal():
        return [engine.turns.turn(which, namespace=namespace)]
    of = named(engine, conversation)
    turns = engine.turns.turns(of.id, namespace=namespace)
    if which is None:
        return turns
    found = [turn for turn in turns if number(turn) == int(which)]
    if not found:
        there = f"there are {_ranges(list(map(number, turns)))}" if len(turns) > 1 else "there is none"
        if len(turns) == 1:
            there = f"the only one is {number(turns[0])}"
        raise NotFound(f"the conversation {title(of)} has no turn {which}; {there}")
    return found


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: `1-3, 5`."""
    first = [n for at, n in enumerate(numbers) if not at or numbers[at - 1] != n - 1]
    last = [n for at, n in enumerate(numbers, start=1) if at == len(numbers) or numbers[at] != n + 1]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True))


def number(turn: DialogTurn) -> int:
    """The number of a turn as people say it, from 1."""
    return (turn.order or 0) + 1


def title(conversation: Conversation) -> str:
    """What to call a conversation."""
    return conversation.name or conversation.id


def place_in(turn: DialogTurn, citation: Citation) -> str:
    """`path:start-end` on one line, with the repository before it where the turn rests on several."""
    several = len({one.location for one in turn.citations}) > 1
    return visible(f"{citation.repo}:{citation.place}" if several else citation.place)
