"""List what was used for training or questions: `python repositories.py REPOSITORIES.toml`.

One entry for each package that the embedding table was learnt from (packages.tsv), and for each repository
of the question sets: name, version, registry, licence, and its uses. `sibling = true` marks a package of the
training data that `archives.kept_out` refuses today, because a repository asked about later is related to it.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from archives import kept_out

TOOLS = Path(__file__).resolve().parents[1]
Entry = dict[str, str | bool]


def trained() -> Iterator[Entry]:
    """The packages of the embedding table."""
    for line in (TOOLS / "train" / "packages.tsv").read_text().splitlines():
        registry, name, version, licence, _archive, _pairs = line.split("\t")
        entry: Entry = {"name": name, "version": version, "source": registry, "licence": licence}
        yield entry | {"use": "embedding table"} | ({"sibling": True} if kept_out(name) else {})


def asked() -> Iterator[Entry]:
    """The repositories of the question sets."""
    for file in sorted((TOOLS / "questions").rglob("*_repositories.toml")):
        use = file.relative_to(TOOLS / "questions").as_posix().removesuffix("_repositories.toml")
        for entry in tomllib.loads(file.read_text())["repository"]:
            known = {name: str(entry.get(name, "")) for name in ("name", "version", "source", "licence")}
            yield known | {"use": f"questions {use}"}


def main() -> None:
    """The command line."""
    entries = [*asked(), *trained()]
    fields = (", ".join(f"{name} = {json.dumps(value)}" for name, value in one.items()) for one in entries)
    rows = "".join(f"  {{ {row} }},\n" for row in fields)
    Path(sys.argv[1]).write_text(f"repository = [\n{rows}]\n")
    print(f"{len(entries)} entries, {sum('sibling' in one for one in entries)} siblings in the training data")


if __name__ == "__main__":
    main()
