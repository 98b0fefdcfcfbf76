"""Parse untrusted JSON and TOML: any unreadable text raises ValueError, including too deep nesting.

Ages and sizes are parsed too, as people write them, and stored bytes are decompressed and decoded.
"""

from __future__ import annotations

import json
import re
import tomllib
import zlib
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

_TOO_DEEP = "it is nested too deeply"
_MAX_DOTS = 300
"""The most dots of a line of TOML outside of strings: a key takes time with the square of its parts."""
MAX_DECOMPRESSED_BYTES = 256 << 20
"""More than any text that is stored: a few kilobytes can expand to gigabytes."""
_TOML_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*+(?:\"|$)|'[^']*(?:'|$)")


def decompressed(data: bytes) -> bytes:
    """Decompress stored bytes. Raises zlib.error: they are damaged, or larger than MAX_DECOMPRESSED_BYTES."""
    inflater = zlib.decompressobj()
    content = inflater.decompress(data, MAX_DECOMPRESSED_BYTES)
    if not inflater.eof:
        raise zlib.error("incomplete, or too large when decompressed")
    return content


def stored_text(record: bytes) -> str:
    """Return the text of a stored record, with lone surrogates; of a damaged one what is readable."""
    try:
        return record.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return record.decode("utf-8", "replace")


def stored_number(record: bytes | None, default: int) -> int:
    """Return the whole number of a stored record; `default` if there is none, or it is damaged."""
    found = re.fullmatch(rb"-?\d{1,19}", record or b"")
    return int(found[0]) if found else default


def parse_json(text: str | bytes) -> Any:
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


def age_text(age: timedelta) -> str:
    """Return a time as `parse_age` reads it: in days, else in hours."""
    hours = round(age.total_seconds() / 3_600)
    return f"{hours // 24}d" if hours % 24 == 0 else f"{hours}h"


def parse_expiry(text: str, now: datetime) -> datetime:
    """Return when something expires: after an age such as `30d`, or at the end of a day such as `2027-01-31`.

    A time is accepted too (`2027-01-31T12:00+01:00`). Days and times without a zone are UTC.

    Raises:
        ValueError: it is none of these, or is past.
    """
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()):
            found = datetime.combine(date.fromisoformat(text.strip()), time(23, 59, 59), UTC)
        elif "-" in text:
            found = datetime.fromisoformat(text.strip())
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
        else:
            found = now + parse_age(text)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time; write an age such as 30d, or a day such as 2027-01-31"
        ) from None
    if found <= now:
        raise ValueError(f"{text!r} is past")
    return found


def parse_size(text: str) -> int:
    """Return the bytes that a text such as `500MB`, `5 GB` or `1000000` means. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*([kmgt]?)i?b?", text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write a number of bytes, or one with a unit, such as 5GB")
    return int(float(found[1]) * 1000 ** " kmgt".index(found[2] or " "))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError (often a TOMLDecodeError) for invalid text."""
    for line in text.split("\n"):
        if line.count(".") > _MAX_DOTS and _TOML_STRING.sub("", line).count(".") > _MAX_DOTS:
            raise ValueError(f"a line has more than {_MAX_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
