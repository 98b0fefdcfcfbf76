"""A plot as values: its rows, and how a notebook draws them, as Vega-Lite or mermaid.

`to_frame` and `to_altair` need the extra `notebook`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag import markdown
from rag.errors import BackendMissing
from rag.frames import frame

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_VEGA_LITE = "application/vnd.vegalite.v5+json"
_CAPTION_CHARS = 100
"""The length of a line of the caption above a chart."""


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """Rows with a caption, which a notebook draws.

    Attributes:
        caption: what is drawn, and what is left out.
        rows: the data, a dict for each mark.
        marks: the marks and encodings of Vega-Lite 5.
        mermaid: the plot as a mermaid diagram, which is then shown instead of the chart; "" for none.
    """

    caption: str
    rows: Sequence[Mapping[str, Any]]
    marks: Mapping[str, Any]
    mermaid: str = ""

    @property
    def vega_lite(self) -> dict[str, Any]:
        """The specification of the chart in Vega-Lite 5, with its data."""
        title = {
            "text": textwrap.wrap(self.caption, _CAPTION_CHARS),
            "anchor": "start",
            "fontWeight": "normal",
        }
        return {
            "$schema": _SCHEMA,
            "title": title,
            "data": {"values": [dict(row) for row in self.rows]},
            **self.marks,
        }

    @property
    def markdown(self) -> str:
        """The diagram, or the rows as a table if there is none, with the caption."""
        columns = list(self.rows[0]) if self.rows else []
        rows = [[_cell(row[name]) for name in columns] for row in self.rows]
        shown = markdown.block(self.mermaid, "mermaid") if self.mermaid else markdown.table(columns, rows)
        return f"{shown}\n\n{markdown.plain(self.caption)}"

    def to_frame(self) -> Any:
        """Return the data as a pandas DataFrame.

        Raises:
            BackendMissing: pandas is not installed.
        """
        return frame(self.rows)

    def to_altair(self) -> Any:
        """Return the plot as an Altair chart, to change or save it.

        Raises:
            BackendMissing: altair is not installed.
        """
        try:
            import altair
        except ImportError as error:
            raise BackendMissing(backend="an Altair chart", missing="altair", extra="notebook") from error
        return altair.Chart.from_dict(self.vega_lite)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Render for a notebook: a chart or a diagram; a table where the viewer cannot draw the chart."""
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/markdown": self.markdown}
        return bundle if self.mermaid else {_VEGA_LITE: self.vega_lite, **bundle}

    def __repr__(self) -> str:
        return f"<Plot: {self.caption}>"


def _cell(value: Any) -> str:
    """Return a value as a cell of a table in Markdown."""
    return f"{value:.3f}" if isinstance(value, float) else markdown.plain(str(value))
