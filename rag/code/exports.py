"""The public interface of a repository: what its packages export, by the conventions of each language."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.code.documentation import comment_above
from rag.code.languages import JAVASCRIPT
from rag.code.namespaces import Namespaces
from rag.code.survey import Survey
from rag.code.symbols import Symbol
from rag.parsing import parse_json

_MAX_DEPTH = 6
_MAIN_SHARE = 0.25
"""With a smaller share of the files, modules of Python in no package are scripts for the code."""
_ALL = re.compile(r"^__all__\s*(?::[^=]+)?=\s*[\[(](.*?)[\])]", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[\"']([^\W\d_]\w*)[\"']")
_DEFAULT = re.compile(r"^(?:export default|module\.exports\s*=)\s+(\w+)\s*;?\s*$", re.M)
_JS_SOURCES = ("", ".ts", ".tsx", ".mts", ".js", ".mjs", ".cjs", "/index.ts", "/index.js")
_INSTALLED = re.compile(r"(?:install|HEADERS|PUBLIC_HEADER)[^\n]{0,300}?([\w./-]{1,200}\.(?:h|hpp))\b")
_HEADER_FOLDER = re.compile(r"(?:^|/)include/")


@dataclass(frozen=True, slots=True)
class Exported:
    """A definition that users import from `package` as `name`."""

    symbol: Symbol
    name: str
    package: str


def exports(survey: Survey, own: Iterable[str]) -> list[Exported]:
    """Return the exported definitions, once each: those of outer packages first, then by name in the file."""
    paths = sorted(own, key=lambda path: (path.count("/"), path))
    finder = _Finder(survey, paths)
    found: dict[Symbol, Exported] = {}
    for one in (
        *finder.python(),
        *finder.javascript(),
        *finder.rust(),
        *finder.go(),
        *finder.headers(),
        *finder.others(),
    ):
        found.setdefault(one.symbol, one)
    return list(found.values())


class _Finder:
    def __init__(self, survey: Survey, paths: Sequence[str]) -> None:
        self.survey, self.paths = survey, paths
        self._own = frozenset(paths)
        self._namespaces = Namespaces(survey)

    def _in(self, *languages: str) -> list[str]:
        return [path for path in self.paths if self.survey.files[path].language in languages]

    def _top(self, path: str) -> Iterator[Symbol]:
        if path in self._own:
            for symbol in self.survey.symbols(path):
                if not self._namespaces.scope(symbol) and not self._namespaces.includes(symbol):
                    yield symbol

    def _named(self, path: str, name: str) -> Symbol | None:
        return next((symbol for symbol in self._top(path) if symbol.name == name), None)

    # ------------------------------------------------------------ Python

    def python(self) -> Iterator[Exported]:
        """Yield `__all__` and re-exports of packages; of a package without any, its public modules."""
        modules = self._in("python")
        packages = [path for path in modules if path.endswith("/__init__.py")]
        shown = False
        for path in packages:
            found = list(self._package(path))
            shown = shown or bool(found)
            yield from found
        code = [path for path in self.paths if self.survey.files[path].language not in ("bash", "text")]
        if not shown and len(modules) >= _MAIN_SHARE * len(code):
            for path in modules:
                if not posixpath.basename(path).startswith("_"):
                    name = _module_name(path)
                    yield from (Exported(s, s.name, name) for s in self._top(path) if s.public)

    def _package(self, path: str) -> Iterator[Exported]:
        if any(part.startswith("_") for part in path.split("/")[:-1]):
            return
        package = _module_name(path)
        file = self.survey.files[path]
        listed = [name for match in _ALL.finditer(file.text) for name in _WORD.findall(match[1])]
        brought = {b.here: b for imported, b in self.survey.imports.get(path, ()) if imported.within < 0}
        names = listed or [
            *(name for name in brought if not name.startswith("_") and _is_reexport(file.text, name)),
            *(symbol.name for symbol in self._top(path) if symbol.public),
        ]
        for name in dict.fromkeys(names):
            symbol = self._named(path, name)
            if symbol is None and name in brought:
                symbol = self._named(brought[name].target, brought[name].name)
            if symbol is None and listed:
                folder = posixpath.dirname(path)
                inside = (p for p in self._in("python") if p.startswith(f"{folder}/"))
                symbol = next((s for p in inside if (s := self._named(p, name))), None)
            if symbol is not None:
                yield Exported(symbol, name, package)

    # ------------------------------------------------------------ JavaScript

    def javascript(self) -> Iterator[Exported]:
        """Yield what the entry files of packages export, through re-exports."""
        for manifest in sorted(self.survey.files, key=lambda path: (path.count("/"), path)):
            if posixpath.basename(manifest) != "package.json":
                continue
            name, targets = self._manifest(manifest)
            found: dict[str, Symbol] = {}
            for target in targets:
                for symbol in self._exported(target, _MAX_DEPTH, set()):
                    found.setdefault(symbol.name, symbol)  # its types may be declared in another file
            yield from (Exported(symbol, symbol.name, name) for symbol in found.values())

    def _manifest(self, path: str) -> tuple[str, list[str]]:
        try:
            read: Any = parse_json(self.survey.files[path].text)
        except ValueError:
            return "", []
        if not isinstance(read, dict):
            return "", []
        folder = posixpath.dirname(path)
        named = list(_strings(read.get("exports"))) + [
            value for key in ("source", "module", "main", "types") if isinstance(value := read.get(key), str)
        ]
        wanted = [found for value in named if (found := self._source(folder, value))]
        default = [self._source(folder, place) for place in ("src/index", "index", "lib/index")]
        sources = dict.fromkeys([*wanted, *(d for d in default if d and not wanted)])
        return str(read.get("name") or folder), list(sources)

    def _source(self, folder: str, value: str) -> str:
        """Return the source file of a manifest's target, which may name a compiled file."""
        exact = posixpath.normpath(posixpath.join(folder, value))
        if exact in self._own and self.survey.files[exact].language in JAVASCRIPT:
            return exact
        stem = re.sub(r"(?:\.d)?\.[cm]?[jt]sx?$", "", value.removeprefix("./"))
        inner = re.sub(r"^(?:dist|build|out|lib|es|esm|cjs)/", "", stem)
        own = f"src/{inner}/{posixpath.basename(inner)}"
        for place in (stem, f"src/{stem}", f"src/{inner}", inner, own):
            for ending in _JS_SOURCES:
                path = posixpath.normpath(posixpath.join(folder, place + ending))
                if path in self._own and self.survey.files[path].language in JAVASCRIPT:
                    return path
        return ""

    def _exported(self, path: str, depth: int, seen: set[str]) -> Iterator[Symbol]:
        if depth <= 0 or path in seen or path not in self._own:
            return
        seen.add(path)
        yield from self._default_value(path)
        yield from (symbol for symbol in self._top(path) if symbol.public)
        for imported, binding in self.survey.imports.get(path, ()):
            line = self.survey.files[path].lines[imported.start - 1].lstrip()
            is_listed = bool(
                re.search(
                    rf"\bexport\s*\{{[^}}]*\b{re.escape(binding.here or '?')}\b", self.survey.files[path].text
                )
            )
            if not line.startswith("export") and "module.exports" not in line and not is_listed:
                continue
            if binding.name in ("*", ""):
                yield from self._exported(binding.target, depth - 1, seen)
            elif symbol := self._named(binding.target, binding.name):
                yield symbol
            elif binding.target in self._own:
                yield from self._exported(binding.target, depth - 1, seen)

    def _default_value(self, path: str) -> Iterator[Symbol]:
        """Yield the value that a file exports by default, which is neither a function nor a class."""
        file = self.survey.files[path]
        if default := _DEFAULT.search(file.text):
            given = re.compile(rf"(?:export\s+)?(?:const|let|var)\s+{re.escape(default[1])}\b")
            row = next((n for n, line in enumerate(file.lines) if given.match(line)), None)
            if row is not None and self._named(path, default[1]) is None:
                about = comment_above(file.lines, path, row, file.language)
                head = file.lines[row].strip()
                yield Symbol(
                    path, default[1], "", "value", row + 1, row + 1, head, public=True, summary=about
                )

    # ------------------------------------------------------------ Rust, Go, C, others

    def rust(self) -> Iterator[Exported]:
        """Yield `pub use` and public definitions of each `lib.rs`, and those of its public modules."""
        for path in self._in("rust"):
            if posixpath.basename(path) != "lib.rs":
                continue
            crate = posixpath.basename(posixpath.dirname(posixpath.dirname(path))) or self.survey.name
            yield from (Exported(s, s.name, crate) for s in self._top(path) if s.public)
            lines = self.survey.files[path].lines
            for imported, binding in self.survey.imports.get(path, ()):
                if not lines[imported.start - 1].lstrip().startswith("pub "):
                    continue
                wanted = binding.name.rpartition(".")[2]
                for symbol in self._top(binding.target):
                    if symbol.public and (wanted in ("", "*") or symbol.name == wanted):
                        yield Exported(symbol, symbol.name, crate)

    def go(self) -> Iterator[Exported]:
        """Yield exported names outside of `internal` and of commands."""
        for path in self._in("go"):
            parts = path.split("/")[:-1]
            if "internal" in parts or re.search(
                r"^package main\b", self.survey.files[path].text, re.MULTILINE
            ):
                continue
            package = posixpath.dirname(path) or self.survey.name
            for symbol in self.survey.symbols(path):
                if symbol.public:
                    yield Exported(symbol, symbol.qualified_name, package)

    def headers(self) -> Iterator[Exported]:
        """Yield what installed headers declare."""
        for path in self._installed_headers():
            for symbol in self._top(path):
                if symbol.public:
                    yield Exported(symbol, symbol.name, path)

    def _installed_headers(self) -> list[str]:
        headers = [path for path in self._in("c", "cpp") if path.endswith((".h", ".hpp", ".hh"))]
        named: set[str] = set()
        for path, file in self.survey.files.items():
            if re.search(r"(?:^|/)(?:GNU)?[Mm]akefile(?:\.am|\.in)?$|CMakeLists\.txt$|meson\.build$", path):
                named |= {posixpath.basename(name) for name in _INSTALLED.findall(file.text[:200_000])}
        return [path for path in headers if _HEADER_FOLDER.search(path) or posixpath.basename(path) in named]

    def others(self) -> Iterator[Exported]:
        """Yield the public definitions in languages whose files export by themselves."""
        for path in self._in("java", "csharp", "ruby", "php", "kotlin", "scala", "swift", "lua"):
            package = posixpath.dirname(path) or self.survey.name
            if not self.survey.files[path].text.startswith("#!"):  # a command
                yield from (Exported(s, s.name, package) for s in self._top(path) if s.public)


def _module_name(path: str) -> str:
    """Return the dotted name of a Python module, without the folder that packages are in."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts[1:] if parts[0] in ("src", "lib", "python") and len(parts) > 1 else parts)


def _is_reexport(text: str, name: str) -> bool:
    """Return whether a package imports a name for its users: `as` itself, or from one of its modules."""
    return bool(
        re.search(rf"\bas\s+{re.escape(name)}\b", text)
        or re.search(rf"^from\s+\.[\w.]*\s+import\s+(?:\(?[^()]*)\b{re.escape(name)}\b", text, re.MULTILINE)
        or re.search(rf"^from\s+[\w.]+\s+import\s+[^#\n]*\b{re.escape(name)}\b", text, re.MULTILINE)
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
