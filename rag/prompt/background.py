"""What is remembered in addition to the turns, as a template sees it: summary, preferences, facts."""

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
    """A fact, and the freshness of the lines it is based on; None where it is based on none."""

    text: str
    freshness: Freshness | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The background that a model gets in addition to turns and sources.

    `summary` is that of the conversation, `preferences` are the user's by key, `facts` are about the
    repositories, oldest first.
    """

    summary: str = ""
    preferences: Mapping[str, Any] = field(default_factory=dict)
    facts: Sequence[KnownFact] = ()

    def variables(self) -> dict[str, object]:
        """Return the variables of a template, sanitized. A fact has `.text`, `.state` and `.reason`."""
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
