"""The model that `train.py` learns, and the rows it reads.

A text's vector is the sum over its distinct terms of (1 + log tf) * exp(weight[term]) * idf^alpha * E[term],
made a unit vector; terms that stand in a document's head count a learned factor more. One table E serves both
sides; the weights and alpha are the side's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Bags:
    """The file that bags.py wrote, its columns by name."""

    def __init__(self, file: Path) -> None:
        with np.load(file, allow_pickle=False) as stored:
            self._columns = {name: stored[name] for name in stored.files}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]


class Rows:
    """Some rows of one side, gathered into flat tensors."""

    def __init__(self, bags: Bags, side: str, chosen: np.ndarray, drop: float = 0.0) -> None:
        indptr = bags[f"{side}_indptr"]
        starts, lengths = indptr[chosen], indptr[chosen + 1] - indptr[chosen]
        at = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(
            lengths.sum()
        )
        if drop:
            kept = np.random.default_rng(int(at[:1].sum()) + len(at)).random(len(at)) >= drop
            row = np.repeat(np.arange(len(chosen)), lengths)[kept]
            at, lengths = at[kept], np.bincount(row, minlength=len(chosen))
        self.terms = torch.from_numpy(bags[f"{side}_terms"][at].astype(np.int64))
        self.tf = torch.from_numpy(bags[f"{side}_tf"][at].astype(np.float32))
        self.log_idf = torch.from_numpy(np.log(np.maximum(bags[f"{side}_idf"][at].astype(np.float32), 0.05)))
        self.head = torch.from_numpy(bags[f"{side}_head"][at].astype(np.float32))
        self.offsets = torch.from_numpy(np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64))


class Model(nn.Module):
    """Rows of bags become unit vectors."""

    def __init__(self, terms: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(terms, dim) / dim**0.5)
        self.weight_query = nn.Parameter(torch.zeros(terms))
        self.weight_document = nn.Parameter(torch.zeros(terms))
        self.alpha_query = nn.Parameter(torch.tensor(0.5))
        self.alpha_document = nn.Parameter(torch.tensor(0.5))
        self.head = nn.Parameter(torch.tensor(0.5))
        self.temperature = nn.Parameter(torch.tensor(2.5))  # log of what cosines are multiplied with

    def numbers(self) -> Iterator[nn.Parameter]:
        """All parameters but the table."""
        return (parameter for name, parameter in self.named_parameters() if name != "table")

    def embed(self, rows: Rows, *, query: bool) -> torch.Tensor:
        """Unit vectors, shape (len(rows), dim); an empty row is zero."""
        weight = self.weight_query if query else self.weight_document
        alpha = self.alpha_query if query else self.alpha_document
        exponent = weight[rows.terms] + alpha * rows.log_idf
        if not query:
            exponent = exponent + self.head * rows.head
        scale = rows.tf * exponent.exp()
        summed = functional.embedding_bag(
            rows.terms, self.table, rows.offsets, mode="sum", per_sample_weights=scale
        )
        return functional.normalize(summed, dim=1)


def load(file: Path) -> Model:
    """A model as `save` kept it."""
    state = torch.load(file, weights_only=True)
    model = Model(*state["table"].shape)
    model.load_state_dict(state)
    return model


def describe(model: Model) -> str:
    """The learned numbers that can be read."""
    names = ("alpha_query", "alpha_document", "head", "temperature")
    return json.dumps({name: round(getattr(model, name).item(), 3) for name in names})
