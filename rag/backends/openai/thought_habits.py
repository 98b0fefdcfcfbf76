"""Remembers how the answers of a model begin, so that only the first one is held back until its end."""

from __future__ import annotations

import contextlib
from hashlib import sha256
from pathlib import Path
from typing import get_args

from rag.backends.openai.reasoning import Habit
from rag.resources import make_private, read_regular

FOLDER = "thought_habits"
_MAX_FILE_BYTES = 20


class ThoughtHabit:
    """The habit of one model at one service, in a small file that the processes of a user share.

    A file that cannot be read or is damaged counts as missing; if it cannot be written, this object alone
    remembers.
    """

    def __init__(self, home: Path, service: str, model: str) -> None:
        key = sha256(f"{service}\n{model}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._file = home / FOLDER / key
        self._learned: Habit = ""

    @property
    def value(self) -> Habit:
        """The habit; "" if no answer is known."""
        try:
            read = read_regular(self._file, max_bytes=_MAX_FILE_BYTES).decode("ascii", "replace")
        except OSError:
            read = ""
        return next((habit for habit in get_args(Habit) if habit and habit == read), self._learned)

    def learn(self, habit: Habit) -> None:
        """Remember how an answer began."""
        if habit == self.value:
            return
        self._learned = habit
        # It is only an optimization: without the file, an answer is not streamed.
        with contextlib.suppress(OSError):
            make_private(self._file.parent)
            self._file.write_text(habit)
