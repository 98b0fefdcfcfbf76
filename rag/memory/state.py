"""State that travels as JSON values: parts within parts, and attributes registered by name.

The protocol is that of AgentScope 1.0's `StateModule`: an attribute that is itself stateful is a part of
the state under its name, and `register_state` adds a plain attribute, with functions to and from JSON
where it is no JSON itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Convert = Callable[[Any], Any]


class Stateful:
    """Something whose state can be written out and read back."""

    def _parts(self) -> dict[str, Stateful]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Stateful)}

    def _registered(self) -> dict[str, tuple[Convert | None, Convert | None]]:
        registered: dict[str, tuple[Convert | None, Convert | None]]
        registered = self.__dict__.setdefault("_registered_states", {})
        return registered

    def register_state(
        self, attr_name: str, to_json: Convert | None = None, from_json: Convert | None = None
    ) -> None:
        """Make an attribute a part of the state, converted by these functions where they are given.

        Raises:
            AttributeError: there is no such attribute.
            TypeError: the attribute is not JSON, and no function makes it so.
        """
        check_state(attr_name, getattr(self, attr_name), to_json)
        self._registered()[attr_name] = (to_json, from_json)

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON values, parts under their names."""
        state: dict[str, Any] = {name: part.state_dict() for name, part in self._parts().items()}
        for name, (to_json, _) in self._registered().items():
            value = getattr(self, name)
            state[name] = to_json(value) if to_json else value
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Take over a state; what it does not name stays as it is.

        Raises:
            KeyError: `strict`, and something of ours is missing.
        """
        for name, part in self._parts().items():
            if name in state_dict:
                part.load_state_dict(state_dict[name], strict=strict)
            elif strict:
                raise missing(name, state_dict)
        for name, (_, from_json) in self._registered().items():
            if name in state_dict:
                value = state_dict[name]
                setattr(self, name, from_json(value) if from_json else value)
            elif strict:
                raise missing(name, state_dict)


def check_state(name: str, value: Any, to_json: Convert | None) -> None:
    """Refuse an attribute that is not JSON, when nothing makes it so. Raises TypeError."""
    if to_json is None:
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} is not JSON ({error}); give to_json and from_json") from error


def missing(name: str, state: Mapping[str, Any]) -> KeyError:
    """A state lacks something that `strict` asks for."""
    return KeyError(f"the state has no {name!r}; it has {', '.join(map(repr, state)) or 'nothing'}")
