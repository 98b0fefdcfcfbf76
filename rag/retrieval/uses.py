"""Who uses a definition: the one look-up behind questions, searches, MCP and a model's second look.

What is returned is complete for the indexed files: a reference of the name is listed as a certain or possible
use or as one of unknown meaning, or it is counted among those that mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from rag.analysis import terms
from rag.code.graph_files import MAX_FILES
from rag.code.languages import TEMPLATE, kind_of_path, language_of_path
from rag.code.name_resolution import COMMON
from rag.code.roles import is_bundle
from rag.code.use_search import MAX_POSSIBLE, RESOLVED, family
from rag.identifiers import LIKE_CODE
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.lookup import LinesWithName, is_comment, limit_of_lines, lines_with
from rag.retrieval.shown_definition import label_at
from rag.top_k import distinct
from rag.types import AttributedUses, CodeDefinition, CodeUse, Hit, UseRole

MAX_SHOWN = 60
"""The most places that are shown, as many as facts."""
_MAX_UNKNOWN, _MAX_MENTIONS = 6, 12
"""The most references of unknown meaning, and of mentions next to calls, that are shown."""
_MAX_DEFINITIONS, _MAX_TARGETS = 40, 12
_FEW_DEFINITIONS = 2
"""A name with more definitions is not looked for in other languages."""
_MAX_NAMED_FILES = 3
_MAX_LINE_CHARS = 400
_DOC = 2
_IMPORT = re.compile(r"\s*(?:#\s*)?(?:import|from|use|using|alias|require\w*|include|package|namespace)\b")
_IMPORTING = (
    r"\s*(?:import|export|from|use|using|require\w*|include|source|(?:auto)?load|#\s*(?:include|import))\b.*"
)
_FEW_CHUNKS = 200
"""The most chunks in whose text a name that is a word of prose is looked for."""
_MAX_IMPORTING = 600
"""Chunks that are read for imports of one name."""
_LIKE_CODE = re.compile(LIKE_CODE)
_DEFINE = re.compile(r"\s*#\s*define\b")


@dataclass(frozen=True, slots=True)
class Uses:
    """Who uses what has a name. Each group has one place for a line, code before tests, certain ones first.

    `found` are the uses, all of them calls if `are_calls`. `mentions` are places next to them that name it
    without a call: it is passed on there, or is a type. Of `unknown` it is not known what they mean.
    `others` mean something else of the name, and on the lines of `by_name` only the text has it. Of a file
    (`is_file`) these are its imports. Without other `targets`, nothing of the name is defined, and what is
    found has the name alone. `limits` say in words what was left out.
    """

    name: str
    targets: tuple[CodeDefinition, ...]
    found: tuple[CodeUse, ...] = ()
    are_calls: bool = True
    mentions: tuple[CodeUse, ...] = ()
    unknown: tuple[CodeUse, ...] = ()
    others: tuple[CodeUse, ...] = ()
    by_name: tuple[CodeUse, ...] = ()
    definitions: int = 0
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    is_file: bool = False

    @property
    def certain(self) -> int:
        """The number of uses that certainly mean one of the definitions."""
        return sum(use.certain for use in self.found)

    @property
    def shown(self) -> list[CodeUse]:
        """The places to show: the uses, then the first that name it without a call or may mean it."""
        rest = [*self.unknown[:_MAX_UNKNOWN], *self.by_name[:_MAX_UNKNOWN]]
        is_class = any(one.unit == "class" for one in self.targets)
        mentions = () if is_class else self.mentions[:_MAX_MENTIONS]  # of a class, these are its types
        return [*self.found, *mentions][: MAX_SHOWN - len(rest)] + rest

    @property
    def further(self) -> list[CodeUse]:
        """The uses that are not shown."""
        shown = {(use.path, use.line) for use in self.shown}
        return [use for use in self.found if (use.path, use.line) not in shown]

    def only(self, is_wanted: Callable[[str], bool]) -> Uses:
        """Return the uses in files of wanted paths."""

        def kept(uses: Sequence[CodeUse]) -> tuple[CodeUse, ...]:
            return tuple(use for use in uses if is_wanted(use.path))

        return replace(
            self,
            found=kept(self.found),
            mentions=kept(self.mentions),
            unknown=kept(self.unknown),
            others=kept(self.others),
            by_name=kept(self.by_name),
        )

    def reason(self, use: CodeUse, verb: str = "calls") -> str:
        """Return in words what a shown place is; a use "calls", "uses" or "raises" the name."""
        name = (self.targets[0].name if self.targets else self.name) or self.name
        if use.role != "import" and (use in self.unknown or use in self.by_name):
            return f"has the name {name}"
        said = {"base": "extends", "import": "imports", "mention": "mentions" if verb == "calls" else verb}
        through = f" through {use.through}" if use.through else ""
        return f"{said.get(use.role, verb)} {name}{through}"


def definitions_meant(index: ChunkIndex, name: str) -> list[CodeDefinition]:
    """Return the definitions that a name means on its own: those in tests and in bundles only if there are
    no others.
    """
    found = index.graph.definitions(name.strip().removesuffix("()"))
    return preferred(found)


def preferred(found: Sequence[CodeDefinition]) -> list[CodeDefinition]:
    """Return definitions of one name without those in bundles and tests, unless there are no others."""
    some = list(found[:_MAX_DEFINITIONS])
    originals = [one for one in some if not is_bundle(one.path)] or some
    return [one for one in originals if kind_of_path(one.path) != "test"] or originals


def uses_of_name(
    index: ChunkIndex, name: str, *, meant: Sequence[CodeDefinition] = (), calls: bool = True
) -> Uses:
    """Return the uses of what a name means (`name`, `Outer.name`), by default `definitions_meant`; of a name
    that nothing defines, the lines that call it, else those that have it; of a file its imports.

    With `calls`, these are the calls alone if there are any.
    """
    path, symbol = name.strip().removeprefix("./"), name.strip().removesuffix("()")
    if index.chunks_of(path):
        return imports_of(index, path)
    if every := meant or index.graph.definitions(symbol) or index.graph.values(symbol):
        return replace(_uses_of(index, meant or preferred(every), calls), definitions=len(every))
    while not (held := lines_with(index, name)) and name.endswith(("?", "!")):
        name = name[:-1]  # of the sentence
    code, imports = (
        [
            use
            for one in held
            for use in (_lines_of(index, one, name, imports=wanted) if _is_code(one.hit) else ())
        ]
        for wanted in (False, True)
    )
    found = [use for use in code if use.role == "call" and calls]
    are_calls = bool(found)
    rest = [use for use in code if use.role != "call"] if found else []
    brought = {(use.path, use.line) for use in imports}
    places = [(one.hit.path, line) for one in held for line in one.every]
    lines = [] if found else [at for at in places if at not in brought] or places
    found += [CodeUse(*at, label_at(index, *at), "mention", certain=False) for at in lines]
    rest += [use for use in imports if (use.path, use.line) not in set(lines)]
    limit = limit_of_lines(index, name)
    limits = (limit,) if limit else ()
    return Uses(name, (), _ordered(found), are_calls, by_name=_ordered(rest), limits=limits)


def _uses_of(index: ChunkIndex, meant: Sequence[CodeDefinition], calls: bool) -> Uses:
    targets = meant[:_MAX_TARGETS]
    target = targets[0]
    is_value = target.unit == "constant"
    values = [*index.graph.values(target.name), *(targets if is_value else ())]
    # The graph has no references to values, and the manifests that include a template are not in it.
    has_none = is_value or language_of_path(target.path) == TEMPLATE
    every = AttributedUses() if has_none else index.graph.attributed(targets)
    called = [use for use in every.uses if use.role == "call"]
    are_calls = calls and bool(called)
    found = called if are_calls else list(every.uses)
    if calls and not found:
        found = _qualified(index, target, every.unknown)
        are_calls = bool(found)
    taken = {(use.path, use.line) for use in found}
    mentions = [use for use in every.uses if (use.path, use.line) not in taken]
    unknown = [use for use in every.unknown if (use.path, use.line) not in taken]
    by_name: list[CodeUse] = []
    limits = _limits(index, target.name, every)
    if not found and target.unit != "section":
        known = {(use.path, use.line) for use in (*unknown, *every.others)}
        written, imports = (
            [
                use
                for use in uses_by_text(index, target.name, _is_code, imports=imports)
                if (use.path, use.line) not in known and not _is_within(use, target)
            ]
            for imports in (False, True)
        )
        limits += [limit] if (limit := limit_of_lines(index, target.name)) else []
        named = {(one.path, one.scope) for one in values if is_value}  # it may be set in several places
        named |= {(one.path, one.qualified_name) for one in index.graph.definitions(target.name)}
        if target.name not in COMMON and len(named) == 1:
            found = [use for use in written if use.role == "call" and calls] or written
        are_calls = calls and any(use.role == "call" for use in found)
        taken = {(use.path, use.line) for use in found}
        resolved = {use.path for use in every.others}
        rest = [*written, *(use for use in imports if use.path not in resolved)]
        rest.sort(key=lambda use: use.role != "call")
        by_name = [use for use in rest if (use.path, use.line) not in taken]
    elif target.unit != "section" and len(meant) <= _FEW_DEFINITIONS and _is_read(index, target.name):
        known = {(use.path, use.line) for use in (*every.uses, *unknown, *every.others)}
        known |= {(one.path, one.start) for one in index.graph.definitions(target.name)}
        by_name = [use for use in _unread_as_code(index, target) if (use.path, use.line) not in known]
    if len(meant) > _MAX_TARGETS:
        limits.append(f"only {_MAX_TARGETS} definitions of the name were considered")
    kept, notes = _without_bundles(found)
    names = {one.qualified_name for one in targets}
    return Uses(
        target.qualified_name if len(names) == 1 else target.name,
        tuple(targets),
        _ordered(kept),
        are_calls or not found,
        _ordered(mentions),
        _ordered(unknown),
        every.others,
        _ordered(by_name),
        len(meant),
        tuple(notes),
        tuple(limits),
    )


def _is_read(index: ChunkIndex, name: str) -> bool:
    """Return whether all lines with a name are looked at: that of code, or one that few chunks have."""
    last = terms(name)[-1:]
    is_rare = name not in COMMON and all(len(index.postings(term).chunks) <= _FEW_CHUNKS for term in last)
    return _LIKE_CODE.search(name) is not None or is_rare


def _unread_as_code(index: ChunkIndex, target: CodeDefinition) -> Iterator[CodeUse]:
    """Yield the lines that have the name of a definition, as the graph of the code may lack references to it:
    those that are written like code, and for a name that is no word of prose all where it reads none.
    """
    own, unparsed, name = family(language_of_path(target.path)), index.unparsed, re.escape(target.name)
    is_no_word = _LIKE_CODE.search(target.name) is not None
    written = re.compile(rf"(?<![\w$/`\"']){name}(?:\s*[]\[().,;:=!?>}}\"']|\s*$)|([\"']){name}\1")
    for held in filter(lambda one: _is_code(one.hit), lines_with(index, target.name)):
        path, language = held.hit.path, held.hit.language
        is_read = family(language) == own and language in RESOLVED and path not in unparsed
        is_whole = not is_read and is_no_word
        for use in _lines_of(index, held, target.name, imports=False):
            is_code = (
                is_whole or written.search(_line(index, use)) or (own == "c" and _is_in_macro(index, use))
            )
            if is_code:
                yield use


def _is_in_macro(index: ChunkIndex, use: CodeUse) -> bool:
    above = _line(index, replace(use, line=use.line - 1))
    return bool(_DEFINE.match(_line(index, use))) or above.rstrip().endswith("\\")


def uses_by_text(
    index: ChunkIndex, name: str, wanted: Callable[[Hit], bool], *, imports: bool = False
) -> Iterator[CodeUse]:
    """Yield the lines with a name in the chunks that are wanted, other than imports and comments; with
    `imports` these instead. None of them is certain.
    """
    for held in lines_with(index, name):
        if wanted(held.hit):
            yield from _lines_of(index, held, name, imports=imports)


def _lines_of(index: ChunkIndex, held: LinesWithName, name: str, *, imports: bool) -> Iterator[CodeUse]:
    """Yield the lines with a name that are no comments, and imports only if these are wanted."""
    lines = lines_of(held.hit.text)
    is_read = held.hit.language in RESOLVED
    brought = index.graph.imports_of(held.hit.path, {re.split(r"\W+", name)[-1]}) if is_read else []
    for line in held.every:
        text = lines[line - held.hit.start]
        is_import = _IMPORT.match(text) or any(first <= line <= last for first, last in brought)
        if not is_comment(text, held.hit.language) and bool(is_import) == imports:
            role: UseRole = "import" if imports else "call" if line in held.called else "mention"
            yield CodeUse(held.hit.path, line, label_at(index, held.hit.path, line), role, certain=False)


def import_name(path: str) -> str:
    """Return the word by which an import names a file: its own name, or its folder's."""
    _, folder, file = ("", "", *path.split("/"))[-3:]
    stem = file.partition(".")[0]
    return folder if folder and stem in ("__init__", "index", "mod", "lib") else stem


