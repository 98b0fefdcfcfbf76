"""Sources and turns as a template sees them, with untrusted text sanitized."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag.quoting import fence, one_line, visible, well_formed, without_markers
from rag.types import (
    AssistantResponse,
    Citation,
    CodeFacts,
    DialogTurn,
    FileOutline,
    FreshnessState,
    Hit,
    NumberedSource,
    UserQuery,
    source_of,
)

_MAX_FACT_CHARS = 160
_MAX_LINE_CHARS = 200
_NO_INFO_STRING = re.compile(r"[^A-Za-z0-9+#._-]")


@dataclass(frozen=True, slots=True)
class SourceView:
    """A numbered source in a template. `text` and `meta_data` are what DeepWiki's templates read.

    `reason` says why the source is shown, "" if it was found by its words.
    """

    n: int
    text: str
    place: str
    what: str
    reason: str
    language: str
    fence: str
    meta_data: dict[str, object]


@dataclass(frozen=True, slots=True)
class FileView:
    """The sources of one file, by line. `text` has their lines, each after its number, and `…` for a gap."""

    path: str
    text: str
    language: str
    fence: str
    sources: tuple[SourceView, ...]


def plain(text: str) -> str:
    """Return text that is safe in a prompt: without the prompt's own markers, and encodable."""
    return without_markers(well_formed(text))


def view_of(source: NumberedSource, *, name_repository: bool) -> SourceView:
    """Return a source for a template; `name_repository` puts the repository's name before the path."""
    hit = source.hit
    text = plain(hit.text).rstrip("\r\n")
    path = _path(hit, name_repository=name_repository)
    name = hit.label
    unit = "part" if hit.unit == "block" else hit.unit
    named = [f"{unit} {_word(name)}"] if name else []
    return SourceView(
        n=source.n,
        text=text,
        place=f"{path}:{hit.start}-{hit.end}",
        what="; ".join([*(["test"] if hit.is_test else []), *named]),
        reason=_line(hit.reason),
        language=_language(hit),
        fence=fence(text),
        meta_data={
            "file_path": path,
            "start_line": hit.start,
            "end_line": hit.end,
            "symbol": _word(name),
            "repo": _word(hit.repo),
        },
    )


def by_file(hits: Sequence[Hit]) -> list[list[int]]:
    """Return the positions of hits by file, each file's by line; the file of the first hit comes first."""
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for position, hit in enumerate(hits):
        groups.setdefault((hit.repo, hit.location, hit.path, hit.blob, hit.commit), []).append(position)
    return [sorted(group, key=lambda position: hits[position].start) for group in groups.values()]


def files_of(views: Sequence[SourceView], hits: Sequence[Hit]) -> list[FileView]:
    """Return sources by file, for a template; the file of the best source comes first."""
    return [_file_view([(hits[n], views[n]) for n in group]) for group in by_file(hits)]


def _file_view(group: Sequence[tuple[Hit, SourceView]]) -> FileView:
    first, view = group[0]
    text = numbered_text(first)
    for (before, _), (hit, _) in pairwise(group):
        gap = "\n" if hit.start == before.end + 1 else "\n…\n"
        text += gap + numbered_text(hit)
    return FileView(
        path=str(view.meta_data["file_path"]),
        text=text,
        language=view.language,
        fence=fence(text),
        sources=tuple(view for _, view in group),
    )


def numbered_text(hit: Hit) -> str:
    """Return the lines of a hit, each after its number and a space."""
    lines = plain(hit.text).rstrip("\r\n").split("\n")
    return "\n".join(f"{number} {line}".rstrip() for number, line in enumerate(lines, hit.start))


def place_line(source: NumberedSource, *, name_repository: bool, about: str = "", line: str = "") -> str:
    """Return a source of one line for a template: `[7] path:37 Session.sign — def sign(self, token):`.

    Args:
        source: the place.
        name_repository: put the repository's name before the path.
        about: what is said of it; by default its name.
        line: what is shown of the line; by default all of it, if it is not very long.
    """
    path = _path(source.hit, name_repository=name_repository)
    return f"[{source.n}] {path}:{line_row(source.hit, about, line)}"


def line_row(hit: Hit, about: str = "", line: str = "") -> str:
    """Return a place of one line without its path: `37 Session.sign — def sign(self, token):`."""
    text = line or short_line(hit.text.strip("\r\n"), hit.symbol)
    return f"{hit.start} {what_of(hit, about)}".rstrip() + f" — {visible(plain(text.strip()))}"


