"""The check of an answer's statements against the lines that they cite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MAX_REASONS = 3
SupportKind = Literal["unsupported", "uncited", "unknown_name"]


@dataclass(frozen=True, slots=True)
class FlaggedStatement:
    """A statement of an answer that its sources do not support, and why.

    `begin_char` and `end_char` (excluded) are its place in the answer's text, `cited` the numbers of the
    sources it was compared with; of one that cites none, the source that has its words, if there is one.
    """

    kind: SupportKind
    text: str
    reason: str
    begin_char: int
    end_char: int
    cited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SupportCheck:
    """The result of comparing each statement of an answer with the lines that it cites.

    Each of the `statements` is counted once: as `supported`,
    `unsupported` or `uncited`. `unknown_names` are in code font, but neither in the repository nor in what
    the model was given. `flagged` are the first statements that are not supported, in their order; if not
    `complete`, there are more of them, or the answer was too long to be checked whole.
    """

    statements: int = 0
    supported: int = 0
    unsupported: int = 0
    uncited: int = 0
    unknown_names: tuple[str, ...] = ()
    flagged: tuple[FlaggedStatement, ...] = ()
    complete: bool = True

    @property
    def unsupported_line(self) -> str:
        """How many statements are unsupported, with the first reasons; "" if none."""
        reasons = list(dict.fromkeys(one.reason for one in self.flagged if one.kind == "unsupported"))
        are = "is not supported by its" if self.unsupported == 1 else "are not supported by their"
        counts = f"{self.unsupported} of {self.statements} statements {are} sources"
        return f"{counts}: {'; '.join(reasons[:_MAX_REASONS])}" if reasons else ""

    @property
    def nearest(self) -> tuple[int, ...]:
        """The numbers of the sources that have the words of flagged statements without a citation."""
        return tuple(sorted({n for one in self.flagged if one.kind == "uncited" for n in one.cited}))

    @property
    def summary(self) -> str:
        """One line on the statements that are not supported, "" if there are none."""
        parts = [self.unsupported_line]
        if self.uncited:
            cite = "cites" if self.uncited == 1 else "cite"
            words = f" (see {', '.join(f'[{n}]' for n in self.nearest)})" if self.nearest else ""
            parts.append(f"{self.uncited} of {self.statements} statements {cite} no source{words}")
        if self.unknown_names:
            names = ", ".join(f"`{name}`" for name in self.unknown_names[:_MAX_REASONS])
            parts.append(f"names that occur nowhere in the repository: {names}")
        return "; ".join(part for part in parts if part)
