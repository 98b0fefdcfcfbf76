"""A review as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.quoting import visible
from rag.review.values import AffectedTest, BrokenUse, CallSite, ChangedSymbol, Review, StaleStatement

SHOWN = 12
"""How many entries of each part are shown; JSON has more."""
_CALLERS = 3
_MARKS = {"removed": "-", "added": "+", "renamed": ">", "moved": ">", "comment": " "}
_WHAT = {("constant", "body"): "value", ("section", "body"): "text"}
"""How a change of what is no function is called; else by its unit, as in "class body"."""
_MAX_TEXT = 100
_ID_CHARS = 8
"""How much of a conversation's id is shown; commands take the beginning of an id."""
_KIND_NAMES = {"turn": "answer", "fact": "fact", "cached": "cached answer"}


@dataclass(frozen=True, slots=True)
class _Form:
    """How a part, an entry, what is below it, and a name of code are written."""

    part: Callable[[str], str]
    entry: Callable[[str], str]
    below: Callable[[str], str]
    code: Callable[[str], str]


def _fenced(text: str) -> str:
    """Return a name as code in Markdown; it cannot end the code or the line."""
    return f"`{visible(' '.join(text.split())).replace('`', 'ʼ')}`" if text else ""


def _plain(text: str) -> str:
    """Return words of a user or a repository for Markdown, without links, tags and mentions."""
    shown = visible(" ".join(text.split()))
    for mark in "\\`*_[]<>|~@#":
        shown = shown.replace(mark, f"\\{mark}" if mark != "@" else "@\u200b")
    return shown


_TEXT = _Form(
    lambda title: f"\n{title}",
    lambda line: f"  {line}",
    lambda line: f"      {line}",
    lambda text: visible(text),
)
_MARKDOWN = _Form(
    lambda title: f"\n### {title}\n", lambda line: f"- {line}", lambda line: f"  - {line}", _fenced
)


def as_text(review: Review) -> str:
    """Return a review for a terminal: what becomes false first, about one screen."""
    return "\n".join([_summary(review, _TEXT.code), *_parts(review, _TEXT, visible)])


def as_markdown(review: Review) -> str:
    """Return a review as Markdown, for the description or a comment of a pull request."""
    return "\n".join([f"## {_summary(review, _MARKDOWN.code)}", *_parts(review, _MARKDOWN, _plain)]) + "\n"


def _summary(review: Review, code: Callable[[str], str]) -> str:
    counts = review.counts
    head = code(review.head) + (f" ({review.head_commit[:10]})" if review.head_commit else "")
    false = [
        _count(sum(use.certain for use in review.broken), "broken use"),
        _count(counts.stale, "stored answer or fact", "stored answers or facts")
        + (" gone stale" if counts.stale else ""),
    ]
    verdict = " and ".join(part for part in false if part) or "nothing becomes false"
    changed = ", ".join(
        part for part in (_count(counts.files, "file"), _count(counts.symbols, "symbol")) if part
    )
    base = f"{code(review.base)} ({review.base_commit[:10]})"
    return f"{base} → {head}: {verdict}; {changed or 'nothing'} changed"


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {noun if number == 1 else several or noun + 's'}" if number else ""


def _parts(review: Review, form: _Form, plain: Callable[[str], str]) -> list[str]:
    new = {(one.path, one.name) for one in review.symbols if one.change == "added" and one.unit == "class"}
    inner = [one for one in review.symbols if one.change == "added" and _outer(one) in new]
    quiet = [one for one in review.symbols if one.is_test or one.change == "comment" or one in inner]
    symbols = [one for one in review.symbols if one not in quiet]
    moved = {one.was: f"{one.path}:{one.name}" for one in review.symbols if one.was}
    lines = _part(
        "Still used, but gone",
        review.broken,
        review.counts.broken,
        form,
        lambda use, form: _broken(use, form, moved.get(use.symbol, "")),
    )
    lines += _part(
        "No longer supported by the code",
        review.statements,
        review.counts.stale,
        form,
        lambda statement, form: _statement(statement, form, plain),
    )
    lines += _part("Changed symbols", symbols, review.counts.symbols - len(quiet), form, _symbol)
    lines += _part("Tests to run", review.tests, review.counts.tests, form, _test)
    before = review.counts.stale_before
    tests = sum(one.is_test and one.change != "comment" for one in quiet)
    comments = sum(one.change == "comment" for one in quiet)
    notes = [
        note
        for note in (
            f"{_count(comments, 'symbol')} changed only in comments or layout" if comments else "",
            f"{_count(tests, 'symbol')} of tests changed" if tests else "",
            f"{before:,} of the stored answers and facts {'was' if before == 1 else 'were'} stale before"
            if before
            else "",
            *review.notes,
        )
        if note
    ]
    return [*lines, *([form.part("Notes"), *(form.entry(note) for note in notes)] if notes else [])]


