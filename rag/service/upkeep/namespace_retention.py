"""Retention of a namespace: turns, facts and cached answers older than its policy expire.

The policy is a record in the namespace itself, so every server, worker and command that opens the turn store
follows it. It has the time at which it was last applied: of several processes, the one that replaces that
time (a compare-and-swap) applies it.

A turn expires with its own age, not with that of its conversation. With it go its prompt, cached answer and
messages before it, the files that only it cites, and summaries that include it. A conversation expires when
all of it does. Facts count from when they were stated, cached answers from when they were stored. Preferences
and the policy itself stay.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rag.answer_cache.cache import AnswerCache
from rag.errors import NotFound, RagError, SettingsError
from rag.memory.consolidate import forget_summary
from rag.memory.facts import Facts
from rag.parsing import parse_json
from rag.ports import Clock, MemoryStore
from rag.service.upkeep.namespaces import Holdings
from rag.service.upkeep.retention import KeptFiles, delete_conversation, forget
from rag.types import Conversation, DialogTurn, now_utc

SHELF = "retention"
_KEY = "policy"
MIN_AGE = timedelta(hours=1)
APPLY_EVERY = timedelta(hours=1)
_CHECK_EVERY_S = 600.0
_FIRST_AFTER_S = 10.0
_WINDOW_ORDERS = 500


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long a namespace keeps what it holds; `applied` is when that was last enforced, None for never."""

    namespace: str
    age: timedelta
    applied: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether it should be applied. After a jump of the clock it is, too."""
        return self.applied is None or not timedelta(0) <= now - self.applied < APPLY_EVERY


def policy_of(store: MemoryStore, namespace: str) -> RetentionPolicy | None:
    """Return the policy of a namespace; None if it keeps everything."""
    return _policy(namespace, _record(store, namespace))


def policies(store: MemoryStore) -> list[RetentionPolicy]:
    """Return all policies, by namespace."""
    found = (policy_of(store, namespace) for namespace in sorted(store.namespaces()))
    return [policy for policy in found if policy is not None]


def set_policy(store: MemoryStore, namespace: str, age: timedelta | None) -> None:
    """Set the policy of a namespace, or remove it (None).

    Raises:
        SettingsError: the age is shorter than an hour.
    """
    if age is None:
        store.delete_records([_KEY], shelf=SHELF, namespace=namespace)
        return
    if age < MIN_AGE:
        raise SettingsError("the shortest retention is one hour (1h); `off` keeps everything")
    policy = RetentionPolicy(namespace, age)
    store.put_records({_KEY: _encoded(policy)}, shelf=SHELF, namespace=namespace)


def expire(store: MemoryStore, namespace: str, before: datetime, *, dry_run: bool = False) -> Holdings:
    """Delete what is older than `before` in a namespace; return what that is.

    Args:
        store: the turn store.
        namespace: the namespace.
        before: what is from earlier expires.
        dry_run: only count.
    """
    conversations = messages = 0
    turns: set[str] = set()
    """Their ids: forks show turns of others too."""
    for conversation in store.conversations(namespace=namespace):
        if conversation.updated < before:
            conversations += 1
            messages += conversation.message_count
            with suppress(NotFound):  # another process has deleted it
                turns |= {turn.id for turn in store.turns(conversation.id, namespace=namespace)}
                if not dry_run:
                    delete_conversation(store, conversation)
        elif conversation.created < before or conversation.parent is not None:
            for expired in _expired_turns(store, conversation, before):
                turns |= {turn.id for turn in expired}
                messages += _delete_turns(store, conversation, expired, dry_run=dry_run)
    return Holdings(
        namespace,
        conversations=conversations,
        turns=len(turns),
        messages=messages,
        facts=_expire_facts(store, namespace, before, dry_run=dry_run),
        cached_answers=_expire_answers(store, namespace, before, dry_run=dry_run),
    )


def apply_policies(store: MemoryStore, *, clock: Clock = now_utc) -> list[Holdings]:
    """Apply the policies that are due, each by one process only; return what has expired, if anything."""
    found = []
    for namespace in store.namespaces():
        record = _record(store, namespace)
        policy, now = _policy(namespace, record), clock()
        if policy is None or not policy.is_due(now):
            continue
        claimed = _encoded(RetentionPolicy(namespace, policy.age, now))
        if store.swap_record(_KEY, record, claimed, shelf=SHELF, namespace=namespace):
            gone = expire(store, namespace, now - policy.age)
            if gone != Holdings(namespace):
                found.append(gone)
    return found


class RetentionTimer:
    """Applies the policies of a turn store in a thread, as long as a server or worker runs.

    Args:
        store: returns the store; called in the thread.
        notice: called with each message for the operator.
    """

    def __init__(self, store: Callable[[], MemoryStore], notice: Callable[[str], None]) -> None:
        self._store, self._notice = store, notice
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after what it does now."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        is_away = False
        self._closing.wait(_FIRST_AFTER_S)
        while not self._closing.is_set():
            try:
                for gone in apply_policies(self._store()):
                    self._notice(
                        f"retention of {gone.namespace or 'the default namespace'}: {gone.turns} turns, "
                        f"{gone.facts} facts and {gone.cached_answers} cached answers have expired"
                    )
                is_away = False
            except RagError as error:
                if not is_away:
                    self._notice(f"retention could not be applied, trying again: {error}")
                is_away = True
            self._closing.wait(_CHECK_EVERY_S)


def _record(store: MemoryStore, namespace: str) -> bytes | None:
    return store.records([_KEY], shelf=SHELF, namespace=namespace).get(_KEY)


def _policy(namespace: str, record: bytes | None) -> RetentionPolicy | None:
    if record is None:
        return None
    try:
        values = parse_json(record.decode())
        age, applied = timedelta(seconds=float(values["age_s"])), values["applied"]
        return RetentionPolicy(namespace, age, None if applied is None else datetime.fromisoformat(applied))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise SettingsError(
            f"the retention of the namespace {namespace!r} is not readable ({error!r}); set it again with "
            "`rag memory retention`"
        ) from error


def _encoded(policy: RetentionPolicy) -> bytes:
    applied = policy.applied and policy.applied.astimezone(UTC).isoformat()
    return json.dumps({"age_s": policy.age.total_seconds(), "applied": applied}).encode()


def _expired_turns(
    store: MemoryStore, conversation: Conversation, before: datetime
) -> Iterator[list[DialogTurn]]:
    """Yield the turns of a conversation that are older, oldest first, some hundred at a time."""
    namespace = conversation.namespace
    with suppress(NotFound):  # deleted in the meantime
        last = store.turns(conversation.id, namespace=namespace, last=1)
        for start in range(0, (last[0].order or 0) + 1 if last else 0, _WINDOW_ORDERS):
            window = store.turns(
                conversation.id, namespace=namespace, after=start - 1, before=start + _WINDOW_ORDERS
            )
            expired = [turn for turn in window if _time(turn, conversation) < before]
            if expired:
                yield expired
            elif window:  # later ones are younger
                return


def _time(turn: DialogTurn, conversation: Conversation) -> datetime:
    return turn.user_query_timestamp or turn.assistant_response_timestamp or conversation.updated


def _delete_turns(
    store: MemoryStore, conversation: Conversation, turns: list[DialogTurn], *, dry_run: bool
) -> int:
    """Delete turns, with the messages before the last of them; return the number of these messages."""
    namespace, first, last = conversation.namespace, turns[0].order or 0, turns[-1].order or 0
    stored = store.messages(conversation.id, namespace=namespace)
    messages = [message for message in stored if (message.order or 0) < last]
    if dry_run:
        return len(messages)
    for turn in turns:
        store.delete_turn(turn.id, namespace=namespace)
    store.delete_messages(
        [message.id for message in messages], conversation=conversation.id, namespace=namespace
    )
    forget(store, turns, namespace)
    for one in store.conversations(namespace=namespace):
        if one.id == conversation.id or one.parent is not None:
            forget_summary(store, one.id, first, namespace=namespace)
    return len(messages)


def _expire_facts(store: MemoryStore, namespace: str, before: datetime, *, dry_run: bool) -> int:
    facts = Facts(store, namespace=namespace)
    expired = [fact for fact in facts.all() if fact.created < before]
    if not dry_run:
        for fact in expired:
            facts.delete(fact)
        blobs = [citation.blob for fact in expired for citation in fact.citations]
        KeptFiles(store, namespace).release(blobs)
    return len(expired)


def _expire_answers(store: MemoryStore, namespace: str, before: datetime, *, dry_run: bool) -> int:
    cache = AnswerCache(store, namespace=namespace)
    expired = [entry for entry in cache.entries() if entry.created < before]
    if not dry_run:
        for entry in expired:
            cache.drop(entry)
    return len(expired)
