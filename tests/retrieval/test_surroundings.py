"""What a prompt with room shows in addition to the hits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rag.database.filtering import filtered
from rag.retrieval.search import FURTHER_HITS, RetrievalResult, Searcher, search
from rag.retrieval.surroundings import called, class_heads, surroundings, used_imports
from rag.service import Engine
from rag.settings import Settings
from rag.types import Hit, SearchFilter

TILL = '''\
from rates import tax
from base import Desk


class Till(Desk):
    """Where customers pay."""

    currency = "EUR"
    drawer: list

    def __init__(self, drawer):
        self.drawer = drawer

    def other(self):
__LONG__
    def checkout_basket(self, basket, unknown):
        """Let a customer pay for a basket."""
        unknown.process()
        long(basket)
        return tax(basket) + tax(basket) + self.fee()

    def fee(self):
        return 2


def long(basket):
'''
LONG = "".join(f"        self.drawer.put({n})\n" for n in range(70))
TILL = TILL.replace("__LONG__", LONG) + LONG
FILES = {
    "till.py": TILL,
    "rates.py": "\ndef tax(amount):\n    return amount * 2\n\n\ndef process():\n    return 0\n",
    "base.py": "class Desk:\n    def fee(self):\n        return 1\n",
    **{f"many/basket_{n}.py": f"def basket_{n}(customer):\n    return {n}\n" for n in range(80)},
}


@pytest.fixture
def searcher(tmp_path: Path) -> Iterator[Searcher]:
    root = tmp_path / "shop"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine.repository(str(root)).searcher


def best(searcher: Searcher) -> RetrievalResult:
    found = search(
        [searcher], "How does a customer pay for a basket in `checkout_basket`?", k=1, with_further=True
    )
    assert found.hits[0].symbol == "checkout_basket"
    return found


def places(hits: Iterator[Hit]) -> list[tuple[str, int, int, str]]:
    found = list(hits)
    for hit in found:
        lines = FILES[hit.path].splitlines(keepends=True)
        assert hit.text == "".join(lines[hit.start - 1 : hit.end])
    return [(hit.path, hit.start, hit.end, hit.label) for hit in found]


def test_what_the_best_hit_certainly_calls_is_found_once_in_the_order_of_its_lines(
    searcher: Searcher,
) -> None:
    found = list(called([searcher], best(searcher).hits))
    assert places(iter(found)) == [("rates.py", 2, 3, "tax"), ("till.py", 92, 93, "Till.fee")]
    assert found[0].reason == "called by `checkout_basket` in line 90"
    assert (found[0].unit, found[0].blob != "", found[0].repo) == ("function", True, "shop")


def test_the_head_of_the_class_has_its_bases_and_fields_and_its_constructor(searcher: Searcher) -> None:
    found = list(class_heads([searcher], best(searcher).hits))
    assert places(iter(found)) == [("till.py", 5, 9, "Till"), ("till.py", 11, 12, "Till.__init__")]
    assert {hit.reason for hit in found} == {"class of `checkout_basket`"}


def test_the_imports_that_the_best_hit_uses_are_found(searcher: Searcher) -> None:
    found = list(used_imports([searcher], best(searcher).hits))
    assert places(iter(found)) == [("till.py", 1, 1, "")]
    assert found[0].reason == "imports used in lines 86-90"


def test_the_next_hits_come_first_each_once(searcher: Searcher) -> None:
    found = best(searcher)
    every = list(surroundings([searcher], found))
    assert tuple(every[: len(found.further)]) == found.further
    assert len(found.further) == FURTHER_HITS - 1
    assert len({(hit.path, hit.start) for hit in (*found.hits, *found.further)}) == FURTHER_HITS


def test_files_that_are_not_searched_are_not_shown(searcher: Searcher) -> None:
    only = replace(searcher, index=filtered(searcher.index, SearchFilter(paths=("till.py",))))
    shown = list(surroundings([only], best(only)))
    assert {hit.path for hit in shown} == {"till.py"}


def test_documents_and_nothing_have_no_surroundings(searcher: Searcher) -> None:
    found = best(searcher)
    doc = replace(found.hits[0], kind="doc")
    assert list(surroundings([searcher], replace(found, hits=(doc,), further=()))) == []
    assert list(surroundings([searcher], replace(found, hits=(), further=()))) == []
    assert list(surroundings([], replace(found, further=()))) == []
