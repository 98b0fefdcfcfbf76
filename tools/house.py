"""Print the figures of the code base: `python -m tools.house`. The tests hold those that are limits.

A circle is a group of modules that import each other, wherever in a module the import is written. A class
name has two meanings where two modules define a public class of that name.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rag"
PAGE_SCRIPTS = PACKAGE / "serve/page/static/js"
MAX_FILES = {"backends": 12, "serve": 14, "service": 1, "wiki": 2}
"""How many files may be directly in these packages."""
MAX_FUNCTION_LINES = 60
MAX_SHARED_NAMES = 6
SHARED_NAMES = {
    "RagMemory": "our memory in AgentScope and in AutoGen, each named after its framework's own class",
    "RepositoryRetriever": "our retrieval in LangChain and in LlamaIndex, named in the same way",
    "WikiPage": "a page of our wiki, and the page of deepwiki-open's protocol, whose name is given",
    "WikiSection": "the same for sections",
    "WikiStructure": "the same for structures",
}
"""Class names that two modules define, each with the reason."""
WORDS = (
    "told tell tells telling stands stand lies lie mend mends mended anew beside worn whoever "
    "whence thrice hence henceforth otherwise"
).split()
PHRASES = ("at hand", "of ours", "of theirs", "so many", "so much", "as it stands", "what is kept")
MAX_UNUSUAL_WORDS = 20
"""How often they may occur in all: as data (word lists, a field of old JSON), as `.tell()`, and in the list
of words to avoid. The number may only fall."""
_JS_IMPORT = re.compile(r"""^\s*(?:import|export)\b[^;]*?\bfrom\s*["'](\./[^"']+)["']""", re.M)
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the file of each module of a package, by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the import statements of a Python file, wherever in it."""
    return tuple(n for n in ast.walk(parsed(path)) if isinstance(n, (ast.Import, ast.ImportFrom)))


def imported_names(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a Python file imports."""
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def python_imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Return which modules of the package each of its modules imports. A name counts for its module."""
    known = modules(package)
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        graph[module] = set()
        for name in imported_names(path):
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name != module:
                graph[module].add(name)
    return graph


def script_imports(folder: Path = PAGE_SCRIPTS) -> dict[str, set[str]]:
    """Return which scripts of a folder each of its scripts imports."""
    return {
        path.name: {name.removeprefix("./") for name in _JS_IMPORT.findall(path.read_text(encoding="utf-8"))}
        for path in sorted(folder.glob("*.js"))
    }


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other, each sorted (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in order:
            visit(node)
    return sorted(found)


def shared_class_names(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Return the public class names that several modules define, with these modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return {name: homes for name, homes in sorted(found.items()) if len(homes) > 1}


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blank, comment, docstring or import."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node):
            lines.difference_update(_span(node))
    return lines


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is only a text: a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _span(node: ast.AST) -> range:
    """Return the numbers of the lines of a statement."""
    start: int = getattr(node, "lineno", 0)
    return range(start, (getattr(node, "end_lineno", None) or start) + 1)


def long_functions(package: Path = PACKAGE) -> list[tuple[str, int]]:
    """Return the functions with more than `MAX_FUNCTION_LINES` lines of code, longest first."""
    found = []
    for module, path in modules(package).items():
        source = path.read_text(encoding="utf-8")
        functions = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and len(_span(node)) > MAX_FUNCTION_LINES  # with blanks and comments
        ]
        lines = code_lines(source) if functions else set()
        for node in functions:
            length = len(lines & set(_span(node)))
            if length > MAX_FUNCTION_LINES:
                found.append((f"{module}.{node.name}", length))
    return sorted(found, key=lambda each: -each[1])


def unusual_words() -> Counter[str]:
    """Count the words of the list in the package, the page's source, the templates and the documents."""
    # A phrase may contain a word, so that the two are searched one after the other.
    patterns = [re.compile(rf"\b(?:{'|'.join(terms)})\b", re.I) for terms in (WORDS, PHRASES)]
    found: Counter[str] = Counter()
    for path in _written():
        text = path.read_text(encoding="utf-8")
        for pattern in patterns:
            found.update(term.lower() for term in pattern.findall(text))
    return found


def _written() -> Iterator[Path]:
    """Yield the files whose words people read."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in {".py", ".js", ".html"} and "vendor" not in path.parts:
            yield path
    yield from sorted(path for path in (ROOT / "templates").glob("*") if path.suffix in (".j2", ".toml"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted(ROOT.glob("*.md"))


def figures() -> Iterator[tuple[str, str]]:
    """Yield each figure with its name."""
    for name, limit in MAX_FILES.items():
        yield f"files directly in rag/{name}", f"{len(list((PACKAGE / name).glob('*.py')))} (at most {limit})"
    yield "import circles in rag", _listed(circles(python_imports()))
    yield "import circles in the page", _listed(circles(script_imports()))
    shared = shared_class_names()
    yield "class names with two meanings", f"{len(shared)} (at most {MAX_SHARED_NAMES}) {', '.join(shared)}"
    long = long_functions()
    yield (
        f"functions over {MAX_FUNCTION_LINES} lines",
        f"{len(long)} " + ", ".join(f"{name} {n}" for name, n in long),
    )
    yield "code lines", str(sum(len(code_lines(p.read_text(encoding="utf-8"))) for p in modules().values()))
    yield "docs pages", str(len(list((ROOT / "docs").rglob("*.md"))))
    words = unusual_words()
    yield "unusual words", f"{words.total()}: " + ", ".join(f"{w} {n}" for w, n in words.most_common() if n)


def _listed(found: list[list[str]]) -> str:
    return "; ".join([str(len(found)), *(" ↔ ".join(group) for group in found)])


def main() -> int:
    """Print the figures."""
    for name, value in figures():
        print(f"{name:32}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
