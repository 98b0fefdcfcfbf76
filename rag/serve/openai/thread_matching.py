"""Finds the conversation that a list of messages continues.

A client of `/v1` sends the whole history with each question, and no id of the conversation. The history is
the id: after each answer, a hash of the history up to and including it is stored with the turn (a prefix).
The next question arrives with that prefix.

    prefix known, its turn is the last           continue the conversation
    prefix known, its turn is not the last       fork at that turn (the client went back)
    only a shorter prefix known                  fork there
    no history: a first question                 start a new conversation
    same question with the same answer           return the existing turn; nothing is stored twice

Exchanges that only the client has, from another model or as examples of how to answer, are context of the
question. They are not stored.

If a header names the conversation, only prefixes within it count; a request without a history continues at
its end. Whitespace is normalised, since clients trim and wrap; every other character counts, since `x < 0`
and `x > 0` are different questions, and an edited answer is a different answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass

from rag.errors import NotFound
from rag.parsing import parse_json
from rag.ports import SharedState
from rag.service import Engine, Repository
from rag.service.loop.history import REMEMBERED_TURNS, History, with_answers
from rag.types import AssistantResponse, Conversation, DialogTurn, Prompt, Source, UserQuery

_SHELF = "openai-prefix"
_KEPT_S = 90 * 86_400.0
"""How long a prefix is stored; after that, the history is appended as it was sent."""
_NO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
"""Invisible characters, some of which we insert (`rag.markdown`)."""
_LOCKS = 64
_FROM_CLIENT = "the client's own history"
"""The model of the exchanges that only the client has."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """The position of a turn in a conversation."""

    conversation: str
    order: int
    turn: str


class Prefixes:
    """The stored prefixes and their turns, per namespace, in the turn store.

    Args:
        shared: its locks are held by one server at a time; None for the only server of a turn store.
    """

    def __init__(self, shared: SharedState | None = None) -> None:
        self._shared = shared
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    @contextmanager
    def writing(self, namespace: str, conversation: Conversation | None) -> Iterator[None]:
        """Lock a conversation, so that two requests cannot both append at its end."""
        if conversation is None:
            yield
            return
        here = self._locks[hash((namespace, conversation.id)) % _LOCKS]
        name = f"{namespace}\n{conversation.id}"
        with here, nullcontext() if self._shared is None else self._shared.locked(name):
            yield

    def find(self, engine: Engine, keys: Sequence[str]) -> dict[str, TurnPosition]:
        """Return the positions of the known keys."""
        stored = engine.turns.records(keys, shelf=_SHELF, namespace=engine.settings.namespace)
        found = {}
        for key, value in stored.items():
            with suppress(ValueError, TypeError):  # a damaged record counts as none
                found[key] = TurnPosition(**parse_json(value))
        return found

    def put(self, engine: Engine, key: str, position: TurnPosition) -> None:
        """Store a position under its key."""
        value = {key: json.dumps(asdict(position)).encode()}
        engine.turns.put_records(value, shelf=_SHELF, namespace=engine.settings.namespace, ttl_s=_KEPT_S)


def chain(scope: str, history: Sequence[Pair]) -> list[str]:
    """Return a hash for each length of the history, from empty to complete."""
    state = hashlib.sha256(scope.encode("utf-8", "replace"))
    keys = [state.hexdigest()]
    for pair in history:
        for text in pair:
            state.update(json.dumps(_normalized(text)).encode())  # quoted, so that texts cannot run together
        keys.append(state.hexdigest())
    return keys


class ClientHistory(History):
    """A conversation found by the client's history; created, forked or continued when the answer is stored.

    Args:
        engine: the caller's engine.
        sources: the repositories of the question.
        names: their names on the server.
        history: the exchanges before the question.
        prefixes: the stored prefixes.
        named: the conversation that a header names.
        resends: whether a client that names a conversation also sends its history.
        stores: whether the turn is stored.
    """

    stores_questions = False
    """The client keeps its question, and an answer decides which conversation it continues."""
    stores_as_shown = True
    """The client sends the answer again as it was streamed, and is found by it."""

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Source],
        *,
        names: Sequence[str],
        history: Sequence[Pair],
        prefixes: Prefixes,
        named: str | None = None,
        resends: bool = False,
        stores: bool = True,
    ) -> None:
        super().__init__(engine)
        self._stores = stores
        self._prefixes, self._named = prefixes, named or ""
        self._history = list(history)
        self._carried = [_carried(pair) for pair in self._history]
        self._scope = json.dumps([self._named, sorted(names)])
        self._at: int | None = None
        """The order of the turn to continue from; -1 for the beginning, None for the end."""
        self._from = ""
        """The id of the turn to continue from, if the prefix is known."""
        known = self._find_prefix()
        if self._named:
            self._find_named(sources, resends, known)

    @property
    def _namespace(self) -> str:
        return self.engine.settings.namespace

    # ------------------------------------------------------------ finding the position

    def _find_prefix(self) -> int:
        """Find the longest known prefix and return its length."""
        if not self._history:
            return 0
        keys = chain(self._scope, self._history)
        known = self._prefixes.find(self.engine, keys[1:])
        for length in range(len(self._history), 0, -1):
            place = known.get(keys[length])
            if place is None:
                continue
            try:
                self.engine.turns.turn(place.turn, namespace=self._namespace)
                self.conversation = self.engine.turns.conversation(
                    place.conversation, namespace=self._namespace
                )
            except NotFound:
                continue
            self._at, self._from = place.order, place.turn
            return length
        return 0

    def _find_named(self, sources: Sequence[Source], resends: bool, known: int) -> None:
        """Find the named conversation; with a history, up to where the two are equal.

        A `known` prefix that is at least as long belongs to a fork of it, which is continued instead.
        """
        try:
            conversation = self.engine.find_conversation(self._named, sources)
        except NotFound:
            self.name = self._named
            return
        if not self._history:
            self.conversation = conversation
            self._at = -1 if resends and conversation.turn_count else None
            return
        stored = with_answers(self.engine.turns.turns(conversation.id, namespace=self._namespace))
        shared = 0
        for turn, (question, _) in zip(stored, self._history, strict=False):
            if _normalized(turn.question) != _normalized(question):
                break
            shared += 1
        if known and known >= shared:
            return
        self.conversation = conversation
        self._at = stored[shared - 1].order if shared else -1
        self._from = stored[shared - 1].id if shared else ""

    # ------------------------------------------------------------ the history of a dialog

    @property
    def is_stored(self) -> bool:
        """Whether it continues at the end of a conversation, without exchanges that only the client has."""
        return self._at is None and not self._history

    def turns(self) -> list[DialogTurn]:
        """Return the turns that the client has seen, oldest first, with the exchanges that only it has."""
        stored, seen = self._inherited(), 0
        found: list[DialogTurn] = []
        for carried in self._carried:
            later = range(seen, len(stored))
            asked = _normalized(carried.question)
            same = next((n for n in later if _normalized(stored[n].question) == asked), None)
            if same is None:
                found.append(carried)
            else:
                found += stored[seen : same + 1]
                seen = same + 1
        return [*found, *stored[seen:]][-REMEMBERED_TURNS:]

    def _inherited(self) -> list[DialogTurn]:
        if self.conversation is None or self._at == -1:
            return []
        found = self.engine.turns.turns(
            self.conversation.id,
            namespace=self._namespace,
            last=REMEMBERED_TURNS,
            before=None if self._at is None else self._at + 1,
        )
        return with_answers(found)

    def store(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        """Store the turn at its position; return an existing identical turn instead of storing it twice.

        If nothing is to be stored, the turn is returned as it is.
        """
        if not self._stores:
            return turn
        key = chain(self._scope, [*self._history, (turn.question, turn.answer)])[-1]
        with self._prefixes.writing(self._namespace, self.conversation):
            if (existing := self._existing_turn(key)) is not None:
                return existing
            self._fork_if_needed()
            stored = super().store(turn, prompt, repositories)
            assert self.conversation is not None
            place = TurnPosition(self.conversation.id, stored.order or 0, stored.id)
            self._prefixes.put(self.engine, key, place)
        return stored

    def _fork_if_needed(self) -> None:
        """Fork the conversation if it continues after the turn that the client has seen last."""
        if self.conversation is not None and self._at is not None:
            newest = self.engine.turns.turns(self.conversation.id, namespace=self._namespace, last=1)
            if [turn.order for turn in newest] != [self._at]:
                self.conversation = self.engine.turns.fork(
                    self.conversation.id, at=self._at, namespace=self._namespace
                )

    def _existing_turn(self, key: str) -> DialogTurn | None:
        """Return the turn that is stored for this prefix. A first question always starts a conversation."""
        place = self._prefixes.find(self.engine, [key]).get(key) if self._from else None
        if place is None:
            return None
        try:
            turns = self.engine.turns.turns(place.conversation, namespace=self._namespace)
        except NotFound:
            return None
        # Another chat may have had the same exchanges; the turn must continue from the same turn.
        continues = any(self._from in (turn.id, turn.parent_id) for turn in turns)
        return next((turn for turn in turns if continues and turn.id == place.turn), None)


class TurnHistory(ClientHistory):
    """A conversation up to one of its turns, which a request names; forked if it has gone on since.

    Raises:
        NotFound: the turn's conversation was deleted.
        ConversationMismatch: the conversation is about other repositories.
    """

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Source],
        turn: DialogTurn,
        *,
        names: Sequence[str],
        history: Sequence[Pair],
        prefixes: Prefixes,
        stores: bool = True,
    ) -> None:
        super().__init__(engine, sources, names=names, history=history, prefixes=prefixes, stores=stores)
        self.conversation = engine.find_conversation(turn.conversation_id or "", sources)
        self._at, self._from = turn.order, turn.id
        # Two requests that continue a turn with the same words are not histories that a client resends.
        self._scope = json.dumps([turn.id, sorted(names)])


def _carried(pair: Pair) -> DialogTurn:
    """Return an exchange that only the client has, as a turn."""
    question, answer = pair
    return DialogTurn(
        user_query=UserQuery(question),
        assistant_response=AssistantResponse(answer),
        standalone_question=question,
        model=_FROM_CLIENT,
    )


def _normalized(text: str) -> str:
    """Normalise a text for comparison: Unicode NFC, no invisible characters, single spaces, trimmed."""
    return " ".join(_NO_WIDTH.sub("", unicodedata.normalize("NFC", text)).split())
