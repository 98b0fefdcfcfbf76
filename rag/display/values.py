"""Values as HTML for a notebook: answers, turns, hits, reports and states of freshness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import singledispatch

from rag.display.answers import ShownSource, answer_html
from rag.display.html import bytes_of, code, framed, pairs, place, plain, table
from rag.types.answer import QUOTING, Answer
from rag.types.citations import Citation, Freshness
from rag.types.index import IndexReport
from rag.types.retrieval import Hit, Hits
from rag.types.source import INDEXED
from rag.types.turns import CheckedTurns, DialogTurn

STATE_COLOURS = {
    "fresh": "#059669",
    "moved": "#2563eb",
    "reformatted": "#0e8aa8",
    "unknown": "#7a7f8a",
    "changed": "#c2660a",
    "gone": "#dc2626",
}
"""The colour of each state of freshness; its contrast is at least 3:1 on white and on black."""


@singledispatch
def html_of(value: object) -> str:
    """Return a value as HTML; its text is escaped."""
    return framed(f"<pre>{plain(repr(value))}</pre>")


@html_of.register
def _answer(value: Answer) -> str:
    sources = _shown_sources(value.citations, value.hits)
    names_places = value.model == QUOTING
    return answer_html(
        value.question, value.text, sources, value.notes, value.warning, names_places=names_places
    )


@html_of.register
def _turn(value: DialogTurn) -> str:
    number = f"{value.number}. " if value.number else ""
    sources = _shown_sources(citation for citation in value.citations if citation.used)
    broken = f"{value.state}: {value.error}" if value.error else "broke off"
    notes = [] if value.complete else [broken]
    names_places = value.model == QUOTING
    return answer_html(number + value.question, value.answer, sources, notes, names_places=names_places)


@html_of.register
def _checked_turns(value: CheckedTurns) -> str:
    """Return the turns, each with the state of the places that its answer is based on."""
    rows = [
        (
            str(turn.number),
            plain(turn.question),
            _state(turn.freshness) if turn.freshness else "not checked",
            _checked_places(turn),
        )
        for turn in value
    ]
    return framed(table(("", "question", "state", "places"), rows))


def _checked_places(turn: DialogTurn) -> str:
    """Return the number of places in each state, and when it is opened each place."""
    counts = Counter(found.state for _, found in turn.checked)
    head = ", ".join(f"{n} {state}" for state, n in counts.items())
    shown = (f"{place(one.location, one.path, one.place)} {_state(found)}" for one, found in turn.checked)
    return f"<details><summary>{head}</summary>{'<br>'.join(shown)}</details>"


@html_of.register
def _freshness(value: Freshness) -> str:
    return framed(f"<p>{_state(value)}</p>")


def _state(one: Freshness) -> str:
    return f'<span style="color:{STATE_COLOURS[one.state]}">●</span> {plain(str(one))}'


@html_of.register
def _hit(value: Hit) -> str:
    return _hits(Hits([value]))


@html_of.register
def _hits(value: Hits) -> str:
    """Return a table of hits; each shows its lines when it is opened."""
    if not value:
        return framed("<p>nothing found</p>")
    most = max(max(hit.score for hit in value), 1e-9)
    rows = [
        (
            str(n),
            _opened_hit(hit),
            plain(" ".join(filter(None, (hit.label, hit.reason)))),
            f'<meter value="{max(hit.score, 0) / most:.2f}" title="{hit.score:.2f}"></meter>',
        )
        for n, hit in enumerate(value, 1)
    ]
    return framed(table(("", "place", "defines", "score"), rows))


def _opened_hit(hit: Hit) -> str:
    lines = code(hit.text, hit.language, hit.start)
    return f"<details><summary>{place(hit.location, hit.path, hit.place)}</summary>{lines}</details>"


@html_of.register
def _report(value: IndexReport) -> str:
    left_out = Counter(skip.reason for skip in value.skipped if skip.reason not in INDEXED)
    rows = [
        ("index", f"{value.action}{f': {value.reason}' if value.reason else ''}"),
        (
            "files",
            f"{value.files:,} of {value.seen:,} seen; {value.changed:,} read, {value.removed:,} removed",
        ),
        ("chunks", f"{value.chunks:,}, {bytes_of(value.size_bytes)}, {value.seconds:.2f} s"),
        ("left out", ", ".join(f"{n:,} {why}" for why, n in left_out.most_common())),
        ("commit", value.commit or "none"),
    ]
    return framed(pairs([*rows, *(("note", remark) for remark in value.remarks)]))


def _shown_sources(citations: Iterable[Citation], hits: Sequence[Hit] = ()) -> list[ShownSource]:
    """Return citations with their lines, as far as the hits have them; places that repeat are left out."""
    found: dict[str, ShownSource] = {}
    for one in citations:
        commit = f"at {one.commit[:10]}{' + changes' if one.dirty else ''}" if one.commit else ""
        hit = next((hit for hit in hits if _holds(hit, one)), None)
        lines = hit.text.split("\n")[one.start - hit.start : one.end - hit.start + 1] if hit else []
        found.setdefault(
            f"{one.location} {one.place}",
            ShownSource(
                one.n,
                one.span,
                one.location,
                commit,
                "\n".join(lines),
                hit.language if hit else "",
            ),
        )
    return list(found.values())


def _holds(hit: Hit, citation: Citation) -> bool:
    same = (hit.location, hit.path) == (citation.location, citation.path)
    return same and hit.start <= citation.start and citation.end <= hit.end
