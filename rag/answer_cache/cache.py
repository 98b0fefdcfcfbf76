"""A cache of answers to questions that were asked before, in any store that keeps records.

    cache = AnswerCache(store, namespace="ada")
    cache.put("Where is the token set?", "In `sign` [1].", scope={"repository": "api"})
    cache.get("where is the  token set", scope={"repository": "api"})

An entry is one record, found by one look-up: its key is a hash of the scope and of the question as
`normalised` writes it, so the time does not grow with the number of entries. A scope is everything else
that an answer depends on; an entry is never returned in another scope. The caller decides whether an entry is
still valid (`valid`): this module knows no repository.

Hits, misses and stale entries (found but no longer valid) are counted in the store, for all processes that
share it.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any, Literal

from rag.parsing import decompressed, parse_json, stored_number, stored_text
from rag.ports import Clock, RecordStore
from rag.schema import from_json, to_json
from rag.types import Citation, now_utc

SHELF = "answer"
COUNTS = "answer-count"
KEYS_BY_TURN = "answer-turn"
"""Maps turns to their entries; keys are turn ids, values the keys of entries."""
TTL_S = 86_400.0
"""A day: how long an answer is reused unless it becomes stale."""

Outcome = Literal["hit", "miss", "stale"]
Scope = Mapping[str, Any]
Valid = Callable[["CachedAnswer"], bool]


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """A cached answer. `key` is its record's, `turn` the turn that it answered, "" for none.

    `citations` are all sources that were shown for it, `index` identifies the state of the searched index.
    """

    key: str
    question: str
    answer: str
    created: datetime
    scope: Scope = field(default_factory=dict)
    citations: tuple[Citation, ...] = ()
    model: str = ""
    turn: str = ""
    index: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The current number of entries, and the outcomes of all look-ups."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
    stale: int = 0

    @property
    def lookups(self) -> int:
        """The number of look-ups."""
        return self.hits + self.misses + self.stale

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that found a valid answer; 0 before the first."""
        return self.hits / self.lookups if self.lookups else 0.0


_FIELDS = {field.name for field in fields(CachedAnswer)}


_LAST_MARKS = "?.。？"
_WHAT_IS = re.compile(r"什么是\s*([^什么]+)|(\S[^什么]*?)\s*是什么")
"""The two orders in which Chinese asks for a definition."""


def normalised(question: str, is_symbol: Callable[[str], bool] = lambda word: False) -> str:
    """Return a question in NFC, with single blanks, without its first capital and its last mark.

    A first or last word that the repository defines (`is_symbol`) stays as it is: `Item` is not `item`, and
    `save?` is not `save`. "什么是 RAG" and "RAG 是什么" are one question. Nothing else is ignored, so two
    questions with other names, numbers, prepositions or negations are never one.
    """
    words = unicodedata.normalize("NFC", question).split()
    if not words:
        return ""
    bare, mark = words[-1][:-1], words[-1][-1]
    if bare and mark in _LAST_MARKS and bare[-1] not in _LAST_MARKS and not is_symbol(words[-1]):
        words[-1] = bare
    if words[0] == words[0].capitalize() and not is_symbol(words[0]):
        words[0] = words[0].lower()
    line = " ".join(words)
    asked = _WHAT_IS.fullmatch(line)
    return f"{asked[1] or asked[2]} 是什么" if asked else line


