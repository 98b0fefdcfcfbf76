"""The one conversation that an adapter holds."""

from __future__ import annotations

import pytest

from rag.adapters.conversation import StoredConversation
from rag.backends.memory.turns import MemoryTurnStore
from rag.types import Message
from tests.contracts.clock import SteppedClock

HOUR_S = 3_600.0


def test_what_is_begun_expires_after_its_last_message() -> None:
    clock = SteppedClock()
    stored = StoredConversation(MemoryTurnStore(clock=clock), "helper", ttl_s=HOUR_S)
    for text in ("first", "second"):
        stored.get_or_create().add([Message(text)])
        clock.advance(HOUR_S / 2)
    assert [message.content for message in stored.messages()] == ["first", "second"]
    clock.advance(HOUR_S)
    assert stored.messages() == []
    stored.get_or_create().add([Message("again")])
    assert [message.content for message in stored.messages()] == ["again"]


def test_without_a_ttl_it_stays() -> None:
    clock = SteppedClock()
    stored = StoredConversation(MemoryTurnStore(clock=clock), "helper")
    stored.get_or_create().add([Message("first")])
    clock.advance(1_000 * HOUR_S)
    assert len(stored.messages()) == 1


def test_a_ttl_that_is_none_is_refused_with_the_first_message() -> None:
    with pytest.raises(ValueError):
        StoredConversation(MemoryTurnStore(), "helper", ttl_s=0).get_or_create()
