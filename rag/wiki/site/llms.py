"""The pages of a site for programs: `llms.txt`, a list, and `llms-full.txt`, their text. See llmstxt.org.

Both are bounded, and name what was left out. Links are relative to the root of the built site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rag.answer.markdown import closes_fence, code_spans, opened_fence
from rag.markdown import plain
from rag.quoting import counted

LLMS_FILE = "llms.txt"
LLMS_FULL_FILE = "llms-full.txt"
MAX_LIST_BYTES = 100_000
MAX_FULL_BYTES = 1_000_000
_MAX_NAMED = 200
_SPARE_BYTES = 500
"""Kept for the title and the sentence on what was left out."""

_LABEL = r"\[((?:\\.|`[^`]*`|[^\[\]`\\])*+)\]"
_LINK = re.compile(rf"(!?){_LABEL}(?:\(([^()\s]+)(?:\s+\"[^\"]*\")?\)|\[([^\[\]]*)\])?")
_DEFINITION = re.compile(r"\s{0,3}\[([^\]]+)\]:[ \t]+(\S+)")


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a built site: its address relative to the site's root, and its Markdown."""

    title: str
    url: str
    description: str = ""
    text: str = ""


def llms_txt(
    title: str, description: str, sections: Mapping[str, Sequence[ListedPage]], about: str = ""
) -> str:
    """Return the list of pages, at most `MAX_LIST_BYTES` long. `about` is one more sentence."""
    lines = [*_head(title, description), *([about, ""] if about else [])]
    left, omitted = MAX_LIST_BYTES - _SPARE_BYTES - _size("\n".join(lines)), 0
    for name, pages in sections.items():
        listed = []
        for page in pages:
            line = _entry(page)
            left -= _size(line)
            if left < 0:
                omitted += 1
            else:
                listed.append(line)
        lines += [f"## {plain(name)}", "", *listed, ""] if listed else []
    if omitted:
        limit = f"{MAX_LIST_BYTES:,} bytes"
        lines += [f"Left out: {counted(omitted, 'more page')}; this list holds at most {limit}.", ""]
    return "\n".join(lines)


def llms_full_txt(title: str, description: str, pages: Sequence[ListedPage]) -> str:
    """Return the text of the pages in order, at most `MAX_FULL_BYTES` long.

    A page that does not fit is left out whole, and named at the end.
    """
    parts = ["\n".join(_head(title, description))]
    omitted: list[ListedPage] = []
    left = MAX_FULL_BYTES - _SPARE_BYTES - _size(parts[0])
    for page in pages:
        part = f"Source: {page.url}\n\n{page.text.strip()}\n"
        names = sum(_size(_entry(each)) for each in omitted[:_MAX_NAMED])
        if _size(part) + names > left:
            omitted.append(page)
        else:
            left -= _size(part)
            parts.append(part)
    if omitted:
        named = [_entry(page) for page in omitted[:_MAX_NAMED]]
        if rest := len(omitted) - len(named):
            named.append(f"- and {rest:,} more")
        count, limit = f"{len(omitted):,} of {len(pages):,} pages", f"{MAX_FULL_BYTES:,} bytes"
        parts.append("\n".join([f"{count} are left out: this file holds at most {limit}.", "", *named, ""]))
    return "\n".join(parts)


def _head(title: str, description: str) -> list[str]:
    return [f"# {plain(title)}", "", *([f"> {plain(description)}", ""] if description else [])]


def _entry(page: ListedPage) -> str:
    entry = f"- [{plain(page.title)[:_SPARE_BYTES]}]({page.url})"
    return f"{entry}: {plain(page.description)[:_SPARE_BYTES]}" if page.description else entry


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + 1


def with_page_links(text: str, address: Callable[[str], str | None]) -> str:
    """Return Markdown whose links have other targets; code blocks are not changed.

    `address` returns the new target of a path, given without its anchor. If it returns None, only the label
    is kept: most of the characters of a wiki's pages are addresses of lines, which a label names as well.
    """
    lines, definitions = _without_definitions(text.split("\n"))

    def moved(match: re.Match[str], spans: Sequence[tuple[int, int]]) -> str:
        if any(start <= match.start() < end for start, end in spans):
            return match[0]
        mark, label, target, reference = match.groups()
        if target is None:
            target = definitions.get((reference or label).lower())
        if target is None:
            return match[0]
        path, sign, anchor = target.partition("#")
        found = address(path) if path else path
        return label if found is None else f"{mark}[{label}]({found}{sign}{anchor})"

    def without_code(line: str) -> str:
        spans = code_spans(line)
        return _LINK.sub(lambda match: moved(match, spans), line)

    return "\n".join(line if is_code else without_code(line) for line, is_code in lines)


def _without_definitions(lines: Sequence[str]) -> tuple[list[tuple[str, bool]], dict[str, str]]:
    """Return the lines, each with whether it is code, and the targets of the references defined in them."""
    kept: list[tuple[str, bool]] = []
    definitions: dict[str, str] = {}
    fence = None
    for line in lines:
        if fence is not None:
            kept.append((line, True))
            fence = None if closes_fence(line, fence) else fence
        elif (fence := opened_fence(line)) is not None:
            kept.append((line, True))
        elif found := _DEFINITION.fullmatch(line.rstrip()):
            definitions[found[1].lower()] = found[2]
        else:
            kept.append((line, False))
    return kept, definitions
