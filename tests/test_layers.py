"""The drawing of who may import whom, held true."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).resolve().parent.parent / "rag"
ROOMS = {
    "code",
    "corpus",
    "database",
    "retrieval",
    "memory",
    "prompt",
    "answer",
    "answer_cache",
    "turns",
    "review",
}
GROUND = set(
    "types errors analysis resources schema searchable quoting parsing messages lines cut_code top_k decoding"
    " notebook_text markdown forges".split()
) | {"hints", "identifiers", "display", "frames", "isolated", "isolation", "processes", "request_context"}
PORTS = {"ports", "settings", "job_queue", "store_shelf"}
DOORS = {"cli", "__main__", "serve", "wiki", "evaluation", "adapters", "worker"}

MAY = {
    **dict.fromkeys(GROUND, GROUND),
    **dict.fromkeys(PORTS, GROUND | PORTS),
    "adal": GROUND,
    **{room: GROUND | PORTS | {room} for room in ROOMS},
    "backends": GROUND | PORTS | {"backends", "adal", "turns"},
    "agent": GROUND | PORTS | ROOMS | {"agent"},
    "service": GROUND | PORTS | ROOMS | {"backends", "agent", "service"},
    "diagnosis": GROUND | PORTS | {"service", "database", "backends"},
    "component": GROUND | PORTS | {"service", "component", "database", "backends", "adal"},
    **dict.fromkeys(
        DOORS,
        GROUND | PORTS | DOORS | {"component", "service", "diagnosis", "database", "retrieval"},
    ),
    "mcp": GROUND | PORTS | {"mcp", "service", "retrieval", "review", "memory", "wiki"},
    "notebook": GROUND | PORTS | {"service", "component", "notebook"},
    "__init__": GROUND | PORTS | {"component", "service", "notebook"},
}
MAY["corpus"] = MAY["corpus"] | {"code"}
MAY["database"] = MAY["database"] | {"corpus", "code"}
MAY["memory"] |= {"turns"}
MAY["retrieval"] = MAY["retrieval"] | {"code"}
MAY["review"] = MAY["review"] | {"code", "memory"}  # it joins both: what rests on changed code
MAY["component"] = (MAY["component"] | {"memory"}) - {"backends"}
for door in ("cli", "serve", "adapters"):
    MAY[door] = MAY[door] | {
        "memory",
        "answer_cache",
    }  # facts, preferences and what was recalled are shown as they are
for door in ("cli", "serve"):
    MAY[door] = MAY[door] | {"review", "mcp"}  # a review is shown as it is
MAY["evaluation"] |= {"corpus"}  # which commit was searched, and which lines may be shown
MAY["integrations"] = GROUND | PORTS | {"integrations", "service", "wiki"}
MAY["cli"] |= {"integrations"}
MAY["cli"] |= {"answer"}  # how sure an answer is, in words
MAY["adapters"] |= {"prompt"}
MAY["serve"] |= {"answer", "code"}  # where the references of an answer's text are
MAY["wiki"] = (MAY["wiki"] | {"code", "corpus", "answer"}) - {
    "cli",
    "__main__",
    "serve",
    "evaluation",
    "adapters",
    "worker",
}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


MODULES = {path: room_of(path) for path in sorted(ROOT.rglob("*.py"))}
"""The room of each module. A test is of a room, and names the modules of it that break the rule."""
ROOMS_FOUND = sorted(set(MODULES.values()))


def modules(room: str) -> list[Path]:
    return [path for path, of in MODULES.items() if of == room]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """The rooms of our own that a module imports, wherever in it."""
    return {name.split(".")[1] for name in house.imported_names(path) if name.startswith("rag.")}


python_imports = cache(house.python_imports)


def test_every_room_has_modules_and_a_rule():
    assert len(MODULES) > 400
    assert set(ROOMS_FOUND) == set(MAY)


def test_no_import_is_relative():
    for path in MODULES:
        levels = [n.level for n in house.imports_of(path) if isinstance(n, ast.ImportFrom)]
        assert not any(levels), path


PARTS = {
    "rag.service": {
        "drawings": set(),
        "repositories": {"drawings"},
        "tools": {"repositories"},
        "upkeep": {"repositories"},
        "checks": {"repositories", "upkeep"},
        "loop": {"checks", "repositories", "tools", "upkeep"},
    },
    "rag.backends": {
        **{technology: set() for technology in ("sqlite", "redis", "postgres", "memory", "openai", "shelf")},
        "sessions": set(),
        "queue": {"postgres"},
        "llama": {"openai"},
    },
    "rag.serve": {
        "access": {"errors", "settings"},
        "workers": {"errors", "telemetry"},
        "repositories": {"access", "errors", "settings", "telemetry", "workers"},
        "api": {"access", "errors", "links", "repositories", "service", "sse", "workers"},
        "openai": {"access", "api", "errors", "links", "repositories", "service", "sse"},
        "mcp": {"access", "api", "errors", "links", "middleware", "repositories", "service"},
        "deepwiki": {
            "access", "api", "errors", "links", "openai", "repositories", "service", "settings", "sse"
        },
        "page": {"access", "api", "service"},
    },
    "rag.wiki": {
        "facts": set(),
        "pages": {"facts", "models"},
        "prose": {"facts", "models", "pages"},
        "site": {"facts", "models", "pages", "prose"},
    },
}  # fmt: skip
"""What the sub-packages of a package may import of it."""


@pytest.mark.parametrize(
    ("package", "part"), [(package, part) for package, parts in PARTS.items() for part in parts]
)
def test_sub_packages_import_one_way(package, part):
    found = set()
    for module, others in python_imports().items():
        if module.startswith(f"{package}.{part}."):
            found |= {name.split(".")[2] for name in others if name.startswith(f"{package}.")}
    assert found <= PARTS[package][part] | {part}


def test_every_sub_package_has_its_rule():
    for package, parts in PARTS.items():
        folder = ROOT / package.rpartition(".")[2]
        assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(parts)


def test_no_modules_import_each_other_in_a_circle():
    assert house.circles(python_imports()) == []


def test_no_scripts_of_the_page_import_each_other_in_a_circle():
    imports = house.script_imports()
    assert set().union(*imports.values()) <= set(imports) and imports["main.js"]
    assert house.circles(imports) == []


def test_a_circle_is_found():
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a", "d"], "e": []}
    assert house.circles(graph) == [["a", "b", "c"]]


def test_a_public_class_name_has_one_meaning():
    assert set(house.shared_class_names()) == set(house.SHARED_NAMES)
    assert len(house.SHARED_NAMES) <= house.MAX_SHARED_NAMES


@pytest.mark.parametrize("package", house.MAX_FILES)
def test_a_package_holds_few_files_of_its_own(package):
    assert len(list((ROOT / package).glob("*.py"))) <= house.MAX_FILES[package]


@pytest.mark.parametrize("room", ROOMS_FOUND)
def test_imports_run_one_way(room):
    wrong = {name_of(path): sorted(imported(path) - MAY[room]) for path in modules(room)}
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}, f"what {room} may not import"


@pytest.mark.parametrize("room", [one for one in ROOMS_FOUND if one not in {"adal", "backends", "component"}])
def test_adalflow_stays_behind_its_doors(room):
    for path in modules(room):
        source = path.read_text(encoding="utf-8")
        assert "import adalflow" not in source, path
        assert "rag.adal" not in source, path


STARTS_PROCESSES = {"processes.py", "corpus/git.py"}
"""The modules that may: the one that everything else uses, and git's, which has rules of its own."""
_MODULES = re.compile(
    r"(?:subprocess|_posixsubprocess|multiprocessing|_multiprocessing|pty|asyncio\.subprocess"
    r"|concurrent\.futures\.process|pexpect|joblib|loky|webbrowser|pydoc)(?:\..*)?"
)
_OF_OS = re.compile(
    r"(?:os|posix)\.(?:fork|forkpty|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|system|popen|startfile|\*)"
)
_NAMES = re.compile(
    r"ProcessPoolExecutor|create_subprocess_(?:exec|shell)|subprocess_(?:exec|shell)|posix_spawnp?|fork_exec"
    r"|echo_via_pager|pager"
)
_OF_CLICK = re.compile(r"(?:typer|click)\.(?:launch|edit)")


