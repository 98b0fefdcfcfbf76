"""`python -m tools.benchmarks [--only NAME]`: run the benchmarks and print their tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rag.cli.terminal import out
from rag.errors import RagError
from tools.benchmarks import (
    ablation,
    agents,
    answer_cache,
    answers,
    context,
    embedding,
    failover,
    gate,
    generated,
    graph,
    jobs,
    kinds,
    locomo,
    look,
    many,
    memory,
    quality,
    review,
    rewriting,
    scale,
    second_stage,
    serving,
    shelf,
    speed,
    staleness,
    together,
    wiki,
    work_trees,
)
from tools.benchmarks.bench import CHECKOUT, Bench, NotMeasured, not_measured
from tools.benchmarks.report import keep_run, write_report

BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "speed": speed.speed,
    "scale": scale.scale,
    "trees": work_trees.trees,
    "dev": quality.dev,
    "ablation": ablation.ablation,
    "embedding": embedding.embedding_dev,
    "together": together.together,
    "kinds": kinds.kinds,
    "generated": generated.generated,
    "context": context.context,
    "gate": gate.gate,
    "agents": agents.agents,
    "graph": graph.graph,
    "staleness": staleness.staleness,
    "memory": memory.memory,
    "answer_cache": answer_cache.answer_cache,
    "locomo": locomo.locomo,
    "failover": failover.failover,
    "jobs": jobs.jobs,
    "serve": serving.serve,
    "many": many.many,
    "shelf": shelf.shelf,
    "wiki": wiki.wiki,
}
"""What `make bench` runs, in this order."""
BY_HAND: dict[str, Callable[[Bench], None]] = {
    "test": quality.test,
    "final": kinds.final,
    "embedding-test": embedding.embedding_test,
    "rewriting": rewriting.rewriting,
    "review": review.review_tests,
    "second": second_stage.second_stage,
    "look": look.look,
    "answers": answers.answers,
}
"""What runs only when it is named."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; 0 also when something could not be measured, 3 when a benchmark failed."""
    every = BENCHMARKS | BY_HAND
    described = "\n".join(f"  {name:14} {_about(run)}" for name, run in every.items())
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmarks",
        description=f"Measure. The benchmarks:\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    home = CHECKOUT / ".bench"
    parser.add_argument("--only", metavar="NAME", choices=every, help="run this one")
    parser.add_argument("--cache", type=Path, default=home / "repositories", help="downloaded repositories")
    parser.add_argument("--peers", type=Path, default=home / "peers", help="where the peers are installed")
    parser.add_argument("--results", type=Path, default=home / "results", help="where reports are written")
    parser.add_argument("--pairs", type=Path, metavar="FILE", help="answer_cache: measure these pairs alone")
    options = parser.parse_args(arguments)
    if options.pairs is not None and options.only != "answer_cache":
        parser.error("--pairs is read by one benchmark: add --only answer_cache")
    bench = Bench(
        options.cache.absolute(), options.peers.absolute(), options.results.absolute(), options.pairs
    )
    chosen = [options.only] if options.only else list(BENCHMARKS)
    code = max([_run(name, every[name], bench) for name in chosen])
    out(f"\nreport: {write_report(bench, {name: _about(run) for name, run in every.items()})}")
    return code


def _about(run: Callable[[Bench], None]) -> str:
    return (run.__doc__ or "").splitlines()[0]


def _run(name: str, run: Callable[[Bench], None], bench: Bench) -> int:
    began, clock = time.time(), time.perf_counter()
    out(f"\n== {name}: {_about(run)}")
    failed = ""
    try:
        run(bench)
    except NotMeasured as reason:
        not_measured(reason)
    except RagError as error:
        failed = str(error)
        out(f"failed: {failed}")
    seconds = time.perf_counter() - clock
    keep_run(bench, name, _about(run), began, seconds, failed)
    out(f"({name} took {seconds:.0f} s)")
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
