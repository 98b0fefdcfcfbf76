"""Whose conversation a list of messages goes on with.

A client of `/v1` sends the whole history with each question and names no conversation. What it has heard
so far, the prefix, names it: after each answer a hash of all that was said up to it is kept with the turn
it is. The next question comes with that prefix.

    prefix known, its turn is the last           the conversation goes on
    prefix known, others came after its turn     a fork at that turn (the client went back)
    prefix known up to a point                   a fork there, the rest carried over as it was sent
    no prefix: a first question                  a new conversation
    the same question with the same answer       the turn that is there: nothing is stored twice

With a conversation named by a header the prefix counts within that conversation only; messages that hold
nothing but the question go on at its end. Blanks are compared as one, since clients trim and wrap; every sign
counts, since `x < 0` and `x > 0` are two questions, and an answer that was edited is another answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from rag.errors import NotFound
from rag.service import Engine, Repository
from rag.service.history import REMEMBERED_TURNS, History
from rag.types import AssistantResponse, Conversation, DialogTurn, Prompt, Source, UserQuery

_SHELF = "openai-prefix"
_KEPT_S = 90 * 86_400.0
"""How long a prefix is known; one that comes later still is carried over as it was sent."""
_NO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
"""Signs that nobody sees, some of which we put in (`rag.wiki.sanitize`)."""
_LOCKS = 64

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """A turn in a conversation."""

    conversation: str
    order: int
    turn: str


class Prefixes:
    """Prefixes and the turns that end them, per namespace, in the turn store."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    @contextmanager
    def writing(self, namespace: str, conversation: Conversation | None) -> Iterator[None]:
        """One writer at a time for each conversation, so that two cannot both go on from its end."""
        if conversation is None:
            yield
            return
        with self._locks[hash((namespace, conversation.id)) % _LOCKS]:
            yield

    def find(self, engine: Engine, keys: Sequence[str]) -> dict[str, TurnPosition]:
        """The places of those keys that are known."""
        stored = engine.turns.records(keys, shelf=_SHELF, namespace=engine.settings.namespace)
        return {key: TurnPosition(**json.loads(value)) for key, value in stored.items()}

    def put(self, engine: Engine, key: str, place: TurnPosition) -> None:
        """Keep a place under its key."""
        value = {key: json.dumps(asdict(place)).encode()}
        engine.turns.put_records(value, shelf=_SHELF, namespace=engine.settings.namespace, ttl_s=_KEPT_S)


def chain(scope: str, history: Sequence[Pair]) -> list[str]:
    """A hash for each length of the history, from none to all of it."""
    state = hashlib.sha256(scope.encode("utf-8", "replace"))
    keys = [state.hexdigest()]
    for pair in history:
        for text in pair:
            state.update(json.dumps(_plain(text)).encode())  # quoted: where one ends is plain
        keys.append(state.hexdigest())
    return keys


