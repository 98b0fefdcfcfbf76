"""Ranges of lines as clients write them."""

from __future__ import annotations

from rag.errors import ConfigError
from rag.lines import range_in
from rag.serve.errors import BadRequest


def line_range(first: str, last: str | None, *, place: str, param: str) -> tuple[int, int]:
    """Return the first and last line of a range in a place. Raises BadRequest: there is no such range."""
    try:
        return range_in(place, first, last)
    except ConfigError as error:
        raise BadRequest(str(error), param=param) from None
