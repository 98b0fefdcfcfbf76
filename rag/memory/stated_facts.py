"""The facts that turns state: by rule, and in a model's reply."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag.memory.facts import Fact, FactKind
from rag.memory.statements import Statement, is_flagged, kind_of, mentions, stated_by_answer, stated_by_user
from rag.types import Citation, DialogTurn
from rag.types.answer import QUOTING

_MAX_OF_A_TURN = 5
FACT_LINE = re.compile(
    r"^\s*+(?:(?:[-*•]|\d+[.)])\s*+)?\[(\d+)\]\s*"
    r"(?:(decision|convention|constraint|definition)\s*:\s*)?(\S.*)$",
    re.I,
)
"""A line of a model's reply that states a fact: the number of its turn, maybe its kind, the sentence."""
_CITED = re.compile(r"(?<!\s)\s*+\[(\d+)(?::\d+(?:-\d+)?)?\]")


def by_rule(turn: DialogTurn, locations: Sequence[str], commits: dict[str, str]) -> list[Fact]:
    """Return the facts that a turn states by its words: those of the question first, at most five.

    Args:
        turn: a stored turn.
        locations: the repositories of its conversation; the first one is meant where nothing is cited.
        commits: the commits of repositories, for statements that cite nothing.
    """
    used = sources_used(turn)
    found = [
        fact_of(one.text, one.kind, _named_in(one, used), turn, locations, commits)
        for one in stated_by_user(turn.question)
    ]
    if turn.complete and turn.model != QUOTING:  # quoted lines are code, not statements
        numbered = {citation.n: citation for citation in used}
        for one in stated_by_answer(turn.answer):
            cited = [numbered[n] for n in one.numbers if n in numbered]
            if cited and not is_flagged(one.text, turn.support):
                found.append(fact_of(one.text, one.kind, cited, turn, locations, commits))
    return [fact for fact in found if fact is not None][:_MAX_OF_A_TURN]


def by_model(reply: str, turns: Sequence[DialogTurn], locations: Sequence[str]) -> list[Fact]:
    """Return the facts in a model's reply: lines such as `[3] decision: Tokens last an hour. [1]`.

    The first number is that of the turn, the others are sources of its answer; without them the fact rests on
    all sources that the answer uses. Other lines are left out, and what the check of the answer has flagged.
    """
    found = []
    for line in reply.splitlines():
        matched = FACT_LINE.match(line)
        turn = next((one for one in turns if matched and one.number == int(matched[1])), None)
        if matched is None or turn is None or is_flagged(matched[3], turn.support):
            continue
        text, numbers = _CITED.sub("", matched[3]).strip(), _CITED.findall(matched[3])
        used = sources_used(turn)
        cited = [citation for citation in used if str(citation.n) in numbers] or used
        named = (matched[2] or "").lower()
        kind: FactKind = named if named else kind_of(text)  # type: ignore[assignment]
        fact = fact_of(text, kind, cited, turn, locations) if text else None
        found += [fact] if fact is not None else []
    return found


def sources_used(turn: DialogTurn) -> list[Citation]:
    """Return the sources that an answer refers to; all of them if it refers to none."""
    return [citation for citation in turn.citations if citation.used] or list(turn.citations)


def _named_in(one: Statement, citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations whose symbol or file a user's sentence names."""
    return [
        citation
        for citation in citations
        if any(mentions(one.text, name) for name in (citation.span.symbol, citation.path, _file_of(citation)))
    ]


def _file_of(citation: Citation) -> str:
    return citation.path.rpartition("/")[2]


def fact_of(
    text: str,
    kind: FactKind,
    cited: Sequence[Citation],
    turn: DialogTurn,
    locations: Sequence[str],
    commits: Mapping[str, str] | None = None,
) -> Fact | None:
    """Return a statement as a fact about the repository that it cites most; None without a repository.

    If it cites nothing, it is about the first of `locations`, and as of its commit in `commits`.
    """
    most = Counter(citation.location for citation in cited).most_common(1)
    location = most[0][0] if most else next(iter(locations), "")
    if not location:
        return None
    citations = tuple(citation for citation in cited if citation.location == location)
    fact = Fact(text, location, turn=turn.id, citations=citations, kind=kind)
    return replace(fact, valid_from=fact.commit or (commits or {}).get(location, ""))
