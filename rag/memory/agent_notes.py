"""An agent's notes by section, its history, and a summary, in their own namespace.

The interface is that of agent memories with five methods (`get_context`, `read_section`, `append_section`,
`add_history`, `consolidate`), plus reading everything back.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rag.memory.extractive_summary import digest, newest_that_fit
from rag.parsing import stored_text
from rag.ports import RecordStore, TokenCounter

SHELF = "sections"
STATE = "sections-state"
"""The shelf of the history, and of the summary with the messages that it includes."""

CONTEXT_TOKENS = 2_000
SUMMARY_TOKENS = 800
SHOWN_HISTORY = 20
MAX_HISTORY_BYTES = 256 * 1024
"""The maximum size of a history; the older half of a larger one is deleted."""
MAX_INCLUDED = 20_000
"""The number of messages, the newest, that a summary is known to include; older ones would be added again."""

Writer = Callable[[str, Sequence[str]], str]
"""Writes a model's new summary, given the old one and new lines."""

_Part = tuple[str, list[str]]
"""A heading of the context and its lines. A section may have the same name as another part."""


class Sections:
    """The sections of one namespace.

    Args:
        store: stores the notes.
        counter: counts the tokens of a context.
        namespace: isolated from other namespaces.
    """

    def __init__(self, store: RecordStore, counter: TokenCounter, *, namespace: str = "") -> None:
        self._store, self._counter, self._namespace = store, counter, namespace

    def read_section(self, section: str) -> str:
        """Return the text of a section, "" if there is none."""
        found = self._store.records([section], shelf=SHELF, namespace=self._namespace)
        return _text(found.get(section, b""))

    def append_section(self, section: str, entry: str) -> None:
        """Append a line to a section, creating it if necessary."""
        self._store.append_record(section, _bytes(entry + "\n"), shelf=SHELF, namespace=self._namespace)

    def sections(self) -> dict[str, str]:
        """Return all sections, sorted by name."""
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace)
        return {name: _text(value) for name, value in kept}

    def add_history(self, entry: str) -> None:
        """Append an entry to the history, whose oldest entries are deleted when it is larger than
        `MAX_HISTORY_BYTES`. Raises TypeError if the entry is not text."""
        if not isinstance(entry, str):
            raise TypeError(f"a history entry must be text, not {entry!r}")
        line = json.dumps(entry).encode() + b"\n"
        size = self._store.append_record("history", line, shelf=STATE, namespace=self._namespace)
        if size > MAX_HISTORY_BYTES:
            self._shorten_history()

    def _shorten_history(self) -> None:
        """Keep the newest entries, up to half of the maximum size, at least one.

        If the history changes in the meantime it stays as it is, and the next entry shortens it.
        """
        whole = self._state("history")
        lines = whole.splitlines(keepends=True)
        sizes = accumulate(map(len, reversed(lines)))
        kept = max(1, sum(size <= MAX_HISTORY_BYTES // 2 for size in sizes))
        newest = b"".join(lines[-kept:])
        self._store.swap_record("history", whole, newest, shelf=STATE, namespace=self._namespace)

    def history(self, last: int | None = None) -> list[str]:
        """Return the entries of the history, or the newest `last`, oldest first."""
        entries = [json.loads(line) for line in self._state("history").splitlines()]
        return entries if last is None else entries[max(len(entries) - last, 0) :]

    @property
    def summary(self) -> str:
        """The summary, "" if nothing was consolidated."""
        return _consolidated(self._state("summary"))[0]

    def get_context(self, *, budget_tokens: int = CONTEXT_TOKENS) -> str:
        """Return summary, sections and the newest history, in this order, as text for a prompt; "" for
        nothing.

        What does not fit is dropped: first the oldest history, then the oldest lines of the longest section.
        """
        parts = [("Summary", self.summary.splitlines())]
        parts += [(name, text.splitlines()) for name, text in self.sections().items()]
        history = self.history(SHOWN_HISTORY)
        while history and self._cost(parts, history) > budget_tokens:
            history.pop(0)
        while self._cost(parts, history) > budget_tokens:
            longest = max((lines for _, lines in parts), key=len)
            if not longest:
                break
            del longest[: max(len(longest) // 8, 1)]
        return _rendered(parts, history)

    def consolidate(self, messages: Sequence[Mapping[str, Any]], *, writer: Writer | None = None) -> bool:
        """Add messages (`role`, `content`) to the summary; return False if it includes all of them already.

        Messages may be passed again, among new ones: equal messages are counted, and only further ones are
        added.

        Args:
            messages: oldest first.
            writer: calls a model; None writes an extractive summary.

        Raises:
            ProviderError: the model failed; nothing changed.
        """
        before = self._state("summary")
        so_far, known = _consolidated(before)
        taken = Counter(known)
        new = []
        for message in messages:
            name = _name(message)
            if taken[name]:
                taken[name] -= 1
            else:
                new.append((name, message))
        if not new:
            return False
        lines = _lines([message for _, message in new])
        if writer is not None:
            summary = writer(so_far, lines).strip() or so_far
        else:
            every = [*so_far.splitlines(), *lines]
            summary = "\n".join(newest_that_fit(every, budget_tokens=SUMMARY_TOKENS, counter=self._counter))
        taken_now = [*known, *(name for name, _ in new)]
        # One record for both, so that a summary and the list of its messages never differ.
        after = json.dumps({"summary": summary, "taken": taken_now[-MAX_INCLUDED:]}).encode()
        if not self._store.swap_record(
            "summary", before or None, after, shelf=STATE, namespace=self._namespace
        ):
            return self.consolidate(messages, writer=writer)  # another process consolidated in the meantime
        return True

    def clear(self) -> int:
        """Delete everything; return the number of sections."""
        self._store.delete_records(shelf=STATE, namespace=self._namespace)
        return self._store.delete_records(shelf=SHELF, namespace=self._namespace)

    def _state(self, key: str) -> bytes:
        return self._store.records([key], shelf=STATE, namespace=self._namespace).get(key, b"")

    def _cost(self, parts: Sequence[_Part], history: Sequence[str]) -> int:
        return self._counter.count(_rendered(parts, history))


def _consolidated(record: bytes) -> tuple[str, list[str]]:
    """Return the summary of a record, and the ids of the messages that it includes."""
    if not record:
        return "", []
    kept = json.loads(record)
    return kept["summary"], kept["taken"]


def _rendered(parts: Sequence[_Part], history: Sequence[str]) -> str:
    shown = [*parts, ("History", history)]
    return "\n\n".join("\n".join([f"## {name}", *lines]) for name, lines in shown if lines)


def _name(message: Mapping[str, Any]) -> str:
    """Return the id of a message: a hash of role and content."""
    identity = json.dumps([message.get("role"), message.get("content")], sort_keys=True, default=str)
    return hashlib.sha256(identity.encode()).hexdigest()[:24]


def _lines(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    texts = [_content_text(message.get("content")) for message in messages]
    sentences = digest(texts, keep=2)
    return [
        f"{message.get('role', 'user')}: {line}"
        for message, line in zip(messages, sentences, strict=True)
        if line
    ]


def _content_text(content: Any) -> str:
    """Return the text of a message; of content blocks, those with text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _content_text(content.get("text") or content.get("content") or "")
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        return "\n".join(filter(None, map(_content_text, content)))
    return "" if content is None else str(content)


def _text(value: bytes) -> str:
    return stored_text(value)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
