"""Mine questions from a repository itself, to measure retrieval on it without writing any.

Commits: the title of a commit is the question, the files that it changed are the answer. The searched tree is
that *before the oldest of these commits*: at HEAD the code, its comments and its change log contain the
changes, often in the title's own words, and a search would find the change rather than the place. The price
is distance: files that were added or moved since then are not answers, and their commits are dropped. Only
files are known, not lines; and a commit need not have changed every file that its title is about, so use such
figures for comparison, not as absolute values.

Docstrings: the first sentence of a function's or class's documentation is the question, the definition the
answer. The sentence is emptied in the searched copy. The words are still the author's, nearer to the code
than a newcomer's.
"""

from __future__ import annotations

import ast
import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rag.errors import SettingsError
from rag.evaluation.runner import is_documentation
from rag.ports import ChunkIndex
from rag.service import Engine, locate
from rag.service.commit_history import Commit, commits
from rag.types import Hit

MAX_FILES = 5
"""A commit that changed more files is about many places."""
COMMITS_PER_QUESTION = 20
"""Commits that are examined per requested question."""
PER_FILE = 3
"""The largest number of docstring questions from one file."""

_CHORE = re.compile(
    r"^(bump|release|prepare|version|merge|revert|wip|fixup|squash|typos?|lint|format|reformat|cleanup"
    r"|clean up|changelog|upgrade"
    r"|update (dependenc|deps|changelog|lock|submodule|version|readme|copyright|translation)"
    r"|pin|unpin|\[?pre-commit|\[?bot\]?|v?\d+\.\d+|(build|chore|ci|docs|style|deps)\b.{0,20}[:)])",
    re.I,
)
_KIND = re.compile(r"^(feat|fix|perf|refactor|test|change|feature|bug)\w*(\([^)]*\))?!?:\s*", re.I)
_TICKET = re.compile(r"(?<!\s)\s*\(?(\b(fixe[sd]|close[sd]?|refs?|see)\s+)?#\d+\)?[:.,]?\s*", re.I)
_MARKS = re.compile(r"^\s*(/\*[*!]?|\*/|\*(?!/)|///?!?<?|#+|//!)\s?|\*/\s*$")
_TAG = re.compile(r"^\s*([@:\\]\w|\w+:\s*$|-{3,}|={3,}|>>>)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CODE = re.compile(r"[;{}<>=]")
_COMMENT = ("/*", "*", "///", "//", "#", '"""')


@dataclass(frozen=True, slots=True)
class Mined:
    """Records as in question files, and the folder that they are about.

    They come from `considered` commits or documented definitions; `commit` is the state of the folder if it
    is a past one.
    """

    records: tuple[dict[str, Any], ...]
    root: Path
    considered: int
    commit: str | None = None


def mine_commits(engine: Engine, folder: Path, count: int) -> Mined:
    """Return questions from the titles of the last commits, newest first, at most `count`.

    `engine` has its own home: the past tree is stored there, and deleted with it.

    Raises:
        SettingsError: no commit gives a question.
        SourceError: there is no history.
    """
    found = list(_usable(commits(folder, limit=COMMITS_PER_QUESTION * count)))[:count]
    if not found:
        raise SettingsError(
            f"no commit of {folder} gives a question: its history is too short, or its commits change more "
            f"than {MAX_FILES} files each; try --mine docstrings, or write some questions"
        )
    base = found[-1][0].parent
    repository = engine.repository(locate(str(folder), base))
    there = repository.store.known_files()
    records = []
    for commit, question in found:
        files = [path for path in commit.edited if path in there and not is_documentation(path)]
        if files:
            records.append(
                _record(commit.id[:12], "commit", files[0], question, [{"path": p} for p in files])
            )
    if not records:
        raise SettingsError(f"none of the files that {len(found)} commits changed was there before the first")
    return Mined(tuple(records), repository.checkout.root, len(found), base)


def _usable(history: Iterable[Commit]) -> Iterator[tuple[Commit, str]]:
    """Yield the commits with a meaningful title and few changed files, each with its question."""
    asked = set()
    for commit in history:
        question = question_of(commit.title)
        if not question or question in asked or not commit.edited:
            continue
        if len(commit.edited) + len(commit.added) > MAX_FILES:
            continue
        names = {PurePosixPath(path).name.lower() for path in commit.edited}
        if any(name in question.lower() for name in names):
            continue  # it names the answer
        asked.add(question)
        yield commit, question


def question_of(title: str) -> str:
    """Return the question of a commit's title, "" for chores and titles of under four words."""
    words = _TICKET.sub(" ", title).strip()
    if _CHORE.match(words):
        return ""
    words = _KIND.sub("", words).strip(" .")
    return words if len(_WORD.findall(words)) > 3 else ""


def mine_docstrings(engine: Engine, folder: Path, count: int, *, seed: int = 1) -> Mined:
    """Return questions from the documentation of functions and classes, at most `count`, drawn at random.

    Raises:
        SettingsError: nothing is documented in a sentence.
        SourceError: the folder cannot be read.
    """
    repository = engine.repository(locate(str(folder)))
    found = list(_documented(repository.store))
    random.Random(seed).shuffle(found)
    taken: Counter[str] = Counter()
    records: list[dict[str, Any]] = []
    for record in found:
        taken[record["doc"]["path"]] += 1
        if taken[record["doc"]["path"]] <= PER_FILE and len(records) < count:
            records.append(record)
    if not records:
        raise SettingsError(
            f"nothing in {folder} is documented in a sentence; try --mine commits, or write some questions"
        )
    return Mined(tuple(records), folder, len(found))


def _documented(index: ChunkIndex) -> Iterator[dict[str, Any]]:
    """Yield a record for each documented definition; sentences that occur twice are too general."""
    found: dict[str, list[dict[str, Any]]] = {}
    for chunk in range(len(index)):
        hit = index.hit(chunk, 0.0, {})
        if hit.kind != "code" or hit.unit not in ("function", "class") or not hit.symbol:
            continue
        lines = doc_lines(hit)
        question = first_sentence(lines)
        if question:
            first, last = hit.start + lines[0][0], hit.start + lines[-1][0]
            answer = {"path": hit.path, "start_line": hit.start, "end_line": hit.end, "symbol": hit.symbol}
            record = _record(f"{hit.place}:{hit.symbol}", "docstring", hit.path, question, [answer])
            record |= {"strip": True, "doc": {"path": hit.path, "start_line": first, "end_line": last}}
            found.setdefault(question.lower(), []).append(record)
    yield from (records[0] for records in found.values() if len(records) == 1)


def doc_lines(hit: Hit) -> list[tuple[int, str]]:
    """Return the lines of a definition's documentation: offsets from its first line, and their words."""
    lines = hit.text.split("\n")
    if hit.language == "python":
        return _python_doc(hit.text, lines)
    return _comment(lines)


def _python_doc(text: str, lines: Sequence[str]) -> list[tuple[int, str]]:
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a head without its body, deep nesting
        return []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(node) is None:
                return []
            doc = node.body[0]
            rows = range(doc.lineno - 1, doc.end_lineno or doc.lineno)
            return [
                (row, re.sub(r'^\s*[rRuU]?("""|\'\'\'|"|\')|("""|\'\'\'|"|\')\s*$', "", lines[row]))
                for row in rows
            ]
    return []


def _comment(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the comment that a definition begins with."""
    found = []
    for row, line in enumerate(lines):
        text = line.strip()
        if text and not text.startswith(_COMMENT):
            break
        if text.startswith("#["):
            break  # an attribute of Rust
        if text:
            found.append((row, _MARKS.sub("", _MARKS.sub("", line))))
    return found


def first_sentence(lines: Sequence[tuple[int, str]]) -> str:
    """Return the first sentence of documentation; "" unless it has 5 to 30 words."""
    taken: list[str] = []
    for _, line in lines:
        text = line.strip()
        if _TAG.match(text) or (not text and taken):
            break
        if text:
            taken.append(text)
    sentence = _SENTENCE.split(" ".join(taken))[0].strip().rstrip(".:")
    words = len(_WORD.findall(sentence))
    return sentence if 5 <= words <= 30 and len(_CODE.findall(sentence)) < 2 else ""


def _record(
    name: str, kind: str, path: str, question: str, answers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    language = PurePosixPath(path).suffix.removeprefix(".") or "other"
    return {
        "id": name,
        "repo": "",
        "language": language,
        "kind": kind,
        "how": "mined",
        "question": question,
        "answers": [*answers],
    }
