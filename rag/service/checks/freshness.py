"""The freshness of turns, and the turns about a file or line."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rag.corpus.named_history import line_origins
from rag.corpus.secrets import find_secret
from rag.errors import NotFound
from rag.memory.anchor import TextLines, letters
from rag.memory.arrivals import LEAST_COPIED
from rag.memory.freshness import State, check_turns, line_difference
from rag.ports import ChunkIndex
from rag.retrieval.lookup import definitions
from rag.service.checks.snapshots import CommitState, FolderState, states
from rag.service.repositories.engine import Engine
from rag.types import Citation, DialogTurn, Freshness, Source


class About(NamedTuple):
    """A turn, and those of its citations that match the query.

    `wrote` says whether lines that were asked for are as a coding agent wrote them in this turn of its
    session; None if no lines were asked for.
    """

    turn: DialogTurn
    pairs: tuple[tuple[Citation, Freshness], ...]
    wrote: bool | None = None


_READ_BLOBS = 500
"""How many earlier versions of files are in memory at once."""
Differences = dict[str, dict[int, list[str]]]
"""The diffs of cited lines: by turn id, then by the number of the citation."""


def checked(
    engine: Engine,
    turns: Sequence[DialogTurn],
    sources: Collection[Source],
    *,
    as_of: str | None = None,
    refresh: bool = False,
) -> list[DialogTurn]:
    """Return the turns with their `checks`: the freshness of each citation in the current repositories.

    Args:
        engine: provides the clones and the turns.
        turns: the turns to check.
        sources: the repositories to compare with; citations of others are unknown.
        as_of: compare with this commit, tag or branch instead.
        refresh: fetch URLs first.

    Raises:
        RefNotFound: the only source has no `as_of`.
    """
    cited = {citation.location for turn in turns for citation in turn.citations}
    needed = [source for source in sources if source.location in cited]
    return check_turns(turns, states(engine, needed, as_of=as_of, refresh=refresh)) if turns else []


def differences(
    engine: Engine, turns: Sequence[DialogTurn], sources: Collection[Source], *, as_of: str | None = None
) -> Differences:
    """Return the diffs of the cited lines of checked turns that differ: by turn id, then by number.

    Each is a unified diff without line ends; see `line_difference`. One that holds what looks like a secret
    says only that.

    Raises:
        RefNotFound: the only source has no `as_of`.
    """
    now = states(engine, sources, as_of=as_of)
    found: Differences = {}
    for turn in turns:
        checks = zip(turn.citations, turn.checks, strict=True)
        pairs = ((c, line_difference(c, f, now.get(c.location, ""))) for c, f in checks)
        found[turn.id] = {citation.n: _without_secrets(citation, lines) for citation, lines in pairs if lines}
    return found


def _without_secrets(citation: Citation, diff: list[str]) -> list[str]:
    kind = find_secret("\n".join(line[1:] for line in diff[2:]), citation.path)
    return diff if kind is None else [*diff[:2], f"(not shown: it holds what looks like a secret, {kind})"]


def turns_about(
    engine: Engine,
    source: Source,
    path: str,
    *,
    lines: tuple[int, int] | None = None,
    as_of: str | None = None,
) -> list[About]:
    """Return the turns whose answers cite a file, or one of some of its lines (first, last); oldest first.

    A citation matches by the current place of its lines. If the lines changed, it matches by their old place
    and by that of their replacement.
    """
    namespace = engine.settings.namespace
    ids = engine.turns.citing(namespace=namespace, location=source.location)
    turns = engine.turns.turns_by_id(ids, namespace=namespace)
    state = states(engine, [source], as_of=as_of)[source.location]
    if isinstance(state, (FolderState, CommitState)):
        turns = _that_may_match(turns, source.location, path, state)
    origins = _origins(state, path, lines, as_of) if any(turn.edited for turn in turns.values()) else set()
    found: list[About] = []
    for turn in check_turns(list(turns.values()), {source.location: state}):
        edits = [one for one in turn.citations if one.n in turn.edited]
        wrote = {one.n for one in edits if any(_holds(one, *at) for at in origins)}
        covered = (one for one in turn.checked if _covers(*one, source.location, path, lines))
        pairs = tuple(one for one in turn.checked if one[0].n in wrote) + tuple(covered)
        if pairs:
            found.append(About(turn, tuple(dict.fromkeys(pairs)), bool(wrote) if lines else None))
    return _with_writer(sorted(found, key=_asked), is_known=lines is None)


def _origins(
    state: State | str, path: str, lines: tuple[int, int] | None, as_of: str | None
) -> set[tuple[str, str, int]]:
    if lines is None or not isinstance(state, (FolderState, CommitState)) or not state.commit:
        return set()
    return line_origins(state.root, path, lines, state.commit if as_of else None)


def _holds(citation: Citation, commit: str, path: str, line: int) -> bool:
    return (citation.commit, citation.path) == (commit, path) and citation.start <= line <= citation.end


def _with_writer(found: list[About], *, is_known: bool) -> list[About]:
    """Mark the last session that edited lines which are still the same, if history knows no writer."""
    if is_known or any(one.wrote for one in found):
        return found
    edits = [n for n, one in enumerate(found) if any(_is_kept_edit(one.turn, *pair) for pair in one.pairs)]
    return [one._replace(wrote=edits[-1:] == [n]) for n, one in enumerate(found)]


def _is_kept_edit(turn: DialogTurn, citation: Citation, check: Freshness) -> bool:
    return citation.n in turn.edited and check.state in ("fresh", "moved", "reformatted")


def _that_may_match(
    turns: Mapping[str, DialogTurn], location: str, path: str, state: FolderState | CommitState
) -> dict[str, DialogTurn]:
    """Return the turns that cite a file, by any of its names, or enough lines that are in it now.

    To check all that was ever cited takes much longer.
    """
    if state.lineage is None:
        return dict(turns)
    names = state.lineage.names_of(path)
    files = state.files
    found: set[str] = set()
    elsewhere: dict[str, list[tuple[str, Citation]]] = defaultdict(list)
    for id_, turn in turns.items():
        mine = [one for one in turn.citations if one.location == location]
        if any(one.path in names for one in mine):
            found.add(id_)
            continue
        for one in mine:
            if one.blob and files.get(one.path) != one.blob:
                elsewhere[one.blob].append((id_, one))
    content = state.contents([files[path]]).get(files[path], b"") if path in files else b""
    now = text.bare if (text := TextLines.of(content)) else frozenset()
    blobs = sorted(elsewhere) if now else []
    for n in range(0, len(blobs), _READ_BLOBS):
        for blob, old in state.contents(blobs[n : n + _READ_BLOBS]).items():
            lines = TextLines.of(old)
            for id_, one in elsewhere[blob] if lines else ():
                if id_ not in found and lines is not None:
                    span = (line.strip() for line in lines.span(one.start, one.end))
                    if letters([line for line in span if line in now]) >= LEAST_COPIED:
                        found.add(id_)
    return {id_: turn for id_, turn in turns.items() if id_ in found}


def turns_about_symbol(engine: Engine, source: Source, index: ChunkIndex, symbol: str) -> list[About]:
    """Return the turns whose answers cite a definition at its current place, oldest first.

    Raises:
        NotFound: the index has no definition of this name.
    """
    places = [(hit.path, hit.start, hit.end) for hit in definitions(index, symbol)]
    if not places:
        raise NotFound(f"the index has no definition {symbol}")
    found: dict[str, About] = {}
    for path in dict.fromkeys(path for path, _, _ in places):
        spans = [(start, end) for one, start, end in places if one == path]
        for turn, pairs, _ in turns_about(engine, source, path):
            inside = tuple(pair for pair in pairs if _overlaps(*pair, path, spans))
            if inside:
                before = found[turn.id].pairs if turn.id in found else ()
                found[turn.id] = About(turn, (*before, *inside))
    return sorted(found.values(), key=_asked)


def _asked(one: About) -> tuple[str, int, str]:
    turn = one.turn
    return str(turn.user_query_timestamp), turn.order or 0, turn.id


def _overlaps(citation: Citation, check: Freshness, path: str, spans: Sequence[tuple[int, int]]) -> bool:
    at = (
        (check.path, check.start, check.end) if check.start else (citation.path, citation.start, citation.end)
    )
    return at[0] == path and any(at[1] <= end and start <= at[2] for start, end in spans)


def _covers(
    citation: Citation, check: Freshness, location: str, path: str, lines: tuple[int, int] | None
) -> bool:
    if citation.location != location:
        return False
    places = (
        [] if check.state in ("moved", "reformatted") else [(citation.path, citation.start, citation.end)]
    )
    if check.path:
        places.append((check.path, check.start, check.end))
    first, last = lines or (0, sys.maxsize)
    return any(where == path and start <= last and first <= end for where, start, end in places)
