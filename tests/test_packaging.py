"""What is shipped works where it lands: a wheel, a checkout, no network, an empty home."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SIGNED = "How are sessions signed?"

SHIPPED = (
    "templates/answer.j2",
    "templates/system.j2",
    "templates/look.j2",
    "templates/reword.j2",
    "data/embedding/table.bin",
    "data/encodings/9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "data/prices.toml",
    "data/NOTICE",
    "templates/look.toml",
    "templates/mcp.toml",
)
PACKAGED = (
    "serve/page/static/index.html",
    "serve/page/static/vendor/mermaid.min.js",
    "serve/page/static/vendor/purify.LICENSE",
)
BLOCKED = """
import socket
def refuse(self, address):
    raise OSError(f"no network in this test, but {address!r} was asked for")
socket.socket.connect = socket.socket.connect_ex = refuse
def unknown(*arguments, **named):
    raise socket.gaierror(f"no names in this test, but {arguments!r} was asked for")
socket.getaddrinfo = unknown
"""


@pytest.fixture(scope="session")
def dists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our wheel and sdist, built as pip builds them."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; `make test` installs it")
    folder = tmp_path_factory.mktemp("dist")
    build = "from hatchling.build import build_sdist, build_wheel; build_wheel({0!r}); build_sdist({0!r})"
    subprocess.run(
        [sys.executable, "-c", build.format(str(folder))], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def installed(dists: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the wheel, without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    (wheel,) = dists.glob("*.whl")
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, wheel], check=True)
    return target


@pytest.fixture(params=["wheel", "checkout"])
def package(request: pytest.FixtureRequest) -> Path:
    """What stands on the path of a program that imports rag."""
    place: Path = request.getfixturevalue("installed") if request.param == "wheel" else ROOT
    return place


def python(code: str, package: Path, cwd: Path, **env: str) -> str:
    """Run a program with `package` on its path, from another folder; return what it printed."""
    path = os.pathsep.join(filter(None, (env.pop("before", ""), str(package))))
    # An earlier test in this process may have imported adalflow through us, which points at our encodings.
    inherited = {name: value for name, value in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_templates_and_data_are_found_from_a_wheel_and_a_checkout(package, tmp_path):
    code = f"""
        import rag
        from rag.resources import packaged, shipped
        print(rag.__file__)
        for name in {SHIPPED!r}:
            print(shipped(name), shipped(name).stat().st_size > 0)
        for name in {PACKAGED!r}:
            print(packaged(name), packaged(name).stat().st_size > 0)
    """
    where, *files = python(code, package, tmp_path).splitlines()
    assert Path(where).is_relative_to(package)
    assert len(files) == len(SHIPPED) + len(PACKAGED)
    for line in files:
        assert Path(line.removesuffix(" True")).is_relative_to(package), line


def test_a_wheel_holds_the_package_and_what_it_needs_and_no_more(dists):
    (wheel,) = dists.glob("rag_turns-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {f"rag/_shipped/{name}" for name in SHIPPED} < set(names)
    assert {f"rag/{name}" for name in PACKAGED} < set(names)
    assert "rag/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rag", "tiktoken_ext"}
    assert not [name for name in names if "__pycache__" in name or ".ruff_cache" in name]
    assert wheel.stat().st_size < 20_000_000


def test_an_sdist_holds_all_that_it_is_built_and_tested_from(dists):
    (sdist,) = dists.glob("rag_turns-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*SHIPPED, *(f"rag/{name}" for name in PACKAGED)} < names
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "Makefile",
        "rag/__init__.py",
        "tests/conftest.py",
    } < names
    assert "data/sample_repo/snip/sessions.py" in names


def test_adalflow_can_be_imported_first_without_a_network(package, tmp_path):
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(BLOCKED)
    code = """
        import adalflow, os, rag
        print(adalflow.core.types.Document(text="hello").estimated_num_tokens)
    """
    options = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "before": str(tmp_path / "blocked")}
    for _ in range(2):
        assert python(code, package, tmp_path, **options).split() == ["1"]
    assert [path.name for path in (tmp_path / "data-gym-cache").iterdir()] == [Path(SHIPPED[5]).name]


def test_offline_in_an_empty_home_everything_works(package, tmp_path, sample_repo):
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(BLOCKED)
    (tmp_path / "empty").mkdir()
    code = f"""
        import os, socket
        try:
            socket.create_connection(("127.0.0.1", 9))
        except OSError as error:
            assert "no names" in str(error)
        else:
            raise SystemExit("the network is not blocked")
        assert "TIKTOKEN_CACHE_DIR" not in os.environ
        from rag.adal import adalflow
        assert adalflow.core.types.Document(text="hello").estimated_num_tokens == 1
        from rag import RAG
        rag = RAG()
        rag.prepare_retriever({str(sample_repo)!r})
        answer = rag({SIGNED!r})
        follow_up = rag("And when do they expire?")
        print(answer.citations[0].path, follow_up.citations[0].path, len(rag.memory()))
    """
    home = {"HOME": str(tmp_path / "empty"), "RAG_HOME": ""}
    printed = python(code, package, tmp_path, before=str(tmp_path / "blocked"), **home)
    assert printed.split() == ["snip/sessions.py", "snip/sessions.py", "2"]
    left = {path.name for path in (tmp_path / "empty").iterdir()}
    assert left <= {".local", "Library", ".adalflow"}


def test_the_command_runs_from_a_wheel(installed, tmp_path, sample_repo):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for arguments, told in (
        (["--version"], "rag-turns"),
        (["search", str(sample_repo), SIGNED], "sessions.py"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "rag", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told in done.stdout
