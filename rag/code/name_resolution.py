"""What the names and expressions of a repository's code mean, across its files.

Names are resolved when they are asked for: through scopes, imports and re-exports, `self` and `this`,
declared and assigned types, and inheritance.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rag.code.file_graph import BASE, COMPANION, UNKNOWN, Reference
from rag.code.graph_files import LoadedFile, LoadedFiles, in_package
from rag.code.languages import JAVASCRIPT
from rag.code.resolve import Binding

_MAX_DEPTH = 12
_MAX_BASES = 50
"""At most this many bases of a class are looked at."""
_CLASS_SCOPED = frozenset({"java", "kotlin", "elixir", "csharp", "cpp", "ruby", "php"})
"""The languages in which a bare name may be a member of the class it is used in."""
COMMON = frozenset(
    """add all any append apply bind call clear close copy count create decode delete destroy each emit
    empty encode end endswith error exec execute exists extend filter find first flush forEach format
    get has head includes index indexOf info init insert items join key keys last length load lock log
    lower map match name next on open parse pop post print push put read release remove render replace
    reset reverse run save search send set setdefault shift size slice sort splice split start
    startswith stop strip sub substring test then to toString trim unlock update upper value values
    wait warn warning write""".split()
)
"""Names that objects of every library have: an unknown object is not taken for one of this repository."""
_GETTERS = {"python": re.compile(r"property\b"), **dict.fromkeys(JAVASCRIPT, re.compile(r"\bget\b"))}


class Value(NamedTuple):
    """What an expression means: a definition or an object of it, or a file; `number` is the definition's."""

    kind: str
    path: str = ""
    number: int = -1


_EXTERNAL = Value("external")
RESULT = Value("external", "()")
"""What a function of a library returns, which may be an object of the repository: an item of a collection."""
_TYPES = frozenset(
    "bool boolean bytearray bytes char dict double error float frozenset int list long number set str string"
    " tuple".split()
)
"""Types of the languages: to call one returns an object of it, as for a name that begins with a capital."""
_AROUND = frozenset(
    "Arc Box Cow MappedMutexGuard MutexGuard Option Pin Rc Ref RefMut Result RwLockReadGuard RwLockWriteGuard"
    " Weak".split()
)
"""Types of Rust around an object, which may be one of the repository, and has its methods."""
_SAME = ("self", "self()", "Self()")
"""What a method returns that returns its object, or an object of its class."""
Values = tuple[Value, ...]


