"""Several models become one: `python merge.py BAGS.npz MERGED.pt MODEL.pt... [--dim 128]`.

Models trained from other seeds err in other places. Their rows stand side by side, each model scaled so
that a typical text has length 1 in it; then the directions in which texts are longest are kept. The
weights, the alphas and the head's factor are the models' means: these differ little.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from bags import held_out, is_english
from model import Bags, Model, Rows, load

SAMPLE, FEW = 12_000, 4_000


def typical_length(model: Model, bags: Bags, pairs: np.ndarray, *, query: bool) -> torch.Tensor:
    """The median length of a text's vector before it is made a unit vector."""
    rows = Rows(bags, "q" if query else "d", pairs)
    weight = model.weight_query if query else model.weight_document
    alpha = model.alpha_query if query else model.alpha_document
    exponent = weight[rows.terms] + alpha * rows.log_idf + (0 if query else model.head * rows.head)
    scale = rows.tf * exponent.exp()
    summed = functional.embedding_bag(
        rows.terms, model.table, rows.offsets, mode="sum", per_sample_weights=scale
    )
    return summed.norm(dim=1).median()


def side_by_side(models: list[Model], bags: Bags, pairs: np.ndarray) -> Model:
    """One wide model; its cosine is about the mean of theirs."""
    tables, weights = [], []
    for model in models:
        query = model.weight_query - typical_length(model, bags, pairs, query=True).log()
        document = model.weight_document - typical_length(model, bags, pairs, query=False).log()
        tables.append(model.table * ((query + document) / 2).exp()[:, None])
        weights.append((query - document) / 2)
    wide = Model(len(tables[0]), sum(table.shape[1] for table in tables))
    wide.table.data = torch.cat(tables, dim=1)
    wide.weight_query.data = torch.stack(weights).mean(dim=0)
    wide.weight_document.data = -wide.weight_query.data
    for name in ("alpha_query", "alpha_document", "head"):
        getattr(wide, name).data = torch.stack([getattr(model, name) for model in models]).mean()
    return wide


def narrowed(wide: Model, bags: Bags, pairs: np.ndarray, dim: int) -> Model:
    """The model in the `dim` directions in which documents and questions are longest."""
    parts = np.array_split(pairs, 20)
    rows = [wide.embed(Rows(bags, "d", part), query=False) for part in parts]
    texts = torch.cat([*rows, *(wide.embed(Rows(bags, "q", part), query=True) for part in parts)])
    _, directions = torch.linalg.eigh(texts.T @ texts / len(texts))
    narrow = Model(len(wide.table), dim)
    turned = (wide.table @ directions.flip(1)[:, :dim]).contiguous()
    narrow.load_state_dict({**wide.state_dict(), "table": turned})
    return narrow


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("merged", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--dim", type=int, default=128)
    given = parser.parse_args()
    torch.set_num_threads(1)
    bags, chance = Bags(given.bags), np.random.default_rng(1)
    code = np.asarray([not is_english(str(name)) and not held_out(str(name)) for name in bags["names"]])
    pairs = chance.choice(np.flatnonzero(code[bags["package"]]), SAMPLE, replace=False)
    with torch.no_grad():
        wide = side_by_side([load(file) for file in given.models], bags, pairs[:FEW])
        torch.save(narrowed(wide, bags, pairs, given.dim).state_dict(), given.merged)


if __name__ == "__main__":
    main()
