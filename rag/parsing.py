"""JSON and TOML of strangers: whatever cannot be read is a ValueError, also what is nested too deeply."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError (often a JSONDecodeError) for what cannot be read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError (often a TOMLDecodeError) for what cannot be read."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
