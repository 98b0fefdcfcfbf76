"""Places in files as clients write them: `path:12-40` or `path#L12-L40`."""

from __future__ import annotations

import re

from rag.serve.errors import BadRequest

_PLACE = re.compile(r"(?P<path>.+?)(?::|#L)(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?")


def place_parts(text: str) -> re.Match[str] | None:
    """Return `path`, `start` and `end` of `PATH:START-END` or `PATH#LSTART-LEND`; None for another text."""
    return _PLACE.fullmatch(text)


def line_range(first: str, last: str | None, *, place: str, param: str) -> tuple[int, int]:
    """Return the first and last line of a range; of a single line, the same number twice.

    Raises:
        BadRequest: the range is reversed, or begins before line 1; the message names it.
    """
    start, end = int(first), int(last or first)
    if start < 1 or end < start:
        shown = f"`{place[:200]}`: {start}-{end}" if last else f"`{place[:200]}`: {start}"
        raise BadRequest(
            f"{shown} is not a range of lines; lines are numbered from 1, the first one comes first",
            param=param,
        )
    return start, end
