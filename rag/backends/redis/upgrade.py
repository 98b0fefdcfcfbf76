"""Move a namespace of an older version to the present layout, in one transaction, when it is first used.

Versions 1 and 2 had these keys with other contents: C (packed conversations), I, X and V (texts and places of
items by kind and id), and W, T, P and Q (terms). Everything is read, stored again, and indexed by the next
search. A version of rag that only knows them refuses the new one by its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rag.backends.redis.packing import packed
from rag.backends.redis.script import BEFORE
from rag.backends.redis.server import RedisServer, decoded
from rag.backends.redis.transaction import Call, RedisTransaction
from rag.backends.redis.values import Reply, moment_of, pairs, written_out
from rag.turns.dump import Line, parsed
from rag.turns.model import ConversationRecord, Item
from rag.turns.storage import Scope


class _Empty:
    """A namespace without anything."""

    def ask(self, scope: Scope, calls: Sequence[Call]) -> dict[Call, Reply]:
        """Return the replies of an empty namespace: no conversation, and no numbers."""
        return {call: [b"0", *[None] * len(call[1])] if call[0] == "numbers" else [] for call in calls}

    def commit(self, tx: RedisTransaction) -> None:
        """Do nothing."""

    def all_shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return no shelf."""
        return []

    def namespaces(self) -> list[str]:
        """Return no namespace."""
        return []


def upgrade(server: RedisServer, tag: str, namespace: str) -> None:
    """Store a namespace again, unless another process has changed it meanwhile."""
    calls: list[Call] = [("old_conversations",), ("old_items",)]
    _, _, (conversations, items) = server.run(BEFORE, tag, [packed(["0", [], [], calls, True])])
    lines = [*_conversation_lines(conversations), *_item_lines(items)]
    found = [parsed(line, namespace) for line in lines]
    tx = RedisTransaction(_Empty(), Scope(namespace), {})
    numbers: dict[str, int] = {}
    for part in found:
        if isinstance(part, ConversationRecord):
            tx.put_conversation(part)
            numbers |= part.numbers
    tx.add([part for part in found if isinstance(part, Item) and part.origin in numbers], numbers)
    checks = [[call, written_out(reply)] for call, reply in zip(calls, (conversations, items), strict=True)]
    given = packed(["0", checks, [["clear", []], *tx.all_writes()], [], True])
    server.run(BEFORE, tag, [given], writes=True)


def _conversation_lines(reply: Reply) -> Iterator[Line]:
    for group in pairs(reply, 12):
        id_, head, name, created, updated, keep, parent, at, order, turn, message, spans = map(_text, group)
        sources, ttl_s = json.loads(head)
        conversation = {
            "id": id_,
            "name": name,
            "sources": sources,
            "created": moment_of(int(created)).isoformat(),
            "updated": moment_of(int(updated)).isoformat(),
            "turn_count": 0,
            "message_count": 0,
            "parent": parent or None,
            "forked_at": None if int(at) < -1 else int(at),
            "keep_last": int(keep) or None,
            "ttl_s": ttl_s,
        }
        yield {
            "conversation": conversation,
            "next_order": int(order),
            "first": {"turn": int(turn), "message": int(message)},
            "spans": [
                [origin, first, None if last < 0 else last] for origin, first, last in json.loads(spans)
            ],
        }


def _item_lines(reply: Reply) -> Iterator[Line]:
    texts = iter(map(_text, reply))
    for field in texts:
        place = {"conversation": next(texts), "order": int(next(texts))}
        version, marks = int(next(texts)), next(texts)
        place["marks"] = sorted(json.loads(marks) or [])
        bodies = [json.loads(next(texts)) for _ in range(version)]
        records: list[dict[str, Any]] = [{**body, **place, "version": n} for n, body in enumerate(bodies, 1)]
        if field.startswith("t"):
            yield {"turn": records[-1], "versions": records[:-1]}
        else:
            yield {"message": records[-1]}


def _text(part: bytes | None) -> str:
    return decoded(part or b"")