def imports_by_text(index: ChunkIndex, path: str, hits: Iterable[Hit]) -> Iterator[CodeUse]:
    """Yield the lines of some chunks that import the name of a file, for imports that are not followed."""
    importing = re.compile(rf"{_IMPORTING}(?<![\w-]){re.escape(import_name(path))}(?![\w-])")
    for hit in hits:
        if hit.kind in ("code", "test") and hit.path != path:
            for number, line in enumerate(lines_of(hit.text), hit.start):
                if importing.match(line[:_MAX_LINE_CHARS]):
                    yield CodeUse(
                        hit.path, number, label_at(index, hit.path, number), "import", certain=False
                    )


def imports_of(index: ChunkIndex, path: str) -> Uses:
    """Return the imports of a file: those that are followed, else the lines that look like it; without any,
    the lines of code that have its name.
    """
    if followed := index.graph.importers(path):
        return Uses(path, (), _ordered(followed), are_calls=False, is_file=True)
    chunks = [chunk for term in terms(import_name(path))[-1:] for chunk in index.postings(term).chunks]
    hits = [index.hit(int(chunk), 0.0, {}) for chunk in chunks[:_MAX_IMPORTING]]
    found = _ordered(imports_by_text(index, path, hits))
    named = () if found else _ordered(_lines_naming(index, path, hits))
    limits = (f"only {_MAX_IMPORTING} chunks were read",) if len(chunks) > _MAX_IMPORTING else ()
    return Uses(path, (), found, are_calls=False, by_name=named, limits=limits, is_file=True)


