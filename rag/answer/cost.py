"""Compute the cost of a generation: tokens times the price of the model, when the price is known.

Prices are USD per million tokens, in `data/prices.toml`; `RAG_HOME/prices.toml` adds and overrides prices:

    ["my-model"]
    input = 0.20
    output = 0.80
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.decoding import text_of
from rag.errors import SettingsError
from rag.parsing import parse_toml
from rag.resources import shipped
from rag.types import Usage

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens of input and output."""

    input: float
    output: float


def cost(model: str, usage: Usage, *, home: Path | None = None) -> float | None:
    """Return the cost of the generation in USD by list prices; None when the model's price is not known.

    A price is looked up by the model's name as it is, then without a date at its end (`gpt-4o-2024-08-06`),
    then without a provider before it (`openai/gpt-4o`).

    Raises:
        SettingsError: the user's own price list cannot be read.
    """
    prices = load_prices(home)
    name = model.rsplit("/", 1)[-1]
    for candidate in (model, _DATED.sub("", model), name, _DATED.sub("", name)):
        if price := prices.get(candidate):
            return (usage.prompt_tokens * price.input + usage.answer_tokens * price.output) / 1_000_000
    return None


def load_prices(home: Path | None = None) -> dict[str, Price]:
    """Return all known prices by model; those of `home/prices.toml` take precedence.

    Raises:
        SettingsError: that file cannot be read, or a price in it is not a number.
    """
    prices = _read(shipped("data/prices.toml"))
    own = home / "prices.toml" if home else None
    return prices | _read(own) if own and own.is_file() else prices


def _read(path: Path) -> dict[str, Price]:
    try:
        tables = parse_toml(text_of(path.read_bytes()))
        return {name: _price(name, table) for name, table in tables.items() if isinstance(table, Mapping)}
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the prices in {path}: {error}; fix or remove it") from error


def _price(name: str, table: Mapping[str, Any]) -> Price:
    numbers = [table.get(key) for key in ("input", "output")]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise ValueError(f"{name!r} needs input and output, each USD per million tokens")
    return Price(*(float(n) for n in numbers if n is not None))
