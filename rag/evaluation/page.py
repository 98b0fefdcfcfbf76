"""HTML pages that load nothing: one file with its style and, where it needs one, its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from rag.display.html import plain

_HERE = Path(__file__).parent


def page(title: str, parts: Iterable[str], *, script: bool = False) -> str:
    """Return a page with a title and parts that are HTML already; `script` makes its lists sortable.

    A policy in the page allows this style and this script alone, whatever else the parts contain.
    """
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    code = (_HERE / "report.js").read_text(encoding="utf-8") if script else ""
    allowed = f"script-src 'sha256-{_digest(code)}'" if script else "script-src 'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {allowed}"
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{plain(title)}</title><style>{style}</style>"
    )
    body = f"<main><h1>{plain(title)}</h1>{''.join(parts)}</main>"
    body += f"<script>{code}</script>" if script else ""
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def has_questions(part: str) -> bool:
    """Whether a part of a page has a list of questions, which needs the script."""
    return '<table class="questions"' in part


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that scrolls where it is too wide; `name` is for screen readers."""
    head = "".join(f'<th scope="col">{plain(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{plain(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", name)


def scrolling(inside: str, name: str) -> str:
    """Return a part that scrolls sideways where it is too wide, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{plain(name)}">{inside}</div>'


def share(value: float, *, signed: bool = False) -> str:
    """Return a share with three decimals, without the zero before the point: `.862`, `1.000`, `+.014`."""
    shown = f"{value:{'+' if signed else ''}.3f}".replace("-", "−")
    return shown.replace("0.", ".", 1) if abs(value) < 1 else shown
