"""The settings as Markdown tables, from the fields of their dataclasses and the text below each field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rag.cli.settings_options import field_texts
from rag.serve import settings as server
from rag.serve.settings import ServerSettings
from rag.settings import ENVIRONMENT, Settings


def settings_table() -> str:
    """The table of the settings of every command."""
    rows = []
    for name, text in field_texts(Settings).items():
        if name in ENVIRONMENT:
            names = "<br>".join(f"`{each}`" for each in (name, *ENVIRONMENT[name]))
            rows.append((names, text, _default(Settings, name)))
    return table(("Key, variables", "Meaning", "Default"), rows)


def server_table() -> str:
    """The table of the settings of `rag serve`."""
    rows = []
    for name, text in field_texts(ServerSettings).items():
        if name not in server.NOT_SETTINGS:
            where = f"`{server.ENVIRONMENT.get(name, name)}`"
            rows.append((where, text, _default(ServerSettings, name)))
    return table(("Key", "Meaning", "Default"), rows)


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
