"""What answers do not cover: files that are not indexed, and what these hold of the names in question.

A sentence such as "is called in 0 places" is only true of the indexed files. Before it is said, the names are
looked up in all others (`rag.corpus.unread`); other counts and lists only say what was skipped. Changed files
that the index still lacks are searched as text for every name that is asked about.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from rag.corpus import skip
from rag.corpus.unread import (
    MAX_BYTES,
    MAX_SECONDS,
    WITHHELD,
    Spans,
    Unread,
    find_in_files,
    find_unread,
    ignored_by_git,
    only_spans,
    smallest_files,
)
from rag.corpus.walk import walk
from rag.corpus.worktree import work_tree
from rag.database.store import Store
from rag.errors import SourceError
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.lookup import definitions
from rag.retrieval.question import last_part
from rag.retrieval.search import RetrievalResult
from rag.retrieval.uses import import_name, summary, uses_of_name
from rag.service.repositories.repository import Repository
from rag.types import INDEXED, LOCAL, Confidence, Reach
from rag.types.question_kinds import CALLERS, LIST, MESSAGE

_NO_TEXT = frozenset({skip.BINARY, skip.SYMLINK, skip.SYMLINK_BROKEN, skip.SYMLINK_LOOP})
_NO_CODE = _NO_TEXT | {skip.TRANSLATION, skip.DATA}
"""Reasons to skip a file that a count of texts, or of code, need not mention: there is none in it."""
_NAMED_PLACES = 6
_MAX_NAMES = 12
_DOUBTFUL = WITHHELD | {skip.BEYOND}
"""Reasons of files that were not searched and may have a name that was found nowhere."""
_FILES_BYTES, _MAX_FILES, _PARTS_BYTES = 1 << 20, 50, 1 << 18
"""How much of the files that are not indexed, and of parts of indexed ones, is searched with every count."""
_FEW_FILES = 5_000
"""In a repository with more files they are not listed again only to search what was skipped by its name."""
_IGNORED_SECONDS = 10
"""How often git is asked at most which files it ignores."""
_PENDING_BYTES = 16 << 20
"""How much of the changed files that are not indexed yet is searched."""
WARNING_SECONDS = 0.3
"""The time of the search before a warning, which only doubts, and in a step of a look: both come far more
often than an answer that counts 0.
"""


def with_unread(
    repositories: Sequence[Repository], found: RetrievalResult, *, reach: Reach = LOCAL
) -> RetrievalResult:
    """Add to the facts about a name what is not indexed; before "in 0 places", search it for the name."""
    facts = found.code_facts
    if facts is None or facts.kind not in (CALLERS, LIST, MESSAGE):
        return found
    here = {item.location for item in facts.items}
    of = [one for one in repositories if one.source.location in here] or list(repositories)
    if facts.kind == CALLERS:
        notes = [uses_note(one, facts.subject, facts.count, reach=reach) for one in of]
    else:
        names = ((one, _word(one.store, facts.subject) if facts.kind == LIST else "") for one in of)
        notes = [_count_note(one, [name] if name else (), reach=reach) for one, name in names]
    note = "; ".join(filter(None, (facts.note, *notes)))
    return replace(found, code_facts=replace(facts, note=note, complete=facts.complete and not any(notes)))


def uses_note(
    repository: Repository, name: str, count: int, *, reach: Reach, max_seconds: float = MAX_SECONDS
) -> str:
    """Return what "`name` is used in `count` places" does not cover, "" for nothing; with 0 places, the name
    is searched in all that is not indexed.
    """
    name = _word(repository.store, name)
    if count:
        return _count_note(repository, [name], reach=reach)
    note = unread_note(repository, [name], reach=reach, max_seconds=max_seconds)
    return note or "all files were searched"


def calls_note(repository: Repository, name: str, path: str, start: int, *, reach: Reach) -> str:
    """Return who calls the definition on a line in a sentence, with what that does not cover."""
    index = repository.store
    meant = [one for one in index.graph.definitions(name) if (one.path, one.start) == (path, start)]
    found = uses_of_name(index, name, meant=meant)
    note = uses_note(repository, name, len(found.found), reach=reach)
    return "; ".join(filter(None, (summary(found, files=index.file_count), *found.limits, note)))


def text_note(
    repository: Repository,
    text: str,
    count: int = 0,
    *,
    ignore_case: bool = False,
    regex: bool = False,
    reach: Reach,
    max_seconds: float = MAX_SECONDS,
) -> str:
    """Return what `count` matches of a text or an expression do not cover, "" for nothing; with 0, all that
    is not indexed is searched for it.

    For callers of a server only whole words are looked up, and no expressions: else they could guess what is
    not indexed, one letter after the other.
    """
    if regex and not reach.secrets:
        counts = _count_note(repository, is_text=bool(count), reach=reach)
        return counts if count else f"not searched for an expression: what is not indexed; {counts}"
    from rag.retrieval.exact import matcher  # late: a question needs no regular expressions of RE2

    names = matcher(text, regex=True, ignore_case=ignore_case) if regex else [text]
    if count:
        return _count_note(repository, names, ignore_case=ignore_case, is_text=True, reach=reach)
    whole = not reach.secrets
    note = unread_note(
        repository,
        names,
        ignore_case=ignore_case,
        whole=whole,
        reach=reach,
        max_seconds=max_seconds,
    )
    return f"{note}; what is not indexed is searched for whole words only" if whole and note else note


def _word(index: ChunkIndex, name: str) -> str:
    """Return the word by which code names something; of a file the one under which it is imported."""
    return import_name(name) if "/" in name or index.chunks_of(name) else last_part(name)


def unread_note(
    repository: Repository,
    names: Sequence[str] | Spans,
    *,
    ignore_case: bool = False,
    whole: bool = True,
    reach: Reach = LOCAL,
    max_seconds: float = MAX_SECONDS,
) -> str:
    """Return where names are in what is not indexed, and what was not searched; "" if all is indexed."""
    found = _searched_unread(
        repository, names, ignore_case=ignore_case, whole=whole, reach=reach, max_seconds=max_seconds
    )
    return found if isinstance(found, str) else _note(found)


def _searched_unread(
    repository: Repository,
    names: Sequence[str] | Spans,
    *,
    ignore_case: bool,
    whole: bool = True,
    reach: Reach,
    max_seconds: float,
) -> Unread | str:
    """Return what was found of names in what is not indexed; a sentence if that could not be searched."""
    if not repository.checkout.has_files:
        return "not searched: what is not indexed, as the files are not on this machine"
    root, store = repository.checkout.root, repository.store
    every = {store.file_path(n) for n in range(store.total_files) if not store.dead_files[n]}
    every.difference_update(repository.compared.behind)
    try:
        walked = walk(root, repository.source.filters, max_file_bytes=store.max_file_bytes)
    except SourceError as error:
        return f"not searched: what is not indexed ({error})"
    return find_unread(
        root,
        names,
        walked,
        indexed=every,
        skipped=_skipped(repository),
        ignore_case=ignore_case,
        whole=whole,
        left_out=_left_out(store),
        reach=reach,
        max_seconds=max_seconds,
    )


def _left_out(store: Store, max_bytes: int = MAX_BYTES) -> Iterator[tuple[str, bytes]]:
    """Yield what is not indexed of indexed files, by path, up to a limit of the texts' bytes."""
    for path, spans in store.left_out.items():
        text = store.bytes_of(path) or b""
        max_bytes -= len(text)
        if max_bytes < 0:
            return
        yield path, only_spans(text, spans)


