"""Download what the table was learnt from: `python obtain.py packages.tsv ARCHIVES [--every 100]`.

Every package by name and version, through its registry's own client: pip (wheels only, nothing is built
or run), npm (no scripts), apt-get (source packages and -dev packages; /etc/apt must name a deb-src line
for the release). A package that is no longer to be had is named and left out. `--every 100` takes every
hundredth package of each sort: the whole chain then takes a minute, to see that it runs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote

BATCH = 20
COMMANDS = {
    "wheel": [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
    ],
    "npm": ["npm", "pack", "--silent", "--ignore-scripts"],
    "source": ["apt-get", "source", "-qq", "--download-only"],
    "deb": ["apt-get", "download", "-qq"],
}


def asked_for(registry: str, name: str, version: str, archive: str) -> tuple[str, str]:
    """The command that gets a package, and what it is to be asked for."""
    if registry == "pypi":
        return "wheel", f"{name}=={version}"
    if registry == "npm":
        return "npm", f"{name}@{version}"
    if archive.endswith(".deb"):
        package, exact = archive.split("_")[:2]
        return "deb", f"{package}={unquote(exact)}"
    return "source", f"{name}={version}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("archives", type=Path)
    parser.add_argument("--every", type=int, default=1, help="one package in so many, of each sort")
    given = parser.parse_args()
    wanted: dict[str, list[str]] = defaultdict(list)
    for line in given.packages.read_text().splitlines():
        registry, name, version, _licence, archive, _pairs = line.split("\t")
        command, what = asked_for(registry, name, version, archive)
        wanted[command].append(what)
    for command, every in wanted.items():
        packages = every[:: given.every]
        if shutil.which(COMMANDS[command][0]) is None:
            sys.stderr.write(f"not to be had: {len(packages)} packages, for want of {COMMANDS[command][0]}\n")
            continue
        folder = given.archives / command
        folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(packages), BATCH):
            batch = packages[start : start + BATCH]
            if subprocess.run([*COMMANDS[command], *batch], cwd=folder, check=False).returncode:
                for package in batch:
                    if subprocess.run([*COMMANDS[command], package], cwd=folder, check=False).returncode:
                        sys.stderr.write(f"not to be had: {package}\n")


if __name__ == "__main__":
    main()
