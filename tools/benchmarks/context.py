"""How much of the right code a prompt shows, by its size and by what it is made of. No model is needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from rag.backends.tiktoken_counter import RaisedCounter, TiktokenCounter, tokens_of_block
from rag.evaluation.answers import conversations
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.trees import Tree, indexed_folder, plan
from rag.prompt.compose import PromptInput, compose
from rag.prompt.templates import load_template
from rag.retrieval.expand_definitions import other_parts
from rag.retrieval.overview import outlines
from rag.retrieval.search import RetrievalResult, Searcher, search
from rag.retrieval.surroundings import called, class_heads, surroundings, used_imports
from rag.service import Dialog, Engine
from rag.settings import Settings
from rag.types import Hit, Prompt
from tools.benchmarks.bench import QUESTIONS, Bench, show
from tools.benchmarks.quality import repositories_of

KINDS = QUESTIONS / "kinds"
SIZES = 1_500, 4_000, 8_000, 16_000
HITS = 12
FLAT, LEARNED = 1.35, 1.05
"""The factor for a model of which nothing is known, and that of Qwen2.5-Coder with the learned margin."""


@dataclass(frozen=True)
class Arm:
    """What a prompt is made of in addition to the hits."""

    name: str
    factor: float = LEARNED
    parts: bool = True
    more: Callable[[Sequence[Searcher], RetrievalResult], Iterator[Hit]] = lambda searchers, found: iter(())
    outlined: bool = False


ARMS = (
    Arm("flat token factor, hits and the rest of their definitions", FLAT),
    Arm("hits only", parts=False),
    Arm("+ the rest of their definitions"),
    Arm("+ what they call", more=lambda searchers, found: called(searchers, found.hits)),
    Arm("+ their class heads", more=lambda searchers, found: class_heads(searchers, found.hits)),
    Arm("+ the imports that they use", more=lambda searchers, found: used_imports(searchers, found.hits)),
    Arm("+ the next hits", more=lambda searchers, found: iter(found.further)),
    Arm("all, with an outline for a broad question", more=surroundings, outlined=True),
)


@dataclass(frozen=True)
class Measured:
    """One prompt: the share of the reference lines in its sources, its tokens, and the CPU time it took."""

    share: float
    tokens: int
    ms: float


def context(bench: Bench) -> None:
    """The share of the reference lines that a prompt shows, on the dev repositories."""
    measure(bench, "dev")


def measure(bench: Bench, split: str) -> None:
    """Compose the prompts of a split's questions in each way and size, and show means and medians."""
    questions = [one for one in read_questions([KINDS / f"{split}.jsonl"]) if one.spans]
    folders = repositories_of(KINDS / f"{split}_repositories.toml", questions, bench.cache)
    found: dict[tuple[str, int], list[Measured]] = {(arm.name, size): [] for arm in ARMS for size in SIZES}
    for tree in plan(questions, folders):
        print(f"{tree.label}: {len(tree.questions)} questions", file=sys.stderr)
        _measure_tree(tree, found)
    show(
        f"Reference lines in the prompt (%), {len(questions)} questions, {split} repositories",
        ("what is shown", *(f"{size:,} tokens" for size in SIZES)),
        [[arm.name, *(f"{100 * _mean(found[arm.name, size]):.1f}" for size in SIZES)] for arm in ARMS],
    )
    show(
        "Medians: tokens of the prompt, and milliseconds of CPU to compose it",
        ("what is shown", *(f"{size:,} tokens" for size in SIZES)),
        [[arm.name, *(_medians(found[arm.name, size]) for size in SIZES)] for arm in ARMS],
    )


def _measure_tree(tree: Tree, found: dict[tuple[str, int], list[Measured]]) -> None:
    with (
        indexed_folder(tree) as root,
        TemporaryDirectory(prefix="rag-context-") as home,
        closing(Engine(Settings(home=Path(home), memory="memory:"))) as engine,
    ):
        for dialog, question in conversations(engine, root, tree.questions):
            searchers = [repository.searcher for repository in dialog.searched]
            result = search(searchers, question.text, k=HITS, with_further=True)
            for arm in ARMS:
                for size in SIZES:
                    found[arm.name, size].append(_measured(dialog, question, result, arm, size))


def _measured(dialog: Dialog, question: Question, found: RetrievalResult, arm: Arm, size: int) -> Measured:
    tokens_of_block.cache_clear()  # the words of earlier prompts are still known, as in a server
    began = time.thread_time()
    prompt = _composed(dialog, question, found, arm, size)
    took = time.thread_time() - began
    return Measured(_share(prompt, question), prompt.tokens, 1000 * took)


def _composed(dialog: Dialog, question: Question, found: RetrievalResult, arm: Arm, size: int) -> Prompt:
    searchers = [repository.searcher for repository in dialog.searched]
    return compose(
        PromptInput(
            question=question.text,
            hits=found.hits,
            repositories=[question.repo],
            parts=other_parts(searchers, found.hits) if arm.parts else (),
            surroundings=arm.more(searchers, found),
            outlines=outlines(searchers, found) if arm.outlined else (),
            code_facts=found.code_facts,
        ),
        template=load_template(None, dialog.engine.settings.home),
        counter=RaisedCounter(TiktokenCounter(), arm.factor),
        context_tokens=size,
        answer_tokens=0,
    )


def _share(prompt: Prompt, question: Question) -> float:
    """Return the share of the question's reference lines that the sources of a prompt hold."""
    wanted = {(span.path, line) for span in question.spans for line in range(span.start, span.end + 1)}
    shown = {(s.hit.path, line) for s in prompt.sources for line in range(s.hit.start, s.hit.end + 1)}
    return len(wanted & shown) / len(wanted)


def _mean(measured: Sequence[Measured]) -> float:
    return fmean(one.share for one in measured)


def _medians(measured: Sequence[Measured]) -> str:
    return f"{median(one.tokens for one in measured):,.0f} · {median(one.ms for one in measured):.1f}"
