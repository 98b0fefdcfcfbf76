"""Contract tests of `RecordStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.ports import RecordStore
from tests.contracts.clock import SteppedClock


class RecordsContract:
    """The contract of every store for records."""

    def test_records_come_back_in_the_order_asked(self, store: RecordStore) -> None:
        values = {"b": b"", "": bytes(range(256)), "北京\0\udcff": b"x" * 1_048_576}
        store.put_records(values, shelf="s")
        assert store.records(["北京\0\udcff", "none", "b", ""], shelf="s") == values
        assert list(store.records(["b", "none", ""], shelf="s")) == ["b", ""]
        assert store.records([], shelf="s") == {}
        assert store.has_records(["none", "b", "", "北京\0\udcff"], shelf="s") == values.keys()
        assert store.has_records(list(values), shelf="another") == store.has_records([], shelf="s") == set()
        store.put_records({"b": b"other"}, shelf="s")
        store.put_records({}, shelf="s")
        assert (store.records(["b"], shelf="s"), store.count_records(shelf="s")) == ({"b": b"other"}, 3)

    def test_records_are_scanned_by_the_beginning_of_their_keys(self, store: RecordStore) -> None:
        keys = ["a", "a%", "a%b", "aa", "a_", "a*", "b", "B", "é", "\U0001f600", "\uffff", "a\U0010ffff", ""]
        store.put_records({key: key.encode() for key in keys}, shelf="s")
        for prefix in ("", "a", "a%", "a_", "a*", "a\U0010ffff", "\U0001f600", "z"):
            expected = [(key, key.encode()) for key in sorted(keys) if key.startswith(prefix)]
            assert store.scan_records(shelf="s", prefix=prefix) == expected
        assert store.scan_records(shelf="another") == []

    def test_deleting_records_counts_those_that_were_there(self, store: RecordStore) -> None:
        store.put_records({str(n): b"x" for n in range(5)}, shelf="s")
        assert store.delete_records(["0", "0", "1", "unknown"], shelf="s") == 2
        assert store.delete_records([], shelf="s") == 0
        assert store.delete_records(shelf="s") == 3
        assert (store.delete_records(shelf="s"), store.count_records(shelf="s")) == (0, 0)

    def test_any_number_of_keys_is_taken(self, store: RecordStore) -> None:
        store.put_records({f"k{n:05}": b"%d" % n for n in range(3000)}, shelf="s")
        keys = [f"k{n:05}" for n in range(35_000)]
        assert len(store.records(keys, shelf="s")) == store.count_records(shelf="s") == 3000
        assert len(store.has_records(keys, shelf="s")) == 3000
        assert store.delete_records(keys, shelf="s") == 3000

    def test_a_record_expires(self, store: RecordStore, clock: SteppedClock) -> None:
        store.put_records({"gone": b"1", "renewed": b"1", "kept": b"1"}, shelf="s", ttl_s=600)
        store.put_records({"ever": b"1"}, shelf="s")
        clock.advance(599.5)
        assert store.count_records(shelf="s") == 4
        store.put_records({"renewed": b"2"}, shelf="s", ttl_s=600)
        store.put_records({"kept": b"2"}, shelf="s")
        clock.advance(0.5)
        assert store.records(["gone", "ever", "kept", "renewed"], shelf="s") == {
            "ever": b"1",
            "kept": b"2",
            "renewed": b"2",
        }
        assert store.has_records(["gone", "ever"], shelf="s") == {"ever"}
        assert [key for key, _ in store.scan_records(shelf="s")] == ["ever", "kept", "renewed"]
        assert store.count_records(shelf="s") == 3
        assert store.delete_records(["gone"], shelf="s") == 0
        assert store.swap_record("gone", b"1", b"2", shelf="s") is False
        assert store.append_record("gone", b"new", shelf="s") == 3
        clock.advance(6000)
        assert store.records(["gone", "renewed"], shelf="s") == {"gone": b"new"}
        for bad in (0, -1.0, 1e18, float("inf")):
            with pytest.raises(ValueError, match="ttl_s"):
                store.put_records({"a": b""}, shelf="s", ttl_s=bad)

    def test_an_expiry_goes_on_when_a_record_is_changed(
        self, store: RecordStore, clock: SteppedClock
    ) -> None:
        store.put_records({"swap": b"1", "append": b"1", "count": b"1"}, shelf="s", ttl_s=600)
        clock.advance(300)
        assert store.swap_record("swap", b"1", b"2", shelf="s") is True
        assert store.append_record("append", b"2", shelf="s") == 2
        assert store.increment_record("count", 4, shelf="s") == 5
        clock.advance(299)
        assert store.records(["swap", "append", "count"], shelf="s") == {
            "swap": b"2",
            "append": b"12",
            "count": b"5",
        }
        clock.advance(1)
        assert store.count_records(shelf="s") == 0
        assert store.increment_record("count", shelf="s") == 1
        clock.advance(10_000)
        assert store.records(["count"], shelf="s") == {"count": b"1"}

    def test_a_swap_happens_only_from_what_was_expected(self, store: RecordStore) -> None:
        assert store.swap_record("k", b"", b"1", shelf="s") is False
        assert store.swap_record("k", None, b"", shelf="s") is True
        assert store.swap_record("k", None, b"1", shelf="s") is False
        assert store.swap_record("k", b"", b"\0\xff", shelf="s") is True
        assert store.records(["k"], shelf="s") == {"k": b"\0\xff"}
        assert store.swap_record("k", b"\0", None, shelf="s") is False
        assert store.swap_record("k", b"\0\xff", None, shelf="s") is True
        assert store.swap_record("k", None, None, shelf="s") is True
        assert store.count_records(shelf="s") == 0

    def test_appending_begins_with_nothing(self, store: RecordStore) -> None:
        assert store.append_record("k", b"\0a", shelf="s") == 2
        assert store.append_record("k", b"", shelf="s") == 2
        assert store.append_record("k", b"\xffb", shelf="s") == 4
        assert store.records(["k"], shelf="s") == {"k": b"\0a\xffb"}

    def test_counting_begins_at_0_and_refuses_what_is_no_number(self, store: RecordStore) -> None:
        assert [store.increment_record("k", by, shelf="s") for by in (1, 41, -50, 0)] == [1, 42, -8, -8]
        assert store.records(["k"], shelf="s") == {"k": b"-8"}
        most = 2**63 - 1
        assert store.increment_record("most", most, shelf="s") == most
        for value in (b"", b"x", b"1.5", b"+1", b" 1", b"01", b"-0"):
            store.put_records({"bad": value}, shelf="s")
            with pytest.raises(ValueError, match="number"):
                store.increment_record("bad", shelf="s")
            assert store.records(["bad"], shelf="s") == {"bad": value}
        with pytest.raises(ValueError, match="64 bits"):
            store.increment_record("most", shelf="s")

    def test_shelves_and_namespaces_are_apart(self, store: RecordStore) -> None:
        places = [("s", ""), ("s", "ada"), ("t", ""), ("a:b", "c"), ("b", "c:a"), ("", "")]
        for n, (shelf, namespace) in enumerate(places):
            store.put_records({"k": b"%d" % n, "shared": b""}, shelf=shelf, namespace=namespace)
        for n, (shelf, namespace) in enumerate(places):
            assert store.records(["k"], shelf=shelf, namespace=namespace) == {"k": b"%d" % n}
            assert store.count_records(shelf=shelf, namespace=namespace) == 2
        assert store.delete_records(shelf="s", namespace="ada") == 2
        assert store.count_records(shelf="s") == 2

    def test_threads_count_and_swap_without_loss(self, store: RecordStore) -> None:
        def work(n: int) -> bool:
            store.increment_record("count", shelf="s")
            store.append_record("log", b"%d" % (n % 10), shelf="s")
            return store.swap_record("first", None, b"%d" % n, shelf="s")

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(work, range(60)))
        found = store.records(["count", "log"], shelf="s")
        assert (found["count"], len(found["log"]), won.count(True)) == (b"60", 60, 1)