def _lines_naming(index: ChunkIndex, path: str, hits: Iterable[Hit]) -> Iterator[CodeUse]:
    """Yield the lines of code in some chunks that have the name of a file, also without its ending if that is
    no word of prose: a page that loads it, a list of plugins.
    """
    names = [path.rpartition("/")[2], *filter(_LIKE_CODE.search, [import_name(path)])]
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
    for hit in hits:
        for number, line in enumerate(
            lines_of(hit.text) if _is_code(hit) and hit.path != path else (), hit.start
        ):
            if named.search(line) and not is_comment(line, hit.language):
                yield CodeUse(hit.path, number, label_at(index, hit.path, number), "mention", certain=False)


def summary(found: Uses, verbs: tuple[str, str] = ("called", "calls"), *, files: int) -> str:
    """Return the answer in a sentence, without full stop: where it is used, and what else has its name.

    `verbs` are the forms for "is called" and "calls"; `files` is the number of files that were read.
    """
    verb = "imported" if found.is_file else verbs[0]
    name, count, certain = f"`{found.name}`", len(found.found), found.certain
    if not count and found.unknown:
        of_name = f"{_counted('{use}', len(found.unknown))} of that name could not be attributed"
        said = f"{name} may be {verb} in {indexed_files(files)}: {of_name}, and no other was found"
    elif not count:
        said = f"{name} is {verb} in 0 places in {indexed_files(files)}"
    elif verb == "called" and not found.are_calls:
        said = f"{name} is used in {_places(count)}, but not called there by its name"
    elif not certain:
        said = f"{name} is possibly {verb} in {_places(count)}"
    else:
        said = f"{name} is {verb} in {_places(count)}"
        said += f", {certain} of them certain" if certain < count else ""
    rest = [
        (found.mentions, "more {place} {name} it without a call"),
        (found.unknown if count else (), "{use} of that name could not be attributed"),
        (found.others, "{use} of that name {mean} something else"),
        (found.by_name, "other {line} of code {have} the name"),
    ]
    several = [f"{found.definitions:,} definitions have this name"] if found.definitions > 1 else []
    return "; ".join([said, *(_counted(text, len(uses)) for uses, text in rest if uses), *several])


