"""Dots with intervals in small multiples: one panel for each group and measure, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.display.svg import COLOURS, Axis, colour, dot, drawing, legend, line, number, text, text_width

_PANEL, _FIGURE, _GAP = 112, 46, 22  # pixels: a panel, the figure behind it, the space between panels
_ROW, _AIR = 16, 10  # pixels: a system, the space between groups
_MIN_LABEL, _MAX_LABEL = 60, 220


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval; `shown` is the figure behind it, `note` what the pointer shows."""

    value: float
    low: float
    high: float
    shown: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DotRow:
    """A group: for each panel a dot for each system, None where there is no value."""

    name: str
    panels: Sequence[Sequence[Dot | None]]


def multiples(
    title: str,
    panels: Sequence[str],
    systems: Sequence[str],
    rows: Sequence[DotRow],
    *,
    low: float = 0.0,
    high: float = 1.0,
    panel_px: int = _PANEL,
    figure_px: int = _FIGURE,
) -> str:
    """Return a panel for each group (downwards) and measure (across), on one scale from `low` to `high`.

    Several systems differ by colour and by their order in a panel, which is that of the legend.
    """
    label = min(max([_MIN_LABEL, *(text_width(row.name) + 12 for row in rows)]), _MAX_LABEL)
    step = panel_px + figure_px + _GAP
    top, shapes = 24.0, []
    if len(systems) > 1:
        key, _ = legend(systems, label, 12)
        shapes.append(key)
        top += 24
    axes = [Axis([low, high], label + n * step, label + n * step + panel_px) for n in range(len(panels))]
    height = top + len(rows) * (_ROW * len(systems) + _AIR) + 18
    ticks = [low, (low + high) / 2, high] + ([0.0] if low < 0 < high else [])
    for axis, name in zip(axes, panels, strict=True):
        shapes.append(text(axis(low), top - 8, name, style='font-weight="600"'))
        for tick in sorted(set(ticks)):
            strong = ".5" if tick == 0 and low < 0 else ".18"
            shapes.append(line(axis(tick), top, axis(tick), height - 18, style=f'opacity="{strong}"'))
            shapes.append(text(axis(tick), height - 4, number_of(tick), "middle", 'font-size="10"'))
    y = top + _AIR / 2
    for row in rows:
        middle = y + _ROW * len(systems) / 2 + 4
        shapes.append(text(label - 12, middle, row.name, "end"))
        for axis, found in zip(axes, row.panels, strict=True):
            for n, one in enumerate(found):
                if one is not None:
                    shapes.append(_mark(axis, one, y + _ROW * n + _ROW / 2, n, low, high, panel_px))
        y += _ROW * len(systems) + _AIR
    return drawing(label + len(panels) * step, height, shapes, title)


def number_of(value: float) -> str:
    """Return a tick as text, with a minus sign where it is negative."""
    return f"−{number(-value)}" if value < 0 else number(value)


def _mark(axis: Axis, one: Dot, y: float, n: int, low: float, high: float, panel_px: int) -> str:
    first, last = max(one.low, low), min(one.high, high)
    interval = line(axis(first), y, axis(last), y, stroke=colour(n), style='stroke-width="2" opacity=".55"')
    figure = text(axis(low) + panel_px + 8, y + 4, one.shown, style='font-size="11"')
    return interval + dot(axis(min(max(one.value, low), high)), y, 4, COLOURS[n % 8], one.note) + figure


def strips(title: str, columns: Sequence[str], names: Sequence[str], cells: Sequence[Sequence[Dot]]) -> str:
    """Return a table as dots: a row for each name, a panel with a scale of its own (from 0) for each column.

    `cells` has a list for each name. No value is below 0.
    """
    label = min(max([_MIN_LABEL, *(text_width(name) + 12 for name in names)]), _MAX_LABEL)
    widths = [
        max(text_width(row[n].shown, 11) + 8 for row in cells) + _PANEL + _GAP for n in range(len(columns))
    ]
    widths = [max(width, text_width(name) + _GAP) for width, name in zip(widths, columns, strict=True)]
    height, top, shapes, x = 30.0 + (_ROW + 6) * len(names), 24.0, [], label
    for n, (column, width) in enumerate(zip(columns, widths, strict=True)):
        most = max(max(row[n].high for row in cells), 1e-12)
        axis = Axis([0, most], x, x + _PANEL)
        shapes.append(text(x, 14, column, style='font-weight="600"'))
        shapes.append(line(x, top, x, height - 4, style='opacity=".3"'))
        for m, row in enumerate(cells):
            y = top + (_ROW + 6) * m + _ROW / 2
            shapes.append(line(x, y, axis(row[n].value), y, style='opacity=".18"'))
            shapes.append(_mark(axis, row[n], y, m, 0, most, _PANEL))
        x += width
    for m, name in enumerate(names):
        shapes.append(text(label - 12, top + (_ROW + 6) * m + _ROW / 2 + 4, name, "end"))
    return drawing(x, height, shapes, title)
