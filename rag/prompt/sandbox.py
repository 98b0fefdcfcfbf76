"""The sandbox in which templates run: Jinja's, with limits on CPU time and on memory.

Jinja compiles a template to Python. Its hook `_compile` adds a check to each loop, macro and call of that
Python, so that all text and lists that a template makes are counted, whichever filter, method or operator
makes them. They are counted when a call returns; repetitions, powers, and numbers that a filter or method is
given, are checked before. So the limits stop mistakes; a template that is written to exceed them in one call
(`replace` of each letter by a long text) can.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable, Sized
from contextvars import ContextVar
from types import CodeType
from typing import Any

import jinja2
import jinja2.runtime
import jinja2.sandbox

from rag.prompt.background import KnownFact
from rag.prompt.views import CodeFactsView, CodeFactView, FileView, OutlineView, SourceView, StaleView

MAX_CPU_S = 2.0
"""The CPU time of one rendering; an answer's prompt takes less than a millisecond."""
MAX_SIZE = 50_000_000
"""The characters and items that one rendering may make in all; also the largest number in a call."""

_OWN_VALUES = (SourceView, FileView, OutlineView, CodeFactView, CodeFactsView, KnownFact, StaleView)


class _Rendering:
    """What is left of the limits of one rendering."""

    def __init__(self) -> None:
        self.ends_s = time.thread_time() + MAX_CPU_S
        self.left = MAX_SIZE

    def check_time(self) -> None:
        if time.thread_time() > self.ends_s:
            raise jinja2.TemplateRuntimeError(f"it takes over {MAX_CPU_S:g} s of CPU time")

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise MemoryError


_rendering: ContextVar[_Rendering] = ContextVar("_rendering")


class Sandbox(jinja2.sandbox.SandboxedEnvironment):
    """Jinja's sandbox with limits.

    Our own values have only data, so most of Jinja's checks are not needed for them.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )

    def render(self, template: jinja2.Template, variables: dict[str, object]) -> str:
        """Render a template of this sandbox within the limits.

        Raises:
            jinja2.TemplateError, MemoryError: it exceeds them, or as Jinja.
        """
        token = _rendering.set(_Rendering())
        try:
            return template.render(variables)
        finally:
            _rendering.reset(token)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may read an attribute."""
        if isinstance(obj, _OWN_VALUES):
            return not attr.startswith("_")
        return super().is_safe_attribute(obj, attr, value)

    def call_filter(self, name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a filter for a filter: `map` does so for each item."""
        return self.limited(super().call_filter, name, value, *args, **kwargs)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator whose result is not much larger than what it is given."""
        size = _RESULT_SIZES.get(operator)
        if size is not None and size(left, right) > MAX_SIZE:
            raise MemoryError
        return super().call_binop(context, operator, left, right)

    def concat(self, parts: Iterable[str]) -> str:
        """Join the output of a template, a macro or a block."""
        parts = list(parts)
        _rendering.get().take(sum(map(len, parts)))
        return "".join(parts)

    def check_time(self) -> None:
        """Raise a TemplateRuntimeError if the rendering has taken too long."""
        _rendering.get().check_time()

    def limited(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of a template, and count what it returns."""
        rendering = _rendering.get()
        for value in (*args, *kwargs.values()):
            if type(value) is int and value > MAX_SIZE:
                raise MemoryError
        value = function(*args, **kwargs)
        if isinstance(value, (str, bytes, list, tuple, dict)):
            rendering.take(len(value))
        return value

    def _compile(self, source: str, filename: str) -> CodeType:
        tree = ast.fix_missing_locations(_WithLimits().visit(ast.parse(source)))
        return compile(tree, filename, "exec")


_MAKES_VALUES = re.compile(r"t_\d+|str_join|markup_join|environment\.call|environment\.call_binop")
"""What Jinja's Python calls for filters, tests, `~`, calls and operators."""


class _WithLimits(ast.NodeTransformer):
    """Adds the checks of `Sandbox` to the Python of a template."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._with_check(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._with_check(node)

    def _with_check(self, node: ast.For | ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        check = ast.Expr(ast.Call(_method("check_time"), [], []))
        node.body.insert(0, ast.copy_location(check, node))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not _MAKES_VALUES.fullmatch(ast.unparse(node.func)):
            return node
        return ast.copy_location(ast.Call(_method("limited"), [node.func, *node.args], node.keywords), node)


def _method(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name("environment", ast.Load()), name, ast.Load())


def _product(left: Any, right: Any) -> int:
    """Return the size of `left * right`: items, or bits."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length()
    if isinstance(left, Sized) and isinstance(right, int):
        return len(left) * right
    return len(right) * left if isinstance(right, Sized) and isinstance(left, int) else 0


def _power(left: Any, right: Any) -> int:
    """Return the bits of `left ** right`."""
    return left.bit_length() * right if isinstance(left, int) and isinstance(right, int) else 0


_RESULT_SIZES = {"*": _product, "**": _power}
