"""A map of points with named regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.display.plot import Plot
from rag.display.svg import colour, drawing, legend, plain, text_width

_WIDTH, _HEIGHT, _MARGIN, _ROW = 760, 520, 14, 18  # pixels


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A chunk on the map; `x` and `y` are from -1 to 1, `group` is its folder."""

    x: float
    y: float
    group: str
    place: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class MapRegion:
    """A region of the map: its middle, its name, and its number of points."""

    x: float
    y: float
    name: str
    count: int


def map_plot(points: Sequence[MapPoint], regions: Sequence[MapRegion], caption: str) -> Plot:
    """Draw points in the colour of their folder, and the names of the regions above them."""
    groups = list(dict.fromkeys(point.group for point in points))
    shapes = []
    for n, name in enumerate(groups):
        dots = "".join(_dot(point) for point in points if point.group == name)
        shapes.append(f'<g fill="{colour(n)}" fill-opacity=".7">{dots}</g>')
    taken: list[tuple[float, float, float]] = []
    for region in sorted(regions, key=lambda one: -one.count):
        shapes.append(_label(region, taken))
    y, x = _HEIGHT + 8.0, float(_MARGIN)
    for n, name in enumerate(groups if len(groups) > 1 else []):
        if x + text_width(name) + 34 > _WIDTH and x > _MARGIN:
            x, y = float(_MARGIN), y + _ROW
        key, x = legend([name], x, y + 8, [colour(n)])
        shapes.append(key)
    return Plot(
        drawing(_WIDTH, y + _ROW + 2, shapes, caption),
        caption=caption,
        rows=[
            {"x": one.x, "y": one.y, "folder": one.group, "place": one.place, "name": one.name}
            for one in points
        ],
        vega_lite={
            "width": 640,
            "height": 440,
            "mark": {"type": "circle", "opacity": 0.6, "tooltip": {"content": "data"}},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "axis": None},
                "y": {"field": "y", "type": "quantitative", "axis": None},
                "color": {"field": "folder", "type": "nominal"},
            },
            "params": [{"name": "view", "select": "interval", "bind": "scales"}],
        },
    )


def _x(value: float) -> float:
    return _MARGIN + (value + 1) / 2 * (_WIDTH - 2 * _MARGIN)


def _y(value: float) -> float:
    return _MARGIN + (1 - value) / 2 * (_HEIGHT - 2 * _MARGIN)


def _dot(point: MapPoint) -> str:
    note = plain(f"{point.place} {point.name}".strip())
    return f'<circle cx="{_x(point.x):.0f}" cy="{_y(point.y):.0f}" r="3"><title>{note}</title></circle>'


def _label(region: MapRegion, taken: list[tuple[float, float, float]]) -> str:
    """Return the name of a region on a plate, moved down where another name is already."""
    width = text_width(region.name, 14) + 16
    x = min(max(_x(region.x), width / 2), _WIDTH - width / 2)
    y = _y(region.y)
    while any(abs(y - other_y) < 22 and abs(x - other_x) < (width + w) / 2 for other_x, other_y, w in taken):
        y += 4
    taken.append((x, y, width))
    return (
        f"<g><title>{plain(f'{region.name}: {region.count} chunks')}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - 12:.1f}" width="{width:.1f}" height="20" rx="4" '
        f'fill="#1f2430" fill-opacity=".88"/><text x="{x:.1f}" y="{y + 3:.1f}" text-anchor="middle" '
        f'font-size="13" font-weight="600" fill="#fff">{plain(region.name)}</text></g>'
    )