def what_of(hit: Hit, about: str = "") -> str:
    """Return what is said of a place, by default its name, and whether it is a test."""
    said = about or _word(hit.label)
    return f"{said} (test)".lstrip() if hit.is_test else said


def short_line(line: str, name: str) -> str:
    """Return a line as it is shown; a very long one is cut around a name."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    at = max(0, min(line.find(name) - _MAX_LINE_CHARS // 4, len(line) - _MAX_LINE_CHARS))
    return f"{'…' if at else ''}{line[at : at + _MAX_LINE_CHARS]}…"


@dataclass(frozen=True, slots=True)
class OutlineView:
    """The outline of a file in a template: its path and what it defines, each with its lines."""

    path: str
    definitions: tuple[str, ...]
    more: int


def outline_view(outline: FileOutline, *, name_repository: bool) -> OutlineView:
    """Return the outline of a file for a template; each definition is a text such as `12-40 Session.sign`."""
    path = f"{outline.repo}:{outline.path}" if name_repository else outline.path
    listed = tuple(f"{one.start}-{one.end} {_word(one.name)}" for one in outline.definitions)
    return OutlineView(_word(path), listed, outline.more)


def _path(hit: Hit, *, name_repository: bool) -> str:
    return _word(f"{hit.repo}:{hit.path}" if name_repository else hit.path)


def _language(hit: Hit) -> str:
    return _NO_INFO_STRING.sub("", hit.language)


@dataclass(frozen=True, slots=True)
class CodeFactView:
    """A fact in a template. `n` is the number of the source that holds it, 0 for none."""

    n: int
    text: str
    place: str
    reason: str
    certain: bool


@dataclass(frozen=True, slots=True)
class CodeFactsView:
    """The facts for a question of a known kind in a template. `more` counts those that are not items."""

    kind: str
    summary: str
    items: tuple[CodeFactView, ...]
    more: int
    note: str


def facts_view(
    found: CodeFacts | None, sources: Sequence[NumberedSource], *, name_repository: bool
) -> CodeFactsView | None:
    """Return facts for a template, each on one line; None if there are none."""
    if found is None:
        return None
    items = [
        CodeFactView(
            n=source_of(item, sources),
            text=_word(" ".join(item.text.split())[:_MAX_FACT_CHARS]),
            place=_word(f"{item.repo}:{item.path}" if name_repository else item.path) + f":{item.start}",
            reason=_line(item.reason),
            certain=item.certain,
        )
        for item in found.items
    ]
    more = max(found.count - len(items), 0)
    return CodeFactsView(found.kind, _line(found.summary), tuple(items), more, _line(found.note))


@dataclass(frozen=True, slots=True)
class StaleView:
    """A cited place that has changed, or could not be compared."""

    place: str
    state: FreshnessState
    reason: str


Label = Callable[[Sequence[StaleView]], str]


def history_of(turns: Sequence[DialogTurn], label: Label) -> dict[int, DialogTurn]:
    """Return turns for a template, in order, by the number that the user sees.

    They are numbered 1, 2, … where numbers are missing or not unique.

    An answer whose sources have changed, are gone, or could not be compared begins with the text of `label`;
    citations that moved show their current lines.
    """
    numbers = {turn.number for turn in turns if turn.order is not None}
    is_unique = len(numbers) == len(turns)
    keys = [turn.number for turn in turns] if is_unique else range(1, len(turns) + 1)
    return {key: _turn_view(turn, label) for key, turn in zip(keys, turns, strict=True)}


def _turn_view(turn: DialogTurn, label: Label) -> DialogTurn:
    doubtful = [
        StaleView(_word(citation.place), check.state, _word(check.reason))
        for citation, check in turn.checked
        if check.is_stale or check.state == "unknown"
    ]
    note = f"{label(doubtful).strip()}\n" if doubtful else ""
    return replace(
        turn,
        user_query=UserQuery(plain(turn.question)),
        assistant_response=AssistantResponse(note + plain(turn.answer)),
        standalone_question=plain(turn.standalone_question),
        citations=tuple(_citation_view(citation) for citation in turn.with_current_citations().citations),
    )


def _citation_view(citation: Citation) -> Citation:
    span = citation.span
    shown = replace(
        span,
        repo=_word(span.repo),
        path=_word(span.path),
        symbol=_word(span.symbol),
        scope=_word(span.scope),
    )
    return replace(citation, span=shown)


def _word(text: str) -> str:
    return without_markers(one_line(text))


def _line(text: str) -> str:
    return without_markers(visible(text))
