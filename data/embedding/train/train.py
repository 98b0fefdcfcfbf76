"""Train the table: `python train.py BAGS.npz MODEL.pt [--dim 128] [--steps 1500] [--seed 1]`.

InfoNCE with a learned temperature. A step takes a few groups of pairs, each group from one package, so that the
wrong answers are those of the same repository and the idf is the one that is used there. Adam, random start, the
rate falls linearly to zero. One thread; `OMP_WAIT_POLICY=passive` on a busy machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from bags import BUCKETS, held_out
from model import Bags, Model, Rows, describe
from torch.nn import functional

MIN_GROUP = 24


class Groups:
    """Draws groups of pairs, a package at a time; bigger packages oftener, by the root of their size."""

    def __init__(self, bags: Bags, size: int, seed: int, *, share: float = 1.0) -> None:
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
        self.chance = weight / weight.sum()
        self.pairs = sum(len(m) for m in self.members)

    def draw(self) -> np.ndarray:
        """Up to `size` pairs of one package."""
        members = self.members[self.random.choice(len(self.members), p=self.chance)]
        return members if len(members) <= self.size else self.random.choice(members, self.size, replace=False)


def loss_of(model: Model, bags: Bags, group: np.ndarray, given: argparse.Namespace) -> torch.Tensor:
    """InfoNCE over one group, both ways; pairs of the same document are no wrong answers to each other."""
    queries = model.embed(Rows(bags, "q", group, given.drop_query), query=True)
    documents = model.embed(Rows(bags, "d", group, given.drop_document), query=False)
    logits = queries @ documents.T * model.temperature.exp()
    same = torch.from_numpy(bags["same"][group])
    twins = (same[:, None] == same[None, :]) & ~torch.eye(len(group), dtype=torch.bool)
    logits = logits.masked_fill(twins, -1e4)
    answers = torch.arange(len(group))
    return functional.cross_entropy(logits, answers) + given.backward * functional.cross_entropy(
        logits.T, answers
    )


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
    groups = Groups(bags, given.group, given.seed, share=given.share)
    print(f"{groups.pairs} pairs of {len(groups.members)} packages to learn from", flush=True)
    model = Model(len(bags["vocabulary"]) + BUCKETS, given.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=given.rate, betas=(0.9, 0.98))
    began, average = time.process_time(), 0.0
    for n, batch in enumerate(steps(groups, given.steps, given.batch)):
        for options in optimizer.param_groups:
            options["lr"] = given.rate * (1 - n / given.steps)
        optimizer.zero_grad()
        losses = [loss_of(model, bags, group, given) * len(group) for group in batch]
        loss = torch.stack(losses).sum() / sum(map(len, batch))
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
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=1536)
    parser.add_argument("--group", type=int, default=384)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--backward", type=float, default=0.3)
    parser.add_argument("--drop-query", type=float, default=0.0)
    parser.add_argument("--drop-document", type=float, default=0.0)
    parser.add_argument("--share", type=float, default=1.0, help="train on this share of the packages")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    model = train(Bags(given.bags), given)
    torch.save(model.state_dict(), given.model)


if __name__ == "__main__":
    main()
