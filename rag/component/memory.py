"""`Memory`: the turns of one conversation, as an AdalFlow component.

The surface is that of DeepWiki's class of the same name, with marks, branches and messages beside it (as in
AgentScope's memories); what is added through any of it is in the store when the call returns. A conversation
is begun with its first turn, so an unused memory leaves nothing in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag.adal import adalflow
from rag.component.conversation import CustomConversation, as_query, as_response
from rag.errors import NotFound
from rag.memory.messages import MessageMemory, Mode
from rag.memory.state import check_state, missing
from rag.ports import Marks, MemoryStore
from rag.schema import turn_from_record, turn_record
from rag.service import retention
from rag.types import AssistantResponse, Conversation, DialogTurn, Message, Source, UserQuery

__all__ = ["CustomConversation", "Memory"]


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
        store: MemoryStore | None = None,
        conversation: Conversation | str | None = None,
        namespace: str = "",
    ) -> None:
        super().__init__()
        self._current = CustomConversation(store=store, namespace=namespace)
        self.conversation = conversation
        self.state_mode: Mode = "full"
        self._registered_states: dict[str, tuple[Any, Any]] = {}

    @property
    def store(self) -> MemoryStore:
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
            user_query=as_query(user_query), assistant_response=as_response(assistant_response), **more
        )
        return self._current.append_dialog_turn(turn)

    def clear(self) -> int:
        """Delete the conversation from the store; return how many turns went. The next begins another."""
        return self._current.clear()

    # ---- branches and versions

    def fork(self, at: int | None = None, name: str = "") -> Memory:
        """A memory of a new conversation that goes on from the turn of order `at`, by default from the end.

        Raises:
            NotFound: there is nothing of this order, or no conversation yet.
        """
        forked = self.store.fork(self._begun(), at=at, name=name, namespace=self.namespace)
        return Memory(self.store, forked, self.namespace)

    def rewind(self, to: int) -> int:
        """Take back everything after order `to` (-1: everything); return how many turns went.

        A summary that one of them went into goes with them.
        """
        return self._rewind(to, None)

    def undo(self, turns: int = 1) -> int:
        """Take back the last turns, and what came after them; return how many turns went.

        Raises:
            ConversationChanged: another process has added a turn meanwhile; nothing went.
        """
        if turns < 1:
            raise ValueError(f"turns is how many to take back, so at least 1, not {turns}")
        there = self._current.turns()
        to = (there[-turns].order or 0) - 1 if len(there) >= turns else -1
        return self._rewind(to, there[-1].id if there else "")

    def _rewind(self, to: int, last_turn: str | None) -> int:
        if self._current.conversation is None:
            return 0
        return retention.rewind(self.store, self._current.conversation, to=to, last_turn=last_turn)

    def edit(self, turn: DialogTurn) -> DialogTurn:
        """Store a new version of the turn of this id; the old one stays among its `versions`.

        A summary that it went into goes: the next one is made of what is said now.
        """
        return retention.edit_turn(self.store, replace(turn, namespace=self.namespace))

    def versions(self, turn_id: str) -> list[DialogTurn]:
        """All versions of a turn, the present one last."""
        return self.store.versions(turn_id, namespace=self.namespace)

    def turns(self, mark: Marks | None = None, exclude_mark: Marks | None = None) -> list[DialogTurn]:
        """The turns with one of these marks and none of those, oldest first."""
        if self._current.conversation is None:
            return []
        return self.store.turns(
            self._current.conversation.id, namespace=self.namespace, mark=mark, exclude_mark=exclude_mark
        )

    def mark(self, mark: str, ids: str | Sequence[str] | None = None) -> int:
        """Mark turns and messages, all for None; return how many had not been marked so."""
        return self._messages.update_messages_mark(mark, None, ids)

    def unmark(self, mark: str, ids: str | Sequence[str] | None = None) -> int:
        """Take a mark away; return how many had it."""
        return self._messages.update_messages_mark(None, mark, ids)

    # ---- messages, as in `MessageMemory`

    def add(
        self,
        messages: Message | Sequence[Message] | None,
        marks: Marks | None = None,
        allow_duplicates: bool = False,
    ) -> list[Message]:
        """Store messages at the end with these marks; return those that were stored. None stores nothing."""
        memory = self._messages
        stored = memory.add(messages, marks, allow_duplicates)
        self._current.conversation = memory.conversation
        return stored

    def delete(self, ids: str | Sequence[str]) -> int:
        """Delete messages, by one id or several; return how many were there."""
        return self._messages.delete(ids)

    def delete_by_mark(self, mark: Marks) -> int:
        """Delete turns and messages with one of these marks; return how many.

        A summary that one of the turns went into goes with them.
        """
        if self._current.conversation is None:
            return 0
        return retention.delete_by_mark(self.store, self._current.conversation, mark)

    def size(self) -> int:
        """How many messages there are; `len` of what a call gives is how many turns."""
        return self._messages.size()

    def get_memory(
        self, mark: Marks | None = None, exclude_mark: Marks | None = None, prepend_summary: bool = True
    ) -> list[Message]:
        """The messages, oldest first; before them the summary, as the user's message, if there is one."""
        return self._messages.get_memory(mark, exclude_mark, prepend_summary)

    def update_messages_mark(
        self,
        new_mark: str | None,
        old_mark: str | None = None,
        msg_ids: str | Sequence[str] | None = None,
    ) -> int:
        """Add, replace or remove a mark on turns and messages; return how many changed."""
        return self._messages.update_messages_mark(new_mark, old_mark, msg_ids)

    @property
    def compressed_summary(self) -> str:
        """The running summary, "" when there is none."""
        return self._messages.compressed_summary

    def update_compressed_summary(self, summary: str) -> None:
        """Put another summary in the place of the running one; "" takes it away."""
        memory = self._messages
        memory.update_compressed_summary(summary)
        self._current.conversation = memory.conversation

    # ---- state, as AdalFlow's components have it

    def register_state(
        self,
        attr_name: str,
        to_json: Callable[[Any], Any] | None = None,
        from_json: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make an attribute of this memory a part of its state, see `Stateful.register_state`."""
        check_state(attr_name, getattr(self, attr_name), to_json)
        self._registered_states[attr_name] = (to_json, from_json)

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", *, mode: Mode | None = None
    ) -> dict[str, Any]:
        """The state, with that of parts under their names: AdalFlow's keys with dots in them.

        Args:
            destination: what to add it to, as AdalFlow does; None is an empty one.
            prefix: what the keys begin with.
            mode: "full" holds turns and messages themselves, "reference" the name of the conversation;
                by default what `state_mode` says.
        """
        before, self.state_mode = self.state_mode, mode or self.state_mode
        try:
            state: dict[str, Any] = super().state_dict(destination, prefix)
        finally:
            self.state_mode = before
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Take over a state that `state_dict` gave, of either mode.

        Raises:
            KeyError: `strict`, and something is missing.
            NotFound: the state only names a conversation, and it is not in this store.
        """
        try:
            super().load_state_dict(state_dict, strict)
        except RuntimeError as error:
            raise KeyError(str(error)) from error

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str) -> None:
        super()._save_to_state_dict(destination, prefix)
        state = self._messages.state_dict(self.state_mode)
        for name, (to_json, _) in self._registered_states.items():
            value = getattr(self, name)
            state[name] = to_json(value) if to_json else value
        destination.update({prefix + name: value for name, value in state.items()})

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        strict: bool = True,
        missing_keys: Any = (),
        unexpected_keys: Any = (),
    ) -> None:
        ours = {
            key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)
        }
        memory = self._messages
        try:
            memory.load_state_dict(ours, strict)
            for name, (_, from_json) in self._registered_states.items():
                if name in ours:
                    setattr(self, name, from_json(ours[name]) if from_json else ours[name])
                elif strict:
                    raise missing(name, ours)
        except KeyError as error:
            missing_keys.append(prefix + str(error.args[0]))
            return
        self._current.conversation = memory.conversation

    @property
    def _messages(self) -> MessageMemory:
        return MessageMemory(self.store, self._current.conversation, namespace=self.namespace)

    def _begun(self) -> str:
        if self._current.conversation is None:
            raise NotFound("there is no conversation to fork yet; it begins with the first turn")
        return self._current.conversation.id

    def to_dict(self, exclude: list[str] | None = None) -> dict[str, Any]:
        """The turns themselves as JSON values, under AdalFlow's keys; `from_dict` keeps them in process."""
        data = {"namespace": self.namespace, "turns": [turn_record(turn) for turn in self._current.turns()]}
        wanted = {name: value for name, value in data.items() if name not in (exclude or ())}
        return {"type": type(self).__name__, "data": wanted}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Memory:
        """A memory in this process with the turns that `to_dict` gave."""
        memory = cls(namespace=data["data"].get("namespace", ""))
        memory.current_conversation.dialog_turns.extend(map(turn_from_record, data["data"].get("turns", ())))
        return memory

    def _extra_repr(self) -> str:
        current = self._current.conversation
        return f"conversation={current and (current.name or current.id)!r}, store={self.store!r}"
