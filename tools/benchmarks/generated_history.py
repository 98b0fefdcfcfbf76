"""A history made up for the stale-memory benchmark: what was done to each function is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.benchmarks.blame import git

_WORDS = "token session key store index chunk answer source turn memory prompt budget line path blob".split()
_VERBS = "load check build merge split rank parse sign fetch write close count".split()
Files = dict[str, list[str]]


@dataclass
class Generated:
    """A repository with the commits to compare; `done` says, by old path and function text, what was done."""

    folder: Path
    pairs: list[tuple[str, str]] = field(default_factory=list)
    done: dict[tuple[str, str], str] = field(default_factory=dict)


def generate(folder: Path, *, rounds: int, seed: int = 7) -> Generated:
    """Make the history: in each round every kind of change is done to functions of its own."""
    made = Generated(folder)
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--template=")
    for number in range(rounds):
        files = {
            f"r{number}/{_name(draw)}.py": [_function(draw) for _ in range(draw.randint(6, 14))]
            for _ in range(12)
        }
        before = _commit(folder, files)
        for change, path in zip(_CHANGES * 2, sorted(files), strict=False):
            kind = change.__name__.removeprefix("_").replace("_", " ")
            for function in change(files, path, draw):
                made.done[path, function] = kind
        made.pairs.append((before, _commit(folder, files)))
    return made


def _name(draw: random.Random) -> str:
    return f"{draw.choice(_VERBS)}_{draw.choice(_WORDS)}_{draw.randint(0, 9999)}"


def _function(draw: random.Random) -> str:
    name = _name(draw)
    lines = [f"def {name}({draw.choice(_WORDS)}, {draw.choice(_WORDS)}_{draw.randint(0, 99)}):"]
    for _ in range(draw.randint(2, 9)):
        lines.append(
            f"    {draw.choice(_WORDS)} = {draw.choice(_VERBS)}({draw.choice(_WORDS)}, {draw.random():.3f})"
        )
        if draw.random() < 0.2:
            lines += [f"    if {draw.choice(_WORDS)}:", "        return None"]
    # Blame may lose a short line that follows a common one, so the last line is not short.
    last = (
        f"    return {draw.choice(_VERBS)}_{draw.choice(_WORDS)}({draw.choice(_WORDS)}, {draw.random():.4f})"
    )
    return "\n".join([*lines, last, "", ""])


def _edited(files: Files, path: str, draw: random.Random) -> list[str]:
    chosen = draw.sample(range(len(files[path])), 3)
    old = [files[path][n] for n in chosen]
    for n in chosen:
        lines = files[path][n].split("\n")
        row = draw.randrange(1, len(lines) - 3)
        lines[row] += "  # changed"
        files[path][n] = "\n".join(lines)
    return old


def _moved_within(files: Files, path: str, draw: random.Random) -> list[str]:
    old = list(files[path])
    draw.shuffle(files[path])
    return old


def _moved_across(files: Files, path: str, draw: random.Random) -> list[str]:
    taken = [files[path].pop(draw.randrange(len(files[path]))) for _ in range(3)]
    other = draw.choice([p for p in sorted(files) if p != path])
    for function in taken:
        files[other].insert(draw.randint(0, len(files[other])), function)
    return taken


def _renamed(files: Files, path: str, draw: random.Random) -> list[str]:
    functions = files.pop(path)
    if draw.random() < 0.5:
        functions = [_function(draw), *functions]
    files[f"moved/{_name(draw)}.py"] = functions
    return functions


def _duplicated(files: Files, path: str, draw: random.Random) -> list[str]:
    chosen = draw.sample(files[path], 2)
    for function in chosen:
        files[path].insert(draw.randint(0, len(files[path])), function)
    return chosen


def _reindented(files: Files, path: str, draw: random.Random) -> list[str]:
    chosen = draw.sample(range(len(files[path])), 3)
    old = [files[path][n] for n in chosen]
    for n in chosen:
        files[path][n] = files[path][n].replace("    ", "\t")
    return old


_CHANGES: list[Callable[[Files, str, random.Random], list[str]]] = [
    _edited,
    _moved_within,
    _moved_across,
    _renamed,
    _duplicated,
    _reindented,
]


def _commit(folder: Path, files: Files) -> str:
    git(folder, "rm", "-r", "--quiet", "--ignore-unmatch", ".")
    for path, functions in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(functions), encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "next")
    return git(folder, "rev-parse", "HEAD").decode().strip()
