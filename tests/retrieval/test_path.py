"""How one definition leads to another is answered by a chain of calls, each with its lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.search import search
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer

PYTHON = {
    "bakery/orders.py": '''
from bakery.oven import bake_loaf
from bakery.log import write_log


def accept_order(order):
    """Accept an order and see that the loaf gets baked."""
    write_log(order)
    check_order(order)
    return bake_loaf(order.flour)


def check_order(order):
    """Check that the order names a flour."""
    if not order.flour:
        raise ValueError("the order names no flour")
''',
    "bakery/oven.py": '''
def bake_loaf(flour):
    """Bake a loaf: the oven is heated, then the dough goes in."""
    heat_oven(220)
    return [flour]


def heat_oven(degrees):
    """Heat the oven."""
    return degrees
''',
    "bakery/log.py": "def write_log(entry):\n    print(entry)\n",
}
SHOP = """
from bakery.orders import accept_order


class Shop:
    def open(self, order, door):
        door.close()
        return accept_order(order)


class Door:
    def close(self):
        return True
"""
JAVASCRIPT = {
    "lib/parcel.js": """
const { printLabel } = require('./label');

function shipParcel(parcel) {
  weighParcel(parcel);
  return printLabel(parcel);
}

function weighParcel(parcel) {
  return parcel.items.length;
}

module.exports = { shipParcel };
""",
    "lib/label.js": """
function printLabel(parcel) {
  return 'label of ' + parcel.name;
}

module.exports = { printLabel };
""",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine


def written(folder: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("How does accept_order get to heat_oven?", ["accept_order", "bake_loaf", "heat_oven"]),
        ("What happens between accept_order and `heat_oven`?", ["accept_order", "bake_loaf", "heat_oven"]),
        ("What is called from bake_loaf until heat_oven?", ["bake_loaf", "heat_oven"]),
        ("How does open get to heat_oven?", ["Shop.open", "accept_order", "bake_loaf", "heat_oven"]),
        ("How does `Shop.open` get to `Door.close`?", None),  # possibly, through an interface
        ("How does an order get from the mill to the bank?", None),
        ("How does heat_oven get to accept_order?", None),
        ("How does nothing get to heat_oven?", None),
    ],
)
def test_two_names_are_joined_by_the_shortest_chain_of_calls(
    tmp_path: Path, engine: Engine, question: str, steps: list[str] | None
):
    shop = {"bakery/shop.py": SHOP}
    searcher = engine.repository(written(tmp_path / "shop", PYTHON | shop)).searcher
    found = search([searcher], question).code_facts
    if steps is None:
        assert found is None
        return
    assert found is not None
    assert found.summary == f"From `{steps[0]}` to `{steps[-1]}` in {len(steps)} steps"
    assert [
        name for item in found.items for name in steps if f"def {name.split('.')[-1]}(" in item.text
    ] == steps
    assert all(item.certain for item in found.items)


def test_the_answer_lists_the_steps(tmp_path: Path, engine: Engine):
    dialog = Dialog(engine, [engine.repository(written(tmp_path / "parcels", JAVASCRIPT))])
    question = "How does shipParcel get to printLabel?"
    *_, answer = converse(dialog, question, ExtractiveGenerator())
    assert isinstance(answer, Answer)
    lines = answer.text.splitlines()
    assert lines[0] == "From `shipParcel` to `printLabel` in 2 steps:"
    assert lines[2] == "- `shipParcel` — `lib/parcel.js:4-7` [1] — begins here"
    assert "`lib/label.js:2-4`" in lines[3] and "called by shipParcel in line 6" in lines[3]
