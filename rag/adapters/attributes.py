"""Refuses attributes that an adapter does not have, so that a misspelled setting is no silent one."""

from __future__ import annotations

import difflib
from typing import Any


class OwnAttributes:
    """A mixin whose instances take the attributes of their class only; those of a subclass may add more.

    It comes first among the base classes. Names that begin with `_` are private to each class.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        cls = type(self)
        if cls.__module__.startswith("rag.") and not name.startswith("_") and not hasattr(cls, name):
            near = difflib.get_close_matches(name, (one for one in dir(cls) if not one.startswith("_")), 1)
            hint = f"; did you mean {near[0]}?" if near else "; its options are arguments of its constructor"
            raise AttributeError(f"{cls.__module__}.{cls.__name__} has no attribute {name!r}{hint}")
        super().__setattr__(name, value)
