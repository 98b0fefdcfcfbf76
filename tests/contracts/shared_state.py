"""The contract of `rag.ports.SharedState`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.ports import SharedState


class SharedStateContract:
    """Tests for each promise of the port; a subclass has the fixtures.

    Fixtures:
        state: empty.
        other: the same state, as another process sees it.
    """

    def test_a_lock_is_held_by_one(self, state: SharedState, other: SharedState) -> None:
        inside, count = threading.Semaphore(1), []

        def work(number: int) -> None:
            with (state if number % 2 else other).locked("conversation 1"):
                assert inside.acquire(blocking=False), "two hold the lock"
                count.append(number)
                inside.release()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(24)))
        assert sorted(count) == list(range(24))

    def test_other_locks_are_free(self, state: SharedState, other: SharedState) -> None:
        with state.locked("a"), other.locked("b"):
            pass

    def test_an_error_releases_the_lock(self, state: SharedState, other: SharedState) -> None:
        with pytest.raises(KeyError), state.locked("a"):
            raise KeyError
        with other.locked("a"):
            pass

    def test_a_rate_is_counted_together(self, state: SharedState, other: SharedState) -> None:
        waits = [(state, other)[n % 2].hit("ann", amount=4, period_s=3600) for n in range(6)]
        assert waits[:4] == [0.0] * 4 and all(0 < wait <= 7200 for wait in waits[4:])
        assert state.hit("bob", amount=4, period_s=3600) == 0.0

    def test_many_at_once_do_not_exceed_a_rate(self, state: SharedState, other: SharedState) -> None:
        def hit(number: int) -> float:
            return (state, other)[number % 2].hit("ann", amount=10, period_s=3600)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(hit, range(40))).count(0.0) == 10

    def test_a_request_is_accepted_after_the_time_it_was_given(self, state: SharedState) -> None:
        assert state.hit("ann", amount=1, period_s=0.2) == 0.0
        refused = 0
        while (wait := state.hit("ann", amount=1, period_s=0.2)) and refused < 1000:
            assert wait <= 0.4
            refused += 1
            threading.Event().wait(wait)
        assert 1 <= refused <= 5

    def test_events_reach_everyone_who_listens(self, state: SharedState, other: SharedState) -> None:
        assert state.listen(0.01) is None and other.listen(0.01) is None  # the first call misses events
        state.publish("é 1")
        other.publish("2")
        for listener in (state, other):
            assert _events(listener.listen, 2) == ["é 1", "2"]
        assert state.listen(0.01) == []

    def test_an_event_has_a_largest_size(self, state: SharedState) -> None:
        state.publish("x" * 7_900)
        with pytest.raises(ValueError, match="7900"):
            state.publish("x" * 7_901)

    def test_pruning_forgets_no_recent_rate(self, state: SharedState) -> None:
        assert state.hit("ann", amount=1, period_s=3600) == 0.0
        state.prune()
        assert state.hit("ann", amount=1, period_s=3600) > 0


def _events(listen: Callable[[float], list[str] | None], count: int) -> list[str]:
    """Wait for this many events."""
    found: list[str] = []
    for _ in range(100):
        found += listen(1.0) or ()
        if len(found) >= count:
            return found
    raise AssertionError(f"only {len(found)} events came")
