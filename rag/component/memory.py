"""`Memory`: the turns of one conversation, as an AdalFlow component.

The surface is that of DeepWiki's class of the same name; what is added through any of it is in the
`TurnStore` when the call returns. A conversation is begun with its first turn, so an unused memory leaves
nothing in the store.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from rag.adal import adalflow
from rag.ports import TurnStore
from rag.records import turn_from_record, turn_record
from rag.service import Engine
from rag.settings import Settings
from rag.types import AssistantResponse, Conversation, DialogTurn, Source, UserQuery


class CustomConversation:
    """A list of turns that lives in a store; by default in one of its own, in this process.

    Args:
        dialog_turns: turns to begin with; ours, AdalFlow's, or any of the same shape.
        store: where the turns are kept.
        conversation: the conversation to go on with; None begins one with the first turn.
        namespace: whose conversation it is.
    """

    def __init__(
        self,
        dialog_turns: Iterable[Any] = (),
        *,
        store: TurnStore | None = None,
        conversation: Conversation | None = None,
        namespace: str = "",
    ) -> None:
        self.store: TurnStore = Engine(Settings(memory="memory:")).turns if store is None else store
        self.conversation = conversation
        self.namespace = namespace
        self.dialog_turns.extend(dialog_turns)

    @property
    def dialog_turns(self) -> DialogTurns:
        """The turns, oldest first. What is appended to them or deleted is so in the store."""
        return DialogTurns(self)

    @dialog_turns.setter
    def dialog_turns(self, turns: Iterable[Any]) -> None:
        """Begin a new conversation with these turns; the one before stays in the store."""
        turns = list(turns)
        self.conversation = None
        self.dialog_turns.extend(turns)

    def begin(self, sources: Sequence[Source] = ()) -> Conversation:
        """The conversation, made in the store if it is not there yet; `sources` are what it is about."""
        if self.conversation is None:
            self.conversation = self.store.create_conversation(namespace=self.namespace, sources=sources)
        return self.conversation

    def append_dialog_turn(self, turn: Any) -> DialogTurn:
        """Store a turn at the end; return it with its order. A turn that is here already is not stored again.

        A turn of another conversation is copied under a new id.
        """
        here, ours = self.begin().id, _ours(turn)
        stored = self.store.append(ours, conversation=here, namespace=self.namespace)
        if stored.conversation_id != here:
            copy = replace(ours, id=str(uuid.uuid4()))
            stored = self.store.append(copy, conversation=here, namespace=self.namespace)
        return stored

    def turns(self) -> list[DialogTurn]:
        """The turns as they are stored now, oldest first."""
        if self.conversation is None:
            return []
        return self.store.turns(self.conversation.id, namespace=self.namespace)

    def clear(self) -> int:
        """Delete the conversation from the store; return how many turns went. The next begins another."""
        if self.conversation is None:
            return 0
        gone = self.store.delete_conversation(self.conversation.id, namespace=self.namespace)
        self.conversation = None
        return gone

    def __repr__(self) -> str:
        named = self.conversation and (self.conversation.name or self.conversation.id)
        return f"CustomConversation(conversation={named!r}, store={self.store!r})"


class DialogTurns(Sequence[DialogTurn]):
    """The turns of a conversation as a list: read, appended to, deleted from; never reordered."""

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
            self._conversation.store.delete_turn(turn.id, namespace=self._conversation.namespace)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple, DialogTurns)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._conversation.turns())

    def append(self, turn: Any) -> None:
        """Store a turn at the end."""
        self._conversation.append_dialog_turn(turn)

    def extend(self, turns: Iterable[Any]) -> None:
        """Store turns at the end, in their order."""
        for turn in turns:
            self._conversation.append_dialog_turn(turn)

    def clear(self) -> None:
        """Delete all turns."""
        del self[:]


class Memory(adalflow.core.component.DataComponent):  # type: ignore[misc]
    """Keeps the turns of one conversation: `memory()` is `{turn id: DialogTurn}`, oldest first.

    Args:
        store: where the turns are kept; None keeps them in this process.
        conversation: the conversation to go on with, or its id or name; None begins one with the first turn.
        namespace: whose conversation it is.

    Raises:
        NotFound: there is no conversation of this id or name.
    """

    def __init__(
        self,
        store: TurnStore | None = None,
        conversation: Conversation | str | None = None,
        namespace: str = "",
    ) -> None:
        super().__init__()
        self._current = CustomConversation(store=store, namespace=namespace)
        self.conversation = conversation

    @property
    def store(self) -> TurnStore:
        """Where the turns are kept."""
        return self._current.store

    @property
    def namespace(self) -> str:
        """Whose conversations they are."""
        return self._current.namespace

    @property
    def conversation(self) -> Conversation | None:
        """The conversation as it is stored now; None before its first turn."""
        if self._current.conversation is None:
            return None
        return self.store.conversation(self._current.conversation.id, namespace=self.namespace)

    @conversation.setter
    def conversation(self, conversation: Conversation | str | None) -> None:
        """Go on with another conversation of the same store; None begins one."""
        if conversation is not None:
            named = conversation if isinstance(conversation, str) else conversation.id
            conversation = self.store.conversation(named, namespace=self.namespace)
        self._current = CustomConversation(
            store=self.store, conversation=conversation, namespace=self.namespace
        )

    @property
    def current_conversation(self) -> CustomConversation:
        """The conversation as a list of turns."""
        return self._current

    @current_conversation.setter
    def current_conversation(self, conversation: Any) -> None:
        """Begin a conversation with the turns of another; the one before stays in the store.

        Takes a `CustomConversation`, which from then on writes to this memory's store, or anything with
        `dialog_turns`, whose turns are copied.
        """
        if isinstance(conversation, CustomConversation) and conversation.store is self.store:
            self._current = conversation
            return
        turns = conversation.dialog_turns
        turns = list(turns.values() if isinstance(turns, Mapping) else turns)
        current = conversation if isinstance(conversation, CustomConversation) else CustomConversation()
        current.store, current.namespace, current.conversation = self.store, self.namespace, None
        current.dialog_turns.extend(turns)
        self._current = current

    def begin(self, sources: Sequence[Source] = ()) -> Conversation:
        """The conversation, made in the store if it is not there yet; `sources` are what it is about."""
        return self._current.begin(sources)

    def call(self) -> dict[str, DialogTurn]:
        """The turns by id, oldest first."""
        return {turn.id: turn for turn in self._current.turns()}

    async def acall(self) -> dict[str, DialogTurn]:
        """The turns by id, oldest first, read in a thread."""
        return await asyncio.to_thread(self.call)

    def add_dialog_turn(
        self, user_query: str | UserQuery, assistant_response: str | AssistantResponse, **more: Any
    ) -> DialogTurn:
        """Store a question and its answer as the next turn; return the turn, which is true.

        Args:
            user_query: the question.
            assistant_response: the answer.
            more: other fields of `DialogTurn`: `citations`, `model`, `metadata`, …

        Raises:
            StoreError: the turn could not be stored.
        """
        turn = DialogTurn(
            user_query=_query(user_query), assistant_response=_response(assistant_response), **more
        )
        return self._current.append_dialog_turn(turn)

    def clear(self) -> int:
        """Delete the conversation from the store; return how many turns went. The next begins another."""
        return self._current.clear()

    def to_dict(self, exclude: list[str] | None = None) -> dict[str, Any]:
        """The turns themselves as JSON values, under AdalFlow's keys; `from_dict` keeps them in process."""
        data = {"namespace": self.namespace, "turns": [turn_record(turn) for turn in self._current.turns()]}
        kept = {name: value for name, value in data.items() if name not in (exclude or ())}
        return {"type": type(self).__name__, "data": kept}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Memory:
        """A memory in this process with the turns that `to_dict` gave."""
        memory = cls(namespace=data["data"].get("namespace", ""))
        memory.current_conversation.dialog_turns.extend(map(turn_from_record, data["data"].get("turns", ())))
        return memory

    def _extra_repr(self) -> str:
        current = self._current.conversation
        return f"conversation={current and (current.name or current.id)!r}, store={self.store!r}"


def _ours(turn: Any) -> DialogTurn:
    """The turn as our class: AdalFlow's and DeepWiki's have some of its attributes under the same names."""
    if isinstance(turn, DialogTurn):
        return turn
    same = ("id", "user_id", "user_query_timestamp", "assistant_response_timestamp", "metadata")
    given = {name: getattr(turn, name) for name in same if hasattr(turn, name)}
    return DialogTurn(
        user_query=_query(turn.user_query), assistant_response=_response(turn.assistant_response), **given
    )


def _query(query: Any) -> UserQuery | None:
    if query is None or isinstance(query, UserQuery):
        return query
    if isinstance(query, str):
        return UserQuery(query)
    return UserQuery(query.query_str, getattr(query, "metadata", None))


def _response(response: Any) -> AssistantResponse | None:
    if response is None or isinstance(response, AssistantResponse):
        return response
    if isinstance(response, str):
        return AssistantResponse(response)
    return AssistantResponse(response.response_str, getattr(response, "metadata", None))
