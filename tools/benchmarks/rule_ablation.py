"""What each rule for a kind of question, a conversation or the gate is worth: all of them but one."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rag.cli.terminal import out
from rag.evaluation.answers import Answered, ask, conversations, is_unanswerable, read_unanswerable
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.summary import Difference, Resampling
from rag.evaluation.trees import Tree, indexed_folder, plan
from rag.retrieval.instructions import without_instructions
from rag.retrieval.question import _parsed, _parsed_long
from rag.service import Engine
from rag.settings import Settings
from tools.benchmarks.bench import Bench, show
from tools.benchmarks.kinds import KINDS, wrapped
from tools.benchmarks.quality import repositories_of
from tools.benchmarks.rules import RULES, Rule, noticed, without

SETS = ("train", "weak", "dev")
MEASURES = {
    "first": "first",
    "quoted": "quoted",
    "named": "named",
    "members": "lists, callers",
    "gate": "gate",
}
"""The measures with their titles. Each is of the questions that have such places."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is right in an answer; None where the question has no such places.

    `members` is the share of the members of a list, or of the call sites, that are named; the `gate` is right
    if what has an answer is neither refused nor warned of, and what has none is.
    """

    first: float | None
    quoted: float | None
    named: float | None
    members: float | None
    gate: float

    @classmethod
    def of(cls, answered: Answered) -> Judged:
        """Judge an answer."""
        question = answered.question
        has_lines, every = bool(question.spans), question.members or question.sites
        return cls(
            first=float(answered.is_first_right) if has_lines else None,
            quoted=float(answered.on_target) if has_lines else None,
            named=float(answered.is_cited) if has_lines else None,
            members=answered.share_of(every) if every else None,
            gate=float((answered.refused or answered.warned) == is_unanswerable(question.kind)),
        )


@dataclass(frozen=True, slots=True)
class Changed:
    """An answer that is another one without a rule."""

    rule: str
    question: str
    kind: str
    shipped: Judged
    without: Judged


@dataclass(slots=True)
class Found:
    """The questions of some trees with their answers, how many of them use each rule, and what changes."""

    shipped: dict[str, tuple[Question, Judged]]
    used: dict[str, int]
    changed: list[Changed]


def rule_ablation(bench: Bench) -> None:
    """What each rule is worth on the train, weak and dev questions by kind."""
    every = Found({}, defaultdict(int), [])
    for tree in _trees(bench.cache):
        print(f"{tree.label}: rules", file=sys.stderr)
        found = measured(tree)
        every.shipped |= found.shipped
        every.changed += found.changed
        for rule, count in found.used.items():
            every.used[rule] += count
    columns, rows = table(every)
    title = f"What each rule gains, {len(every.shipped):,} questions of {', '.join(SETS)}"
    show(title, columns, rows)
    bench.results.mkdir(parents=True, exist_ok=True)
    figures = {"used": every.used, "changed": [asdict(one) for one in every.changed]}
    (bench.results / "rules.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    out(f"answers that change: {bench.results / 'rules.json'}")


def _trees(cache: Path) -> Iterator[Tree]:
    for name in SETS:
        files = [KINDS / f"{name}{part}.jsonl" for part in ("", "_conversations", "_unanswerable")]
        files = [file for file in files if file.exists()]
        questions = read_questions([file for file in files if "unanswerable" not in file.name])
        folders = repositories_of(KINDS / f"{name}_repositories.toml", questions, cache)
        others = [*read_unanswerable(files), *(wrapped(questions) if name != "weak" else ())]
        yield from plan([*questions, *others], folders)


def measured(tree: Tree, rules: Sequence[Rule] = RULES) -> Found:
    """Ask the questions of a tree, then again without each rule those that use it: whole conversations."""
    used: dict[str, set[str]] = defaultdict(set)
    with (
        indexed_folder(tree) as root,
        TemporaryDirectory(prefix="rag-ablation-") as home,
        closing(Engine(Settings(home=Path(home), memory="memory:"))) as engine,
    ):
        shipped: dict[str, Answered] = {}
        groups = [tuple(group) for _, group in groupby(tree.questions, lambda one: one.conversation)]
        for group in groups:
            with noticed(rules) as names:
                shipped |= _asked(engine, root, group)
            for name in names:
                used[name] |= {one.id for one in group}
        changed = []
        for rule in rules:
            with without(rule):
                answers = _asked(engine, root, [one for one in tree.questions if one.id in used[rule.name]])
            changed += [
                Changed(rule.name, name, one.question.kind, Judged.of(shipped[name]), Judged.of(one))
                for name, one in answers.items()
                if _shown(one) != _shown(shipped[name])
            ]
    questions = {name: (one.question, Judged.of(one)) for name, one in shipped.items()}
    return Found(questions, {rule.name: len(used[rule.name]) for rule in rules}, changed)


def _asked(engine: Engine, root: Path, questions: Sequence[Question]) -> dict[str, Answered]:
    """Ask questions in their conversations; nothing read before is reused."""
    for cached in (_parsed, _parsed_long, without_instructions):
        cached.cache_clear()
    return {one.id: ask(dialog, one) for dialog, one in conversations(engine, root, questions)}


def _shown(one: Answered) -> Answered:
    """Return what a reader sees of an answer, without how sure it is."""
    return replace(one, confidence=0.0, first_right=0.0)


def table(found: Found) -> tuple[list[str], list[list[str]]]:
    """Return the gain of each rule, as shipped minus without it, for each measure; those that gain most in
    the first place come first.
    """
    names = list(found.shipped)
    weights = Resampling([found.shipped[name][0].conversation for name in names])
    by_rule: Mapping[str, dict[str, Changed]] = defaultdict(dict)
    for one in found.changed:
        by_rule[one.rule][one.question] = one
    rows = []
    for rule, count in found.used.items():
        gains = [_gain(found, by_rule[rule], names, weights, measure) for measure in MEASURES]
        rows.append((gains, [rule, str(count), str(len(by_rule[rule])), *map(_cell, gains)]))
    rows.sort(key=lambda row: [-gain.mean for gain in row[0]])
    return ["rule", "uses it", "answers change", *MEASURES.values()], [cells for _, cells in rows]


def _gain(
    found: Found, changed: Mapping[str, Changed], names: Sequence[str], weights: Resampling, measure: str
) -> Difference:
    values = np.full(len(names), math.nan)
    for number, name in enumerate(names):
        if getattr(found.shipped[name][1], measure) is not None:
            values[number] = 0.0
            if name in changed:
                one = changed[name]
                values[number] = getattr(one.shipped, measure) - getattr(one.without, measure)
    return Difference(0.0, 0.0, 0.0) if np.isnan(values).all() else weights.mean(values)


def _cell(gain: Difference) -> str:
    if gain.mean == gain.low == gain.high == 0:
        return "0"
    return f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
