"""What happens from one place to another is answered by a chain of calls, each with its lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.kinds.recognition import kinds_of
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


def test_the_steps_are_in_the_order_of_the_calls_with_their_lines(tmp_path: Path, engine: Engine):
    searcher = engine.repository(written(tmp_path / "bakery", PYTHON)).searcher
    found = search([searcher], "What happens from accepting an order until the oven is heated?").code_facts
    assert found is not None
    assert (found.kind, found.subject) == ("trace", "accept_order")
    steps = [(item.path, item.start, item.end, item.reason) for item in found.items]
    assert steps == [
        ("bakery/orders.py", 6, 10, "begins here"),
        ("bakery/orders.py", 13, 16, "called by accept_order in line 9"),
        ("bakery/oven.py", 2, 5, "called by accept_order in line 10"),
        ("bakery/oven.py", 8, 10, "called by bake_loaf in line 4"),
    ]
    assert found.summary == "From `accept_order` to `heat_oven` in 4 steps"
    assert not found.complete and found.note


def test_the_answer_lists_the_steps(tmp_path: Path, engine: Engine):
    dialog = Dialog(engine, [engine.repository(written(tmp_path / "parcels", JAVASCRIPT))])
    question = "Follow a parcel from shipping until its label is printed."
    *_, answer = converse(dialog, question, ExtractiveGenerator())
    assert isinstance(answer, Answer)
    lines = answer.text.splitlines()
    assert lines[0] == "From `shipParcel` to `printLabel` in 2 steps:"
    assert lines[2].startswith("- `lib/parcel.js:4-7` [1] `function shipParcel(parcel) {` — begins here")
    assert lines[3].startswith("- `lib/label.js:2-4`") and "called by shipParcel in line 6" in lines[3]


def test_without_a_call_that_fits_the_search_answers(tmp_path: Path, engine: Engine):
    files = {"heat.py": "def heat_oven(degrees):\n    return degrees\n"}
    searcher = engine.repository(written(tmp_path / "oven", files)).searcher
    found = search([searcher], "What happens step by step when the oven is heated?")
    assert found.code_facts is None and found.hits == found.ranked


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("What happens from a call of render() until the page is there?", True),
        ("Walk me through one request.", True),
        ("Follow a file through an upload.", True),
        ("which steps lead from parsing to the answer", True),
        ("How does the client follow a redirect?", False),
        ("Which code forbids a redirect from https to a file address?", False),
        ("What happens if the file is missing?", False),
        ("Where is the trace id set?", False),
        ("", False),
    ],
)
def test_what_asks_for_a_chain(question: str, is_asked: bool):
    assert ("trace" in kinds_of(question)) == is_asked
