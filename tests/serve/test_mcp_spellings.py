"""Arguments of tools as agents write them."""

from __future__ import annotations

from inspect import signature
from typing import Any, get_args

import pytest

from rag.errors import ConfigError
from rag.mcp.arguments import checked
from rag.mcp.catalog import MAX_REPOSITORIES, MAX_RESULTS, tools
from rag.mcp.memory_tools import MemoryTools
from rag.mcp.protocol import PARAMETERS
from rag.mcp.toolbox import Toolbox
from rag.settings import (
    EXPLORE_TOKENS,
    MAX_CODE_WORDS,
    MAX_EXPLORE_TOKENS,
    MAX_STEPS,
    MIN_EXPLORE_TOKENS,
    FactScope,
)
from rag.types import HITS, LINES, MAX_HITS


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
    assert checked(tools()["read_span"], given) == expected


def test_steps_are_a_number_or_auto() -> None:
    ask = tools()["ask_question"]
    for given, expected in (("auto", "auto"), (4, 4), ("4", 4), (0, 0)):
        assert checked(ask, {"question": "q", "steps": given}) == {"question": "q", "steps": expected}
    for wrong in (21, -1, True, "many", ["auto"]):
        with pytest.raises(ConfigError, match="must be a number from 0 to 20 or auto"):
            checked(ask, {"question": "q", "steps": wrong})


def test_near_synonyms_are_understood_and_others_are_named() -> None:
    assert checked(tools()["who_calls"], {"name": "f", "repo": "r"}) == {"symbol": "f", "repoName": "r"}
    assert checked(tools()["turns_about"], {"path": "a.py#L7"}) == {"path": "a.py", "line": 7}
    with pytest.raises(ConfigError, match="`colour`"):
        checked(tools()["who_calls"], {"symbol": "f", "colour": "red"})
    with pytest.raises(ConfigError, match="given twice"):
        checked(tools()["who_calls"], {"symbol": "f", "name": "g"})


def test_each_tool_is_a_method_with_the_arguments_of_the_list() -> None:
    for name, tool in tools().items():
        method = getattr(Toolbox, name, None) or getattr(MemoryTools, name)
        opened = {"repoName", "ref"} if tool.opens else set()
        named = {PARAMETERS.get(one, one) for one in tool.arguments if one not in opened}
        named |= {"repository"} if tool.opens else set()
        assert list(signature(method).parameters)[:2] == ["self", "progress"]
        assert set(signature(method).parameters) - {"self", "progress"} == named
        for argument, schema in tool.arguments.items():
            if argument in opened:
                continue
            default = signature(method).parameters[PARAMETERS.get(argument, argument)].default
            assert schema.get("default", default) == default


def test_the_limits_of_the_list_are_those_of_the_code() -> None:
    budget = tools()["explore"].arguments["budget"]
    assert (budget["minimum"], budget["maximum"]) == (MIN_EXPLORE_TOKENS, MAX_EXPLORE_TOKENS)
    assert budget["default"] == EXPLORE_TOKENS
    assert tools()["ask_question"].arguments["steps"]["anyOf"][0]["maximum"] == MAX_STEPS
    assert tools()["list_available_repos"].arguments["limit"]["maximum"] == MAX_REPOSITORIES
    for tool in tools().values():
        arguments = tool.arguments
        if "in_code_words" in arguments:
            assert arguments["in_code_words"]["maxItems"] == MAX_CODE_WORDS
        if "scope" in arguments:
            assert arguments["scope"]["enum"] == list(get_args(FactScope))
    assert tools()["turns_about"].arguments["limit"]["maximum"] == MAX_RESULTS
    limit = tools()["search_code"].arguments["limit"]
    assert limit["maximum"] == MAX_HITS
    assert limit["description"] == f"Default: {HITS}; lines: {LINES:,}."
