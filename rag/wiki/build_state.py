"""The state file of a wiki: what its pages were written from, so that the next run writes only what changed.

It is one JSON file in the wiki's folder. For each page it holds the file, a hash of the text, a fingerprint
of its inputs, the blob ids of the files it cites, and the prose that a model wrote. A completed run also
records all its inputs and outputs: while both are unchanged, there is nothing to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rag.corpus.skip import WIKI_STATE_FILE
from rag.errors import WikiUnwritable
from rag.parsing import parse_json
from rag.types import Usage
from rag.wiki.models import WikiPage

VERSION = 1


@dataclass(frozen=True, slots=True)
class ProseCitation:
    """A source that prose cites: its number in the text, its lines, and the blob that holds them."""

    n: int
    path: str
    start: int
    end: int
    blob: str


@dataclass(frozen=True, slots=True)
class Prose:
    """The text that a model wrote for a page. `fingerprint` identifies all inputs of the request.

    `cut` is True if it reached its token limit; the text then ends with its last whole sentence.
    `unsupported` says how many statements their sources do not support, and why; "" if none.
    """

    text: str
    fingerprint: str
    model: str
    citations: tuple[ProseCitation, ...] = ()
    invented: int = 0
    conversation: str = ""
    usage: Usage = field(default_factory=Usage)
    cut: bool = False
    unsupported: str = ""


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


@dataclass(slots=True)
class WikiState:
    """All pages by id, the copies of cited files with their blobs by file name, and a model's plan.

    `made_of` identifies all inputs of the last run, "" if the run was incomplete; `site` holds the hashes of
    the other files, `written` the pages, in order. `options` are those that decide which pages there are.
    """

    pages: dict[str, PageState] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    plan: list[dict[str, Any]] = field(default_factory=list)
    made_of: str = ""
    site: dict[str, str] = field(default_factory=dict)
    written: tuple[WikiPage, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_state(folder: Path) -> WikiState | None:
    """Return the state of the wiki in a folder; None when there is none, or one of another version.

    Raises:
        WikiUnwritable: it exists but cannot be read.
    """
    path = folder / WIKI_STATE_FILE
    try:
        read = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WikiUnwritable(f"{path} cannot be read: {error}; remove it to rewrite the wiki") from error
    if not isinstance(read, dict) or read.get("version") != VERSION:
        return None
    try:
        return WikiState(
            {name: _page(page) for name, page in read["pages"].items()},
            read["copies"],
            read["plan"],
            read.get("made_of", ""),
            dict(read.get("site", {})),
            tuple(_written(page) for page in read.get("written", ())),
            _options(read.get("options", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WikiUnwritable(f"{path} is damaged ({error!r}); remove it to rewrite the wiki") from error


def _page(read: dict[str, Any]) -> PageState:
    prose = read.pop("prose")
    if prose is not None:
        citations = tuple(ProseCitation(**citation) for citation in prose.pop("citations"))
        prose = Prose(**{**prose, "usage": Usage(**prose["usage"])}, citations=citations)
    return PageState(**read, prose=prose)


def _written(read: dict[str, Any]) -> WikiPage:
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in read.items()}
    return WikiPage(**fields)


def _options(read: dict[str, Any]) -> dict[str, Any]:
    globs = [*read.get("include", []), *read.get("exclude", [])]
    number, plan, ref = read.get("max_pages", 1), read.get("plan", False), read.get("ref")
    if type(number) is not int or number < 1 or type(plan) is not bool or not isinstance(ref, str | None):
        raise ValueError("its options are invalid")
    if not all(isinstance(glob, str) for glob in globs):
        raise ValueError("its globs are no texts")
    return dict(read)


def write_state(folder: Path, state: WikiState) -> None:
    """Write the state atomically."""
    pages = {name: asdict(page) for name, page in sorted(state.pages.items())}
    value = {
        "version": VERSION,
        "pages": pages,
        "copies": state.copies,
        "plan": state.plan,
        "made_of": state.made_of,
        "site": state.site,
        "written": [asdict(page) for page in state.written],
        "options": state.options,
    }
    write_text(folder / WIKI_STATE_FILE, json.dumps(value, ensure_ascii=True, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, and create its folder if it is missing.

    Raises:
        WikiUnwritable: the system does not allow it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WikiUnwritable(f"cannot write {path}: {error}; choose another folder with -o") from error
