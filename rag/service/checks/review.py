"""What a change makes false: the code graphs of two states of a repository, and what is stored about it.

Nothing is indexed and nothing is stored: both trees are read from git, or the folder. Files that are in the
index of the repository with the same content are not parsed again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from rag.answer_cache.cache import AnswerCache
from rag.code.file_graph import FileGraph
from rag.corpus.acquire import acquire
from rag.corpus.git import GitError
from rag.corpus.history import is_shallow, merge_base
from rag.corpus.refs import ref_not_found
from rag.corpus.tree_files import GraphOf, SharedFiles, TreeFiles
from rag.corpus.worktree import is_bare, work_tree
from rag.errors import ConfigError, NotFound, SourceError, StoreCorrupt, StoreError
from rag.lines import lines_of
from rag.memory.freshness import State, check_turns
from rag.review.changed_symbols import FilePair, ReviewedTree, SymbolPair, changed_files, changed_symbols
from rag.review.impact import Impact
from rag.review.values import (
    AffectedTest,
    ChangedSymbol,
    Review,
    ReviewCounts,
    StaleSource,
    StaleStatement,
    StatementKind,
)
from rag.service.checks.facts import facts_of
from rag.service.checks.snapshots import CommitState, FolderState
from rag.service.repositories.engine import Engine
from rag.service.upkeep.retention import KeptFiles
from rag.types import Checkout, Citation, DialogTurn, Freshness, Source, UserQuery, worst

WORK_TREE = "work tree"
MAX_RANGE_CHARS = 500
_MAX_SYMBOLS, _MAX_BROKEN, _MAX_TESTS, _MAX_STATEMENTS = 200, 100, 60, 100
_MAX_CALLERS = 10
_MAX_KINDS = 5
_MAX_SENTENCES, _MAX_SENTENCE_CHARS = 3, 240
_MAX_CHANGED_FILES = 2_000
_ORDER = ("removed", "signature", "body", "renamed", "moved", "added", "comment")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_REFERENCE = re.compile(r"\[(\d+(?:\s*[,;–-]\s*\d+)*)\]")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReviewRange:
    """The two states that are compared.

    `head` None is the work tree; `from_merge_base` compares with the last common commit instead of `base`.
    """

    base: str
    head: str | None
    from_merge_base: bool = False

    @classmethod
    def parse(cls, text: str | None) -> ReviewRange:
        """Return the range of a text: `BASE..HEAD`, `BASE...HEAD`, `BASE` (to the work tree).

        None is from HEAD to the work tree. As in git, an end of `..` that is left out is HEAD.

        Raises:
            ConfigError: it is none of them.
        """
        if text is None:
            return cls("HEAD", None)
        for dots in ("...", ".."):
            base, found, head = text.partition(dots)
            if found:
                range_ = cls(base or "HEAD", head or "HEAD", dots == "...")
                break
        else:
            range_ = cls(text, None)
        odd = ".." in f"{range_.base} {range_.head}" or (range_.head or "").startswith(".")
        if not text.strip() or len(text) > MAX_RANGE_CHARS or odd:
            raise ConfigError(f"{text[:MAX_RANGE_CHARS]!r} is not a range; write BASE..HEAD, or BASE alone")
        return range_


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two states: where git reads it, its commit ("" for the work tree), and its name."""

    checkout: Checkout
    commit: str
    name: str


