"""What a step can do: search, read lines, find definitions, callers and files, recall turns.

Every tool works on the indexes that it is given, which are those of the question with its filter: a path is
looked up among the indexed files and never opened, so no path outside of them can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rag.agent.protocol import StepRequest, ToolSpec
from rag.corpus.ignore import Patterns
from rag.errors import NotFound, SearchInvalid, SourceError
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import ChunkIndex
from rag.prompt.views import plain
from rag.quoting import visible
from rag.retrieval.lookup import definitions
from rag.retrieval.question import last_part
from rag.retrieval.uses import indexed_files, summary, uses_of_name
from rag.types import Citation, DialogTurn, Hit

_SEARCH = ToolSpec(
    "search",
    "Search the repository for a question or for words that the code may use; returns the best places.",
    {"query": "a question or words"},
    "words",
)
_READ = ToolSpec(
    "read",
    "Read lines of a file of the repository, at most 120 at a time.",
    {"path": "the file's path as it is shown", "start": "the first line", "end": "the last line"},
    "path:10-40",
    numbers=("start", "end"),
)
_SYMBOL = ToolSpec(
    "find_symbol",
    "Find where a function, class or method is defined, with its code.",
    {"name": "name or Class.name"},
    "name",
)
_CALLERS = ToolSpec(
    "callers", "List who calls or uses a function, class or method.", {"name": "name or Class.name"}, "name"
)
_FILES = ToolSpec(
    "list_files", "List the files whose path matches a glob.", {"glob": "such as src/**/*.py"}, "src/**/*.py"
)
_RECALL = ToolSpec(
    "recall_turns", "Search earlier questions and their answers.", {"query": "words of them"}, "words"
)
_CHANGES = ToolSpec(
    "changed_since",
    "List the indexed files that changed since a commit, tag or branch, or between two of them.",
    {"since": "a commit, tag or branch", "until": "a later one; default: the indexed state"},
    "v1.2",
)

MAX_READ = 120
"""The most lines of one `read`."""
_SEARCHED = 5
_DEFINITIONS = 6
_GAP = 3
"""The most lines between two parts of one definition, the others being blank."""
_MEANT = 3
"""With more definitions of a name, it is not known which one is meant."""
_CALLS = 12
_FILES_SHOWN = 60
_HEAD_LINES = 12
"""The lines shown of each place that a search found."""
_ANSWER_CHARS = 600
_NEAREST = 3

Search = Callable[[str], Sequence[Hit]]
"""Returns hits for a query, best first."""
Recall = Callable[[str], Sequence[DialogTurn]]
"""Returns the stored turns that match a query, best first."""
Unread = Callable[[str, int], str]
"""Returns in words where a name is in what is not indexed, and what was not searched."""
Changes = Callable[[str, str | None], Sequence[tuple[str, str]]]
"""Returns what was done ("A", "M", "D") and the path of each changed file between two states.

