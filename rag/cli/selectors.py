"""Select the conversation and turns of a command, and list them before a change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.terminal import confirm, say
from rag.errors import ConfigError, NotFound
from rag.memory.asked import settled
from rag.quoting import counted, visible
from rag.types import Citation, Conversation, DialogTurn

if TYPE_CHECKING:
    from rag.service import Engine

Which = Annotated[str | None, typer.Argument(help="The number or id of a turn.", metavar="TURN")]
_CONVERSATION = (
    "The name or id of a conversation. Default: the last one about the current folder's repository; outside "
    "indexed repositories, the last one."
)
Of = Annotated[
    str | None,
    typer.Option("--conversation", metavar="NAME", help=_CONVERSATION),
]
OfArgument = Annotated[str | None, typer.Argument(help=_CONVERSATION)]

_SHOWN_QUESTION = 70
SHOWN_TURNS = 3
"""The maximum number of turns that are listed before a change."""


def named(engine: Engine, name: str | None) -> Conversation:
    """Return the conversation with this name or id, or the current one. Raises NotFound."""
    from rag.service.loop.current_conversation import current_conversation

    return current_conversation(engine, Path.cwd()) if name is None else engine.find_conversation(name)


def to_change(engine: Engine, name: str | None) -> Conversation:
    """Return the same as `named`, for a command that removes or changes turns.

    Raises:
        NotFound: there is none.
        ConfigError: none is named, and the last one is a fork in which nothing was asked yet: whether it or
            the conversation that it comes from is meant cannot be known.
    """
    of = named(engine, name)
    if name is None and of.parent is not None:
        last = engine.turns.turns(of.id, namespace=engine.settings.namespace, last=1)
        if last and last[0].conversation_id != of.id:
            every = engine.turns.conversations(namespace=engine.settings.namespace)
            parents = [
                f", or its parent: --conversation {title(one)}" for one in every if one.id == of.parent
            ]
            raise ConfigError(
                f"the last conversation, {title(of)}, is a fork without questions of its own; name the "
                f"conversation: --conversation {title(of)}{''.join(parents)}"
            )
    return of


def turn_to_change(engine: Engine, which: str, conversation: str | None) -> tuple[Conversation, DialogTurn]:
    """Return the turn that a command changes or removes, and its conversation.

    Raises:
        NotFound, ConfigError: see `to_change`.
    """
    of = to_change(engine, conversation) if which.isdecimal() else None
    (turn,) = chosen(engine, which, of.id if of else None)
    return of or engine.conversation_of(turn), turn


def announce(
    doing: str,
    of: Conversation,
    turns: Sequence[DialogTurn],
    *,
    always_ask: bool = False,
    count: int = 0,
) -> None:
    """Print the conversation and the turns that will change; on a terminal, ask for confirmation.

    Args:
        doing: what is about to happen, such as "delete".
        of: the conversation.
        turns: the turns that it happens to.
        always_ask: also ask where nobody sits at a terminal; then no answer is a no.
        count: how many turns it happens to, where `turns` are only the last of them.

    Raises:
        ConfigError: the user does not agree.
    """
    about = ", ".join(source.name for source in of.sources)
    count = max(count, len(turns))
    which = f"turn {number(turns[0])}" if count == len(turns) == 1 else counted(count, "turn")
    say(f"rag: {doing} {which} of {visible(title(of))}{f' (about {visible(about)})' if about else ''}:")
    for turn in turns[-SHOWN_TURNS:]:
        question = visible(" ".join(turn.question.split()))
        shown = question if len(question) <= _SHOWN_QUESTION else f"{question[: _SHOWN_QUESTION - 1]}…"
        say(f"     {number(turn)}. {shown}  [{turn.id}]")
    if count > SHOWN_TURNS:
        say(f"     and {counted(count - SHOWN_TURNS, 'turn')} before")
    confirm(f"{doing}?", always_ask=always_ask)


def chosen(engine: Engine, which: str | None, conversation: str | None) -> list[DialogTurn]:
    """Return all turns of a conversation, or the one with the number or id `which`, as they are shown.

    Raises:
        NotFound: there is none.
    """
    namespace = engine.settings.namespace
    if which is not None and not which.isdecimal():
        return [settled(engine.turns.turn(which, namespace=namespace))]
    of = named(engine, conversation)
    turns = [settled(turn) for turn in engine.turns.turns(of.id, namespace=namespace)]
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
    """Return ascending numbers as ranges: `1-3, 5`."""
    first = [n for at, n in enumerate(numbers) if not at or numbers[at - 1] != n - 1]
    last = [n for at, n in enumerate(numbers, start=1) if at == len(numbers) or numbers[at] != n + 1]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True))


def number(turn: DialogTurn) -> int:
    """Return the number of a turn, counted from 1."""
    return (turn.order or 0) + 1


def title(conversation: Conversation) -> str:
    """Return the name of a conversation, or its id."""
    return conversation.name or conversation.id


def place_in(turn: DialogTurn, citation: Citation) -> str:
    """Return `path:start-end`, with the repository in front if the turn cites several."""
    several = len({one.location for one in turn.citations}) > 1
    return visible(f"{citation.repo}:{citation.place}" if several else citation.place)
