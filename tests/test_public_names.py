import importlib.metadata
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import rag
import rag.wiki
from rag import RAG, Settings
from rag.errors import SettingsError


@pytest.mark.parametrize("name", rag.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert (getattr(rag, name).__doc__ or "").strip()


@pytest.mark.parametrize("module", [rag, rag.wiki])
def test_every_public_name_is_listed_before_it_is_loaded(module):
    assert set(module.__all__) <= set(dir(module))


def test_nothing_else_is_promised():
    assert sorted(rag.__all__) == sorted(rag._HOME_OF)
    with pytest.raises(AttributeError, match="no attribute 'Rag'"):
        rag.Rag  # noqa: B018 - the access is the test


def test_the_version_is_that_of_the_distribution():
    assert rag.__version__ == importlib.metadata.version("rag-turns")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import rag", ["numpy", "adalflow", "openai", "faiss", "typer"]),
        ("import rag.cli", ["numpy", "adalflow", "openai", "faiss", "tiktoken", "jinja2"]),
        ("from rag import Engine", ["adalflow", "openai", "faiss"]),
        ("from rag import RAG", ["mcp", "IPython", "rag.display.html", "rag.display.values"]),
    ],
)
def test_an_import_loads_no_more_than_it_needs(code, absent):
    check = f"{code}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_mcp_tools_of_adalflow_are_imported_when_they_are_used(monkeypatch):
    core = import_module("rag.adal").adalflow.core
    monkeypatch.setitem(sys.modules, "adalflow.core.mcp_tool", SimpleNamespace(MCPToolManager="a class"))
    assert core.MCPToolManager == "a class"
    monkeypatch.setitem(sys.modules, "adalflow.core.mcp_tool", None)
    assert core.MCPToolManager is None
    with pytest.raises(AttributeError, match="no attribute 'MCP'"):
        core.MCP  # noqa: B018 - the access is the test


@pytest.mark.parametrize("steps", [-1, 99])
def test_python_refuses_a_number_of_steps_as_every_interface_does(steps: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="it must be auto, or from 0 to 20"):
        Settings(home=tmp_path, steps=steps)
    with pytest.raises(SettingsError, match="it must be auto, or from 0 to 20"):
        RAG(settings=Settings(home=tmp_path), steps=steps)
