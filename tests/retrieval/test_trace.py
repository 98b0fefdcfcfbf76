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
    assert found.summary == "From `accept_order` to `heat_oven` in 3 steps; 1 other call fits"
    assert not found.complete and found.note


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("How does accept_order get to heat_oven?", ["accept_order", "bake_loaf", "heat_oven"]),
        ("What happens between accept_order and `heat_oven`?", ["accept_order", "bake_loaf", "heat_oven"]),
        ("What is called from bake_loaf until heat_oven?", ["bake_loaf", "heat_oven"]),
        ("How does open get to heat_oven?", ["Shop.open", "accept_order", "bake_loaf", "heat_oven"]),
        ("How does open get to close?", ["Shop.open", "Door.close"]),
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
    assert [item.certain for item in found.items] == [True, "Door.close" not in steps, True, True][
        : len(steps)
    ]


FLOW = {
    "app/main.py": """
from app.reading import read_stdin
from app.checking import check_rows
from app.writing import write_report


def run(options):
    rows = read_stdin(options.encoding)
    problems = check_rows(rows, options)
    finish(problems, options)


def finish(problems, options):
    write_report(problems, options.out)


def again(options):
    write_report([], options.out)
    return read_stdin(options.encoding)
""",
    "app/reading.py": '''
def read_stdin(encoding):
    """Read the rows from the standard input."""
    return [split_row(line) for line in sys.stdin]


def split_row(line):
    return line.split(",")
''',
    "app/checking.py": "def check_rows(rows, options):\n    return [row for row in rows if not row[0]]\n",
    "app/writing.py": '''
def write_report(problems, out):
    """Write the report with a line for each problem."""
    for problem in problems:
        out.write(problem)
''',
}


@pytest.mark.parametrize(
    "question",
    [
        "How do rows get from the standard input to the report?",
        "What happens from the standard input until the report is written?",
        "What is called between reading the standard input and writing the report?",
    ],
)
def test_two_descriptions_are_joined_by_what_calls_both(tmp_path: Path, engine: Engine, question: str):
    searcher = engine.repository(written(tmp_path / "flow", FLOW)).searcher
    found = search([searcher], question).code_facts
    assert found is not None and found.kind == "trace"
    assert found.summary.startswith("From `read_stdin` to `write_report` through `run` in ")
    lines = [item.text.strip().splitlines()[0] for item in found.items]
    begin, *_, end = [line for line in lines if "check_rows" not in line and "split_row" not in line]
    assert (begin, end) == ("def run(options):", "def write_report(problems, out):")
    assert lines.index("def read_stdin(encoding):") < lines.index("def finish(problems, options):")


SENDING = {
    "app/sender.py": "from app.poll import forward_request\nfrom app.push import push\n\n\n"
    "def send_delayed(message):\n    forward_request(message)\n    push(message)\n",
    "app/poll.py": "def forward_request(message):\n    return post(message.url)\n",
    "app/push.py": 'def push(message):\n    """Give a reply."""\n    return post(message.key)\n',
}


@pytest.mark.parametrize(
    ("files", "question"),
    [
        (FLOW, "How do rows get from the standard input to a problem line written by hand?"),
        (SENDING, "From request to reply, what happens?"),
    ],
)
def test_an_end_that_fits_little_is_not_joined(
    tmp_path: Path, engine: Engine, files: dict[str, str], question: str
):
    searcher = engine.repository(written(tmp_path / "weak", files)).searcher
    found = search([searcher], question).code_facts
    assert found is None or "through" not in found.summary


@pytest.mark.parametrize(
    "question",
    ["What is done from reading the config until render?", "What is called from parse until the settings?"],
)
def test_what_happens_from_a_setting_until_an_end_is_no_setting(question: str):
    assert "trace" in kinds_of(question) and "setting" not in kinds_of(question)


def test_what_is_called_before_is_not_reached(tmp_path: Path, engine: Engine):
    main = FLOW["app/main.py"].replace("    finish(problems, options)\n", "")
    files = FLOW | {"app/main.py": main}
    searcher = engine.repository(written(tmp_path / "back", files)).searcher
    found = search([searcher], "How do rows get from the standard input to the report?").code_facts
    assert found is None or "through" not in found.summary


def test_a_plain_word_is_no_name_in_a_question_with_words_of_its_own(tmp_path: Path, engine: Engine):
    files = {"job.py": "def start(job):\n    return finish(job)\n\n\ndef finish(job):\n    return job\n"}
    searcher = engine.repository(written(tmp_path / "job", files)).searcher
    named = search([searcher], "What happens from start to finish?").code_facts
    assert named is not None and named.note == "There may be longer chains of calls"
    other = search([searcher], "What happens from start to finish if a job waits?").code_facts
    assert other is None or other.note != named.note


def test_a_chain_that_begins_at_its_end_is_none(tmp_path: Path, engine: Engine):
    files = {
        "line.py": "from upgrade import upgrade_session\n\n\ndef session_line(command):\n"
        '    """Open a session for a command line."""\n    return upgrade_session(command)\n',
        "upgrade.py": "def upgrade_session(old):\n"
        '    """Upgrade the session of a request."""\n    return old\n',
    }
    searcher = engine.repository(written(tmp_path / "sessions", files)).searcher
    question = "How does a request get from the command line to the session?"
    assert search([searcher], question).code_facts is None


def test_the_answer_lists_the_steps(tmp_path: Path, engine: Engine):
    dialog = Dialog(engine, [engine.repository(written(tmp_path / "parcels", JAVASCRIPT))])
    question = "Follow a parcel from shipping until its label is printed."
    *_, answer = converse(dialog, question, ExtractiveGenerator())
    assert isinstance(answer, Answer)
    lines = answer.text.splitlines()
    assert lines[0] == "From `shipParcel` to `printLabel` in 2 steps:"
    assert lines[2].startswith("- `lib/parcel.js:4-7` [1] `function shipParcel(parcel) {` — begins here")
    assert lines[3].startswith("- `lib/label.js:2-4`") and "called by shipParcel in line 6" in lines[3]


def test_calls_that_branch_lead_to_no_end(tmp_path: Path, engine: Engine):
    """`bake_loaf` is called by `accept_order` itself, not by `check_order`, which is shown before it."""
    searcher = engine.repository(written(tmp_path / "bakery", PYTHON)).searcher
    question = "Walk me through accepting an order, checking it and baking the loaf."
    found = search([searcher], question).code_facts
    assert found is not None and found.kind == "trace"
    assert found.summary == "From `accept_order`, 2 calls fit the question"


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
        ("How does an upload get from the form to the disk?", True),
        ("how does main get to open_store?", True),
        ("From the request to the response: what happens?", True),
        ("How do I get a token?", False),
        ("How do I go back to the last version?", False),
        ("How does the client get to know the address?", False),
        ("How is a message sent to the server?", False),
        ("How are values passed to the template?", False),
        ("From which version on is it supported?", False),
        ("How far is it from done?", False),
        ("How does the parser move to the next token?", False),
        ("How can I get the log from a container?", False),
        ("Where does the name come from?", False),
        ("How does `load` differ from `parse`?", False),
        ("From where is the config read?", False),
        ("How do I upgrade from version 1?", False),
        ("How does it reach the end?", False),
        ("How does the client follow a redirect?", False),
        ("Which code forbids a redirect from https to a file address?", False),
        ("What happens if the file is missing?", False),
        ("Where is the trace id set?", False),
        ("", False),
    ],
)
def test_what_asks_for_a_chain(question: str, is_asked: bool):
    assert ("trace" in kinds_of(question)) == is_asked