class AnswerCache:
    """The cached answers of one namespace.

    Args:
        store: keeps the entries; every memory backend can.
        namespace: the owner; entries of another are never returned.
        ttl_s: how long an answer is kept; None for ever.
        clock: dates the entries.
        alike: two questions share an answer when this is equal for both.
    """

    def __init__(
        self,
        store: RecordStore,
        *,
        namespace: str = "",
        ttl_s: float | None = TTL_S,
        clock: Clock = now_utc,
        alike: Callable[[str], str] = normalised,
    ) -> None:
        self._store, self._namespace = store, namespace
        self._ttl_s, self._clock, self._alike = ttl_s, clock, alike

    def get(
        self, question: str, *, scope: Scope | None = None, valid: Valid | None = None
    ) -> CachedAnswer | None:
        """Return the answer to the same question, in this scope; None without a valid one.

        The look-up is counted. An entry that is not `valid` is removed.
        """
        found = self.find(question, scope=scope)
        if found is not None and valid is not None and not valid(found):
            self.drop(found)
            self.count("stale")
            return None
        self.count("miss" if found is None else "hit")
        return found

    def put(
        self,
        question: str,
        answer: str,
        *,
        scope: Scope | None = None,
        citations: tuple[Citation, ...] = (),
        model: str = "",
        turn: str = "",
        index: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> CachedAnswer:
        """Store an answer, replacing the answer to the same question in this scope.

        Raises:
            TypeError, ValueError: scope or metadata are not JSON.
        """
        key = self._key(question, scope or {})
        created = self._clock()
        entry = CachedAnswer(
            key, question, answer, created, scope or {}, citations, model, turn, index, metadata or {}
        )
        record = to_json(entry)
        del record["key"]
        value = zlib.compress(json.dumps(record, allow_nan=False).encode())
        put = partial(self._store.put_records, namespace=self._namespace, ttl_s=self._ttl_s)
        if turn:
            put({turn: key.encode()}, shelf=KEYS_BY_TURN)
        put({key: value}, shelf=SHELF)
        return entry

    def find(self, question: str, *, scope: Scope | None = None) -> CachedAnswer | None:
        """Like `get`, but without validation and without counting."""
        key = self._key(question, scope or {})
        found = self._store.records([key], shelf=SHELF, namespace=self._namespace)
        return _entry(key, found[key]) if key in found else None

    def count(self, outcome: Outcome) -> None:
        """Count the outcome of a look-up."""
        try:
            self._store.increment_record(outcome, shelf=COUNTS, namespace=self._namespace)
        except ValueError:  # the record is damaged
            self._store.put_records({outcome: b"1"}, shelf=COUNTS, namespace=self._namespace)

    def drop(self, entry: CachedAnswer) -> bool:
        """Remove an entry; False when it was gone."""
        if entry.turn:
            self._store.delete_records([entry.turn], shelf=KEYS_BY_TURN, namespace=self._namespace)
        return bool(self._store.delete_records([entry.key], shelf=SHELF, namespace=self._namespace))

    def forget(self, turns: Sequence[str]) -> int:
        """Remove the answers to these turns, by id; return how many there were."""
        found = self._store.records(turns, shelf=KEYS_BY_TURN, namespace=self._namespace) if turns else {}
        if not found:
            return 0
        self._store.delete_records(list(found), shelf=KEYS_BY_TURN, namespace=self._namespace)
        keys = [stored_text(key) for key in found.values()]
        return self._store.delete_records(keys, shelf=SHELF, namespace=self._namespace)

    def entries(self) -> list[CachedAnswer]:
        """Return all readable entries, the newest first."""
        found = self._store.scan_records(shelf=SHELF, namespace=self._namespace)
        entries = (_entry(key, value) for key, value in found)
        return sorted(
            (one for one in entries if one is not None),
            key=lambda entry: (entry.created, entry.key),
            reverse=True,
        )

    def clear(self) -> int:
        """Remove all entries; return how many there were. The counts are kept."""
        self._store.delete_records(shelf=KEYS_BY_TURN, namespace=self._namespace)
        return self._store.delete_records(shelf=SHELF, namespace=self._namespace)

    def stats(self) -> CacheStats:
        """Return the number of entries, and the outcomes of look-ups."""
        counts = self._store.records(("hit", "miss", "stale"), shelf=COUNTS, namespace=self._namespace)
        hits, misses, stale = (stored_number(counts.get(one), 0) for one in ("hit", "miss", "stale"))
        entries = self._store.count_records(shelf=SHELF, namespace=self._namespace)
        return CacheStats(entries, hits, misses, stale)

    def _key(self, question: str, scope: Scope) -> str:
        parts = json.dumps([scope, self._alike(question)], sort_keys=True, allow_nan=False)
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def _entry(key: str, value: bytes) -> CachedAnswer | None:
    """Return the entry of a record; None if another version of rag wrote it, or it is damaged."""
    try:
        record = parse_json(decompressed(value))
        if not set(record) <= _FIELDS:
            return None
        return from_json(CachedAnswer, {**record, "key": key})
    except (zlib.error, ValueError, LookupError, TypeError):
        return None