def ways_to_start_processes(source: str) -> list[str]:
    """What a module imports or names that starts processes."""
    named = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            # Under another name the calls would not be recognised.
            named += [f"{each.name}.*" if each.asname else each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Attribute):
            named.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("__import__", "import_module")):
            named += [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
    known = (_MODULES, _OF_OS, _OF_CLICK)
    return [
        name
        for name in named
        if any(pattern.fullmatch(name) for pattern in known) or _NAMES.fullmatch(name.rpartition(".")[2])
    ]


@pytest.mark.parametrize("room", ROOMS_FOUND)
def test_one_module_starts_processes(room):
    found = {
        name_of(path): ways_to_start_processes(path.read_text(encoding="utf-8"))
        for path in modules(room)
        if name_of(path) not in STARTS_PROCESSES
    }
    assert {name: ways for name, ways in found.items() if ways} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "import subprocess as sp",
        "from subprocess import Popen",
        "import multiprocessing.pool",
        "from multiprocessing import Pool",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
        "from concurrent.futures.process import ProcessPoolExecutor",
        "import os\nos.fork()",
        "import os\nos.execvpe('a', [], {})",
        "import os\nrun = os.posix_spawn",
        "import os as system",
        "from os import system",
        "import os\nos.popen('ls')",
        "import os\nos.spawnlp(0, 'a')",
        "import pty",
        "import asyncio\nasyncio.create_subprocess_exec('a')",
        "from asyncio import subprocess",
        "import asyncio\nasyncio.subprocess.PIPE",
        "loop.subprocess_shell(None, 'a')",
        "import typer\ntyper.edit()",
        "from click import launch",
        "console.pager()",
        "__import__('subprocess')",
        "import_module('multiprocessing')",
        "import webbrowser",
    ],
)
def test_every_way_to_start_a_process_is_noticed(source):
    assert ways_to_start_processes(source)


def test_paths_of_users_are_read_in_one_place():
    """`expanduser` raises RuntimeError for a user who does not exist."""
    found = [path for path in ROOT.rglob("*.py") if ".expanduser(" in path.read_text(encoding="utf-8")]
    handled = {"resources.py", "processes.py", "corpus/blocking_files.py", "corpus/address.py"}
    assert {path.relative_to(ROOT).as_posix() for path in found} == handled


def test_unusual_words_are_few():
    assert house.unusual_words().total() <= house.MAX_UNUSUAL_WORDS


def test_no_function_is_too_long():
    assert house.long_functions() == []
