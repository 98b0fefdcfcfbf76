"""Find the lines of a file that have words of a question on them or near them.

Words are looked for by their beginnings in the whole text at once, ignoring case: that takes far less time
than reading the lines one by one, and finds all lines that can have a term of the question, and some more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

_NEWLINE = ord("\n")
_BEGINNING = 6
_CHANGED_ENDS = "aeioy"
_PUNCTUATION = bytes(code for code in range(128) if code != _NEWLINE and not chr(code).isalnum())

Flags = npt.NDArray[np.bool_]


def beginning(term: str) -> str:
    """Return what every word of a term begins with: stemming changes the ends of short words only."""
    if len(term) > _BEGINNING:
        return term[:_BEGINNING].lower()
    return term.lower().rstrip(_CHANGED_ENDS) or term.lower()


class WordLines:
    """The lines of a file, to be searched for the beginnings of words. `flags[n]` is about line n + 1."""

    def __init__(self, lines: Sequence[str], max_chars: int) -> None:
        """`lines` are read up to `max_chars` characters each."""
        self._lines, self._max_chars = lines, max_chars
        self._known: dict[str, Flags] = {}
        self._known_words: dict[str, Flags] = {}
        self._letters: dict[str, bytes] = {}
        self._known_ends: dict[int, npt.NDArray[np.intp]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @cached_property
    def _written(self) -> str:
        lines: Iterable[str] = self._lines
        if max(map(len, self._lines), default=0) > self._max_chars:
            lines = (line[: self._max_chars] for line in self._lines)
        return "\n".join(lines)

    @cached_property
    def _text(self) -> bytes:
        return self._written.lower().encode("utf-8", "surrogatepass")

    @cached_property
    def _continues(self) -> npt.NDArray[np.bool_]:
        """Which bytes of the text are small letters after another one: no word begins there."""
        written = np.frombuffer(self._written.encode("utf-8", "surrogatepass"), np.uint8)
        if len(written) != len(self._text):  # where small letters take other bytes, any may begin a word
            return np.zeros(len(self._text), np.bool_)
        is_small = (written >= ord("a")) & (written <= ord("z"))
        return is_small & np.concatenate(([False], is_small[:-1]))

    def having(self, beginning: str) -> Flags:
        """Return which lines have a text, which is in lower case."""
        found = self._known.get(beginning)
        if found is None:
            found = self._known[beginning] = self._found(self._text, beginning)
        return found

    def having_words(self, beginning: str) -> Flags:
        """Return which lines may have a word that begins with a text in lower case, also within a name."""
        found = self._known_words.get(beginning)
        if found is None:
            places = self._places(self._text, beginning)
            found = self._known_words[beginning] = self._at(self._text, places[~self._continues[places]])
        return found

    def having_letters(self, letters: str, *, apart_from: str = "") -> Flags:
        """Return which lines have some letters and digits, in lower case, with any punctuation between them.

        What the expression `apart_from` matches may also be between them.
        """
        text = self._letters.get(apart_from)
        if text is None:
            text = self._text.translate(None, _PUNCTUATION)
            text = re.sub(apart_from.encode(), b"", text) if apart_from else text
            self._letters[apart_from] = text
        return self._found(text, letters)

    def _found(self, text: bytes, wanted: str) -> Flags:
        return self._at(text, self._places(text, wanted))

    def _places(self, text: bytes, wanted: str) -> npt.NDArray[np.intp]:
        searched, places = wanted.encode("utf-8", "surrogatepass"), list[int]()
        at = text.find(searched)
        while at >= 0:
            places.append(at)
            at = text.find(searched, at + 1)
        return np.asarray(places, np.intp)

    def _at(self, text: bytes, places: npt.NDArray[np.intp]) -> Flags:
        found = np.zeros(len(self._lines), np.bool_)
        if len(places):
            found[np.searchsorted(self._ends(text), places)] = True
        return found

    def _ends(self, text: bytes) -> npt.NDArray[np.intp]:
        """Return where the lines of a text end."""
        known = self._known_ends.get(id(text))
        if known is None:
            known = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
            self._known_ends[id(text)] = known
        return known

    def having_any(self, beginnings: Iterable[str]) -> Flags:
        """Return which lines have at least one of some texts, which are in lower case."""
        found = np.zeros(len(self._lines), np.bool_)
        for one in beginnings:
            found |= self.having(one)
        return found


def near(flags: Flags, above: int, below: int) -> Flags:
    """Return which lines have a flagged line at most `above` lines above them, or `below` lines below."""
    counts = np.zeros(len(flags) + above + below + 1, np.int32)
    np.cumsum(flags, out=counts[above + 1 : above + 1 + len(flags)])
    counts[above + 1 + len(flags) :] = counts[above + len(flags)]
    return counts[above + below + 1 :] > counts[: len(flags)]
