"""Measures retrieval on any repository and questions, next to other systems.

    evaluate     measures a folder
    Evaluation   the result: to_frame, compare

A name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.evaluation.evaluation import Evaluation
    from rag.evaluation.measure import evaluate

__all__ = ["Evaluation", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rag.evaluation' has no attribute {name!r}")
    home = "measure" if name == "evaluate" else "evaluation"
    value = getattr(import_module(f"rag.evaluation.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
