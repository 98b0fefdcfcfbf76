"""Parse untrusted JSON and TOML: any unreadable text raises ValueError, including too deep nesting."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError (often a JSONDecodeError) for invalid text."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError (often a TOMLDecodeError) for invalid text."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
