"""How the answers of a conversation age over the history of its repository."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rag.corpus.history import commit_time, first_parents
from rag.display.plot import Plot
from rag.display.timeline import timeline_plot
from rag.errors import NotFound
from rag.quoting import counted
from rag.service.checks.freshness import checked
from rag.service.checks.snapshots import history_of
from rag.service.repositories.engine import Engine
from rag.types import DialogTurn, Source

_MAX_COMMITS = 5_000
"""How far back the commits of the oldest answer are sought."""


def timeline(
    engine: Engine,
    turns: Sequence[DialogTurn],
    sources: Sequence[Source],
    *,
    commits: Sequence[str] = (),
    limit: int = 8,
) -> Plot:
    """Return a drawing of the states of turns at commits of the only source.

    Args:
        engine: provides the clones and the turns.
        turns: the turns of a conversation.
        sources: what it is about.
        commits: commits, tags or branches, oldest first; by default at most `limit`, at even distances, from
            the commit of the oldest answer to the current one.
        limit: the number of commits.

    Raises:
        NotFound: there is no turn, no single source, or no history.
        RefNotFound: the source has no such commit.
    """
    about = [turn for turn in turns if turn.citations]
    if not about:
        raise NotFound("no turn of this conversation cites anything yet; ask a question first")
    if len(sources) != 1:
        raise NotFound(f"a timeline shows one repository, but this conversation is about {len(sources)}")
    (source,) = sources
    root = history_of(engine, source, None).root
    known = first_parents(root, _MAX_COMMITS)[::-1]
    if not known:
        raise NotFound(f"{source} has no git history, so nothing is known of its past")
    made = [next(c.commit for c in turn.citations) or "" for turn in about]
    order = {commit: n for n, (commit, _, _) in enumerate(known)}
    if commits:
        columns = [_named(engine, source, ref, order, known) for ref in commits]
    else:
        first = min((order[commit] for commit in made if commit in order), default=0)
        columns = _evenly(range(first, len(known)), limit)
    shown = [known[n] for n in columns]
    rows = []
    for place, (commit, date, title) in zip(columns, shown, strict=True):
        for made_at, turn in zip(made, checked(engine, about, [source], as_of=commit), strict=True):
            if order.get(made_at, 0) <= place and turn.freshness is not None:
                rows.append(
                    {
                        "turn": turn.number,
                        "question": turn.question,
                        "commit": commit,
                        "title": title,
                        "date": f"{date:%Y-%m-%d}",
                        "state": turn.freshness.state,
                        "reason": str(turn.freshness),
                    }
                )
    left = max(columns) - min(columns) + 1 - len(columns)
    caption = f"What became of each answer at {len(columns)} commits of the repository."
    if left:
        caption += f" Not shown: {counted(left, 'commit')} between them."
    return timeline_plot(rows, caption)


def _evenly(places: range, count: int) -> list[int]:
    """Return at most `count` of the places at even distances, the first and the last among them."""
    if len(places) <= max(count, 2):
        return list(places)
    step = (len(places) - 1) / (max(count, 2) - 1)
    return [places[round(n * step)] for n in range(max(count, 2))]


def _named(
    engine: Engine,
    source: Source,
    ref: str,
    order: dict[str, int],
    known: list[tuple[str, datetime, str]],
) -> int:
    """Return the place of a commit in the history; one that is not on it is added at the end."""
    history = history_of(engine, source, ref)
    if history.commit not in order:
        order[history.commit] = len(known)
        known.append((history.commit, commit_time(history.root, history.commit), ref))
    return order[history.commit]
