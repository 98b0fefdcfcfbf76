"""Judge answers blind: give them out in random order without the arms, and read what two judges say.

A judge writes one JSON object per answer: `{"key", "verdict": "correct" | "partly" | "wrong" | "refused",
"supported": [true, false, …]}`, the last with one value per claim in the file that was given out.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag.errors import SettingsError
from rag.evaluation.questions import read_records
from tools.benchmarks.answer_figures import Record, claims

VERDICTS = ("correct", "partly", "wrong", "refused")
RESAMPLES = 10_000
Judgements = Mapping[str, Mapping[str, Any]]
"""The key of an answer → what a judge says."""


def key_of(record: Record) -> str:
    """Return the name of an answer that does not show its arm."""
    text = json.dumps([record["arm"], record["id"], record["turn"], record["model"]])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def export(records: Sequence[Record], target: Path) -> None:
    """Write the answers for a judge, shuffled; the wording of an answer can still give its arm away."""
    fields = ("repo", "question", "history", "facts", "text")
    given = [
        {"key": key_of(one), **{field: one[field] for field in fields}, "claims": claims(one["text"])}
        | {"sources": [f"{s['path']}:{s['start_line']}-{s['end_line']}" for s in one["sources"]]}
        for one in records
    ]
    random.Random(0).shuffle(given)
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in given]
    target.write_text("".join(lines), encoding="utf-8")


def read_judgements(path: Path, records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return what a judge says, by key; of unknown answers nothing.

    Raises:
        SettingsError: the file cannot be read, or a verdict is unknown, or the claims are not as many.
    """
    count = {key_of(one): len(claims(one["text"])) for one in records}
    found = {one["key"]: one for one in read_records(path) if one.get("key") in count}
    for key, one in found.items():
        if one.get("verdict") not in VERDICTS or len(one.get("supported", ())) != count[key]:
            raise SettingsError(
                f"{path}: the judgement of {key} needs a verdict ({', '.join(VERDICTS)}) and "
                f'{count[key]} values in "supported"; fix the line'
            )
    return found


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cohen's kappa of two equally long lists of verdicts; None if it is not defined."""
    if not first:
        return None
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    chance = sum(first.count(v) * second.count(v) for v in VERDICTS) / len(first) ** 2
    return None if chance == 1 else (agreed - chance) / (1 - chance)


def interval(values: Sequence[float]) -> str:
    """Return the mean and its 95 % bootstrap interval over the values; "-" for none."""
    if not values:
        return "-"
    array = np.array(values, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), [2.5, 97.5])
    return f"{array.mean():.2f} [{low:.2f}, {high:.2f}]"


COLUMNS = ("arm", "n", *VERDICTS, "correct or partly", "claims supported")


def rows(records: Sequence[Record], judges: Sequence[Judgements]) -> list[list[str]]:
    """Return a row for each arm, in the order of COLUMNS: means over the judges of what all of them judged.

    Questions with an answer alone count; intervals are over answers.
    """
    judged = [one for one in records if one["facts"] and all(key_of(one) in judge for judge in judges)]
    found = []
    for arm in dict.fromkeys(one["arm"] for one in judged):
        of_arm = [[judge[key_of(one)] for judge in judges] for one in judged if one["arm"] == arm]
        shares = {v: [np.mean([one["verdict"] == v for one in said]) for said in of_arm] for v in VERDICTS}
        good = [a + b for a, b in zip(shares["correct"], shares["partly"], strict=True)]
        supported = [
            np.mean([np.mean(one["supported"]) for one in said]) for said in of_arm if said[0]["supported"]
        ]
        found.append(
            [arm, str(len(of_arm))]
            + [f"{np.mean(shares[verdict]):.2f}" for verdict in VERDICTS]
            + [interval(list(map(float, good))), interval(list(map(float, supported)))]
        )
    return found


def agreement(records: Sequence[Record], first: Judgements, second: Judgements) -> tuple[int, float | None]:
    """Return how many answers both judges judged, and Cohen's kappa of their verdicts."""
    both = [key for key in map(key_of, records) if key in first and key in second]
    return len(both), kappa([first[key]["verdict"] for key in both], [second[key]["verdict"] for key in both])