class ClientHistory(History):
    """A conversation found by what the client has heard; begun, forked or continued when it is answered.

    Args:
        engine: the caller's.
        sources: what is asked.
        names: what the server calls it.
        history: the exchanges before the question.
        prefixes: those that are known.
        named: the conversation a header names.
        resends: whether a client that names a conversation sends its history too.
    """

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
    ) -> None:
        super().__init__(engine)
        self._prefixes, self._named = prefixes, named or ""
        self._history = list(history)
        self._scope = json.dumps([self._named, sorted(names)])
        self._at: int | None = None
        """The order that is gone on from, -1 for the very beginning; None is the end, whatever it is."""
        self._from = ""
        """The id of the turn that is gone on from, where the prefix is known."""
        self._carried = [_carried(pair) for pair in self._history]
        known = self._find_prefix()
        if self._named:
            self._find_named(sources, resends, known)

    @property
    def _namespace(self) -> str:
        return self.engine.settings.namespace

    # ------------------------------------------------------------ where it goes on

    def _find_prefix(self) -> int:
        """Find the longest prefix that is known, and return its length; what comes after is carried over."""
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
            self._at, self._carried = place.order, self._carried[length:]
            self._from = place.turn
            return length
        return 0

    def _find_named(self, sources: Sequence[Source], resends: bool, known: int) -> None:
        """Find the conversation of the name; with a history, as far as both say the same.

        A prefix that is `known` and at least as long is a fork of it, which goes on.
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
        stored = self.engine.turns.turns(conversation.id, namespace=self._namespace)
        shared = 0
        for turn, (question, _) in zip(stored, self._history, strict=False):
            if _plain(turn.question) != _plain(question):
                break
            shared += 1
        if known and known >= shared:
            return
        self.conversation = conversation
        self._carried = [_carried(pair) for pair in self._history[shared:]]
        self._at = stored[shared - 1].order if shared else -1
        self._from = stored[shared - 1].id if shared else ""

    # ------------------------------------------------------------ the history of a dialog

    @property
    def is_stored(self) -> bool:
        """Whether it continues at the end of a conversation, with nothing that only the client knows."""
        return self._at is None and not self._carried

    def turns(self) -> list[DialogTurn]:
        """The turns that the client has heard, oldest first."""
        return [*self._inherited(), *self._carried][-REMEMBERED_TURNS:]

    def _inherited(self) -> list[DialogTurn]:
        if self.conversation is None or self._at == -1:
            return []
        return self.engine.turns.turns(
            self.conversation.id,
            namespace=self._namespace,
            last=REMEMBERED_TURNS,
            before=None if self._at is None else self._at + 1,
        )

    def store(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        """Store the turn where it belongs; one that is there already, word for word, is returned."""
        ends = chain(self._scope, [*self._history, (turn.question, turn.answer)])[-1]
        with self._prefixes.writing(self._namespace, self.conversation):
            if (again := self._same_turn(ends)) is not None:
                return again
            self._fork_if_needed([repository.source for repository in repositories])
            stored = super().store(turn, prompt, repositories)
            assert self.conversation is not None
            place = TurnPosition(self.conversation.id, stored.order or 0, stored.id)
            self._prefixes.put(self.engine, ends, place)
        return stored

    def _fork_if_needed(self, sources: Sequence[Source]) -> None:
        """Begin or fork the conversation where that is needed, and store what is carried over."""
        if self.conversation is None and self._carried:
            self.conversation = self.begin(sources)
        elif self.conversation is not None and self._at is not None:
            newest = self.engine.turns.turns(self.conversation.id, namespace=self._namespace, last=1)
            if [turn.order for turn in newest] != [self._at]:
                self.conversation = self.engine.turns.fork(
                    self.conversation.id, at=self._at, namespace=self._namespace
                )
        for turn in self._carried:
            assert self.conversation is not None
            self.engine.turns.append(turn, conversation=self.conversation.id, namespace=self._namespace)

    def _same_turn(self, ends: str) -> DialogTurn | None:
        """The turn that ends this very prefix; a first question has none: it always begins anew."""
        place = self._prefixes.find(self.engine, [ends]).get(ends) if self._from else None
        if place is None:
            return None
        try:
            turns = self.engine.turns.turns(place.conversation, namespace=self._namespace)
        except NotFound:
            return None
        # Another chat may have gone the very same way; only what goes on from the same turn is the same.
        goes_on = any(self._from in (turn.id, turn.parent_id) for turn in turns)
        return next((turn for turn in turns if goes_on and turn.id == place.turn), None)


def _carried(pair: Pair) -> DialogTurn:
    """An exchange that the client knows and we do not."""
    question, answer = pair
    return DialogTurn(
        user_query=UserQuery(question),
        assistant_response=AssistantResponse(answer),
        standalone_question=question,
        metadata={"carried": True},
    )


def _plain(text: str) -> str:
    """A text as it is compared: in one of the forms that look the same, blanks as one, none at the ends."""
    return " ".join(_NO_WIDTH.sub("", unicodedata.normalize("NFC", text)).split())
