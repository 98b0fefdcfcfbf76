"""How values look in a notebook and on a page: HTML, diagrams of mermaid.

Everything is made from values alone and loads nothing: all text of a repository is escaped.
"""

from __future__ import annotations

from typing import Any

_SHOWN = {
    "rag.types.answer": ("Answer",),
    "rag.types.citations": ("Freshness",),
    "rag.types.index": ("IndexReport",),
    "rag.types.retrieval": ("Hit", "Hits"),
    "rag.types.turns": ("CheckedTurns", "DialogTurn"),
}
"""The values that a notebook shows as HTML, by module. The values themselves know nothing of it."""


def register(ipython: Any) -> None:
    """Have a running IPython show values as HTML. What draws them is imported with the first one."""
    formatter = ipython.display_formatter.formatters["text/html"]
    for module, names in _SHOWN.items():
        for name in names:
            formatter.for_type_by_name(module, name, _html)


def _html(value: object) -> str:
    from rag.display.values import html_of

    return html_of(value)
