"""Contract tests of full-text search and citations in a `TurnStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import pytest

from rag.analysis import terms
from rag.errors import NotFound
from rag.ports import Holder, Matches, Recalled, TurnStore
from rag.searchable import term_counts
from rag.types import Citation, DialogTurn, Message, Span
from tests.contracts.sample_turns import add_turns, full_turn, new_turn

Kind = Literal["turn", "message"]
K1, B = 1.2, 0.75
_KINDS: tuple[Kind | None, ...] = ("turn", "message", None)
_WORDS = """token session getUserName user_name expire cookie 北京大学 上海 hash tree HTTPServer config parser
    naïve x86 a1b2c3 the where""".split()


def counted(items: Iterable[DialogTurn | Message], sought: Sequence[str], limit: int = 1000) -> Matches:
    """Return what a store must find in these items, counted one by one."""
    bags = [(item, term_counts(item)) for item in items]
    found = set()
    for term in sought:
        holding = [item for item, bag in bags if term in bag]
        newest = sorted(holding, key=lambda item: (-(item.order or 0), item.id))[:limit]
        found |= {id(item) for item in newest}
    holders = [_holder(item, bag, sought) for item, bag in bags if id(item) in found]
    return Matches(
        items=len(bags),
        length=sum(sum(bag.values()) for _, bag in bags),
        holders=tuple(sum(term in bag for _, bag in bags) for term in sought),
        found=tuple(sorted(holders, key=lambda holder: (holder.conversation, holder.order))),
    )


def _holder(item: DialogTurn | Message, bag: dict[str, int], sought: Sequence[str]) -> Holder:
    return Holder(
        item.id,
        "turn" if isinstance(item, DialogTurn) else "message",
        item.conversation_id or "",
        item.order or 0,
        sum(bag.values()),
        tuple(bag.get(term, 0) for term in sought),
    )


def ranked(matches: Matches, kind: Kind | None, k: int) -> list[Recalled]:
    """Return the best of these matches by BM25, scored one by one."""
    mean = matches.length / matches.items if matches.items else 1.0
    rarity = [math.log(1 + (matches.items - n + 0.5) / (n + 0.5)) for n in matches.holders]
    found = []
    for one in matches.found:
        damping = K1 * (1 - B + B * one.length / mean)
        given = (count * (K1 + 1) / (count + damping) for count in one.counts)
        score = round(sum(weight * part for weight, part in zip(rarity, given, strict=True)), 6)
        found += [Recalled(*one[:4], score)] if kind in (None, one.kind) else []
    return sorted(found, key=lambda one: (-one.score, -one.order, one.id))[:k]


def everything(store: TurnStore, *conversations: str, namespace: str = "") -> list[DialogTurn | Message]:
    """Return the turns and messages that these conversations show, each once."""
    found: dict[tuple[type, str], DialogTurn | Message] = {}
    for each in conversations:
        shown: list[DialogTurn | Message] = [*store.turns(each, namespace=namespace)]
        shown += store.messages(each, namespace=namespace)
        found |= {(type(item), item.id): item for item in shown}
    return list(found.values())


class TurnSearchContract:
    """The contract of every store for full-text search."""

    def test_words_are_found_as_if_counted_one_by_one(self, store: TurnStore) -> None:
        chance = random.Random(7)
        main, other = store.create_conversation(), store.create_conversation()
        for n in range(40):
            text = " ".join(chance.choices(_WORDS, k=chance.randrange(12)))
            here = chance.choice((main.id, other.id))
            if n % 3:
                store.append(new_turn(text, chance.choice(_WORDS)), conversation=here)
            else:
                store.add_messages([Message([{"type": "text", "text": text}])], conversation=here)
        fork = store.fork(main.id, at=store.turns(main.id)[5].order)
        add_turns(store, fork.id, "the token of the fork", "getUserName")
        sought = list(dict.fromkeys([*terms(" ".join(_WORDS)), "missing"]))
        every = everything(store, main.id, other.id, fork.id)
        for limit in (1, 3, 1000):
            assert store.matching(sought, limit=limit) == counted(every, sought, limit)
        for each in (main, other, fork):
            shown = everything(store, each.id)
            assert store.matching(sought, conversation=each.id) == counted(shown, sought)
            assert store.matching(sought[:3], conversation=each.id, limit=2) == counted(shown, sought[:3], 2)
            for kind, k, some in itertools.product(_KINDS, (1, 4, 99), (sought, sought[:2])):
                best = store.ranked(some, conversation=each.id, kind=kind, k=k)
                assert best == ranked(counted(shown, some), kind, k)
                assert store.ranked(some, kind=kind, k=k, limit=3) == ranked(counted(every, some, 3), kind, k)

    def test_identifiers_are_found_whole_and_in_parts_and_cjk_in_pairs(self, store: TurnStore) -> None:
        here = store.create_conversation()
        camel, _, cjk = add_turns(store, here.id, "what does getUserName return?", "a token", "我住在北京市")

        def found(query: str) -> list[str]:
            return [holder.id for holder in store.matching(terms(query)).found]

        for query in ("getUserName", "user name", "get_user_name"):
            assert found(query) == [camel.id], query
        assert found("北京") == [cjk.id]
        assert found("type text id") == []

    def test_an_edited_turn_is_found_by_its_present_words(self, store: TurnStore) -> None:
        here = store.create_conversation()
        (turn,) = add_turns(store, here.id, "token")
        store.edit_turn(replace(turn, user_query=new_turn("cookie cookie").user_query))
        found = store.matching(["token", "cooki"])
        assert (found.holders, [holder.counts for holder in found.found]) == ((0, 1), [(0, 2)])
        assert found == counted(store.turns(here.id), ["token", "cooki"])

    def test_what_is_gone_is_not_found(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turns = add_turns(store, here.id, "token", "token", "token", "token")
        (message,) = store.add_messages([Message("token")], conversation=here.id)
        store.delete_turn(turns[0].id)
        store.delete_messages([message.id], conversation=here.id)
        store.rewind(here.id, to=2)
        found = store.matching(["token"])
        assert ([holder.order for holder in found.found], found.items) == ([1, 2], 2)
        store.clear(here.id)
        assert store.matching(["token"]) == store.matching(["token"], conversation=here.id)
        assert store.matching(["token"]) == Matches(0, 0, (0,), ())

    def test_no_words_find_nothing_but_the_sums(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "token cookie")
        store.add_messages([Message(b"token", mime="image/png"), Message(None)], conversation=here.id)
        assert store.matching([]) == Matches(3, len(terms("token cookie yes")), (), ())
        with pytest.raises(NotFound, match="nowhere"):
            store.matching([], conversation="nowhere")
        with pytest.raises(ValueError, match="0"):
            store.matching(["token"], limit=0)
        assert store.ranked([]) == store.ranked(["nothing"]) == []
        with pytest.raises(NotFound, match="nowhere"):
            store.ranked([], conversation="nowhere")

    def test_any_number_of_words_is_taken(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "token")
        found = store.matching([*(f"t{n}" for n in range(35_000)), "token"])
        assert (len(found.holders), sum(found.holders), len(found.found)) == (35_001, 1, 1)

    # ---- citations

    def test_turns_are_found_by_what_they_cite(self, store: TurnStore) -> None:
        here = store.create_conversation()

        def cite(turn_id: str, *places: tuple[str, str, str]) -> DialogTurn:
            cited = tuple(
                Citation(n, Span("r", path, 1, 2, blob), location=location, used=n == 1)
                for n, (location, path, blob) in enumerate(places)
            )
            return store.append(new_turn("?", id=turn_id, citations=cited), conversation=here.id)

        cite("b", ("/r", "a.py", "1"), ("/r", "b.py", "2"))
        cite("a", ("/s", "a.py", "1"))
        turn = cite("c", ("/r", "a.py", "3"), ("/r", "a.py", "3"))
        cite("d")
        for place, expected in (
            ({}, "abc"),
            ({"path": "a.py"}, "abc"),
            ({"path": "a.py", "location": "/r"}, "bc"),
            ({"path": "a.py", "location": "/r", "blob": "3"}, "c"),
            ({"blob": "1"}, "ab"),
            ({"location": "/s"}, "a"),
            ({"location": ""}, ""),
            ({"path": "c.py"}, ""),
        ):
            assert "".join(store.citing(**place)) == expected, place
        store.edit_turn(replace(turn, citations=()))
        assert store.citing(blob="3") == ["c"]
        store.delete_turn("c")
        assert store.citing(path="a.py") == ["a", "b"]

    def test_a_citation_of_any_text_is_found(self, store: TurnStore) -> None:
        here = store.create_conversation(namespace="ada")
        turn = store.append(full_turn(), conversation=here.id, namespace="ada")
        assert store.citing(path=turn.citations[0].path, namespace="ada") == [turn.id]
        assert store.citing(path=turn.citations[0].path) == []
