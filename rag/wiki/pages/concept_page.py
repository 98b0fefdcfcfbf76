"""The page about a concept: what it is for, how it works, its types and definitions, documents and tests."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence

from rag.code.fields import fields_of
from rag.code.symbols import Symbol
from rag.markdown import code, plain, said, title
from rag.quoting import counted
from rag.wiki.facts.facts import short_name
from rag.wiki.models import WikiPage
from rag.wiki.pages import diagrams
from rag.wiki.pages.links import CitationWriter
from rag.wiki.pages.page_context import PageContext, Part

_MAX_TYPES, _MAX_FIELDS, _MAX_METHODS, _MAX_ALL_METHODS = 5, 14, 12, 16
_MAX_FILES, _MAX_ROWS, _MAX_NAMES, _MAX_SECTIONS = 14, 10, 24, 10
_MAX_DOCUMENTS, _MAX_TESTS, _MAX_OTHERS, _MAX_CALLS = 4, 8, 20, 10
_MAX_INTERNAL, _MIN_REACH, _MAX_LINKED = 6, 3, 7
_MAX_INTERNAL_TYPES, _MIN_TYPE_REACH = 3, 8
_LINES_PER_ROW, _MOST_ROWS = 400, 20
"""A long file has more rows."""
_MANY_TYPES = 20
_NAMED_FILES = 3
_DRAWN_FROM = 60
"""The diagram is drawn from this many of the most important definitions."""


def concept_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the parts of the page of a concept."""
    survey, facts = context.survey, context.facts
    paths = [path for path in page.file_paths if path in survey.files]
    ranked = facts.ranked(paths)
    inner = context.structure.children(page.id)
    if inner:
        yield Part("## Below this page\n\n" + context.page_list(cited, inner))
    yield Part(_facts(context, page, paths, cited))
    drawn = diagrams.calls_diagram(cited, facts.graph, ranked[:_DRAWN_FROM], context.address_of)
    if drawn is not None:
        caption = (
            "An arrow leads from a definition to one that it certainly calls. "
            f"{diagrams.left_out(drawn, 'definition', 'call')}"
        )
        yield Part(f"## How it works\n\n{drawn.markdown}\n\n{caption}", "the diagram of calls")
    types = [symbol for symbol in ranked if symbol.unit == "class" and not facts.scope(symbol)]
    types.sort(key=lambda symbol: not _has_parts(context, symbol))
    types = types[: _MAX_TYPES if len(types) < _MANY_TYPES else 2 * _MAX_TYPES]
    types += _internal_types(context, paths)
    _link_first(context, paths, types, cited)
    for number, symbol in enumerate(types):
        head = "## Main types\n\n" if number == 0 else ""
        yield Part(head + type_text(context, symbol, cited), code(symbol.name))
    yield from _documents(context, page, cited)
    yield from _files(context, paths, {*types}, cited)
    yield from _tests(context, paths, cited)


def _internal_types(context: PageContext, paths: Sequence[str]) -> list[Symbol]:
    """Return the documented types that are not public, but whose methods much of the code runs through."""
    reach = context.facts.graph.reach
    found: dict[Symbol, int] = {}
    for path in paths:
        for symbol in context.survey.symbols(path):
            if (
                symbol.unit == "class"
                and not symbol.public
                and symbol.summary
                and not context.facts.scope(symbol)
            ):
                methods = [s for s in _inside(context, symbol, path) if s.unit == "function"]
                found[symbol] = max(map(reach, methods), default=0)
    best = sorted(found, key=lambda s: (-found[s], s.path, s.start))[:_MAX_INTERNAL_TYPES]
    return [symbol for symbol in best if found[symbol] >= _MIN_TYPE_REACH]


def _link_first(
    context: PageContext, paths: Sequence[str], types: Sequence[Symbol], cited: CitationWriter
) -> None:
    """Give the few links of each file to its main types, then to the functions that lead furthest."""
    graph = context.facts.graph
    for path in paths:
        inside = [
            s for s in context.survey.symbols(path) if s.unit == "function" and graph.reach(s) >= _MIN_REACH
        ]
        inside.sort(key=lambda s: (s.name.lower().startswith("test"), -graph.reach(s), s.start))
        for symbol in [*(one for one in types if one.path == path), *inside[:_MAX_LINKED]]:
            cited.named(symbol.name, symbol.path, symbol.start, symbol.end)


