"""Notes on the first sources of an answer without a model: their documentation, and the calls around them.

Everything is looked up in the index; nothing is guessed. Calls are looked up only where there is no
documentation: all of the first source, and of the others those between the sources, so that a question takes
no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rag.code import documentation
from rag.code.languages import kind_of_path
from rag.code.symbols import documentation_of
from rag.database.store import Store
from rag.lines import lines_of
from rag.markdown import documented, sentence
from rag.service.repositories.repository import Repository
from rag.types import CodeDefinition, Hit, NumberedSource, PlaceNote, Prepared

_NOTED = 6
_MAX_SENTENCE = 160
_MIN_WORDS = 4
"""A paragraph with fewer words says little."""
_MAX_NAMES = 3
_MAX_DECLARED = 80
_MAX_FILES_WITH_CALLERS = 12


def place_notes(
    repositories: Sequence[Repository], sources: Sequence[NumberedSource], *, about_facts: bool = False
) -> dict[int, PlaceNote]:
    """Return the notes on the first sources, by number; if the answer is `about_facts`, without the calls of
    the first one.
    """
    found, defined = dict[int, PlaceNote](), list[_Defined]()
    for source in sources[:_NOTED]:
        for repository in repositories:
            if repository.source.location == source.hit.location:
                read = repository.store.file_text(source.hit.path)
                if read and read[1] == source.hit.blob:
                    note, one = _documented(repository.store, source.hit, lines_of(read[0]))
                    found[source.n] = note
                    defined += [_Defined(source.n, repository.store, one)] if one else []
                    break
    defined = [one for one in defined if one.definition.unit != "constant"]
    undocumented = [one for one in defined if not found[one.n].sentences]
    if undocumented and not about_facts and undocumented[0].n == sources[0].n:
        first = undocumented.pop(0)
        found[first.n] = _with_calls(found[first.n], first)
    for n, callers, callees in _calls_between(undocumented, defined):
        found[n] = replace(found[n], callers=callers, callees=callees)
    return found


def noted(repositories: Sequence[Repository], prepared: Prepared) -> Prepared:
    """Return a prepared question with the notes on its sources, for an answer without its model."""
    notes = place_notes(repositories, prepared.prompt.sources, about_facts=prepared.code_facts is not None)
    return replace(prepared, notes=notes)


@dataclass(frozen=True, slots=True)
class _Defined:
    """The definition that a source has the name of."""

    n: int
    store: Store
    definition: CodeDefinition


def _documented(store: Store, hit: Hit, lines: Sequence[str]) -> tuple[PlaceNote, CodeDefinition | None]:
    """Return what documentation says of a source, and its definition if it has one."""
    if hit.kind == "doc" or hit.unit == "section":
        found = documentation.paragraphs(hit.text, hit.path)
        quotes = (quote for _, quote in found if len(quote.text.split()) >= _MIN_WORDS)
        return PlaceNote(sentences=tuple((hit.start + q.start - 1, _sentence(q.text)) for q in quotes)), None
    one = _definition(store, hit)
    if one is None:
        return PlaceNote(sentences=_head_of_file(hit, lines) if hit.start == 1 else ()), None
    quote = documentation_of(lines, hit.path, hit.language, one.name, row=one.start - 1, end=one.end)
    line = next((n for n in range(one.start, one.end + 1) if one.name in lines[n - 1]), one.start)
    word = documentation.own_word(lines[line - 1], one.name, one.unit, hit.language)
    if quote is not None:
        return PlaceNote(line, ((quote.start, _sentence(quote.text)),), word=word), one
    if one.unit == "constant":
        declared = lines[line - 1].strip()
        return PlaceNote(line, signature=declared[:_MAX_DECLARED], word=word), one
    inside = [other for other in store.graph.defined_in(hit.path) if other.scope == one.qualified_name]
    head = documentation.signature(lines, one.start - 1, one.end, one.name)
    return PlaceNote(
        line, members=_names(inside) if one.unit == "class" else (), signature=head, word=word
    ), one


def _with_calls(note: PlaceNote, of: _Defined) -> PlaceNote:
    """Return a note with the calls of a definition."""
    is_function = of.definition.unit == "function"
    callees = _names(one for _, one in of.store.graph.callees(of.definition)) if is_function else ()
    return replace(note, callers=_callers(of.store, of.definition), callees=callees)


def _calls_between(
    some: Sequence[_Defined], every: Sequence[_Defined]
) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Yield the number of each of some sources, and which of all sources certainly call it, and it calls."""
    names = {one.definition.name for one in every} if some else set()
    calls = [
        (caller, callee)
        for caller in (every if some else ())
        if caller.definition.unit == "function"
        for _, callee in caller.store.graph.callees(caller.definition, names.__contains__)
        if callee != caller.definition
    ]
    for one in some:
        callers = dict.fromkeys(
            caller.definition.qualified_name for caller, callee in calls if callee == one.definition
        )
        callees = _names(callee for caller, callee in calls if caller is one)
        yield one.n, tuple(callers)[:_MAX_NAMES], callees


def _definition(store: Store, hit: Hit) -> CodeDefinition | None:
    """Return the definition, or the value, that a hit has the name of."""
    graph = store.graph
    for found in (graph.defined_in(hit.path), graph.values_in(hit.path)):
        for one in found:
            if one.name == hit.symbol and one.start <= hit.end and hit.start <= one.end:
                return one
    return None


def _callers(store: Store, one: CodeDefinition) -> tuple[str, ...]:
    """Return what certainly calls a definition: code before tests."""
    if len(store.files_referring(one.name)) > _MAX_FILES_WITH_CALLERS:
        return ()
    certain = [use for use in store.graph.callers([one]) if use.certain and use.within]
    code = [use for use in certain if kind_of_path(use.path) != "test"] or certain
    names = dict.fromkeys(use.within for use in code if use.within != one.qualified_name)
    return tuple(names)[:_MAX_NAMES]


def _names(found: Iterable[CodeDefinition]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in found))[:_MAX_NAMES]


def _head_of_file(hit: Hit, lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Return what the comment at the top of a file says."""
    if hit.language == "python":
        quote = documentation.docstring(lines, hit.path, 0, len(lines))
    else:
        quote = documentation.head_comment(lines, hit.path, hit.language)
    return ((quote.start, _sentence(quote.text)),) if quote else ()


def _sentence(text: str) -> str:
    return sentence(documented(text), _MAX_SENTENCE)
