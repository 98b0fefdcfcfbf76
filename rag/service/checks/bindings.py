"""Bind what a text names to the lines of a repository: in the folder as it is, or as it was at a commit.

A claim is bound only to what is found: a path to the file (a citation without lines), lines to these lines, a
symbol to its definition, a command to the lines of its target, a setting to the lines of code that hold it.
What is bound is followed like every citation (`rag.memory.freshness`).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag.code.graph_files import LoadedFile
from rag.code.languages import kind_of_path, language_of_path
from rag.code.parsing import SourceText, parsed_texts
from rag.corpus.history import read_blobs
from rag.corpus.named_history import blobs_at, files_with
from rag.errors import SourceError
from rag.lines import lines_of
from rag.memory.claims import Claim, claims_in
from rag.memory.named_lines import BUILD_FILES, lines_with, targets
from rag.memory.syntax import NamedLines
from rag.service.checks.snapshots import FolderState
from rag.types import Citation, CitedSymbol, Span

_MAX_HOLDERS = 25
"""In more files than this a name is too common to be bound."""
_MAX_DEFINITIONS = 5
_MAX_BOUND, _MAX_CONSIDERED = 20, 400
"""The maximum number of places that a fact is bound to."""
Place = tuple[str, NamedLines]
_UPPER = re.compile(r"(?<![\w$])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w$])")


@dataclass
class LookupTree:
    """A state of a repository in which names are looked up: the folder now, or with a commit as it was then.

    `holders` are the files with each name, as far as they were searched for; the texts of blobs are shared.
    """

    state: FolderState
    commit: str = ""
    holders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    _definitions: dict[tuple[str, str], list[NamedLines]] = field(default_factory=dict)
    _targets: dict[tuple[str, str, str], list[NamedLines]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder."""
        return self.state.root

    def expect(self, paths: Collection[str]) -> None:
        """Look up files at the commit, and read them, in one go."""
        if self.commit:
            prepare({self.commit: self}, ((self.commit, path) for path in paths))

    def blob(self, path: str) -> str:
        """Return the blob id of a file; "" if there is none."""
        if not self.commit:
            return self.state.files.get(path, "")
        if path not in self.blobs:
            self.expect([path])
        return self.blobs[path]

    def text(self, path: str) -> str:
        """Return the text of a file; "" if it has none."""
        blob = self.blob(path)
        if blob and blob not in self.texts:
            self.texts[blob] = _text(self.state.contents([blob]).get(blob, b""))
        return self.texts.get(blob, "")

    def definitions(self, path: str) -> list[NamedLines]:
        """Return the functions, classes and constants of a file, also those within functions."""
        key = path, self.blob(path)
        if key not in self._definitions:
            self._definitions[key] = _defined(path, self.text(path))
        return self._definitions[key]

    def named(self, claim: Claim, path: str) -> list[NamedLines]:
        """Return what may be called like a symbol, command or setting in a file, also other names."""
        if claim.kind == "symbol":
            return self.definitions(path)
        text = self.text(path)
        if claim.kind == "command":
            key = claim.scope, path.rpartition("/")[2], self.blob(path)
            if key not in self._targets:
                self._targets[key] = targets(claim.scope, path, text)
            return self._targets[key]
        rows = enumerate(lines_of(text), start=1)
        return [NamedLines(row, row, one, "") for row, line in rows for one in _UPPER.findall(line)]


def prepare(trees: Mapping[str, LookupTree], places: Iterable[tuple[str, str]]) -> None:
    """Look up files in the trees of commits, given as (commit, path), and read them, in one go."""
    wanted = {(commit, path) for commit, path in places if path not in trees[commit].blobs}
    if not wanted:
        return
    tree = next(iter(trees.values()))
    found = blobs_at(tree.root, wanted)
    for commit, path in wanted:
        trees[commit].blobs[path] = found.get((commit, path), "")
    unread = {blob for blob in found.values() if blob not in tree.texts}
    contents = read_blobs(tree.root, unread)
    tree.texts.update((blob, _text(contents.get(blob, b""))) for blob in unread)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def _defined(path: str, text: str) -> list[NamedLines]:
    language = language_of_path(path)
    (parsed,) = parsed_texts([SourceText(text, language)], max_chars=None)
    file = LoadedFile(path, language, parsed.graph)
    every = [*map(file.definition, range(len(parsed.graph.definitions))), *file.values]
    return [NamedLines(one.start, one.end, one.name, one.scope) for one in every]


