"""Answers given before come back for questions that mean the same, and for no others, on every store."""

from __future__ import annotations

import pytest

from rag.answer_cache.cache import TTL_S, AnswerCache, CacheStats
from rag.ports import MemoryStore
from rag.types import Citation, Span
from tests.contracts.clock import SteppedClock

QUESTION, SAME, OTHER = "Where is the token set?", " where is the  token set", "Where is the token deleted?"


class AnswersContract:
    """What the answer cache promises on any store; the class mixed into says which store."""

    @pytest.fixture
    def cache(self, store: MemoryStore, clock: SteppedClock) -> AnswerCache:
        return AnswerCache(store, clock=clock)

    def test_an_answer_comes_back_whole_for_a_question_that_means_the_same(
        self, cache: AnswerCache, clock: SteppedClock
    ) -> None:
        span = Span("api", "a\udcff.py", 3, 9, "b10b", "c0ffee", "sign", "Keys 0.1")
        cited = (Citation(1, span, location="/r", score=0.5),)
        kept = cache.put(
            QUESTION,
            "in `sign` [1] 北京 \udcff",
            scope={"repository": "api", "k": 8},
            citations=cited,
            model="m",
            turn="t",
            index="i",
            metadata={"found": [1]},
        )
        clock.advance(60)
        assert cache.get(SAME, scope={"k": 8, "repository": "api"}) == kept
        assert cache.entries() == [kept]
        assert cache.get(OTHER, scope={"repository": "api", "k": 8}) is None
        assert cache.stats() == CacheStats(entries=1, hits=1, misses=1)

    def test_an_empty_answer_is_an_answer(self, cache: AnswerCache) -> None:
        cache.put("?", "")
        found = cache.get("?")
        assert found is not None
        assert found.answer == ""

    def test_scopes_and_namespaces_never_see_each_other(self, store: MemoryStore, cache: AnswerCache) -> None:
        cache.put(QUESTION, "one", scope={"repository": "api"})
        cache.put(QUESTION, "two", scope={"repository": "web"})
        assert cache.get(QUESTION) is None
        assert cache.get(QUESTION, scope={"repository": "api", "model": ""}) is None
        for name, answer in (("api", "one"), ("web", "two")):
            found = cache.get(QUESTION, scope={"repository": name})
            assert found is not None
            assert found.answer == answer
        other = AnswerCache(store, namespace="ada")
        assert other.get(QUESTION, scope={"repository": "api"}) is None
        assert (other.clear(), other.stats().misses, cache.stats().entries) == (0, 1, 2)

    def test_an_entry_that_does_not_hold_is_removed_and_counted_as_stale(self, cache: AnswerCache) -> None:
        cache.put(QUESTION, "old")
        assert cache.get(QUESTION, valid=lambda entry: entry.answer != "old") is None
        assert cache.find(QUESTION) is None
        assert cache.stats() == CacheStats(stale=1)
        cache.put(QUESTION, "new")
        assert cache.get(QUESTION, valid=lambda entry: entry.answer != "old") is not None
        assert cache.stats().hit_rate == 0.5

    def test_an_entry_lives_for_a_day_after_it_was_put(self, cache: AnswerCache, clock: SteppedClock) -> None:
        cache.put(QUESTION, "one")
        clock.advance(TTL_S - 1)
        assert cache.get(QUESTION) is not None
        clock.advance(1)
        assert cache.get(QUESTION) is None
        assert cache.stats() == CacheStats(hits=1, misses=1)

    def test_clearing_counts_what_was_there_and_leaves_the_rest_of_the_store(
        self, store: MemoryStore, cache: AnswerCache
    ) -> None:
        store.create_conversation(name="demo")
        for n in range(7):
            cache.put(f"question {n}", "x")
        cache.put("Question 1?", "y")
        assert (cache.clear(), cache.clear(), cache.stats().entries) == (7, 0, 0)
        assert store.conversation("demo")

    def test_cached_answers_and_their_counts_move_with_a_store(
        self, store: MemoryStore, other_store: MemoryStore, cache: AnswerCache, clock: SteppedClock
    ) -> None:
        kept = cache.put(QUESTION, "one", scope={"repository": "api"})
        cache.get(SAME, scope={"repository": "api"})
        other_store.restore(store.dump())
        clock.advance(TTL_S - 1)
        moved = AnswerCache(other_store, clock=clock)
        assert moved.get(SAME, scope={"repository": "api"}) == kept
        assert moved.stats() == CacheStats(entries=1, hits=2)
        clock.advance(1)
        assert moved.get(SAME, scope={"repository": "api"}) is None
