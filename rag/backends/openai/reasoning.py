"""What a reasoning model thinks aloud before it answers is no part of its answer."""

from __future__ import annotations

from typing import Literal

_BEGIN, _END = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """An answer without the `<think>…</think>` that it begins with; as it is where it begins otherwise."""
    thoughts = Thoughts()
    return thoughts.feed(text) + thoughts.close()


class Thoughts:
    """Takes `<think>…</think>` out of the beginning of an answer that comes in pieces.

    Servers that know the model send its thoughts apart; others send them as text (DeepSeek-R1, Qwen 3).
    Thoughts that never end are all there is: the answer is empty then.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state: Literal["begins", "thinks", "pauses", "answers"] = "begins"

    def feed(self, piece: str) -> str:
        """Take the next piece; return what of the answer can be shown now, perhaps nothing."""
        self._held += piece
        if self._state == "begins":
            begun = self._held.lstrip()
            if len(begun) < len(_BEGIN) and _BEGIN.startswith(begun):
                return ""
            self._state = "thinks" if begun.startswith(_BEGIN) else "answers"
        if self._state == "thinks":
            _, ends, behind = self._held.partition(_END)
            if not ends:
                self._held = self._held[-len(_END) :]
                return ""
            self._state, self._held = "pauses", behind
        if self._state == "pauses":
            self._held = self._held.lstrip()
            self._state = "answers" if self._held else "pauses"
        shown, self._held = self._held, ""
        return shown

    def close(self) -> str:
        """The text is complete: return what was held back of an answer."""
        return self._held if self._state == "begins" else ""
