"""Say where a file is that a question names and that is not indexed: renamed, removed, or not known."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rag.corpus.line_history import removal
from rag.quoting import one_line
from rag.retrieval.asked_history import asked_history
from rag.retrieval.kinds.recognition import relation_of
from rag.retrieval.mentions import asks_only_for_paths, is_path
from rag.retrieval.question import ParsedQuestion
from rag.retrieval.search import RetrievalResult
from rag.service.repositories.repository import Repository
from rag.service.tools.definition_history import by, history_root

_FILE = re.compile(r"/(?:[\w.-]*\w)?\.[A-Za-z]\w{0,7}\Z")
"""The end of a path that is that of a file; a name without folders may be that of anything."""
_ALIKE = 0.8
"""How alike the name of another file is that may be meant."""
_MAX_SEARCHED = 3
"""The most files for which the history is searched."""
_READ_HITS = 5
"""A path that one of the first hits has in its text is one of another program, or a route."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A sentence on a file that is not indexed; the question may be only about it: the file `is_subject`."""

    sentence: str
    is_subject: bool


def missing_file(repositories: Sequence[Repository], found: RetrievalResult) -> MissingFile | None:
    """Return the first file that a question names, if no repository has it; None if there is none such."""
    question = found.sought.question
    if not question.paths or (question.places and not question.lines):
        return None  # the frames of a traceback may be those of other programs
    known = {path: one for one in repositories for path in one.store.known_files()}
    if any(is_path(path, mentioned) for path in known for mentioned in question.paths):
        return None
    is_subject = _is_subject(question)
    searched = [path for path in question.paths if is_subject or "/" in path][:_MAX_SEARCHED]
    removed = (_removed(one, path) for path in searched for one in repositories)
    sentence = next(filter(None, removed), "")
    if not sentence:
        named = [path for path in question.paths if _is_file(path, question.text)]
        shown = "\n".join(hit.text for hit in found.hits[:_READ_HITS])
        if not named or any(path in shown for path in named):
            return None
        names = {path.rpartition("/")[2]: path for path in known}
        near = get_close_matches(named[0].rpartition("/")[2], names, n=1, cutoff=_ALIKE)
        nearest = "".join(f"; the nearest name is `{one_line(names[name])}`" for name in near)
        sentence = (
            f"`{one_line(named[0])}` is not among the indexed files of {_named(repositories)}{nearest}."
        )
    return MissingFile(sentence, is_subject)


def _is_file(path: str, text: str) -> bool:
    return _FILE.search(path) is not None and f"//{path}" not in text  # no URL


def _is_subject(question: ParsedQuestion) -> bool:
    """Return whether a question is only about the files that it names, their history or their uses."""
    text = question.text
    asks_of_it = asked_history(text) is not None or relation_of(text) is not None
    return bool(question.lines) or asks_of_it or asks_only_for_paths(question)


def _removed(repository: Repository, path: str) -> str:
    """Return which commit removed or renamed a file, in a sentence; "" if that is not known."""
    commit = repository.checkout.commit
    root = repository.checkout.root
    if commit is None or not repository.checkout.has_files or os.path.lexists(root / path):
        return ""
    found = removal(history_root(repository), commit, path)
    if found is None:
        return ""
    went = f"renamed to `{one_line(found.renamed_to)}`" if found.renamed_to else "removed"
    name = one_line(found.path)
    return f"`{name}` is not in {_named([repository])}: it was {went} {by(found.change)}."


def _named(repositories: Sequence[Repository]) -> str:
    if len(repositories) != 1:
        return "these repositories"
    commit = repositories[0].checkout.commit
    return one_line(repositories[0].source.name) + (f" at {commit[:10]}" if commit else "")
