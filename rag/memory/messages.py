"""Messages of one conversation as agents use them: marks, a compressed summary, serializable state.

The interface is that of AgentScope 1.0's memories, with the semantics of `rag.ports` where they differ; the
adapters for other frameworks are thin wrappers. The summary is a record on the shelf `SUMMARIES`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from rag.errors import NotFound, RagError
from rag.memory.state import Stateful, missing
from rag.parsing import stored_text
from rag.ports import Marks, MemoryStore
from rag.schema import message_record
from rag.types import Conversation, Message, Source

SUMMARIES = "summaries"
"""The shelf of running summaries; keys are conversation ids, values UTF-8."""

Mode = Literal["full", "reference"]


class MessageMemory(Stateful):
    """The messages of one conversation in a store.

    Args:
        store: stores the messages.
        conversation: the conversation to continue; None creates one with the first message.
        namespace: the namespace of the conversation.
        sources: the repositories of a conversation that is created here.
        mode: whether `state_dict` contains the content itself (for another machine) or only refers to it
            (for a restart with the same store).
    """

    def __init__(
        self,
        store: MemoryStore,
        conversation: Conversation | None = None,
        *,
        namespace: str = "",
        sources: Sequence[Source] = (),
        mode: Mode = "full",
    ) -> None:
        self.store = store
        self.conversation = conversation
        self.namespace = namespace
        self.sources = tuple(sources)
        self.mode: Mode = mode

    def begin(self) -> Conversation:
        """Return the conversation, creating it in the store if necessary."""
        if self.conversation is None:
            self.conversation = self.store.create_conversation(namespace=self.namespace, sources=self.sources)
        return self.conversation

    # ---- messages

    def add(
        self,
        messages: Message | Sequence[Message] | None,
        marks: Marks | None = None,
        allow_duplicates: bool = False,
    ) -> list[Message]:
        """Add messages at the end, with these marks in addition to their own; return those that were stored.

        Args:
            messages: one or more; None stores nothing.
            marks: one or several marks for all of them.
            allow_duplicates: store a message whose id already exists under a new id; else it is skipped (and
                the marks of the existing one do not change).

        Raises:
            TypeError: the arguments are not messages and marks.
        """
        extra = _marks(marks)
        given = _messages(messages)
        if not given:
            return []
        marked = [replace(one, marks=(*one.marks, *extra)) for one in given]
        here = self.begin()
        if allow_duplicates:
            added = [self._add_under_new_id(one, here.id) for one in marked]
        else:
            added = self.store.add_messages(marked, conversation=here.id, namespace=self.namespace)
        if here.ttl_s is not None:  # the summary expires together with the conversation
            self.update_compressed_summary(self.compressed_summary)
        return added

    def delete(self, ids: str | Sequence[str]) -> int:
        """Delete messages by one or several ids; return how many existed."""
        if self.conversation is None:
            return 0
        return self.store.delete_messages(
            as_ids(ids), conversation=self.conversation.id, namespace=self.namespace
        )

    def delete_by_mark(self, mark: Marks) -> int:
        """Delete messages with one of these marks; return how many."""
        if self.conversation is None:
            return 0
        return self.store.delete_by_mark(self.conversation.id, mark, namespace=self.namespace)

    def size(self) -> int:
        """Return the number of messages."""
        if self.conversation is None:
            return 0
        return self.store.conversation(self.conversation.id, namespace=self.namespace).message_count

    def clear(self, *, keep_summary: bool = False) -> int:
        """Remove everything, including the summary by default; return the number of turns and messages."""
        if self.conversation is None:
            return 0
        if not keep_summary:
            self.update_compressed_summary("")
        return self.store.clear(self.conversation.id, namespace=self.namespace)

    def set_messages(self, messages: Sequence[Message], *, keep_summary: bool = False) -> None:
        """Replace all messages. Nothing changes if a message cannot be stored.

        Raises:
            TypeError, ValueError: the content of a message is not text, bytes or JSON.
        """
        for message in messages:
            message_record(message)
        self.clear(keep_summary=keep_summary)
        self.add(messages)

    def get_memory(
        self,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
        prepend_summary: bool = True,
    ) -> list[Message]:
        """Return the messages, oldest first, after the summary as a user message, if there is one."""
        found: list[Message] = []
        if self.conversation is not None:
            found = self.store.messages(
                self.conversation.id, namespace=self.namespace, mark=mark, exclude_mark=exclude_mark
            )
        summary = self.compressed_summary if prepend_summary else ""
        return [Message(summary, role="user", name="user"), *found] if summary else found

    def update_messages_mark(
        self,
        new_mark: str | None,
        old_mark: str | None = None,
        msg_ids: str | Sequence[str] | None = None,
    ) -> int:
        """Add, replace or remove a mark, see `TurnStore.update_marks`; return how many changed."""
        if self.conversation is None:
            if new_mark is None and old_mark is None:
                raise ValueError("pass the new mark, the old mark, or both")
            return 0
        ids = None if msg_ids is None else as_ids(msg_ids)
        return self.store.update_marks(
            self.conversation.id, new_mark, old=old_mark, ids=ids, namespace=self.namespace
        )

    # ---- the summary

    @property
    def compressed_summary(self) -> str:
        """The running summary, "" if there is none."""
        if self.conversation is None:
            return ""
        key = self.conversation.id
        found = self.store.records([key], shelf=SUMMARIES, namespace=self.namespace)
        return stored_text(found.get(key, b""))

    def update_compressed_summary(self, summary: str) -> None:
        """Replace the running summary; "" deletes it.

        Its time to live is that of the conversation, starting now and again whenever messages are added here.
        """
        if summary:
            here = self.begin()
            record = {here.id: summary.encode("utf-8", "surrogatepass")}
            self.store.put_records(record, shelf=SUMMARIES, namespace=self.namespace, ttl_s=here.ttl_s)
        elif self.conversation is not None:
            self.store.delete_records([self.conversation.id], shelf=SUMMARIES, namespace=self.namespace)

    # ---- state

    def state_dict(self, mode: Mode | None = None) -> dict[str, Any]:
        """Return the state as JSON values: the content itself, or ("reference") the conversation's id."""
        state = super().state_dict()
        here = self.conversation
        if (mode or self.mode) == "reference":
            return {**state, "mode": "reference", "conversation": here and here.id}
        lines = (
            [] if here is None else list(self.store.dump(namespace=self.namespace, conversations=[here.id]))
        )
        return {**state, "mode": "full", "lines": lines, "_compressed_summary": self.compressed_summary}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load a state of either mode from `state_dict`, or AgentScope's `content`.

        The content of a full state replaces that of the conversation with its id.

        Raises:
            KeyError: `strict`, and a key is missing.
            NotFound: the state refers to a conversation that is not in this store.
            ValueError: a line of a full state is invalid; the conversation is unchanged.
        """
        super().load_state_dict(state_dict, strict)
        if "content" in state_dict:
            self._load_content(state_dict["content"])
        elif state_dict.get("mode") == "reference" or "conversation" in state_dict:
            self._refer(state_dict, strict)
            return
        elif "lines" in state_dict:
            self._load_lines(state_dict["lines"])
        elif strict:
            raise missing("lines", state_dict)
        if "_compressed_summary" in state_dict:
            self.update_compressed_summary(state_dict["_compressed_summary"] or "")
        elif strict:
            raise missing("_compressed_summary", state_dict)

    # ---- internal

    def _add_under_new_id(self, message: Message, here: str) -> Message:
        for one in (message, replace(message, id=str(uuid.uuid4()))):
            added = self.store.add_messages([one], conversation=here, namespace=self.namespace)
            if added:
                return added[0]
        raise ValueError(f"the message {message.id!r} could not be stored under a new id")

    def _refer(self, state: Mapping[str, Any], strict: bool) -> None:
        if "conversation" not in state:
            if strict:
                raise missing("conversation", state)
            return
        named = state["conversation"]
        self.conversation = (
            None if named is None else self.store.conversation(named, namespace=self.namespace)
        )

    def _load_lines(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not lines:
            self.conversation = None
            return
        named = lines[0]["conversation"]["id"]
        before: list[dict[str, Any]] = []
        with suppress(NotFound):
            before = list(self.store.dump(namespace=self.namespace, conversations=[named]))
            self.store.delete_conversation(named, namespace=self.namespace)
        try:
            self.store.restore(lines, namespace=self.namespace)
        except (ValueError, RagError):
            self.store.restore(before, namespace=self.namespace)
            raise
        self.conversation = self.store.conversation(named, namespace=self.namespace)

    def _load_content(self, content: Sequence[Any]) -> None:
        """Load AgentScope's messages: each is a dict, or a pair of a dict and its marks."""
        pairs = [(one, ()) if isinstance(one, Mapping) else (one[0], one[1] or ()) for one in content]
        self.set_messages([_from_agentscope(message, _marks(marks)) for message, marks in pairs])


def as_ids(ids: str | Sequence[str]) -> Sequence[str]:
    """Return ids as a sequence; a single id is not split into letters."""
    return [ids] if isinstance(ids, str) else ids


def _messages(messages: Message | Sequence[Message] | None) -> list[Message]:
    if messages is None:
        return []
    given = [messages] if isinstance(messages, Message) else list(messages)
    for one in given:
        if not isinstance(one, Message):
            raise TypeError(f"expected messages, not {type(one).__name__}")
    return given


def _marks(marks: Any) -> tuple[str, ...]:
    if marks is None:
        return ()
    given = (marks,) if isinstance(marks, str) else marks
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(one, str) for one in given):
        raise TypeError(f"marks must be a text or a list of texts, not {marks!r}")
    return tuple(given)


def _from_agentscope(message: Mapping[str, Any], marks: tuple[str, ...]) -> Message:
    more: dict[str, Any] = {name: message[name] for name in ("id", "metadata") if message.get(name)}
    if message.get("timestamp"):
        more["created"] = datetime.fromisoformat(message["timestamp"]).astimezone()
    return Message(
        message["content"], role=message["role"], name=message.get("name", ""), marks=marks, **more
    )
