"""A token bucket for each caller: short bursts pass, a steady flood does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from snip.errors import TooManyRequests


@dataclass
class Bucket:
    """What a caller has left, and when it was last filled up."""

    tokens: float
    updated: float


class RateLimiter:
    """Allows `per_minute` requests a minute for each key, with bursts of the same size."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._rate_per_s = per_minute / 60
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    def spend(self, key: str) -> None:
        """Take one request from the caller's bucket.

        Raises:
            TooManyRequests: the bucket is empty.
        """
        with self._lock:
            bucket = self._refilled(key)
            if bucket.tokens < 1:
                raise TooManyRequests((1 - bucket.tokens) / self._rate_per_s)
            bucket.tokens -= 1

    def forget_idle(self) -> int:
        """Drop the buckets that are full again; return how many. Called by a background job."""
        with self._lock:
            idle = [key for key in self._buckets if self._refilled(key).tokens >= self._capacity]
            for key in idle:
                del self._buckets[key]
            return len(idle)

    def _refilled(self, key: str) -> Bucket:
        now = self._clock()
        bucket = self._buckets.setdefault(key, Bucket(self._capacity, now))
        bucket.tokens = min(self._capacity, bucket.tokens + (now - bucket.updated) * self._rate_per_s)
        bucket.updated = now
        return bucket
