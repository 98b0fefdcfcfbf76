"""Contract tests of `MemoryStore`: subclass the class and define a `store` fixture.

class TestMyStore(MemoryStoreContract):
    @pytest.fixture
    def store(self, clock: SteppedClock) -> Iterator[MemoryStore]:
        ...  # empty, created with `clock=clock`

The clock starts on 1 January 2026 and only moves by `clock.advance`: a server that expires keys by its own
clock must be given a duration, not a time (tests take less time than the shortest `ttl_s`, 600 s).
`other_store`, a second fixture, is another empty store of the same kind with the same clock (without it the
tests of dump and restore are skipped).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from rag.errors import ConversationMismatch, NotFound
from rag.ports import Grouping, MemoryStore
from rag.types import Message
from tests.contracts.clock import SteppedClock
from tests.contracts.messages import MessagesContract
from tests.contracts.records import RecordsContract
from tests.contracts.sample_turns import (
    add_turns,
    contents,
    full_message,
    full_turn,
    new_turn,
    questions,
)
from tests.contracts.store_moves import StoreMovesContract
from tests.contracts.turn_branches import TurnBranchesContract
from tests.contracts.turn_marks import TurnMarksContract
from tests.contracts.turn_search import TurnSearchContract
from tests.contracts.turn_store import TurnStoreContract


class GroupingContract:
    """The contract of a store that implements `Grouping`."""

    def test_calls_done_together_keep_no_reader_waiting(self, store: MemoryStore) -> None:
        if not isinstance(store, Grouping):
            pytest.skip("this store has no `together`")
        here = store.create_conversation(name="here")
        first = store.append(new_turn("first"), conversation=here.id)
        with ThreadPoolExecutor(1) as pool:
            with store.together():
                second = store.append(new_turn("second"), conversation=here.id)
                read: list[Future[Any]] = [
                    pool.submit(store.turns, here.id),
                    pool.submit(lambda: store.conversation("here").turn_count),
                    pool.submit(lambda: store.matching(["second"]).holders),
                ]
                assert [one.result(timeout=60) for one in read] == [[first], 1, (0,)]
                assert store.turns(here.id) == [first, second]
            assert pool.submit(store.turns, here.id).result(timeout=60) == [first, second]


class DivergencesContract:
    """Eleven cases in which the memories of AgentScope 1.0 differ from each other; here all stores agree."""

    def test_the_size_before_the_first_message_is_0(self, store: MemoryStore) -> None:
        assert store.conversation(store.create_conversation().id).message_count == 0

    def test_the_same_id_twice_in_one_call_is_stored_once(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("one", id="same"), Message("two", id="same")], conversation=here.id)
        assert contents(store, here.id) == ["one"]

    def test_deleting_an_unknown_id_counts_0(self, store: MemoryStore) -> None:
        assert store.delete_messages(["nope"], conversation=store.create_conversation().id) == 0

    def test_deleting_by_two_marks_counts_a_holder_of_both_once(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("both", marks=("x", "y"))], conversation=here.id)
        assert store.delete_by_mark(here.id, ["x", "y"]) == 1

    def test_adding_a_mark_that_is_there_changes_nothing(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("m", marks=("x",))], conversation=here.id)
        assert store.update_marks(here.id, "x") == 0

    def test_messages_come_in_the_order_they_came_however_late_they_were_marked(
        self, store: MemoryStore
    ) -> None:
        here = store.create_conversation()
        added = store.add_messages([Message(n) for n in range(3)], conversation=here.id)
        for message in reversed(added):
            store.update_marks(here.id, "x", ids=[message.id])
        assert contents(store, here.id, mark="x") == [0, 1, 2]

    def test_replacing_a_mark_by_itself_keeps_it_and_counts_0(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("m", marks=("a",))], conversation=here.id)
        assert store.update_marks(here.id, "a", old="a") == 0
        assert store.messages(here.id)[0].marks == ("a",)

    def test_replacing_a_mark_where_the_new_one_is_counts_1(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("m", marks=("a", "b"))], conversation=here.id)
        assert store.update_marks(here.id, "b", old="a") == 1
        assert store.messages(here.id)[0].marks == ("b",)

    def test_updating_no_mark_to_no_mark_is_refused(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("m", marks=("a",))], conversation=here.id)
        with pytest.raises(ValueError, match="mark"):
            store.update_marks(here.id, None, old=None)
        assert store.messages(here.id)[0].marks == ("a",)

    def test_clearing_leaves_nothing_of_what_was_said(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message("token")], conversation=here.id)
        assert store.clear(here.id) == 1
        assert (store.messages(here.id), store.matching(["token"]).items) == ([], 0)

    def test_two_users_of_one_conversation_name_are_apart(self, store: MemoryStore) -> None:
        for user in ("alice", "bob", "a-b", "a"):
            here = store.create_conversation(namespace=user, name="b-c" if user == "a" else "c")
            store.add_messages([Message(user, id="same")], conversation=here.id, namespace=user)
        for user in ("alice", "bob", "a-b", "a"):
            (here,) = store.conversations(namespace=user)
            assert contents(store, here.id, namespace=user) == [user]


class NamespacesContract:
    """No call sees or changes anything in another namespace."""

    def test_no_call_reaches_into_another_namespace(self, store: MemoryStore) -> None:
        here = store.create_conversation(namespace="ada", name="demo")
        turn = store.append(full_turn(), conversation=here.id, namespace="ada")
        (message,) = store.add_messages([full_message()], conversation=here.id, namespace="ada")
        store.put_records({"k": b"1"}, shelf="s", namespace="ada")
        before = list(store.dump(namespace="ada"))
        for namespace in ("bob", "", "ad", "ada*", "*"):
            where: dict[str, Any] = {"namespace": namespace}
            refused: list[Callable[[], Any]] = [
                lambda: store.conversation(here.id, **where),  # noqa: B023
                lambda: store.conversation("demo", **where),  # noqa: B023
                lambda: store.rename(here.id, "x", **where),  # noqa: B023
                lambda: store.fork(here.id, **where),  # noqa: B023
                lambda: store.rewind(here.id, to=-1, **where),  # noqa: B023
                lambda: store.clear(here.id, **where),  # noqa: B023
                lambda: store.delete_conversation(here.id, **where),  # noqa: B023
                lambda: store.append(new_turn("?"), conversation=here.id, **where),  # noqa: B023
                lambda: store.extend([new_turn("?")], conversation=here.id, **where),  # noqa: B023
                lambda: store.turns(here.id, **where),  # noqa: B023
                lambda: store.turn(turn.id, **where),  # noqa: B023
                lambda: store.edit_turn(turn, **where),  # noqa: B023
                lambda: store.versions(turn.id, **where),  # noqa: B023
                lambda: store.add_messages([Message("?")], conversation=here.id, **where),  # noqa: B023
                lambda: store.messages(here.id, **where),  # noqa: B023
                lambda: store.delete_messages([message.id], conversation=here.id, **where),  # noqa: B023
                lambda: store.update_marks(here.id, "x", **where),  # noqa: B023
                lambda: store.delete_by_mark(here.id, "HINT", **where),  # noqa: B023
                lambda: store.matching(["text"], conversation=here.id, **where),  # noqa: B023
                lambda: store.dump(conversations=[here.id], **where),  # noqa: B023
            ]
            for call in refused:
                with pytest.raises(NotFound):
                    call()
            assert store.conversations(**where) == [] and store.citing(**where) == []
            assert store.delete_turn(turn.id, **where) is False
            assert store.matching(["text"], **where).items == 0
            assert store.records(["k"], shelf="s", **where) == {}
            assert store.scan_records(shelf="s", **where) == []
            assert store.delete_records(shelf="s", **where) == store.count_records(shelf="s", **where) == 0
            assert store.swap_record("k", b"1", b"2", shelf="s", **where) is False
            assert list(store.dump(**where)) == []
        assert list(store.dump(namespace="ada")) == before

    def test_the_same_ids_and_names_live_in_two_namespaces(self, store: MemoryStore) -> None:
        for namespace in ("ada", "bob"):
            here = store.create_conversation(namespace=namespace, name="demo")
            store.append(new_turn(namespace, id="same"), conversation=here.id, namespace=namespace)
            store.add_messages([Message(namespace, id="m")], conversation=here.id, namespace=namespace)
            with pytest.raises(ConversationMismatch):
                store.create_conversation(namespace=namespace, name="demo")
        ada, bob = (store.conversation("demo", namespace=each) for each in ("ada", "bob"))
        assert store.update_marks(ada.id, "x", ids=["same", "m"], namespace="ada") == 2
        assert store.delete_turn("same", namespace="ada") is True
        assert (
            questions(store, bob.id, namespace="bob"),
            contents(store, bob.id, namespace="bob"),
        ) == (
            "bob",
            ["bob"],
        )
        assert store.turns(bob.id, namespace="bob", mark="x") == []
        store.delete_conversation(ada.id, namespace="ada")
        assert len(add_turns(store, bob.id, "?", namespace="bob")) == 1


class MemoryStoreContract(
    TurnStoreContract,
    TurnBranchesContract,
    TurnMarksContract,
    TurnSearchContract,
    MessagesContract,
    RecordsContract,
    GroupingContract,
    DivergencesContract,
    NamespacesContract,
    StoreMovesContract,
):
    """The contract of a memory backend."""

    @pytest.fixture
    def clock(self) -> SteppedClock:
        """The clock of the store, which only moves when a test advances it."""
        return SteppedClock()
