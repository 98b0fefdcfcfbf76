"""`python -m tests.benchmarks [--only NAME]`: run the benchmarks and print their tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rag.cli.terminal import out
from rag.errors import RagError
from tests.benchmarks import embedding, gate, indexing, quality
from tests.benchmarks.bench import CHECKOUT, Bench, NotMeasured

BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "index": indexing.index,
    "dev": quality.dev,
    "embedding": embedding.embedding_dev,
    "gate": gate.gate,
}
"""What `make bench` runs, in this order."""
BY_HAND: dict[str, Callable[[Bench], None]] = {
    "test": quality.test,
    "embedding-test": embedding.embedding_test,
}
"""What runs only when it is named."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; 0 also when something could not be measured, 3 when a benchmark failed."""
    every = BENCHMARKS | BY_HAND
    described = "\n".join(f"  {name:10} {(run.__doc__ or '').splitlines()[0]}" for name, run in every.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=f"Measure. The benchmarks:\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    home = CHECKOUT / ".bench"
    parser.add_argument("--only", metavar="NAME", choices=every, help="run this one")
    parser.add_argument("--cache", type=Path, default=home / "repositories", help="downloaded repositories")
    parser.add_argument("--peers", type=Path, default=home / "peers", help="where the peers are installed")
    parser.add_argument("--results", type=Path, default=home / "results", help="where reports are written")
    options = parser.parse_args(arguments)
    bench = Bench(options.cache.absolute(), options.peers.absolute(), options.results.absolute())
    chosen = [options.only] if options.only else list(BENCHMARKS)
    return max([_run(name, every[name], bench) for name in chosen])


def _run(name: str, run: Callable[[Bench], None], bench: Bench) -> int:
    began = time.perf_counter()
    out(f"\n== {name}: {(run.__doc__ or '').splitlines()[0]}")
    try:
        run(bench)
    except NotMeasured as reason:
        out(f"not measured: {reason}")
        return 0
    except RagError as error:
        out(f"failed: {error}")
        return 3
    out(f"({name} took {time.perf_counter() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
