"""Values as tables of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag.errors import BackendMissing


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return rows as a pandas DataFrame; `columns` are those of a table without rows.

    Raises:
        BackendMissing: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise BackendMissing(backend="a DataFrame", missing="pandas", extra="notebook") from error
    return pandas.DataFrame([dict(row) for row in rows], columns=columns)
