"""Shapes of SVG as text, axes and numbers. All text is escaped.

Text and lines have the colour of the surrounding text, so that a drawing is readable on any background; the
other colours have a contrast of at least 3:1 on white and on black.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

COLOURS = ("#2563eb", "#c2660a", "#059669", "#9333ea", "#dc2626", "#0e8aa8", "#5c8f12", "#7a7f8a")
_TICKS = 5
_LEFT, _WIDTH, _HEIGHT, _FOOT, _RIGHT = 64, 620, 220, 40, 24  # pixels of a drawing of curves
_CHAR = 0.56
"""The mean width of a character, as a share of the size of the font."""
_INVALID = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

Points = Sequence[tuple[float, float]]


def plain(words: str) -> str:
    """Return text escaped for HTML and XML; what XML does not allow, or reorders text, is replaced."""
    return escape(_INVALID.sub("\ufffd", words), quote=True)


def colour(position: int) -> str:
    """Return the colour of the system, group or curve at this position."""
    return COLOURS[position % len(COLOURS)]


def number(value: float) -> str:
    """Return `0.25`, `1,200`, `1.5M`."""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def share(value: float) -> str:
    """Return a share with three decimals, without the zero before the point: `.862`, `1.000`."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def text_width(words: str, size: float = 12) -> float:
    """Return about how many pixels text takes."""
    return len(words) * size * _CHAR


def shortened(words: str, width: float, size: float = 12) -> str:
    """Return text cut in its middle so that it fits a width in pixels."""
    most = max(int(width / (size * _CHAR)), 3)
    if len(words) <= most:
        return words
    head = (most - 1) // 2
    return f"{words[:head]}…{words[len(words) - (most - 1 - head) :]}"


def drawing(width: float, height: float, shapes: Iterable[str], title: str) -> str:
    """Return a picture with its accessible name."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{plain(title)}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">{"".join(shapes)}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return text; `style` are further attributes."""
    more = f" {style}" if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{plain(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = "currentColor", style: str = "") -> str:
    """Return a line; `style` are further attributes."""
    more = f" {style}" if style else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{more}/>'


def dot(x: float, y: float, radius: float, fill: str, note: str = "", style: str = "") -> str:
    """Return a dot that shows a note under the pointer."""
    more = f" {style}" if style else ""
    head = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"{more}'
    return f"{head}><title>{plain(note)}</title></circle>" if note else f"{head}/>"


def legend(names: Sequence[str], x: float, y: float, colours: Sequence[str] = COLOURS) -> tuple[str, float]:
    """Return a legend on one line, and where it ends."""
    shapes = []
    for n, name in enumerate(names):
        shapes.append(dot(x + 5, y - 4, 5, colours[n % len(colours)]))
        shapes.append(text(x + 15, y, name))
        x += 34 + text_width(name)
    return "".join(shapes), x


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
    right = _LEFT + _WIDTH
    x_axis = Axis([x for x, _ in points], _LEFT, right, log=log)
    y_axis = Axis([y for _, y in points] + ([] if log else [0.0]), _HEIGHT, 46, log=log)
    key, _ = legend(list(series), _LEFT, 12)
    shapes = [key, text(0, 34, axes[1]), text(right, _HEIGHT + _FOOT - 4, axes[0], "end")]
    for value in y_axis.ticks():
        y = y_axis(value)
        shapes.append(line(_LEFT, y, right, y, style='opacity=".2"'))
        shapes.append(text(_LEFT - 6, y + 4, number(value), "end"))
    for value in sorted({x for x, _ in points}):
        shapes.append(text(x_axis(value), _HEIGHT + 16, number(value), "middle"))
    for n, (name, found) in enumerate(series.items()):
        places = [(x_axis(x), y_axis(y)) for x, y in sorted(found)]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(f'<polyline points="{way}" fill="none" stroke="{colour(n)}" stroke-width="2"/>')
        notes = [f"{name}: {number(y)} at {number(x)}" for x, y in sorted(found)]
        shapes += [dot(x, y, 3.5, colour(n), note) for (x, y), note in zip(places, notes, strict=True)]
    return drawing(right + _RIGHT, _HEIGHT + _FOOT, shapes, title)


class Axis:
    """Maps values to pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool = False) -> None:
        self._log, self._start, self._end = log, start, end
        self._low, self._high = self._of(min(values)), self._of(max(values))

    def _of(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        part = (self._of(value) - self._low) / ((self._high - self._low) or 1.0)
        return self._start + part * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return values at even distances, including both ends."""
        found = [self._low + (self._high - self._low) * n / (_TICKS - 1) for n in range(_TICKS)]
        return [10**value for value in found] if self._log else found
