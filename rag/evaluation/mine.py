"""Mine questions from a repository itself, to measure retrieval on it without writing any.

The first sentence of a function's or class's documentation is the question, the definition the answer. The
sentence is emptied in the searched copy. The words are still the author's, nearer to the code than a
newcomer's.
"""

from __future__ import annotations

import ast
import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rag.errors import SettingsError
from rag.ports import ChunkIndex
from rag.service import Engine, locate
from rag.types import Hit

PER_FILE = 3
"""The largest number of docstring questions from one file."""

_MARKS = re.compile(r"^\s*(/\*[*!]?|\*/|\*(?!/)|///?!?<?|#+|//!)\s?|\*/\s*$")
_TAG = re.compile(r"^\s*([@:\\]\w|\w+:\s*$|-{3,}|={3,}|>>>)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CODE = re.compile(r"[;{}<>=]")
_COMMENT = ("/*", "*", "///", "//", "#", '"""')


@dataclass(frozen=True, slots=True)
class Mined:
    """Records as in question files, of `considered` documented definitions."""

    records: tuple[dict[str, Any], ...]
    considered: int


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
        raise SettingsError(f"nothing in {folder} is documented in a sentence; write some questions")
    return Mined(tuple(records), len(found))


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
