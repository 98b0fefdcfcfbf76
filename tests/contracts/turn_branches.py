"""Contract tests of fork, rewind and clear in a `TurnStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.errors import ConversationChanged, ConversationMismatch, NotFound
from rag.ports import TurnStore
from rag.types import Message, Source
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import add_turns, contents, new_turn, questions


class TurnBranchesContract:
    """The contract of every store for fork, rewind and clear."""

    def test_a_fork_goes_on_by_itself(self, store: TurnStore) -> None:
        main = store.create_conversation(name="main", sources=[Source("/shelf")], ttl_s=600, keep_last=9)
        turns = add_turns(store, main.id, "0", "1", "2")
        fork = store.fork(main.id, at=1, name="try")
        assert (fork.parent, fork.forked_at, fork.turn_count, fork.name) == (main.id, 1, 2, "try")
        assert (fork.sources, fork.ttl_s, fork.keep_last) == (main.sources, 600, 9)
        assert store.conversation("try") == fork and store.conversations()[0] == fork
        assert store.turns(fork.id) == turns[:2]
        assert add_turns(store, fork.id, "other")[0].order == 2
        assert add_turns(store, main.id, "3")[0].order == 3
        assert (questions(store, main.id), questions(store, fork.id)) == (
            "0 1 2 3",
            "0 1 other",
        )
        assert questions(store, fork.id, last=2) == "1 other"
        assert questions(store, fork.id, before=2, after=0) == "1"

    def test_a_fork_of_a_fork_shows_what_both_inherited(self, store: TurnStore) -> None:
        a = store.create_conversation()
        add_turns(store, a.id, "a0", "a1", "a2")
        b = store.fork(a.id, at=1)
        add_turns(store, b.id, "b2", "b3")
        c = store.fork(b.id, at=2)
        add_turns(store, c.id, "c3")
        d = store.fork(c.id, at=0)
        add_turns(store, d.id, "d1")
        assert questions(store, c.id) == "a0 a1 b2 c3"
        assert questions(store, d.id) == "a0 d1"
        assert (questions(store, a.id), questions(store, b.id)) == ("a0 a1 a2", "a0 a1 b2 b3")
        assert [each.turn_count for each in map(store.conversation, (a.id, b.id, c.id, d.id))] == [3, 4, 4, 2]

    def test_a_fork_without_a_place_begins_at_the_end(self, store: TurnStore) -> None:
        main = store.create_conversation()
        assert store.fork(main.id).forked_at == -1
        turns = add_turns(store, main.id, "0", "1", "2")
        store.delete_turn(turns[2].id)
        fork = store.fork(main.id)
        assert (fork.forked_at, add_turns(store, fork.id, "next")[0].order) == (1, 2)
        assert add_turns(store, main.id, "3")[0].order == 3
        empty = store.fork(main.id, at=-1)
        assert (empty.turn_count, add_turns(store, empty.id, "first")[0].order) == (0, 0)

    def test_a_fork_needs_a_place_that_is_there_and_a_free_name(self, store: TurnStore) -> None:
        main = store.create_conversation(name="main")
        turns = add_turns(store, main.id, "0", "1")
        store.delete_turn(turns[0].id)
        for at in (0, 2, -2):
            with pytest.raises(NotFound, match=f"no turn {at + 1} "):
                store.fork(main.id, at=at)
        with pytest.raises(ConversationMismatch):
            store.fork(main.id, name="main")
        with pytest.raises(NotFound, match="nowhere"):
            store.fork("nowhere")
        assert len(store.conversations()) == 1

    def test_what_is_shared_is_the_same_turn(self, store: TurnStore) -> None:
        main = store.create_conversation()
        first, second = add_turns(store, main.id, "0", "1")
        fork = store.fork(main.id)
        edited = store.edit_turn(replace(first, user_query=new_turn("edited").user_query))
        assert store.update_marks(fork.id, "seen", ids=[first.id]) == 1
        assert store.turns(main.id)[0] == store.turns(fork.id)[0] == replace(edited, marks=("seen",))
        assert edited.conversation_id == main.id
        assert store.delete_turn(second.id)
        assert questions(store, main.id) == questions(store, fork.id) == "edited"

    def test_messages_are_inherited_too(self, store: TurnStore) -> None:
        main = store.create_conversation()
        store.add_messages([Message("m0")], conversation=main.id)
        add_turns(store, main.id, "t1")
        store.add_messages([Message("m2")], conversation=main.id)
        fork = store.fork(main.id, at=0)
        assert (contents(store, fork.id), questions(store, fork.id)) == (["m0"], "")
        (added,) = store.add_messages([Message("f1")], conversation=fork.id)
        assert (added.order, contents(store, fork.id), contents(store, main.id)) == (
            1,
            ["m0", "f1"],
            ["m0", "m2"],
        )

    # ---- rewind

    def test_a_rewind_takes_back_what_came_after(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turns = add_turns(store, here.id, "0", "1", "2", "3")
        store.add_messages([Message("m4")], conversation=here.id)
        assert store.rewind(here.id, to=1) == 2
        assert (questions(store, here.id), contents(store, here.id)) == ("0 1", [])
        assert store.rewind(here.id, to=1) == 0 and store.rewind(here.id, to=99) == 0
        with pytest.raises(NotFound):
            store.turn(turns[2].id)
        assert add_turns(store, here.id, "5")[0].order == 5
        assert store.append(turns[3], conversation=here.id).order == 6  # its id is free again
        assert store.rewind(here.id, to=-1) == 4
        assert (questions(store, here.id), store.conversation(here.id).turn_count) == ("", 0)
        with pytest.raises(ValueError, match="-2"):
            store.rewind(here.id, to=-2)
        with pytest.raises(NotFound):
            store.rewind("nowhere", to=0)

    def test_turns_added_meanwhile_are_not_removed(self, store: TurnStore) -> None:
        main = store.create_conversation(name="main")
        with pytest.raises(ConversationChanged, match="its last turn is none, not t"):
            store.rewind(main.id, to=-1, last_turn="t")
        assert store.rewind(main.id, to=-1, last_turn="") == 0
        turns = add_turns(store, main.id, "0", "1", "2")
        store.add_messages([Message("no turn")], conversation=main.id)
        for expected in ("", turns[1].id, "t"):
            with pytest.raises(ConversationChanged) as caught:
                store.rewind(main.id, to=1, last_turn=expected)
            assert (caught.value.expected, caught.value.found) == (expected, turns[2].id)
            with pytest.raises(ConversationChanged, match="nothing was removed"):
                store.delete_conversation(main.id, last_turn=expected)
        assert (questions(store, main.id), contents(store, main.id)) == ("0 1 2", ["no turn"])
        fork = store.fork(main.id, at=1)
        with pytest.raises(ConversationChanged):
            store.rewind(fork.id, to=0, last_turn=turns[2].id)
        assert store.rewind(fork.id, to=0, last_turn=turns[1].id) == 1
        assert store.rewind(main.id, to=1, last_turn=turns[2].id) == 1
        assert store.delete_conversation(main.id, last_turn=turns[1].id) == 2
        with pytest.raises(NotFound):
            store.rewind(main.id, to=0, last_turn="")
        with pytest.raises(NotFound):
            store.delete_conversation(main.id, last_turn="")

    def test_a_fork_keeps_what_its_parent_takes_back(self, store: TurnStore) -> None:
        main = store.create_conversation()
        add_turns(store, main.id, "0", "1", "2", "3", "4")
        fork = store.fork(main.id, at=3)
        assert store.rewind(main.id, to=1) == 3
        assert add_turns(store, main.id, "again")[0].order == 5
        assert (questions(store, main.id), questions(store, fork.id)) == (
            "0 1 again",
            "0 1 2 3",
        )
        assert store.citing() == [] and store.matching([]).items == 5  # 4 is gone
        assert store.rewind(main.id, to=0) == 2
        assert add_turns(store, main.id, "third")[0].order == 6
        late = store.fork(main.id, at=6)
        assert questions(store, late.id) == questions(store, main.id) == "0 third"
        assert store.delete_conversation(fork.id) == 4
        assert store.matching([]).items == 2
        assert questions(store, main.id) == "0 third"

    def test_a_fork_is_rewound_into_what_it_inherited(self, store: TurnStore) -> None:
        main = store.create_conversation()
        add_turns(store, main.id, "0", "1", "2")
        fork = store.fork(main.id)
        add_turns(store, fork.id, "f3", "f4")
        assert store.rewind(fork.id, to=0) == 4
        assert add_turns(store, fork.id, "f5")[0].order == 5
        assert (questions(store, fork.id), questions(store, main.id)) == ("0 f5", "0 1 2")
        assert store.rewind(fork.id, to=-1) == 2
        assert (questions(store, fork.id), questions(store, main.id)) == ("", "0 1 2")

    def test_clearing_takes_back_everything_and_the_conversation_stays(self, store: TurnStore) -> None:
        main = store.create_conversation(name="main")
        add_turns(store, main.id, "0", "1")
        store.add_messages([Message("m2"), Message("m3")], conversation=main.id)
        fork = store.fork(main.id, at=2)
        assert store.clear(main.id) == 4
        assert store.clear(main.id) == 0
        assert (store.turns(main.id), store.messages(main.id)) == ([], [])
        assert (questions(store, fork.id), contents(store, fork.id)) == ("0 1", ["m2"])
        assert add_turns(store, store.conversation("main").id, "4")[0].order == 4
        with pytest.raises(NotFound):
            store.clear("nowhere")

    # ---- deleted parents

    def test_a_fork_outlives_its_parent(self, store: TurnStore) -> None:
        main = store.create_conversation()
        turns = add_turns(store, main.id, "0", "1", "2")
        fork = store.fork(main.id, at=1)
        assert store.delete_conversation(main.id) == 3
        assert store.turns(fork.id) == turns[:2]
        assert store.conversation(fork.id).parent == main.id
        assert store.turn(turns[0].id) == turns[0]
        with pytest.raises(NotFound):
            store.turn(turns[2].id)
        grandchild = store.fork(fork.id, at=0)
        assert store.delete_conversation(fork.id) == 2
        assert store.turns(grandchild.id) == turns[:1]
        assert store.delete_conversation(grandchild.id) == 1
        with pytest.raises(NotFound):
            store.turn(turns[0].id)

    def test_a_fork_outlives_a_parent_that_expires(self, store: TurnStore, clock: SteppedClock) -> None:
        main = store.create_conversation(ttl_s=600)
        add_turns(store, main.id, "0", "1")
        clock.advance(400)
        fork = store.fork(main.id, at=0)
        clock.advance(400)
        assert [each.id for each in store.conversations()] == [fork.id]
        assert questions(store, fork.id) == "0" and store.matching([]).items == 1
        add_turns(store, fork.id, "1")
        clock.advance(500)
        assert questions(store, fork.id) == "0 1"

    def test_a_fork_keeps_what_keep_last_takes_from_its_parent(self, store: TurnStore) -> None:
        main = store.create_conversation(keep_last=2)
        add_turns(store, main.id, "0", "1")
        fork = store.fork(main.id)
        add_turns(store, main.id, "2", "3")
        add_turns(store, fork.id, "f2")
        assert (questions(store, main.id), questions(store, fork.id)) == ("2 3", "1 f2")
        assert store.matching([]).items == 4  # 0 is shown by neither

    def test_what_keep_last_took_after_the_fork_takes_nothing_from_it(self, store: TurnStore) -> None:
        main = store.create_conversation(keep_last=2)
        store.add_messages([Message("hello")], conversation=main.id)
        for n in range(3):
            store.append(new_turn(f"q{n}"), conversation=main.id)
        fork = store.fork(main.id, at=0)
        for n in range(2):
            store.append(new_turn(f"f{n}"), conversation=fork.id)
        assert [turn.order for turn in store.turns(fork.id)] == [1, 2]
        assert store.conversation(fork.id).turn_count == 2

    def test_many_forks_and_undos_stay_right(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "0", "1")
        for n in range(30):
            fork = store.fork(here.id)
            add_turns(store, here.id, f"gone{n}")
            assert store.rewind(here.id, to=1) == 1
            add_turns(store, fork.id, f"fork{n}")
            assert questions(store, fork.id) == f"0 1 fork{n}"
        assert questions(store, here.id) == "0 1"
        assert add_turns(store, here.id, "end")[0].order == 32
