"""`rag turns fork`, `rewind`, `undo`, `edit`, `mark`, `unmark`, `rename`: change conversations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.selectors import Of, Which, announce, chosen, named, number, title, to_change, turn_to_change
from rag.cli.terminal import opened_engine, result
from rag.decoding import text_of
from rag.errors import ConfigError, NotFound
from rag.quoting import counted
from rag.schema import to_json
from rag.types import Conversation, DialogTurn

if TYPE_CHECKING:
    from rag.service import Engine

Mark = Annotated[str, typer.Argument(help="The mark: any text.", metavar="MARK")]
Some = Annotated[
    list[str] | None, typer.Argument(help="The numbers or ids of turns. Default: all.", metavar="[TURN]...")
]


def fork(
    which: Which = None,
    conversation: Of = None,
    name: Annotated[str, typer.Option("--name", help="The name of the new conversation.")] = "",
) -> None:
    """Start a conversation that continues another one after a turn. Default: after its last turn.

    rag turns fork 2 --conversation login --name login-by-key
    """
    with opened_engine() as engine:
        of = named(engine, conversation)
        at = None if which is None else chosen(engine, which, conversation)[0].order
        made = engine.turns.fork(of.id, at=at, name=name, namespace=engine.settings.namespace)
        result(to_json(made), f"{title(made)} continues {title(of)} after {counted(made.turn_count, 'turn')}")


def rewind(
    which: Annotated[str, typer.Argument(help="The last turn to keep; 0 keeps none.", metavar="TURN")],
    conversation: Of = None,
) -> None:
    """Remove all turns after this one. Forks keep their turns.

    rag turns rewind 2 --conversation login --yes
    """
    with opened_engine() as engine:
        of = to_change(engine, conversation)
        to = -1 if which == "0" else chosen(engine, which, conversation)[0].order or 0
        after = engine.turns.turns(of.id, namespace=engine.settings.namespace, after=to)
        if after:
            announce("remove", of, after, always_ask=True)
        _rewound(engine, of, to, after)


def undo(
    turns: Annotated[int, typer.Argument(help="The number of turns.", min=1)] = 1,
    conversation: Of = None,
) -> None:
    """Remove the last turn, or the last few, after listing them.

    If another process adds a turn in the meantime, nothing is removed.

    rag turns undo

    rag turns undo 2 --conversation login
    """
    with opened_engine() as engine:
        of = to_change(engine, conversation)
        last = engine.turns.turns(of.id, namespace=engine.settings.namespace, last=turns)
        if len(last) < turns:
            raise NotFound(f"{title(of)} has {counted(len(last), 'turn')}, not {turns}")
        announce("remove", of, last)
        _rewound(engine, of, (last[0].order or 0) - 1, last)


def edit(
    which: Annotated[str, typer.Argument(help="The number or id of a turn.", metavar="TURN")],
    conversation: Of = None,
    question: Annotated[str | None, typer.Option("--question", help="The new question.")] = None,
    answer: Annotated[str | None, typer.Option("--answer", help="The new answer; `-` reads stdin.")] = None,
) -> None:
    """Correct a turn's question or answer. The earlier version is kept.

    rag turns edit 2 --conversation login --answer "It expires after 14 days."
    """
    from rag.service.loop.corrections import correct_turn

    with opened_engine() as engine:
        if question is None and answer is None:
            raise ConfigError("nothing to change: give --question, --answer, or both")
        of, turn = turn_to_change(engine, which, conversation)
        announce("correct", of, [turn])
        text = text_of(sys.stdin.buffer.read()) if answer == "-" else answer
        namespace = engine.settings.namespace
        edited = correct_turn(engine.turns, turn.id, namespace=namespace, question=question, answer=text)
        result(to_json(edited), f"turn {number(edited)} is at version {edited.version}")


def mark(
    mark: Mark,
    which: Some = None,
    conversation: Of = None,
) -> None:
    """Add a mark to turns, to filter by it later.

    rag turns mark important 2 --conversation login
    """
    _changed_marks(mark, None, which, conversation)


def unmark(
    mark: Mark,
    which: Some = None,
    conversation: Of = None,
) -> None:
    """Remove a mark from turns.

    rag turns unmark important --conversation login
    """
    _changed_marks(None, mark, which, conversation)


def rename(
    name: Annotated[str, typer.Argument(help="The new name.", metavar="NAME")],
    conversation: Of = None,
) -> None:
    """Rename a conversation.

    rag turns rename login-2026 --conversation login
    """
    with opened_engine() as engine:
        of = to_change(engine, conversation)
        renamed = engine.turns.rename(of.id, name, namespace=engine.settings.namespace)
        result(to_json(renamed), f"{title(of)} is now {title(renamed)}")


def _rewound(engine: Engine, of: Conversation, to: int, turns: Sequence[DialogTurn]) -> None:
    from rag.service.upkeep.retention import rewind as rewind_kept

    gone = rewind_kept(engine.turns, of, to=to, last_turn=turns[-1].id if turns else None)
    result(
        {"conversation": of.id, "to": to, "taken_back": gone},
        f"removed {counted(gone, 'turn')} of {title(of)}",
    )


def _changed_marks(
    new: str | None,
    old: str | None,
    which: list[str] | None,
    conversation: str | None,
) -> None:
    with opened_engine() as engine:
        of = named(engine, conversation)
        wanted: Sequence[str | None] = which or [None]
        turns = [turn for one in wanted for turn in chosen(engine, one, conversation)]
        changed = engine.turns.update_marks(
            of.id, new, old=old, ids=[turn.id for turn in turns], namespace=engine.settings.namespace
        )
        result(
            {"conversation": of.id, "new": new, "old": old, "changed": changed},
            f"{'marked' if new is not None else 'unmarked'} {counted(changed, 'turn')} of {title(of)}",
        )
