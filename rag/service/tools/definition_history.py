"""Answer questions about the history of a definition from git: who changed it, since when it exists, why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rag.corpus.line_history import Change, LineHistory, history_of_lines
from rag.lines import lines_of
from rag.retrieval.asked_history import Asks, asked_history, is_made
from rag.retrieval.kinds.asked import merged_hits
from rag.retrieval.kinds.history import HistorySubject, matching, sought_words, subject_of
from rag.retrieval.search import RetrievalResult
from rag.service.repositories.repository import Repository
from rag.types import CodeFact, CodeFacts, Source
from rag.types.question_kinds import HISTORY

NO_HISTORY = "the answer is based on a published index, and the history is not on this machine"
_SHOWN_CHANGES = 8
_MAX_REASON_CHARS = 300
_PLAIN = str.maketrans("[]<>`", "()‹›'")
"""Text of commits is shown in Markdown; without these characters it has no links, images and tags."""


def with_history(
    repositories: Sequence[Repository],
    found: RetrievalResult,
    k: int,
    on_missing: Callable[[Source], None] = lambda source: None,
) -> RetrievalResult:
    """Add the commits of the definition or file to the result of a question about its history.

    `on_missing` is called with the source whose history is needed and not on this machine.
    """
    asks = asked_history(found.sought.question.text)
    if asks is None or any(hit.asked_line for hit in found.ranked[:1]):  # asks for the changes of a release
        return found
    indexes = [repository.store for repository in repositories]
    subject = subject_of(found.sought, asks, found.ranked, indexes)
    if subject is None:
        return found
    repository = next(one for one in repositories if one.store is subject.index)
    source, checkout = repository.source, repository.checkout
    order = list[int]()
    if checkout.has_files:
        lines = (subject.hit.path, subject.first, subject.last)
        root, whole = history_root(repository), subject.is_file
        history = history_of_lines(root, checkout.commit, *lines, whole=whole)
        texts = [(one.subject, f"{one.body} {_moved(one)}", one.lines) for one in history.changes]
        if not (asks == "introduced" and is_made(found.sought.question.text, subject.name)):
            order = matching(sought_words(found.sought.question, subject), texts)
    else:
        history = LineHistory(note=NO_HISTORY)
        on_missing(source)
    if asks == "event" and not order:
        return found
    facts = _facts(asks, subject, history, order)
    return replace(found, code_facts=facts, hits=merged_hits(facts, found.ranked, indexes, k))


def history_root(repository: Repository) -> Path:
    """Return the folder with the history: a clone of a ref of a folder may lack what the folder has."""
    source, checkout = repository.source, repository.checkout
    return checkout.root if source.is_url or not source.ref else Path(source.location)


def _facts(asks: Asks, subject: HistorySubject, history: LineHistory, order: Sequence[int]) -> CodeFacts:
    """Return the commits, those that match the question first if `order` says which these are."""
    changes = history.changes
    shown = [changes[number] for number in order or range(len(changes))][:_SHOWN_CHANGES]
    if not order and history.complete and len(changes) > len(shown):
        shown[-1] = changes[-1]
    reasons = [_reason(change, is_first=history.complete and change is changes[-1]) for change in shown]
    note = history.note
    if history.is_edited and changes:
        note = "; ".join(filter(None, [note, "its lines have changes that are not committed"]))
    return CodeFacts(
        kind=HISTORY,
        subject=subject.name,
        summary=f"`{subject.name}` was {reasons[0]}{_why(shown[0])}"
        if order
        else _summary(asks, subject.name, history),
        items=tuple(_fact(subject, reason) for reason in reasons or ["its definition today"]),
        count=max(len(changes), 1),
        certain_count=max(len(changes), 1) if subject.certain else 0,
        complete=history.complete,
        note=note,
    )


def _summary(asks: Asks, name: str, history: LineHistory) -> str:
    """Return the answer in one sentence."""
    if not history.changes:
        return f"the history of `{name}` is not known: {history.note}"
    last, first = history.changes[0], history.changes[-1]
    if asks == "changed" or not history.complete:
        least = "" if history.complete else "at least "
        more = "" if len(history.changes) == 1 else f"; {least}{len(history.changes)} commits changed it"
        known = "" if history.complete or asks == "changed" else ", when it was introduced is not known"
        return f"`{name}` was last changed {by(last)}{more}{known}"
    again = f"; last changed {by(last)}" if len(history.changes) > 1 else ""
    return f"`{name}` was introduced {by(first)}{_why(first)}{again}"


def _why(change: Change) -> str:
    said = _plain(change.body).lstrip("-* ").rstrip(".")
    return f" — {said}" if said else ""


def by(change: Change) -> str:
    """Return who made a commit, when, and what it says."""
    return f'by {_plain(change.author)} on {change.date} in {change.commit[:10]} ("{_plain(change.subject)}")'


def _reason(change: Change, *, is_first: bool) -> str:
    return f"{'introduced' if is_first else _moved(change) or 'changed'} {by(change)}"


def _moved(change: Change) -> str:
    return f"moved or renamed from `{_plain(change.renamed_from)}`" if change.renamed_from else ""


def _plain(text: str) -> str:
    shown = text.translate(_PLAIN)
    return shown if len(shown) <= _MAX_REASON_CHARS else shown[:_MAX_REASON_CHARS].rstrip() + "…"


def _fact(subject: HistorySubject, reason: str) -> CodeFact:
    hit = subject.hit
    text, _ = subject.index.file_text(hit.path) or ("", "")
    return CodeFact(
        span=replace(hit.span, start=subject.first, end=subject.last),
        text="\n".join(lines_of(text)[subject.first - 1 : subject.last]),
        reason=reason,
        certain=subject.certain,
        dirty=hit.dirty,
        location=hit.location,
    )
