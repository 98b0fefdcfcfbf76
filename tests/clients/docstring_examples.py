"""The example in a module's docstring, run as it stands there."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType, ModuleType
from typing import Any


def example(module: ModuleType) -> CodeType:
    """The indented lines of a module's docstring, compiled; `await` may stand at their top."""
    lines = (module.__doc__ or "").splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line))
    assert "import" in code, f"{module.__name__} has no example in its docstring"
    return compile(code, f"<example of {module.__name__}>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def run_example(module: ModuleType, **names: Any) -> dict[str, Any]:
    """Run it with these names; return all names afterwards."""
    scope = dict(names)
    result = eval(example(module), scope)
    if inspect.isawaitable(result):
        await result
    return scope
