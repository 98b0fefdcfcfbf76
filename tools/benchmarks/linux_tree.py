"""Linux 6.1 to measure growth with: trees of whole folders, questions about them, a change of a quarter.

The trees are nested: each has the folders of the one before and more. Questions are drawn at random from what
a tree says of itself, and none is chosen by its result.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.benchmarks.repositories import EvaluationRepository

LINUX = EvaluationRepository(
    name="linux",
    language="c",
    source="debian",
    package="linux",
    version="6.1.176",
    archive="linux_6.1.176.orig.tar.xz",
    sha256="9aad4025973feea3f0d978e82ab7db97d8d5ce3f59fcc6b1f316153d66e3a504",
    licence="GPL-2.0-only WITH Linux-syscall-note",
)
_STEPS = {
    5_000: ("block", "init", "io_uring", "ipc"),
    25_000: ("kernel",),
    100_000: ("fs", "mm"),
    300_000: ("drivers/net", "lib", "crypto", "security"),
    1_000_000: ("arch", "drivers", "include", "net", "rust", "sound", "virt"),
}
"""The folders that a tree of about so many chunks has more than the one before."""
LEFT_OUT = "drivers/gpu"
SIZES = tuple(_STEPS)
_CHANGED = 4
"""One file in so many is changed."""
_DESCRIBED = re.compile(r"^/\*\*\n \* (\w+)\(\) - ([A-Za-z][^\n]{19,119})$", re.M)
_PROMPTED = re.compile(r'^config (\w+)\n\s+(?:bool|tristate) "([^"\n]{12,80})"', re.M)
_BUILT = re.compile(r"^obj-\$\(CONFIG_(\w+)\)\s*\+=\s*([\w-]+)\.o$", re.M)
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")


@dataclass(frozen=True)
class Asked:
    """A question, its form, and the file that answers it; "" where that is not one file."""

    text: str
    form: str
    path: str = ""


def plant(linux: Path, root: Path, size: int) -> None:
    """Make the tree of about `size` chunks at `root`, a git work tree with one commit."""
    for folder in (name for step, names in _STEPS.items() if step <= size for name in names):
        for path in _files(linux / folder):
            relative = path.relative_to(linux)
            target = root / relative
            if not relative.is_relative_to(LEFT_OUT) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(path, target)
    git(root, "init", "--quiet")
    commit(root)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # another file system
        target.write_bytes(path.read_bytes())


def git(root: Path, *arguments: str) -> None:
    """Run git in a work tree."""
    subprocess.run([*_GIT, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    """Commit everything."""
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "a state")


def _files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink() and ".git" not in p.parts)


def change(root: Path) -> int:
    """Change one file in four and commit that; return how many.

    A line of each is removed and a new one is added, so its text and its chunks are others.
    """
    chosen = _files(root)[::_CHANGED]
    for number, path in enumerate(chosen):
        lines = path.read_bytes().splitlines(keepends=True)
        del lines[len(lines) // 2 : len(lines) // 2 + 1]
        lines.append(b"/* changed: revision %d */\n" % number)
        path.unlink()  # it may be a link to the unpacked archive
        path.write_bytes(b"".join(lines))
    commit(root)
    return len(chosen)


def questions(root: Path, count: int) -> list[Asked]:
    """Draw questions about the tree, as many of each form as there are, up to a quarter of `count`.

    A description of a function, asked as it is; where a feature is implemented that Kconfig has a prompt for;
    the default of such an option; who calls a function.
    """
    forms = [sorted(set(found), key=lambda asked: asked.text) for found in _mined(root)]
    draw = random.Random(0)
    return [asked for form in forms for asked in draw.sample(form, min(count // len(forms), len(form)))]


def _mined(root: Path) -> Iterator[list[Asked]]:
    described, prompted = [], []
    built = {}
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".c":
            text = path.read_text(encoding="utf-8", errors="replace")
            described += [(function, what, name) for function, what in _DESCRIBED.findall(text)]
        elif path.name.startswith("Kconfig"):
            text = path.read_text(encoding="utf-8", errors="replace")
            prompted += [(option, prompt, name) for option, prompt in _PROMPTED.findall(text)]
        elif path.name == "Makefile":
            for option, stem in _BUILT.findall(path.read_text(encoding="utf-8", errors="replace")):
                if path.with_name(f"{stem}.c").is_file():
                    built[option] = path.with_name(f"{stem}.c").relative_to(root).as_posix()
    yield [Asked(what, "description", name) for _, what, name in described]
    yield [
        Asked(f"Where is {prompt} implemented?", "where", built[option])
        for option, prompt, _ in prompted
        if option in built
    ]
    yield [Asked(f"What is the default of {option}?", "default", name) for option, _, name in prompted]
    yield [Asked(f"Who calls {function}?", "callers") for function, _, _ in described]
