"""What texts say of the code, compared with the code as it is: `rag check`.

What a text names is looked up in the folder. Only what is not there (or is a place of lines) is followed,
from the commit that wrote it into the text: both are compared as of then.

    a path      through the history of renames and deletions
    lines       as a citation of that commit
    a name      as a citation of what it named at that commit: a definition, a target, a line of code

What names nothing, now or then, is not a claim about the repository. Git is called for many claims at a
time, and when they were written and the files with a name at a commit are cached: commits never change.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

from rag.code.languages import kind_of_path
from rag.corpus.history import read_blobs
from rag.corpus.lineage import Lineage
from rag.corpus.named_history import (
    blobs_at,
    changed_between,
    commit_days,
    files_once_with,
    files_with,
    ignored,
    versions,
)
from rag.corpus.read import file_bytes
from rag.corpus.skip import vendored_folder
from rag.corpus.worktree import work_tree
from rag.errors import ConfigError, SourceError
from rag.lines import lines_of
from rag.memory.claims import MAX_TEXT_CHARS, CheckedClaim, Claim, claims_in
from rag.memory.freshness import check
from rag.memory.named_lines import BUILD_FILES, has_same_body, renamed, targets, whole_word
from rag.memory.syntax import NamedLines
from rag.quoting import counted
from rag.service.checks.bindings import LookupTree, build_files, candidates, citation_of, places_in, prepare
from rag.service.checks.claims_cache import ClaimsCache
from rag.service.checks.snapshots import FolderState, states
from rag.service.checks.written import written_in
from rag.service.repositories.engine import Engine
from rag.service.repositories.storage import LINEAGES
from rag.types import Freshness, Source

MAX_TEXTS = 500
_AGENT_FILE = re.compile(
    r"(?:^|/)(?:(?:CLAUDE|AGENTS|AGENT|GEMINI|MEMORY|CONVENTIONS|SKILL)(?:\.local)?\.md|README(?:\.\w{2,4})?"
    r"|copilot-instructions\.md|\.(?:cursor|windsurf|cline)rules|\.cursor/rules/[^/]+\.mdc)$"
)
_MAX_COMMITS = 200
"""In the files of more commits names are not searched for: those with most claims are."""
_MAX_LISTED = 2_000_000
"""Nor in more files of all of them together, which bounds the memory."""
_MAX_BUILD_FILES = 200
_BLAMES = 4
"""The number of files whose lines git dates at the same time."""
_PLAIN_PATH = re.compile(r"[\w./@+-]+")


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A text to check: its name, what it says, and its path in the repository, "" if it is not from there."""

    name: str
    text: str
    path: str = ""

    @property
    def folder(self) -> str:
        """The folder that its paths may be relative to."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class _Open:
    """A claim that must be looked up in the history. `number` is that of its text."""

    number: int
    claim: Claim


def whole_repository(source: Source) -> Source:
    """Return the repository that a folder is a part of: texts name paths from its top."""
    top = None if source.is_url else work_tree(Path(source.location))
    return source if top is None else replace(source, location=str(top))


def text_of(name: str, content: bytes, path: str = "") -> CheckedText:
    """Return the bytes of a file as a text to check; `path` is that in the repository, "" if outside."""
    return CheckedText(name, content.decode("utf-8", "surrogateescape"), path)


def agent_texts(engine: Engine, source: Source) -> list[CheckedText]:
    """Return the files of a repository that tell agents and readers about it, by path.

    Raises:
        SourceError: the repository cannot be read.
    """
    state = _state(engine, source)
    named = filter(_AGENT_FILE.search, state.files)
    paths = sorted(path for path in named if not vendored_folder(path.rpartition("/")[0]))
    contents = ((path, file_bytes(state.root, path)) for path in paths[:MAX_TEXTS])
    return [text_of(path, content, path) for path, content in contents if content is not None]


def _state(engine: Engine, source: Source) -> FolderState:
    state = states(engine, [source])[source.location]
    if not isinstance(state, FolderState):
        raise SourceError(state if isinstance(state, str) else f"{source} has no files to compare with")
    return state


def check_texts(engine: Engine, source: Source, texts: Sequence[CheckedText]) -> list[CheckedClaim]:
    """Return the claims of texts about a repository with their states, in order.

    What the repository never had is "absent".

    Raises:
        ConfigError: there are too many texts, or one is too long.
        SourceError: the repository has no history, or only a part of it.
    """
    if len(texts) > MAX_TEXTS:
        raise ConfigError(f"{len(texts):,} texts are too many to check at once; the most is {MAX_TEXTS:,}")
    for one in texts:
        if len(one.text) > MAX_TEXT_CHARS:
            raise ConfigError(
                f"{one.name} has {len(one.text):,} characters; the most that is checked is {MAX_TEXT_CHARS:,}"
            )
    state = _state(engine, source)
    if state.lineage is None:
        raise SourceError(f"{source} has no git history, which says what a text was true of")
    state.lineage.ended()
    folder = engine.settings.home / LINEAGES
    known = ClaimsCache(folder, state.root, state.commit, partial(changed_between, state.root, state.commit))
    made = _Check(state, state.lineage, known, texts)
    found = [] if state.lineage.problem else made.run()
    if state.lineage.problem:
        raise SourceError(f"the history of {source} cannot be read: {state.lineage.problem}")
    known.save()
    if made.limit:
        engine.notice(f"what became of {counted(made.unknown, 'name')} is not known: {made.limit}")
    return found


class _Check:
    """One check: the texts, and what is known of the repository."""

    def __init__(
        self, state: FolderState, lineage: Lineage, known: ClaimsCache, texts: Sequence[CheckedText]
    ) -> None:
        self.state, self.lineage, self.cache, self.texts = state, lineage, known, texts
        self.now = LookupTree(state)
        self.found: dict[_Open, CheckedClaim] = {}
        self.written: dict[_Open, str] = {}
        self._too_common: set[str] = set()
        self._same_bytes: dict[tuple[str, str, int], bool] = {}
        self.limit, self.unknown = "", 0

    def run(self) -> list[CheckedClaim]:
        claims = [_Open(n, claim) for n, one in enumerate(self.texts) for claim in claims_in(one.text)]
        words = [one.claim for one in claims if one.claim.kind in ("symbol", "setting")]
        self._search({one.name for one in words})
        left = [one for one in claims if not self._is_there(one)]
        self._blame(left)
        self._follow_paths([one for one in left if one.claim.kind in ("path", "lines")])
        self._follow_names([one for one in left if one.claim.kind not in ("path", "lines")])
        return _without_doubles(claims, self.found)

    # ------------------------------------------------------------ what is there now

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self.state.files)

    @cached_property
    def _named(self) -> Mapping[str, list[str]]:
        """The paths of files and folders by their last part."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._files | self._folders:
            found[path.rpartition("/")[2]].append(path)
        return found

    @cached_property
    def _folders(self) -> frozenset[str]:
        found: set[str] = set()
        for path in self._files:
            while (path := path.rpartition("/")[0]) and path not in found:
                found.add(path)
        return frozenset(found)

    def _path_now(self, one: _Open) -> str:
        """Return the present path that a claim names; "" if there is none."""
        for path in self._ways(one):
            if path in self._files or path in self._folders or self.state.instead(path) is not None:
                return path
        return ""

    def _ends_with(self, one: _Open) -> str:
        """Return a present path that ends with the one that a claim names; "" if there is none."""
        ending = posixpath.normpath(one.claim.path.strip("/"))
        same = [
            path
            for path in self._named.get(ending.rpartition("/")[2], ())
            if path == ending or path.endswith(f"/{ending}")
        ]
        return min(same, default="")

    def _search(self, names: set[str]) -> None:
        found = self.cache.holders(names, self.state.differing, self._code_with, self._too_common)
        own = {one.path for one in self.texts}
        self.now.holders = {
            name: [path for path in found.get(name, ()) if path not in own and path in self._files]
            for name in names
        }

    def _code_with(self, names: Collection[str], paths: Collection[str]) -> dict[str, list[str]]:
        """Return the files with each name, of some paths or all, apart from documents."""
        if paths and not (paths := self._files.intersection(paths)):
            return {}
        found = files_with(self.state.root, names, left_out=self._too_common, among=paths)
        is_code = cache(lambda path: kind_of_path(path) != "doc")
        return {
            name: [*filter(is_code, paths)] for name, paths in found.items() if name not in self._too_common
        }

    @cached_property
    def _targets(self) -> Mapping[str, frozenset[str]]:
        """The targets of each kind of command, in all build files."""
        found = {}
        for kind, names in BUILD_FILES.items():
            every_path = [path for name in names for path in self._named.get(name, ())]
            paths = sorted(every_path, key=lambda path: (path.count("/"), path))[:_MAX_BUILD_FILES]
            every = (one.symbol for path in paths for one in targets(kind, path, self.now.text(path)))
            found[kind] = frozenset(every)
        return found

    def _is_there(self, one: _Open) -> bool:
        """Whether a claim is about what is there now; lines must be compared."""
        claim = one.claim
        if claim.kind == "path":
            is_there = bool(self._path_now(one) or self._ends_with(one))
            was_there = any(way in self.lineage.ended() for way in self._ways(one))
            if is_there and was_there and not self._path_now(one):
                return False
        elif claim.kind == "command":
            is_there = claim.name in self._targets[claim.scope]
        elif claim.kind == "lines":
            return False
        else:
            holders = self.now.holders.get(claim.name, ())
            is_common = claim.name in self._too_common
            is_there = is_common or any(self._has_scope(claim, path) for path in holders)
        if is_there:
            self.found[one] = CheckedClaim(self.texts[one.number].name, claim, "fresh")
        return is_there

    def _has_scope(self, claim: Claim, path: str) -> bool:
        scope = claim.scope.rpartition(".")[2]
        return not scope or scope in path or scope in self.now.text(path)

    # ------------------------------------------------------------ when it was written

    def _blame(self, claims: Iterable[_Open]) -> None:
        """Find the commit that each claim was written in; it is the last one of what is not committed."""
        of_text: dict[int, list[_Open]] = defaultdict(list)
        for one in claims:
            of_text[one.number].append(one)
        with ThreadPoolExecutor(_BLAMES) as pool:
            for dated in pool.map(self._dated, of_text.values()):
                self.written |= dated
        self._positions = self.lineage.positions(set(self.written.values()))

    def _dated(self, claims: Sequence[_Open]) -> dict[_Open, str]:
        """Return the commits that claims of one text were written in."""
        text = self.texts[claims[0].number]
        if text.path not in self._files:
            return dict.fromkeys(claims, self.state.commit)
        blob = self.state.files[text.path]
        known = self.cache.written(text.path, blob)
        keys = {one: f"{one.claim.line}:{one.claim.begin}" for one in claims}
        if new := [one.claim for one in claims if keys[one] not in known]:
            lines = text.text.split("\n")
            found = written_in(self.state.root, text.path, lines, new, self.state.commit)
            made = {keys[one]: found[one.claim] for one in claims if one.claim in found}
            self.cache.add_written(text.path, blob, made)
            known |= made
        return {one: known.get(key, self.state.commit) for one, key in keys.items()}

    def _commit(self, one: _Open) -> str:
        return self.written[one]

    def _position(self, one: _Open) -> int | None:
        return self._positions.get(self._commit(one))

    def _put(self, one: _Open, **values: object) -> None:
        made = CheckedClaim(self.texts[one.number].name, one.claim, "fresh")
        self.found[one] = replace(made, **values)  # type: ignore[arg-type]

    # ------------------------------------------------------------ paths and lines

    def _follow_paths(self, claims: Sequence[_Open]) -> None:
        ways = {path for one in claims for path in self._ways(one)}
        folders = self._emptied(ways)
        self._ignored = ignored(self.state.root, ways & (self.lineage.ended().keys() | folders.keys()))
        places = []
        for one in claims:
            path, commit = self._path_now(one), self._commit(one)
            if (
                not path
                and one.claim.kind == "lines"
                and not any(map(self.lineage.ended().get, self._ways(one)))
            ):
                path = self._ends_with(one)
            if not path or path in self._folders:
                path, commit = self._was(one, folders)
            if one.claim.kind == "lines" and path and path not in self._folders:
                places.append((one, path, commit))
        self._follow_lines(places)

    def _ways(self, one: _Open) -> list[str]:
        return candidates(one.claim.path, self.texts[one.number].folder)

    def _emptied(self, wanted: set[str]) -> dict[str, list[tuple[int, str]]]:
        """Return the events of the files that folders had, newest first."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for path, events in self.lineage.ended().items():
            folder = path
            while folder := folder.rpartition("/")[0]:
                if folder in wanted:
                    found[folder] += [(number, path) for number, _ in events]
        return {folder: sorted(events) for folder, events in found.items()}

    def _was(self, one: _Open, folders: Mapping[str, list[tuple[int, str]]]) -> tuple[str, str]:
        """Find what became of a path that is not there; return it and a commit that had it.

        A path that was removed by the commit which wrote the text is what the text says.
        """
        position = self._position(one)
        is_likely = _is_likely(one.claim)
        for path in self._ways(one) if position is not None and is_likely else ():
            events = self.lineage.ended().get(path, [])
            is_folder = not events
            events = self._later(one, path, events or folders.get(path, []), is_folder=is_folder)
            number = _next_event(events, position or 0)
            if number is None or number == position or path in self._ignored:
                continue
            if number > (position or 0) and self._ends_with(one):
                break
            if is_folder:
                self._folder_became(one, path, events, position or 0)
                return "", ""
            self._path_became(one, path, number)
            commit = self._commit(one) if number < (position or 0) else self.lineage.commit_of(number + 1)
            return path, commit
        if self._ends_with(one):
            self._put(one, state="fresh")
        else:
            before = [each[0][0] for path in self._ways(one) if (each := self.lineage.ended().get(path))]
            commit = self.lineage.commit_of(before[0]) if before and is_likely else ""
            reason = f"removed in {commit[:10]}, before this was written" if commit else ""
            self._put(one, state="absent", commit=commit, reason=reason)
        return "", ""

    def _later(
        self, one: _Open, path: str, events: list[tuple[int, str]], *, is_folder: bool
    ) -> list[tuple[int, str]]:
        """Return the events of a path, or of the files of a folder, that are later than the line of the text.

        All of them if that is not known: the text is not a file of the repository. A commit of a side branch
        may be later than one that was merged with it: what its tree does not have went before.
        """
        position, commit = self._position(one) or 0, self._commit(one)
        if self.texts[one.number].path not in self._files:
            return events
        later = [event for event in events if event[0] <= position]
        if not later or self.lineage.commit_of(position) == commit:
            return later
        files = {at if is_folder else path for _, at in later}
        had = blobs_at(self.state.root, [(commit, file) for file in files])
        return [event for event in later if (commit, event[1] if is_folder else path) in had]

    def _path_became(self, one: _Open, path: str, first: int) -> None:
        """Report what became of a path after the event with this number."""
        now, number = self.lineage.became(path, first)
        stem = path.rpartition(".")[0]
        if now in self._files:
            if stem in self._folders and now.startswith(f"{stem}/"):  # split into the files of a folder
                now = f"{stem}/"
            if self._is_same_file(path, first):
                self._put(one, state="moved", now=now, fix=self._fix(one, self._written_as(one, path, now)))
            else:
                self._put(
                    one,
                    state="removed",
                    commit=self.lineage.commit_of(first),
                    reason=f"perhaps moved to {now}",
                )
        else:
            self._put(one, state="removed", commit=self.lineage.commit_of(number) if not now else "")

    def _is_same_file(self, path: str, number: int) -> bool:
        """Whether a file kept its base name or bytes in all its moves from the one with this number on."""
        return all(
            posixpath.basename(old) == posixpath.basename(new) or self._has_same_bytes(old, new, at)
            for at, old, new in self.lineage.moves(path, number)
        )

    def _has_same_bytes(self, old: str, new: str, number: int) -> bool:
        if (old, new, number) not in self._same_bytes:
            commit = self.lineage.commit_of(number)
            before, after = (f"{commit}~1", old), (commit, new)
            blobs = blobs_at(self.state.root, [before, after])
            self._same_bytes[old, new, number] = before in blobs and blobs[before] == blobs.get(after)
        return self._same_bytes[old, new, number]

    def _fix(self, one: _Open, path: str, lines: str = "") -> str:
        """Return a correction; "" in a code fence, near the new path, or for a path with unusual signs."""
        claim = one.claim
        line = self.texts[one.number].text.split("\n")[claim.line - 1]
        if claim.is_fenced or not _PLAIN_PATH.fullmatch(path):
            return ""
        if path.rstrip("/") != claim.path.rstrip("/"):
            named = re.compile(rf"(?<![\w./@+-]){re.escape(path.rstrip('/'))}(?![\w@+-])")
            if named.search(line[: claim.begin]) or named.search(line[claim.end :]):
                return ""
        return path + lines

    def _folder_became(
        self, one: _Open, folder: str, events: Sequence[tuple[int, str]], position: int
    ) -> None:
        """Report a folder as moved if most of its files are in one other folder, under the same names."""
        after = [event for event in events if event[0] < position] or events
        new: Counter[str] = Counter()
        for number, path in after:
            now, _ = self.lineage.became(path, number)
            inside = path.removeprefix(folder)
            if now.endswith(inside):
                new[now.removesuffix(inside)] += 1
        best, count = new.most_common(1)[0] if new else ("", 0)
        if best in self._folders and count * 2 > len({path for _, path in after}):
            self._put(
                one, state="moved", now=f"{best}/", fix=self._fix(one, self._written_as(one, folder, best))
            )
        else:
            self._put(one, state="removed", commit=self.lineage.commit_of(after[0][0]))

    def _written_as(self, one: _Open, old: str, now: str) -> str:
        """Return a new path in the form of the old one: from the top, or from the folder of the text."""
        written, folder = one.claim.path, self.texts[one.number].folder
        is_top = posixpath.normpath(written.removeprefix("/")) == old and not written.startswith("./")
        path = now if is_top else posixpath.relpath(now, folder or ".")
        if not is_top and written.startswith("./") and not path.startswith("."):
            path = f"./{path}"
        start = "/" if written.startswith("/") else ""
        return f"{start}{path.rstrip('/')}{'/' if written.endswith('/') or now.endswith('/') else ''}"

    def _follow_lines(self, places: Sequence[tuple[_Open, str, str]]) -> None:
        for one, *_ in places:
            if one in self.found:  # where lines cannot be compared, what became of their file is reported
                self.found[one] = replace(self.found[one], fix="")
        trees = {commit: LookupTree(self.state, commit, texts=self.now.texts) for _, _, commit in places}
        prepare(trees, [(commit, path) for _, path, commit in places])
        cited = []
        for one, path, commit in places:
            claim = replace(one.claim, path=path)
            cited += [
                (one, path, citation_of(trees[commit], *place)) for place in places_in(trees[commit], claim)
            ]
        states = check([citation for _, _, citation in cited], {self.state.source.location: self.state})
        days = commit_days(self.state.root, {self._commit(one) for one, _, _ in cited})
        for (one, path, _), found in zip(cited, states, strict=True):
            since = days.get(self._commit(one), "")
            self._lines_became(one, path, found, since)
        for one, path, _ in places:
            if one not in self.found:
                self._without_lines(one, path)

    def _without_lines(self, one: _Open, path: str) -> None:
        """Report lines that a file did not have when the text was written: stale if it still has not."""
        count = len(lines_of(self.now.text(path))) if path in self._ways(one) and path in self._files else 0
        if 0 < count < one.claim.last:
            self._put(one, state="changed", reason=f"the file has only {counted(count, 'line')}")
        else:
            self._put(one, state="absent")

    def _lines_became(self, one: _Open, path: str, found: Freshness, since: str) -> None:
        is_same_place = (found.path, found.start) == (path, one.claim.first)
        if found.state in ("fresh", "reformatted", "moved") and is_same_place:
            self._put(one, state="fresh")
        elif found.state in ("moved", "reformatted"):
            first, last = found.start, found.end
            now = f"{found.path}:{first}" + (f"-{last}" if last > first else "")
            fix = "" if found.reason else self._written_lines(one, path, found)
            self._put(one, state="moved", now=now, fix=fix, since=since)
        elif found.state == "gone" and path not in self._files:
            events = self.lineage.ended().get(path, [])
            number = _next_event(events, self._position(one) or 0)
            end = self.lineage.became(path, number)[1] if number is not None else -1
            self._put(one, state="removed", commit=self.lineage.commit_of(end), since=since)
        elif found.state in ("changed", "gone"):
            self._put(one, state="changed", since=since, now=found.place)

    def _written_lines(self, one: _Open, path: str, found: Freshness) -> str:
        claim, is_longer = one.claim, found.end > found.start
        if found.path == path:
            written = claim.path
        else:
            written = self._written_as(one, path, found.path)
            events = self.lineage.ended().get(path, [])
            number = _next_event(events, self._position(one) or 0)
            if number is None or not self._is_same_file(path, number):
                return ""
        if "#L" in claim.text:
            return self._fix(one, written, f"#L{found.start}" + (f"-L{found.end}" if is_longer else ""))
        return self._fix(one, written, f":{found.start}" + (f"-{found.end}" if is_longer else ""))

    # ------------------------------------------------------------ names

    def _follow_names(self, claims: Sequence[_Open]) -> None:
        places = {one: self.cache.places(self._commit(one), self._key(one)) for one in claims}
        self._bind([one for one, known in places.items() if known is None])
        cited = []
        for one in claims:
            self._put(one, state="fresh" if self.now.holders.get(one.claim.name) else "absent")
            commit = self._commit(one)
            for path, lines in (self.cache.places(commit, self._key(one)) or ())[:1]:
                cited.append((one, LookupTree(self.state, commit, texts=self.now.texts), path, lines))
        trees = {tree.commit: tree for _, tree, *_ in cited}
        prepare(trees, [(tree.commit, path) for _, tree, path, _ in cited])
        cited = [(one, trees[tree.commit], path, lines) for one, tree, path, lines in cited]
        made = [citation_of(tree, path, lines) for _, tree, path, lines in cited]
        states = check(made, {self.state.source.location: self.state})
        gone = []
        for (one, tree, path, lines), found in zip(cited, states, strict=True):
            if found.state in ("fresh", "moved", "reformatted") or self._is_defined(lines, found):
                self._put(one, state="fresh")
            elif lines.scope and self.now.holders.get(one.claim.name):
                self._put(one, state="fresh")  # a method may be inherited
            else:
                gone.append((one, path, found, self._guess(one, tree, path, lines, found)))
        self._removed(gone)

    def _key(self, one: _Open) -> str:
        claim = one.claim
        folder = self.texts[one.number].folder if claim.kind == "command" else ""
        return "\0".join((claim.kind, folder, claim.scope, claim.name))

    def _bind(self, claims: Sequence[_Open]) -> None:
        """Find what claims named at their commits; symbols and settings for the commits with most of them."""
        words = [one for one in claims if one.claim.kind != "command"]
        holders = self._once_held(words) if words else {}
        trees = {
            commit: LookupTree(self.state, commit, holders.get(commit, {}), self.now.texts)
            for commit in {self._commit(one) for one in claims}
        }
        bound = [
            one
            for one in claims
            if one.claim.kind == "command"
            or (self._commit(one) in holders and one.claim.name not in self._too_common)
        ]
        files = {
            (self._commit(one), path)
            for one in bound
            if one.claim.kind == "command"
            for path in build_files(one.claim, self.texts[one.number].folder)
        }
        prepare(trees, files)
        for one in bound:
            tree, folder = trees[self._commit(one)], self.texts[one.number].folder
            self.cache.add_places(tree.commit, self._key(one), places_in(tree, one.claim, folder))

    def _once_held(self, words: Sequence[_Open]) -> dict[str, dict[str, list[str]]]:
        """Return the files that held names, by the commits of most of them, then name."""
        often = Counter(map(self._commit, words))
        most = max(1, min(_MAX_COMMITS, _MAX_LISTED // max(1, len(self.state.files))))
        commits = [commit for commit, _ in often.most_common(most)]
        names = {one.claim.name for one in words if self._commit(one) in commits}
        now = {blob for path, blob in self.state.files.items() if kind_of_path(path) != "doc"}
        try:  # what code has now was found before
            found = files_once_with(
                self.state.root, names, commits, unsearched=now, left_out=self._too_common
            )
        except SourceError as error:
            self.limit, self.unknown = str(error), len(names)
            return {}
        return {commit: found.get(commit, {}) for commit in commits}

    def _is_defined(self, lines: NamedLines, found: Freshness) -> bool:
        """Whether a definition has its name at the place where it is now."""
        if found.path not in self._files:
            return False
        defined = self.now.definitions(found.path)
        return any(one.symbol == lines.symbol and one.start <= found.start <= one.end for one in defined)

    def _guess(
        self, one: _Open, tree: LookupTree, path: str, lines: NamedLines, found: Freshness
    ) -> NamedLines | None:
        """Return the present name whose lines are most like those that a name had; None for none."""
        if found.path not in self._files:
            return None
        text, present = tree.text(path), self.now.text(found.path)
        known = {each.symbol for each in tree.named(one.claim, path)}
        return renamed(lines, text, known, self.now.named(one.claim, found.path), present)

    def _removed(self, gone: Sequence[tuple[_Open, str, Freshness, NamedLines | None]]) -> None:
        """Report names as removed, with the last commit that took one from its file, or as renamed by it."""
        names = {one: self._names_of(path, found, self._position(one)) for one, path, found, _ in gone}
        changes = versions(self.state.root, self.state.commit, set().union(*names.values()))
        numbers = self.lineage.positions({commit for commit, *_ in changes})
        last = max((self._position(one) or 0 for one, *_ in gone), default=0)
        recent = [change for change in changes if numbers.get(change[0], last) < last]
        blobs = read_blobs(self.state.root, {blob for *_, old, new in recent for blob in (old, new)})
        texts = {blob: content.decode("utf-8", "replace") for blob, content in blobs.items()}
        for one, path, found, guess in gone:
            commits = (
                (commit, at)
                for commit, at, old, new in recent
                if at in names[one]
                and _has(one.claim, at, texts.get(old, ""))
                and not _has(one.claim, at, texts.get(new, ""))
            )
            commit, at = next(commits, ("", path))
            if guess is None:
                self._put(one, state="removed", commit=commit, reason=f"it was in {path}")
            elif commit and self._has_renamed(one.claim, commit, at, found.path, guess):
                place = f"{found.path}:{guess.start}"
                self._put(one, state="renamed", now=guess.symbol, commit=commit, reason=place)
            else:
                reason = f"it was in {path}, perhaps now {guess.symbol}"
                self._put(one, state="removed", commit=commit, reason=reason)

    def _names_of(self, path: str, found: Freshness, position: int | None) -> set[str]:
        """Return the names that a file had since a text was written."""
        moved = self.lineage.moves(path, position or 0)
        return {path, found.path, *(new for _, _, new in moved)} - {""}

    def _has_renamed(self, claim: Claim, commit: str, path: str, later: str, guess: NamedLines) -> bool:
        """Whether a commit took a name from a file and added another one with the same body."""
        before = LookupTree(self.state, f"{commit}~1", texts=self.now.texts)
        after = LookupTree(self.state, commit, texts=self.now.texts)
        if any(one.symbol == guess.symbol for each in (path, later) for one in before.named(claim, each)):
            return False
        old = [one for one in before.named(claim, path) if one.symbol == claim.name]
        return any(
            has_same_body(one, before.text(path), new, after.text(each))
            for one in old
            for each in dict.fromkeys((path, later))
            for new in after.named(claim, each)
            if new.symbol == guess.symbol
        )


def _has(claim: Claim, path: str, text: str) -> bool:
    """Whether a version of a file has the name of a claim."""
    if claim.kind == "command":
        return any(one.symbol == claim.name for one in targets(claim.scope, path, text))
    return claim.name in text and whole_word(claim.name).search(text) is not None


def _is_likely(claim: Claim) -> bool:
    """Whether a path that is not there is meant to be one of this repository.

    A bare name of a usual configuration file, or a word with a slash in a sentence, may be any other.
    """
    name = posixpath.basename(claim.path)
    has_folder = "/" in claim.path.lstrip("/")
    if not claim.is_marked:
        return has_folder and "." in name and not claim.path.startswith("/")
    return has_folder or kind_of_path(name) != "config"


def _next_event(events: Sequence[tuple[int, str]], position: int) -> int | None:
    """Return the number of the first event after a position, else of the last one before; None for none."""
    after = [number for number, _ in events if number < position]
    return max(after) if after else min((number for number, _ in events), default=None)


def _without_doubles(claims: Sequence[_Open], found: Mapping[_Open, CheckedClaim]) -> list[CheckedClaim]:
    """Return the checked claims in order; of several readings of the same words the one that is known."""
    order = {"fresh": 0, "moved": 1, "renamed": 1, "changed": 1, "removed": 1, "absent": 2}
    best: dict[tuple[int, int, int], CheckedClaim] = {}
    for one in claims:
        checked = found[one]
        key = one.number, one.claim.line, one.claim.end
        other = best.get(key)
        if other is None or order[checked.state] < order[other.state]:
            best[key] = checked
    return list(best.values())