def candidates(path: str, folder: str) -> list[str]:
    """Return the paths that a text in a folder may mean, without those outside of the repository."""
    bare = path.removeprefix("/")
    ways = [bare] if path.startswith("/") or not folder else [bare, f"{folder}/{bare}"]
    if path.startswith(("./", "../")):
        ways.reverse()
    normal = (posixpath.normpath(way) for way in ways if way)
    return [
        way
        for way in dict.fromkeys(normal)
        if way != "." and not way.startswith(("../", "/")) and way != ".."
    ]


def build_files(claim: Claim, folder: str) -> list[str]:
    """Return the files that may define the target of a command which a text in a folder names."""
    names = BUILD_FILES.get(claim.scope, ())
    return [
        f"{where}{name}" for where in dict.fromkeys((f"{folder}/" if folder else "", "")) for name in names
    ]


def places_in(tree: LookupTree, claim: Claim, folder: str = "") -> Iterator[tuple[str, NamedLines]]:
    """Yield the files and lines that a claim names in a tree; lines 0 for a file as such."""
    if claim.kind in ("path", "lines"):
        for path in candidates(claim.path, folder):
            if tree.blob(path):
                if claim.last <= len(lines_of(tree.text(path))) if claim.first else True:
                    yield path, NamedLines(claim.first, claim.last, "", "")
                return
    elif claim.kind == "command":
        for path in build_files(claim, folder):
            if one := next((one for one in tree.named(claim, path) if one.symbol == claim.name), None):
                yield path, one
                return
    else:
        holders = [path for path in tree.holders.get(claim.name, ()) if kind_of_path(path) != "doc"]
        if len(holders) > _MAX_HOLDERS:
            return
        tree.expect(holders)
        found = [(path, one) for path in holders for one in _defining(tree, claim, path)]
        if len(found) <= _MAX_DEFINITIONS:
            yield from found


def _defining(tree: LookupTree, claim: Claim, path: str) -> list[NamedLines]:
    if claim.kind == "setting":
        return lines_with(claim.name, tree.text(path))[:1]
    scope = claim.scope.rpartition(".")[2]
    return [
        one
        for one in tree.definitions(path)
        if one.symbol == claim.name and (not scope or scope in (one.scope.rpartition(".")[2], _module(path)))
    ]


def _module(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return folder.rpartition("/")[2] if stem in ("__init__", "index", "mod", "lib") else stem


def citation_of(tree: LookupTree, path: str, lines: NamedLines, *, n: int = 1, commit: str = "") -> Citation:
    """Return a place of a tree as a citation."""
    state = tree.state
    text = "\n".join(lines_of(tree.text(path))[lines.start - 1 : lines.end]) if lines.start else ""
    span = Span(
        state.source.name,
        path,
        lines.start,
        lines.end,
        tree.blob(path),
        tree.commit or commit or None,
        symbol=lines.symbol,
        scope=lines.scope,
    )
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""
    anchor = CitedSymbol(lines.symbol, lines.start, lines.end) if lines.symbol and lines.start else None
    return Citation(n, span, span_hash=digest, location=state.source.location, anchor=anchor)


def bound(state: FolderState, text: str) -> tuple[Citation, ...]:
    """Return the places in a folder that a sentence names, as citations; symbols also without code marks.

    At most 20. Of a name only those in the files that the sentence names, if there are any, and none within
    another place.
    """
    claims = claims_in(text, all_words=True)
    names = {claim.name for claim in claims if claim.kind in ("symbol", "setting")}
    try:
        holders = files_with(state.root, names, is_git=bool(state.commit))
    except SourceError:
        holders = {}
    tree = LookupTree(state, holders=holders)
    places = _of_fact([(claim.name, [*places_in(tree, claim)]) for claim in claims])
    committed: dict[tuple[str, str], str] = {}
    with suppress(SourceError):
        committed = blobs_at(state.root, [(state.commit, path) for path, _ in places if state.commit])
    found = []
    for n, (path, lines) in enumerate(places[:_MAX_BOUND], start=1):
        made = citation_of(tree, path, lines, n=n, commit=state.commit)
        is_dirty = bool(state.commit) and committed.get((state.commit, path)) != made.blob
        found.append(replace(made, dirty=is_dirty))
    return tuple(found)


def _of_fact(found: Sequence[tuple[str, Sequence[Place]]]) -> list[Place]:
    """Return the places that a sentence depends on, of those of each of its claims and their names."""
    named = {path for name, places in found if not name for path, _ in places}
    every = dict.fromkeys(
        place
        for name, places in found
        for place in ([one for one in places if one[0] in named] if name else ()) or places
    )
    chosen = list(every)[:_MAX_CONSIDERED]
    return [
        (path, lines)
        for path, lines in chosen
        if not lines.symbol
        or not any(
            path == other and lines != wider and 0 < wider.start <= lines.start and lines.end <= wider.end
            for other, wider in chosen
        )
    ]
