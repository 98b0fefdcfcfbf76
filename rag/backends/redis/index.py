"""The full-text index of a namespace: items are added to it by the next search.

Analyzing the text of an item and indexing its terms takes longer than storing it. So an addition leaves it
unread: shown, counted and dumped like others, but not in the index. A search first indexes what was added
before it began. Several searches may do so at once, or die in between: a script indexes items only if all of
them are still unread and unchanged.

Items are in buckets by the order of their addition. For a term, a bucket has one string with its items, so
that indexing appends to a few strings, and removing an item changes one string per term.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rag.backends.redis.values import Brief, Reply, item_of, pairs

READ_AT_ONCE = 512
"""The maximum number of items that are indexed by one script."""
MAX_UNREAD = 4_000
"""The maximum number of unread items in a namespace; beyond it, an addition indexes as many as it adds."""


def indexing(items: Reply) -> list[Any]:
    """Return the change that indexes unread items, from a reply with them."""
    keys, briefs, lengths = [], [], []
    entries: dict[str, list[bytes]] = defaultdict(list)
    for key, stored, text, _ in pairs(items, 4):
        assert key is not None and stored is not None and text is not None
        brief = Brief.read(stored)
        counts = item_of(key, brief, text, None, "").counts()
        for term, count in counts.items():
            entries[f"{brief.bucket}:{term}"].append(key + count.to_bytes(4, "big"))
        length = sum(counts.values())
        keys.append(key)
        briefs.append(brief._replace(length=length).stored())
        lengths.append(length)
    parts = [part for field, held in entries.items() for part in (field, b"".join(held))]
    return ["index", [keys, briefs, lengths, parts]]
