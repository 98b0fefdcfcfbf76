"""Mine pairs from downloaded archives: `python mine.py ARCHIVES PAIRS [--jobs 2] [--seed 1]`.

Writes `PAIRS/<registry>/<name>.jsonl.gz` (one pair a line) and `PAIRS/packages.tsv`: registry, name,
version, licence, archive, pairs. What is refused, and why, stands in `PAIRS/refused.tsv`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import signal
from collections import Counter
from dataclasses import asdict
from multiprocessing import Pool
from pathlib import Path

from archives import Refused, archives, read_package
from pairs import pairs

MAX_SECONDS = 90


def _too_long(_signal: int, _frame: object) -> None:
    raise Refused(f"took longer than {MAX_SECONDS} s")


def _watch() -> None:
    signal.signal(signal.SIGALRM, _too_long)


def mine(job: tuple[Path, Path, int]) -> tuple[str, ...]:
    """Mine one archive; return its row for packages.tsv, or ("refused", file, why)."""
    archive, out, seed = job
    signal.alarm(MAX_SECONDS)
    try:
        package = read_package(archive)
        found = pairs(package, seed)
    except Refused as refusal:
        return "refused", archive.name, str(refusal)
    finally:
        signal.alarm(0)
    file = out / package.registry / (package.name.replace("/", "__") + ".jsonl.gz")
    with gzip.open(file, "wt", compresslevel=2) as stream:
        for pair in found:
            stream.write(json.dumps(asdict(pair)) + "\n")
    counts = Counter(f"{p.language}:{p.sort}" for p in found)
    about = (package.registry, package.name, package.version, package.licence, archive.name)
    return *about, str(len(found)), json.dumps(counts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for registry in ("pypi", "npm", "debian"):
        (given.pairs / registry).mkdir(parents=True, exist_ok=True)
    jobs = [(path, given.pairs, given.seed) for path in archives(given.archives)]
    random.Random(0).shuffle(jobs)  # large and small ones mixed, so that both workers end together
    with Pool(given.jobs, _watch, maxtasksperchild=50) as pool:
        rows = list(pool.imap_unordered(mine, jobs, chunksize=4))
    taken = sorted(row for row in rows if row[0] != "refused" and row[5] != "0")
    refused = sorted(row for row in rows if row[0] == "refused")
    (given.pairs / "packages.tsv").write_text("".join("\t".join(row[:6]) + "\n" for row in taken))
    (given.pairs / "refused.tsv").write_text("".join("\t".join(row[1:]) + "\n" for row in refused))
    total: Counter[str] = Counter()
    for row in taken:
        total.update(json.loads(row[6]))
    print(f"{sum(total.values())} pairs of {len(taken)} packages; {len(refused)} refused")
    print(json.dumps(dict(total.most_common()), indent=1))


if __name__ == "__main__":
    main()