def _facts(context: PageContext, page: WikiPage, paths: Sequence[str], cited: CitationWriter) -> str:
    folders = Counter(posixpath.dirname(path) for path in paths)
    where = ", ".join(code(name) if name else "the top folder" for name, _ in folders.most_common(3))
    more = " and other folders" if len(folders) > 3 else ""
    named = ", ".join(code(posixpath.basename(path)) for path in paths[:_NAMED_FILES])
    rest = len(paths) - _NAMED_FILES
    others = f" and {counted(rest, 'other file')}" if rest > 0 else ""
    sentences = [f"{named}{others} in {where}{more}." if paths else ""]
    after = {target: n for (source, target), n in context.between.items() if source == page.id}
    before = {source: n for (source, target), n in context.between.items() if target == page.id}
    if after:
        sentences.append(f"Uses {context.related(cited, after)}.")
    if before:
        sentences.append(f"Used by {context.related(cited, before)}.")
    return " ".join(part for part in sentences if part)


# ---------------------------------------------------------------- types


def type_text(context: PageContext, symbol: Symbol, cited: CitationWriter) -> str:
    """Return a type with its fields and methods, under its own heading."""
    file = context.survey.files[symbol.path]
    parts = [f"### {title(symbol.name)}", f"{context.definition(cited, symbol)}"]
    declared = fields_of(file, symbol)
    if declared:
        rows = [
            f"- {code(field.name)}: {code(field.type)}"
            + (f" — {said(field.comment)}" if field.comment else "")
            for field in declared[:_MAX_FIELDS]
        ]
        rest = len(declared) - _MAX_FIELDS
        more = f"\n\n{counted(rest, 'more field')}." if rest > 0 else ""
        parts.append("Fields:\n\n" + "\n".join(rows) + more)
    members = [s for s in _inside(context, symbol, symbol.path) if s.public]
    members += _methods_elsewhere(context, symbol)
    if methods := [s for s in members if s.unit == "function"]:
        parts.append(_members(context, methods, cited))
    parts.append(_others([s.name for s in members if s.unit == "class"], "Types inside"))
    inner = [*_inside(context, symbol, symbol.path), *_methods_elsewhere(context, symbol, public=False)]
    parts.append(_internal(context, inner, _MAX_INTERNAL, cited))
    parts = [part for part in parts if part]
    return "\n\n".join(parts)


def _has_parts(context: PageContext, symbol: Symbol) -> bool:
    """Return whether a type has fields or methods; a list of constants has none."""
    if fields_of(context.survey.files[symbol.path], symbol) or _methods_elsewhere(context, symbol):
        return True
    return bool(_inside(context, symbol, symbol.path))


def _methods_elsewhere(context: PageContext, symbol: Symbol, *, public: bool = True) -> list[Symbol]:
    """Return the methods of a C++, Go or Rust type in the other files of its folder."""
    file = context.survey.files[symbol.path]
    if file.language not in ("c", "cpp", "go", "rust"):
        return []
    others = (p for p in context.page_of if p != symbol.path and posixpath.dirname(p) == file.folder)
    return [s for path in others for s in _inside(context, symbol, path) if s.public == public]


def _inside(context: PageContext, symbol: Symbol, path: str) -> list[Symbol]:
    """Return the members of a type that a file defines."""
    return [s for s in context.survey.symbols(path) if s.scope == symbol.qualified_name]


