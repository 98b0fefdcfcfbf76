"""Asks the question of an old turn again and compares the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag.service.checks.freshness import checked
from rag.service.loop.ask import converse
from rag.service.loop.dialog import Dialog
from rag.service.loop.history import REMEMBERED_TURNS, History, with_answers
from rag.service.loop.rewording import rewording_of
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.types import Answer, Citation, Conversation, DialogTurn, Freshness, Prompt, Source


@dataclass(frozen=True, slots=True)
class Replay:
    """A turn and the current answer to its question. Nothing of it is stored.

    `lost` are the citations of the old answer, with their freshness, that no citation of the new one
    overlaps; `gained` are those of the new answer that overlap none of the old.
    """

    turn: DialogTurn
    answer: Answer
    lost: tuple[tuple[Citation, Freshness], ...]
    gained: tuple[Citation, ...]


def replay(engine: Engine, turn: DialogTurn, *, as_of: str | None = None) -> Replay:
    """Ask a turn's question again, after the same earlier turns, with the current code or that at `as_of`.

    Raises:
        NotFound: the turn's conversation is deleted.
        RagError: as raised by asking.
    """
    conversation = engine.conversation_of(turn)
    sources = [replace(source, ref=as_of) if as_of else source for source in conversation.sources]
    opened = [engine.repository(source) for source in sources]
    dialog = dialog_before(engine, opened, conversation, turn)
    *_, answer = converse(dialog, turn.question, engine.generator())
    if not isinstance(answer, Answer):
        raise TypeError("a conversation ends with its answer")
    return compared(engine, turn, answer, conversation.sources, as_of=as_of)


def dialog_before(
    engine: Engine, opened: Sequence[Repository], conversation: Conversation, turn: DialogTurn
) -> Dialog:
    """Return a dialog that asks a turn's question again, after the same earlier turns, and stores nothing.

    It is searched in the words of the first time: no model is asked for others.
    """
    dialog = Dialog(engine, opened, history=TurnsBefore(engine, conversation, turn))
    dialog.rewording = rewording_of(turn)
    return dialog


def compared(
    engine: Engine, turn: DialogTurn, answer: Answer, sources: Sequence[Source], *, as_of: str | None = None
) -> Replay:
    """Compare a turn with the current answer to its question, from these sources or from them at `as_of`."""
    (old,) = checked(engine, [turn], sources, as_of=as_of)
    lost = tuple(pair for pair in old.checked if not any(_same(*pair, new) for new in answer.citations))
    gained = tuple(new for new in answer.citations if not any(_same(*pair, new) for pair in old.checked))
    return Replay(old, replace(answer, turn_id="", turn_order=None), lost, gained)


class TurnsBefore(History):
    """A conversation as it was before one of its turns; turns are not stored."""

    stores_questions = False

    def __init__(self, engine: Engine, conversation: Conversation, turn: DialogTurn) -> None:
        super().__init__(engine, conversation)
        self._conversation, self._before = conversation, turn.order or 0

    @property
    def is_stored(self) -> bool:
        """False, as the stored conversation has later turns."""
        return False

    def turns(self) -> list[DialogTurn]:
        """Return the turns before that have an answer, oldest first."""
        found = self.engine.turns.turns(
            self._conversation.id,
            namespace=self._conversation.namespace,
            last=REMEMBERED_TURNS,
            before=self._before,
        )
        return with_answers(found)

    def store(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        """Return the turn without storing it."""
        return turn


def _same(old: Citation, check: Freshness, new: Citation) -> bool:
    """Whether a new citation overlaps the lines of the old one, or the lines that replaced them."""
    if check.state == "gone":
        return False
    here = old if check.state == "unknown" or not check.start else check
    same_file = (old.location, here.path) == (new.location, new.path)
    return same_file and here.start <= new.end and new.start <= here.end
