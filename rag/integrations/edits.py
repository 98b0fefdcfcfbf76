"""A change of one place in a text file that belongs to somebody else."""

from __future__ import annotations

from dataclasses import dataclass


class CannotEdit(ValueError):
    """A text cannot be changed without losing something. The message is a short reason."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` by `text`; everything else stays as it is."""

    start: int
    end: int
    text: str

    def applied(self, original: str) -> str:
        """Return the changed text."""
        return original[: self.start] + self.text + original[self.end :]


def line_break(text: str) -> str:
    """Return how the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"
