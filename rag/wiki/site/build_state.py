"""The state file of a wiki: what its pages were written from, so that the next run writes only what changed.

It is one JSON file in the wiki's folder. For each page it holds the file, a hash of the text, a fingerprint
of its inputs, the blob ids of the files it cites, and the prose that a model wrote. A completed run also
records all its inputs and outputs: while both are unchanged, there is nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from rag.corpus.skip import WIKI_STATE_FILE
from rag.errors import WikiUnwritable
from rag.parsing import parse_json
from rag.wiki.models import Prose, WikiPage
from rag.wiki.site.output_files import OutputFiles, is_below

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
_MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class PageState:
    """A page as it was last written. `error` is the reason for missing prose.

    `content` is a hash of what the page said when it was written, whatever its links lead to.
    """

    file: str
    sha256: str
    fingerprint: str
    sources: Mapping[str, str]
    prose: Prose | None = None
    error: str = ""
    content: str = ""


@dataclass(frozen=True, slots=True)
class StructureOptions:
    """What decides which pages a wiki has, besides the files."""

    max_pages: int = 60
    ref: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(slots=True)
class WikiState:
    """All pages by id, the copies of cited files with their blobs by file name.

    `made_of` identifies all inputs of the last run, "" if the run was incomplete; `site` holds the hashes of
    the other files, `written` the pages, in order. `options` are those that decide which pages there are.
    """

    pages: dict[str, PageState] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    made_of: str = ""
    site: dict[str, str] = field(default_factory=dict)
    written: tuple[WikiPage, ...] = ()
    options: StructureOptions = field(default_factory=StructureOptions)


def read_state(files: OutputFiles) -> WikiState | None:
    """Return the state of the wiki in a folder; None when there is none, or one of another version.

    It may have come with the repository: every value has its type, and every name is below the folder.

    Raises:
        WikiUnwritable: it exists but cannot be read.
    """
    path = files.folder / WIKI_STATE_FILE
    text = files.read(WIKI_STATE_FILE, max_bytes=_MAX_BYTES)
    if text is None:
        return None
    try:
        read = parse_json(text)
        if not isinstance(read, dict) or read.get("version") != VERSION:
            return None
        state = _validator().validate_python(read)
        names = [*state.copies, *state.site, *(page.file for page in state.pages.values())]
        if not all(is_below(name) for name in names):
            raise ValueError("it names files outside of the folder")
        if state.options.max_pages < 1:
            raise ValueError("it has no pages")
        return state
    except ValueError as error:
        raise WikiUnwritable(f"{path} is damaged ({error}); remove it to rewrite the wiki") from error


@cache
def _validator() -> TypeAdapter[WikiState]:
    from pydantic import TypeAdapter  # slow to import

    return TypeAdapter(WikiState)


def write_state(files: OutputFiles, state: WikiState) -> None:
    """Write the state atomically."""
    pages = dict(sorted(state.pages.items()))
    value = {"version": VERSION, **asdict(replace(state, pages=pages))}
    files.write(WIKI_STATE_FILE, json.dumps(value, ensure_ascii=True, indent=1) + "\n")
