"""Find what a change affects: the callers of changed symbols, lines that use what is gone, and tests."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rag.code.reference_queries import has_references
from rag.review.changed_symbols import FilePair, ReviewedTree, SymbolPair, line_map
from rag.review.values import AffectedTest, BrokenUse, CallSite
from rag.types import CodeDefinition, CodeUse

MAX_STEPS = 3
"""A test is found if it calls a changed symbol through at most this many calls."""
_MAX_EXPANDED = 300
"""At most this many definitions are asked for their callers."""
_MAX_GONE = 1_000
"""At most this many removed definitions are asked for their uses in the base."""
_MAX_NAMES = 5
_MAX_USERS = 60
_HUB_USES = 40
"""The tests of a definition with more uses than this are only reached directly."""
_WEIGHT_POSSIBLE, _WEIGHT_IMPORT, _WEIGHT_NAMED = 0.3, 0.1, 0.05
"""What a possible call, an import and the name of a file weigh; a certain call weighs 1."""
_TEST_PART = re.compile(
    r"(?i)^(?:tests?|spec|it)[_.-]|[_.-](?:unit|integration|e2e)?[_.-]?(?:tests?|specs?|cases?)$"
    r"|(?<=[a-z0-9])(?:Tests?|Spec|TestCase|IT)$|^Test(?=[A-Z])"
)
HOLDS_TESTS = re.compile(
    r"\bdef test|\bclass Test|\bclass \w*Tests?\b|#\[(?:\w+::)*test|@(?:Parameterized)?Test\b"
    r"|\bfunc (?:\([^)\n]{0,200}\) )?(?:Test|Benchmark|Fuzz)\w*\(|\[(?:Fact|Theory|Test|TestMethod)\b"
    r"|\bfunction test\w*\(|\bTEST\w*\s*\(|\b\w*[tT]ester\.run\("
    r"|\b(?:it|test|describe|context|specify|suite)(?:\.\w+)*\s*[\(`'\"]"
    r"|\b(?:it|describe|context|specify)\s+['\"]"
)
"""What begins a test in the frameworks of many languages."""
_FAMILY = {
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), "javascript"),
    **dict.fromkeys(("c", "cpp", "objc"), "c"),
    **dict.fromkeys(("java", "kotlin", "scala", "groovy"), "java"),
}
"""Languages that use each other's names."""
_DOTTED = re.compile(r"(\.?)([\w$]+)")
_LEAST_NAME = 4
"""The minimum length of a name of which other names may have the words."""
_MAX_BY_WORDS = 5
_TEST_FOLDERS = frozenset("t test spec unit integration e2e functional src main java kotlin scala".split())
"""Words of the folders of tests, and of the roots of code, that are not in the path of the tested file."""
_CONSTRUCTORS = ("__init__", "__new__", "constructor", "initialize")


