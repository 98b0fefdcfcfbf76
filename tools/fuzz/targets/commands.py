"""Lines that commands read: `rag search --batch`, `rag turns import`."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from rag.answer.extract import ExtractiveGenerator
from rag.service import Dialog, converse
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import MANY_QUESTIONS, Refused, Target, open_engine, sample_copy
from tools.fuzz.targets.questions import written


def command(*arguments: str, stdin: bytes) -> tuple[int, str]:
    """Run `rag` in this process; its exit code and output. What it does not turn into a code is raised."""
    from typer.testing import CliRunner

    from rag.cli import app

    done = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    return done.exit_code, done.stdout


class Batch(Target):
    """Lines of `rag search --batch`: each gets its result or its error, in its place."""

    name, share = "batch", 0.8
    bounds = MANY_QUESTIONS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = sample_copy(folder)
        command("index", str(self.root), stdin=b"")

    def make(self, rng: Random) -> Case:
        lines = []
        for _ in range(rng.choice((1, 1, 3))):
            asked: dict[str, Any] = {
                "id": 1,
                "query": written(rng, 20_000),
                "history": [written(rng, 500)],
                "k": 5,
            }
            lines.append(text.json_text(rng, text.mutated_json(rng, asked, 100_000)))
        made = "\n".join(lines)
        return Case(self.name, "", rng.randbytes(50)) if rng.random() < 0.02 else case_of(self.name, "", made)

    def run(self, case: Case) -> None:
        code, printed = command("search", str(self.root), "--batch", "--no-refresh", stdin=case.content)
        if code not in (0, 2):
            raise Refused(f"exit code {code}")
        for line in printed.rstrip("\n").split("\n"):
            if not isinstance(json.loads(line), dict):
                raise Refused(f"a line is {line[:100]}")


class Import(Target):
    """Lines of `rag turns import`: stored, or refused as a whole with an error."""

    name, share = "import", 0.7

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with_turns = open_engine(folder)
        dialog = Dialog(with_turns, [with_turns.repository(str(sample_copy(folder)))])
        for question in ("Where is a token checked?", "And who calls it?"):
            list(converse(dialog, question, ExtractiveGenerator()))
        self.lines = list(with_turns.turns.dump(namespace=""))
        self.file = folder / "turns.jsonl"

    def make(self, rng: Random) -> Case:
        lines = [text.json_text(rng, text.mutated_json(rng, line, 50_000)) for line in self.lines]
        kept = [json.dumps(line) for line in self.lines]
        changed = rng.randrange(len(lines))
        mixed = [lines[n] if n == changed or rng.random() < 0.1 else kept[n] for n in range(len(lines))]
        if rng.random() < 0.1:
            rng.shuffle(mixed)
        return case_of(self.name, "", "\n".join(mixed) + "\n")

    def run(self, case: Case) -> None:
        self.file.write_bytes(case.content)
        code, _ = command("turns", "import", str(self.file), "--memory", "memory:", stdin=b"")
        if code not in (0, 2):
            raise Refused(f"exit code {code}")
