"""Recognise a pasted change by its format: a diff, or text followed by the paths of the changed files."""

from __future__ import annotations

import re

from rag.lines import lines_of

_MAX_CHANGED = 200
_HEADER = re.compile(r"(?:diff --git a/.+ b/|\+\+\+ (?:b/)?)(?P<path>[^\t]+)")
_HUNK = re.compile(r"@@ [-+\d, ]+ @@ ?(?P<within>.*)")
_OF_DIFF = ("diff --git ", "index ", "--- ", "+++ ", "@@ ", "+", "-", " ", "\\ ")
_PATH = r"`?(?:[\w@+.-]{1,255}/)*[\w@+.-]{1,255}\.[A-Za-z]\w{0,9}`?"
_LISTED = re.compile(
    rf"\s*(?:[-*•]\s+|[ACDMRTU]\d{{0,3}}\s+)?({_PATH}),?\s*"
    rf"|(?:[\w ]{{1,30}}:)?\s*({_PATH}(?:,?\s+{_PATH}){{1,99}})\s*"
)
"""A line that is a path alone, after a bullet or the letter of `git diff --name-status`, or several paths."""


def read_change(text: str) -> tuple[str, tuple[str, ...]]:
    """Return what a pasted change says, without the lines of its diff, and the paths of the changed files.

    Of a diff the paths and the definitions in the headings of its parts are kept. Paths count as those of
    changed files where they are in a diff, or alone on a line of a text that asks nothing: after other lines,
    or several of them without any. Of any other text, such as a remark below a path, which is returned as it
    is, there are none.
    """
    said: list[str] = []
    paths: dict[str, None] = {}
    in_diff = heads = False
    for line in lines_of(text):
        if header := _HEADER.fullmatch(line):
            in_diff = True
            paths[header["path"]] = None
        elif in_diff and line.startswith(_OF_DIFF):
            if hunk := _HUNK.fullmatch(line):
                said.append(hunk["within"])
        elif listed := _LISTED.fullmatch(line):
            heads = heads or not any(map(str.strip, said))
            paths |= dict.fromkeys(re.split(r"[\s,`]+", (listed[1] or listed[2]).strip("`")))
        else:
            said.append(line)
    said = [line for line in said if line.strip()]
    asks = any(line.rstrip().endswith("?") for line in said)
    is_list = not heads if said else len(paths) > 1
    if not in_diff and (not is_list or not paths or asks):
        return text, ()
    changed = tuple(paths)[:_MAX_CHANGED]
    return "\n".join([*said, *changed]), changed
