"""`evaluate`: measure our search on a folder, with questions of yours or mined from the folder itself."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from rag.corpus.acquire import acquire
from rag.errors import SettingsError, SourceError
from rag.evaluation.evaluation import Evaluation
from rag.evaluation.mine import Mined, mine_docstrings
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.results import Conditions, MeasuredRepository
from rag.evaluation.runner import run
from rag.evaluation.systems import OURS, System, read_systems
from rag.evaluation.trees import plan
from rag.service import Engine, locate
from rag.settings import ENVIRONMENT, Settings, load_settings
from rag.types import Progress, now_utc

_SHOWN_SETTINGS = ("embedder", "reranker", "embedding_dim")
"""The settings that decide what a search finds."""


def evaluate(
    folder: str | Path,
    questions: str | Path | Sequence[str | Path] = (),
    *,
    mine: Literal["docstrings"] | None = None,
    n: int = 100,
    settings: Mapping[str, str] | None = None,
    systems: Sequence[str] = (),
    k: int = 50,
) -> Evaluation:
    """Measure the search of a folder; return the results of every question.

    Args:
        folder: the repository.
        questions: files of questions, see `docs/evaluation.md`.
        mine: take the questions from the repository itself instead.
        n: the number of questions to mine.
        settings: settings of our search that differ from yours, such as `{"reranker": "student"}`.
        systems: other systems, `NAME=COMMAND` with `{path}`.
        k: the number of places that each system is asked for.

    Raises:
        SettingsError: there are no questions, or a setting or system is invalid.
        ProviderBroke: a system failed.
    """
    root, files = Path(folder), [questions] if isinstance(questions, (str, Path)) else list(questions)
    if not root.is_dir():
        raise SettingsError(f"there is no folder {root}")
    if bool(files) == (mine is not None):
        raise SettingsError('give either files of questions, or mine="docstrings"')
    measured = read_systems(systems, first=(ours_with(settings or {}),))
    if mine is not None:
        with mined(root.resolve(), n) as material:
            return measure(measured, material, k=k)
    asked = read_questions([Path(file) for file in files])
    about = ", ".join(Path(file).name for file in files)
    return measure(measured, Material(asked, {one.repo: root.resolve() for one in asked}, about), k=k)


def ours_with(settings: Mapping[str, str]) -> System:
    """Return our own search with other settings, named after them.

    Raises:
        SettingsError: there is no such setting, or its value is invalid.
    """
    known = {field.name for field in fields(Settings)}
    for name in settings:
        if name not in known or name not in ENVIRONMENT:
            raise SettingsError(f"there is no setting {name!r}; docs/settings.md lists them")
    load_settings(dict(settings))
    named = ", ".join(f"{name}={value}" for name, value in settings.items())
    variables = {ENVIRONMENT[name][0]: str(value) for name, value in settings.items()}
    return replace(OURS, name=f"{OURS.name} {named}".strip(), variables=variables)


@dataclass(frozen=True, slots=True)
class Material:
    """Questions and the folders that they are about, by repository name.

    `about` says where the questions come from.
    """

    questions: list[Question]
    folders: Mapping[str, Path]
    about: str


def measure(
    systems: Sequence[System],
    material: Material,
    *,
    k: int,
    progress: Progress = lambda label, done, total: None,
) -> Evaluation:
    """Ask the systems the questions.

    Raises:
        SettingsError, ProviderBroke, SourceError: as `rag.evaluation.runner.run`.
    """
    began, asked = now_utc(), material.questions
    outcomes = run(systems, plan(asked, material.folders), k=k, progress=progress)
    names = {one.repo for one in asked}
    found = [_state(name, folder) for name, folder in material.folders.items() if name in names]
    conditions = Conditions(
        date=f"{began:%Y-%m-%d %H:%M}",
        repositories=tuple(found),
        questions=f"{len(asked)}: {material.about}" if material.about else str(len(asked)),
        settings=_settings(systems[0]) if systems[0].ours else {},
        version=importlib.metadata.version("rag-turns"),
    )
    return Evaluation(tuple(asked), tuple(outcomes), k, conditions)


@contextmanager
def mined(
    folder: Path, count: int, keep: Callable[[str, Mined], None] = lambda text, found: None
) -> Iterator[Material]:
    """Yield questions taken from a repository.

    `keep` is called with the questions as JSON lines, and with where they come from.

    Raises:
        SettingsError: the repository gives no question.
    """
    with TemporaryDirectory(prefix="rag-mine-") as workplace:
        engine = Engine(Settings(home=Path(workplace)))
        found = mine_docstrings(engine, folder, count)
        engine.close()
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in found.records)
        keep(text, found)
        file = Path(workplace) / "questions.jsonl"
        file.write_text(text, encoding="utf-8")
        about = f"the documentation of {found.considered:,} definitions, removed from the searched copy"
        yield Material(read_questions([file]), {"": folder}, about)


def _settings(ours: System) -> dict[str, str]:
    given = {name: ours.variables.get(ENVIRONMENT[name][0]) for name in _SHOWN_SETTINGS}
    settings = load_settings(given)
    values = {name: getattr(settings, name) for name in _SHOWN_SETTINGS}
    return {name: str(value) for name, value in values.items() if value is not None}


def _state(name: str, folder: Path) -> MeasuredRepository:
    try:
        with TemporaryDirectory(prefix="rag-eval-home-") as home:
            checkout = acquire(locate(str(folder)), home=Path(home))
    except SourceError:
        return MeasuredRepository(name or folder.name)
    return MeasuredRepository(name or folder.name, checkout.commit, checkout.dirty)