def _part(
    title: str, found: Sequence[object], count: int, form: _Form, write: Callable[..., list[str]]
) -> list[str]:
    if not found:
        return []
    lines = [form.part(f"{title} ({count:,})")]
    for one in found[:SHOWN]:
        lines += write(one, form)
    if count > SHOWN:
        lines.append(form.entry(f"… {count - SHOWN:,} more"))
    return lines


def _outer(one: ChangedSymbol) -> tuple[str, str]:
    return one.path, one.name.rpartition(".")[0]


def _broken(use: BrokenUse, form: _Form, now: str) -> list[str]:
    within = f" in {form.code(use.within)}" if use.within else ""
    doubt = "" if use.certain else " (possibly)"
    name = form.code(use.symbol) + (f", now {form.code(now)}" if now else "")
    return [form.entry(f"{form.code(f'{use.path}:{use.line}')}{within} uses {name}{doubt}")]


def _statement(one: StaleStatement, form: _Form, plain: Callable[[str], str]) -> list[str]:
    number = f" {one.number}" if one.number is not None else ""
    number += f" of {one.conversation[:_ID_CHARS]}" if number and one.conversation else ""
    cached = ", cached" if one.is_cached else ""
    text = one.text if len(one.text) <= _MAX_TEXT else one.text[:_MAX_TEXT].rstrip() + "…"
    lines = [form.entry(f"{_KIND_NAMES[one.kind]}{number}{cached}: {plain(text)} [{one.state}]")]
    for sentence in one.sentences[:1]:
        lines.append(form.below(f"“{plain(sentence)}”"))
    for source in one.sources[:_CALLERS]:
        now = f" → {form.code(source.now)}" if source.now else ""
        why = f" ({plain(source.reason)})" if source.reason else ""
        lines.append(form.below(f"{form.code(source.place)} {source.state}{now}{why}"))
    return lines


def _symbol(one: ChangedSymbol, form: _Form) -> list[str]:
    was = f", was {form.code(one.was)}" if one.was else ""
    what = (
        one.change
        if one.unit == "function"
        else _WHAT.get((one.unit, one.change), f"{one.unit} {one.change}")
    )
    if one.change in ("removed", "added", "renamed", "moved"):
        what = one.change if one.unit == "function" else f"{one.change} {one.unit}"
    mark = _MARKS.get(one.change, "~")
    lines = [form.entry(f"{mark} {form.code(one.name)} {what}{was}  {form.code(one.place)}{_called(one)}")]
    if one.change == "signature":
        sites = [_site(site) for site in one.callers[:_CALLERS]]
        more = [f"… {one.caller_count - _CALLERS} more"] if one.caller_count > _CALLERS else []
        if sites:
            lines.append(form.below(", ".join([*map(form.code, sites), *more])))
    return lines


def _site(site: CallSite) -> str:
    """Return a line that uses a symbol, as `path:1`; one that only may use it has a question mark."""
    through = f" through {site.through}" if site.through else ""
    return f"{site.path}:{site.line}{'' if site.certain else '?'}{through}"


def _called(one: ChangedSymbol) -> str:
    if not one.caller_count:
        return ""
    possible = one.caller_count - one.certain_count
    noun = "caller" if one.unit == "function" else "use"
    parts = [_count(one.certain_count, noun), _count(possible, f"possible {noun}")]
    return "  " + " + ".join(part for part in parts if part)


def _test(one: AffectedTest, form: _Form) -> list[str]:
    reason = one.reason or "changed itself"
    changed = "; changed itself" if one.is_changed and one.reason else ""
    names = ": " + ", ".join(form.code(name) for name in one.names[:_CALLERS]) if one.names else ""
    return [form.entry(f"{form.code(one.path)}  {reason}{changed}{names}")]
