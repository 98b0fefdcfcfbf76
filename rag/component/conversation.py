"""The turns of one stored conversation as a list, with the interface of DeepWiki and AdalFlow."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, overload

from rag.ports import MemoryStore
from rag.service import Engine
from rag.service.upkeep.retention import delete_conversation, delete_turn
from rag.settings import Settings
from rag.types import AssistantResponse, Conversation, DialogTurn, Source, UserQuery

_BATCH = 500
"""The number of turns that are stored in one transaction."""


class CustomConversation:
    """A list of turns in a store; by default in a private in-memory store.

    Args:
        dialog_turns: the first turns; ours, AdalFlow's, or others with the same attributes.
        store: stores the turns.
        conversation: the conversation to continue; None creates one with the first turn.
        namespace: the namespace of the conversation.
    """

    def __init__(
        self,
        dialog_turns: Iterable[Any] = (),
        *,
        store: MemoryStore | None = None,
        conversation: Conversation | None = None,
        namespace: str = "",
    ) -> None:
        self.store: MemoryStore = Engine(Settings(memory="memory:")).turns if store is None else store
        self.conversation = conversation
        self.namespace = namespace
        self.dialog_turns.extend(dialog_turns)

    @property
    def dialog_turns(self) -> DialogTurns:
        """The turns, oldest first. Appending and deleting changes the store."""
        return DialogTurns(self)

    @dialog_turns.setter
    def dialog_turns(self, turns: Iterable[Any]) -> None:
        """Start a new conversation with these turns; the previous one stays in the store."""
        turns = list(turns)
        self.conversation = None
        self.dialog_turns.extend(turns)

    def begin(self, sources: Sequence[Source] = ()) -> Conversation:
        """Return the conversation, creating it in the store if necessary, about these `sources`."""
        if self.conversation is None:
            self.conversation = self.store.create_conversation(namespace=self.namespace, sources=sources)
        return self.conversation

    def append_dialog_turn(self, turn: Any) -> DialogTurn:
        """Add a turn at the end; return it with its order. A turn that is already here is not stored again.

        A turn of another conversation is copied with a new id.
        """
        return self.append_dialog_turns([turn])[0]

    def append_dialog_turns(self, turns: Iterable[Any]) -> list[DialogTurn]:
        """Add turns at the end like `append_dialog_turn`, in batches; return them as stored.

        A batch is stored as a whole or not at all; those before one that fails stay.
        """
        every = iter(turns)
        stored: list[DialogTurn] = []
        while batch := [as_turn(turn) for turn in islice(every, _BATCH)]:
            here = self.begin().id
            known = self.store.turns_by_id([turn.id for turn in batch], namespace=self.namespace)
            elsewhere = {each for each, turn in known.items() if turn.conversation_id != here}
            new_ids = {each: str(uuid.uuid4()) for each in elsewhere}
            ours = [replace(turn, id=new_ids.get(turn.id, turn.id)) for turn in batch]
            stored += self.store.extend(ours, conversation=here, namespace=self.namespace)
        return stored

    def turns(self) -> list[DialogTurn]:
        """Return the current turns, oldest first."""
        if self.conversation is None:
            return []
        return self.store.turns(self.conversation.id, namespace=self.namespace)

    def clear(self) -> int:
        """Delete the conversation from the store; return how many turns were deleted."""
        if self.conversation is None:
            return 0
        gone = delete_conversation(self.store, self.conversation)
        self.conversation = None
        return gone

    def __repr__(self) -> str:
        named = self.conversation and (self.conversation.name or self.conversation.id)
        return f"CustomConversation(conversation={named!r}, store={self.store!r})"


class DialogTurns(Sequence[DialogTurn]):
    """The turns of a conversation as a list that supports reading, appending and deleting."""

    def __init__(self, conversation: CustomConversation) -> None:
        self._conversation = conversation

    def __len__(self) -> int:
        return len(self._conversation.turns())

    def __iter__(self) -> Iterator[DialogTurn]:
        return iter(self._conversation.turns())

    @overload
    def __getitem__(self, index: int) -> DialogTurn: ...
    @overload
    def __getitem__(self, index: slice) -> list[DialogTurn]: ...
    def __getitem__(self, index: int | slice) -> DialogTurn | list[DialogTurn]:
        return self._conversation.turns()[index]

    def __delitem__(self, index: int | slice) -> None:
        chosen = self[index]
        for turn in [chosen] if isinstance(chosen, DialogTurn) else chosen:
            delete_turn(self._conversation.store, turn)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple, DialogTurns)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._conversation.turns())

    def append(self, turn: Any) -> None:
        """Add a turn at the end."""
        self._conversation.append_dialog_turn(turn)

    def extend(self, turns: Iterable[Any]) -> None:
        """Add turns at the end, in their order."""
        self._conversation.append_dialog_turns(turns)

    def clear(self) -> None:
        """Delete all turns."""
        del self[:]


def as_turn(turn: Any) -> DialogTurn:
    """Convert a turn to our class; AdalFlow's and DeepWiki's have a subset of its attributes."""
    if isinstance(turn, DialogTurn):
        return turn
    same = ("id", "user_id", "user_query_timestamp", "assistant_response_timestamp", "metadata")
    given = {name: getattr(turn, name) for name in same if hasattr(turn, name)}
    return DialogTurn(
        user_query=as_query(turn.user_query), assistant_response=as_response(turn.assistant_response), **given
    )


def as_query(query: Any) -> UserQuery | None:
    """Convert a question in any form to our class; None stays None."""
    if query is None or isinstance(query, UserQuery):
        return query
    if isinstance(query, str):
        return UserQuery(query)
    return UserQuery(query.query_str, getattr(query, "metadata", None))


def as_response(response: Any) -> AssistantResponse | None:
    """Convert an answer in any form to our class; None stays None."""
    if response is None or isinstance(response, AssistantResponse):
        return response
    if isinstance(response, str):
        return AssistantResponse(response)
    return AssistantResponse(response.response_str, getattr(response, "metadata", None))