def indexed_files(count: int) -> str:
    """Return in words the files that were searched."""
    return f"the {count:,} indexed file" + ("s" if count != 1 else "")


def _counted(text: str, count: int) -> str:
    """Return a count with its noun and verb in the right number."""
    one = count == 1
    forms = {word: word if one else f"{word}s" for word in ("place", "use", "line")}
    forms |= {"name": "names" if one else "name", "mean": "means" if one else "mean"}
    forms["have"] = "has" if one else "have"
    return f"{count:,} {text.format_map(forms)}"


def _places(count: int) -> str:
    return f"{count:,} place" + ("s" if count != 1 else "")


def _ordered(found: Iterable[CodeUse]) -> tuple[CodeUse, ...]:
    """Return one use for each line: code before tests, in each certain ones first, in their order."""
    lines: dict[tuple[str, int], CodeUse] = {}
    for use in found:
        lines.setdefault((use.path, use.line), use)
    return tuple(sorted(lines.values(), key=lambda use: (kind_of_path(use.path) == "test", not use.certain)))


def _qualified(index: ChunkIndex, target: CodeDefinition, unknown: Sequence[CodeUse]) -> list[CodeUse]:
    """Return the calls of unknown meaning that name the class of the method: `Curl\\Util::execute(…)`."""
    if not target.scope:
        return []
    owner = re.escape(re.split(r"\W+", target.scope)[-1])
    names_class = re.compile(rf"(?<!\w){owner}\s*(?:::|->|\.)\s*{re.escape(target.name)}(?!\w)")
    return [use for use in unknown if use.role == "call" and names_class.search(_line(index, use))]


