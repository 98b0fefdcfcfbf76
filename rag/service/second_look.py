"""Begin a second look at a question's repositories, with the tools that it may use."""

from __future__ import annotations

from collections.abc import Sequence

from rag.agent.look import Look
from rag.agent.tools import Tools
from rag.corpus.git import GitError, run_git
from rag.corpus.history import named_commit
from rag.corpus.refs import allowed_commit
from rag.errors import SourceError
from rag.ports import TextGenerator, is_completing, is_tool_calling
from rag.service.dialog import Dialog
from rag.service.recall import recall
from rag.service.repository import Repository
from rag.service.search import SearchQuery, search_repositories
from rag.service.unread import uses_note
from rag.settings import MAX_STEPS
from rag.types import DialogTurn, Hit, Prepared

STEPS_WITHOUT_MODEL = "the steps had no effect: only a model can look again; choose one with RAG_MODEL"
_RECALLED = 3
NO_ROOM_FOR_STEPS = (
    "the steps had no effect: a context of {tokens:,} tokens has no room for one; raise context_tokens"
)


def begin_look(dialog: Dialog, prepared: Prepared, generator: TextGenerator) -> Look | None:
    """Return a second look at a question; None if no step is allowed, or the generator cannot ask for one.

    In the second case the answer gets a note.
    """
    settings = dialog.engine.settings
    if dialog.steps <= 0 or dialog.selection is not None:
        return None
    if not (is_tool_calling(generator) or is_completing(generator)):
        dialog.remarks = tuple(dict.fromkeys((*dialog.remarks, STEPS_WITHOUT_MODEL)))
        return None
    searched, around = dialog.searched, dialog.engine.reads_around
    locations = {repository.source.location for repository in searched}

    def find(query: str) -> Sequence[Hit]:
        return search_repositories(searched, SearchQuery(query, k=8), around=around).hits

    def earlier(query: str) -> Sequence[DialogTurn]:
        found = recall(dialog.engine, query, k=_RECALLED)
        return [turn for turn in found if any(cited.location in locations for cited in turn.citations)]

    def changes(since: str, until: str | None) -> Sequence[tuple[str, str]]:
        return [one for repository in searched for one in _changes(dialog, repository, since, until)]

    def unread(name: str, count: int) -> str:
        notes = (uses_note(repository, name, count, around=around) for repository in dialog.repositories)
        return "; ".join(filter(None, dict.fromkeys(notes)))

    has_history = all(repository.checkout.commit for repository in searched)
    names = [repository.source.name for repository in searched]
    tools = Tools(
        indexes=[repository.store for repository in searched],
        search=find,
        recall=earlier if dialog.history.is_stored else None,
        changes=changes if has_history else None,
        name_repository=len(names) > 1,
        names=names,
        unread=unread,
    )
    look = Look(
        prepared.question,
        prepared.prompt.sources,
        tools,
        steps=min(dialog.steps, MAX_STEPS),
        seconds=settings.timeout_s,
        window=settings.context_tokens,
        counter=dialog.engine.counter,
        home=settings.home,
        repositories=names,
    )
    if look.ended:
        note = NO_ROOM_FOR_STEPS.format(tokens=settings.context_tokens)
        dialog.remarks = tuple(dict.fromkeys((*dialog.remarks, note)))
    return look


def _changes(
    dialog: Dialog, repository: Repository, since: str, until: str | None
) -> Sequence[tuple[str, str]]:
    """Return the changed files between two commits, of those that are indexed; deleted ones are not.

    Raises:
        SourceError: there is no such commit, or git cannot read the repository.
    """
    checkout = repository.checkout
    if not checkout.has_files:
        dialog.engine.on_missing_files(repository.source)
        raise SourceError(f"the history of {repository.source.name} is not on this machine yet")
    commits = [_commit(dialog, repository, ref) for ref in (since, *([until] if until else []))]
    ends = commits if until else [*commits, str(checkout.commit)]
    try:
        output = run_git(["diff", "--no-renames", "--name-status", "-z", *ends, "--"], cwd=checkout.root)
    except GitError as error:
        raise SourceError(f"git cannot compare {since} in {repository.source.name}: {error.line}") from error
    fields = output.decode("utf-8", "surrogateescape").split("\0")[:-1]
    changed = zip(fields[::2], fields[1::2], strict=True)
    return [(what, path) for what, path in changed if repository.store.chunks_of(path)]


def _commit(dialog: Dialog, repository: Repository, ref: str) -> str:
    root, refs = repository.checkout.root, dialog.engine.refs
    try:
        found = named_commit(root, ref) if refs is None else allowed_commit(root, ref, refs)
    except GitError as error:
        raise SourceError(f"git cannot read {repository.source.name}: {error.line}") from error
    if found is None:
        raise SourceError(f"{repository.source.name} has no commit {ref[:100]!r}")
    return found