def review(engine: Engine, source: Source, range_: ReviewRange, *, fetching: bool = True) -> Review:
    """Return what the change between two states of a repository makes false.

    Args:
        engine: provides the memory and the policy of refs.
        source: a folder in a git repository, a bare repository, or a URL, of which both commits are fetched.
        range_: the two states.
        fetching: whether the commits of a URL may be fetched.

    Raises:
        RefNotFound: there is no such commit, or the policy does not allow it.
        SourceError: the repository cannot be read, has no history, or only a part of it.
        ConfigError: the range needs a work tree, and there is none; or a URL would have to be fetched.
    """
    base_side, head_side = _sides(engine, source, range_, fetching=fetching)
    shared = SharedFiles(_indexed_graphs(engine, head_side.checkout))
    base = ReviewedTree(TreeFiles(base_side.checkout, base_side.commit, shared))
    head = ReviewedTree(TreeFiles(head_side.checkout, head_side.commit or None, shared))
    files = changed_files(base, head)
    notes = []
    if len(files) > _MAX_CHANGED_FILES:
        notes.append(f"only the first {_MAX_CHANGED_FILES:,} of {len(files):,} changed files were compared")
    compared = files[:_MAX_CHANGED_FILES]
    symbols = sorted(changed_symbols(base, head, compared), key=_rank)
    impact = Impact(base, head, compared, symbols)
    tests = impact.tests()
    broken = impact.broken()
    shown = [_shown(head, impact, symbol) for symbol in symbols]
    shown.sort(
        key=lambda one: (_ORDER.index(one.change), one.is_test, -one.caller_count, one.path, one.start)
    )
    statements, checked, before = _statements(engine, source, base_side, head_side)
    notes += _unseen(compared, shown) + _without(shown, tests, statements, checked, is_changed=bool(files))
    if impact.is_cut:
        notes.append("the change is large: the callers of some symbols were not looked for")
    if shared.left_out:
        count = len(shared.left_out)
        notes.append(f"{count:,} file{'s are' if count > 1 else ' is'} too large to be analysed")
    for path, count in sorted(head.unread.items()):
        not_compared = "1 definition" if count == 1 else f"{count:,} definitions"
        notes.append(f"{path} cannot be parsed as a whole; {not_compared} of it could not be compared")
    counts = ReviewCounts(len(files), len(shown), len(broken), len(tests), checked, len(statements), before)
    return Review(
        base_side.name,
        head_side.name,
        base_side.commit,
        head_side.commit,
        bool(statements) or any(use.certain for use in broken),
        _first(broken, _MAX_BROKEN, "lines that use what is gone", notes),
        _first(shown, _MAX_SYMBOLS, "changed symbols", notes),
        _first(tests, _MAX_TESTS, "tests", notes),
        _first(statements, _MAX_STATEMENTS, "stale statements", notes),
        counts,
        tuple(notes),
    )


def _unseen(files: Sequence[FilePair], symbols: Sequence[ChangedSymbol]) -> list[str]:
    """Return a note on the changed files of which nothing is listed, by extension."""
    listed = {path for one in symbols for path in (one.path, one.was.rpartition(":")[0])}
    rest = [pair.new or pair.old for pair in files if not listed & {pair.old, pair.new}]
    if not rest:
        return []
    kinds = Counter(PurePosixPath(path).suffix or PurePosixPath(path).name for path in rest).most_common()
    named = ", ".join(f"{count:,} {kind}" for kind, count in kinds[:_MAX_KINDS])
    more = f" and {sum(count for _, count in kinds[_MAX_KINDS:]):,} others" if kinds[_MAX_KINDS:] else ""
    what = "1 changed file has" if len(rest) == 1 else f"{len(rest):,} changed files have"
    return [f"{what} no changed definition: {named}{more}"]


def _without(
    symbols: Sequence[ChangedSymbol],
    tests: Sequence[AffectedTest],
    statements: Sequence[StaleStatement],
    checked: int,
    *,
    is_changed: bool,
) -> list[str]:
    """Return notes on parts of the review that are empty: what was looked for."""
    notes = []
    if not tests and any(one.change != "comment" and not one.is_test for one in symbols):
        notes.append("no test was found that calls or imports what changed")
    if is_changed and not statements:
        found = f"of {checked:,} that cite it, none became stale" if checked else "none cites it yet"
        notes.append(f"stored answers and facts about this repository: {found}")
    return notes


def _indexed_graphs(engine: Engine, checkout: Checkout) -> GraphOf:
    """Return a look-up of graphs in the index of a repository as it is; it finds none without an index."""
    try:
        store = engine.as_indexed(checkout).store
    except (NotFound, StoreError):
        return lambda blob, language: None
    paths = {blob: path for path, (_, _, blob) in store.known_files().items() if blob}
    languages = store.files()

    def graph_of(blob: str, language: str) -> FileGraph | None:
        path = paths.get(blob)
        if path is None or languages.get(path, ("", ""))[0] != language:
            return None
        try:
            return store.code_graph(path)
        except StoreCorrupt:
            return None  # the text is parsed; a question reports the damage, and repairs it

    return graph_of


