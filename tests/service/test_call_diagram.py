"""Diagrams of calls: who is drawn, in which order, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from rag.database.store import Store
from rag.errors import NotFound
from rag.service import Engine, locate
from rag.service.drawings.call_diagram import MAX_NODES, CallDiagram, call_diagram
from rag.settings import Settings

LOCKS = """\
class Lock:
    def __init__(self, name):
        self.name = checked(name)

    def acquire(self):
        prepare()
        wait()
        return Lock("again")

    def unrelated(self):
        helper()


def checked(name):
    return helper()


def prepare():
    log("begin")


def wait():
    wait()
    for _ in range(3):
        log("wait")
        log("still")


def log(text):
    return text


def helper():
    return 1
"""
USERS = "from locks import Lock\n\n" + "\n".join(
    f"def user_{n}():\n    lock = Lock('x')\n    lock.acquire()\n" for n in range(9)
)
TESTS = "from locks import Lock\n\n\ndef test_lock():\n    Lock('x').acquire()\n"
POSSIBLE = """\
class Pool:
    def drain(self):
        return 1


def fill():
    Pool().drain()


def perhaps(pool):
    pool.drain()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("repository")
    files = {
        "locks.py": LOCKS,
        "users.py": USERS,
        "tests/test_locks.py": TESTS,
        "perhaps.py": POSSIBLE,
        "tests/data.json": '{"call": "drain()"}\n',
        "other.py": "def wait():\n    pass\n",
        "top.py": "from locks import wait\nwait()\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine.repository(locate(str(root))).store


def names(diagram: CallDiagram, depth: int) -> list[str]:
    return [node.name for node in diagram.nodes if node.depth == depth]


def drawn(diagram: CallDiagram) -> list[tuple[str, str]]:
    return [(diagram.nodes[one.source].name, diagram.nodes[one.target].name) for one in diagram.arrows]


def test_callers_come_before_tests_and_possible_ones_last(store: Store) -> None:
    found = call_diagram(store, "Lock.acquire", "callers")
    assert names(found, 0) == ["Lock.acquire"]
    assert names(found, 1) == ["prepare", "wait", "Lock"], "in the order of the calls"
    assert names(found, -1) == [f"user_{n}" for n in range(8)]
    assert len(found.nodes) == MAX_NODES
    assert found.left_out == 2
    assert found.caption.endswith("Left out: 2 callers.")


def test_a_possible_call_is_marked_and_data_calls_nothing(store: Store) -> None:
    found = call_diagram(store, "Lock.acquire", "callers", path="locks.py", start=5)
    assert "A dashed arrow" not in found.caption and all(one.certain for one in found.arrows)
    possible = call_diagram(store, "Pool.drain", "callers")
    assert names(possible, -1) == ["fill", "perhaps"]
    assert [one.certain for one in possible.arrows] == [True, False]
    assert "A dashed arrow is a possible call." in possible.caption


def test_code_outside_of_definitions_has_the_name_of_its_file(store: Store) -> None:
    found = call_diagram(store, "wait", "callers", path="locks.py", start=22)
    assert ("top.py", "wait") in drawn(found)
    top = next(node for node in found.nodes if node.name == "top.py")
    assert (top.path, top.start, top.end) == ("top.py", 2, 2)
    assert ("wait", "wait") not in drawn(found), "a call of itself is no caller"


def test_several_calls_are_one_arrow(store: Store) -> None:
    found = call_diagram(store, "wait", "callers", path="locks.py", start=22)
    (arrow,) = [one for one in found.arrows if found.nodes[one.target].name == "log"]
    assert (arrow.count, arrow.line, arrow.certain) == (2, 25, True)


def test_other_definitions_of_the_name_are_offered(store: Store) -> None:
    found = call_diagram(store, "wait", "callers", path="other.py", start=1)
    assert found.nodes[0].path == "other.py"
    assert [(one.path, one.name) for one in found.others] == [("locks.py", "wait")]


def test_a_flow_is_in_the_order_of_the_calls(store: Store) -> None:
    found = call_diagram(store, "user_0", "flow")
    assert drawn(found) == [
        ("user_0", "Lock"),
        ("Lock", "checked"),
        ("checked", "helper"),
        ("user_0", "Lock.acquire"),
        ("Lock.acquire", "prepare"),
        ("prepare", "log"),
        ("Lock.acquire", "wait"),
    ]
    assert [node.depth for node in found.nodes] == [0, 1, 2, 3, 1, 2, 3, 2]
    assert found.left_out == 2, "wait calls log, and acquire calls Lock"
    assert "Left out: 2 calls." in found.caption


def test_a_class_leads_to_what_its_constructor_calls(store: Store) -> None:
    found = call_diagram(store, "Lock", "flow")
    assert drawn(found) == [("Lock", "checked"), ("checked", "helper")]
    assert found.left_out == 0 and found.caption.endswith("Nothing is left out.")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ({"start": 6}, "Lock.acquire"),
        ({"start": 1}, "Lock"),
        ({"start": 12, "end": 15}, "checked"),
    ],
)
def test_lines_name_the_innermost_definition(store: Store, lines: dict[str, int], name: str) -> None:
    assert names(call_diagram(store, "", "callers", path="locks.py", **lines), 0) == [name]


@pytest.mark.parametrize(
    "draw",
    [
        lambda store: call_diagram(store, "no_such", "callers"),
        lambda store: call_diagram(store, "", "flow", path="no/such.py"),
        lambda store: call_diagram(store, "", "callers", path="top.py", start=1),
    ],
)
def test_what_is_not_there_is_an_error(store: Store, draw: Callable[[Store], CallDiagram]) -> None:
    with pytest.raises(NotFound):
        draw(store)
