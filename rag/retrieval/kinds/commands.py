"""Find the commands that install, build, run and test a project, where projects write them down.

They are read from documents, task files, manifests and the configuration of CI. What a command does is
decided by its program and its words; of several for one purpose the one without details comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from rag.code.roles import is_carried
from rag.lines import lines_of
from rag.parsing import parse_json
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.build_commands import commands_in
from rag.retrieval.conventional_places import AGENTS, CI, GUIDE, MANUAL, README, TASKS
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts
from rag.types import CodeFacts
from rag.types.question_kinds import COMMAND

PURPOSES = ("install", "build", "run", "test", "lint")
IN_CI, IN_CONTAINER = "ci", "container"
"""Other things that are asked for: what CI runs, and how to run in a container."""
_MAX_CHARS, _MAX_FILES, _MAX_LINES = 100, 24, 3_000
_MAX_FACTS, _MAX_STEPS, _MAX_SHOWN_LINES = 4, 4, 12
_PROGRAMS = frozenset(
    """ansible-galaxy ansible-playbook apk apt apt-get bazel brew bun bundle cabal cargo cmake composer ctest
    deno docker docker-compose dnf dotnet dune flutter gem go gradle gradlew hatch helm invoke just lein make
    mage meson mix molecule mvn mvnw ninja nox npm npx nix pacman pdm php phpunit pip pip3 pipenv pipx pnpm
    podman poetry pytest python python3 rake rails rspec ruby rye sbt scoop snap stack swift task terraform
    terragrunt tox uv vagrant winget xcodebuild yarn yay zig""".split()
)
_WORDS = {
    "install": frozenset("install add create get i pull".split()),
    "lint": frozenset("lint linter format fmt ruff precommit eslint prettier clippy rubocop".split()),
    "test": frozenset(
        "e2e test tests testing nextest pytest tox nox rspec phpunit vitest ctest unittest molecule".split()
    ),
    "build": frozenset("build compile cmake ninja dist assemble".split()),
    "run": frozenset("run start serve server runserver dev develop up apply playbook".split()),
}
"""The words of a command that show its purpose; the first purpose that has one counts."""
_TASKS = frozenset("make just task rake composer".split())
_RUN_OTHERS = frozenset("bun deno hatch npm pdm pipenv pnpm poetry rye uv yarn".split())
_DETAILS = frozenset(
    """all e2e integration coverage cov bench benchmark check container frozen lint requirements types
    typecheck docs doc docker ui single watch debug prod production ci clean release tag matrix fuzz update
    snapshot""".split()
)
"""The words of a command that is for a part, or for a case."""
_CONVENTIONS = {
    "cargo.toml": ("cargo build", "cargo test", "cargo run"),
    "go.mod": ("go build ./...", "go test ./..."),
    "pytest.ini": ("pytest",),
}
_SITES = ("doc", "website", "www")
"""The beginnings of the names of folders that may hold the site of a project."""
_NEEDED = {
    "cargo": ("cargo.toml",),
    "go": ("go.mod",),
    "make": ("makefile",),
    **dict.fromkeys("npm pnpm yarn bun".split(), ("package.json",)),
}
"""The file without which a program runs nothing of the project."""
_IN_CI = re.compile(CI, re.I)
_ON_CHANGE = re.compile(r"\bpull_request\b|\bmerge_request")
_STEP = re.compile(r"\s*(?:- )?(?:run|script|before_script|install|commands?):\s*(.*)")
_CONTAINERS = frozenset(("docker", "docker-compose", "podman"))
_FILES = tuple(
    re.compile(one, re.I)
    for one in (
        GUIDE,
        README,
        AGENTS,
        TASKS,
        MANUAL,
        r"^pyproject\.toml$",
        CI,
        r"^(?:cargo\.toml|go\.mod|pytest\.ini)$",
    )
)
_MARKED = {"tox.ini": ("[testenv]", "tox"), "pyproject.toml": ("[tool.pytest", "pytest")}
"""The files with a line that shows how a project is tested."""
_PROMPT = re.compile(r"^\s*+(?:- )?(?:(?:run|script|command|cmd):\s*)?(?:[-$>%|] ?)?")
_SPAN = re.compile(r"``?([^`\n]{2,120})``?")
_ORDERED = re.compile(
    r"(?:^|[:|(]|\b(?:call|do|enter|execut(?:e|ing)|invoke|issue|run(?:ning)?|then|try|typ(?:e|ing)|us(?:e|ing)"
    r"|via|(?:buil[dt]|install|run|start|test)\w*\b[^.`]{0,40}\b(?:by|with)))[\s*_>-]*"
    r"(?:``?[^`]*``?,?\s(?:(?:and|or|then)\s)?)*$",
    re.I,
)
"""What precedes a command in a line that says to run it; prose mentions others: "inspired by `make`"."""
_ORDERED_CHARS = 80
_OF_A_NOUN = re.compile(
    r"\s(?!(?:after|and|as|at|before|for|from|if|in|now|on|once|or|so|the|then|to|when|with|within)\b)\w"
)
"""What follows a word that is no command: "use `make` syntax"."""
_FENCE = re.compile(r"^\s*+(?:`{3,}|~{3,})")
_PARTS = re.compile(r"&&|[;&]")
_UNSAFE = re.compile(r"[|`<>]|\$\(")
"""What makes a shell run, read or write something else; also placeholders."""
_NAME = re.compile(r"[\w@.][\w@:./+-]*+")
"""A name that a shell takes as one word."""
_MAIN_FILE = re.compile(r"(?:^|/)main\.|manage")
_HARMLESS = frozenset(("cd", "export", "mkdir"))
_PROSE = frozenset("a an and are for into is it of that the this to use was with you your".split())
"""Words that make a sentence of what begins like a command: "make it run"."""
_MANAGERS = ("npm", "pnpm", "yarn", "bun")
_MAX_SCRIPTS = 500
_KEY = re.compile(r'\s*+"([^"]*+)"')
_SCRIPT = re.compile(r"^(?:\./|bin/|scripts?/)[\w./-]*+(?<=\w)$")
_BEFORE = re.compile(r"^(?:sudo$|env$|\w++=)")


@dataclass(frozen=True, slots=True)
class ProjectCommand:
    """A command of a project, its purpose, and the line that has it."""

    purpose: str
    text: str
    path: str
    line: int

    def is_for(self, purpose: str) -> bool:
        """Return whether it does what is asked for: to run in a container is to run with another program."""
        programs = self.text.split()[:1]
        return (
            self.purpose == "run" and programs[0] in _CONTAINERS
            if purpose == IN_CONTAINER
            else self.purpose == purpose
        )

    @property
    def by_convention(self) -> bool:
        """Whether only the presence of a file says so."""
        return self.path.lower() in _CONVENTIONS

    @property
    def shown(self) -> str:
        """The command as code."""
        return f"`{one_line(self.text)}`{' by convention' if self.by_convention else ''}"


def find(asked: Asked) -> CodeFacts | None:
    """Return the commands for what a question asks to do, the most usual first; None if there are none."""
    for index in asked.indexes:
        if asked.purpose == IN_CI:
            return _run_in_ci(asked, index)
        named_first = partial(_shared, frozenset(asked.question.question.text.lower().split()))
        found = [one for one in project_commands(index) if one.is_for(asked.purpose)]
        found = sorted(found, key=named_first)[:_MAX_FACTS]
        places = [asked.place(index, one.path, one.line, "") for one in found]
        said = [f"{one.shown} (`{one_line(one.path)}:{one.line}`)" for one in found]
        facts = code_facts(asked, COMMAND, asked.purpose, f"Run {''.join(said[:1])}", [*filter(None, places)])
        if facts is not None:
            return replace(facts, note=f"Also: {', '.join(said[1:])}" if said[1:] else "")
    return None


def _run_in_ci(asked: Asked, index: ChunkIndex) -> CodeFacts | None:
    """Return what the steps of CI run: those of the file that has the checks of a change."""
    steps = [*_steps(index)]
    own = index.hit(0, 0.0, {}).repo.lower() if len(index) else ""
    first = [one for one in steps if one.path == steps[0].path]
    first.sort(key=lambda one: _purpose(one.text, own) not in ("lint", "test", "build"))
    first = sorted(first[:_MAX_STEPS], key=lambda one: one.line)
    others = dict.fromkeys(f"`{one_line(one.path)}`" for one in steps if one.path != first[0].path)
    for file in filter(None, [asked.file(index, first[0].path) if first else None]):
        last = max(one.line for one in first if one.line < first[0].line + _MAX_SHOWN_LINES)
        said = ", ".join(one.shown for one in first)
        summary = f"CI runs {said} (`{one_line(file.path)}:{first[0].line}`)"
        facts = code_facts(asked, COMMAND, IN_CI, summary, [FactPlace(file, first[0].line, "", last)])
        return facts and replace(facts, note=f"Also: {', '.join(others)}" if others else "")
    return None


def _steps(index: ChunkIndex) -> Iterator[ProjectCommand]:
    """Yield the commands that the steps of CI run, each once: those of the checks of a change first."""
    paths = [path for _, path in _paths(index) if _IN_CI.search(path)]
    checks = [(path, read[0]) for path in paths if (read := index.file_text(path))]
    found = dict[str, ProjectCommand]()
    for path, content in sorted(checks, key=lambda one: not _ON_CHANGE.search(one[1])):
        inside, begins = -1, ""
        for number, line in enumerate(lines_of(content)[:_MAX_LINES], 1):
            text, indent = line.strip(), len(line) - len(line.lstrip())
            step = _STEP.match(line)
            if step and step[1][:1] in ("", "|", ">"):
                inside, begins = indent, "" if step[1] else "- "
                continue
            inside = inside if indent > inside or not text else -1
            said = text.removeprefix("- ") if inside >= 0 and text.startswith(begins) else ""
            said = step[1] if step else said
            if said and said[0] not in "#{" and len(said) <= _MAX_CHARS:
                found.setdefault(said, ProjectCommand(IN_CI, said, path, number))
    yield from found.values()


def _shared(asked: Set[str], one: ProjectCommand) -> int:
    """Return the less, the more details of a command a question asks for: "integration" tests."""
    return -len(asked & _DETAILS & set(re.split(r"[^a-z0-9]+", one.text.lower())))


def project_commands(index: ChunkIndex) -> list[ProjectCommand]:
    """Return the commands of a repository by purpose, of each the most usual first, every text once."""
    ranked: list[tuple[tuple[int, int, int], ProjectCommand]] = []
    own = index.hit(0, 0.0, {}).repo.lower() if len(index) else ""
    paths = list(_paths(index))
    names = {path.rpartition("/")[2].lower() for _, path in paths}
    every = {*map(index.file_path, range(index.total_files))}
    programs = sum(path.endswith("src/main.rs") and not is_carried(path) for path in every)
    for rank, path in paths:
        text = index.file_text(path)
        for number, one in enumerate(_read(path, text[0], own) if text else ()):
            if one.by_convention and one.purpose == "run" and programs != 1:
                continue
            is_for_users = one.purpose in ("install", "run") and path.lower().startswith("readme")
            is_other = one.purpose == "install" and own not in one.text.lower()
            if one.purpose == "test" or not (_IN_CI.search(path) or (is_other and _names_package(one.text))):
                program = one.text.split()[0]
                is_other |= not names.issuperset(_NEEDED.get(program, ()))
                is_other |= bool(_SCRIPT.match(program)) and program.removeprefix("./") not in every
                details = _details(one.text) + 2 * is_other
                ranked.append(((details, -1 if is_for_users else rank, number), one))
    ranked.sort(key=lambda each: (PURPOSES.index(each[1].purpose), each[0]))
    found: dict[tuple[str, str], ProjectCommand] = {}
    for _, one in ranked:
        found.setdefault((one.purpose, one.text), one)
    return list(found.values())


def _paths(index: ChunkIndex) -> Iterator[tuple[int, str]]:
    """Yield the files that may have commands, each with its rank: the nearest to the root first."""
    found = []
    paths = [index.file_path(file) for file in range(index.total_files)]
    sites = {
        path.partition("/")[0] for path in paths if path.count("/") == 1 and path.endswith("/package.json")
    }
    for path in paths:
        rank = next((n for n, pattern in enumerate(_FILES) if pattern.search(path)), None)
        depth = 0 if path.startswith((".", "doc")) else path.count("/")
        is_site = path.startswith(_SITES) and path.partition("/")[0] in sites  # it is about itself
        if rank is not None and depth < 2 and not is_carried(path) and not is_site:
            found.append((len(_FILES) * depth + rank, path))
    yield from sorted(found)[:_MAX_FILES]


def _read(path: str, text: str, own: str) -> Iterator[ProjectCommand]:
    """Yield the commands of a file in order; those of a subfolder begin in it."""
    folder, _, name = path.rpartition("/")
    lines = lines_of(text)[:_MAX_LINES]
    name = name.lower()
    found = [*commands_in(path, lines)]
    if name in _MARKED:
        mark, command = _MARKED[name]
        found = [(number, command) for number, line in enumerate(lines, 1) if line.startswith(mark)]
    elif name in ("package.json", "composer.json"):
        found = [*_scripts(text, lines, "composer" if name.startswith("c") else "npm")]
    elif name in _CONVENTIONS:
        found = [(1, one) for one in _CONVENTIONS[name]]
    elif not found:
        found = [*_written(lines, is_document=not name.endswith((".yml", ".yaml")))]
    if folder and not _NAME.fullmatch(folder):
        return
    before = f"cd {folder} && " if folder and not path.startswith((".", "doc")) else ""
    for number, command in found:
        if purpose := _purpose(command, own):
            yield ProjectCommand(purpose, before + command, path, number)


def _scripts(text: str, lines: Sequence[str], tool: str) -> Iterator[tuple[int, str]]:
    """Yield the scripts of a package, each with its line."""
    try:
        read = parse_json(text)
    except ValueError:
        return
    manager = read.get("packageManager") if isinstance(read, dict) else None
    if isinstance(manager, str) and tool == "npm" and manager.partition("@")[0] in _MANAGERS:
        tool = manager.partition("@")[0]
    listed = read.get("scripts") if isinstance(read, dict) else None
    keys = {match[1]: n for n, line in reversed([*enumerate(lines, 1)]) if (match := _KEY.match(line))}
    for name, script in islice(listed.items(), _MAX_SCRIPTS) if isinstance(listed, dict) else ():
        if not _NAME.fullmatch(name) or (isinstance(script, str) and _only_prints(script)):
            continue
        line = keys.get(name, 1)
        is_short = tool == "composer" or (tool != "bun" and name in ("test", "start"))
        yield line, f"{tool} {name}" if is_short else f"{tool} run {name}"


def _only_prints(script: str) -> bool:
    """Return whether a script does nothing but say something, such as that it was removed."""
    return all(
        part.split()[:1] in (["echo"], ["printf"], ["exit"]) or part.strip().startswith('node -e "console.')
        for part in script.split("&&")
    )


def _written(lines: Sequence[str], *, is_document: bool) -> Iterator[tuple[int, str]]:
    """Yield what may be a command: a line of code, or in a document code within a line."""
    in_fence = not is_document
    joined, begin = "", 0
    for number, line in enumerate(lines, 1):
        if is_document and _FENCE.match(line):
            in_fence ^= True
        elif in_fence or line.startswith(("    ", "\t")):
            if joined:
                joined = f"{joined} {line.strip()}"
            else:
                joined, begin = _PROMPT.sub("", line, count=1).strip(), number
            if joined.endswith("\\") and len(joined) < _MAX_CHARS:
                joined = joined.rstrip("\\ ")
            else:
                yield begin, joined.partition(" # ")[0].strip()
                joined = ""
        else:
            spans = (one for one in _SPAN.finditer(line) if _is_ordered(line, *one.span()))
            yield from ((number, span[1].strip()) for span in spans)


def _is_ordered(line: str, first: int, end: int) -> bool:
    is_ordered = _ORDERED.search(line, max(0, first - _ORDERED_CHARS), first)
    return is_ordered is not None and not _OF_A_NOUN.match(line, end)


def _purpose(command: str, own: str) -> str:
    """Return the purpose of a command, by its last part that has one; "" for none, or no command.

    Every part must begin with a program that is known.
    """
    if len(command) > 2 * _MAX_CHARS or "   " in command or _UNSAFE.search(command):
        return ""
    found = ""
    for part in _PARTS.split(command):
        if tokens := [token for token in part.split() if not _BEFORE.match(token)]:
            purpose = _purpose_of_part(tokens, own)
            if purpose is None:
                return ""
            found = purpose or found
    return found


def _purpose_of_part(tokens: Sequence[str], own: str) -> str | None:
    """Return the purpose of a part of a command, "" if it has none; None if it is no command."""
    program = tokens[0].removeprefix("./").lower()
    last = tokens[-1] if tokens[1:2] and tokens[1].startswith("-") else "".join(tokens[1:2])
    if program == own and last in _WORDS["run"]:
        return "run"
    if not (_SCRIPT.match(tokens[0]) or program in _PROGRAMS):
        return "" if program in _HARMLESS or program == own else None
    if not _PROSE.isdisjoint(tokens[1:]):
        return None
    said = [word for token in tokens[:6] for word in re.split(r"[^a-z0-9]+", token.lower()) if word]
    if program in _RUN_OTHERS and said[1:2] == ["run"]:
        said = said[2:]
    installs = {"install"} if program in _TASKS else _WORDS["install"]
    if not installs.isdisjoint(token.lower() for token in tokens[1:3]):
        return "install"
    if program in _TASKS and said[1:2] == ["clean"]:
        return ""
    if program in _TASKS and said[1:2] == ["check"]:
        return "test"
    wanted = (one for one in ("lint", "test", "build", "run") if not _WORDS[one].isdisjoint(said))
    return next(wanted, "build" if tokens == ["make"] else "")


def _names_package(command: str) -> bool:
    """Return whether what a command installs is a package, rather than the project or what it needs."""
    last = command.split()[-1]
    return last not in _WORDS["install"] and not last.startswith(("-", ".")) and "require" not in last


def _details(command: str) -> int:
    """Return how much of a command is about a part or a case: 0 for the usual one."""
    tokens = command.split()
    said = {word for token in tokens for word in re.split(r"[^a-z0-9]+", token.lower())}
    holes = sum(
        any(mark in token for mark in "<>{}[]$*…") or "::" in token or "..." in token for token in tokens
    )
    files = sum(
        token.endswith((".py", ".ts", ".js", ".go", ".rb", ".rs")) and not _MAIN_FILE.search(token)
        for token in tokens
    )
    options = sum(token.startswith("-") for token in tokens) + ("&&" in tokens) + 2 * ("://" in command)
    more = max(0, len(tokens) - 2) if tokens[0] in _TASKS else max(0, len(tokens) - 4) // 2
    return 2 * len(said & _DETAILS) + 2 * holes + options + files + more
