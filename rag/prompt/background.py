"""What is remembered beside the turns, as a template sees it: summary, preferences, facts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag.prompt.views import plain
from rag.quoting import one_line
from rag.types import Freshness


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact, and what became of the lines it rests on; None where it rests on none."""

    text: str
    freshness: Freshness | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is told to a model beside turns and sources.

    `summary` is that of the conversation, `preferences` are the user's by key, `facts` are about the
    repositories, oldest first.
    """

    summary: str = ""
    preferences: Mapping[str, Any] = field(default_factory=dict)
    facts: Sequence[KnownFact] = ()

    def variables(self) -> dict[str, object]:
        """The variables of a template, made harmless. A fact has `.text`, `.state` and `.reason`."""
        return {
            "summary": plain(self.summary),
            "preferences": {_line(key): _line(_text(value)) for key, value in self.preferences.items()},
            "facts": [_view(fact) for fact in self.facts],
        }


def _view(fact: KnownFact) -> dict[str, str]:
    state, reason = (fact.freshness.state, fact.freshness.reason) if fact.freshness else ("", "")
    return {"text": _line(fact.text), "state": state, "reason": _line(reason)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return plain(one_line(text))
