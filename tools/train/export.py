"""Write the table that ships: `python export.py BAGS.npz MODEL.pt TABLE.bin`."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rag.analysis import ANALYZER_VERSION
from rag.backends.static_embedder import MAGIC

from bags import term_hash
from model import Bags, Model, load

ALIGN = 64
FIRST_COLUMN = 4096


def typical_idf(bags: Bags, terms: int) -> np.ndarray:
    """The mean idf of each term over the documents it stands in; the mean of all for terms in none."""
    ids, idf = bags["d_terms"], bags["d_idf"].astype(np.float64)
    count = np.bincount(ids, minlength=terms)[:terms]
    total = np.bincount(ids, weights=idf, minlength=terms)[:terms]
    return np.where(count > 0, total / np.maximum(count, 1), idf.mean()).astype(np.float32)


def quantized(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The table as int8, and each row's scale."""
    table = model.table.detach().numpy()
    scale = np.maximum(np.abs(table).max(axis=1), 1e-9) / 127
    return np.rint(table / scale[:, None]).astype(np.int8), scale


def export(bags: Bags, model: Model, path: Path) -> str:
    """Write `model` to `path`; return the SHA-256 of its columns."""
    vocabulary = [str(term) for term in bags["vocabulary"]]
    hashes = np.asarray([term_hash(term) for term in vocabulary], "<u8")
    order = np.concatenate((np.argsort(hashes), np.arange(len(hashes), model.table.shape[0])))
    table, scale = quantized(model)
    with torch.no_grad():
        weights = {
            "query": model.weight_query.exp().numpy() * scale,
            "passage": model.weight_document.exp().numpy() * scale,
        }
    columns = {
        "hash": np.sort(hashes),
        "idf": typical_idf(bags, len(hashes))[order[: len(hashes)]],
        "query": weights["query"][order].astype("<f4"),
        "passage": weights["passage"][order].astype("<f4"),
        "table": table[order],
    }
    about = {
        "alpha": {"query": model.alpha_query.item(), "passage": model.alpha_document.item()},
        "head": model.head.exp().item(),
        "unseen_idf": float(columns["idf"].max()),
    }
    return write_table(path, columns, about)


def write_table(path: Path, columns: dict[str, np.ndarray], about: dict[str, Any]) -> str:
    """Write a table that `StaticEmbedder` opens, in its format; return the SHA-256 of its columns.

    Args:
        path: where to.
        columns: `hash`, `idf`, `query`, `passage`, `table`.
        about: `alpha` for each role, `head` (the factor itself) and `unseen_idf`.
    """
    terms, (rows, dim) = len(columns["hash"]), columns["table"].shape
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in columns.values())).hexdigest()
    header = {"analyzer": ANALYZER_VERSION, "dim": dim, "buckets": rows - terms, "sha256": digest, **about}
    offset, places = FIRST_COLUMN, {}
    for name, column in columns.items():
        places[name] = {"dtype": column.dtype.str, "shape": list(column.shape), "offset": offset}
        offset += -(-column.nbytes // ALIGN) * ALIGN
    encoded = json.dumps({**header, "columns": places}, sort_keys=True).encode()
    content = bytearray(offset)
    content[:16] = MAGIC + len(encoded).to_bytes(8, "little")
    content[16 : 16 + len(encoded)] = encoded
    for name, column in columns.items():
        start = places[name]["offset"]
        content[start : start + column.nbytes] = np.ascontiguousarray(column).tobytes()
    path.write_bytes(content)
    return digest


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("table", type=Path)
    given = parser.parse_args()
    digest = export(Bags(given.bags), load(given.model), given.table)
    print(f"{given.table}: {given.table.stat().st_size} bytes, sha256 of the columns {digest}")


if __name__ == "__main__":
    main()
