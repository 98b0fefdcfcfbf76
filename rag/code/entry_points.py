"""The entry points of a repository, as its files declare them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rag.code.roles import is_carried, is_tool, role_of
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.parsing import parse_json, parse_toml

MANIFESTS = frozenset(
    "pyproject.toml setup.py setup.cfg package.json go.mod Cargo.toml pom.xml build.gradle build.gradle.kts "
    "composer.json Gemfile CMakeLists.txt Makefile Dockerfile".split()
)

PLAYBOOK, CONTAINER, ENTRY = "playbook", "container command", "entry of the package"
KINDS = (
    "console script",
    "command of the package",
    "main function",
    PLAYBOOK,
    CONTAINER,
    ENTRY,
    "run as a script",
    "script",
)
"""The kinds of entry points, the most useful for a reader first."""
_PROGRAMS = frozenset(("main function", "run as a script", "script"))
_MIN_SHARE = 0.02
"""The least share of the code of the largest program that a program leads to."""
_SETUP_SCRIPT = re.compile(
    r"(?:^|/)(?:(?:un)?install|setup|configure|autogen|bootstrap|gradlew|mvnw|(?:build|compile|release|deploy|lint|format|test|check)s?"
    r"|[\w-]*check)(?:[._-][\w.-]*)?$|(?:^|/)lib/|\.bash$|^(?:docker|docs?)/",
    re.IGNORECASE,
)
"""Scripts that build, install or check, and shell libraries."""
_STARTING = re.compile(r"entrypoint|start|run|serve|launch", re.IGNORECASE)
_MAIN_GUARD = re.compile(r"if __name__ == ['\"]__main__['\"]\s*:")
_PLAY = re.compile(r"(?:- )?(?:hosts|(?:ansible\.builtin\.)?import_playbook):\s")
_DOCKER = re.compile(r"(?:ENTRYPOINT|CMD)\s")
_CONSOLE_SCRIPT = re.compile(r"(?:^|['\"])\s*([\w.-]+)\s*=\s*([\w.]+:[\w.]+)")
_MAX_MANIFEST_LINE_CHARS = 1_000
_GO_MAIN = re.compile(r"^package main\b", re.MULTILINE)
_JAVA_MAIN = re.compile(r"\bstatic\b.*\bvoid\s+main\s*\(")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point: its name, its kind, where it is declared, and its target."""

    name: str
    what: str
    path: str
    start: int
    end: int
    leads_to: str = ""


def entry_points(survey: Survey) -> list[EntryPoint]:
    """Return console scripts, `bin`s, main functions and guards, container commands and scripts.

    Vendored code and examples have none, and neither has a main function that is compiled for tests only.
    Scripts for development are left out, but in a project of scripts without any other, and so are programs
    that lead to little of the code, such as generators. Installed commands come first; within a kind those
    that lead to most of the code, then those nearest to the top.
    """
    found: list[EntryPoint] = []
    for path, file in survey.files.items():
        if file.kind in ("test", "doc") or is_carried(path):
            continue
        name = path.rpartition("/")[2]
        if name == "pyproject.toml":
            found += _pyproject(file)
        elif name in ("setup.py", "setup.cfg"):
            found += _console_scripts(file)
        elif name == "package.json":
            found += _package_json(file)
        elif file.language == "docker":
            found += _lines(file, _DOCKER, CONTAINER)
        elif file.language == "yaml" and "/" not in path:
            found += list(_lines(file, _PLAY, PLAYBOOK, name=path))[:1]
        elif file.language == "python":
            found += _lines(file, _MAIN_GUARD, "run as a script", name=path)
        elif file.text.startswith("#!") and not file.text.startswith("#!["):  # an attribute of Rust
            found.append(EntryPoint(path, "script", path, 1, 1))
        found += _mains(survey, file)
    found = list({(one.name, one.what, one.leads_to or one.path): one for one in reversed(found)}.values())[
        ::-1
    ]
    lines: Counter[str] = Counter()
    for file in survey.of_kind("code"):
        lines["scripts" if file.language == "bash" else role_of(file)] += len(file.lines)
    users = [one for one in found if not _is_development(one)]
    if lines["own"] > lines["scripts"]:
        found = users = [one for one in users if not _is_helper(one)]
    found = users or [one for one in found if not one.path.startswith(".")]
    sizes = {one.path: _lines_led_to(survey, one.path) for one in found if one.what in _PROGRAMS}
    least = _MIN_SHARE * max(sizes.values(), default=0)
    return sorted(
        (one for one in found if sizes.get(one.path, least) >= least),
        key=lambda one: (
            KINDS.index(one.what),
            -sizes.get(one.path, 0),
            not one.path.startswith("bin/"),
            one.path.count("/"),
            one.path,
            one.start,
        ),
    )


def _lines_led_to(survey: Survey, path: str) -> int:
    """Return the lines of the code that a file imports, directly or through others, or that is below its
    folder: what is more.
    """
    seen, pending = {path}, [path]
    while pending:
        following = survey.imported.get(pending.pop(), frozenset()) - seen
        seen |= following
        pending += following
    below = path[: path.rfind("/") + 1]
    code = survey.of_kind("code")
    led_to = sum(len(file.lines) for file in code if file.path in seen)
    return max(led_to, sum(len(file.lines) for file in code if file.path.startswith(below)))


