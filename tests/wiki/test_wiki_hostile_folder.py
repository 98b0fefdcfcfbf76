"""The folder of a wiki came with a hostile repository: nothing outside of it is read, written or removed."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import rag
from conftest import git

from rag.errors import WikiUnwritable
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.wiki import WikiOptions, check_wiki, write_wiki
from rag.wiki.pages.links import copy_name
from rag.wiki.site.build_state import read_state
from rag.wiki.site.mkdocs import DRAWING_FILE, MERMAID_FILE, STYLE_FILE
from rag.wiki.site.output_files import MAX_BYTES, OutputFiles, is_below

SECRET = "a secret of this machine\n"
STATE = ".rag-wiki.json"
WRITTEN = (
    STATE, "mkdocs.yml", "docs", "docs/index.md", "docs/api.md", "docs/llms.txt", "docs/llms-full.txt",
    *(f"docs/{name}" for name in (STYLE_FILE, DRAWING_FILE, MERMAID_FILE)),
    "docs/assets", "docs/source", "docs/source/app.py.html",
)  # fmt: skip


UNREAD = (f"docs/{MERMAID_FILE}", "docs/source/app.py.html")
"""Files that are replaced whatever they hold."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("code")
    (root / "app.py").write_text('def run():\n    """Run it."""\n    return stop()\n\n\ndef stop(): ...\n')
    (root / "README.md").write_text("# App\n\nApp is a program that runs and stops.\n")
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no run may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    (folder / "app.py.html").write_text(SECRET)
    return folder


def write(code: Path, folder: Path, **options: Any) -> str:
    """Write a wiki, and return the notes or the error."""
    mermaid = folder.parent / "mermaid.js"
    mermaid.write_text("draw();\n")
    with_engine = Engine(load_settings())
    try:
        wanted = WikiOptions(mermaid=mermaid, **options)
        report = write_wiki(with_engine, with_engine.repository(locate(str(code))), folder, wanted)
        return " ".join(report.notes)
    except WikiUnwritable as error:
        return f"error: {error}"
    finally:
        with_engine.close()


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }


def link_to_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "secret")


def link_to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new")


