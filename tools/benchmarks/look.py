"""A second look with a scripted oracle: the share of the reference lines in the context, before and after.

The oracle stands for a careful model: it knows the definitions that hold the reference lines, and asks for
one of them in each step until all are shown: with `find_symbol`, then with `read` for the rest of a long one
and for lines outside of definitions. With "names seen" it may only ask for names and paths that occur in the
question or in what it was shown so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.trees import indexed_folder, plan
from rag.ports import ChatMessages, ChunkIndex
from rag.service import Dialog, Engine
from rag.service.second_look import begin_look
from rag.settings import Settings
from rag.types import ModelReply, Prepared, ToolCall, Usage
from tools.benchmarks.bench import QUESTIONS, Bench, show
from tools.benchmarks.quality import repositories_of

SETS = ("kinds/train", "kinds/dev")
STEPS = 4
CONTEXTS = (2_048, 8_192)
_ANSWER_TOKENS = 400
_PLACE = re.compile(r"^(\S+):(\d+)-(\d+)[^\n]*\n+```", re.MULTILINE)
"""A place whose text is shown."""


def look(bench: Bench) -> None:
    """A second look of 4 steps by a scripted oracle: reference lines in the context before and after."""
    for name in SETS:
        questions = [q for q in read_questions([QUESTIONS / f"{name}.jsonl"]) if q.spans]
        folders = repositories_of(QUESTIONS / f"{name}_repositories.toml", questions, bench.cache)
        rows: dict[tuple[int, bool], list[tuple[float, float, int]]] = {
            (tokens, seen): [] for tokens in CONTEXTS for seen in (True, False)
        }
        for tree in plan(questions, folders):
            with indexed_folder(tree) as root, TemporaryDirectory() as home:
                for tokens, seen in rows:
                    rows[tokens, seen] += _measured(Path(home), root, tree.questions, tokens, seen)
        _show(name, len(questions), rows)


def _measured(
    home: Path, root: Path, questions: Sequence[Question], tokens: int, seen: bool
) -> Iterator[tuple[float, float, int]]:
    """Yield for each question the shares before and after, and the number of steps."""
    settings = Settings(
        home=home, memory="memory:", context_tokens=tokens, answer_tokens=_ANSWER_TOKENS, steps=STEPS
    )
    with closing(Engine(settings)) as engine:
        repository = engine.repository(str(root))
        for question in questions:
            dialog = Dialog(engine, [repository])
            prepared = dialog.prepare(question.text)
            oracle = Oracle(question, wanted_by(repository.store, question.spans), seen)
            found = begin_look(dialog, prepared, oracle)
            assert found is not None
            while not found.ended:
                for pending in found.read(oracle.choose(found.messages(), found.schemas)):
                    found.run(pending)
            after = dialog.prepare(question.text, looked=found)
            yield _share(prepared, question.spans), _share(after, question.spans), len(found.steps)


def _share(prepared: Prepared, spans: Sequence[LineSpan]) -> float:
    """Return the share of the lines that the prompt's sources hold."""
    shown = {(s.hit.path, n) for s in prepared.prompt.sources for n in range(s.hit.start, s.hit.end + 1)}
    lines = {(span.path, n) for span in spans for n in range(span.start, span.end + 1)}
    return len(lines & shown) / len(lines)


@dataclass(frozen=True)
class Wanted:
    """Lines that answer: `name` is the definition that holds them, "" outside of definitions."""

    name: str
    span: LineSpan


def wanted_by(index: ChunkIndex, spans: Sequence[LineSpan]) -> list[Wanted]:
    """Return the reference lines, each with its definition."""
    found = []
    for span in spans:
        chunks = [
            c for c in index.chunks_of(span.path) if index.lines(c)[0] <= span.start <= index.lines(c)[1]
        ]
        names = index.names(np.asarray(chunks, np.int64))
        symbol, scope = names[0] if names else ("", "")
        found.append(Wanted(f"{scope}.{symbol}" if scope and symbol else symbol, span))
    return found


@dataclass
class Oracle:
    """A model that calls one tool in each reply, for the next reference lines that are not shown yet."""

    question: Question
    wanted: Sequence[Wanted]
    seen: bool
    asked: set[tuple[str, str]] = field(default_factory=set)
    model: str = "oracle"
    usage: Usage | None = None
    calls_tools: bool = True

    def choose(self, messages: ChatMessages, tools: Sequence[Mapping[str, Any]]) -> ModelReply:
        """Return a call for the next lines, or no call."""
        text = "\n".join(str(message["content"]) for message in messages[1:])
        places = [(path, int(start), int(end)) for path, start, end in _PLACE.findall(text)]
        for one in self.wanted:
            span = one.span
            if any(p == span.path and s <= span.start and span.end <= e for p, s, e in places):
                continue
            visible = one.name.rpartition(".")[2] if one.name else span.path
            if self.seen and visible not in text:
                continue
            read = "read", json.dumps(_lines(span))
            define = "find_symbol", json.dumps({"name": one.name})
            for call in (define, read) if one.name else (read,):
                if call not in self.asked:
                    self.asked.add(call)
                    return ModelReply("", (ToolCall("call_0", *call),))
        return ModelReply("ANSWER")

    async def achoose(self, messages: ChatMessages, tools: Sequence[Mapping[str, Any]]) -> ModelReply:
        """Do the same."""
        return self.choose(messages, tools)

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Write nothing: only the context is measured."""
        return iter(())


def _lines(span: LineSpan) -> dict[str, Any]:
    return {"path": span.path, "start": span.start, "end": span.end}


def _show(name: str, count: int, rows: Mapping[tuple[int, bool], Sequence[tuple[float, float, int]]]) -> None:
    table = []
    for (tokens, seen), shares in rows.items():
        before, after, steps = np.asarray(shares, float).mean(axis=0)
        knows = "names seen" if seen else "any name"
        table.append(
            (
                f"{tokens:,}",
                knows,
                f"{before:.3f}",
                f"{after:.3f}",
                f"{after - before:+.3f}",
                f"{steps:.1f}",
            )
        )
    columns = ("context", "the oracle asks for", "before", "after", "gain", "steps")
    show(f"Reference lines in the context, {count} questions of {name}", columns, table)
