"""Train the table: `python train.py BAGS.npz MODEL.pt [--dim 128] [--steps 2000] [--seed 1]`.

InfoNCE with a learned temperature. A step takes a few groups of pairs, each group from one package, so
that the wrong answers are those of the same repository and the idf is the one that is used there. Adam,
random start, the rate falls linearly to zero. One thread; `OMP_WAIT_POLICY=passive` on a busy machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from bags import BUCKETS, held_out
from model import Bags, Model, Rows, describe

MIN_GROUP = 24


class Groups:
    """Draws groups of pairs, a package at a time.

    A package's chance grows with its size to the power .6, then a language's with the sum of its packages'
    to the power `balance`: 1 leaves the languages as they were mined (most of it Python), 0 makes them equal.
    """

    def __init__(self, bags: Bags, size: int, seed: int, *, share: float = 1.0, balance: float = 1.0) -> None:
        self.size, self.random = size, np.random.default_rng(seed)
        package, names = bags["package"], bags["names"]
        order = np.argsort(package, kind="stable")
        bounds = np.searchsorted(package[order], np.arange(len(names) + 1))
        kept = [
            n
            for n in range(len(names))
            if not held_out(str(names[n])) and bounds[n + 1] - bounds[n] >= MIN_GROUP
        ]
        if share < 1:
            kept = list(self.random.permutation(kept)[: int(len(kept) * share)])
        self.members = [order[bounds[n] : bounds[n + 1]] for n in kept]
        weight = np.asarray([len(m) ** 0.6 for m in self.members])
        languages, spoken = np.unique([_main_language(bags, m) for m in self.members], return_inverse=True)
        total = np.bincount(spoken, weights=weight, minlength=len(languages))
        weight *= (total ** (balance - 1))[spoken]
        self.chance = weight / weight.sum()
        self.pairs = sum(len(m) for m in self.members)

    def draw(self) -> np.ndarray:
        """Up to `size` pairs of one package."""
        members = self.members[self.random.choice(len(self.members), p=self.chance)]
        return members if len(members) <= self.size else self.random.choice(members, self.size, replace=False)


def _main_language(bags: Bags, members: np.ndarray) -> str:
    names, counts = np.unique(bags["language"][members[:200]], return_counts=True)
    return {"cpp": "c", "typescript": "javascript"}.get(
        str(names[counts.argmax()]), str(names[counts.argmax()])
    )


def loss_of(model: Model, bags: Bags, groups: list[np.ndarray], given: argparse.Namespace) -> torch.Tensor:
    """InfoNCE within each group, both ways; pairs of the same document are no wrong answers to each other.

    All groups are embedded at once: each call of the table costs a gradient of its full size.
    """
    pairs = np.concatenate(groups)
    queries = model.embed(Rows(bags, "q", pairs, given.drop_query), query=True)
    documents = model.embed(Rows(bags, "d", pairs, given.drop_document), query=False)
    same, start = torch.from_numpy(bags["same"][pairs]), 0
    losses = []
    for size in map(len, groups):
        part = slice(start, start + size)
        start += size
        logits = queries[part] @ documents[part].T * model.temperature.exp()
        twins = (same[part, None] == same[None, part]) & ~torch.eye(size, dtype=torch.bool)
        logits = logits.masked_fill(twins, -1e4)
        answers = torch.arange(size)
        losses.append(functional.cross_entropy(logits, answers, reduction="sum"))
        losses.append(given.backward * functional.cross_entropy(logits.T, answers, reduction="sum"))
    return torch.stack(losses).sum() / len(pairs)


def steps(groups: Groups, count: int, pairs: int) -> Iterator[list[np.ndarray]]:
    """`count` lists of groups with at least `pairs` pairs together."""
    for _ in range(count):
        taken: list[np.ndarray] = []
        while sum(map(len, taken)) < pairs:
            taken.append(groups.draw())
        yield taken


def train(bags: Bags, given: argparse.Namespace) -> Model:
    """Learn a model; progress goes to standard output."""
    torch.manual_seed(given.seed)
    torch.set_num_threads(given.threads)
    groups = Groups(bags, given.group, given.seed, share=given.share, balance=given.balance)
    print(f"{groups.pairs} pairs of {len(groups.members)} packages to learn from", flush=True)
    model = Model(len(bags["vocabulary"]) + BUCKETS, given.dim)
    optimizer = torch.optim.AdamW(
        [
            {"params": [model.table], "weight_decay": given.decay},
            {"params": list(model.numbers()), "weight_decay": 0.0},
        ],
        lr=given.rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    began, average = time.process_time(), 0.0
    for n, batch in enumerate(steps(groups, given.steps, given.batch)):
        for options in optimizer.param_groups:
            options["lr"] = given.rate * (1 - n / given.steps)
        optimizer.zero_grad()
        loss = loss_of(model, bags, batch, given)
        loss.backward()
        optimizer.step()
        average = loss.item() if n == 0 else 0.98 * average + 0.02 * loss.item()
        if n % 100 == 99:
            print(
                f"step {n + 1} loss {average:.3f} {time.process_time() - began:.0f} CPU-s {describe(model)}",
                flush=True,
            )
    return model


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=1536)
    parser.add_argument("--group", type=int, default=384)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--backward", type=float, default=0.3)
    parser.add_argument("--decay", type=float, default=0.01, help="weight decay of the table")
    parser.add_argument("--drop-query", type=float, default=0.25)
    parser.add_argument("--drop-document", type=float, default=0.4)
    parser.add_argument("--share", type=float, default=1.0, help="train on this share of the packages")
    parser.add_argument("--balance", type=float, default=0.6, help="1: languages as mined, 0: all alike")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    model = train(Bags(given.bags), given)
    torch.save(model.state_dict(), given.model)


if __name__ == "__main__":
    main()