def _members(context: PageContext, members: Sequence[Symbol], cited: CitationWriter) -> str:
    """Return the most important methods, under the sections of the file, and the names of the others."""
    facts = context.facts
    best = sorted(members, key=lambda s: (-facts.importance(s), s.start))
    best = list({s.name: s for s in reversed(best)}.values())[::-1]  # overloads and clauses are one row
    running = sorted(best, key=lambda s: -facts.graph.reach(s))
    shown = [s for s in best if s.summary is not None][:_MAX_METHODS]
    shown += [s for s in running if s not in shown and facts.graph.furthest(s)][
        : _MAX_ALL_METHODS - len(shown)
    ]
    rows = {s: _row(context, s, cited, s.name) for s in shown}
    grouped: dict[str, list[str]] = {}
    for member in sorted(shown, key=lambda s: (s.path, s.start)):
        grouped.setdefault(_section_of(context, member), []).append(rows[member])
    parts = []
    for section, inside in grouped.items():
        head = f"Methods, {plain(section)}:" if section else "Methods:"
        parts.append(f"{head}\n\n" + "\n".join(inside))
    parts.append(_others([s.name for s in best if s not in rows], "Other methods"))
    return "\n\n".join(part for part in parts if part)


def _section_of(context: PageContext, symbol: Symbol) -> str:
    sections = context.facts.sections(symbol.path)
    return next((s.title for s in sections if s.start <= symbol.start <= s.end), "")


def _others(names: Sequence[str], head: str) -> str:
    every = list(dict.fromkeys(names))
    if not every:
        return ""
    rest = len(every) - _MAX_NAMES
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{head}: {', '.join(code(name) for name in every[:_MAX_NAMES])}{more}."


# ---------------------------------------------------------------- files


def _files(
    context: PageContext, paths: Sequence[str], types: set[Symbol], cited: CitationWriter
) -> Iterator[Part]:
    survey = context.survey
    public = [path for path in paths if any(s.public for s in survey.symbols(path))][:_MAX_FILES]
    internal = [path for path in paths if path not in public and _functions(context, path)]
    shown = {*public, *internal[: _MAX_FILES - len(public)]}
    head = "## Definitions by file\n\n"
    for path in filter(shown.__contains__, paths):
        if text := _file(context, path, types, cited):
            yield Part(head + text, code(path))
            head = ""
    rest = [path for path in paths if path not in shown]
    if rest:
        rows = [_one_line(context, path, cited) for path in sorted(rest)[:_MAX_OTHERS]]
        more = f"\n\n{counted(len(rest) - _MAX_OTHERS, 'more file')}." if len(rest) > _MAX_OTHERS else ""
        yield Part("## Other files\n\n" + "\n".join(rows) + more, f"{len(rest):,} other files")


def _one_line(context: PageContext, path: str, cited: CitationWriter) -> str:
    summary = context.survey.summary(path)
    linked = cited.file(path, len(context.survey.files[path].lines))
    return f"- {linked}: {said(summary.text)}" if summary else f"- {linked}"


