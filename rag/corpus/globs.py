"""Match one gitignore pattern in time polynomial in pattern and path.

`pathspec` translates a pattern into an expression in which every `*` and `**` backtracks: a pattern such as
`*a*a*a*b` takes exponential time on a path of some dozen characters. Globs do not need that. The text between
two stars is best matched as far left as possible, since that leaves most to the next star. So all stars but
the last one of a segment match without backtracking, and so do all `**` but the last one. Brackets do not
match a slash, as in git.
"""

from __future__ import annotations

import re
from itertools import pairwise

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR = "[^/]*"
_PART = re.compile(
    r"(?P<star>(?:\[\^/\]\*)+)|(?P<plus>\[\^/\]\+)|(?P<one>\[\^/\])"
    r"|(?P<between>\(\?:/\.\+\)\?)|(?P<before>\(\?:\.\+/\)\?)"
    r"|(?P<end>\(\?:\(\?P<ps_d>/\)\|\$\)|\(\?P<ps_d>/\))|(?P<set>\[\^?\]?[^\]]{0,1000}\])|(?P<other>\\.|.)",
    re.DOTALL,
)
"""The parts of an expression that `pathspec` generates."""
_SET_OPERATION = re.compile(r"[\[&~|]|(?<=-)-")
"""Characters that Python's sets may treat as operators in future, and warn about."""


class Glob(GitIgnoreSpecPattern):
    """A pattern of a `.gitignore`, with an expression that does not backtrack."""

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
        """Return the expression of a pattern, and whether it includes what it matches."""
        expression, includes = super().pattern_to_regex(pattern)
        return _linear(expression) if expression else expression, includes


def _linear(expression: str) -> str:
    """Return an equivalent expression without backtracking."""
    parts = [(match.lastgroup or "", match[0]) for match in _PART.finditer(expression)]
    joints = [at for at, (kind, _) in enumerate(parts) if kind in ("before", "between")]
    pieces, start = [], 0
    for this, following in pairwise(joints):
        lazy = "(?:.+?/)??" if parts[this][0] == "before" else "(?:/.+?)??"
        pieces += [_segments(parts[start:this]), f"(?>{lazy}{_segments(parts[this + 1 : following])}(?=/))"]
        start = following
    return "".join([*pieces, _segments(parts[start:])])


def _segments(parts: list[tuple[str, str]]) -> str:
    """Return parts in which no star but the last one of a segment backtracks."""
    made: list[str] = []
    star = -1
    for kind, text in parts:
        if kind == "star":
            if star >= 0:  # the previous star: the fewest characters before the text between the two
                made[star:] = ["(?>[^/]*?", *made[star + 1 :], ")"]
            star, text = len(made), _STAR
        elif kind == "set":
            text = "(?!/)" + text[0] + _SET_OPERATION.sub(r"\\\g<0>", text[1:-1]) + text[-1]
        elif text == "/" or kind in ("between", "before", "end"):
            star = -1
        made.append(text)
    return "".join(made)
