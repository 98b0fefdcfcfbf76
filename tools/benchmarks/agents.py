"""What an agent finds for a task, and what it costs: tokens, calls and the share of the places of the task.

`tools/questions/agent_tasks.jsonl` has a task on each line with all places that answer it, found by reading.
A place is found when a line of it is shown. The systems follow fixed scripts: `explore` once; our ranked
search and `who_calls`; `grep` and reading of 40 lines around the first matches of each file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rag.analysis import is_stop_word
from rag.errors import SourceError
from rag.retrieval.lookup import lines_with
from rag.service import Engine, Repository, locate
from rag.service.tools.explore import explore, parts_of
from rag.service.tools.search import SearchQuery, search_repositories
from rag.settings import load_settings
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, show
from tools.benchmarks.repositories import obtain_all, read_repositories

_GREP_LINES, _READ_FILES, _READ_LINES = 20, 4, 40
_NAME = re.compile(r"[A-Za-z_]\w*")
_LIKE_CODE = re.compile(r"\w_\w|[a-z][A-Z]|[A-Z]{2}_|[A-Z]\w*[a-z]\w*[A-Z]")


@dataclass(frozen=True)
class Task:
    """A question about a repository with the places that answer it, as (path, first line, last line)."""

    id: str
    part: str
    repository: str
    question: str
    places: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Reply:
    """What a system returned: the text of all calls, their number, and the (path, line) pairs shown."""

    text: str
    calls: int
    lines: frozenset[tuple[str, int]]


def read_tasks() -> list[Task]:
    """Return the tasks of the file, in its order."""
    found = []
    for row in (QUESTIONS / "agent_tasks.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(row)
        places = []
        for place in one.pop("places"):
            path, _, numbers = place.rpartition(":")
            first, _, last = numbers.partition("-")
            places.append((path, int(first), int(last or first)))
        found.append(Task(places=tuple(places), **one))
    return found


def agents(bench: Bench) -> None:
    """Tokens, calls and places for tasks of agents: explore, our other tools, grep and reading."""
    tasks = read_tasks()
    systems = {"explore": _explore, "search_code, who_calls": _tools, "grep, reading": _grep}
    rows: dict[tuple[str, str], list[int]] = {}
    each: list[list[object]] = []
    try:
        folders = obtain_all(read_repositories(QUESTIONS / "agent_repositories.toml"), bench.cache)
    except SourceError as error:
        raise NotMeasured(str(error)) from error
    for name in dict.fromkeys(task.repository for task in tasks):
        folder = folders[name]
        with closing(Engine(load_settings())) as engine:
            repository = engine.repository(locate(str(folder)))
            for task in (task for task in tasks if task.repository == name):
                shown: list[object] = []
                for system, run in systems.items():
                    reply = run(engine, repository, folder, task)
                    found = sum(_is_found(place, reply) for place in task.places)
                    tokens = engine.counter.count(reply.text)
                    total = rows.setdefault((task.part, system), [0, 0, 0, 0])
                    for at, value in enumerate((tokens, reply.calls, found, len(task.places))):
                        total[at] += value
                    shown += [tokens, f"{found}/{len(task.places)}"]
                each.append([task.id, *shown])
    columns = ["task", *(f"{name} {what}" for name in systems for what in ("tokens", "places"))]
    show("Tasks of agents", columns, each)
    table = [[*key, tokens, calls, f"{found} of {of}"] for key, (tokens, calls, found, of) in rows.items()]
    show("Tasks of agents, in all", ["part", "system", "tokens", "calls", "places"], table)


def _is_found(place: tuple[str, int, int], reply: Reply) -> bool:
    path, first, last = place
    return any((path, line) in reply.lines for line in range(first, last + 1))


System = Callable[[Engine, Repository, Path, Task], Reply]


def _explore(engine: Engine, repository: Repository, root: Path, task: Task) -> Reply:
    found = explore(repository, task.question, counter=engine.counter)
    lines = {(place.path, number) for place in found.places for number, _ in place.lines}
    lines |= {line for place in found.places for line in place.named}
    return Reply(found.text, 1, frozenset(lines))


def _tools(engine: Engine, repository: Repository, root: Path, task: Task) -> Reply:
    """Search for each part of the question, and list the uses of the identifiers it names."""
    texts, lines, calls = [], set(), 0
    for part in parts_of(task.question):
        calls += 1
        for hit in search_repositories([repository], SearchQuery(part, k=5)).hits:
            texts.append(f"{hit.place}  {hit.label}\n{hit.text}")
            lines |= {(hit.path, line) for line in range(hit.start, hit.end + 1)}
    for name in _names(task.question):
        calls += 1
        for use in lines_with(repository.store, name)[:50]:
            texts.append(f"- {use.hit.path}:{', '.join(map(str, use.lines[:10]))} in {use.hit.label}")
            lines |= {(use.hit.path, line) for line in use.lines[:10]}
    return Reply("\n".join(texts), calls, frozenset(lines))


def _grep(engine: Engine, repository: Repository, root: Path, task: Task) -> Reply:
    """Search each identifier, or without one each long word, then read around the first match of files."""
    words = _names(task.question) or [
        word for word in _NAME.findall(task.question) if len(word) > 4 and not is_stop_word(word)
    ]
    texts, lines, calls = [], set[tuple[str, int]](), 0
    first: dict[str, int] = {}
    for word in words[:6]:
        calls += 1
        for path, number, line in _matching(repository, word, _GREP_LINES):
            texts.append(f"{path}:{number}:{line[:200]}")
            lines.add((path, number))
            first.setdefault(path, number)
    for path, number in [*first.items()][:_READ_FILES]:
        calls += 1
        read = (repository.store.file_text(path) or ("", ""))[0].splitlines()
        begin = max(1, number - _READ_LINES // 4)
        for at in range(begin, min(begin + _READ_LINES, len(read) + 1)):
            texts.append(f"{at}\t{read[at - 1]}")
            lines.add((path, at))
    return Reply("\n".join(texts), calls, frozenset(lines))


def _names(question: str) -> list[str]:
    return [word for word in dict.fromkeys(_NAME.findall(question)) if _LIKE_CODE.search(word)]


def _matching(repository: Repository, word: str, limit: int) -> Iterator[tuple[str, int, str]]:
    """Yield the first lines of code that hold a word, as `grep -rn` without tests and documents would."""
    files = sorted(repository.store.known_files())
    code = [
        path for path in files if not re.search(r"(?:^|/)(?:tests?|docs?)/|_test\.|\.(?:md|rst|txt)$", path)
    ]
    for path in code:
        text = repository.store.file_text(path)
        for number, line in enumerate(text[0].splitlines() if text else (), 1):
            if word in line:
                yield path, number, line
                limit -= 1
                if not limit:
                    return
