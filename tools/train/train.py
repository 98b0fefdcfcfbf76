"""Train the table: `python train.py BAGS.npz MODEL.pt [--dim 128] [--steps 2000] [--seed 1]`.

InfoNCE with a learned temperature. A step takes a few groups of pairs, each group from one package, so
that the wrong answers are those of the same repository and the idf is the one that is used there. Adam,
random start, the rate falls linearly to zero. One thread; `OMP_WAIT_POLICY=passive` on a busy machine.

`--english .05` draws groups of WordNet's beside those of code, so many times as often. `--teach VECTORS.npz`
teaches everyday English as `teach.py`'s model knows it: of questions of a few packages, the distribution of
each one's likeness to the others is to be the teacher's, between questions and from question to code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from bags import BUCKETS, held_out, is_english
from model import Bags, Model, Rows, describe

MIN_GROUP = 24
MIN_TAUGHT, MAX_TAUGHT, TAUGHT_PACKAGES = 12, 48, 8
"""Questions of a package that the teacher has read; so many packages a step."""
TEACHER_TEMPERATURE, DROP_TAUGHT = 0.05, 0.15


class Groups:
    """Draws groups of pairs, a package at a time.

    A package's chance grows with its size to the power .6, then a language's with the sum of its packages'
    to the power `balance`: 1 leaves the languages as they were mined (most of it Python), 0 makes them equal.
    """

    def __init__(
        self,
        bags: Bags,
        size: int,
        seed: int,
        *,
        share: float = 1.0,
        balance: float = 1.0,
        english: float = 0.0,
    ) -> None:
        self.size, self.random = size, np.random.default_rng(seed)
        package, names = bags["package"], bags["names"]
        order = np.argsort(package, kind="stable")
        bounds = np.searchsorted(package[order], np.arange(len(names) + 1))
        kept = [
            n
            for n in range(len(names))
            if not held_out(str(names[n]))
            and not is_english(str(names[n]))
            and bounds[n + 1] - bounds[n] >= MIN_GROUP
        ]
        if share < 1:
            kept = list(self.random.permutation(kept)[: int(len(kept) * share)])
        code = len(kept)
        kept += [n for n in range(len(names)) if english and is_english(str(names[n]))]
        self.members = [order[bounds[n] : bounds[n + 1]] for n in kept]
        weight = np.asarray([len(m) ** 0.6 for m in self.members])
        languages, spoken = np.unique([_main_language(bags, m) for m in self.members], return_inverse=True)
        total = np.bincount(spoken, weights=weight, minlength=len(languages))
        weight *= (total ** (balance - 1))[spoken]
        weight[:code] /= weight[:code].sum()
        weight[code:] *= english / max(weight[code:].sum(), 1e-9)
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


class Teacher:
    """Questions with a teacher's vector, drawn as those of a few packages."""

    def __init__(self, bags: Bags, file: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        with np.load(file) as stored:
            order = np.argsort(stored["names"])
            names, self.vectors = stored["names"][order], stored["vectors"][order]
        self.place = np.minimum(np.searchsorted(names, bags["asked"]), len(names) - 1)
        package = bags["package"]
        held = np.asarray([held_out(str(name)) for name in bags["names"]])
        pairs = np.flatnonzero((names[self.place] == bags["asked"]) & ~held[package])
        bounds = np.flatnonzero(np.diff(package[pairs], prepend=-1, append=-1))
        blocks = [pairs[start:end] for start, end in pairwise(bounds)]
        self.blocks = [block for block in blocks if len(block) >= MIN_TAUGHT]

    def draw(self) -> tuple[np.ndarray, torch.Tensor]:
        """Pairs of `TAUGHT_PACKAGES` packages, and the cosines of their questions to the teacher."""
        chosen = self.random.choice(len(self.blocks), TAUGHT_PACKAGES, replace=False)
        blocks = [self.blocks[i] for i in chosen]
        pairs = np.concatenate(
            [b if len(b) <= MAX_TAUGHT else self.random.choice(b, MAX_TAUGHT, replace=False) for b in blocks]
        )
        rows = torch.from_numpy(self.vectors[self.place[pairs]].astype(np.float32))
        rows = functional.normalize(rows, dim=1)
        return pairs, rows @ rows.T


def taught_loss(
    model: Model, bags: Bags, teacher: Teacher, sharpness: torch.Tensor, given: argparse.Namespace
) -> torch.Tensor:
    """How far the likeness of questions, and of question and code, is from what the teacher says."""
    pairs, told = teacher.draw()
    itself = torch.eye(len(pairs), dtype=torch.bool)
    target = functional.softmax((told / TEACHER_TEMPERATURE).masked_fill(itself, -1e4), dim=1)
    queries = model.embed(Rows(bags, "q", pairs, DROP_TAUGHT), query=True)
    as_passages = model.embed(Rows(bags, "q", pairs, DROP_TAUGHT), query=False)
    documents = model.embed(Rows(bags, "d", pairs, given.drop_document), query=False)
    total = torch.zeros(())
    for answers, weight in ((as_passages, given.teach_questions), (documents, given.teach_code)):
        logits = (queries @ answers.T * sharpness.exp()).masked_fill(itself, -1e4)
        total = total - weight * (target * functional.log_softmax(logits, dim=1)).sum(dim=1).mean()
    return total


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
    groups = Groups(
        bags, given.group, given.seed, share=given.share, balance=given.balance, english=given.english
    )
    print(f"{groups.pairs} pairs of {len(groups.members)} packages to learn from", flush=True)
    model = Model(len(bags["vocabulary"]) + BUCKETS, given.dim)
    sharpness = torch.nn.Parameter(torch.tensor(2.5))  # log of what the taught cosines are multiplied with
    teacher = Teacher(bags, given.teach, given.seed + 77) if given.teach else None
    optimizer = torch.optim.AdamW(
        [
            {"params": [model.table], "weight_decay": given.decay},
            {"params": [*model.numbers(), sharpness], "weight_decay": 0.0},
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
        average = loss.item() if n == 0 else 0.98 * average + 0.02 * loss.item()
        if teacher is not None:
            loss = loss + taught_loss(model, bags, teacher, sharpness, given)
        loss.backward()
        optimizer.step()
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
    parser.add_argument("--english", type=float, default=0.0, help="WordNet's groups for each of code")
    parser.add_argument("--teach", type=Path, help="vectors that teach.py wrote")
    parser.add_argument("--teach-questions", type=float, default=0.3, help="weight of question to question")
    parser.add_argument("--teach-code", type=float, default=0.1, help="weight of question to code")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    model = train(Bags(given.bags), given)
    torch.save(model.state_dict(), given.model)


if __name__ == "__main__":
    main()
