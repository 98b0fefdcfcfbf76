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
PARTS = (
    *"xX7_ .-/:\"'`([{<#=,*|\\\t\n\u00e9\u5bfb",
    *("a ", "a.", '"a', "a_", "a-", "a/", "a,", "a(", "a::", "aB", "A_", "a1", "a=", "`a", "( ", " \n", "--", "a\n", "a: "),
)  # fmt: skip
WHOLE = ("match", "fullmatch")
MATCHED = {
    "rag.code.headings._TEX",
    "rag.code.use_search._SHELL_DEFINING",
    "rag.retrieval.kinds.declared._KCONFIG_PART",
    "rag.retrieval.kinds.declared._RECORD_PART",
    "rag.retrieval.kinds.line_series._SHAPES",
    "rag.retrieval.kinds.list_fit._HOLDERS",
    "rag.wiki.fields._TYPED",
}
"""Expressions under another name where they are used: with `match` or `fullmatch`, at the start of a line."""
EVERY = frozenset({"finditer", *WHOLE})
SUSPICIOUS_S, FLOOR_S = 0.001, 0.02
"""What few expressions need for 1,600 characters; and the least time of which growth can be measured."""


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages([str(ROOT)], "rag."):
        if not found.name.startswith(("rag.testing", "rag.notebook", "rag.__main__")):
            with suppress(BackendMissing, ImportError):
                yield importlib.import_module(found.name)


def patterns_in(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield name, value
    elif depth < 4 and isinstance(value, (tuple, list, set, frozenset)):
        for one in value:
            yield from patterns_in(one, name, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for one in value.values():
            yield from patterns_in(one, name, depth + 1)


@cache
def methods() -> dict[tuple[str, str], set[str]]:
    """Return how the names of each module are used: as `NAME.match(…)`, or in another way ("")."""
    used = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        called = {id(n.value): n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used[str(path), node.id].add(called.get(id(node), ""))
    return used


def all_patterns() -> list[tuple[str, re.Pattern[str], frozenset[str]]]:
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            for _, pattern in patterns_in(value, name):
                used = methods().get((module.__file__, name), {""})
                full = f"{module.__name__}.{name}"
                only = set(WHOLE) if full in MATCHED else used
                ways = frozenset(only) if only and only <= set(WHOLE) else EVERY
                _, known = found.get(pattern, ("", frozenset()))
                found[pattern] = full, known | ways
    return [(name, pattern, ways) for pattern, (name, ways) in found.items()]


def cpu_s(pattern: re.Pattern[str], way: str, text: str) -> float:
    begin = time.process_time()
    if way == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, way)(text)
    return time.process_time() - begin


def grows_too_fast(pattern: re.Pattern[str], way: str, text: str) -> bool:
    """Return whether a text of twice the length takes far more than twice the time."""
    for size in (25, 100, 400, 1_600):
        if cpu_s(pattern, way, text[:size]) > SUSPICIOUS_S:
            break
    else:
        return False
    while size < len(text):
        short = min(cpu_s(pattern, way, text[:size]) for _ in range(3))
        long = min(cpu_s(pattern, way, text[: 4 * size]) for _ in range(3))
        if long > FLOOR_S:
            return long > 8 * short
        size *= 4
    return False
