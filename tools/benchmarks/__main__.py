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
    answers,
    check,
    generated,
    kinds,
    quality,
    relay,
    scale,
    serving,
    speed,
    staleness,
    wiki,
)
from tools.benchmarks.bench import CHECKOUT, Bench, NotMeasured, not_measured

BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "speed": speed.speed,
    "scale": scale.scale,
    "dev": quality.dev,
    "kinds": kinds.kinds,
    "generated": generated.generated,
    "relay": relay.relay,
    "staleness": staleness.staleness,
    "check": check.check,
    "serve": serving.serve,
    "wiki": wiki.wiki,
}
"""What `make bench` runs, in this order."""
BY_HAND: dict[str, Callable[[Bench], None]] = {
    "test": quality.test,
    "final": kinds.final,
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
    parser.add_argument("--results", type=Path, default=home / "results", help="where results are written")
    options = parser.parse_args(arguments)
    bench = Bench(options.cache.absolute(), options.peers.absolute(), options.results.absolute())
    chosen = [options.only] if options.only else list(BENCHMARKS)
    return max([_run(name, every[name], bench) for name in chosen])


def _about(run: Callable[[Bench], None]) -> str:
    return (run.__doc__ or "").splitlines()[0]


def _run(name: str, run: Callable[[Bench], None], bench: Bench) -> int:
    began = time.perf_counter()
    out(f"\n== {name}: {_about(run)}")
    failed = False
    try:
        run(bench)
    except NotMeasured as reason:
        not_measured(reason)
    except RagError as error:
        failed = True
        out(f"failed: {error}")
    out(f"({name} took {time.perf_counter() - began:.0f} s)")
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
