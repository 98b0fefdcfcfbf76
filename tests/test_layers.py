"""The drawing of who may import whom, held true."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "rag"
ROOMS = {"corpus", "database", "retrieval", "memory", "prompt", "answer"}
GROUND = {"types", "errors", "analysis", "resources", "records", "quoting", "messages", "markup"}
PORTS = {"ports", "settings"}
DOORS = {"cli", "__main__", "serve", "wiki", "evaluation", "adapters"}

MAY = {
    **dict.fromkeys(GROUND, GROUND),
    **dict.fromkeys(PORTS, GROUND | PORTS),
    "adal": GROUND,
    **{room: GROUND | PORTS | {room} for room in ROOMS},
    "backends": GROUND | PORTS | {"backends", "adal"},
    "testing": GROUND | PORTS | {"testing"},
    "service": GROUND | PORTS | ROOMS | {"backends", "service"},
    "diagnosis": GROUND | PORTS | {"service", "database", "backends"},
    "component": GROUND | PORTS | {"service", "component", "database", "backends", "adal"},
    **dict.fromkeys(
        DOORS,
        GROUND | PORTS | DOORS | {"component", "service", "diagnosis", "database", "retrieval", "testing"},
    ),
    "__init__": GROUND | PORTS | {"component", "service"},
}
MAY["database"] = MAY["database"] | {"corpus"}
MAY["component"] = (MAY["component"] | {"memory"}) - {"backends"}
for door in ("cli", "serve", "adapters"):
    MAY[door] = MAY[door] | {"memory"}  # facts, preferences and what was recalled are shown as they are
MAY["adapters"] |= {"prompt"}
MAY["wiki"] = (MAY["wiki"] | {"corpus", "answer"}) - {"cli", "__main__", "serve", "evaluation", "adapters"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def imported(path: Path) -> set[str]:
    """The rooms of our own that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("rag.") and name.count(".") >= 1}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    room = room_of(path)
    assert imported(path) <= MAY[room], f"{room} may not import {sorted(imported(path) - MAY[room])}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_adalflow_stays_behind_its_doors(path):
    source = path.read_text(encoding="utf-8")
    if room_of(path) not in {"adal", "backends", "component"}:
        assert "import adalflow" not in source
        assert "rag.adal" not in source