class NameResolution:
    """Resolves the names in the files of a repository. Safe to share between threads."""

    def __init__(self, files: LoadedFiles) -> None:
        self.files = files

    def bases(self, value: Value) -> list[Value]:
        """Return the classes that a class names as bases, as far as they are known."""
        groups = self._bases(self.files.file(value.path), value.number, _MAX_DEPTH)
        return [base._replace(kind="def") for group in groups for base in group if base.number >= 0]

    def owner(self, value: Value) -> Value | None:
        """Return the class that a method belongs to, by its place or by its name; None for a function."""
        file = self.files.file(value.path)
        number = file.class_of(value.number)
        if 0 <= number != value.number:
            return Value("def", value.path, number)
        found = self._owner(file, value.number, _MAX_DEPTH)
        return found[0]._replace(kind="def") if len(found) == 1 else None

    def member(self, value: Value, name: str) -> Values:
        """Return what a class or one of its bases has by this name."""
        return self._member(self.files.file(value.path), value.number, name, _MAX_DEPTH)[0]

    def has_unknown_base(self, file: LoadedFile, number: int) -> bool:
        """Return whether a class names a base that may be in the repository, but is not known."""
        return number >= 0 and not all(self._bases(file, number, _MAX_DEPTH))

    def is_within_repository(self, value: Value) -> bool:
        """Return whether all bases of a class, and theirs, are known."""
        pending = [value]
        for one in pending:
            above, file = self.bases(one), self.files.file(one.path)
            if len(above) < len(file.bases.get(one.number, ())) or len(pending) > _MAX_BASES:
                return False
            pending += [base for base in above if base not in pending]
        return True

    def origin(self, value: Value) -> Value:
        """Return the method of the farthest known base that a definition overrides, else the definition."""
        file = self.files.file(value.path)
        name, number = file.graph.definitions[value.number].name, file.class_of(value.number)
        pending = [Value("def", value.path, number)] if 0 <= number != value.number else []
        seen, found = set(pending), value
        while pending and len(seen) < _MAX_BASES:
            above = [base for base in self.bases(pending.pop(0)) if base not in seen]
            seen |= set(above)
            pending += above
            for base in above:
                for member in self.files.file(base.path).members.get((base.number, name), ()):
                    found = Value("def", base.path, member)
        return found

    def name(self, value: Value) -> str:
        """Return the name of a definition."""
        return self.files.file(value.path).graph.definitions[value.number].name

    def is_one(self, values: Values) -> bool:
        """Return whether these are one definition, or overloads in one class of a file."""
        if len(values) == 1:
            return True
        places = {
            (v.kind, v.path, self.files.file(v.path).qualified(v.number)) for v in values if v.number >= 0
        }
        return len(places) == 1 and all(value.number >= 0 for value in values)

    def receivers(self, file: LoadedFile, use: Reference) -> set[Value]:
        """Return the classes that the object before the dot may be of, as far as they are known."""
        if not use.receiver or use.receiver.startswith(UNKNOWN):
            return set()
        values = self.evaluate(file, use.receiver, use.within, _MAX_DEPTH)
        return {value._replace(kind="def") for value in values if value.kind == "object"}

    def resolve(self, file: LoadedFile, use: Reference) -> Values:
        """Return what a reference may mean: () if that is not known, several if it is ambiguous."""
        within = use.within
        if use.role == BASE and within >= 0:
            within = file.graph.definitions[within].parent
        if use.receiver.startswith(UNKNOWN):
            return self._extensions(file, use.name, (), within) if file.language == "kotlin" else ()
        written = f"{use.receiver}.{use.name}" if use.receiver else use.name
        return self.evaluate(file, written, within, _MAX_DEPTH)

    def evaluate(self, file: LoadedFile, written: str, within: int, depth: int) -> Values:
        """Return what an expression means, seen from a definition of a file."""
        if depth <= 0 or not written:
            return ()
        parts = written.split(".")
        if file.language == "rust" and len(parts) > 1 and parts[0] in ("crate", "super"):
            return self._rust_path(file, parts, depth)
        if file.language == "elixir" and parts[0][:1].isupper():
            return self._elixir_path(file, parts, within)
        if file.language in JAVASCRIPT and (owned := self._owned(file, parts, within)):
            return owned
        values = self._first(file, parts[0].removesuffix("()"), within, depth, called=parts[0].endswith("()"))
        if file.language == "rust" and len(parts) > 1 and values == (_EXTERNAL,):
            is_brought = parts[0] in self.files.bound(file)
            if not is_brought and (found := self._rust_path(file, parts, depth)):
                return found  # in another crate of the repository
        if file.language in ("java", "kotlin") and len(parts) > 1 and values == (_EXTERNAL,):
            values, parts = self._packaged(file, parts, depth) or (values, parts)
        if parts[0].endswith("()") and parts[0] not in ("super()",):
            values = self._called(values, depth, parts[0])
            if values == (_EXTERNAL,) and is_around(file, parts[0]):
                return ()
        for number, part in enumerate(parts[1:], 2):
            values = self._called(values, depth) if self._are_properties(values) else values
            name = part.removesuffix("()")
            before = values
            values = self._joined(self._attribute(value, name, depth - 1) for value in before)
            if file.language == "kotlin" and all(value.kind == "external" for value in values):
                values = self._extensions(file, name, before, within) or values
            elif file.language == "kotlin" and part == name and number < len(parts):
                values = self._joined(self._property(value, name, depth - 1) for value in before) or values
            if part.endswith("()"):
                values = self._called(values, depth, name, before)
        return values

    def _extensions(self, file: LoadedFile, name: str, objects: Values, within: int) -> Values:
        """Return the extension functions of Kotlin that a name after a dot may mean.

        If the object is not known (no `objects`, or external ones), these are those that the file defines or
        imports by name, which it does for this purpose.
        """
        if name in COMMON:
            return ()
        known = [value for value in objects if value.kind in ("object", "def") and value.number >= 0]
        own = [n for scope in file.scopes(within) for n in file.members.get((scope, name), ())]
        found = tuple(Value("def", file.path, number) for number in own)
        is_brought = file.top(name) or any(b for _, b in self.files.bound(file).get(name, ()))
        if not found and (known or is_brought or self._in_kotlin_package(file, name)):
            found = self.top_level(file, name, _MAX_DEPTH)
        types = {one for value in known for one in self._type_names(value)}
        return tuple(
            value
            for value in found
            if value.kind == "def" and (extended := self._extended(value))
            if not known or extended in types or len(extended) == 1  # `fun <T : Base> T.name()`
        )

    def _type_names(self, value: Value) -> set[str]:
        """Return the names of a class and of all its bases, as they are written where one is not known."""
        file = self.files.file(value.path)
        names = {self.name(value), *(use.name for use in file.bases.get(value.number, ()))}
        return names.union(*(self._type_names(base) for base in self.bases(value)))

    def _extended(self, value: Value) -> str:
        """Return the name of the type that a function extends, "" if it extends none."""
        return self.files.file(value.path).graph.definitions[value.number].owner.rpartition(".")[2]

    def _property(self, value: Value, name: str, depth: int) -> Values:
        """Return what a property of Kotlin is assigned, where a class has a function of that name as well."""
        if depth <= 0 or value.kind not in ("object", "def"):
            return ()
        file = self.files.file(value.path)
        if values := file.variables.get((value.number, name)):
            return self._assigned(file, values, value.number, "", depth)
        return self._joined(self._property(base, name, depth - 1) for base in self.bases(value))

    def _are_properties(self, values: Values) -> bool:
        """Return whether these are properties of Python or getters, whose value is what they return."""
        return bool(values) and all(
            value.kind == "def"
            and (held := _GETTERS.get(self.files.known[value.path][0])) is not None
            and held.search(self.files.file(value.path).graph.definitions[value.number].flags)
            for value in values
        )

    @staticmethod
    def _owned(file: LoadedFile, parts: list[str], within: int) -> Values:
        """Return the function that was assigned to `app.name`, for `app.name` and for `this.name` in another
        function of `app`.
        """
        if len(parts) != 2:
            return ()
        owner, name = parts
        if owner in ("this", "self") and file.class_of(within) < 0:
            owners = (file.graph.definitions[n].owner for n in file.scopes(within))
            owner = next((one.removesuffix(".prototype") for one in owners if one), "")
        return tuple(Value("def", file.path, number) for number in file.owned.get((owner, name), ()))

    def _elixir_path(self, file: LoadedFile, parts: list[str], within: int) -> Values:
        """Return the module or function of Elixir with a name, of an alias or below a module around it."""
        module = [part for part in parts if part[:1].isupper()]
        brought = [
            imported.module
            for imported in file.graph.imports
            for name, here in imported.names
            if here == module[0] and not name
        ]
        around = [file.qualified(n) for n in file.scopes(within) if file.graph.definitions[n].unit == "c"]
        for before in (*brought, *(f"{outer}.{module[0]}" for outer in around), module[0]):
            if found := self._elixir_module(".".join((before, *module[1:]))):
                for part in parts[len(module) :]:
                    found = self._joined(self._attribute(value, part, _MAX_DEPTH) for value in found)
                return found
        return (_EXTERNAL,)

    def _elixir_imported(self, file: LoadedFile, name: str, depth: int) -> Values:
        """Return the functions of this name in the modules that a file of Elixir imports."""
        names = [imported.module for imported in file.graph.imports if ("*", "*") in imported.names]
        modules = self._joined(map(self._elixir_module, names))
        return self._joined(self._attribute(module, name, depth - 1) for module in modules)

    def _elixir_module(self, name: str) -> Values:
        """Return the modules of Elixir with a whole name."""
        last = name.rpartition(".")[2]
        paths = sorted(self.files.definers(last))
        files = (self.files.file(path) for path in paths if self.files.known[path][0] == "elixir")
        return tuple(
            Value("def", file.path, number)
            for file in files
            for number in file.named.get(last, ())
            if file.graph.definitions[number].unit == "c" and file.qualified(number) == name
        )

    def _packaged(self, file: LoadedFile, parts: list[str], depth: int) -> tuple[Values, list[str]] | None:
        """Return what a name with its package means, such as `org.app.Lib`, and it without the package."""
        last = next((n for n, part in enumerate(parts) if not part[:1].islower()), len(parts) - 1)
        path = ".".join(parts[: last + 1]).removesuffix("()")
        if not last or "(" in path:
            return None
        name = path.rpartition(".")[2]
        found = self.files.imported(file, path, name, there=name)
        values = self._joined(self._bound_value(binding, depth) for binding in found)
        return (values, parts[last:]) if values else None

    def _rust_path(self, file: LoadedFile, parts: list[str], depth: int) -> Values:
        found = self.files.imported(file, "::".join(parts), parts[-1])
        return self._joined(self._bound_value(binding, depth) for binding in found)

    @staticmethod
    def _joined(groups: Iterable[Values]) -> Values:
        return tuple(dict.fromkeys(value for group in groups for value in group))

    def _first(self, file: LoadedFile, name: str, within: int, depth: int, *, called: bool) -> Values:
        owner = file.class_of(within)
        if name in ("self", "this", "Self") and owner >= 0:
            return (Value("object", file.path, owner),)
        if name in ("self", "this"):
            return self._owner(file, within, depth)
        if name == "super" and owner >= 0:
            return self._joined(self._bases(file, owner, depth))
        is_open = False
        for scope in file.scopes(within):
            one = file.graph.definitions[scope]
            if one.owner and file.language == "kotlin":
                for value in self._owner(file, scope, depth):
                    if found := self._attribute(value, name, depth - 1):
                        return found
            if one.unit == "f" and (inner := file.members.get((scope, name))):
                plain = (n for n in inner if not file.is_property(n))
                return tuple(Value("def", file.path, n) for n in plain if not file.graph.definitions[n].owner)
            for imported, binding in self.files.bound(file).get(name, ()):
                if imported.within == scope:
                    return self._bound_value(binding, depth)
            if one.unit == "c" and file.language in _CLASS_SCOPED:
                if name == one.name:
                    return (Value("def", file.path, scope),)
                found, complete = self._member(file, scope, name, depth - 1)
                is_field = (scope, name) in file.variables
                is_unknown = not complete and called and not name[:1].isupper()
                if found or is_field or (is_unknown and file.language != "kotlin"):
                    return found
                is_open = is_open or is_unknown
        values = self.top_level(file, name, depth)
        if file.language == "python" and values in ((), (_EXTERNAL,)):
            values = self._class_beside(file, name, within) or values
        return () if is_open and values == (_EXTERNAL,) else values

    @staticmethod
    def _class_beside(file: LoadedFile, name: str, within: int) -> Values:
        """Return the class of a name in a class around: the annotations of a method may name it."""
        around = (scope for scope in file.scopes(within) if file.graph.definitions[scope].unit == "c")
        found = (number for scope in around for number in file.members.get((scope, name), ()))
        return tuple(Value("def", file.path, n) for n in found if file.graph.definitions[n].unit == "c")

    def _owner(self, file: LoadedFile, within: int, depth: int) -> Values:
        """Return the object of a function that belongs to a type by name: a method of Go, a prototype."""
        for scope in file.scopes(within):
            if owner := file.graph.definitions[scope].owner.removesuffix(".prototype"):
                values = self.top_level(file, owner, depth - 1)
                return tuple(value._replace(kind="object") for value in values if value.kind == "def")
        return ()

    def top_level(
        self, file: LoadedFile, name: str, depth: int, searched: dict[str, int] | None = None
    ) -> Values:
        """Return what a name means at the top of a file.

        `searched` is the depth at which each file was already searched without success: modules that import
        all names of each other would be searched along each of the paths between them.
        """
        if depth <= 0:
            return ()
        if here := file.top(name):
            return tuple(Value("def", file.path, number) for number in here)
        if brought := [b for i, b in self.files.bound(file).get(name, ()) if i.within < 0]:
            return self._joined(self._bound_value(binding, depth) for binding in brought)
        if values := file.variables.get((-1, name)):
            return self._assigned(file, values, -1, name, depth)
        if file.language == "go" and (found := self._in_folder(posixpath.dirname(file.path), name, "go")):
            return found
        if file.language in ("c", "cpp"):
            return self._c_function(file, name)
        if file.language == "java":
            found = self._in_folder(posixpath.dirname(file.path), name, "java")
            if found:
                return found
        if file.language == "elixir":
            return self._elixir_imported(file, name, depth) or (_EXTERNAL,)
        if file.language == "kotlin" and (found := self._in_kotlin_package(file, name)):
            return found
        searched = {file.path: depth} if searched is None else searched
        is_open = False
        for _, binding in self.files.bound(file).get("*", ()):
            if binding is not None:
                for path in self.files.paths_of(binding.target):
                    if file.language == "kotlin" and path not in self.files.holders(name):
                        continue
                    if searched.get(path, 0) >= depth - 1:
                        continue
                    searched[path] = depth - 1
                    found = self._star(self.files.file(path), name, depth - 1, searched)
                    if found and found != (_EXTERNAL,):
                        return found
                    is_open = is_open or not found
            elif binding is None and file.language not in ("java", "kotlin"):
                return ()
        return () if is_open else (_EXTERNAL,)

    def _star(self, file: LoadedFile, name: str, depth: int, searched: dict[str, int]) -> Values:
        """Return what a name means that an import brings with all others of a file: in Java, of its class."""
        if file.language == "java":
            owners = file.top(posixpath.splitext(posixpath.basename(file.path))[0])
            if found := [v for owner in owners for v in self._member(file, owner, name, depth)[0]]:
                return tuple(found)
        return self.top_level(file, name, depth, searched)

    def _assigned(
        self, file: LoadedFile, values: Sequence[str], within: int, name: str, depth: int
    ) -> Values:
        """Return what a name means that is assigned these expressions; () unless all are known."""
        groups = [
            self.evaluate(file, value, within, depth - 1) if value.partition(".")[0] != name else ()
            for value in values
        ]
        return self._joined(groups) if all(groups) else ()

    def _in_folder(self, folder: str, name: str, language: str) -> Values:
        """Return the definitions of a name in the files of a folder, which share one scope."""
        found, definers = [], self.files.definers(name)
        for path in (
            self.files.java_package(folder) if language == "java" else self.files.folders.get(folder, ())
        ):
            if path in definers and self.files.known[path][0] == language:
                found += [Value("def", path, number) for number in self.files.file(path).top(name)]
        return tuple(found)

    def _in_kotlin_package(self, file: LoadedFile, name: str) -> Values:
        """Return the definitions of a name in the files of a package, wherever they are."""
        package = file.variables.get((-1, "package"), ())
        here = posixpath.dirname(file.path)
        found = []
        for path in sorted(self.files.definers(name)):
            language = self.files.known.get(path, ("", ""))[0]
            if language == "java" and in_package(posixpath.dirname(path)) == in_package(here):
                found += [Value("def", path, number) for number in self.files.file(path).top(name)]
            elif language == "kotlin":
                other = self.files.file(path)
                if other.variables.get((-1, "package"), ()) == package:
                    found += [Value("def", path, number) for number in other.top(name)]
        return tuple(found)

    def _c_function(self, file: LoadedFile, name: str) -> Values:
        """Return the functions of C that a name may mean outside its file: those that are not static."""
        found = []
        for path in self.files.definers(name):
            if self.files.known.get(path, ("", ""))[0] in ("c", "cpp"):
                other = self.files.file(path)
                for number in other.top(name):
                    if "static" not in other.graph.definitions[number].flags or path.endswith((".h", ".hpp")):
                        found.append(Value("def", path, number))
        return tuple(sorted(found)) or (_EXTERNAL,)

    def _bound_value(self, binding: Binding | None, depth: int) -> Values:
        if binding is None:
            return (_EXTERNAL,)
        if not binding.name:
            return self._shadowing(binding.target, depth) or self._module(binding.target, depth)
        values: Values = (Value("module", binding.target),)
        for part in binding.name.split("."):
            values = self._joined(self._attribute(value, part, depth - 1) for value in values)
        return values

    def _shadowing(self, target: str, depth: int) -> Values:
        """Return what a package of Python imports under the name of its submodule, from that submodule."""
        folder, name = posixpath.split(target)
        package, name = posixpath.join(folder, "__init__.py"), name.removesuffix(".py")
        if package == target or package not in self.files.known:
            return ()
        for _, binding in self.files.bound(self.files.file(package)).get(name, ()):
            if binding is not None and binding.target == target and binding.name == name:
                return self._bound_value(binding, depth - 1)
        return ()

    def _module(self, target: str, depth: int) -> Values:
        """Return the value of a file that is imported whole: in CommonJS that may be a function."""
        if not target.endswith("/"):
            file = self.files.file(target)
            if file.whole:
                return tuple(Value("def", target, number) for number in file.whole)
            if file.language in JAVASCRIPT and (given := file.variables.get((-1, "module.exports"))):
                values = self._assigned(file, given, -1, "", depth)
                if values:
                    return values
        return (Value("module", target),)

    def _called(self, values: Values, depth: int, name: str = "", on: Values = ()) -> Values:
        """Return the results of calling these values, written as that name, on these objects or classes: an
        object of a class, or what a function declares or is seen to return.
        """
        objects = tuple(one._replace(kind="object") for one in on if one.number >= 0)
        found: list[Values] = []
        for value in values:
            if value.kind == "external":
                found.append((_EXTERNAL if name[:1].isupper() or name.rstrip("()") in _TYPES else RESULT,))
            elif value.kind == "object":
                found.append((value,))  # `self()` of a class method, a declared type seen twice
            elif value.kind == "def":
                file = self.files.file(value.path)
                one = file.graph.definitions[value.number]
                is_maker = file.language in JAVASCRIPT and one.name in file.makers
                if one.unit == "c" or is_maker:
                    found.append((value._replace(kind="object"),))
                elif one.returns in _SAME and objects:
                    found.append(objects)
                elif one.returns:
                    made = self.evaluate(file, one.returns, one.parent, depth - 1)
                    found.append(made)
                elif file.language != "kotlin" or len(values) == 1:
                    return ()  # in Kotlin, another function of that name may declare it
            else:
                return ()
        return self._joined(found) if all(found) else ()

    def _attribute(self, value: Value, name: str, depth: int) -> Values:
        if depth <= 0:
            return ()
        if value.kind == "external":
            return (value,)
        if value.kind == "module":
            return self._exported(value.path, name, depth)
        file = self.files.file(value.path)
        if file.graph.definitions[value.number].unit != "c":
            owner = file.graph.definitions[value.number].name
            return tuple(Value("def", file.path, n) for n in file.owned.get((owner, name), ()))
        return self._member(file, value.number, name, depth)[0]

    def _exported(self, target: str, name: str, depth: int) -> Values:
        """Return what `name` of a file or folder is."""
        holders = self.files.holders(name)
        paths = [path for path in self.files.paths_of(target) if path in holders]
        if target.endswith("/") and any(self.files.known[path][0] == "kotlin" for path in paths):
            return tuple(
                Value("def", path, number) for path in paths for number in self.files.file(path).top(name)
            )
        for path in self.files.paths_of(target):
            file = self.files.file(path)
            if target.endswith("/") and path not in holders:
                continue
            for owner in ("exports", "module.exports"):
                if found := file.owned.get((owner, name)):
                    return tuple(Value("def", path, number) for number in found)
                if values := file.variables.get((-1, f"{owner}.{name}")):
                    return self._assigned(file, values, -1, "", depth)
            found_here = self.top_level(file, name, depth)
            if found_here and found_here != (_EXTERNAL,):
                return found_here
        if target.endswith("__init__.py"):
            inner = posixpath.join(posixpath.dirname(target), name)
            for path in (f"{inner}.py", f"{inner}/__init__.py"):
                if path in self.files.known:
                    return (Value("module", path),)
        is_object = name == "default" and self.files.known.get(target, ("", ""))[0] in JAVASCRIPT
        if is_object and not self.files.file(target).variables.get((-1, name)):
            return (Value("module", target),)
        return ()

    def _bases(self, file: LoadedFile, number: int, depth: int) -> Iterator[Values]:
        """Yield the value of each base of a class; () for one that is not known."""
        for use in file.bases.get(number, ()):
            yield self._base(file, use, depth - 1)

    def _base(self, file: LoadedFile, use: Reference, depth: int) -> Values:
        """Return the value of a base class."""
        if use.receiver.startswith(UNKNOWN):
            return ()
        written = f"{use.receiver}.{use.name}" if use.receiver else use.name
        return self.evaluate(file, written, file.graph.definitions[use.within].parent, depth)

    def _member(self, file: LoadedFile, number: int, name: str, depth: int) -> tuple[Values, bool]:
        """Return a member of a class or of its bases, and whether all of them are known."""
        if depth <= 0:
            return (), False
        own = self._own_member(file, number, name)
        if own:
            return own, True
        if values := file.variables.get((number, name)):
            return self._assigned(file, values, number, "", depth), True
        complete = True
        for values_of in self._bases(file, number, depth):
            if not values_of:
                complete = False
            for value in values_of:
                if value.kind == "external":
                    complete = False
                elif value.kind in ("def", "object"):
                    base = self.files.file(value.path)
                    if base.graph.definitions[value.number].unit != "c":
                        continue
                    found, known = self._member(base, value.number, name, depth - 1)
                    if found:
                        return found if complete else (), complete
                    complete = complete and known
        return (), complete

    def _own_member(self, file: LoadedFile, number: int, name: str) -> Values:
        one = file.graph.definitions[number]
        if name == one.name and file.language in _CLASS_SCOPED:
            return ()  # its constructor is no member
        found = [Value("def", file.path, n) for n in file.members.get((number, name), ())]
        if file.language == "kotlin":
            companions = file.members.get((number, COMPANION), ())
            found += [Value("def", file.path, n) for c in companions for n in file.members.get((c, name), ())]
            return tuple(found)  # extension functions are no members
        found += [Value("def", file.path, n) for n in file.owned.get((one.name, name), ())]
        if file.language == "rust":
            for other in file.named.get(one.name, ()):
                if other != number:
                    found += [Value("def", file.path, n) for n in file.members.get((other, name), ())]
        elif file.language == "go":
            definers = self.files.definers(name)
            for path in self.files.folders.get(posixpath.dirname(file.path), ()):
                if path != file.path and path in definers:
                    found += [
                        Value("def", path, n) for n in self.files.file(path).owned.get((one.name, name), ())
                    ]
        return tuple(found)


def is_around(file: LoadedFile, written: str) -> bool:
    """Return whether an object is of a type of Rust around another one, whose methods it has."""
    return file.language == "rust" and written.removesuffix("()") in _AROUND
