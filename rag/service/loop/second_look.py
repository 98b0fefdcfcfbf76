"""Begin a second look at a question's repositories, with the tools that it may use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rag.agent.budget import REPLY_TOKENS
from rag.agent.look import LookLimits, Surroundings
from rag.agent.results import Found, FoundPart
from rag.agent.text_look import TextLook
from rag.agent.tool_look import ToolLook
from rag.agent.tools import Changes, Lines, Recall, TextQuery, Tools
from rag.corpus.git import GitError, run_git
from rag.corpus.history import first_parents
from rag.errors import NotFound, SourceError
from rag.ports import TextGenerator, is_completing, is_tool_calling
from rag.quoting import counted
from rag.retrieval.exact import MAX_SECONDS, TextResult, find_text
from rag.retrieval.shown_definition import hit_of_lines
from rag.service.checks.recall import recall
from rag.service.loop.dialog import Dialog
from rag.service.repositories.repository import Repository
from rag.service.tools.explore import explore, more_places
from rag.service.tools.explored_definitions import ExploredPlace
from rag.service.tools.search import nothing_within, within
from rag.service.tools.unread import WARNING_SECONDS, text_note, uses_note
from rag.settings import AUTO_STEPS, MAX_STEPS
from rag.types import DialogTurn, Prepared, SearchFilter

STEPS_WITHOUT_MODEL = "the steps had no effect: only a model can look again; choose one with RAG_MODEL"
NO_ROOM_FOR_STEPS = (
    "the steps had no effect: a context of {tokens:,} tokens has no room for one; raise context_tokens"
)
_AUTO_REQUESTS = 6
"""The most requests to the model for one question, if the number of steps is not set."""
_AUTO_WINDOW = 6_000
"""With a smaller context window, the model looks again only if it is asked to."""
_RECALLED = 3
_SEARCH_TOKENS = 450
_MATCHES = 40
_GAP = 8
"""The most lines between two lines of one place."""

Form = Literal["", "tools", "text"]


def form_of_look(dialog: Dialog, generator: TextGenerator) -> Form:
    """Return how the model looks again: by calling tools, with lines of text, or not at all ("").

    With steps `auto` a model looks that calls tools, except a model file of this machine, and where the
    reply must be JSON, which is no conversation, or so short that calls would be cut as well. If no model can
    make the steps that are wanted, the answer gets a note.
    """
    steps, settings = dialog.steps, dialog.engine.settings
    if not steps or dialog.selection is not None:
        return ""
    is_conversation = is_tool_calling(generator) and not dialog.options.is_json
    if steps == AUTO_STEPS:
        limit = dialog.options.max_tokens
        fits = settings.context_tokens >= _AUTO_WINDOW and (limit is None or limit >= REPLY_TOKENS)
        return "tools" if is_conversation and fits and settings.local_model is None else ""
    if is_conversation:
        return "tools"
    if is_completing(generator):
        return "text"
    dialog.remark(STEPS_WITHOUT_MODEL)
    return ""


def begin_look(dialog: Dialog, prepared: Prepared, form: Form) -> ToolLook | TextLook | None:
    """Return a second look at a question; None if there is no form of it, or no room for a step."""
    if not form:
        return None
    settings, is_auto = dialog.engine.settings, dialog.steps == AUTO_STEPS
    steps = MAX_STEPS if dialog.steps == AUTO_STEPS else min(int(dialog.steps), MAX_STEPS)
    requests = _AUTO_REQUESTS - 1 if is_auto else steps  # the last one is the answer's
    limits = LookLimits(steps, requests, settings.timeout_s, settings.context_tokens)
    names = [repository.source.name for repository in dialog.searched]
    around = Surroundings(dialog.engine.counter, settings.home, names)
    kind = ToolLook if form == "tools" else TextLook
    look = kind(prepared, tools_of(dialog, prepared), limits, around)
    if not look.ended:
        return look
    if not is_auto:
        dialog.remark(NO_ROOM_FOR_STEPS.format(tokens=settings.context_tokens))
    return None


def tools_of(dialog: Dialog, prepared: Prepared) -> Tools:
    """Return the tools of a question; those for earlier turns and changes only if there are any."""
    searched, reach = dialog.searched, dialog.engine.reach

    def search(query: str, seen: Lines) -> Found:
        return _explored(dialog, query, seen)

    def find(wanted: TextQuery) -> tuple[Sequence[TextResult], str]:
        return _texts(dialog, wanted)

    def unread(name: str, count: int) -> str:
        notes = (
            uses_note(one, name, count, reach=reach, max_seconds=WARNING_SECONDS)
            for one in dialog.repositories
        )
        return "; ".join(filter(None, dict.fromkeys(notes)))

    return Tools(
        indexes=[repository.store for repository in searched],
        search=search,
        find=find,
        recall=_recall(dialog, prepared),
        changes=_changes(dialog),
        names=[repository.source.name for repository in searched],
        unread=unread,
    )


# ---------------------------------------------------------------- search


def _texts(dialog: Dialog, wanted: TextQuery) -> tuple[Sequence[TextResult], str]:
    """Return the lines with each text, and if there are none in words what is not indexed."""
    only = SearchFilter(paths=(wanted.path,) if wanted.path else ())
    stores = [one.store for one in within(dialog.searched, only)]
    if not any(store.live_count for store in stores):
        raise NotFound(nothing_within(only))
    found = [
        find_text(
            stores,
            text,
            regex=wanted.is_regex,
            ignore_case=wanted.ignores_case(text),
            k=_MATCHES // len(wanted.texts),
            max_seconds=MAX_SECONDS / len(wanted.texts),
        )
        for text in wanted.texts
    ]
    if wanted.path or any(one.hits for one in found):
        return found, ""
    notes = (
        text_note(
            one,
            wanted.texts[0],
            ignore_case=wanted.ignores_case(wanted.texts[0]),
            regex=wanted.is_regex,
            reach=dialog.engine.reach,
            max_seconds=WARNING_SECONDS,
        )
        or "all files were searched"
        for one in dialog.repositories
    )
    return found, "; ".join(filter(None, dict.fromkeys(notes)))


def _explored(dialog: Dialog, query: str, seen: Lines) -> Found:
    """Return the places that `explore` returns, with their lines."""
    parts: list[FoundPart] = []
    notes: list[str] = []
    for repository in dialog.searched:
        found = explore(
            repository,
            query,
            counter=dialog.engine.counter,
            budget_tokens=_SEARCH_TOKENS // len(dialog.searched),
            seen={path: set(lines) for path, lines in seen.items()},
            reach=dialog.engine.reach,
        )
        parts += [part for place in found.places for part in _parts_of(repository, place)]
        if found.more:
            where = f" in {repository.source.name}" * (len(dialog.searched) > 1)
            notes.append(f"{more_places(found.more)}{where}")
    if not parts:
        again = " that was not shown before" if seen else ""
        return Found((FoundPart(f"nothing{again} was found"),), "0 places")
    rest = [FoundPart(f"{'; '.join(notes)}; or search again with more exact words")] if notes else []
    return Found((*parts, *rest), counted(len(parts), "place"))


def _parts_of(repository: Repository, place: ExploredPlace) -> Iterator[FoundPart]:
    """Yield the lines of a place, those that are near each other together."""
    groups: list[list[tuple[int, str]]] = []
    for line in place.lines:
        if groups and line[0] - groups[-1][-1][0] <= _GAP:
            groups[-1].append(line)
        else:
            groups.append([line])
    for lines in groups:
        hit = hit_of_lines(repository.store, place.path, lines[0][0], lines[-1][0])
        if hit is not None:
            yield FoundPart(place.label, hit, tuple(lines))


# ---------------------------------------------------------------- earlier turns, changes


def _recall(dialog: Dialog, prepared: Prepared) -> Recall | None:
    """Return the search of earlier turns about these repositories; None if it finds none for the question."""
    locations = {repository.source.location for repository in dialog.searched}
    shown = {turn.id for turn in prepared.prompt.turns}

    def earlier(query: str) -> Sequence[DialogTurn]:
        found = recall(dialog.engine, query, k=_RECALLED)
        return [
            turn
            for turn in found
            if turn.id not in shown and any(cited.location in locations for cited in turn.citations)
        ]

    return earlier if dialog.history.is_stored and earlier(prepared.question) else None


def _changes(dialog: Dialog) -> Changes | None:
    """Return the comparison of two commits; None if a repository has less than two."""
    here = [one.checkout for one in dialog.searched if one.checkout.commit and one.checkout.has_files]
    if len(here) < len(dialog.searched) or any(len(first_parents(one.root, 2)) < 2 for one in here):
        return None

    def changes(since: str, until: str | None) -> Sequence[tuple[str, str]]:
        return [one for repository in dialog.searched for one in _changed(dialog, repository, since, until)]

    return changes


def _changed(
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
    try:
        found = dialog.engine.named_commit(repository.checkout.root, ref)
    except GitError as error:
        raise SourceError(f"git cannot read {repository.source.name}: {error.line}") from error
    if found is None:
        raise SourceError(f"{repository.source.name} has no commit {ref[:100]!r}")
    return found
