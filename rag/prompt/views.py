"""Sources and turns as a template sees them, with untrusted text sanitized."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rag.quoting import fence, one_line, visible, well_formed, without_markers
from rag.types import (
    AssistantResponse,
    Citation,
    CodeFacts,
    DialogTurn,
    FreshnessState,
    Hit,
    NumberedSource,
    UserQuery,
    source_of,
)

_MAX_FACT_CHARS = 160
_NO_INFO_STRING = re.compile(r"[^A-Za-z0-9+#._-]")


@dataclass(frozen=True, slots=True)
class SourceView:
    """A numbered source in a template. `text` and `meta_data` are what DeepWiki's templates read.

    `cut` names the lines that are shown of those of the whole definition, "" if all are shown; `reason` says
    why the source is shown, "" if it was found by its words.
    """

    n: int
    text: str
    place: str
    what: str
    cut: str
    reason: str
    language: str
    fence: str
    meta_data: dict[str, object]


def plain(text: str) -> str:
    """Return text that is safe in a prompt: without the prompt's own markers, and encodable."""
    return without_markers(well_formed(text))


def view_of(source: NumberedSource, *, name_repository: bool, whole: Hit | None = None) -> SourceView:
    """Return a source for a template; `name_repository` puts the repository's name before the path.

    `whole` is the definition that the source has lines of.
    """
    hit = source.hit
    text = plain(hit.text).rstrip("\r\n")
    path = _word(f"{hit.repo}:{hit.path}" if name_repository else hit.path)
    name = hit.label
    unit = "part" if hit.unit == "block" else hit.unit
    return SourceView(
        n=source.n,
        text=text,
        place=f"{path}:{hit.start}-{hit.end}",
        what=f"{unit} {_word(name)}" if name else "",
        cut=_cut(hit, whole) if whole else "",
        reason=_line(hit.reason),
        language=_NO_INFO_STRING.sub("", hit.language),
        fence=fence(text),
        meta_data={
            "file_path": path,
            "start_line": hit.start,
            "end_line": hit.end,
            "symbol": _word(name),
            "repo": _word(hit.repo),
        },
    )


def _cut(hit: Hit, whole: Hit) -> str:
    if (hit.start, hit.end) == (whole.start, whole.end):
        return ""
    return f"lines {hit.start}-{hit.end} of {whole.start}-{whole.end} shown"


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
    """Return turns for a template, in order, by number (1, 2, … where numbers are missing or not unique).

    An answer whose sources have changed, are gone, or could not be compared begins with the text of `label`;
    citations that moved show their current lines.
    """
    orders = [turn.order for turn in turns if turn.order is not None]
    numbered = len(set(orders)) == len(turns)
    keys = orders if numbered else range(1, len(turns) + 1)
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