Raises:
    SourceError: there is no history, or no such state.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a tool.

    `parts` are what the model is shown: for each a heading and text of the repository, "" for none.
    `summary` is one line for people; `hits` are the places, best first. `asked` says that the model asked for
    these very lines. `error` is "" unless the tool could not be used.
    """

    parts: tuple[tuple[str, str], ...]
    summary: str
    hits: tuple[Hit, ...] = ()
    asked: bool = False
    error: str = ""


def failed(error: str) -> Found:
    """Return the result of a step that could not be run."""
    return Found(((visible(plain(error)), ""),), "", error=visible(error))


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one question.

    `indexes` hold only the files that may be searched, `names` the names of their repositories. The tools of
    `recall` and `changes` do not exist if these are None.
    """

    indexes: Sequence[ChunkIndex]
    search: Search
    recall: Recall | None = None
    changes: Changes | None = None
    name_repository: bool = False
    names: Sequence[str] = field(default=())
    unread: Unread = lambda name, count: "files that are not indexed were not searched"

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as a model sees them."""
        own = [_SEARCH, _READ, _SYMBOL, _CALLERS, _FILES]
        return own + [_RECALL] * (self.recall is not None) + [_CHANGES] * (self.changes is not None)

    def run(self, request: StepRequest) -> Found:
        """Run a step; what cannot be found or read is an error in the result.

        Raises:
            StoreCorrupt, StoreError: a store cannot be read.
        """
        if request.error:
            return failed(request.error)
        given = request.arguments
        try:
            match request.tool:
                case "search":
                    return self._search(given["query"])
                case "read":
                    return self._read(given["path"], given.get("start"), given.get("end"))
                case "find_symbol":
                    return self._find_symbol(given["name"])
                case "callers":
                    return self._callers(given["name"])
                case "list_files":
                    return self._list_files(given["glob"])
                case "recall_turns" if self.recall:
                    return self._recall(self.recall(given["query"]))
                case "changed_since" if self.changes:
                    return self._changes(self.changes(given["since"], given.get("until")))
        except (NotFound, SearchInvalid, SourceError) as error:
            return failed(str(error))
        raise AssertionError(f"a request names a known tool, not {request.tool}")

    def _search(self, query: str) -> Found:
        hits = tuple(self.search(query))[:_SEARCHED]
        return self._places(hits, lines=_HEAD_LINES)

    def _find_symbol(self, name: str) -> Found:
        found = [one for index in self.indexes for one in _definitions(index, name)]
        if not found:
            note = self.unread(last_part(name), 0)
            return failed(f"{name[:200]!r} is not defined in {self._files}; {note}")
        found.sort(key=lambda one: one[0].kind != "code")
        places = self._places([hit for hit, _ in found[:_DEFINITIONS]], more=len(found) - _DEFINITIONS)
        parts = list(places.parts)
        for number, (hit, last) in enumerate(found[:_DEFINITIONS]):
            if last > hit.end:
                parts[number] = f"{parts[number][0]}; goes on to line {last}", parts[number][1]
        return replace(places, parts=tuple(parts), asked=len(found) <= _MEANT)

    def _read(self, path: str, start: int | None, end: int | None) -> Found:
        first = max(1, start or 1)
        last = first + MAX_READ - 1 if end is None else min(end, first + MAX_READ - 1)
        if last < first:
            return failed(f"{first}-{end} is not a range of lines")
        for index, known in self._candidates(path):
            content = index.file_text(known)
            if content is None:
                continue
            total = len(whole_lines_of(content[0]))
            hit = hit_of_lines(index, known, first, last)
            if hit is None:
                return failed(f"{known} has {total} lines; there is no text in {first}-{last}")
            found = self._places([hit])
            return replace(found, asked=True, summary=f"{hit.place} of {total} lines")
        return failed(f"no file {path[:200]!r} is indexed{self._similar(path)}")

    def _candidates(self, path: str) -> Iterator[tuple[ChunkIndex, str]]:
        """Yield where a path may be: as it is written, or after the name of a repository."""
        path = path.strip().removeprefix("./")
        repository, found, rest = path.partition(":")
        for index, name in zip(self.indexes, self.names, strict=True):
            if found and repository == name:
                yield index, rest
        yield from ((index, path) for index in self.indexes)

    def _similar(self, path: str) -> str:
        name = path.rpartition("/")[2]
        alike = [known for known in self._paths() if known.rpartition("/")[2] == name][:_NEAREST]
        return f"; did you mean {', '.join(alike)}?" if alike else ""

    @property
    def _files(self) -> str:
        return indexed_files(sum(index.file_count for index in self.indexes))

    def _paths(self) -> list[str]:
        """Return the paths of all files that may be searched, in order."""
        paths = []
        for index in self.indexes:
            live = index.file if index.dead is None else index.file[~index.dead]
            paths += [index.file_path(file) for file in np.unique(live).tolist()]
        return sorted(paths)

    def _list_files(self, glob: str) -> Found:
        every = self._paths()
        patterns = Patterns.of([glob], where="the glob", paths=every)
        paths = list(filter(patterns.match, every))
        if not paths:
            return failed(f"no indexed file matches {glob[:200]!r}")
        return _listed("files", list(map(visible, paths)), _FILES_SHOWN)

    def _callers(self, name: str) -> Found:
        hits: list[Hit] = []
        parts: list[tuple[str, str]] = []
        every = [uses_of_name(index, name) for index in self.indexes]
        note = self.unread(last_part(name), sum(len(found.found) for found in every))
        unread = f"; {note}" if note else ""
        for index, found in zip(self.indexes, every, strict=True):
            if not (found.targets or found.found):
                continue
            lines = []
            for use in found.shown[:_CALLS]:
                if (hit := hit_of_lines(index, use.path, use.line, use.line, whole=True)) is not None:
                    hits.append(hit)
                    doubt = "" if use.certain else " (possibly)"
                    within = use.within or "the file"
                    lines.append(visible(f"{use.path}:{use.line} in {within}: {found.reason(use)}{doubt}"))
            more = f" (the first {_CALLS})" if len(found.shown) > _CALLS else ""
            head = f"{summary(found, files=index.file_count)}{unread}{more}:"
            parts.append((visible(plain(head)), plain("\n".join(lines))))
        if not parts:
            return failed(f"no definition or call of {name[:200]!r} was found in {self._files}{unread}")
        return Found(tuple(parts), f"{len(hits)} uses", tuple(hits[:_CALLS]))

    def _recall(self, turns: Sequence[DialogTurn]) -> Found:
        """Return earlier answers, and the lines they cite that are still the same."""
        if not turns:
            return failed("no earlier question matches")
        parts, hits = [], []
        for turn in turns:
            answer = turn.answer[:_ANSWER_CHARS] + (" …" if len(turn.answer) > _ANSWER_CHARS else "")
            parts.append((f"Asked before: {visible(plain(turn.question))}", plain(answer)))
            hits += [hit for cited in turn.citations if cited.used and (hit := self._still(cited))]
        return Found(tuple(parts), f"{len(turns)} turns", tuple(hits))

    def _still(self, cited: Citation) -> Hit | None:
        for index in self.indexes:
            content = index.file_text(cited.path)
            if content is not None and content[1] == cited.blob:
                return hit_of_lines(index, cited.path, cited.start, cited.end)
        return None

    def _changes(self, changed: Sequence[tuple[str, str]]) -> Found:
        return _listed("changed files", [f"{what} {visible(path)}" for what, path in changed], _FILES_SHOWN)

    def _places(self, hits: Sequence[Hit], *, lines: int = MAX_READ, more: int = 0) -> Found:
        """Return places with their first lines."""
        if not hits:
            return failed("nothing was found")
        parts = [self._place(hit, lines) for hit in hits]
        parts += [(f"… and {more} more", "")] if more > 0 else []
        places = "1 place" if len(hits) == 1 else f"{len(hits)} places"
        return Found(tuple(parts), places, tuple(hits))

    def _place(self, hit: Hit, lines: int) -> tuple[str, str]:
        path = f"{hit.repo}:{hit.path}" if self.name_repository else hit.path
        name = f" ({visible(plain(hit.label))})" if hit.label else ""
        shown = whole_lines_of(hit.text)
        cut = "…\n" if len(shown) > lines else ""
        head = f"{visible(plain(path))}:{hit.start}-{hit.end}{name}"
        return head, plain("".join(shown[:lines]) + cut)


def _definitions(index: ChunkIndex, name: str) -> list[tuple[Hit, int]]:
    """Return the definitions of a name, each with its last line; of a long one the hit is the first part."""
    found: list[tuple[Hit, int]] = []
    for hit in definitions(index, name):
        if found:
            first, last = found[-1]
            same = (hit.path, hit.scope, hit.symbol) == (first.path, first.scope, first.symbol)
            if same and 0 < hit.start - last <= _GAP:
                found[-1] = first, hit.end
                continue
        found.append((hit, hit.end))
    return found


def _listed(what: str, lines: Sequence[str], limit: int) -> Found:
    """Return the first lines of a list; the summary counts all."""
    more = f" (the first {limit})" if len(lines) > limit else ""
    summary = f"{len(lines):,} {what}"
    return Found(((f"{summary}{more}:", plain("\n".join(lines[:limit]))),), summary)


def hit_of_lines(index: ChunkIndex, path: str, start: int, end: int, *, whole: bool = False) -> Hit | None:
    """Return lines of an indexed file as a hit, clipped to the file; None if it has no text there.

    The hit has the names of the chunk that holds most of the lines. With `whole`, it is that chunk.
    """
    content = index.file_text(path)
    chunks = index.chunks_of(path)
    if content is None or not len(chunks):
        return None
    spans = {chunk: index.lines(chunk) for chunk in chunks}
    chunk = max(spans, key=lambda chunk: min(end, spans[chunk][1]) - max(start, spans[chunk][0]))
    hit = index.hit(chunk, 1.0, {})
    if whole:
        return hit if hit.text.strip() else None
    text, blank_end = without_blank_end("".join(whole_lines_of(content[0])[start - 1 : end]))
    if not text.strip():
        return None
    last = start + len(whole_lines_of(text)) - 1
    return replace(hit, span=replace(hit.span, start=start, end=last), text=text, blank_end=blank_end)