def _skipped(repository: Repository) -> dict[str, str]:
    """Return why files were not indexed that were read, by path."""
    skips = repository.store.content_skips()
    return {one.path: one.reason for one in skips if one.reason not in INDEXED}


def _note(found: Unread) -> str:
    said = []
    if found.places:
        groups = groupby(found.places[:_NAMED_PLACES], lambda place: place.reason)
        named = [f"{', '.join(one_line(one.place) for one in places)} ({why})" for why, places in groups]
        more = f" and {len(found.places) - _NAMED_PLACES} more" if len(found.places) > _NAMED_PLACES else ""
        said.append(f"not indexed: {', '.join(named)}{more}")
    if found.searched:
        said.append(f"also searched, though not indexed: {_counts(found.searched)}")
    if left_out := +found.left_out:
        said.append(f"not searched: {_counts(left_out)}")
    if found.limit:
        said.append(f"the search of what is not indexed is incomplete: {found.limit}")
    return "; ".join(said)


def _count_note(
    repository: Repository,
    names: Sequence[str] | Spans = (),
    *,
    ignore_case: bool = False,
    is_text: bool = False,
    reach: Reach,
) -> str:
    """Return what a count of places does not cover, "" for nothing: what is known without a long search.

    A name that `is_text`, or what an expression matches, may be anywhere, also in a longer word, and in data.
    """
    root, has_files = repository.checkout.root, repository.checkout.has_files
    state = (repository.store.header["id"], repository.checkout.commit, repository.compared.behind)
    ignored = _ignored(root, state, int(time.monotonic() / _IGNORED_SECONDS)) if has_files else ()
    reasons = {
        path: skip.VENDORED if skip.vendored_folder(path) else skip.GIT_IGNORED for path in ignored or ()
    }
    found = Unread()
    if names:
        found = _short_search(repository, names, reasons, reach, ignore_case=ignore_case, is_text=is_text)
    counts = _skip_counts(repository, _NO_TEXT if is_text else _NO_CODE) + Counter(reasons.values())
    counts.subtract(found.searched)
    found.left_out = +counts + Counter({skip.LONG_LINE: found.left_out[skip.LONG_LINE]})
    pending = _pending_note(repository, names, reach) if names and not callable(names) else ""
    unlisted = "not searched: what git ignores, as git does not list it" if ignored is None else ""
    return "; ".join(
        filter(None, (_note(replace(found, searched=Counter())), pending, unlisted, _outside(root)))
    )


@lru_cache(maxsize=64)
def _ignored(root: Path, state: object, period: int) -> Sequence[str] | None:
    """Return what git ignores in a folder at a state of its index; it is asked again in each period."""
    return ignored_by_git(root)


