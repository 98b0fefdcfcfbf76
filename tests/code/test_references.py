"""References in columns."""

from __future__ import annotations

import json
import zlib
from functools import partial
from typing import Any

import pytest
import tree_sitter
from hypothesis import given
from hypothesis import strategies as st

from rag.code.file_graph import BASE, CALL, MENTION, FileGraph, Reference, References, graph_of, graph_values
from rag.code.outline import file_values
from rag.code.packed_graph import packed, unpacked, unpacked_references

REFERENCES = st.builds(
    Reference,
    name=st.sampled_from(["run", "stop", "Base", ""]),
    receiver=st.sampled_from(["", "self", "super()", "a.b"]),
    line=st.integers(1, 10**6),
    within=st.integers(-1, 500),
    role=st.sampled_from([CALL, MENTION, BASE]),
)


@given(st.lists(REFERENCES))
def test_columns_hold_what_the_rows_hold(rows: list[Reference]) -> None:
    columns = References(rows)
    assert list(columns) == rows
    assert len(columns) == len(rows)
    assert list(columns.named({"run", "Base"})) == [one for one in rows if one.name in ("run", "Base")]
    assert list(columns.of_role(BASE)) == [one for one in rows if one.role == BASE]
    graph = FileGraph(references=tuple(rows))
    stored = packed(graph)
    again = unpacked(stored.graph, partial(unpacked_references, stored.references)) if rows else graph
    assert list(again.references) == rows
    assert json.dumps(graph_values(again)) == json.dumps(graph_values(graph))


@pytest.mark.parametrize(
    "rows",
    [
        [["run", "", 1, 0]],
        [["run", "", 1, 0, "c", 2]],
        [["run", "", 1, 0, "c"], ["run", ""]],
        [["run", "", "1", 0, "c"]],
        [["run", "", 1 << 40, 0, "c"]],
        [["run", "", 1, 0, "cc"]],
        [[3, "", 1, 0, "c"]],
        [["run", "", 1, None, "c"]],
        ["run"],
        [7],
        5,
    ],
)
def test_damaged_rows_are_an_error(rows: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        packed(graph_of([[], [], rows, [], []]))


def test_damaged_columns_are_an_error():
    stored = packed(FileGraph(references=(Reference("run", "", 1, 0, CALL),)))
    content = zlib.decompress(stored.references)
    for damaged in (b"", content[:7], content[:-1], content + b"c", b"\xff" * len(content)):
        with pytest.raises((ValueError, TypeError)):
            unpacked_references(zlib.compress(damaged), 1)
    number = content.index(b'["run",""]') + len(b'["run",""]')
    for other in (2, -1):  # there are two texts
        damaged = content[:number] + other.to_bytes(4, "little", signed=True) + content[number + 4 :]
        with pytest.raises(ValueError, match="has no name"):
            unpacked_references(zlib.compress(damaged), 1)


CALLS = "class Queue {\n    void run() { put(); }\n    void put() { }\n}\n"


def test_a_large_file_that_is_mostly_comments_is_read():
    text = "// what people wrote about it\n" * 30_000 + CALLS
    _, graph = file_values(text, "java", None)
    assert [one.name for one in graph_of(graph).references] == ["put"]


def test_the_references_of_a_generated_file_are_not_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rag.code.outline._MAX_GRAPH_NODES", 20)
    found, graph = file_values(CALLS, "java", None)
    assert found
    assert [one.name for one in graph_of(graph).definitions] == ["Queue", "run", "put"]
    assert not graph_of(graph).references


def test_the_order_of_references_does_not_depend_on_that_of_the_captures(monkeypatch: pytest.MonkeyPatch):
    cursor = tree_sitter.QueryCursor

    def read(text: str, *, reverse: bool) -> list[Any]:
        class Sorted:  # the order in which the parser returns captures is arbitrary
            def __init__(self, query: Any) -> None:
                self._cursor = cursor(query)

            def captures(self, node: Any) -> dict[str, list[Any]]:
                found = self._cursor.captures(node)
                in_order = sorted(found, reverse=reverse)
                return {name: found[name][:: -1 if reverse else 1] for name in in_order}

        monkeypatch.setattr(tree_sitter, "QueryCursor", Sorted)
        values: list[Any] = file_values(text, "python", None)[1]
        return values

    text = (
        "class Kiln(Oven, Heater):\n    def fire(self):\n        return self.heat(\n            6).done()\n"
    )
    found = read(text, reverse=False)
    assert found == read(text, reverse=True)
    assert ("Heater", "", 1, 0, BASE) in map(tuple, found[2])
    assert ("done", "self.heat()", 4, 1, CALL) in map(tuple, found[2])
