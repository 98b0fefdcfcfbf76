"""Read records, of a memory or of a dump, and check their values: others may have written them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rag.schema import conversation_from_record, message_from_record, turn_from_record
from rag.turns.checks import check_bounds, check_place, check_sources
from rag.types import Conversation, DialogTurn, Message

MAX_ORDER = 2**31
"""Orders are below this number."""

_T = TypeVar("_T")
_Kinds = frozenset[type]
_JSON: _Kinds = frozenset({str, bytes, list, dict, int, float, bool, NoneType})
"""The types of the content of a message."""
_FINITE = json.JSONEncoder(allow_nan=False)
_PLAIN = frozenset({str, int})


def turn_of(record: Mapping[str, Any]) -> DialogTurn:
    """Return the turn of a record. Raises ValueError, TypeError and others for invalid values."""
    turn = _valid(turn_from_record(record))
    valid_order(turn.version)
    for citation in turn.citations:
        check_place(citation.span.path)
        check_place(citation.location)
    return turn


def message_of(record: Mapping[str, Any]) -> Message:
    """Return the message of a record; raises as `turn_of`."""
    return _valid(message_from_record(record))


def conversation_of(record: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a record; raises as `turn_of`."""
    found = _valid(conversation_from_record(record))
    check_sources(found.sources)
    check_bounds(found.ttl_s, found.keep_last)
    if found.forked_at is not None:
        valid_order(found.forked_at, least=-1)
    return found


def valid_order(number: Any, least: int = 0) -> int:
    """Return the order. Raises ValueError for an invalid one."""
    if type(number) is not int or not least <= number < MAX_ORDER:
        raise ValueError(f"an order must be a whole number of at least {least}, not {number!r}")
    return number


def _valid(value: _T) -> _T:
    """Return a value of a dataclass. Raises TypeError, ValueError: a field has another type, or is NaN."""
    cls: Any = type(value)
    values_of, plan = _plan(cls)
    for found, (name, kinds, inner) in zip(values_of(value), plan, strict=True):
        if type(found) not in kinds and not _is_derived(found, kinds):
            raise TypeError(f"{name} of a {cls.__name__} cannot be {found!r:.80}")
        if inner is not None and found:
            for one in found if isinstance(found, tuple) else (found,):
                if type(one) is not inner and not _is_derived(one, {inner}):
                    raise TypeError(f"{name} of a {cls.__name__} cannot have {one!r:.80}")
                if inner not in _PLAIN:
                    _valid(one)
        elif isinstance(found, float):
            if not math.isfinite(found):
                raise TypeError(f"{name} of a {cls.__name__} cannot be {found}")
        elif isinstance(found, dict):
            _FINITE.encode(found)
    return value


def _is_derived(value: Any, kinds: Set[type]) -> bool:
    """Return whether a value is of a class derived from one of the types; a bool is no number."""
    return type(value) is not bool and isinstance(value, tuple(kinds))


@cache
def _plan(cls: Any) -> tuple[Callable[[Any], tuple[Any, ...]], list[tuple[str, _Kinds, Any]]]:
    """Return what gets all fields of a dataclass, and of each: name, types, the class of what is in it."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    return attrgetter(*names), [(name, *_kinds(hints[name])) for name in names]


def _kinds(hint: Any) -> tuple[_Kinds, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return _JSON, None
    if origin in (Union, UnionType):
        some = [_kinds(one) for one in arguments]
        inner = next((one for _, one in some if one is not None), None)
        return frozenset().union(*(kinds for kinds, _ in some)), inner
    if origin is tuple:
        return frozenset({tuple}), arguments[0]
    if origin is not None:
        return frozenset({str if origin is Literal else dict}), None
    return frozenset({int, float} if hint is float else {hint}), hint if is_dataclass(hint) else None