def _short_search(
    repository: Repository,
    names: Sequence[str] | Spans,
    ignored: Mapping[str, str],
    reach: Reach,
    *,
    ignore_case: bool,
    is_text: bool,
) -> Unread:
    """Look up names where that takes little: in a few files that are not indexed, and in parts of others."""
    root, store = repository.checkout.root, repository.store
    own = {path: why for path, why in ignored.items() if why == skip.GIT_IGNORED and path[-1] != "/"}
    files = _skipped(repository) | own if repository.checkout.has_files else {}
    if is_text and repository.checkout.has_files and store.total_files <= _FEW_FILES:
        files |= _skipped_by_name(repository)
    small = smallest_files(root, files, max_bytes=_FILES_BYTES)[:_MAX_FILES]
    parts = list(_left_out(store, _PARTS_BYTES))
    found = find_in_files(
        root,
        names,
        {path: files[path] for path in small},
        left_out=parts,
        max_bytes=_FILES_BYTES + _PARTS_BYTES,
        max_seconds=WARNING_SECONDS,
        ignore_case=ignore_case,
        whole=not (is_text and reach.secrets),
        reach=reach,
    )
    found.left_out[skip.LONG_LINE] = len(store.left_out) - len(parts)
    return found


def _skipped_by_name(repository: Repository) -> dict[str, str]:
    """Return why files of text were not read, such as generated ones; {} if they cannot be listed."""
    try:
        walked = walk(
            repository.checkout.root,
            repository.source.filters,
            max_file_bytes=repository.store.max_file_bytes,
        )
    except SourceError:
        return {}
    return {one.path: one.reason for one in walked.skipped if one.reason not in _NO_TEXT}


def _skip_counts(repository: Repository, without: Set[str] = _NO_CODE) -> Counter[str]:
    """Return how many files of code were skipped, by reason, or how many for all reasons but some."""
    counts = Counter({why: n for why, n in repository.coverage.skipped.items() if why not in without})
    counts[skip.UNDECODED] += sum(why == skip.BINARY for why in _skipped(repository).values())
    return +counts


def _outside(root: Path) -> str:
    """Return that a folder is part of a git repository, "" if it is not."""
    if (root / ".git").exists() or not any((one / ".git").exists() for one in root.parents):
        return ""
    return "" if work_tree(root) in (None, root) else "not searched: what is outside the folder"


def pending_notes(
    repositories: Sequence[Repository], names: Sequence[str], said: str = "", *, reach: Reach
) -> list[str]:
    """Return where names are in changed files that the index lacks, as sentences, without what was `said`."""
    notes = (
        (one.source.name, _pending_note(one, names[:_MAX_NAMES], reach, said))
        for one in repositories
        if names
    )
    return [f"{name}: {note}" for name, note in notes if note]


def _pending_note(repository: Repository, names: Sequence[str], reach: Reach, said: str = "") -> str:
    """Return where names are in changed files that the index lacks; "" if they are not there."""
    if not repository.compared.behind:
        return ""
    paths = dict.fromkeys(repository.compared.behind, skip.NOT_YET)
    found = find_in_files(repository.checkout.root, names, paths, max_bytes=_PENDING_BYTES, reach=reach)
    places = [one for one in found.places if not _is_said(one_line(one.place), said)]
    return _note(replace(found, places=places, searched=Counter()))


def _is_said(place: str, note: str) -> bool:
    """Return whether a note names a place as `_note` does."""
    return any(f" {place}{end}" in f" {note}" for end in (",", " (", " and "))


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


def is_part(repository: Repository) -> bool:
    """Return whether code of the repository is not indexed, as far as that is known without a search."""
    root, has_files = repository.checkout.root, repository.checkout.has_files
    return bool(_skip_counts(repository) or _outside(root)) or not has_files


def missing_note(
    repositories: Sequence[Repository],
    confidence: Confidence | None,
    named: Sequence[str] = (),
    *,
    reach: Reach,
) -> str:
    """Return where the words that a question misses, and the names in it that nothing indexed defines, are in
    what is not indexed; or that this is not known. "" if they are nowhere.
    """
    if confidence is None or confidence.is_sure:
        return ""
    missing = [*confidence.absent, *([confidence.missing_part.name] if confidence.missing_part else [])]
    notes = list[str]()
    for one in repositories:
        others = (name for name in map(last_part, named) if not definitions(one.store, name))
        if names := list(dict.fromkeys((*missing, *others)))[:_MAX_NAMES]:
            found = _searched_unread(one, names, ignore_case=True, reach=reach, max_seconds=WARNING_SECONDS)
            notes.append("" if isinstance(found, str) else _doubt(found))
    return "; ".join(filter(None, notes))


def _doubt(found: Unread) -> str:
    """Return where names were found, or else what may have them, "" for nothing."""
    if found.places:
        return _note(found)
    is_doubtful = not _DOUBTFUL.isdisjoint(+found.left_out)
    left_out = found.left_out if is_doubtful else Counter[str]()
    return _note(replace(found, searched=Counter(), left_out=left_out))
