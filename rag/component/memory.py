"""`Memory`: the turns of one conversation, as an AdalFlow component.

The interface is that of DeepWiki's class of the same name, with additional marks, branches and messages (as
in AgentScope's memories). All changes are in the store when a call returns. A conversation is created with
its first turn, so an unused memory leaves nothing in the store.
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
from rag.service import Engine
from rag.service.checks.freshness import checked
from rag.service.upkeep import retention
from rag.types import AssistantResponse, CheckedTurns, Conversation, DialogTurn, Message, Source, UserQuery

__all__ = ["CustomConversation", "Memory"]


class Memory(adalflow.core.component.DataComponent):  # type: ignore[misc]
    """The turns of one conversation: `memory()` is `{turn id: DialogTurn}`, oldest first.

    Args:
        store: stores the turns; None keeps them in memory.
        conversation: the conversation to continue, or its id or name; None creates one with the first turn.
        namespace: the namespace of the conversation.

    Raises:
        NotFound: there is no conversation with this id or name.
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
        self.engine: Engine | None = None
        """What knows the repositories of the turns; that of the `RAG` whose memory it is."""

    @property
    def store(self) -> MemoryStore:
        """The store of the turns."""
        return self._current.store

    @property
    def namespace(self) -> str:
        """The namespace of the conversations."""
        return self._current.namespace

    @property
    def conversation(self) -> Conversation | None:
        """The current conversation; None before its first turn."""
        if self._current.conversation is None:
            return None
        return self.store.conversation(self._current.conversation.id, namespace=self.namespace)

    @conversation.setter
    def conversation(self, conversation: Conversation | str | None) -> None:
        """Continue another conversation in the same store; None creates one with the next turn."""
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
        """Start a conversation with the turns of another one; the previous one stays in the store.

        A `CustomConversation` is attached to this memory's store; from any other object with `dialog_turns`
        the turns are copied.
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
        """Return the conversation, creating it in the store if necessary, about these `sources`."""
        return self._current.begin(sources)

    def call(self) -> dict[str, DialogTurn]:
        """Return the turns that have an answer by id, oldest first; `turns` returns all."""
        return {turn.id: turn for turn in self._current.turns() if turn.has_answer}

    async def acall(self) -> dict[str, DialogTurn]:
        """Return the same as `call`, reading in a thread."""
        return await asyncio.to_thread(self.call)

    def add_dialog_turn(
        self, user_query: str | UserQuery, assistant_response: str | AssistantResponse, **more: Any
    ) -> DialogTurn:
        """Store a question and its answer as the next turn; return the turn, which is truthy.

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
        """Delete the conversation from the store; return how many turns were deleted."""
        return self._current.clear()

    # ---- branches and versions

    def fork(self, at: int | None = None, name: str = "") -> Memory:
        """Return a memory of a new conversation that continues after order `at`, by default at the end.

        Raises:
            NotFound: there is nothing with this order, or no conversation yet.
        """
        forked = self.store.fork(self._begun(), at=at, name=name, namespace=self.namespace)
        memory = Memory(self.store, forked, self.namespace)
        memory.engine = self.engine
        return memory

    def rewind(self, to: int) -> int:
        """Remove everything after order `to` (-1: everything); return the number of turns removed.

        A summary that includes one of them is deleted too.

        Raises:
            NotFound: the conversation ends before `to`.
        """
        return self._rewind(to, None)

    def undo(self, turns: int = 1) -> int:
        """Remove the last turns and everything after them; return the number of turns removed.

        Raises:
            ConversationChanged: another process added a turn in the meantime; nothing was removed.
        """
        if turns < 1:
            raise ValueError(f"turns must be at least 1, not {turns}")
        there = self._current.turns()
        to = (there[-turns].order or 0) - 1 if len(there) >= turns else -1
        return self._rewind(to, there[-1].id if there else "")

    def _rewind(self, to: int, last_turn: str | None) -> int:
        if self._current.conversation is None:
            return 0
        return retention.rewind(self.store, self._current.conversation, to=to, last_turn=last_turn)

    def edit(self, turn: DialogTurn) -> DialogTurn:
        """Store a new version of the turn with this id; the old one stays among its `versions`.

        A summary that includes the turn is deleted.
        """
        return retention.edit_turn(self.store, replace(turn, namespace=self.namespace))

    def versions(self, turn_id: str) -> list[DialogTurn]:
        """Return all versions of a turn, the current one last."""
        return self.store.versions(turn_id, namespace=self.namespace)

    def turns(self, mark: Marks | None = None, exclude_mark: Marks | None = None) -> list[DialogTurn]:
        """Return the turns with one of the marks `mark` and none of `exclude_mark`, oldest first."""
        if self._current.conversation is None:
            return []
        return self.store.turns(
            self._current.conversation.id, namespace=self.namespace, mark=mark, exclude_mark=exclude_mark
        )

    # ---- the code that the turns are about

    def freshness(self, *, as_of: str | None = None) -> CheckedTurns:
        """Return the turns with the state of the lines they cite: fresh, moved, changed, gone.

        Args:
            as_of: a commit, tag or branch to compare with; None is the current state.

        Raises:
            NotFound: this is not the memory of a `RAG`.
            RefNotFound: the repository has no `as_of`.
        """
        engine, sources = self._code()
        return CheckedTurns(checked(engine, self._current.turns(), sources, as_of=as_of))

    def _code(self) -> tuple[Engine, Sequence[Source]]:
        if self.engine is None:
            raise NotFound("this memory does not know its repositories; use the `memory` of a `RAG`")
        conversation = self.conversation
        return self.engine, conversation.sources if conversation else ()

    # ---- marks

    def mark(self, mark: str, ids: str | Sequence[str] | None = None) -> int:
        """Mark turns and messages (None: all); return how many did not have the mark before."""
        return self._messages.update_messages_mark(mark, None, ids)

    def unmark(self, mark: str, ids: str | Sequence[str] | None = None) -> int:
        """Remove a mark; return how many had it."""
        return self._messages.update_messages_mark(None, mark, ids)

    # ---- messages, as in `MessageMemory`

    def add(
        self,
        messages: Message | Sequence[Message] | None,
        marks: Marks | None = None,
        allow_duplicates: bool = False,
    ) -> list[Message]:
        """Add messages at the end with these marks; return those that were stored. None stores nothing."""
        memory = self._messages
        stored = memory.add(messages, marks, allow_duplicates)
        self._current.conversation = memory.conversation
        return stored

    def delete(self, ids: str | Sequence[str]) -> int:
        """Delete messages by one or several ids; return how many existed."""
        return self._messages.delete(ids)

    def delete_by_mark(self, mark: Marks) -> int:
        """Delete turns and messages with one of these marks; return how many.

        A summary that includes one of the turns is deleted too.
        """
        if self._current.conversation is None:
            return 0
        return retention.delete_by_mark(self.store, self._current.conversation, mark)

    def size(self) -> int:
        """Return the number of messages; the number of turns is `len(memory())`."""
        return self._messages.size()

    def get_memory(
        self, mark: Marks | None = None, exclude_mark: Marks | None = None, prepend_summary: bool = True
    ) -> list[Message]:
        """Return the messages, oldest first, after the summary as a user message, if there is one."""
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
        """The running summary, "" if there is none."""
        return self._messages.compressed_summary

    def update_compressed_summary(self, summary: str) -> None:
        """Replace the running summary; "" deletes it."""
        memory = self._messages
        memory.update_compressed_summary(summary)
        self._current.conversation = memory.conversation

    # ---- state, with AdalFlow's interface

    def register_state(
        self,
        attr_name: str,
        to_json: Callable[[Any], Any] | None = None,
        from_json: Callable[[Any], Any] | None = None,
    ) -> None:
        """Add an attribute of this memory to its state, see `Stateful.register_state`."""
        check_state(attr_name, getattr(self, attr_name), to_json)
        self._registered_states[attr_name] = (to_json, from_json)

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", *, mode: Mode | None = None
    ) -> dict[str, Any]:
        """Return the state, with parts under their names joined by dots, as AdalFlow does.

        Args:
            destination: a dict to add the state to; None creates one.
            prefix: the prefix of the keys.
            mode: "full" contains turns and messages, "reference" only the conversation's id; by default
                `state_mode`.
        """
        before, self.state_mode = self.state_mode, mode or self.state_mode
        try:
            state: dict[str, Any] = super().state_dict(destination, prefix)
        finally:
            self.state_mode = before
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load a state of either mode from `state_dict`.

        Raises:
            KeyError: `strict`, and a key is missing.
            NotFound: the state refers to a conversation that is not in this store.
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
            raise NotFound("there is no conversation to fork yet; it is created with the first turn")
        return self._current.conversation.id

    def to_dict(self, exclude: list[str] | None = None) -> dict[str, Any]:
        """Return the turns as JSON values, with AdalFlow's keys."""
        data = {"namespace": self.namespace, "turns": [turn_record(turn) for turn in self._current.turns()]}
        wanted = {name: value for name, value in data.items() if name not in (exclude or ())}
        return {"type": type(self).__name__, "data": wanted}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Memory:
        """Return an in-memory memory with the turns of `to_dict`."""
        memory = cls(namespace=data["data"].get("namespace", ""))
        memory.current_conversation.dialog_turns.extend(map(turn_from_record, data["data"].get("turns", ())))
        return memory

    def _extra_repr(self) -> str:
        current = self._current.conversation
        return f"conversation={current and (current.name or current.id)!r}, store={self.store!r}"