def _is_helper(point: EntryPoint) -> bool:
    """Return whether a script helps those who develop a project in another language."""
    name = point.path.rpartition("/")[2]
    return point.what == "script" and name.endswith((".sh", ".bash")) and not _STARTING.search(name)


def _is_development(point: EntryPoint) -> bool:
    """Return whether an entry point is for those who develop the project."""
    if point.path.startswith((".", "ci/", "xtask/")) or point.path.rpartition("/")[2] == "build.rs":
        return True
    return is_tool(point.path) or (point.what == "script" and bool(_SETUP_SCRIPT.search(point.path)))


def _pyproject(file: File) -> Iterator[EntryPoint]:
    try:
        read: dict[str, Any] = parse_toml(file.text)
    except ValueError:
        return  # for example a template: it declares nothing
    project = read.get("project")
    tables = [project.get("scripts"), project.get("gui-scripts")] if isinstance(project, dict) else []
    tool = read.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    tables.append(poetry.get("scripts") if isinstance(poetry, dict) else None)
    for table in tables:
        for name, target in table.items() if isinstance(table, dict) else ():
            yield _declared(file, name, "console script", target if isinstance(target, str) else "")


def _package_json(file: File) -> Iterator[EntryPoint]:
    try:
        read = parse_json(file.text)
    except ValueError:
        return
    if not isinstance(read, dict):
        return
    listed = read.get("bin")
    for name, target in listed.items() if isinstance(listed, dict) else [(read.get("name"), listed)]:
        if isinstance(name, str) and isinstance(target, str):
            yield _declared(file, name, "command of the package", target, quoted=target)
    if isinstance(read.get("main"), str):
        yield _declared(file, "main", ENTRY, read["main"])


def _declared(file: File, name: str, what: str, target: str, *, quoted: str = "") -> EntryPoint:
    wanted = (name, quoted or target)
    line = next((n for n, text in enumerate(file.lines, 1) if all(part in text for part in wanted)), 0)
    line = line or next((n for n, text in enumerate(file.lines, 1) if wanted[1] in text), 1)
    return EntryPoint(name, what, file.path, line, line, target)


def _console_scripts(file: File) -> Iterator[EntryPoint]:
    inside = False
    for number, line in enumerate(file.lines, start=1):
        _, begins, rest = line[:_MAX_MANIFEST_LINE_CHARS].partition("console_scripts")
        listed = list(_CONSOLE_SCRIPT.finditer(rest if begins else line[:_MAX_MANIFEST_LINE_CHARS]))
        inside = inside or bool(begins)
        if inside and listed:
            for match in listed:
                yield EntryPoint(match[1], "console script", file.path, number, number, match[2])
        elif inside and not begins and line.strip() and not line.startswith((" ", "\t")):
            inside = False


def _lines(file: File, pattern: re.Pattern[str], what: str, name: str = "") -> Iterator[EntryPoint]:
    for number, line in enumerate(file.lines, start=1):
        before = file.lines[number - 2].lstrip() if number > 1 else ""
        if pattern.match(line.lstrip()) and not before.startswith("HEALTHCHECK"):
            runs = "" if name else re.sub(r"[\s,]*\\$", " …", line.strip())
            yield EntryPoint(name or file.path, what, file.path, number, number, runs)


_MAX_HEAD_CHARS = 1_000


def _mains(survey: Survey, file: File) -> Iterator[EntryPoint]:
    language = file.language
    if language not in ("go", "rust", "c", "cpp", "java", "kotlin") or "main" not in file.text:
        return
    if language == "go" and ("/internal/" in f"/{file.path}" or not _GO_MAIN.search(file.text)):
        return  # a generator: nobody else can install it
    for symbol in survey.file_graph(file.path).definitions:
        if symbol.name != "main" or symbol.unit != "f":
            continue
        head = "".join(line[:_MAX_HEAD_CHARS] for line in file.lines[symbol.start - 1 : symbol.start + 2])
        if language in ("c", "cpp") and _is_conditional(file, symbol.start - 1):
            continue
        if symbol.parent < 0 or (language == "java" and _JAVA_MAIN.search(head)):
            yield EntryPoint(file.path, "main function", file.path, symbol.start, symbol.end)


_CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*)")
_TESTS = re.compile(r"TEST|BENCH|DEBUG|EXAMPLE|DEMO|MAIN|STANDALONE|FUZZ|\b0\b|__EMSCRIPTEN__", re.IGNORECASE)


def _is_conditional(file: File, row: int) -> bool:
    """Return whether a row is compiled only for tests or examples, by the conditions around it."""
    open_conditions: list[str] = []
    for line in file.lines[:row]:
        if match := _CONDITION.match(line[:_MAX_HEAD_CHARS]):
            word, condition = match[1], match[2]
            if word == "endif":
                del open_conditions[-1:]
            elif word in ("elif", "else"):
                open_conditions[-1:] = [condition]
            else:
                open_conditions.append("" if word == "ifndef" else condition)
    return any(_TESTS.search(condition) for condition in open_conditions)
