"""The settings as Markdown tables, from the fields of their dataclasses and the text below each field."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rag.serve.settings import ServerSettings
from rag.settings import ENVIRONMENT, Settings

NOT_IN_A_FILE = {"engine": "", "keys": "`RAG_SERVER_KEYS`", "deepwiki_code": "`RAG_DEEPWIKI_CODE`"}
"""Fields of the server's settings that its file does not take, and the variable that sets each."""


def settings_table() -> str:
    """The table of the settings of every command."""
    rows = []
    for name, text in described(Settings).items():
        if name in ENVIRONMENT:
            names = "<br>".join(f"`{each}`" for each in (name, *ENVIRONMENT[name]))
            rows.append((names, text, _default(Settings, name)))
    return table(("Key, variables", "Meaning", "Default"), rows)


def server_table() -> str:
    """The table of the settings of `rag serve`."""
    rows = []
    for name, text in described(ServerSettings).items():
        if name != "engine":
            where = NOT_IN_A_FILE.get(name, f"`{name}`")
            rows.append((where, text, _default(ServerSettings, name)))
    return table(("Key", "Meaning", "Default"), rows)


def described(kind: type[Any]) -> dict[str, str]:
    """The text below each field of a dataclass, on one line; "" where there is none."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for statement, below in zip(definition.body, [*definition.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            text = value.value if isinstance(value, ast.Constant) else ""
            texts[statement.target.id] = " ".join(str(text).split())
    return texts


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table. Cells hold Markdown; a bar in them is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def narrow(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """The same, without its last column where all of its cells are empty."""
    if any(row[-1] for row in rows):
        return table(head, rows)
    return table(head[:-1], [row[:-1] for row in rows])


def _default(kind: type[Any], name: str) -> str:
    """The default of a field in words; "" where the text of the field explains it."""
    (field,) = [field for field in fields(kind) if field.name == name]
    value = field.default
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float) and name != "processes":
        return f"{value:g}" if isinstance(value, float) or value < 10_000 else f"{value:_}"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`" if isinstance(value, str) and value else ""