def _file(context: PageContext, path: str, types: set[Symbol], cited: CitationWriter) -> str:
    """Return a file with its outer definitions, in its own sections if it has any."""
    survey, _facts = context.survey, context.facts
    summary = survey.summary(path)
    described = {s.name for s in types}
    outer = [s for s in survey.symbols(path) if s.public and s not in types]
    outer = [s for s in outer if context.facts.scope(s).partition(".")[0] not in described]
    outer = [s for s in outer if not context.facts.graph.namespaces.includes(s)]
    if any(not context.facts.scope(s) for s in outer):
        outer = [s for s in outer if not context.facts.scope(s)]
    is_internal = not any(s.public for s in survey.symbols(path))
    if not outer and summary is None and not is_internal:
        return ""
    sections = context.facts.sections(path)[:_MAX_SECTIONS]
    room = min(_MOST_ROWS, _MAX_ROWS + len(survey.files[path].lines) // _LINES_PER_ROW)
    shown = {s: _row(context, s, cited) for s in _most_telling(context, outer)[:room]}
    parts = [f"### {title(path)}", said(summary.text) if summary is not None else ""]
    grouped: dict[str, list[Symbol]] = {"": []}
    for symbol in outer:
        inside = next((s for s in sections if s.start <= symbol.start <= s.end), None)
        grouped.setdefault(inside.title if inside else "", []).append(symbol)
    spans = {section.title: section for section in sections}
    for name, inside_section in grouped.items():
        rows = [shown[s] for s in inside_section if s in shown]
        others = _others([s.name for s in inside_section if s not in shown], "Also" if rows else "Defines")
        if name and (rows or others):
            span = spans[name]
            parts.append(f"**{plain(name)}** ({cited.linked('source', path, span.start, span.end)})")
        parts += ["\n".join(rows), others]
    least = 0 if is_internal else _MIN_REACH
    parts.append(_internal(context, _functions(context, path), _MAX_ROWS - len(shown), cited, least))
    return "\n\n".join(part for part in parts if part)


def _functions(context: PageContext, path: str) -> list[Symbol]:
    """Return the functions of a file that are outside of other definitions."""
    return [s for s in context.survey.symbols(path) if s.unit == "function" and not context.facts.scope(s)]


def _internal(
    context: PageContext,
    symbols: Sequence[Symbol],
    limit: int,
    cited: CitationWriter,
    least: int = _MIN_REACH,
) -> str:
    """Return the functions that are not public and lead furthest; "" if there are none."""
    reach = context.facts.graph.reach
    found = [s for s in symbols if not s.public and s.unit == "function" and reach(s) >= least]
    found = sorted(found, key=lambda s: (-reach(s), s.start))[: max(0, min(limit, _MAX_INTERNAL))]
    rows = [_row(context, s, cited) for s in sorted(found, key=lambda s: s.start)]
    return "Internal:\n\n" + "\n".join(rows) if rows else ""


def _most_telling(context: PageContext, symbols: Sequence[Symbol]) -> list[Symbol]:
    """Return the definitions that most of the code uses, and those from which most of it runs, in turn."""
    facts = context.facts
    used = sorted(symbols, key=lambda s: (-facts.importance(s), s.start))
    running = sorted(symbols, key=lambda s: (-facts.graph.reach(s), s.start))
    merged = dict.fromkeys(symbol for pair in zip(used, running, strict=True) for symbol in pair)
    return list(merged)


def _row(context: PageContext, symbol: Symbol, cited: CitationWriter, name: str = "") -> str:
    """Return a definition with the calls in it that lead furthest, what it hands on and what it may run."""
    graph = context.facts.graph
    row = f"- {context.definition(cited, symbol, name)}"
    written = graph.written(symbol)
    handed = [use.callee for use in graph.leads_to(symbol)[len(graph.called_by(symbol)) :]]
    may_run = [call.callee for call in graph.may_run(symbol)]
    for verb, found in (("Calls", graph.furthest(symbol)), ("Hands on", handed), ("May run", may_run)):
        names = [written.get(one, short_name(one)) for one in found[:_MAX_CALLS]]
        if names:
            row += f" {verb} {', '.join(map(code, dict.fromkeys(names)))}."
    return row


# ---------------------------------------------------------------- documents, tests


def _documents(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    placed = context.documents.get(page.id, [])[:_MAX_DOCUMENTS]
    for number, section in enumerate(placed):
        head = "## In the documentation\n\n" if number == 0 else ""
        named = f"### {title(section.title)}\n\n" if section.title else ""
        yield Part(head + named + context.quoted(cited, section.quotes), title(section.title))


def _tests(context: PageContext, paths: Sequence[str], cited: CitationWriter) -> Iterator[Part]:
    survey, wanted = context.survey, set(paths)
    counts: Counter[str] = Counter()
    for call in survey.calls:
        if call.callee.path in wanted and survey.files[call.path].kind == "test":
            counts[call.path] += 1
    for path in paths:
        for link in survey.links_to(path):
            if survey.files[link.source].kind == "test":
                counts[link.source] += 1
    if counts:
        best = sorted(counts, key=lambda path: (-counts[path], path))
        rows = [f"- {cited.file(path, len(survey.files[path].lines))}" for path in best[:_MAX_TESTS]]
        rest = len(best) - _MAX_TESTS
        more = f"\n\nNot listed: {counted(rest, 'more test file')}." if rest > 0 else ""
        yield Part("## Tested by\n\n" + "\n".join(rows) + more, "the tests")