def _line(index: ChunkIndex, use: CodeUse) -> str:
    chunks = index.chunks_of(use.path)
    for chunk in chunks:
        first, last = index.lines(chunk)
        if first <= use.line <= last:
            text = next(islice(lines_of(index.hit(chunk, 0.0, {}).text), use.line - first, None), "")
            return text[:_MAX_LINE_CHARS]
    return ""


def _limits(index: ChunkIndex, name: str, every: AttributedUses) -> list[str]:
    """Return which limits of the graph were met: it reads some of the files with a name, and returns some of
    the possible uses.
    """
    limits = []
    for term in terms(name)[-1:]:
        chunks = index.postings(term).chunks
        if len(distinct(index.file[chunks[index.kind[chunks] != _DOC]])) > MAX_FILES:
            limits.append(f"only {MAX_FILES:,} files with the name were read")
    if sum(not use.certain for use in every.uses) >= MAX_POSSIBLE:
        limits.append(f"only {MAX_POSSIBLE} possible uses are counted")
    return limits


def _without_bundles(found: list[CodeUse]) -> tuple[list[CodeUse], list[str]]:
    """Return the uses that are not in bundles, and a note on the others; all if every use is in one."""
    bundles = {path for path in {use.path for use in found} if is_bundle(path)}
    kept = [use for use in found if use.path not in bundles]
    if not kept or not bundles:
        return found, []
    where = ", ".join(f"`{path}`" for path in sorted(bundles)[:_MAX_NAMED_FILES])
    return kept, [f"{len(found) - len(kept)} more are in files that repeat this code: {where}"]


def _is_code(hit: Hit) -> bool:
    return hit.kind in ("code", "test", "config")


def _is_within(use: CodeUse, target: CodeDefinition) -> bool:
    return use.path == target.path and target.start <= use.line <= target.end
