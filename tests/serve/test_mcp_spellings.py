"""Arguments of tools as agents write them."""

from __future__ import annotations

from typing import Any

import pytest

from rag.serve.errors import BadRequest
from rag.serve.mcp.arguments import checked

SPAN = {"properties": {"path": {}, "start_line": {}, "end_line": {}, "repoName": {}}, "required": ["path"]}
CALLS = {"properties": {"symbol": {}, "repoName": {}}, "required": ["symbol"]}
ABOUT = {"properties": {"path": {}, "line": {}, "symbol": {}}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": "a.py#L2-L3"}, {"path": "a.py", "start_line": 2, "end_line": 3}),
        ({"path": "a.py#L2"}, {"path": "a.py", "start_line": 2, "end_line": 2}),
        ({"path": "a.py:2-3"}, {"path": "a.py", "start_line": 2, "end_line": 3}),
        ({"file_path": "a.py", "startLine": 4}, {"path": "a.py", "start_line": 4}),
    ],
)
def test_a_place_may_be_written_in_every_common_form(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert checked("read_span", given, SPAN) == expected


def test_near_synonyms_are_understood_and_others_are_named() -> None:
    assert checked("who_calls", {"name": "f", "repo": "r"}, CALLS) == {"symbol": "f", "repoName": "r"}
    assert checked("turns_about", {"path": "a.py#L7"}, ABOUT) == {"path": "a.py", "line": 7}
    with pytest.raises(BadRequest, match="`colour`"):
        checked("who_calls", {"symbol": "f", "colour": "red"}, CALLS)
    with pytest.raises(BadRequest, match="given twice"):
        checked("who_calls", {"symbol": "f", "name": "g"}, CALLS)
