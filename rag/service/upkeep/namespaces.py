"""What a namespace holds, and its deletion: turns, facts, preferences, cached answers and files together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from rag.answer_cache.cache import SHELF as ANSWERS
from rag.errors import NotFound
from rag.memory.facts import SHELF as FACTS
from rag.memory.preferences import SHELF as PREFERENCES
from rag.ports import MemoryStore, RecordStore
from rag.service.upkeep.retention import PROMPTS, delete_conversation
from rag.service.upkeep.retention import SHELF as FILES
from rag.settings import KEYS_NAMESPACE


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much a namespace holds. `files` are those that turns and facts cite.

    `records` are all others, such as summaries.
    """

    namespace: str
    conversations: int = 0
    turns: int = 0
    messages: int = 0
    facts: int = 0
    preferences: int = 0
    cached_answers: int = 0
    prompts: int = 0
    files: int = 0
    records: int = 0

    def without(self, rest: Holdings) -> Holdings:
        """Return what is in these holdings and not in the rest."""
        names = [field.name for field in fields(self) if field.name != "namespace"]
        return Holdings(
            self.namespace, **{name: max(getattr(self, name) - getattr(rest, name), 0) for name in names}
        )


_HELD = {ANSWERS: "cached answers", FILES: "cited files", PROMPTS: "prompts", FACTS: "facts"}
_NAMES = {FACTS: "facts", PREFERENCES: "preferences", PROMPTS: "prompts", FILES: "files"}
_COUNTED = {"conversation": "conversations", "turn": "turns", "message": "messages"}


def holdings(store: MemoryStore, namespace: str) -> Holdings:
    """Return what a namespace holds; nothing if it does not exist."""
    return _survey(store, namespace)[0]


def held_in_turns(store: RecordStore, namespaces: Sequence[str]) -> dict[str, int]:
    """Return the bytes of the records in a turn store: cached answers, cited files, prompts and facts."""
    found = {}
    for shelf, name in _HELD.items():
        records = (store.scan_records(shelf=shelf, namespace=namespace) for namespace in namespaces)
        found[name] = sum(len(value) for some in records for _, value in some)
    return found


def copied_namespaces(source: MemoryStore, target: MemoryStore) -> list[str]:
    """Return the namespaces that a copy of a store includes: all; the keys of servers if the target has none.

    So a copy never makes a key valid again that was removed or replaced in the target.
    """
    has_keys = [bool(list(store.dump(namespace=KEYS_NAMESPACE))) for store in (source, target)]
    return [*source.namespaces(), *[KEYS_NAMESPACE] * (has_keys == [True, False])]


def delete_namespace(store: MemoryStore, namespace: str, *, before: datetime | None = None) -> Holdings:
    """Delete a namespace, or its conversations that were last written before a time; return what is gone.

    With `before`, facts and preferences stay, and with them the files that facts cite. A fork keeps the turns
    that it shows.

    Raises:
        NotFound: there is no such namespace.
    """
    if namespace not in store.namespaces():
        raise NotFound(f"there is no namespace {namespace!r}; `rag memory namespaces` lists them")
    held, shelves = _survey(store, namespace)
    for conversation in store.conversations(namespace=namespace):
        if before is None:
            store.delete_conversation(conversation.id, namespace=namespace)
        elif conversation.updated < before:
            delete_conversation(store, conversation)
    if before is None:
        for shelf in shelves:
            store.delete_records(shelf=shelf, namespace=namespace)
    return held.without(holdings(store, namespace))


def _survey(store: MemoryStore, namespace: str) -> tuple[Holdings, list[str]]:
    """Return what a namespace holds, and the shelves of its records."""
    counts = dict.fromkeys((field.name for field in fields(Holdings) if field.name != "namespace"), 0)
    shelves: dict[str, None] = {}
    for line in store.dump(namespace=namespace):
        if "record" in line:
            shelf = line["record"]["shelf"]
            shelves[shelf] = None
            counts["cached_answers" if shelf == ANSWERS else _NAMES.get(shelf, "records")] += 1
        else:
            counts[next(name for kind, name in _COUNTED.items() if kind in line)] += 1
    return Holdings(namespace, **counts), list(shelves)
