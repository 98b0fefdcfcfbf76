"""In-memory turns and messages, indexed by id, by place and by terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rag.backends.stored_turns import ConversationRecord, Item, Kind


class Items:
    """The turns and messages of all namespaces, indexed by id, by place and by terms."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, Kind, str], Item] = {}
        self._by_origin: dict[str, dict[int, Item]] = {}  # origin → order → item, ascending
        self._counts: dict[str, Counter[Kind]] = {}  # origin → number of items by kind
        self._holders: dict[tuple[str, str], dict[Item, int]] = {}  # (namespace, term) → count

    def find(self, namespace: str, kind: Kind, item_id: str) -> Item | None:
        """Return the item with this id, or None."""
        return self._by_id.get((namespace, kind, item_id))

    def at(self, origin: str, order: int) -> Item | None:
        """Return the item at this place, or None."""
        return self._by_origin.get(origin, {}).get(order)

    def add(self, item: Item) -> None:
        """Add an item at the end of its origin or (restored) at its place."""
        self._by_id[item.namespace, item.kind, item.id] = item
        items = self._by_origin.setdefault(item.origin, {})
        out_of_order = bool(items) and next(reversed(items)) > item.order
        items[item.order] = item
        self._counts.setdefault(item.origin, Counter())[item.kind] += 1
        if out_of_order:
            self._by_origin[item.origin] = dict(sorted(items.items()))
        self._index(item)

    def edit(self, item: Item, edited: Item) -> None:
        """Add a version to an item."""
        self._unindex(item)
        item.versions += edited.versions
        item.counts, item.length, item.cited = edited.counts, edited.length, item.cited | edited.cited
        self._index(item)

    def remove(self, item: Item) -> None:
        """Remove an item."""
        self._unindex(item)
        del self._by_id[item.namespace, item.kind, item.id]
        items = self._by_origin[item.origin]
        del items[item.order]
        self._counts[item.origin][item.kind] -= 1
        if not items:
            del self._by_origin[item.origin], self._counts[item.origin]

    def of(self, namespace: str) -> Iterator[Item]:
        """Yield all items of a namespace."""
        return (item for (where, _, _), item in self._by_id.items() if where == namespace)

    def shown(self, kept: ConversationRecord, *, newest_first: bool = False) -> Iterator[Item]:
        """Yield the items that a conversation shows, by default oldest first."""
        for span in reversed(kept.spans) if newest_first else kept.spans:
            items = self._by_origin.get(span.origin, {})
            for item in reversed(items.values()) if newest_first else items.values():
                if span.holds(item.order) and item.order >= kept.first[item.kind]:
                    yield item

    def count(self, kept: ConversationRecord) -> Counter[Kind]:
        """Return the number of items of each kind that a conversation shows."""
        own = kept.spans[-1]
        if len(kept.spans) == 1 and own.first == 0 and not any(kept.first.values()):
            return self._counts.get(own.origin, Counter())
        return Counter(item.kind for item in self.shown(kept))

    def holding(self, namespace: str, term: str) -> Iterable[tuple[Item, int]]:
        """Return the items of a namespace that contain a term, with its count."""
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
