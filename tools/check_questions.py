"""Check question files against the repositories they are about.

    python -m tools.check_questions tools/questions/dev.jsonl \
        --repositories tools/questions/dev_repositories.toml --cache ~/.cache/rag/evaluation

A file holds one JSON object per line, in one of three forms:

    {"id", "repo", "language", "kind", "how", "question", "answers": [place, …]}       a single question
    {"id", "repo", "language", "turns": [{"question", "answers": [place, …]}, …]}      a conversation
    {"id", "repo", "question"}                                                         no answer exists

A place is {"path", "start_line", "end_line", "symbol"}, with `start` and `end` in 0.1: lines count from
1, both ends belong, and the symbol's own name occurs in the first lines of the place. Records of
`tools/questions/kinds` may have places without a symbol: lines of no named definition. There a question of
the kind "list" has "members" and one of the kind "callers" has "sites": the complete set of [{"path", "line",
"name"}]. A conversation has a "sort" ("stay": about the first subject; "drift": on to other files), its turns
a "facet". An unanswerable question has a "kind" (absent, foreign, nonsense, near_miss). A mined docstring
question also has `"strip": true` and `"doc": {"path", "start_line", "end_line"}`, the lines to empty in
a copy before it is indexed (emptied, not deleted: the places keep their numbers); the question's words must
occur there, and the doc must be in a file that answers.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from rag.errors import RagError
from rag.evaluation.questions import read_records
from rag.evaluation.repositories import obtain_all, read_repositories
from rag.lines import lines_of
from rag.schema import with_new_names

Record = Mapping[str, Any]
KINDS = ("newcomer", "first", "docstring", "commit")
NEW_KINDS = frozenset("where how trace setting error list callers tested docs fails exact everyday".split())
"""The kinds of `tools/questions/kinds`; "docs" replaces "tested" where an archive has no tests."""
NONE_KINDS = ("absent", "foreign", "nonsense", "near_miss")
SORTS = ("stay", "drift")
HOW = ("hand", "mined")
MAX_ANSWERS = 4
HEAD_LINES = 15  # a definition's name follows its decorators or annotations


def problems_of(records: Sequence[Record], folders: Mapping[str, Path]) -> list[str]:
    """Return the problems of the records, each line beginning with the record's id; empty if there are none.

    `folders`: repository name → its files, from `obtain_all`.
    """
    checker = _Checker(folders)
    found = [
        f"{record.get('id', '?')}: {problem}" for record in records for problem in checker.problems(record)
    ]
    ids = Counter(str(record.get("id")) for record in records)
    questions = Counter((str(r.get("repo")), str(r.get("question"))) for r in records if "question" in r)
    found += [f"{name}: the id occurs {count} times" for name, count in ids.items() if count > 1]
    found += [f"{repo}: asked {n} times: {question}" for (repo, question), n in questions.items() if n > 1]
    return found


class _Checker:
    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._lines: dict[Path, list[str]] = {}

    def problems(self, record: Record) -> Iterator[str]:
        folder = self._folders.get(str(record.get("repo")))
        if not record.get("id") or folder is None:
            yield f"no id, or the repository {record.get('repo')!r} is not in the TOML file"
            return
        if "turns" in record:
            yield from self._conversation(record, folder)
        elif "answers" in record:
            yield from self._single(record, folder)
        else:
            yield from _question(record)
            if record.get("kind", NONE_KINDS[0]) not in NONE_KINDS:
                yield f"unknown kind: {record['kind']}"

    def _conversation(self, record: Record, folder: Path) -> Iterator[str]:
        turns = record["turns"]
        if not 2 <= len(turns) <= 4:
            yield f"{len(turns)} turns, expected 2 to 4"
        for number, turn in enumerate(turns, 1):
            of_kinds = record.get("sort") in SORTS
            problems = [*_question(turn), *self._answers(turn.get("answers", []), folder, of_kinds)]
            yield from (f"turn {number}: {problem}" for problem in problems)

    def _single(self, record: Record, folder: Path) -> Iterator[str]:
        yield from _question(record)
        kind = record.get("kind")
        if kind not in {*KINDS, *NEW_KINDS} or record.get("how") not in HOW or not record.get("language"):
            yield f"unknown kind, how or language: {[record.get(f) for f in ('kind', 'how', 'language')]}"
        yield from self._answers(record["answers"], folder, kind in NEW_KINDS)
        yield from self._listed(record, folder)
        if record.get("strip"):
            yield from self._doc(record, folder)
        elif record.get("kind") == "docstring":
            yield "a docstring question needs strip and doc"

    def _listed(self, record: Record, folder: Path) -> Iterator[str]:
        """Yield the problems of the members of a list, and of call sites."""
        for field, kind in (("members", "list"), ("sites", "callers")):
            if (kind == record.get("kind")) != bool(record.get(field)):
                yield f"a question of the kind {kind} has {field}, and no other"
            for one in record.get(field, ()):
                problem, _ = self._place({**one, "start_line": one["line"], "end_line": one["line"]}, folder)
                if problem:
                    yield f"{field}: {problem}"

    def _answers(self, answers: Sequence[Record], folder: Path, of_kinds: bool) -> Iterator[str]:
        if not 1 <= len(answers) <= MAX_ANSWERS:
            yield f"{len(answers)} answers, expected 1 to {MAX_ANSWERS}"
        for answer in map(with_new_names, answers):
            problem, lines = self._place(answer, folder)
            name = _last_name(str(answer.get("symbol", "")))
            if problem:
                yield problem
            elif of_kinds and not name:
                continue
            elif not name or not _mentions(lines[:HEAD_LINES], name):
                place = f"{answer['path']}:{answer['start_line']}-{answer['end_line']}"
                yield f"{place} does not define {answer.get('symbol')!r}"

    def _doc(self, record: Record, folder: Path) -> Iterator[str]:
        doc = record.get("doc", {})
        problem, lines = self._place(doc, folder)
        if problem:
            yield f"doc: {problem}"
        elif doc["path"] not in {answer["path"] for answer in record["answers"]}:
            yield f"doc: {doc['path']} is not among the answers"
        elif _words(str(record["question"])) not in _words(" ".join(lines)):
            yield "doc: the question's words do not occur in the doc's lines"

    def _place(self, place: Record, folder: Path) -> tuple[str | None, list[str]]:
        """Return the problem of a place, if any, and its lines."""
        place = with_new_names(place)
        path, start, end = str(place.get("path", "")), place.get("start_line"), place.get("end_line")
        pure = PurePosixPath(path)
        if not path or pure.is_absolute() or ".." in pure.parts or not (folder / pure).is_file():
            return f"no file {path!r}", []
        lines = self._lines_of(folder / pure)
        if not isinstance(start, int) or not isinstance(end, int) or not 1 <= start <= end <= len(lines):
            return f"{path} has {len(lines)} lines, {start}-{end} is not among them", []
        return None, lines[start - 1 : end]

    def _lines_of(self, path: Path) -> list[str]:
        if path not in self._lines:
            self._lines[path] = lines_of(path.read_bytes().decode("utf-8", errors="replace"))
        return self._lines[path]


def _question(record: Record) -> Iterator[str]:
    question = record.get("question")
    if not isinstance(question, str) or question != question.strip() or not question:
        yield f"invalid question: {question!r}"


def _last_name(symbol: str) -> str:
    """`Reader.ReadRecord` → `ReadRecord`; `ThreadPool.<<` → `<<`."""
    return symbol.rsplit(".", 1)[-1].rsplit("::", 1)[-1].strip()


def _mentions(lines: Iterable[str], name: str) -> bool:
    before, after = (r"\b" if name[0].isalnum() else ""), (r"\b" if name[-1].isalnum() else "")
    pattern = re.compile(before + re.escape(name) + after)
    return any(pattern.search(line) for line in lines)


def _words(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", text.lower())) + " "


def summary(records: Sequence[Record]) -> str:
    """Return the number of records by kind and repository, one line each."""
    kinds = Counter(
        "conversation" if "turns" in r else f"{r['kind']}, {r['how']}" if "answers" in r else "unanswerable"
        for r in records
    )
    repositories = Counter(str(r["repo"]) for r in records)
    rows = [*sorted(kinds.items()), *sorted(repositories.items())]
    return "\n".join(f"{count:6} {name}" for name, count in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check files and print their problems; return 0 (none), 1 (some) or 2 (cannot check)."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_questions", description=main.__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--repositories", type=Path, required=True, metavar="TOML")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    failed = False
    try:
        folders = obtain_all(read_repositories(options.repositories), options.cache)
        for path in options.files:
            records = read_records(path)
            problems = problems_of(records, folders)
            failed = failed or bool(problems)
            sys.stdout.write(
                "\n".join([f"{path}: {len(records)} records", summary(records), *problems]) + "\n"
            )
    except RagError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
