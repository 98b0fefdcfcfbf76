"""Arguments of tools as agents write them."""

from __future__ import annotations

from typing import Any

import pytest

from rag.errors import ConfigError
from rag.mcp.arguments import checked
from rag.mcp.catalog import TOOLS


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
    assert checked(TOOLS["read_span"], given) == expected


def test_steps_are_a_number_or_auto() -> None:
    ask = TOOLS["ask_question"]
    for given, expected in (("auto", "auto"), (4, 4), ("4", 4), (0, 0)):
        assert checked(ask, {"question": "q", "steps": given}) == {"question": "q", "steps": expected}
    for wrong in (21, -1, True, "many", ["auto"]):
        with pytest.raises(ConfigError, match="must be a number from 0 to 20 or auto"):
            checked(ask, {"question": "q", "steps": wrong})


def test_near_synonyms_are_understood_and_others_are_named() -> None:
    assert checked(TOOLS["who_calls"], {"name": "f", "repo": "r"}) == {"symbol": "f", "repoName": "r"}
    assert checked(TOOLS["turns_about"], {"path": "a.py#L7"}) == {"path": "a.py", "line": 7}
    with pytest.raises(ConfigError, match="`colour`"):
        checked(TOOLS["who_calls"], {"symbol": "f", "colour": "red"})
    with pytest.raises(ConfigError, match="given twice"):
        checked(TOOLS["who_calls"], {"symbol": "f", "name": "g"})