def _first(found: Sequence[_T], limit: int, what: str, notes: list[str]) -> tuple[_T, ...]:
    if len(found) > limit:
        notes.append(f"not listed: {len(found) - limit:,} more {what}")
    return tuple(found[:limit])


def _rank(symbol: SymbolPair) -> tuple[int, str, int]:
    return _ORDER.index(symbol.change), symbol.path, symbol.start


def _shown(head: ReviewedTree, impact: Impact, symbol: SymbolPair) -> ChangedSymbol:
    callers = [] if symbol.change == "comment" or head.is_test(symbol.path) else impact.callers(symbol)
    old, was = symbol.old, ""
    if old is not None and symbol.new is not None:
        before = (old.path, old.qualified_name)
        was = ":".join(before) if before != (symbol.path, symbol.name) else ""
    return ChangedSymbol(
        symbol.path,
        symbol.name,
        symbol.unit,
        symbol.change,
        symbol.start,
        symbol.end,
        was=was,
        is_test=head.is_test(symbol.path),
        callers=tuple(callers[:_MAX_CALLERS]),
        caller_count=len(callers),
        certain_count=sum(site.certain for site in callers),
    )


# ---------------------------------------------------------------- the two states


def _sides(engine: Engine, source: Source, range_: ReviewRange, *, fetching: bool) -> tuple[_Side, _Side]:
    if source.is_url:
        if not fetching:
            raise ConfigError(f"the history of {source} is not here; clone it, and serve the folder")
        return _fetched_sides(engine, source, range_)
    folder = Path(source.location)
    bare = folder.is_dir() and is_bare(folder)
    if bare:
        checkout = Checkout(source, folder)
    else:
        checkout = acquire(replace(source, ref=None), home=engine.settings.home)
        if work_tree(folder) is None:
            raise SourceError(f"{folder} has no git history, so there is nothing to compare with")
    head_ref = range_.head if range_.head is not None or source.ref is None else source.ref
    if head_ref is None and bare:
        raise ConfigError(f"{folder} is a bare repository without a work tree; write BASE..HEAD")
    base_commit = _commit(engine, checkout, range_.base)
    head_commit = _commit(engine, checkout, head_ref) if head_ref is not None else ""
    if range_.from_merge_base:
        base_commit = _common(checkout.root, base_commit, head_commit)
    head = _Side(checkout, head_commit, head_ref or WORK_TREE)
    return _Side(checkout, base_commit, range_.base), head


def _commit(engine: Engine, checkout: Checkout, ref: str) -> str:
    """Return the commit that a name means. Raises RefNotFound, SourceError."""
    root, location = checkout.root, checkout.source.location
    try:
        found = engine.named_commit(root, ref)
        if found is None and is_shallow(root):
            raise SourceError(
                f"{location} has no commit {ref!r}, and its history is cut off; `git fetch --unshallow` gets "
                "the rest (in GitHub Actions: `fetch-depth: 0` for actions/checkout)"
            )
    except GitError as failure:
        raise SourceError(f"git cannot read {location}: {failure.line}") from failure
    if found is None:
        raise ref_not_found(root, ref, engine.refs, location)
    return found


def _common(root: Path, base: str, head: str) -> str:
    found = merge_base(root, base, head)
    if found is None:
        cut = "; its history is cut off, `git fetch --unshallow` gets the rest" if is_shallow(root) else ""
        raise SourceError(f"{base[:10]} and {head[:10]} have no common commit{cut}")
    return found


