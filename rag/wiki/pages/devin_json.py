"""`.devin/wiki.json`: a repository's own settings for its wiki.

    {"repo_notes": [{"content": "…", "author": "…"}],
     "pages": [{"title": "…", "purpose": "…", "parent": "…", "page_notes": [{"content": "…"}]}]}

With `pages`, exactly those pages are made. Notes are passed to the model that writes; they are untrusted
text, never instructions to this program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag.decoding import text_of
from rag.errors import WikiSteeringInvalid
from rag.parsing import parse_json

if TYPE_CHECKING:
    from rag.code.survey import Survey

STEERING_FILE = ".devin/wiki.json"
MAX_NOTE_CHARS = 10_000
MAX_PAGES = 200
_MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class AskedPage:
    """A page that the repository requests. `parent` is the title of another page, "" for none."""

    title: str
    purpose: str
    parent: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Steering:
    """The requests of a repository. Without `pages` the pages follow the code."""

    notes: tuple[str, ...] = ()
    pages: tuple[AskedPage, ...] = ()


def read_steering(survey: Survey) -> Steering:
    """Return the content of the repository's steering file; empty when it has none.

    Raises:
        WikiSteeringInvalid: it cannot be read or contradicts itself.
    """
    file = survey.files.get(STEERING_FILE)
    if file is not None:
        return parse_steering(file.text)
    if survey.checkout is None:
        return Steering()
    path = survey.checkout.root / STEERING_FILE
    if any(part.is_symlink() for part in (path, path.parent)) or not path.is_file():
        return Steering()
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise _invalid(f"it is larger than {_MAX_BYTES:,} bytes")
        return parse_steering(text_of(path.read_bytes()))
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(f"it cannot be read: {error}") from error


def _invalid(why: str) -> WikiSteeringInvalid:
    return WikiSteeringInvalid(f"{STEERING_FILE} cannot be used: {why}; fix or remove the file")


def parse_steering(text: str) -> Steering:
    """Parse a steering file's text. Unknown fields are ignored.

    Raises:
        WikiSteeringInvalid: it is not such JSON, a title occurs twice, or a parent does not exist.
    """
    try:
        read = parse_json(text)
    except ValueError as error:
        raise _invalid(f"it is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise _invalid("its top is not an object")
    listed = read.get("pages") or []
    if not isinstance(listed, list) or len(listed) > MAX_PAGES:
        raise _invalid(f"`pages` is not a list of at most {MAX_PAGES} pages")
    pages = tuple(_page(number, page) for number, page in enumerate(listed, start=1))
    _check_family(pages)
    return Steering(_notes(read.get("repo_notes"), "repo_notes"), pages)


def _page(number: int, page: Any) -> AskedPage:
    if not isinstance(page, dict):
        raise _invalid(f"page {number} is not an object")
    title, purpose, parent = (page.get(name) or "" for name in ("title", "purpose", "parent"))
    if not all(isinstance(value, str) for value in (title, purpose, parent)) or not title.strip():
        raise _invalid(f"page {number} needs a `title`, and texts as `purpose` and `parent`")
    notes = _notes(page.get("page_notes") or page.get("notes"), f"page {number}")
    return AskedPage(title.strip(), purpose.strip(), parent.strip(), notes)


def _notes(value: Any, where: str) -> tuple[str, ...]:
    notes = [value] if isinstance(value, str) else value or []
    if not isinstance(notes, list):
        raise _invalid(f"the notes of {where} are not a list")
    found = []
    for note in notes:
        content = note.get("content") if isinstance(note, dict) else note
        if not isinstance(content, str) or len(content) > MAX_NOTE_CHARS:
            raise _invalid(f"a note of {where} is not a text of at most {MAX_NOTE_CHARS:,} letters")
        found.append(content)
    return tuple(found)


def _check_family(pages: tuple[AskedPage, ...]) -> None:
    parents = {page.title: page.parent for page in pages}
    if len(parents) != len(pages):
        twice = next(p.title for n, p in enumerate(pages) if p.title in {q.title for q in pages[:n]})
        raise _invalid(f"the title {twice!r} occurs twice")
    for page in pages:
        seen, parent = {page.title}, page.parent
        while parent:
            if parent not in parents:
                raise _invalid(f"{parent!r}, the parent of {page.title!r}, is not a page")
            if parent in seen:
                raise _invalid(f"{page.title!r} is its own ancestor")
            seen.add(parent)
            parent = parents[parent]
