"""HTML pages without external resources: tables, and bars and curves drawn in SVG.

All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

LABEL, WIDTH, BAR = 210, 520, 13  # pixels: the names' column, the plot, a bar
_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2", "#65a30d", "#64748b")
_HEIGHT, _FOOT, _TICKS = 220, 40, 5
_BEHIND = 190  # pixels for the figure behind a bar

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.name { text-align: left; }
svg { max-width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
code { font-size: 13px; } .scroll { overflow-x: auto; } .key { margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.quiet { opacity: .75; } section { border-top: 2px solid #8886; margin-top: 2.5rem; }
"""

Points = Sequence[tuple[float, float]]


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page with a title and parts that are HTML already."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = f"<h1>{escape(title)}</h1>{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def colour(position: int) -> str:
    """Return the colour of the system or curve at this position."""
    return _COLOURS[position % len(_COLOURS)]


def key(names: Sequence[str]) -> str:
    """Return a legend, in the order of the names."""
    keys = (
        f'<span class="key"><i style="background:{colour(n)}"></i>{escape(name)}</span>'
        for n, name in enumerate(names)
    )
    return f"<p>{''.join(keys)}</p>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that scrolls where it is too wide."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def svg(height: float, shapes: Iterable[str], title: str) -> str:
    """Return a picture with the width of the names' column, the plot and a figure after it."""
    width = LABEL + WIDTH + _BEHIND
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(shapes)}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return text in a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = "currentColor", style: str = "") -> str:
    """Return a line in a picture."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" {style}/>'


def bar(y: float, share: float, position: int) -> str:
    """Return a bar from the left, of a share of the plot's width."""
    width = max(share * WIDTH, 1)
    return f'<rect x="{LABEL}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" fill="{colour(position)}"/>'


def bars(title: str, values: Sequence[tuple[str, float, str]]) -> str:
    """Return a bar for each (name, value, value as shown), scaled to the largest value; none below 0."""
    most = max((value for _, value, _ in values), default=0.0) or 1.0
    shapes = []
    for n, (name, value, shown) in enumerate(values):
        y = 4 + n * (BAR + 6)
        shapes += [text(LABEL - 8, y + BAR - 2, name, "end"), bar(y, max(value, 0) / most, n)]
        shapes.append(text(LABEL + max(value, 0) / most * WIDTH + 6, y + BAR - 2, shown))
    return svg(8 + len(values) * (BAR + 6), shapes, title)


def curves(title: str, axes: tuple[str, str], series: Mapping[str, Points], *, log: bool = False) -> str:
    """Return curves of (x, y) over one x axis, from y = 0, with a mark at each point.

    Args:
        title: the accessible name of the picture.
        axes: the names of x and y.
        series: by name; x above 0 with `log`.
        log: both axes are logarithmic; y then begins at its smallest value.
    """
    points = [point for found in series.values() for point in found]
    if not points:
        return ""
    x_axis = _Axis([x for x, _ in points], LABEL, LABEL + WIDTH, log=log)
    y_axis = _Axis([y for _, y in points] + ([] if log else [0.0]), _HEIGHT, 26, log=log)
    shapes = [text(LABEL - 40, 12, axes[1]), text(LABEL + WIDTH, _HEIGHT + _FOOT - 4, axes[0], "end")]
    for value in y_axis.ticks():
        y = y_axis(value)
        shapes.append(line(LABEL, y, LABEL + WIDTH, y, style='opacity=".2"'))
        shapes.append(text(LABEL - 6, y + 4, _number(value), "end"))
    for value in sorted({x for x, _ in points}):
        shapes.append(text(x_axis(value), _HEIGHT + 16, _number(value), "middle"))
    for n, found in enumerate(series.values()):
        places = [(x_axis(x), y_axis(y)) for x, y in sorted(found)]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(f'<polyline points="{way}" fill="none" stroke="{colour(n)}" stroke-width="2"/>')
        shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour(n)}"/>' for x, y in places]
    return key(list(series)) + svg(_HEIGHT + _FOOT, shapes, title)


class _Axis:
    """Maps values to pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool) -> None:
        self._log, self._start, self._end = log, start, end
        self._low, self._high = self._of(min(values)), self._of(max(values))

    def _of(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._low) / ((self._high - self._low) or 1.0)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return values at even distances, including both ends."""
        found = [self._low + (self._high - self._low) * n / (_TICKS - 1) for n in range(_TICKS)]
        return [10**value for value in found] if self._log else found


def _number(value: float) -> str:
    """`0.25`, `1,200`, `1.5M`."""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
