"""The folders that are indexed: a repository, or a copy of it whose answering docs are emptied.

A question mined from a docstring uses the docstring's own words, so it is asked about a copy in which these
lines are blank (emptied, not deleted: places keep their numbers).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.errors import SettingsError, SourceError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder and the questions about it. `docs` are lines that are emptied before it is indexed."""

    repo: str
    root: Path
    questions: tuple[Question, ...]
    docs: tuple[LineSpan, ...] = ()

    @property
    def label(self) -> str:
        """The name of the tree in reports."""
        return f"{self.repo}, docs emptied" if self.docs else self.repo


def plan(questions: Sequence[Question], folders: Mapping[str, Path]) -> list[Tree]:
    """Group the questions into the trees they are asked about, in the order of their first question.

    `folders`: repository name → its files; the name "" is for questions without a repository.

    Raises:
        SettingsError: a question is about a repository that is not among the folders.
    """
    groups: dict[tuple[str, bool], list[Question]] = {}
    for question in questions:
        if question.repo not in folders:
            raise SettingsError(
                f"the question {question.id} is about {question.repo or 'no named repository'}, whose folder "
                "is not given; give a folder for each repository"
            )
        groups.setdefault((question.repo, question.doc is not None), []).append(question)
    return [
        Tree(
            repo or folders[repo].name,
            folders[repo],
            tuple(group),
            tuple(question.doc for question in group if question.doc),
        )
        for (repo, _), group in groups.items()
    ]


@contextmanager
def indexed_folder(tree: Tree) -> Iterator[Path]:
    """Yield the folder to index: the tree's own, or a copy that is deleted at the end of the context.

    Raises:
        SourceError: the copy cannot be made, or a doc is not where the question says.
    """
    if not tree.docs:
        yield tree.root
        return
    with TemporaryDirectory(prefix="rag-eval-") as workplace:
        copy = Path(workplace) / tree.root.name
        try:
            shutil.copytree(tree.root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            empty_lines(copy, tree.docs)
        except (OSError, shutil.Error) as error:
            raise SourceError(f"cannot copy {tree.root} to empty its docs: {error}") from error
        yield copy


def empty_lines(root: Path, spans: Iterable[LineSpan]) -> None:
    """Empty these lines of the files below `root`; line ends are kept.

    Raises:
        SourceError: a file has fewer lines than that.
        OSError: a file cannot be read or written.
    """
    by_path: dict[str, list[LineSpan]] = {}
    for span in spans:
        by_path.setdefault(span.path, []).append(span)
    for path, wanted in by_path.items():
        lines = (root / path).read_bytes().split(b"\n")
        last = max(span.end for span in wanted)
        if last > len(lines):
            raise SourceError(f"{path} has {len(lines)} lines, line {last} cannot be emptied; check the doc")
        for span in wanted:
            for n in range(span.start - 1, span.end):
                lines[n] = b"\r" if lines[n].endswith(b"\r") else b""
        (root / path).write_bytes(b"\n".join(lines))
