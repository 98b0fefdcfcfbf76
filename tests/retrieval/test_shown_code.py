"""The blocks of code and the outlines that a model is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from rag.code.languages import is_translated
from rag.database.filtering import filtered
from rag.retrieval.search import RetrievalResult, Searcher, search
from rag.retrieval.shown_code import MAX_BLOCKS, cited_code, shown_code
from rag.service import Engine
from rag.settings import Settings
from rag.types import Citation, DialogTurn, Freshness, Hit, SearchFilter, Span

TILL = """\
from rates import tax, TaxRate
from base import Desk, Basket


class Till(Desk):
    drawer: list = FREE_PLACES

    def checkout_basket(self, basket, unknown):
        \"\"\"Let a customer pay for a basket.\"\"\"
        unknown.process()
        return tax(basket) + tax(basket) + self.fee()

    def fee(self):
        return 2


def serve(till, customers):
    for customer in customers:
        till.greet(customer)
        Till().checkout_basket(customer.basket, None)
"""
LONG = "".join(f"    shelf.put({n})\n" for n in range(30))
FILES = {
    "till.py": TILL,
    "rates.py": "\ndef tax(amount):\n    return amount * 2\n\n\ndef process():\n    return 0\n",
    "limits.py": "# How many\nFREE_PLACES = 3\n",
    "base.py": "class Desk:\n    def fee(self):\n        return 1\n",
    "tests/test_till.py": "def test_checkout_basket():\n    assert checkout_basket(basket)\n",
    "examples/till.py": "def checkout_basket_of_customer(basket):\n    return basket\n",
    "docs/ja/till.md": "# checkout_basket\n\nA customer pays for a basket.\n",
    "names.py": "from base import Basket\nfrom till import checkout_basket, customer, pay\n",
    **{
        f"many/basket_{n}.py": f"def basket_{n}(shelf):\n{LONG}    shelf.pay(customer)\n{LONG}"
        for n in range(30)
    },
}
QUESTION = "How does a customer pay for a basket in `checkout_basket`?"


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    root = tmp_path_factory.mktemp("code") / "shop"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine.repository(str(root)).searcher


def found(searcher: Searcher, question: str = QUESTION) -> RetrievalResult:
    return search([searcher], question, k=12, with_further=True)


def test_blocks_are_exact_lines_and_the_best_is_the_first(searcher: Searcher) -> None:
    blocks, _, _ = shown_code([searcher], found(searcher))
    for hit in blocks:
        lines = FILES[hit.path].splitlines(keepends=True)
        assert hit.text == "".join(lines[hit.start - 1 : hit.end])
    assert (blocks[0].symbol, blocks[0].start, blocks[0].end) == ("checkout_basket", 1, 14)
    assert len([hit for hit in blocks if "call" not in hit.reason]) == MAX_BLOCKS


def test_what_the_best_hit_certainly_calls_and_who_calls_it_are_shown(searcher: Searcher) -> None:
    blocks, _, _ = shown_code([searcher], found(searcher))
    assert [(hit.place, hit.label, hit.reason) for hit in blocks if "call" in hit.reason] == [
        ("rates.py:2-3", "tax", "called by `checkout_basket` in line 11"),
        ("till.py:13-14", "Till.fee", "called by `checkout_basket` in line 11"),
        ("till.py:17-20", "serve", "calls `checkout_basket` in line 20"),
    ]


def test_later_hits_are_shown_with_the_lines_that_have_most_of_the_question(searcher: Searcher) -> None:
    blocks, _, _ = shown_code([searcher], found(searcher))
    last = blocks[-1]
    assert last.end - last.start == 5
    assert last.reason == "of lines 1-62"
    assert "shelf.pay(customer)" in last.text


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("Which tests cover `checkout_basket`?", "tests/test_till.py"),
        ("Is there an example of `checkout_basket`?", "examples/till.py"),
        ("What does names.py import for `checkout_basket`?", "names.py"),
    ],
)
def test_what_is_not_the_code_is_shown_only_if_it_is_asked_for(
    searcher: Searcher, question: str, path: str
) -> None:
    asked = found(searcher)
    assert path in {hit.path for hit in (*asked.hits, *asked.further)}
    aside = {"tests/test_till.py", "examples/till.py", "docs/ja/till.md", "names.py"}
    assert not aside & {hit.path for hit in shown_code([searcher], asked)[0]}
    assert path in {hit.path for hit in shown_code([searcher], found(searcher, question))[0]}


def test_a_place_of_one_line_has_most_of_the_question_and_no_function_has_two(searcher: Searcher) -> None:
    asked = found(searcher)
    places = shown_code([searcher], asked).places
    assert "    shelf.pay(customer)\n" in [hit.text for hit in places]
    assert len({(hit.path, hit.label) for hit in places if hit.label}) == sum(
        bool(hit.label) for hit in places
    )
    test = next(hit for hit in (*asked.hits, *asked.further) if hit.kind == "test")
    few = replace(asked, hits=(test,), further=())
    assert shown_code([searcher], few).places == []


def test_the_values_of_constants_that_the_best_hits_use_are_places(searcher: Searcher) -> None:
    asked = found(searcher, "What is the drawer of the class Till?")
    place = next(hit for hit in shown_code([searcher], asked).places if hit.path == "limits.py")
    assert (place.start, place.label, place.text) == (2, "FREE_PLACES", "FREE_PLACES = 3\n")


def test_the_best_hit_is_shown_whatever_it_is(searcher: Searcher) -> None:
    asked = found(searcher)
    test = next(hit for hit in (*asked.hits, *asked.further) if hit.kind == "test")
    blocks, _, _ = shown_code([searcher], replace(asked, hits=(test, *asked.hits), further=()))
    assert blocks[0].path == "tests/test_till.py"


def test_the_lines_that_the_last_two_turns_cite_are_shown_again_if_they_are_unchanged(
    searcher: Searcher,
) -> None:
    location = searcher.index.hit(0, 0.0, {}).location

    def turn(order: int, path: str, check: Freshness, *, used: bool = True) -> DialogTurn:
        cited = Citation(1, Span("shop", path, 2, 3), used=used, location=location)
        other = Citation(2, Span("shop", "base.py", 1, 1), used=False, location=location)
        checks = (check, Freshness("fresh"))
        return DialogTurn(order=order, citations=(cited, other), checks=checks)

    fresh, moved = Freshness("fresh"), Freshness("moved", "", "rates.py", 2, 3)
    turns = [turn(0, "till.py", fresh), turn(1, "old.py", moved), turn(2, "many/basket_1.py", fresh)]
    found = cited_code([searcher], turns)
    assert [(hit.place, hit.reason) for hit in found] == [
        ("many/basket_1.py:2-3", "cited in turn 3"),
        ("rates.py:2-3", "cited in turn 2"),
    ]
    assert found[1].text == "def tax(amount):\n    return amount * 2\n"
    for check in (Freshness("changed"), Freshness("gone"), Freshness("unknown")):
        assert cited_code([searcher], [turn(0, "rates.py", check)]) == []
    assert cited_code([searcher], [turn(0, "gone.py", fresh)]) == []


def test_lines_of_earlier_answers_come_after_the_best_hits(searcher: Searcher) -> None:
    carried = Hit(Span("shop", "base.py", 1, 3), FILES["base.py"], 0.0, reason="cited in turn 1")
    blocks, _, _ = shown_code([searcher], found(searcher), [carried])
    assert blocks.index(carried) == 5


def test_outlines_name_the_definitions_of_hits_with_their_lines(searcher: Searcher) -> None:
    _, _, outlines = shown_code([searcher], found(searcher))
    (till,) = [one for one in outlines if one.path == "till.py"]
    assert [(one.start, one.end, one.name) for one in till.definitions] == [
        (8, 11, "Till.checkout_basket"),
        (13, 14, "Till.fee"),
        (17, 20, "serve"),
    ]
    assert 4 < len(outlines) <= 4 + 16
    assert len({one.path for one in outlines}) == len(outlines)


def test_a_question_about_the_whole_has_the_outlines_of_the_most_used_files(searcher: Searcher) -> None:
    _, _, outlines = shown_code([searcher], found(searcher, "How does this project work?"))
    assert outlines[0].path == "till.py"
    assert len(outlines) < 10


def test_files_that_are_not_searched_are_not_shown(searcher: Searcher) -> None:
    only = replace(searcher, index=filtered(searcher.index, SearchFilter(paths=("/till.py",))))
    blocks, _, outlines = shown_code([only], found(only))
    assert {hit.path for hit in blocks} == {one.path for one in outlines} == {"till.py"}


def test_a_repository_of_nothing_but_generated_code_is_shown(searcher: Searcher) -> None:
    asked = found(searcher)
    dist = tuple(
        replace(hit, span=replace(hit.span, path=f"dist/{n}.js")) for n, hit in enumerate(asked.hits)
    )
    code = [hit for hit in (*asked.hits, *asked.further) if hit.path.startswith("many/")]
    mixed = (*code[:5], *dist)
    assert not {hit.path for hit in dist} & _paths(searcher, replace(asked, hits=mixed, further=()))
    assert {hit.path for hit in dist} == _paths(searcher, replace(asked, hits=dist, further=()))


def _paths(searcher: Searcher, found: RetrievalResult) -> set[str]:
    return {hit.path for hit in shown_code([searcher], found)[0] if "call" not in hit.reason}


def test_nothing_found_shows_nothing(searcher: Searcher) -> None:
    assert shown_code([searcher], replace(found(searcher), hits=(), further=())) == ([], [], [])
    assert shown_code([], replace(found(searcher), hits=(), further=())) == ([], [], [])


@pytest.mark.parametrize("path", ["docs/ja/index.md", "README.zh-CN.md", "i18n/pt-br/a.rst", "CHANGES.ru"])
def test_translations_are_recognized_by_their_path(path: str) -> None:
    assert is_translated(path)


@pytest.mark.parametrize("path", ["docs/index.md", "README.md", "do-it.md", "france/a.md", "docs/de.md"])
def test_other_documents_are_no_translations(path: str) -> None:
    assert not is_translated(path)
