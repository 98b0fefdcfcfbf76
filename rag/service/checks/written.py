"""When what a text says was written: the commit that brought its words into the line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag.corpus.history import read_blobs
from rag.corpus.named_history import blobs_at, line_commits
from rag.memory.claims import Claim

_MAX_EDITS = 8
"""How many times a line may have been moved or corrected."""
_MAX_VERSIONS = 100
"""In how many versions of a text a line is looked for at a time."""
_PLACE = re.compile(r"(?<![\w@+-])[\w@+-]*+[./#:][\w./#:@+-]+")
"""A path, with lines or not."""


def written_in(
    root: Path, path: str, lines: Sequence[str], claims: Sequence[Claim], commit: str
) -> dict[Claim, str]:
    """Return the commit that each claim of a file was written in, without what is not committed.

    A line that was only moved, or in which only another place was corrected, is as old as it was before:
    correcting one does not confirm the others. Any other change of a line does.

    Args:
        root: the repository.
        path: the file.
        lines: its lines.
        claims: what they say.
        commit: the commit that the folder is at.

    Raises:
        SourceError: git takes too long.
    """
    found: dict[Claim, str] = {}
    said = {claim: _without_places(lines[claim.line - 1]) for claim in claims}
    rows: Mapping[str, Mapping[Claim, int]] = {"": {claim: claim.line for claim in claims}}
    for _ in range(_MAX_EDITS):
        before: dict[str, set[Claim]] = defaultdict(set)
        for version, of_version in rows.items():
            dated = line_commits(root, path, {*of_version.values()}, version or None)
            for claim, row in of_version.items():
                if row in dated:
                    found[claim] = dated[row]
                before[f"{dated[row]}~1" if row in dated else commit].add(claim)
        if not (rows := _rows(root, path, before, said)):
            break
    return found


def _rows(
    root: Path, path: str, versions: Mapping[str, set[Claim]], said: Mapping[Claim, str]
) -> dict[str, dict[Claim, int]]:
    """Return the line of each claim in a version of its text, for the versions that have one."""
    blobs = blobs_at(root, [(version, path) for version in [*versions][:_MAX_VERSIONS]])
    contents = read_blobs(root, {*blobs.values()})
    found: dict[str, dict[Claim, int]] = defaultdict(dict)
    for (version, _), blob in blobs.items():
        lines = contents.get(blob, b"").decode("utf-8", "surrogateescape").split("\n")
        for claim in versions[version]:
            for row, line in enumerate(lines, 1):
                if claim.text in line and _without_places(line) == said[claim]:
                    found[version][claim] = row
                    break
    return found


def _without_places(line: str) -> str:
    return " ".join(_PLACE.sub("@", line).split())
