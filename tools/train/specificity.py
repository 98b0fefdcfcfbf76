"""How much a word names something: `data/specificity.txt`, which the gate that says "not found" reads.

`python specificity.py PAIRS SCOWL OUT` counts, over the questions' side of all pairs, in how many packages a
term stands and how often. A word that names a thing ("kafka", "payment") stands often in few packages, a
word of plain language ("notice", "wrong") a little everywhere: what separates them is the residual inverse
document frequency (Church and Gale 1995, "Poisson mixtures"),

    ridf = -log2(df / N) + log2(1 - exp(-cf / N))

with N packages, df of them holding the term and cf holdings in all. The specificity is a logistic function
of it, in tenths. Terms of fewer than MIN_PACKAGES packages count as plain (0) when they are common English,
which are the words up to size 35 of SCOWL (a folder of its lists), else they name something (10, left out).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections import Counter
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

from rag.analysis import terms

LIMIT = 400
"""Pairs read of a package, so that none speaks for all."""
MIN_TERMS = 20
MIN_PACKAGES = 5
MIDDLE, WIDTH = 1.3, 0.5
"""Where the specificity is one half, and how fast it rises: chosen on the development questions."""
SIZES = (10, 20, 35)


def read(file: Path) -> Counter[str]:
    """In how many questions of a package each term stands."""
    held: Counter[str] = Counter()
    with gzip.open(file, "rt") as stream:
        for line in islice(stream, LIMIT):
            held.update(set(terms(json.loads(line)["query"])))
    return held


def specificity(packages: int, cf: int, df: int) -> float:
    """From 0, said everywhere, to 1, said in bursts."""
    ridf = -math.log2(df / packages) + math.log2(1 - math.exp(-cf / packages))
    return 1 / (1 + math.exp(-(ridf - MIDDLE) / WIDTH))


def common_english(scowl: Path) -> set[str]:
    """The terms of SCOWL's smaller lists."""
    found: set[str] = set()
    for size in SIZES:
        for region in ("english", "american"):
            found.update(terms((scowl / f"{region}-words.{size}").read_text(encoding="latin-1")))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("scowl", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    cf: Counter[str] = Counter()
    df: Counter[str] = Counter()
    packages = 0
    with Pool(2) as pool:
        for held in pool.imap_unordered(read, sorted(given.pairs.glob("*/*.jsonl.gz")), chunksize=16):
            if held.total() >= MIN_TERMS:
                packages += 1
                cf.update(held)
                df.update(held.keys())
    tenths = {t: round(10 * specificity(packages, cf[t], n)) for t, n in df.items() if n >= MIN_PACKAGES}
    tenths |= dict.fromkeys((t for t in common_english(given.scowl) if df[t] < MIN_PACKAGES), 0)
    tenths = {term: tenth for term, tenth in tenths.items() if term.isalpha()}
    lines = [f"{n} {' '.join(sorted(t for t, tenth in tenths.items() if tenth == n))}" for n in range(10)]
    given.out.write_text(_HEAD.format(packages=packages) + "\n".join(lines) + "\n", encoding="utf-8")


_HEAD = """\
# How much a word names something, in tenths: the stems of each line have the number it begins with; all
# others have 10. Counted over the documentation of {packages:,} packages and completed with common English
# from SCOWL by tools/train/specificity.py; see data/NOTICE.
"""

if __name__ == "__main__":
    main()
