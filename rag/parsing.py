"""Parse untrusted JSON and TOML: any unreadable text raises ValueError, including too deep nesting.

Ages and sizes are parsed too, as people write them.
"""

from __future__ import annotations

import json
import re
import tomllib
from datetime import timedelta
from typing import Any

_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError (often a JSONDecodeError) for invalid text."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def parse_age(text: str) -> timedelta:
    """Return the time that a text such as `30d`, `12h` or `2w` means. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,6})\s*([hdwy])", text.strip().lower())
    if found is None:
        raise ValueError(
            f"{text!r} is not an age; write a number of hours, days, weeks or years, such as 30d"
        )
    return timedelta(hours=int(found[1]) * {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}[found[2]])


def parse_size(text: str) -> int:
    """Return the bytes that a text such as `500MB`, `5 GB` or `1000000` means. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*([kmgt]?)i?b?", text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write a number of bytes, or one with a unit, such as 5GB")
    return int(float(found[1]) * 1000 ** " kmgt".index(found[2] or " "))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError (often a TOMLDecodeError) for invalid text."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
