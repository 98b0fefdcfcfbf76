"""Counts tokens with a factor that is learned from what a service reports.

The vocabulary of most models is not available here, so another one's count is multiplied by a factor. Without
evidence the factor is flat and large. Each answer with reported tokens gives a ratio of reported to counted
tokens; from then on the factor is the largest of the last ratios and a margin that shrinks with their number.
The ratios of a model are in a small file, which several processes may read and replace.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from rag.ports import TokenCounter
from rag.resources import make_private

_MAX_RATIOS = 20
_MIN_TOKENS = 300
"""In a shorter prompt the tokens that a service adds around messages are too large a share."""
_PLAUSIBLE = 0.9, 2.5
"""Other ratios are wrong reports: of a part of the prompt, or of something else. They are ignored."""
_MIN_FACTOR, _MAX_FACTOR = 1.0, 2.0
_MARGIN, _FIRST_MARGIN = 0.02, 0.06
"""What is added to the largest ratio, and what is added in addition, divided by the number of ratios."""
_MAX_FILE_BYTES = 10_000


class LearnedCounter:
    """Multiplies another counter's count by a factor; implements `LearningCounter`.

    Characters outside ASCII always count with the flat factor at least, as vocabularies differ most there.

    Args:
        base: counts with a vocabulary that is available.
        flat: the factor without evidence.
        file: the ratios of this model at this service. A file that cannot be read or is damaged counts as
            empty; if it cannot be written, this process alone remembers.
    """

    def __init__(self, base: TokenCounter, flat: float, file: Path) -> None:
        self._base, self._flat, self._file = base, flat, file
        self._seen: tuple[int, ...] = ()
        self._ratios: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The base counter and the factor."""
        return f"{self._base.name} × {self.factor:.2f}"

    @property
    def ratios(self) -> tuple[float, ...]:
        """The last ratios, oldest first. The file is read again when another process has replaced it."""
        seen = _identity(self._file)
        if seen and seen != self._seen:
            self._ratios, self._seen = _read(self._file), seen
        return self._ratios

    @property
    def factor(self) -> float:
        """The factor in use, from 1 to 2."""
        if not (ratios := self.ratios):
            return self._flat
        upper = max(ratios) + _MARGIN + _FIRST_MARGIN / len(ratios)
        return min(max(upper, _MIN_FACTOR), _MAX_FACTOR)

    def count(self, text: str) -> int:
        """Return an estimate on the high side; 0 for ""."""
        if not text:
            return 0
        factor, foreign = self.factor, 0
        if not text.isascii():
            foreign = len(text) - len(text.encode("ascii", "ignore"))
        more = foreign * max(self._flat - factor, 0.0)
        return math.ceil(self._base.count(text) * factor + more) + 1

    def learn(self, text: str, tokens: int) -> None:
        """Learn from the tokens that the service reported for a prompt. What is not plausible is ignored."""
        counted = self._base.count(text)
        if counted < _MIN_TOKENS or not _PLAUSIBLE[0] <= tokens / counted <= _PLAUSIBLE[1]:
            return
        self._ratios = (*self.ratios, round(tokens / counted, 4))[-_MAX_RATIOS:]
        # It is only an optimization: a folder that cannot be written costs room in the prompt, nothing else.
        with contextlib.suppress(OSError):
            _write(self._file, self._ratios)
            self._seen = _identity(self._file)


def ratios_file(home: Path, service: str, model: str) -> Path:
    """Return the file of a model's ratios; its name does not reveal the address of the service."""
    key = sha256(f"{service}\n{model}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return home / "token_factors" / f"{key}.json"


def _identity(file: Path) -> tuple[int, ...]:
    """Return what differs after a file was replaced; () if there is none."""
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(file: Path) -> tuple[float, ...]:
    try:
        with file.open("rb") as opened:
            values = json.loads(opened.read(_MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return ()
    low, high = _PLAUSIBLE
    found = values if isinstance(values, list) else []
    numbers = [one for one in found if isinstance(one, float | int) and not isinstance(one, bool)]
    return tuple(float(one) for one in numbers if low <= one <= high)[-_MAX_RATIOS:]


def _write(file: Path, ratios: Sequence[float]) -> None:
    """Replace the file atomically. Raises OSError."""
    make_private(file.parent)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            json.dump(list(ratios), opened)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
