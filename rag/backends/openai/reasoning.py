"""Removes a reasoning model's thoughts from its answer."""

from __future__ import annotations

from typing import Literal

_BEGIN, _END = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """Return an answer without the `<think>…</think>` block at its beginning, if there is one."""
    thoughts = Thoughts()
    return thoughts.feed(text) + thoughts.close()


class Thoughts:
    """Removes `<think>…</think>` from the beginning of a streamed answer.

    Some servers send the thoughts separately; others send them as text (DeepSeek-R1, Qwen 3).
    If the thoughts never end, the answer is empty.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state: Literal["begins", "thinks", "pauses", "answers"] = "begins"

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be shown now, which may be empty."""
        self._held += piece
        if self._state == "begins":
            begun = self._held.lstrip()
            if len(begun) < len(_BEGIN) and _BEGIN.startswith(begun):
                return ""
            self._state = "thinks" if begun.startswith(_BEGIN) else "answers"
        if self._state == "thinks":
            _, ends, rest = self._held.partition(_END)
            if not ends:
                self._held = self._held[-len(_END) :]
                return ""
            self._state, self._held = "pauses", rest
        if self._state == "pauses":
            self._held = self._held.lstrip()
            self._state = "answers" if self._held else "pauses"
        shown, self._held = self._held, ""
        return shown

    def close(self) -> str:
        """Finish the answer and return the text that was held back."""
        return self._held if self._state == "begins" else ""
