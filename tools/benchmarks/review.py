"""Does a review name the tests that the authors of a change adapted?

The pull requests are commits on the main branch of open repositories that change both code and existing
tests. The review sees the change of the code alone, with the tests as they were before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag.cli.terminal import out
from rag.code.languages import kind_of, language_of_path
from rag.code.reference_queries import has_references
from rag.review.impact import HOLDS_TESTS
from rag.service import Engine, locate
from rag.service.checks.review import ReviewRange, review
from rag.settings import Settings
from tools.benchmarks.bench import Bench, NotMeasured, show
from tools.benchmarks.blame import git

PULLS: dict[str, tuple[str, ...]] = {
    "google+gson": ("9835b6f90192", "7e98ebd3e53d", "7b8ce2b9f7fa", "5253ddbde0a3"),
    "pydantic+pydantic": ("41b1a85dd74a", "be3e4d174d2a", "4c6b4592433f", "3f59a03ea321"),
    "psf+black": ("74371e2041a3", "fe875c0ed341", "71e380aedf9e", "551ede2825e4"),
    "gin-gonic+gin": ("d9307dbcbbe7", "e4c2a2762448", "a18219566ca2", "e61cc06955d4"),
    "eslint+eslint": ("08de88e50294", "96cdd427db5f", "84a19d2c3225", "53e95222af85"),
}
"""The measured pull requests: commits by repository (`owner+name`)."""
DEVELOPED_ON: dict[str, tuple[str, ...]] = {
    "scrapy+scrapy": ("d24e5ae80729", "ad816d2b3a00", "8d69a7c8659f", "10850e7d2933"),
    "clap-rs+clap": ("668920098818", "dd7cafe67b87", "d161519beef1", "50f7646cf72d"),
    "pypa+pip": ("6711010166f9", "0ba8421c104f", "7e49dca9277b", "567242115a8b"),
    "Textualize+rich": ("7338cb9dafd0", "610fd75c433c", "eaba86262174", "9f43cccfce3b"),
    "spf13+cobra": ("ad460ea8f249", "2169adb57493", "40d34bca1bff", "2662787697b4"),
    "typeorm+typeorm": ("281bfba42a58", "cfba9e77cc09", "960a59f259d9", "c16ef63db794"),
    "python-poetry+poetry": ("cf54a1c04676", "93baede18dc1", "5dc292b96de9", "b59d9abfc61b"),
}
"""Those that the rules were developed on; two repositories were moved here after a first measurement."""
_PER_REPOSITORY = 4
_MAX_SOURCES = 15
_RECENT = 600


@dataclass(frozen=True)
class Pull:
    """A pull request and what the review says: `named` are the test files, best first."""

    repository: str
    commit: str
    changed: frozenset[str]
    named: tuple[str, ...]
    certain: int
    tests: int
    seconds: float

    @property
    def found(self) -> int:
        return len(self.changed & set(self.named))


def review_tests(bench: Bench) -> None:
    """Which tests a review names, beside those that the authors of 20 pull requests changed."""
    title = os.environ.get("REVIEW", "measured")
    pulls = DEVELOPED_ON if title == "developed" else PULLS
    _show(title, [pull for name, commits in pulls.items() for pull in measure(name, commits)])


def measure(name: str, commits: Sequence[str]) -> list[Pull]:
    """Review some pull requests of a repository in HISTORIES."""
    named = os.environ.get("HISTORIES")
    if not named or not (folder := Path(named) / name).exists():
        raise NotMeasured(f"set HISTORIES to a folder with a git repository {name}")
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        git(Path(scratch), "clone", "--quiet", "--bare", "--shared", "--", str(folder), str(clone))
        engine = Engine(replace(Settings(), home=Path(scratch) / "home", memory="memory:"))
        for commit in commits:
            changed = adapted(clone, commit)
            base, head = f"{commit}^", without_tests(clone, commit)
            began = time.perf_counter()
            result = review(engine, locate(str(clone)), ReviewRange(base, head))
            seconds = time.perf_counter() - began
            tests = sum(_is_test(path) for path in _files(clone, base))
            names = tuple(test.path for test in result.tests)
            certain = sum(test.certain for test in result.tests)
            found.append(Pull(name, commit, changed, names, certain, tests, seconds))
        engine.close()
    return found


def changes(clone: Path, commit: str) -> list[tuple[str, str]]:
    """The files that a commit changes, with A, M or D."""
    listing = git(clone, "diff", "--name-status", "--no-renames", "-z", f"{commit}^", commit).decode()
    fields = listing.split("\0")[:-1]
    return list(zip(fields[1::2], fields[::2], strict=True))


def _is_test(path: str) -> bool:
    language = language_of_path(path)
    return language is not None and has_references(language) and kind_of(path, language) == "test"


def _in_tests(path: str) -> bool:
    return kind_of(path, language_of_path(path) or "text") == "test"


def adapted(clone: Path, commit: str) -> frozenset[str]:
    """The files with tests that a commit changes and that were there before: a new one cannot be named."""
    there = [path for path, status in changes(clone, commit) if status == "M" and _is_test(path)]
    texts = {path: git(clone, "show", f"{commit}^:{path}").decode("utf-8", "replace") for path in there}
    return frozenset(path for path, text in texts.items() if HOLDS_TESTS.search(text))


def _files(clone: Path, commit: str) -> list[str]:
    return git(clone, "ls-tree", "-r", "--name-only", "-z", commit).decode().split("\0")


def without_tests(clone: Path, commit: str) -> str:
    """The commit with the tests of its parent."""
    environment = os.environ | {"GIT_INDEX_FILE": str(clone / "review-index")}

    def run(*arguments: str, stdin: str = "") -> str:
        command = ["git", f"--git-dir={clone}", f"--work-tree={clone}", *arguments]
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("read-tree", commit)
    for path, status in changes(clone, commit):
        if not _in_tests(path):
            continue
        if status == "A":
            run("update-index", "--force-remove", "--", path)
        else:
            mode, _, rest = run("ls-tree", f"{commit}^", "--", path).partition(" ")
            run("update-index", "--add", "--cacheinfo", f"{mode},{rest.split()[1]},{path}")
    tree = run("write-tree")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    return run(*identity, "commit-tree", tree, "-p", f"{commit}^", "-m", "without tests")


def choose(folder: Path) -> list[str]:
    """Commits of a history by a rule that does not look at the review: spread over the last ones of the main
    branch that change at most 15 files of code, at least one of them in functions, and adapt a test.
    """
    log = ["rev-list", "--first-parent", f"--max-count={_RECENT}", "HEAD"]
    commits = git(folder, *log).decode().split()[:-1]
    fitting = []
    for commit in commits:
        changed = changes(folder, commit)
        sources = [
            path for path, _ in changed
            if has_references(language := language_of_path(path) or "") and kind_of(path, language) == "code"
        ]  # fmt: skip
        if adapted(folder, commit) and 1 <= len(sources) <= _MAX_SOURCES:
            fitting.append(commit)
    step = max(len(fitting) // _PER_REPOSITORY, 1)
    return fitting[::step][:_PER_REPOSITORY]


def _show(title: str, pulls: Sequence[Pull]) -> None:
    rows = []
    for name in (*dict.fromkeys(pull.repository for pull in pulls), "all"):
        some = [pull for pull in pulls if name in (pull.repository, "all")]
        rows.append(
            [
                name,
                str(len(some)),
                f"{sum(pull.found == len(pull.changed) for pull in some) / len(some):.2f}",
                f"{statistics.mean(pull.found / len(pull.changed) for pull in some):.2f}",
                f"{statistics.median(len(pull.named) for pull in some):g}",
                f"{statistics.median(pull.certain for pull in some):g}",
                f"{statistics.median(pull.tests for pull in some):g}",
                f"{statistics.median(pull.seconds for pull in some):.1f}",
            ]
        )
    heads = ["repository", "pulls", "all named", "share named", "named", "certain", "test files", "seconds"]
    show(f"tests named by a review: {title}", heads, rows)
    for pull in pulls:
        if missed := sorted(pull.changed - set(pull.named)):
            out(f"{pull.repository} {pull.commit[:10]}: not named {', '.join(missed)}")
