"""Every regular expression of the package takes time in proportion to its text, whatever that is."""

import ast
import importlib
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rag
from rag.errors import BackendMissing

ROOT = Path(rag.__file__).parent
SIZE = 16_000
MIXES = "a |a.|\"a|'a|`a|a_|a-|a/|a,|a(|a::|aB|A_|a1|a=|( | \n|--|a\n|a: |(a|{a |a\t".split("|")
PARTS = (*"xX7_ .-/:\"'`([{<#=,*|\\\t\n\u00e9\u5bfb", *MIXES)
MAX_WORDS = 12
"""How many words that an expression itself holds are fed to it too."""
WHOLE = ("match", "fullmatch")
MATCHED = {
    "rag.backends.openai.reasoning._BEGINS",
    "rag.code.headings._TEX",
    "rag.code.use_search._SHELL_DEFINING",
    "rag.retrieval.kinds.line_series._SHAPES",
    "rag.memory.named_lines._RECIPES",
    "rag.retrieval.kinds.list_fit._HOLDERS",
    "rag.code.fields._TYPED",
    "rag.service.checks.shared_facts._PLACE",
}
"""Expressions under another name where they are used: with `match` or `fullmatch`, at the start of a line."""
EVERY = frozenset({"finditer", *WHOLE})
SUSPICIOUS_S, FLOOR_S = 0.002, 0.02
"""What few expressions need for 1,600 characters; and the least time of which growth can be measured."""


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages([str(ROOT)], "rag."):
        if not found.name.startswith(("rag.notebook", "rag.__main__")):
            with suppress(BackendMissing, ImportError):
                yield importlib.import_module(found.name)


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif depth < 4 and isinstance(value, (tuple, list, set, frozenset, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(one, depth + 1)


@cache
def methods() -> dict[tuple[str, str], set[str]]:
    """How the names of each module are used: as `NAME.match(…)`, or in another way ("")."""
    used = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        called = {id(n.value): n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used[str(path), node.id].add(called.get(id(node), ""))
    return used


@cache
def expressions() -> dict[re.Pattern[str], tuple[str, frozenset[str]]]:
    """Each expression with the name that holds it in a module, and the methods with which it is used."""
    found: dict[re.Pattern[str], tuple[str, frozenset[str]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                full = f"{module.__name__}.{name}"
                used = set(WHOLE) if full in MATCHED else methods().get((module.__file__, name), {""})
                ways = frozenset(used) if used and used <= set(WHOLE) else EVERY
                _, known = found.get(pattern, ("", frozenset()))
                found[pattern] = full, known | ways
    return found


def cpu_s(pattern: re.Pattern[str], way: str, text: str) -> float:
    begin = time.process_time()
    if way == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, way)(text)
    return time.process_time() - begin


def grows_too_fast(pattern: re.Pattern[str], way: str, part: str) -> bool:
    """Return whether a text of four times the length takes far more than four times the time."""
    text = part * (2 * SIZE // len(part)) + "\0"
    sizes = [25, 100, 400, 1_600]
    size = next((size for size in sizes if cpu_s(pattern, way, text[:size]) > SUSPICIOUS_S), None)
    while size is not None and 4 * size <= len(text):
        long = min(cpu_s(pattern, way, text[: 4 * size]) for _ in range(2))
        if long > FLOOR_S:
            return long > 9 * min(cpu_s(pattern, way, text[:size]) for _ in range(3))
        size *= 4
    return False


def parts_for(pattern: re.Pattern[str]) -> list[str]:
    own = dict.fromkeys(re.findall(r"(?<![\\\w])[A-Za-z]{2,}", pattern.pattern))
    return [*PARTS, *(f"{word} " for word in list(own)[:MAX_WORDS])]


def test_the_expressions_are_found():
    assert len(expressions()) > 600
    assert {name for name, _ in expressions().values()} >= MATCHED


@pytest.mark.parametrize("quarter", range(4))
def test_time_grows_with_the_length_alone(quarter):
    slow = [
        (name, way, part)
        for pattern, (name, ways) in list(expressions().items())[quarter::4]
        for way in ways
        for part in parts_for(pattern)
        if grows_too_fast(pattern, way, part)
    ]

    assert not slow


def test_an_expression_that_backtracks_is_noticed():
    assert grows_too_fast(re.compile(r"\w+(?:\.\w+)+"), "finditer", "x")
    assert grows_too_fast(re.compile(r"\s*\s*:"), "match", " ")
    assert not grows_too_fast(re.compile(r"(?<!\w)\w++(?:\.\w++)+"), "finditer", "x")
