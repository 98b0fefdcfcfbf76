"""The lines with a string or an expression as text: by file, complete, and short enough for an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag.lines import ranges
from rag.quoting import counted, visible
from rag.types import Hit, LinesLeft, PatternMatches

_TEXT_CHARS = 8_000
"""The most characters of lines that are shown, about 2,500 tokens; of further files only the numbers are."""


def line_list(hits: Sequence[Hit], matches: PatternMatches, *, several: bool, next_page: str = "") -> str:
    """Return the lines of a page below what was found in all, then where the other lines are.

    A line within a test is `12 in test_name: text`, where the line before it is not in the same one. A file
    with one line is `path:12: text`; one with several is `path:` with `12: text` for each line below.
    Where the texts are too long in all, the rest of the files are `path:12,45,77`. Of several repositories,
    each path begins with the name of its own.

    Args:
        hits: the lines of the page.
        matches: counts all lines.
        several: whether several repositories were searched.
        next_page: how to get the next page, in words, if there is one.
    """
    rows: list[str] = []
    left, numbered = _TEXT_CHARS, 0
    for path, lines in _by_file(hits, several=several).items():
        texts = [_text(hit, before) for hit, before in zip(lines, [None, *lines], strict=False)]
        left -= sum(map(len, texts))
        if left < 0 and rows:
            rows.append(f"{visible(path)}:{ranges(hit.start for hit in lines)}")
            left, numbered = 0, numbered + len(lines)
        elif len(texts) == 1:
            rows.append(f"{visible(path)}:{texts[0]}")
        else:
            rows += [f"{visible(path)}:", *texts]
    cut = f"; of {counted(numbered, 'line')} only the numbers are shown" if numbered else ""
    head = f"{matches.note}{cut}{':' if rows else '.'}"
    return "\n".join([head, *rows, *_rest(matches, several, next_page)])


def line_places(hits: Sequence[Hit]) -> list[str]:
    """Return the places of lines by file, such as `app.py:12,45`, in their order."""
    files = _by_file(hits, several=False).items()
    return [f"{path}:{ranges(hit.start for hit in lines)}" for path, lines in files]


def _by_file(hits: Sequence[Hit], *, several: bool) -> dict[str, list[Hit]]:
    """Return the lines by file, in the order of the first line of each; those of a file in their order."""
    by_file: dict[str, list[Hit]] = {}
    for hit in hits:
        by_file.setdefault(f"{hit.repo}:{hit.path}" if several else hit.path, []).append(hit)
    return {path: sorted(lines, key=lambda hit: hit.start) for path, lines in by_file.items()}


def _text(hit: Hit, before: Hit | None) -> str:
    """Return the lines of a match after their numbers, without the indent of the first one."""
    first, *more = hit.text.split("\n")
    place = str(hit.start) if hit.start == hit.end else f"{hit.start}-{hit.end}"
    is_same = before is not None and (before.scope, before.symbol) == (hit.scope, hit.symbol)
    if hit.kind == "test" and hit.unit == "function" and not is_same and hit.symbol not in first:
        place += f" in {visible(hit.symbol)}"
    return "\n".join([f"{place}: {first.strip()}", *(f"  {line.rstrip()}" for line in more)])


def _rest(matches: PatternMatches, several: bool, next_page: str) -> Iterator[str]:
    """Yield a sentence on the lines of later pages, with the number of those of each file."""
    if not matches.rest:
        return

    def named(one: LinesLeft) -> str:
        return f"{visible(f'{one.repo}:{one.path}' if several else one.path)} {one.lines:,}"

    files = ", ".join(map(named, matches.rest))
    yield f"Not shown ({counted(matches.more, 'line')}): {files}."
    if matches.next_page is not None and next_page:
        yield f"{next_page[:1].upper()}{next_page[1:]}."
