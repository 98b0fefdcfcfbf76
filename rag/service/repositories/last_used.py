"""Keep the values that were used last, each made once; two different ones never wait for each other."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class _Entry(Generic[_Value]):
    """A value that is made when it is first asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: list[_Value] = []


class LastUsed(Generic[_Value]):
    """A cache of at most `most` values by key, in memory."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[_Value]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, which is made if it is not kept; who asks for the same one waits."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.made:
                entry.made.append(make())
            return entry.made[0]
