"""What every target is."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

from rag.isolation import OUR_ERROR
from tools.fuzz.case import Case

if TYPE_CHECKING:
    from rag.service import Engine

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "data" / "sample_repo"


class Refused(Exception):
    """The input did something that it must not do; the message says what."""


def not_ours(why: str) -> None:
    """Raise Refused if a text was given up for an error in rag itself."""
    if why.startswith(OUR_ERROR):
        raise Refused(why)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one input may cost."""

    seconds: float = 1.0
    seconds_per_byte: float = 2e-6
    memory_bytes: int = 64 << 20
    memory_per_byte: int = 400

    def cpu_s(self, size: int) -> float:
        """The CPU time that an input of this size may take."""
        return self.seconds + self.seconds_per_byte * size

    def peak_bytes(self, size: int) -> int:
        """The memory that it may take above what the process held before."""
        return self.memory_bytes + self.memory_per_byte * size


MANY_QUESTIONS = Bounds(seconds_per_byte=60e-6)
"""For a list of short questions, each of which is searched: so many bytes, so many searches of 5 ms."""


class Target(ABC):
    """A part of rag that takes text. One object lives as long as its worker process.

    Args:
        folder: its own, empty at first.
    """

    name: ClassVar[str]
    share: ClassVar[float]
    """How many of 100 inputs are this target's; few where an input takes long."""
    bounds: ClassVar[Bounds] = Bounds()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def make(self, rng: Random) -> Case:
        """An input that `rng` decides."""

    @abstractmethod
    def run(self, case: Case) -> None:
        """Give the input to rag. What is raised is a fault, but for what this method catches.

        Raises:
            Refused: rag did not raise, and what it gave is wrong.
        """

    def allowed(self, case: Case) -> Bounds:
        """What an input may cost."""
        return self.bounds

    def ready(self) -> None:  # noqa: B027 - most have nothing to do
        """Restore what an earlier input may have changed; this is not measured."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Release what is open."""


def sample_copy(folder: Path) -> Path:
    """A copy of the sample repository, without git."""
    root = folder / "sample"
    if not root.exists():
        shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def open_engine(folder: Path) -> Engine:
    """An engine whose conversations live in memory only."""
    from rag.service import Engine
    from rag.settings import Settings

    return Engine(Settings(home=folder / "rag-home", memory="memory:"))
