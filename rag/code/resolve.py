"""Resolve an import to a file of the repository by paths. Ambiguous imports are left out.

A target is a file, or for Go and Java's `.*` a folder, which ends in "/".
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from rag.code.imports import Import
from rag.identifiers import composed
from rag.parsing import parse_json

_STANDARD = sys.stdlib_module_names
_JS_ENDINGS = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".vue", ".svelte", ".d.ts", ".json")
_MAX_MANIFEST_CHARS = 100_000
_JVM = (".kt", ".java")
_MAX_NESTED_NAMES = 3
"""At most three last parts of an import of Kotlin are names in a file: `Outer.Inner.member`."""
_JS_INDEXES = tuple(f"/index{ending}" for ending in _JS_ENDINGS[1:])


class Binding(NamedTuple):
    """What an import brings: `name` of `target` ("" for the target itself) is called `here` in the file."""

    target: str
    name: str
    here: str


class Above(NamedTuple):
    """What is above the folder that the paths of a source are relative to.

    `prefix` are the names of the folders, each with a "/", the source's own last; `manifests` are texts of
    files in them (`go.mod`), by their path from the first of these folders.
    """

    prefix: str = ""
    manifests: Mapping[str, str] = MappingProxyType({})


class Resolver:
    """Resolves imports to the files of one repository.

    Inside, paths begin with the folders above: code names a module by the package that it is in, also where
    the source is that package, or a folder of it.

    Args:
        files: the paths of its files.
        read: returns the text of one of them; only manifests are read, and files of Kotlin for their package.
        above: what is above them.
    """

    def __init__(self, files: Collection[str], read: Callable[[str], str], above: Above) -> None:
        self._prefix, manifests = composed(above.prefix), above.manifests
        paths = self._paths = {composed(self._prefix + path): path for path in files}
        self._files = dict.fromkeys([*paths, *manifests])
        self._read: Callable[[str], str] = lambda path: manifests.get(path) or read(paths[path])

    def _resolve(self, language: str) -> Callable[[str, Import], Iterator[Binding]] | None:
        by_language: Mapping[str, Callable[[str, Import], Iterator[Binding]]] = {
            "python": self._python,
            "javascript": self._javascript,
            "typescript": self._javascript,
            "tsx": self._javascript,
            "go": self._go,
            "rust": self._rust,
            "java": self._java,
            "kotlin": self._kotlin,
            "elixir": self._elixir,
            "c": self._c,
            "cpp": self._c,
            "ruby": self._ruby,
            "php": self._php,
        }
        return by_language.get(language)

    def bindings(self, path: str, language: str, imported: Import) -> list[Binding]:
        """Return what an import of the file at `path` brings from this repository; [] if external."""
        resolve = self._resolve(language)
        if resolve is None:
            return []
        found = dict.fromkeys(resolve(composed(self._prefix + path), imported))
        own = (one._replace(target=self._own(one.target)) for one in found)
        return [binding for binding in own if binding.target not in ("", path)]

    def _own(self, target: str) -> str:
        """Return a target as a path of the source; "" if it is none of its files and folders."""
        if not target.endswith("/"):
            return self._paths.get(target, "")
        return (target[len(self._prefix) :] or "/") if target.startswith(self._prefix) else ""

    # ------------------------------------------------------------ look-ups

    @cached_property
    def folders(self) -> set[str]:
        """All folders that hold a file, at any depth; "" is the root."""
        found = {""}
        for path in self._files:
            folder = posixpath.dirname(path)
            while folder and folder not in found:
                found.add(folder)
                folder = posixpath.dirname(folder)
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._files:
            found[posixpath.basename(path)].append(path)
        return found

    def _only_file(self, tail: str) -> str | None:
        """Return the only file whose path ends in these parts; None when there are several, or none."""
        tail = posixpath.normpath(tail)
        candidates = self._by_name.get(posixpath.basename(tail), [])
        ending = [path for path in candidates if path == tail or path.endswith(f"/{tail}")]
        return ending[0] if len(ending) == 1 else None

    def _named(self, name: str) -> list[str]:
        return sorted(self._by_name.get(name, []), key=lambda path: (-path.count("/"), path))

    # ------------------------------------------------------------ Python

    def _python(self, path: str, imported: Import) -> Iterator[Binding]:
        dots = len(imported.module) - len(imported.module.lstrip("."))
        parts = [part for part in imported.module[dots:].split(".") if part]
        if dots:
            folder = posixpath.dirname(path)
            for _ in range(dots - 1):
                if not folder:
                    return
                folder = posixpath.dirname(folder)
            roots = [folder]
        elif not parts or parts[0] in _STANDARD:
            return
        else:
            roots = self._python_roots(path)
        for root in roots:
            base = posixpath.join(root, *parts)
            module = self._python_module(base)
            found = list(self._python_names(base, module, imported))
            if found:
                yield from found
                return

    def _python_names(self, base: str, module: str | None, imported: Import) -> Iterator[Binding]:
        if module is not None and not imported.names:
            yield Binding(module, "", "")
        for name, here in imported.names:
            inner = self._python_module(posixpath.join(base, name)) if name not in ("", "*") else None
            if inner is not None:
                yield Binding(inner, "", here)
            elif module is not None:
                yield Binding(module, name, here)

    def _python_module(self, base: str) -> str | None:
        candidates = (f"{base}.py", posixpath.join(base, "__init__.py"), f"{base}.pyi")
        return next((path for path in candidates if path in self._files), None)

    def _python_roots(self, path: str) -> list[str]:
        """Return where absolute imports may begin: parent folders that are no packages, the top of the
        source, `src`, the folders above.
        """
        top = self._prefix.rstrip("/")
        inside, above = list[str](), list[str]()
        folder = posixpath.dirname(path)
        while folder:
            if posixpath.join(folder, "__init__.py") not in self._files:
                (inside if len(folder) > len(top) else above).append(folder)
            folder = posixpath.dirname(folder)
        return [*inside, top, posixpath.join(top, "src"), *above, ""]

    # ------------------------------------------------------------ JavaScript, TypeScript

    def _javascript(self, path: str, imported: Import) -> Iterator[Binding]:
        module = imported.module
        if module.startswith("."):
            bases = [posixpath.normpath(posixpath.join(posixpath.dirname(path), module))]
        else:
            name = "/".join(module.split("/")[: 2 if module.startswith("@") else 1])
            folder, entries = self._node_packages.get(name, (None, ()))
            inner = module[len(name) :].strip("/")
            bases = self._aliased(module)
            if folder is not None:
                bases += [posixpath.join(folder, part, inner).rstrip("/") for part in ("", "src")]
                bases += entries if not inner else ()
        target = next((found for base in bases if (found := self._script(base))), None)
        if target is None:
            target = self._from_any_root(module)
        if target is not None:
            names = imported.names or (("", ""),)
            yield from (Binding(target, name, here) for name, here in names)

    def _from_any_root(self, module: str) -> str | None:
        """Return the only script whose path ends in a module of several parts.

        Its root may be a setting that is not in the repository: a published package has no `tsconfig.json`.
        """
        if module.startswith((".", "@")) or "/" not in module:
            return None
        stem = re.sub(r"\.[cm]?jsx?$", "", module)
        return next(
            (found for ending in _JS_ENDINGS if (found := self._only_file(stem + ending)) is not None), None
        )

    def _aliased(self, module: str) -> list[str]:
        """Return where the path aliases of the repository's TypeScript projects lead."""
        return [
            posixpath.normpath(posixpath.join(folder, module[len(prefix) :]))
            for prefix, folder in self._aliases
            if module.startswith(prefix)
        ]

    @cached_property
    def _aliases(self) -> list[tuple[str, str]]:
        found = []
        for path in self._named("tsconfig.json") + self._named("tsconfig.base.json"):
            text = self._read(path)[:_MAX_MANIFEST_CHARS]
            base = re.search(r'"baseUrl"\s*:\s*"([^"]{1,200})"', text)
            top = posixpath.join(posixpath.dirname(path), base[1] if base else "")
            for alias, target in re.findall(r'"([^"\s*]{1,200})\*"\s*:\s*\[\s*"([^"\s*]{1,200})\*"', text):
                found.append((alias, posixpath.join(top, target)))
        return found

    def _script(self, base: str) -> str | None:
        stem = re.sub(r"\.[cm]?jsx?$", "", base)
        for start in dict.fromkeys((base, stem)):
            for ending in (*_JS_ENDINGS, *_JS_INDEXES):
                candidate = (start + ending).lstrip("/")
                if candidate in self._files:
                    return candidate
        return None

    @cached_property
    def _node_packages(self) -> Mapping[str, tuple[str, list[str]]]:
        """The folders of the repository's own packages by name, and the files that each is imported as."""
        found = {}
        for path in self._named("package.json"):
            try:
                described = parse_json(self._read(path))
            except ValueError:
                continue  # a package without a readable manifest has no name
            if isinstance(described, dict) and isinstance(described.get("name"), str):
                folder = posixpath.dirname(path)
                found[described["name"]] = folder, list(_entries(folder, described))
        return found

    # ------------------------------------------------------------ Go

    def _go(self, path: str, imported: Import) -> Iterator[Binding]:
        for module, folder in self._go_modules:
            if imported.module == module or imported.module.startswith(f"{module}/"):
                inside = posixpath.join(folder, imported.module[len(module) :].strip("/")).rstrip("/")
                if inside in self.folders:
                    for name, here in imported.names:
                        yield Binding(f"{inside}/", *(("*", "*") if here == "." else (name, here)))
                return

    @cached_property
    def _go_modules(self) -> list[tuple[str, str]]:
        found = []
        for path in self._named("go.mod"):
            if named := re.search(r"^module\s+(\S+)", self._read(path), re.MULTILINE):
                found.append((named[1].strip('"'), posixpath.dirname(path)))
        return sorted(found, key=lambda module: -len(module[0]))

    # ------------------------------------------------------------ Rust

    def _rust(self, path: str, imported: Import) -> Iterator[Binding]:
        crate = self._crate_of(path)
        own = self._rust_module_folder(path)
        if imported.module.startswith("mod "):
            if target := self._rust_file(posixpath.join(own, imported.module[4:])):
                yield Binding(target, "", imported.names[0][1])
            return
        first, *parts = imported.module.split("::")
        if first == "crate" and crate is not None:
            base = posixpath.join(crate, "src")
        elif first == "self":
            base = own
        elif first == "super":
            base = posixpath.dirname(own)
            while parts and parts[0] == "super":
                base, parts = posixpath.dirname(base), parts[1:]
        elif self._rust_file(posixpath.join(own, first)) is not None:  # a module hides a crate of its name
            base, parts = own, [first, *parts]
        elif first in self._crates:
            base = posixpath.join(self._crates[first], "src")
        else:
            return
        yield from self._rust_path(base, parts, imported.names[0][1])

    def _rust_path(self, base: str, parts: list[str], here: str) -> Iterator[Binding]:
        """Yield the longest part of the path that is a file; a single remaining name is defined in it."""
        for length in range(len(parts), -1, -1):
            target = self._rust_file(posixpath.join(base, *parts[:length]), is_root=length == 0)
            if target is not None:
                rest = parts[length:]
                inner = [
                    part for part in rest[:-1] if part[:1].isupper()
                ]  # modules in a file share its names
                yield Binding(target, ".".join([*inner, *rest[-1:]]), here)
                return

    def _rust_file(self, base: str, *, is_root: bool = False) -> str | None:
        endings = ("/lib.rs", "/main.rs", "/mod.rs") if is_root else (".rs", "/mod.rs")
        candidates = [base + ending for ending in endings] + ([f"{base}.rs"] if is_root else [])
        return next((path for path in candidates if path in self._files), None)

    @staticmethod
    def _rust_module_folder(path: str) -> str:
        folder, name = posixpath.split(path)
        return folder if name in ("lib.rs", "main.rs", "mod.rs") else posixpath.join(folder, name[:-3])

    def _crate_of(self, path: str) -> str | None:
        """Return the folder of the crate that a file is in; published crates have a generated manifest."""
        folder = posixpath.dirname(path)
        while True:
            marks = (posixpath.join(folder, mark) for mark in ("Cargo.toml", "src/lib.rs", "src/main.rs"))
            if any(mark in self._files for mark in marks):
                return folder
            if not folder:
                return None
            folder = posixpath.dirname(folder)

    @cached_property
    def _crates(self) -> Mapping[str, str]:
        found = {}
        for path in self._named("Cargo.toml"):
            section = self._read(path).partition("[package]")[2]
            if named := re.search(r'^name\s*=\s*"([^"]+)"', section, re.MULTILINE):
                found[named[1].replace("-", "_")] = posixpath.dirname(path)
        return found

    # ------------------------------------------------------------ Java, C, Ruby, PHP

    def _java(self, path: str, imported: Import) -> Iterator[Binding]:
        base = imported.module.replace(".", "/")
        name, here = imported.names[0]
        target = self._only_file(f"{base}.java") or self._only_file(f"{base}.kt")
        if target is not None:
            yield Binding(target, name, here)
        elif name == "*":
            folders = [f for f in self.folders if f == base or f.endswith(f"/{base}")]
            yield from (Binding(f"{folder}/", "*", "*") for folder in sorted(folders))

    def _kotlin(self, path: str, imported: Import) -> Iterator[Binding]:
        """Yield a class by the name of its file, else what the folders of its package define."""
        there, here = imported.names[0]
        parts = imported.module.split(".")
        if there == "*":
            yield from (Binding(f"{folder}/", "*", "*") for folder in self._folders_of(path, parts))
            return
        for length in range(len(parts), max(0, len(parts) - _MAX_NESTED_NAMES), -1):
            name = ".".join(parts[length - 1 :])
            file = "/".join(parts[:length])
            target = self._only_file(f"{file}.kt") or self._only_file(f"{file}.java")
            if target is not None:
                yield Binding(target, name, here)
                return
            if folders := self._folders_of(path, parts[: length - 1]):
                yield from (Binding(f"{folder}/", name, here) for folder in folders)
                return

    def _elixir(self, path: str, imported: Import) -> Iterator[Binding]:
        """Yield the file that is named like a module: `My.HTTPServer` is in `my/http_server.ex`."""
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", imported.module).lower()
        target = self._only_file(f"{snake.replace('.', '/')}.ex")
        if target is not None:
            yield from (Binding(target, name, here) for name, here in imported.names or (("", ""),))

    def _folders_of(self, path: str, package: list[str]) -> list[str]:
        """Return the folders of a package of Kotlin, one for each source set.

        Folders may omit the packages that all files of a source set share.
        """
        tail = "/".join(package)
        named = self._source_folders.get(package[-1] if package else "", ())
        found = [folder for folder in named if folder == tail or folder.endswith(f"/{tail}")]
        if not found:
            root, omitted = self._source_root(path)
            inner = posixpath.join(root, *package[len(omitted) :]).rstrip("/")
            if omitted and package[: len(omitted)] == omitted and inner in self.folders:
                return [inner]
        return found

    def _source_root(self, path: str) -> tuple[str, list[str]]:
        """Return the folder below which a file's packages are folders, and the packages that are none."""
        declared = re.search(r"^package\s+([\w.]+)", self._read(path), re.MULTILINE)
        folders = posixpath.dirname(path).split("/")
        omitted = declared[1].split(".") if declared else []
        while omitted and folders and omitted[-1] == folders[-1]:
            omitted.pop()
            folders.pop()
        return "/".join(folders), omitted

    @cached_property
    def _source_folders(self) -> Mapping[str, list[str]]:
        """The folders with files of Kotlin or Java, by their last name."""
        found: dict[str, list[str]] = defaultdict(list)
        for folder in sorted({posixpath.dirname(path) for path in self._files if path.endswith(_JVM)}):
            found[posixpath.basename(folder)].append(folder)
        return found

    def _c(self, path: str, imported: Import) -> Iterator[Binding]:
        written = imported.module
        is_system = written.startswith("<")
        tail = posixpath.normpath(written.strip("<>"))
        sibling = posixpath.normpath(posixpath.join(posixpath.dirname(path), tail))
        if not is_system and sibling in self._files:
            yield Binding(sibling, "*", "*")
            return
        found = [place for place in self._include_paths(path) if posixpath.join(place, tail) in self._files]
        if found and (not is_system or "/" in tail):
            yield Binding(posixpath.join(found[0], tail), "*", "*")

    @staticmethod
    def _include_paths(path: str) -> Iterator[str]:
        """Yield where headers of the file's project may be: its folders, and include folders in them."""
        folder = posixpath.dirname(path)
        while True:
            for inner in ("", "include", "src", "lib", "inc"):
                yield posixpath.join(folder, inner).rstrip("/")
            if not folder:
                return
            folder = posixpath.dirname(folder)

    def _ruby(self, path: str, imported: Import) -> Iterator[Binding]:
        name = imported.module if imported.module.endswith(".rb") else f"{imported.module}.rb"
        if imported.module.startswith("."):
            target: str | None = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        else:
            tops = (f"{self._prefix}lib/{name}", self._prefix + name)
            target = next((path for path in tops if path in self._files), None)
            target = target or self._only_file(f"lib/{name}")
        if target in self._files and target is not None:
            yield Binding(target, "*", "*")

    def _php(self, path: str, imported: Import) -> Iterator[Binding]:
        parts = imported.module.split("\\")
        target = self._psr4(imported.module)
        if target is None and len(parts) > 1:
            target = self._only_file("/".join(parts[-2:]) + ".php")
        if target is not None:
            yield Binding(target, parts[-1], imported.names[0][1])

    def _psr4(self, name: str) -> str | None:
        for prefix, folder in self._psr4_folders:
            if name.startswith(prefix):
                candidate = posixpath.join(folder, name[len(prefix) :].replace("\\", "/")) + ".php"
                if candidate in self._files:
                    return candidate
        return None

    @cached_property
    def _psr4_folders(self) -> list[tuple[str, str]]:
        found = []
        for path in self._named("composer.json"):
            top = posixpath.dirname(path)
            for match in re.finditer(r'"([\w\\]+\\\\)"\s*:\s*"([^"]*)"', self._read(path)):
                folder = posixpath.normpath(posixpath.join(top, match[2])) if match[2] or top else ""
                found.append((match[1].replace("\\\\", "\\"), "" if folder == "." else folder))
        return sorted(found, key=lambda pair: -len(pair[0]))


def _entries(folder: str, described: Mapping[str, object]) -> Iterator[str]:
    """Yield the files that a package of JavaScript is imported as, and what they are built from: `lib/a.js`
    from `src/a`.
    """
    exports = described.get("exports")
    if isinstance(exports, dict) and any(key.startswith(".") for key in exports):
        exports = exports.get(".")  # the others are parts of the package
    given = [described.get(key) for key in ("source", "module", "main")]
    given += exports.values() if isinstance(exports, dict) else [exports]
    for entry in (posixpath.normpath(one) for one in given if isinstance(one, str)):
        yield posixpath.join(folder, entry)
        if "/" in entry:
            yield posixpath.join(folder, "src", entry.partition("/")[2])