def _fetched_sides(engine: Engine, source: Source, range_: ReviewRange) -> tuple[_Side, _Side]:
    """Return both commits of a URL, each fetched into a clone of its own."""
    if range_.head is None or range_.from_merge_base:
        raise ConfigError(f"{source} has no work tree and no history here; write BASE..HEAD, or clone it")

    def fetched(ref: str) -> _Side:
        settings = engine.settings
        at_ref = replace(source, ref=None if ref == "HEAD" else ref)
        checkout = acquire(
            at_ref, home=settings.home, token=settings.git_token, timeout_s=settings.git_timeout_s
        )
        return _Side(checkout, checkout.commit or "", ref)

    return fetched(range_.base), fetched(range_.head)


def _state(side: _Side, kept: KeptFiles) -> State:
    return (
        CommitState(side.checkout.root, side.commit, kept)
        if side.commit
        else FolderState(side.checkout, kept)
    )


# ---------------------------------------------------------------- what is stored about it


def _statements(
    engine: Engine, source: Source, base: _Side, head: _Side
) -> tuple[list[StaleStatement], int, int]:
    """Return what the change makes stale, how many statements were checked, and how many were stale before.

    Answers come first, then facts, then cached answers whose turn is not among them; each oldest first.
    """
    stored = _stored(engine, source)
    if not stored:
        return [], 0, 0
    kept = KeptFiles(engine.turns, engine.settings.namespace)
    turns = [turn for _, turn in stored]
    then = check_turns(turns, {source.location: _state(base, kept)})
    now = check_turns(turns, {source.location: _state(head, kept)})
    found: dict[str, StaleStatement] = {}
    before = 0
    for (kind, turn), was, is_now in zip(stored, then, now, strict=True):
        pairs = [
            (citation, check)
            for (citation, check), (_, earlier) in zip(is_now.checked, was.checked, strict=True)
            if check.is_stale and not earlier.is_stale
        ]
        before += not pairs and any(check.is_stale for _, check in was.checked)
        if pairs and kind == "cached" and turn.id in found:
            found[turn.id] = replace(found[turn.id], is_cached=True)
        elif pairs:
            found[turn.id] = _stale(kind, turn, pairs)
    return list(found.values()), len(stored), before


def _stored(engine: Engine, source: Source) -> list[tuple[StatementKind, DialogTurn]]:
    """Return the answers, facts and cached answers that cite a repository, as turns."""
    namespace, location = engine.settings.namespace, source.location
    ids = engine.turns.citing(namespace=namespace, location=location)
    turns = engine.turns.turns_by_id(ids, namespace=namespace).values()
    ordered = sorted(turns, key=lambda turn: (str(turn.user_query_timestamp), turn.order or 0, turn.id))
    found: list[tuple[StatementKind, DialogTurn]] = [("turn", turn) for turn in ordered]
    found += [("fact", fact.as_turn()) for fact in facts_of(engine).list(location) if fact.citations]
    for entry in reversed(AnswerCache(engine.turns, namespace=engine.settings.namespace).entries()):
        if any(citation.location == location for citation in entry.citations):
            turn = DialogTurn(
                id=entry.turn or entry.key, user_query=UserQuery(entry.question), citations=entry.citations
            )
            found.append(("cached", turn))
    return found


def _stale(
    kind: StatementKind, turn: DialogTurn, pairs: Sequence[tuple[Citation, Freshness]]
) -> StaleStatement:
    sources = tuple(
        StaleSource(citation.place, check.state, check.place, check.reason) for citation, check in pairs
    )
    numbers = {citation.n for citation, _ in pairs if citation.used}
    return StaleStatement(
        kind,
        turn.id,
        " ".join(turn.question.split()),
        worst(check for _, check in pairs).state,
        sources,
        tuple(_sentences(turn.answer or "", numbers)),
        number=None if turn.order is None else turn.order + 1,
        conversation=turn.conversation_id or "",
    )


def _sentences(answer: str, numbers: set[int]) -> list[str]:
    """Return the first sentences of an answer that refer to one of the numbers."""
    found = []
    for line in lines_of(answer):
        for sentence in _SENTENCE_END.split(line.strip()):
            given = {int(n) for group in _REFERENCE.findall(sentence) for n in re.findall(r"\d+", group)}
            if given & numbers:
                found.append(sentence[:_MAX_SENTENCE_CHARS])
    return found[:_MAX_SENTENCES]
