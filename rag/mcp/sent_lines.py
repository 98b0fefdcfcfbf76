"""The lines that were sent to a client, so that none is sent twice. Bounded, in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from rag.mcp.arguments import MAX_LINES_SEEN
from rag.service.tools.explored_definitions import ExploredPlace

_MAX_REPOSITORIES = 20


@dataclass(slots=True)
class _Sent:
    """The lines of one repository's files, in one state of its index."""

    generation: str
    lines: dict[str, set[int]] = field(default_factory=dict)
    count: int = 0


class SentLines:
    """Remembers lines by repository; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    def of(self, repository: str, generation: str) -> Mapping[str, Set[int]]:
        """Return the lines by path; none if the index has another generation since."""
        sent = self._sent.get(repository)
        return sent.lines if sent is not None and sent.generation == generation else {}

    def add(self, repository: str, generation: str, places: Iterable[ExploredPlace]) -> None:
        """Add the lines of places. Above the limit of lines, only these are remembered."""
        sent = self._sent.pop(repository, None)
        if sent is None or sent.generation != generation or sent.count > MAX_LINES_SEEN:
            sent = _Sent(generation)
        for place in places:
            sent.lines.setdefault(place.path, set()).update(number for number, _ in place.lines)
            sent.count += len(place.lines)
        self._sent[repository] = sent
        while len(self._sent) > _MAX_REPOSITORIES:
            self._sent.popitem(last=False)
