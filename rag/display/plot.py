"""A drawing with its data: an SVG that is readable in light and dark, a table, a specification of Vega-Lite.

Nothing is needed to see it. `to_frame` and `to_altair` need the extra `notebook`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag.display.frames import frame
from rag.display.svg import plain
from rag.errors import BackendMissing, ConfigError

_NAMESPACE = "http://www.w3.org/2000/svg"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_FILE_STYLE = "color-scheme:light dark;color:CanvasText;background:Canvas"
"""A file has a background of its own: an image does not take the colours of the page that shows it."""
_NOTEBOOK_STYLE = "<style>.rag-plot>div{display:block!important}.rag-plot>img{display:none}</style>"
"""Shows the drawing instead of the image. Viewers that remove drawings remove styles as well."""


class Plot:
    """A drawing that a notebook shows.

    Attributes:
        svg: the drawing as a file; its text has the colour of the page.
        inline_svg: the drawing as part of an HTML page.
        caption: what the drawing shows, and what it leaves out.
        rows: the data, a dict for each mark.
        vega_lite: the same as a specification of Vega-Lite 5, with its data.
    """

    def __init__(
        self,
        svg: str,
        *,
        caption: str,
        rows: Sequence[Mapping[str, Any]],
        vega_lite: Mapping[str, Any],
    ) -> None:
        self.svg = svg.replace("<svg ", f'<svg xmlns="{_NAMESPACE}" ', 1)
        self.inline_svg, self.caption, self.rows = svg, caption, tuple(rows)
        self.vega_lite = {"$schema": _SCHEMA, "data": {"values": [dict(row) for row in rows]}, **vega_lite}

    def to_frame(self) -> Any:
        """Return the data as a pandas DataFrame.

        Raises:
            BackendMissing: pandas is not installed.
        """
        return frame(self.rows)

    def to_altair(self) -> Any:
        """Return the plot as an Altair chart, to change it or to look closer.

        Raises:
            BackendMissing: altair is not installed.
        """
        try:
            import altair
        except ImportError as error:
            raise BackendMissing(backend="an Altair chart", missing="altair", extra="notebook") from error
        return altair.Chart.from_dict(self.vega_lite)

    def save(self, path: str | Path) -> Path:
        """Write the drawing as an SVG file, or as an HTML file with its caption; return the path.

        Raises:
            ConfigError: the name ends with neither, or the file cannot be written.
        """
        target = Path(path)
        styled = self._file
        if target.suffix == ".html":
            head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Plot</title>'
            styled = f'{head}<body style="color-scheme:light dark">{styled}<p>{plain(self.caption)}</p>\n'
        elif target.suffix != ".svg":
            raise ConfigError(f"{target.name} ends with neither .svg nor .html; name it plot.svg")
        try:
            target.write_text(styled, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}; check the folder") from error
        return target

    @property
    def _file(self) -> str:
        return self.svg.replace("<svg ", f'<svg style="{_FILE_STYLE}" ', 1)

    def _repr_html_(self) -> str:
        """Render the drawing and its caption for a notebook.

        JupyterLab removes drawings from notebooks that are not trusted, and leaves their words. What it shows
        then is the same drawing as an image, without notes under the pointer.
        """
        size = "max-width:100%;height:auto"
        shown = self.inline_svg.replace("<svg ", f'<svg style="{size}" ', 1)
        data = base64.b64encode(self._file.encode()).decode()
        image = f'<img src="data:image/svg+xml;base64,{data}" alt="{plain(self.caption)}" style="{size}">'
        return (
            f'{_NOTEBOOK_STYLE}<figure class="rag-plot" style="margin:.5em 0;overflow-x:auto">'
            f'<div style="display:none">{shown}</div>{image}'
            f'<figcaption style="font-size:90%;max-width:60em">{plain(self.caption)}</figcaption></figure>'
        )

    def __repr__(self) -> str:
        return f"<Plot: {self.caption}>"
