"""The limits of a queue, and the times between attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.errors import SettingsError

LEASE_S = 15.0
"""How long a worker may be silent. It reports every second or two."""
BACKOFF_S = 2.0
MAX_BACKOFF_S = 300.0
MAX_ATTEMPTS = 5
MAX_KEY = 200
MAX_ERROR = 1_000
WORKER_LOST = "the worker {worker} did not report for {lease_s:g} s"


def backoff_s(attempts: int, first_s: float) -> float:
    """Return how long to wait before the next attempt, after this many that failed."""
    return min(first_s * 2.0 ** max(0, attempts - 1), MAX_BACKOFF_S)


def checked_key(key: str) -> str:
    """Return the key of a job. Raises ValueError if it is too short or long."""
    if not 1 <= len(key) <= MAX_KEY or "\0" in key:
        raise ValueError(f"the key of a job has 1 to {MAX_KEY} characters, not {len(key)}")
    return key


def shortened(error: str) -> str:
    """Return an error as it is stored."""
    text = error.replace("\0", "").encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_ERROR else text[: MAX_ERROR - 1] + "…"


def checked_text(args: Mapping[str, Any]) -> None:
    """Check that a database can store the arguments of a job.

    Raises:
        SettingsError: a text in them is not Unicode, such as a path whose bytes are not UTF-8, or has a NUL.
    """
    if storable(args) != args:
        raise SettingsError(
            "the queue cannot store what the job is about: a path or name in it is not valid UTF-8, or has a "
            "NUL; rename the folder, or index it on this machine with `rag index`"
        )


def storable(value: Any) -> Any:
    """Return a JSON value with the characters replaced that a database cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {storable(name): storable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(storable(each) for each in value)
    return value