class Impact:
    """What a change affects.

    Args:
        base: the tree before the change.
        head: the tree after it.
        files: the files that differ.
        symbols: the symbols that differ.
    """

    def __init__(
        self, base: ReviewedTree, head: ReviewedTree, files: Sequence[FilePair], symbols: Sequence[SymbolPair]
    ) -> None:
        self._base, self._head = base, head
        self._pairs = {pair.old: pair for pair in files if pair.old}
        self._files, self._symbols = files, symbols
        self._added = {symbol.new for symbol in symbols if symbol.change == "added"}
        self._uses: dict[CodeDefinition, list[CodeUse]] = {}
        self._base_uses: dict[CodeDefinition, list[CodeUse]] = {}
        self._is_base_cut = False
        self._constants: dict[str, dict[str, list[CodeUse]]] = {}
        self._maps: dict[str, list[int]] = {}
        self._holding: dict[str, bool] = {}
        self._in_head: dict[str, set[tuple[str, str]]] = {}
        self.expanded = 0
        """How many definitions were asked for their callers."""

    @property
    def is_cut(self) -> bool:
        """Whether more definitions than allowed would have been asked for their callers."""
        return self.expanded > _MAX_EXPANDED or self._is_base_cut

    # ------------------------------------------------------------ callers

    def callers(self, symbol: SymbolPair) -> list[CallSite]:
        """Return the lines of the head outside of tests that use a symbol, certain ones first.

        A removed symbol has none: they are `broken`.
        """
        if symbol.unit == "constant":
            found = self._users_of_constant(symbol)
        else:
            found = self._uses_of(symbol.new) if symbol.new else []
        sites = {CallSite(use.path, use.line, use.within, use.certain, use.through): None for use in found}
        own = symbol.new
        return [
            site
            for site in sites
            if not self._head.is_test(site.path)
            and not (own and site.path == own.path and own.start <= site.line <= own.end)
        ]

    def _uses_of(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the calls of a definition, or if there are none the mentions; of a class both."""
        if target not in self._uses:
            self.expanded += 1
            if self.expanded > _MAX_EXPANDED:
                return []
            found = self._head.graph.uses([target])
            if target.unit != "class" and any(use.role == "call" for use in found):
                found = [use for use in found if use.role == "call" or use.certain]
            if target.unit == "class":
                found = [*found, *self._head.graph.subclasses(target)]
            elif target.scope and target.name in _CONSTRUCTORS:
                found = [*found, *self._uses_of_class(target)]
            found = [use for use in found if use.certain or self._is_possible(use, target)]
            self._uses[target] = sorted(set(found), key=lambda use: (not use.certain, use.path, use.line))
        return self._uses[target]

    def _is_possible(self, use: CodeUse, target: CodeDefinition) -> bool:
        """Return whether a possible use counts: not of what is new, and not in an unrelated language."""
        return target not in self._added and self._is_alike(use.path, target.path)

    def _is_alike(self, path: str, other: str) -> bool:
        """Return whether two files are in one language, or in languages that use each other's names."""
        one, another = self._language(path), self._language(other)
        return _FAMILY.get(one, one) == _FAMILY.get(another, another)

    def _language(self, path: str) -> str:
        known = self._head.known.get(path) or self._base.known.get(path)
        return known[0] if known else ""

    def _uses_of_class(self, member: CodeDefinition) -> list[CodeUse]:
        for one in self._head.graph.defined_in(member.path):
            if one.unit == "class" and one.qualified_name == member.scope:
                return self._head.graph.callers([one])
        return []

    def _uses_in_base(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the uses of a definition in the base."""
        if target not in self._base_uses:
            if len(self._base_uses) == _MAX_GONE:
                self._is_base_cut = True
                return []
            self._base_uses[target] = self._base.graph.uses([target])
        return self._base_uses[target]

    def _users_of_constant(self, symbol: SymbolPair) -> list[CodeUse]:
        """Return the lines that hold the name of a constant in its file and in those that import it."""
        if symbol.change == "removed":
            return []
        if symbol.path not in self._constants:
            self._constants[symbol.path] = self._users_of_constants(symbol.path)
        users = self._constants[symbol.path].get(symbol.name, [])
        return [
            use for use in users if use.path != symbol.path or not symbol.start <= use.line <= symbol.end
        ][:_MAX_USERS]

    def _users_of_constants(self, path: str) -> dict[str, list[CodeUse]]:
        """Return the lines that hold the changed constants of a file, by name."""
        names = {one.name for one in self._symbols if one.unit == "constant" and one.path == path}
        found: dict[str, list[CodeUse]] = defaultdict(list)
        for user in dict.fromkeys((path, *(use.path for use in self._head.graph.importers(path)))):
            definitions = self._head.definitions(user)
            for number, line in enumerate(self._head.lines(user), 1):
                words = _DOTTED.findall(line)
                for name in names.intersection(name for dot, name in words if user != path or not dot):
                    around = definitions.around(number)
                    within = around.qualified_name if around else ""
                    found[name].append(CodeUse(user, number, within, "mention", certain=False))
        return found

    # ------------------------------------------------------------ what still uses what is gone

    def broken(self) -> list[BrokenUse]:
        """Return the lines of the head that use a removed or renamed symbol as the base meant it.

        The line itself is unchanged, and what it names is not defined any more. Certain ones come first, then
        by path and line.
        """
        found: dict[tuple[str, int, str], BrokenUse] = {}
        for symbol in self._symbols:
            if symbol.old is None or symbol.unit == "constant":
                continue
            same = symbol.new is not None and (symbol.new.path, symbol.new.qualified_name) == (
                symbol.old.path,
                symbol.old.qualified_name,
            )
            if symbol.change in ("removed", "renamed") or (symbol.new and not same):
                name = f"{symbol.old.path}:{symbol.old.qualified_name}"
                for use in self._still_used(symbol.old):
                    key = (use.path, use.line, name)
                    found.setdefault(key, BrokenUse(use.path, use.line, use.within, name, use.certain))
        return sorted(found.values(), key=lambda use: (not use.certain, use.path, use.line, use.symbol))

    def _still_used(self, old: CodeDefinition) -> Iterator[CodeUse]:
        uses = self._uses_in_base(old)
        if self._is_base_cut:
            return
        others = self._defined_in_head(old.name)
        if (self._successor(old.path), old.qualified_name) in others:
            return
        for use in [*uses, *self._imports_of(old)]:
            path, line = self._now(use.path, use.line)
            if line and not self._resolves(path, line, old.name, use):
                certain = use.certain and not (old.scope and others)
                yield CodeUse(path, line, use.within, use.role, certain)

    def _defined_in_head(self, name: str) -> set[tuple[str, str]]:
        """Return the paths and qualified names of the definitions of a name in the head."""
        if name not in self._in_head:  # thousands of symbols may have the same name
            found = self._head.graph.definitions(name)
            self._in_head[name] = {(one.path, one.qualified_name) for one in found}
        return self._in_head[name]

    def _successor(self, path: str) -> str:
        pair = self._pairs.get(path)
        return path if pair is None else pair.new

    def _imports_of(self, old: CodeDefinition) -> Iterator[CodeUse]:
        """Yield the imports of the base that name a definition at the top of a file."""
        if old.scope:
            return
        for file, imported, binding in self._base.graph.files.importing(old.path):
            names = [there for there, _ in imported.names]
            if binding.target == old.path and old.name in names:
                lines = self._base.lines(file.path)
                word = re.compile(rf"(?<![\w$]){re.escape(old.name)}(?![\w$])")
                rows = range(imported.start, min(imported.end, len(lines)) + 1)
                line = next((row for row in rows if word.search(lines[row - 1])), imported.start)
                yield CodeUse(file.path, line, file.qualified(imported.within), "import", certain=True)

    def _now(self, path: str, line: int) -> tuple[str, int]:
        """Return the place of a line of the base in the head; the line is 0 if it is not there any more."""
        pair = self._pairs.get(path)
        if pair is None:
            return path, line
        if not pair.new:
            return "", 0
        if path not in self._maps:
            self._maps[path] = line_map(self._base, self._head, pair)
        mapped = self._maps[path]
        return pair.new, mapped[line - 1] + 1 if line <= len(mapped) else 0

    def _resolves(self, path: str, line: int, name: str, was: CodeUse) -> bool:
        """Return whether the name on a line of the head means a definition, or comes from elsewhere now."""
        file = self._head.graph.files.file(path)
        references = [use for use in file.references if use.line == line and use.name == name]
        for use in references:
            if any(value.kind == "def" for value in self._head.graph.names.resolve(file, use)):
                return True
            if not use.receiver and was.role != "import" and self._comes_from_elsewhere(path, name):
                return True
        if was.role == "import":
            return any(
                binding is not None and binding.target and self._defines(binding.target, name)
                for imported, binding in self._head.graph.files.bindings(file)
                if imported.start <= line <= imported.end and name in dict(imported.names)
            )
        return not references

    def _comes_from_elsewhere(self, path: str, name: str) -> bool:
        """Return whether the head assigns a name in the file, or imports it from elsewhere than before."""
        file = self._head.graph.files.file(path)
        if (-1, name) in file.variables:
            return True
        before = self._base.graph.files.file(path)
        now = [imported.module for imported, _ in self._head.graph.files.bound(file).get(name, ())]
        then = [imported.module for imported, _ in self._base.graph.files.bound(before).get(name, ())]
        return bool(now) and now != then

    def _defines(self, target: str, name: str) -> bool:
        """Return whether a file, or one of a folder, defines, assigns or imports a name."""
        if target.endswith("/"):
            return True
        file = self._head.graph.files.file(target)
        return bool(
            file.top(name) or (-1, name) in file.variables or self._head.graph.files.bound(file).get(name)
        )

    # ------------------------------------------------------------ tests

    def tests(self) -> list[AffectedTest]:
        """Return the test files that exercise what changed: those that certainly do first, the best first.

        A test certainly exercises a symbol that it calls directly or through certain calls. It possibly does
        if the object of a call is not known, if it is named after a changed file, or if it imports one.
        """
        reached: dict[str, _Reached] = defaultdict(_Reached)
        for symbol in self._symbols:
            if symbol.change != "comment" and not self._head.is_test(symbol.path):
                self._walk(symbol, reached)
        changed = [pair.new for pair in self._files if pair.new and self._head.is_test(pair.new)]
        differing = {symbol.path for symbol in self._symbols if symbol.change != "comment"}
        for path in changed:
            if path in differing:
                reached[path].is_changed = True
        sources = self._changed_sources()
        for source in sources:
            for use in self._head.graph.importers(source):
                if self._holds_tests(use.path):
                    reached[use.path].add(_WEIGHT_IMPORT, f"imports {source}", certain=False)
        for path, source in self._named_after(sources):
            reached[path].add(_WEIGHT_NAMED, f"is named after {source}", certain=False)
        ranked = sorted(reached.items(), key=lambda item: (not item[1].certain, -item[1].weight, item[0]))
        return [
            AffectedTest(path, tuple(one.names)[:_MAX_NAMES], one.why, one.certain, one.is_changed)
            for path, one in ranked
        ]

    def _changed_sources(self) -> list[str]:
        """Return the files of code with a symbol that differs in more than comments."""
        found = {s.path for s in self._symbols if s.change != "comment" and s.path in self._head.known}
        return sorted(path for path in found if not self._head.is_test(path))

    def _walk(self, symbol: SymbolPair, reached: dict[str, _Reached]) -> None:
        """Find the tests of one symbol, nearest first."""
        frontier = [(symbol.new, "")] if symbol.new else []
        self._note(self._users_of_constant(symbol) if symbol.unit == "constant" else [], symbol, reached)
        if symbol.unit == "constant":
            users = self._users_of_constant(symbol)
            frontier = [(one, one.name) for one in self._around(u for u in users if u.path == symbol.path)]
        if symbol.change == "removed" and symbol.old is not None:
            uses = [replaced for use in self._uses_in_base(symbol.old)
                    if (replaced := self._placed(use)) is not None]  # fmt: skip
            self._note(uses, symbol, reached)
            frontier = [(one, one.name) for one in self._around(u for u in uses if u.certain)]
        seen = {one for one, _ in frontier}
        for step in range(1, MAX_STEPS + 1):
            following: list[tuple[CodeDefinition, str]] = []
            for target, through in frontier:
                uses = self._uses_of(target)
                self._note(uses, symbol, reached, step=step, through=through)
                onward = [use for use in uses if use.certain]
                if len(onward) > _HUB_USES:
                    continue
                for one in self._around(onward):
                    if one not in seen and not self._holds_tests(one.path):
                        seen.add(one)
                        following.append((one, through or one.name))
            frontier = following

    def _placed(self, use: CodeUse) -> CodeUse | None:
        path, line = self._now(use.path, use.line)
        return CodeUse(path, line, use.within, use.role, use.certain) if line else None

    def _note(
        self,
        uses: Iterable[CodeUse],
        symbol: SymbolPair,
        reached: dict[str, _Reached],
        *,
        step: int = 1,
        through: str = "",
    ) -> None:
        files: dict[str, bool] = {}
        for use in uses:
            if self._holds_tests(use.path):
                files[use.path] = files.get(use.path, False) or use.certain
                if use.within:
                    reached[use.path].names[use.within] = None
        scope, _, name = symbol.name.rpartition(".")
        name = scope.rpartition(".")[2] if scope and name in _CONSTRUCTORS else name
        for path, certain in files.items():
            verb = "uses" if symbol.unit != "function" else "calls"
            why = f"{verb} {name}" + (f" through {through}" if through else "")
            weight = (1.0 if certain else _WEIGHT_POSSIBLE) / step
            reached[path].add(weight, why if certain else f"possibly {why}", certain=certain)

    def _holds_tests(self, path: str) -> bool:
        """Return whether a file has tests of its own; one without helps others, as `conftest.py`."""
        if path not in self._holding:
            found = self._head.is_test(path)
            if found and not HOLDS_TESTS.search("\n".join(self._head.lines(path))):
                is_used = path.endswith((".go", "/conftest.py")) or self._head.graph.importers(path)
                found = not is_used
            self._holding[path] = found
        return self._holding[path]

    def _around(self, uses: Iterable[CodeUse]) -> Iterator[CodeDefinition]:
        """Yield the definitions that the uses are in, each once."""
        found: dict[CodeDefinition, None] = {}
        for use in uses:
            if (inside := self._head.definitions(use.path).around(use.line)) is not None:
                found[inside] = None
        yield from found

    def _named_after(self, sources: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the test files with the name of a changed file, each with that file.

        Else those whose name has all its words, and no others than its path has (`test_command_start` of
        `commands/start`); else those in a folder of that name. They are in folders of tests or of that path.
        Of several, those whose folders have most names in common with the file's.
        """
        by_stem, by_folder = self._tests_by_name()
        for source in sources:
            subject = subject_of(source)
            found = by_stem.get(subject) or self._with_words(by_stem, source) or by_folder.get(subject, [])
            own = set(source.split("/")[:-1])
            words = _TEST_FOLDERS.union(_words_of(source))
            found = [
                path
                for path in found
                if words.issuperset(_words_of(posixpath.dirname(path)))
                and self._is_alike(path, source)
                and self._holds_tests(path)
            ]
            best = max((len(own & set(path.split("/"))) for path in found), default=0)
            for path in found:
                if len(own & set(path.split("/"))) == best:
                    yield path, source

    @staticmethod
    def _with_words(by_stem: Mapping[str, list[str]], source: str) -> list[str]:
        """Return the test files whose names have all words of a file's name, and no others than its path."""
        own, around = set(_words_of(subject_of(source))), set(_words_of(source))
        if not own or max(map(len, own)) < _LEAST_NAME:
            return []
        named = [name for name in by_stem if own <= set(_words_of(name)) <= around]
        return [path for name in named for path in by_stem[name]][:_MAX_BY_WORDS]

    def _tests_by_name(self) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
        """Return the test files by what they are named after, and by the name of their folder."""
        stems: dict[str, list[str]] = defaultdict(list)
        folders: dict[str, list[str]] = defaultdict(list)
        for path in self._head.known:
            if self._head.is_test(path) and has_references(self._language(path)):
                stems[subject_of(path)].append(path)
                folders[subject_of(posixpath.dirname(path))].append(path)
        return stems, folders


@dataclass(slots=True)
class _Reached:
    """How a test file exercises what changed; `why` is the reason with the largest weight."""

    weight: float = 0.0
    certain: bool = False
    why: str = ""
    is_changed: bool = False
    names: dict[str, None] = field(default_factory=dict)
    _best: tuple[bool, float] = (False, 0.0)

    def add(self, weight: float, why: str, *, certain: bool) -> None:
        """Add a reason."""
        self.weight += weight
        self.certain = self.certain or certain
        if not self.why or (certain, weight) > self._best:
            self.why, self._best = why, (certain, weight)


def subject_of(path: str) -> str:
    """Return what a file is named after: its name without extension and marks of tests, in lower case.

    Of a file that represents its folder (`__init__.py`, `index.ts`, `mod.rs`), the name of the folder.
    """
    stem = posixpath.basename(path).partition(".")[0] or posixpath.basename(path)
    if stem in ("__init__", "index", "mod", "lib", "main"):
        stem = posixpath.basename(posixpath.dirname(path)) or stem
    return _TEST_PART.sub("", stem).lower().strip("_-") or stem.lower()


def _words_of(name: str) -> list[str]:
    """Return the words of a name or a path in lower case, without the mark of a plural."""
    return [word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)]
