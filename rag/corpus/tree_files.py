"""The files of a repository at a commit, or in a folder now, for the code graph; nothing is indexed.

A file is read when it is first needed, all of them in one git call when a name is searched for. Two trees of
one repository share what they have in common.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from rag.code.above import above
from rag.code.file_graph import FileGraph
from rag.code.languages import OTHER, kind_of, language_of_path, language_of_text
from rag.code.parsing import SourceText, parsed_texts
from rag.code.reference_queries import has_references
from rag.code.resolve import Above
from rag.corpus import skip
from rag.corpus.history import Listing, blob_sizes, files_at, present, read_blobs
from rag.corpus.ignore import Patterns, read_patterns
from rag.corpus.read import file_bytes, parsed_as
from rag.identifiers import spellings
from rag.notebook_text import is_notebook, shown_text
from rag.types import Checkout, Kind, blob_id

_MAX_FILE_BYTES = 1_000_000
_MAX_TOTAL_BYTES = 400 << 20
_MAX_CHARS = 1_600
_OTHER_CODE = frozenset({"kotlin", "scala", "swift", "lua", "dart", "elixir", "haskell", "perl"})
"""Languages in which names are found, but not resolved; in shells, data and markup they mean other things."""


GraphOf = Callable[[str, str], FileGraph | None]
"""Returns the graph of a blob id in a language, if it is known without parsing the text."""


class SharedFiles:
    """The texts, in UTF-8, and graphs of files by blob id, shared by the trees of one review.

    Args:
        graph_of: returns graphs that are already known, such as those of an index.
    """

    def __init__(self, graph_of: GraphOf = lambda blob, language: None) -> None:
        self.graph_of = graph_of
        self.contents: dict[str, bytes] = {}
        self.notebooks: dict[str, tuple[str, str]] = {}
        """Of notebooks what is parsed, and its language."""
        self.graphs: dict[tuple[str, str], FileGraph] = {}
        self.left_out: set[str] = set()
        """Blobs that are too large to be read."""

    def read(self, root: Path, blobs: Collection[str]) -> None:
        """Read blobs that were not read before; those that are too large are left out."""
        wanted = set(blobs) - self.contents.keys() - self.left_out
        if not wanted:
            return
        room = _MAX_TOTAL_BYTES - sum(map(len, self.contents.values()))
        taken = []
        for blob, size in sorted(blob_sizes(root, wanted).items(), key=lambda item: (item[1], item[0])):
            if size > _MAX_FILE_BYTES or size > room:
                self.left_out.add(blob)
            else:
                taken.append(blob)
                room -= size
        for blob, content in read_blobs(root, taken).items():
            self.add(blob, content)

    def add(self, blob: str, content: bytes) -> None:
        """Add the bytes of a file; their text is that of an index."""
        self.contents[blob] = shown_text(content).encode("utf-8", "surrogatepass")
        if is_notebook(content):
            self.notebooks[blob] = parsed_as(content, "json")


class TreeFiles:
    """Implements `rag.code.graph_files.GraphFiles` for a commit, or for a folder as it is now.

    Args:
        checkout: the folder, with the filters of its source; at a commit its files on disk are not read.
        commit: the commit; None reads the folder.
        shared: what was already read of the repository.

    Raises:
        SourceError: the folder cannot be read, or a pattern is invalid.
    """

    def __init__(self, checkout: Checkout, commit: str | None, shared: SharedFiles) -> None:
        self._root, self._shared, self._location = checkout.root, shared, checkout.source.location
        listing = present(checkout) if commit is None else files_at(checkout.root, commit) or Listing()
        filters = checkout.source.filters
        include = Patterns.of(filters.include, where="--include")
        exclude = Patterns.of(filters.exclude, where="--exclude")
        ignored = read_patterns(checkout.root / ".ragignore")
        self.blobs: dict[str, str] = {}
        """The blob id of each file that is analysed, by path."""
        for path, blob in sorted(listing.files.items()):
            if (include and not include.match(path)) or exclude.match(path):
                continue
            if skip.vendored_folder(path.rpartition("/")[0]) or skip.reason_by_name(path):
                continue
            if language_of_path(path) == OTHER or (ignored and ignored.match(path)):
                continue
            if known := blob or self._from_disk(path):
                self.blobs[path] = known

    def _from_disk(self, path: str) -> str | None:
        content = file_bytes(self._root, path)
        if content is None:
            return None
        blob = blob_id(content)
        if len(content) > _MAX_FILE_BYTES:
            self._shared.left_out.add(blob)
        else:
            self._shared.add(blob, content)
        return blob

    def content(self, path: str) -> bytes:
        """Return the text of a file in UTF-8; b"" if there is none, or it is too large."""
        blob = self.blobs.get(path)
        if blob is None:
            return b""
        if (known := self._shared.contents.get(blob)) is not None:
            return known
        self._shared.read(self._root, (blob,))
        return self._shared.contents.get(blob, b"")

    def prepare(self, paths: Collection[str]) -> None:
        """Read these files in one go."""
        self._shared.read(self._root, {self.blobs[path] for path in paths if path in self.blobs})

    # ------------------------------------------------------------ for the graph

    def files(self) -> Mapping[str, tuple[str, Kind]]:
        """Return the language and kind of each file, by path."""
        return self._known

    @cached_property
    def _known(self) -> dict[str, tuple[str, Kind]]:
        found = {}
        named = {path: language_of_path(path) for path in self.blobs}
        by_text = {
            path for path, language in named.items() if path.endswith((".h", ".ipynb")) or language == "text"
        }
        self.prepare(by_text)
        for path, language in named.items():
            if path in by_text:
                language = language_of_text(language, path, self.content(path).decode("utf-8", "replace"))
                _, language = self._shared.notebooks.get(self.blobs[path], ("", language))
            found[path] = (language, kind_of(path, language))
        return found

    def above(self) -> Above:
        """Return what is above the folder."""
        return above(self._location)

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file; an empty one if it has none."""
        language, kind = self._known.get(path, ("", "code"))
        blob = self.blobs.get(path)
        if blob is None or not (kind in ("code", "test") or has_references(language)):
            return FileGraph()
        found = self._shared.graphs.get((blob, language))
        if found is None:
            found = self._shared.graph_of(blob, language) or self._parsed(path, language)
            self._shared.graphs[blob, language] = found
        return found

    def _parsed(self, path: str, language: str) -> FileGraph:
        text = self.content(path).decode("utf-8", "replace")
        text, _ = self._shared.notebooks.get(self.blobs[path], (text, ""))
        (parsed,) = parsed_texts([SourceText(text, language)], max_chars=_MAX_CHARS)
        return parsed.graph

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file and its blob id; None if there is no such file."""
        blob = self.blobs.get(path)
        return None if blob is None else (self.content(path).decode("utf-8", "replace"), blob)

    def holding(self, name: str) -> list[str]:
        """Return the paths of the files of code that hold a name as a whole word, ascending."""
        sought = spellings(name).encode("utf-8", "replace")
        word = re.compile(rb"(?<![\w\x80-\xff])%b(?![\w\x80-\xff])" % sought)
        part = b"" if not name.isascii() else name.encode()
        return [path for path in self._code if part in (text := self.content(path)) and word.search(text)]

    files_defining = files_referring = holding

    @cached_property
    def _code(self) -> list[str]:
        paths = [
            path
            for path, (language, kind) in self._known.items()
            if has_references(language) or (language in _OTHER_CODE and kind in ("code", "test"))
        ]
        self.prepare(paths)
        return paths
