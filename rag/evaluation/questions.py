"""Read questions with the places that answer them from files of JSON lines.

The minimal record is `{"question": "…", "answers": [{"path": "src/a.py"}]}`; with `start_line` and `end_line`
(`start` and `end` in 0.1) the lines are measured as well. tools/questions/README.md describes
the sets that this project uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rag.decoding import text_of
from rag.errors import SettingsError
from rag.evaluation.metrics import LineSpan
from rag.lines import lines_of
from rag.parsing import parse_json
from rag.schema import with_new_names

_MAX_BYTES = 256 << 20
_MAX_LINES = 2_000_000
"""More than an indexed file has."""
FIRST, FOLLOW_UP, PLAIN = "first", "follow-up", "question"


@dataclass(frozen=True, slots=True)
class Question:
    """One question and its answers.

    `repo` is "" when the record names none; a record without `language` gets the extension of its first
    answer's file. `history` holds the earlier questions of the conversation, oldest first; `conversation` is
    shared by the questions of one conversation, and is the question's own id elsewhere. `spans` are the
    answers that have lines. `doc` are lines to empty before the repository is indexed. `members` and `sites`
    are complete: the members of a list, and the call sites of a function, one line each.
    """

    id: str
    repo: str
    language: str
    kind: str
    text: str
    files: frozenset[str]
    spans: tuple[LineSpan, ...]
    history: tuple[str, ...] = ()
    conversation: str = ""
    doc: LineSpan | None = None
    members: tuple[LineSpan, ...] = ()
    sites: tuple[LineSpan, ...] = ()


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object per line.

    Raises:
        SettingsError: the file cannot be read, or a line is not a JSON object.
    """
    try:
        with path.open("rb") as file:  # also a pipe
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES >> 20} MB")
        lines = lines_of(text_of(content))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the questions in {path}: {error}") from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise SettingsError(f"{path}, line {number} is not JSON: {error}; fix the line") from error
        if not isinstance(record, dict):
            raise SettingsError(f"{path}, line {number} is not a JSON object; fix the line")
        records.append(record)
    return records


def read_questions(paths: Sequence[Path], kinds: Collection[str] = ()) -> list[Question]:
    """Return the questions of the files, in their order; only those of `kinds` if there are any.

    The first turn of a conversation is of the kind "first", the later ones are "follow-up", with the sort of
    the conversation if it has one ("follow-up drift"); a record without a kind is a "question". Unanswerable
    records are skipped.

    Raises:
        SettingsError: a file cannot be read, a record lacks a field, two have one id, or no question is left.
    """
    found = [question for path in paths for question in _questions_of(path)]
    ids = [question.id for question in found]
    if len(set(ids)) < len(ids):
        twice = sorted({name for name in ids if ids.count(name) > 1})
        raise SettingsError(
            f"the ids {', '.join(twice[:5])} occur more than once; give each question its own"
        )
    chosen = [question for question in found if not kinds or question.kind in kinds]
    if not chosen:
        there = ", ".join(sorted({question.kind for question in found}))
        raise SettingsError(
            f"nothing to ask: the files hold {there}; choose with --kinds"
            if there
            else 'nothing to ask: no question has "answers", such as [{"path": "src/auth.py"}]'
        )
    return chosen


def _questions_of(path: Path) -> Iterator[Question]:
    for number, record in enumerate(read_records(path), 1):
        try:
            yield from _of_record(record, f"{path.name}:{number}")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SettingsError(
                f"{path}, record {number} is not a question ({type(error).__name__}: {error}); it needs "
                '"question" and "answers" [{"path", "start_line", "end_line"}], or a list "turns"'
            ) from error


def _of_record(record: Mapping[str, Any], place: str) -> Iterator[Question]:
    name = str(record.get("id") or place)
    if "turns" in record:
        turns = record["turns"]
        texts = tuple(str(turn["question"]) for turn in turns)
        for n, turn in enumerate(turns):
            kind = " ".join(filter(None, (FOLLOW_UP, record.get("sort")))) if n else FIRST
            yield _question(record, turn, f"{name}#{n + 1}", kind, history=texts[:n], conversation=name)
    elif record.get("answers"):
        yield _question(record, record, name, str(record.get("kind") or PLAIN), conversation=name)


def _question(
    record: Mapping[str, Any],
    turn: Mapping[str, Any],
    name: str,
    kind: str,
    *,
    conversation: str,
    history: tuple[str, ...] = (),
) -> Question:
    answers = turn["answers"]
    files = [str(answer["path"]) for answer in answers]
    if not files:
        raise ValueError("no answers")
    return Question(
        id=name,
        repo=str(record.get("repo") or ""),
        language=str(record.get("language") or PurePosixPath(files[0]).suffix.removeprefix(".") or "other"),
        kind=kind,
        text=str(turn["question"]),
        files=frozenset(files),
        spans=tuple(_span(answer) for answer in map(with_new_names, answers) if "start_line" in answer),
        history=history,
        conversation=conversation,
        doc=_span(with_new_names(record["doc"])) if record.get("strip") else None,
        members=_lines(turn.get("members", ())),
        sites=_lines(turn.get("sites", ())),
    )


def _lines(places: Iterable[Mapping[str, Any]]) -> tuple[LineSpan, ...]:
    return tuple(LineSpan(str(one["path"]), int(one["line"]), int(one["line"])) for one in places)


def _span(place: Mapping[str, Any]) -> LineSpan:
    first = int(place["start_line"])
    span = LineSpan(str(place["path"]), first, int(place.get("end_line", first)))
    if not 1 <= span.start <= span.end <= _MAX_LINES:
        raise ValueError(f"lines {span.start}-{span.end}")
    return span