def link_to_itself(path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def link_to_device(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def folder_with_a_file(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "file").write_text("")


def huge(path: Path, outside: Path) -> None:
    path.touch()
    os.truncate(path, 10 * MAX_BYTES)


HOSTILE = [
    link_to_file, link_to_folder, link_to_nothing, link_to_itself, link_to_device,
    pipe, folder_with_a_file, huge,
]  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_whatever_is_in_the_place_of_a_file_nothing_outside_is_touched(code, outside, tmp_path, name):
    for number, make in enumerate(HOSTILE):
        for has_state in (False, True):
            folder = tmp_path / f"{number}{has_state}"
            if has_state:
                write(code, folder)
                assert (folder / name).exists(), "the list of files is complete"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                path.rename(tmp_path / f"before{number}")
            else:
                path.unlink(missing_ok=True)
            make(path, outside)
            for overwrite in (False, True):
                said = write(code, folder, overwrite=overwrite)
                is_replaced = make is huge and name in UNREAD
                is_right = make is folder_with_a_file and name in ("docs", "docs/assets", "docs/source")
                if has_state and not (is_replaced or is_right):
                    assert said.startswith("error: ") and name in said, (make.__name__, said)
            assert set(files(outside).values()) == {SECRET}
            assert sorted(files(outside)) == ["app.py.html", "secret"]
            there = [
                p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and p.stat().st_size < 1e6
            ]
            assert not any(SECRET in p.read_text() for p in there)


def test_the_command_and_the_check_end_with_the_reason(code, outside, tmp_path):
    folder = tmp_path / "wiki"
    assert rag("wiki", code, "-o", folder, "--no-draw").code == 0
    (folder / "docs/api.md").unlink()
    os.mkfifo(folder / "docs/api.md")
    for more in ([], ["--check"]):
        ran = rag("wiki", code, "-o", folder, "--no-draw", *more)
        assert ran.code == 2 and "docs/api.md is not a file; remove it" in ran.err.replace("\n", " ")


def test_a_folder_that_is_a_link_of_the_repository_is_refused_and_the_user_s_own_link_is_not(
    code, outside, tmp_path
):
    repository = tmp_path / "repository"
    repository.mkdir()
    for name, text in files(code).items():
        (repository / name).write_text(text)
    (repository / "wiki").symlink_to(outside)
    (repository / "a").symlink_to(tmp_path)
    git(repository, "init", "--quiet", "--template=")
    for folder in (repository / "wiki", repository / "a/outside"):
        assert "symbolic link of the repository" in write(repository, folder)
    assert sorted(files(outside)) == ["app.py.html", "secret"]
    (tmp_path / "target").mkdir()
    (tmp_path / "mine").symlink_to(tmp_path / "target")
    assert write(repository, tmp_path / "mine") == ""
    assert (tmp_path / "target/docs/index.md").is_file()


NAMES = (
    "../../outside/secret",
    "/etc/hostname",
    "..",
    "a/../../../outside/secret",
    "",
    "a\0b",
    "C:x",
    "a\\b",
    "./a",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_in_a_state_file_that_lead_outside_are_refused(code, outside, tmp_path, name):
    folder = tmp_path / "wiki"
    write(code, folder)
    good = json.loads((folder / STATE).read_text())

    def with_page(state: dict[str, Any]) -> None:
        state["pages"]["gone"] = {**state["pages"]["api"], "file": name}

    changes: list[Callable[[dict[str, Any]], object]] = [
        with_page,
        lambda state: state["copies"].update({name: "0" * 40}),
        lambda state: state["site"].update({name: "0" * 64}),
    ]
    for change in changes:
        state = copy.deepcopy(good)
        change(state)
        (folder / STATE).write_text(json.dumps(state))
        assert "names files outside" in write(code, folder)
        assert sorted(files(outside)) == ["app.py.html", "secret"]
    with pytest.raises(WikiUnwritable):
        OutputFiles(folder).write(name, "x")


def damaged(value: Any, rng: random.Random) -> Any:
    """A JSON value with one value in it replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return {**value, key: damaged(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        number = rng.randrange(len(value))
        return [*value[:number], damaged(value[number], rng), *value[number + 1 :]]
    return rng.choice(
        [None, 1, -1, 1e308, "", "x", "../x", True, [], {}, [None], {"a": 1}, [[["x"]]], "\ud800"]
    )


def test_a_damaged_state_is_an_error_or_is_harmless(code, outside, tmp_path):
    folder, rng = tmp_path / "wiki", random.Random(1)
    write(code, folder)
    good = json.loads((folder / STATE).read_text())
    engine = Engine(load_settings())
    repository = engine.repository(locate(str(code)))
    for number in range(200):
        (folder / STATE).write_text(json.dumps(damaged(good, rng)))
        try:
            state = read_state(OutputFiles(folder))
            if number % 20 == 0:
                write_wiki(engine, repository, folder)
                check_wiki(engine, repository, folder)
        except WikiUnwritable:
            continue
        if state is not None:
            names = [*state.copies, *state.site, *(page.file for page in state.pages.values())]
            assert all(is_below(name) for name in names)
    engine.close()
    assert sorted(files(outside)) == ["app.py.html", "secret"]


def test_copies_of_files_that_differ_in_case_or_end_like_a_copy_have_places_of_their_own():
    paths = ["a", "a.html/x", "A", "A.html/x", "A.HTML/X", "b/x", "B/x", "B/X", "a.html", "b.html/c.html/d"]
    names = [copy_name(path).lower() for path in paths]
    assert len(set(names)) == len(paths)
    folders = {parent for name in names for parent in Path(name).parents}
    assert not folders & {Path(name) for name in names}


def test_a_readme_that_is_a_link_to_itself_or_out_of_the_repository_is_no_readme(code, outside, tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "app.py").write_text((code / "app.py").read_text())
    (root / "README").symlink_to("README")
    (root / "README.md").symlink_to(outside / "secret")
    (root / "README.rst").symlink_to("/dev/zero")
    assert write(root, tmp_path / "wiki") == ""
    assert SECRET.strip() not in (tmp_path / "wiki/docs/index.md").read_text()
