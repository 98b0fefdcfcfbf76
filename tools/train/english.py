"""WordNet becomes pairs: `python english.py FOLDER PAIRS`, the folder of `data.noun` and its sisters.

A gloss finds its words, an example finds its gloss, a word finds its gloss and the other words. What lies
near in meaning is in one subject file of WordNet's, which takes the place of a package, so that the wrong
answers are near ones. Names and places are left out. The files are in Debian's package `wordnet-base`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MAX_PAIRS = 2000
MIN_PAIRS = 100
Synset = tuple[str, list[str], str, list[str]]
"""Subject file, words, gloss, words of what it is a kind of."""


def synsets(folder: Path) -> Iterator[Synset]:
    """All synsets, in the order of the files."""
    for part in ("noun", "verb", "adj", "adv"):
        rows: dict[str, Synset] = {}
        for line in (folder / f"data.{part}").read_text().splitlines():
            if line.startswith("  "):
                continue  # the licence
            left, _, gloss = line.partition("|")
            fields = left.split()
            count = int(fields[3], 16)
            words = [re.sub(r"\(.*?\)$", "", w).replace("_", " ") for w in fields[4 : 4 + 2 * count : 2]]
            pointers = fields[5 + 2 * count :]
            quads = [pointers[4 * i : 4 * i + 4] for i in range(int(fields[4 + 2 * count]))]
            above = [q[1] for q in quads if (q[0] == "@" and q[2][0] == part[0]) or q[0] == "&"]
            rows[fields[0]] = (f"{part}{int(fields[1]):02d}", words, gloss.strip(), above)
        for file, words, gloss, above in rows.values():
            yield file, words, gloss, [w for key in above[:1] if key in rows for w in rows[key][1]]


def pairs(found: Iterator[Synset], chance: random.Random) -> dict[str, list[tuple[str, str]]]:
    """Question and answer, by subject file."""
    made: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for file, words, gloss, above in found:
        if words[0][:1].isupper():
            continue
        parts = [part.strip() for part in gloss.split(";")]
        examples = [part.strip('" ') for part in parts if part.startswith('"')]
        meaning = "; ".join(part for part in parts if not part.startswith('"'))
        mixed = list(words)
        chance.shuffle(mixed)
        made[file].append((meaning, " ".join([*words, *above])))
        if examples:
            made[file].append((chance.choice(examples), " ".join([meaning, *words])))
        if len(words) > 1:
            made[file].append((" ".join([mixed[0], *above[:1]]), " ".join([meaning, *mixed[1:]])))
    return made


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    out = given.pairs / "wordnet"
    out.mkdir(parents=True, exist_ok=True)
    chance, total = random.Random(given.seed), 0
    for file, made in sorted(pairs(synsets(given.folder), chance).items()):
        chance.shuffle(made)
        for start in range(0, len(made), MAX_PAIRS):
            part = made[start : start + MAX_PAIRS]
            if len(part) < MIN_PAIRS:
                continue
            total += len(part)
            with gzip.open(out / f"{file}-{start // MAX_PAIRS}.jsonl.gz", "wt", compresslevel=2) as stream:
                for query, body in part:
                    row = {"sort": "gloss", "language": "english", "query": query, "head": "", "body": body}
                    stream.write(json.dumps(row) + "\n")
    print(f"{total} pairs")


if __name__ == "__main__":
    main()
