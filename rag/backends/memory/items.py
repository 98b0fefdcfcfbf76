"""Turns and messages in this process: by id, by place, and by the terms they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rag.backends.stored_turns import ConversationRecord, Item, Kind


class Items:
    """Turns and messages of all namespaces: by id, by place, and by the terms they hold."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, Kind, str], Item] = {}
        self._said: dict[str, dict[int, Item]] = {}  # origin → order → item, ascending
        self._counts: dict[str, Counter[Kind]] = {}  # origin → how many of each kind
        self._holders: dict[tuple[str, str], dict[Item, int]] = {}  # (namespace, term) → count

    def find(self, namespace: str, kind: Kind, item_id: str) -> Item | None:
        """The item of this id, None when there is none."""
        return self._by_id.get((namespace, kind, item_id))

    def at(self, origin: str, order: int) -> Item | None:
        """The item at this place, None when there is none."""
        return self._said.get(origin, {}).get(order)

    def add(self, item: Item) -> None:
        """Keep an item; at the end of its origin, or (restored) wherever it belongs."""
        self._by_id[item.namespace, item.kind, item.id] = item
        said = self._said.setdefault(item.origin, {})
        out_of_order = bool(said) and next(reversed(said)) > item.order
        said[item.order] = item
        self._counts.setdefault(item.origin, Counter())[item.kind] += 1
        if out_of_order:
            self._said[item.origin] = dict(sorted(said.items()))
        self._index(item)

    def edit(self, item: Item, edited: Item) -> None:
        """Give an item another version."""
        self._unindex(item)
        item.versions += edited.versions
        item.counts, item.length, item.cited = edited.counts, edited.length, item.cited | edited.cited
        self._index(item)

    def remove(self, item: Item) -> None:
        """Forget an item."""
        self._unindex(item)
        del self._by_id[item.namespace, item.kind, item.id]
        said = self._said[item.origin]
        del said[item.order]
        self._counts[item.origin][item.kind] -= 1
        if not said:
            del self._said[item.origin], self._counts[item.origin]

    def of(self, namespace: str) -> Iterator[Item]:
        """All items of a namespace."""
        return (item for (where, _, _), item in self._by_id.items() if where == namespace)

    def shown(self, kept: ConversationRecord, *, newest_first: bool = False) -> Iterator[Item]:
        """The items a conversation shows, oldest first unless told otherwise."""
        for span in reversed(kept.spans) if newest_first else kept.spans:
            said = self._said.get(span.origin, {})
            for item in reversed(said.values()) if newest_first else said.values():
                if span.holds(item.order) and item.order >= kept.first[item.kind]:
                    yield item

    def count(self, kept: ConversationRecord) -> Counter[Kind]:
        """How many of each kind a conversation shows."""
        own = kept.spans[-1]
        if len(kept.spans) == 1 and own.first == 0 and not any(kept.first.values()):
            return self._counts.get(own.origin, Counter())
        return Counter(item.kind for item in self.shown(kept))

    def holding(self, namespace: str, term: str) -> Iterable[tuple[Item, int]]:
        """The items of a namespace that hold a term, with how often."""
        return self._holders.get((namespace, term), {}).items()

    def _index(self, item: Item) -> None:
        for term, count in item.counts.items():
            self._holders.setdefault((item.namespace, term), {})[item] = count

    def _unindex(self, item: Item) -> None:
        for term in item.counts:
            holders = self._holders[item.namespace, term]
            del holders[item]
            if not holders:
                del self._holders[item.namespace, term]
