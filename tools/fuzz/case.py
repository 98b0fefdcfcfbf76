"""An input, and the file of those that are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Part = tuple[str, int]
"""A text and how many times it is repeated."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input. `label` says how the target takes it: a file's name, a route, the name of a function."""

    target: str
    label: str
    content: bytes

    @property
    def text(self) -> str:
        """The content as text; surrogates stay what they are."""
        return self.content.decode("utf-8", "surrogatepass" if is_text(self.content) else "replace")


def is_text(content: bytes) -> bool:
    """Whether these bytes are the encoding of some text, surrogates included."""
    try:
        content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def case_of(target: str, label: str, text: str) -> Case:
    """A case of a text, which may hold surrogates."""
    return Case(target, label, text.encode("utf-8", "surrogatepass"))


def joined(parts: Sequence[Part]) -> str:
    """The text that parts describe."""
    return "".join(text * times for text, times in parts)


def kept_cases(file: Path) -> list[tuple[str, Case]]:
    """The kept inputs, each with why it is kept."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    return [
        (row["why"], case_of(row["target"], row["label"], joined([(t, n) for t, n in row["parts"]])))
        for row in rows
    ]
