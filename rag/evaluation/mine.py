"""Questions mined from a repository itself, so that retrieval can be measured on it without writing any.

Commits: the title of a commit asks, the files that it changed answer. What is searched is the tree *as it
was before the oldest of these commits*: at HEAD the code, its comments and its change log hold what the
commits brought, often in the title's own words, and a search would find the change rather than the place.
The price is distance: a file that was made or moved since then answers nothing, and its commits fall away.
Lines are not known, only files; and a commit need not have changed every file that its title is about, so
read such figures side by side, not as they stand.

Docstrings: the first sentence of a function's or class's documentation asks, the definition answers. The
sentence is emptied in the copy that is searched. The words are still the author's, nearer to the code than
a newcomer's.
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

MOST_FILES = 5
"""A commit that changed more is about many places."""
LOOKED_BACK = 20
"""Commits that are looked at for each question wanted."""
PER_FILE = 3
"""Docstring questions that one file may give."""

_CHORE = re.compile(
    r"^(bump|release|prepare|version|merge|revert|wip|fixup|squash|typos?|lint|format|reformat|cleanup"
    r"|clean up|changelog|upgrade"
    r"|update (dependenc|deps|changelog|lock|submodule|version|readme|copyright|translation)"
    r"|pin|unpin|\[?pre-commit|\[?bot\]?|v?\d+\.\d+|(build|chore|ci|docs|style|deps)\b.{0,20}[:)])",
    re.I,
)
_KIND = re.compile(r"^(feat|fix|perf|refactor|test|change|feature|bug)\w*(\([^)]*\))?!?:\s*", re.I)
_TICKET = re.compile(r"\s*\(?(\b(fixe[sd]|close[sd]?|refs?|see)\s+)?#\d+\)?[:.,]?\s*", re.I)
_MARKS = re.compile(r"^\s*(/\*[*!]?|\*/|\*(?!/)|///?!?<?|#+|//!)\s?|\*/\s*$")
_TAG = re.compile(r"^\s*([@:\\]\w|\w+:\s*$|-{3,}|={3,}|>>>)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CODE = re.compile(r"[;{}<>=]")
_COMMENT = ("/*", "*", "///", "//", "#", '"""')


@dataclass(frozen=True, slots=True)
class Mined:
    """Records as question files hold them, and the folder that they are about.

    They come from `considered` commits or documented definitions; `commit` is the state of the folder when
    that is of the past.
    """

    records: tuple[dict[str, Any], ...]
    root: Path
    considered: int
    commit: str | None = None


def mine_commits(engine: Engine, folder: Path, count: int) -> Mined:
    """Questions from the titles of the last commits, newest first, at most `count`.

    `engine`: has a home of its own; the tree of the past is laid out there, and lasts as long.

    Raises:
        SettingsError: not one commit gives a question.
        SourceError: there is no history.
    """
    found = list(_telling(commits(folder, limit=LOOKED_BACK * count)))[:count]
    if not found:
        raise SettingsError(
            f"no commit of {folder} gives a question: its history is too short, or its commits change more "
            f"than {MOST_FILES} files each; try --mine docstrings, or write some questions"
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


def _telling(history: Iterable[Commit]) -> Iterator[tuple[Commit, str]]:
    """The commits that say in words what they do to a few files, each with its question."""
    asked = set()
    for commit in history:
        question = question_of(commit.title)
        if not question or question in asked or not commit.edited:
            continue
        if len(commit.edited) + len(commit.added) > MOST_FILES:
            continue
        names = {PurePosixPath(path).name.lower() for path in commit.edited}
        if any(name in question.lower() for name in names):
            continue  # it names what is sought
        asked.add(question)
        yield commit, question


def question_of(title: str) -> str:
    """What a commit's title asks, "" when it asks nothing: chores, titles of under four words."""
    words = _TICKET.sub(" ", title).strip()
    if _CHORE.match(words):
        return ""
    words = _KIND.sub("", words).strip(" .")
    return words if len(_WORD.findall(words)) > 3 else ""


def mine_docstrings(engine: Engine, folder: Path, count: int, *, seed: int = 1) -> Mined:
    """Questions from the documentation of functions and classes, at most `count`, drawn at random.

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
    """A record for each documented definition; a sentence that stands twice asks nothing in particular."""
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
    """The lines of a definition's documentation: their offsets from its first line, and their words."""
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
    """The comment that a definition begins with."""
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
    """The first sentence of documentation; "" when it is no sentence of 5 to 30 words."""
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
