"""State as JSON values: nested parts, and attributes registered by name.

The protocol is that of AgentScope 1.0's `StateModule`: a stateful attribute is a part of the state under its
name, and `register_state` adds a plain attribute, with functions to and from JSON if it is not JSON itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Convert = Callable[[Any], Any]


class Stateful:
    """An object whose state can be saved and loaded."""

    def _parts(self) -> dict[str, Stateful]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Stateful)}

    def _registered(self) -> dict[str, tuple[Convert | None, Convert | None]]:
        registered: dict[str, tuple[Convert | None, Convert | None]]
        registered = self.__dict__.setdefault("_registered_states", {})
        return registered

    def register_state(
        self, attr_name: str, to_json: Convert | None = None, from_json: Convert | None = None
    ) -> None:
        """Add an attribute to the state, with conversion functions if given.

        Raises:
            AttributeError: there is no such attribute.
            TypeError: the attribute is not JSON, and there is no function to convert it.
        """
        check_state(attr_name, getattr(self, attr_name), to_json)
        self._registered()[attr_name] = (to_json, from_json)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values, with parts under their names."""
        state: dict[str, Any] = {name: part.state_dict() for name, part in self._parts().items()}
        for name, (to_json, _) in self._registered().items():
            value = getattr(self, name)
            state[name] = to_json(value) if to_json else value
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load a state; attributes that it does not contain are unchanged.

        Raises:
            KeyError: `strict`, and an attribute is missing from the state.
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
    """Raise TypeError for an attribute that is not JSON and has no conversion."""
    if to_json is None:
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} is not JSON ({error}); pass to_json and from_json") from error


def missing(name: str, state: Mapping[str, Any]) -> KeyError:
    """Return the error for a state that lacks a required name."""
    return KeyError(f"the state has no {name!r}; it has {', '.join(map(repr, state)) or 'nothing'}")
