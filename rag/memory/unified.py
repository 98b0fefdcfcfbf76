"""The former name of `rag.memory.user_memory`, available for one more release."""

from __future__ import annotations

import warnings
from typing import Any

from rag.memory import user_memory


def __getattr__(name: str) -> Any:
    value = getattr(user_memory, name)
    warnings.warn(
        f"rag.memory.unified is rag.memory.user_memory now; import {name} from there",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
