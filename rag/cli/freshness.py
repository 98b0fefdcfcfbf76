"""`rag turns check`, `about`: compare earlier answers with the current code."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.selectors import OfArgument, named, number, place_in, title
from rag.cli.terminal import NOTHING_FOUND, nothing, opened_engine, out, out_json, say, wants_json
from rag.errors import ConfigError, NotFound
from rag.quoting import visible
from rag.schema import add_diffs, checked_turn
from rag.types import Citation, DialogTurn, Freshness, Source, worst

if TYPE_CHECKING:
    from rag.service import Engine

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="COMMIT",
        help="Compare with this commit, tag or branch instead of the current files.",
    ),
]


def check(
    conversation: OfArgument = None,
    as_of: AsOf = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show how the cited lines differ now.")] = False,
) -> None:
    """Check which answers are still valid: the state of the lines they cite.

    Each is fresh, moved (and where to), reformatted (the code is the same), changed, gone, or unknown.

    rag turns check

    rag turns check login --as-of v2.0 --diff
    """
    from rag.service.checks.freshness import checked, differences

    with opened_engine() as engine:
        of = named(engine, conversation)
        turns = engine.turns.turns(of.id, namespace=engine.settings.namespace)
        if not turns:
            nothing(f"the conversation {title(of)} has no turns")
        found = checked(engine, turns, of.sources, as_of=as_of, refresh=True)
        diffs = differences(engine, found, of.sources, as_of=as_of) if diff else {}
        if wants_json():
            every = [(checked_turn(turn), diffs.get(turn.id, {})) for turn in found]
            out_json([add_diffs(*each) if diff else each[0] for each in every])
            return
        for turn in found:
            print_check(turn, diffs=diffs.get(turn.id))
        states = Counter(turn.freshness.state for turn in found if turn.freshness)
        say(
            f"rag: {', '.join(f'{number} {state}' for state, number in states.most_common()) or 'no sources'}"
        )


def about(
    place: Annotated[
        str, typer.Argument(help="A file, lines of it, or a definition.", metavar="PATH[:LINE[-LINE]]")
    ],
    repo: options.Repository = None,
    as_of: AsOf = None,
) -> None:
    """List the answers that cite a file, lines of it or a definition, even if the lines have moved since.

    rag turns about src/auth.py:42

    rag turns about src/auth.py:42-50

    rag turns about Session.sign
    """
    from rag.service.checks.freshness import turns_about, turns_about_symbol

    with opened_engine() as engine:
        path, lines = _place(place.removeprefix("./"))
        source, inside = _asked_about(engine, path, repo)
        found = turns_about(engine, source, inside, lines=lines, as_of=as_of)
        if not found and lines is None and as_of is None and not Path(path).exists():
            inside, place = path, path
            try:
                found = turns_about_symbol(engine, source, engine.repository(source).store, path)
            except NotFound as error:
                say(f"rag: no answer cites {inside} of {source.name}: there is no such file; {error}")
                raise typer.Exit(NOTHING_FOUND) from error
        if wants_json():
            out_json([checked_turn(turn, pairs) | {"wrote": wrote} for turn, pairs, wrote in found])
        for turn, pairs, wrote in found if not wants_json() else ():
            name = _name(engine, turn)
            print_check(turn, pairs, name=f"{name} " if name else "")
            if wrote:
                out(f"   wrote {inside}{place[len(path) :]}")
        if not found:
            nothing(f"no answer cites {inside}{place[len(path) :]} of {source.name}")


def marked_stale(engine: Engine, turns: list[DialogTurn]) -> list[DialogTurn]:
    """Return turns with the state of their sources, without network access."""
    from rag.service.checks.freshness import checked

    sources: dict[Source, None] = {}
    for turn in {turn.conversation_id: turn for turn in turns}.values():
        if turn.conversation_id:
            sources |= dict.fromkeys(engine.conversation_of(turn).sources)
    return checked(engine, turns, list(sources))


def print_check(
    turn: DialogTurn,
    pairs: tuple[tuple[Citation, Freshness], ...] | None = None,
    *,
    name: str = "",
    diffs: Mapping[int, list[str]] | None = None,
) -> None:
    """Print a turn's question and state, then a line for each citation, and its diff if there is one."""
    shown = turn.checked if pairs is None else pairs
    state = worst(check for _, check in shown).state if shown else "no sources"
    out(f"{name}{number(turn)}. {turn.question}  [{state}]")
    for citation, found in shown:
        out(f"   [{citation.n}] {place_in(turn, citation)}  {visible(str(found))}")
        for line in (diffs or {}).get(citation.n, ()):
            out(f"      {visible(line)}".rstrip())


def _name(engine: Engine, turn: DialogTurn) -> str:
    return title(engine.conversation_of(turn)) if turn.conversation_id else ""


def _place(text: str) -> tuple[str, tuple[int, int] | None]:
    """Return a path, and the first and last line if they follow it, as they do where sources are listed."""
    written = re.fullmatch(r"(.+)(?::|#L)([0-9]{1,9})(?:[-\u2013]L?([0-9]{1,9}))?", text, re.S)
    if written is None:
        return text, None
    path, first, last = written[1], int(written[2]), int(written[3] or written[2])
    if not 1 <= first <= last:
        raise ConfigError(f"{text} names no lines: they count from 1, the first before the last")
    return path, (first, last)


def _asked_about(engine: Engine, path: str, repo: str | None) -> tuple[Source, str]:
    """Return the repository as a conversation knows it, and the path inside it."""
    from rag.service import locate

    every = engine.turns.conversations(namespace=engine.settings.namespace)
    known = list(dict.fromkeys(source for one in every for source in one.sources))
    if repo is not None:
        asked = locate(repo)
        known = [source for source in known if _place_of(source) == asked.location] or [asked]
        here = Path(path).absolute()
        if not asked.is_url and here.is_relative_to(asked.location):
            path = here.relative_to(asked.location).as_posix()
        return known[0], path
    here = Path(path).resolve()
    around = [source for source in known if not source.is_url and here.is_relative_to(_place_of(source))]
    if not around:
        raise ConfigError(
            f"no conversation is about the folder of {path}; name the repository with --repo SOURCE"
        )
    source = max(around, key=lambda one: len(_place_of(one)))
    return source, here.relative_to(_place_of(source)).as_posix()


def _place_of(source: Source) -> str:
    """Return the real path; a moved folder may have left a link."""
    return source.location if source.is_url else os.path.realpath(source.location)
