"""The pages to look things up in: public API, extension points, settings, tests, documents, glossary."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rag.code.dispatch import FunctionTable
from rag.code.documentation import title_of
from rag.code.symbols import File, Symbol
from rag.markdown import code, plain, said, table, title
from rag.quoting import counted
from rag.wiki.facts.facts import short_name
from rag.wiki.models import WikiPage
from rag.wiki.pages.links import CitationWriter
from rag.wiki.pages.page_context import PageContext, Part

_MAX_PER_PACKAGE, _MAX_PACKAGES, _MAX_USED = 60, 30, 40
_MAX_POINTS, _MAX_IMPLEMENTATIONS, _MAX_REGISTERING, _MAX_TABLES = 30, 5, 30, 20
_MAX_HOMES = 2
_MAX_TESTED, _MAX_TESTS, _MAX_DOCUMENTS, _MAX_TERMS, _MAX_FOLDERS = 40, 40, 100, 60, 60
_LEGAL = re.compile(r"copyright\b|\(c\) |©|(?:the )?(?:mit|apache|bsd|gnu) .{0,40}licen[cs]e", re.IGNORECASE)
"""How a licence begins, which does not say what a document is about."""
_CHUNK = 20
"""The number of rows in one part of a page, which may have no room for the next part."""


def _listed(head: str, rows: Sequence[str], name: str) -> Iterator[Part]:
    """Yield a heading with a list, in parts of a few rows."""
    for number in range(0, len(rows), _CHUNK):
        chunk = "\n".join(rows[number : number + _CHUNK])
        if number:
            yield Part(chunk, name, continues=True)
        else:
            yield Part(f"{head}\n\n{chunk}".lstrip(), name)


# ---------------------------------------------------------------- public API


def api_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the exported definitions by package; without any, the functions that most files use."""
    exported = context.facts.exports
    if not exported:
        used = [s for s in context.facts.ranked(sorted(context.facts.own)) if not context.facts.scope(s)]
        used = used[:_MAX_USED]
        yield Part(
            "No exported interface was found: no package exports names, and no header is installed. These "
            "are the definitions that most of the code uses."
        )
        yield from _listed(
            "## Most used", [_exported(context, s, s.name, cited) for s in used], "definitions"
        )
        return
    packages: dict[str, list[tuple[Symbol, str]]] = defaultdict(list)
    for one in exported:
        packages[one.package].append((one.symbol, one.name))
    count = counted(len(exported), "exported definition")
    yield Part(f"{count}; those that documents, tests and examples show come first.")
    order = _most_shown_first(list(packages))
    for package in order[:_MAX_PACKAGES]:
        inside = packages[package]
        rows = [_exported(context, s, name, cited) for s, name in inside[:_MAX_PER_PACKAGE]]
        if len(inside) > _MAX_PER_PACKAGE:
            rows.append(f"- {len(inside) - _MAX_PER_PACKAGE:,} more")
        yield from _listed(f"## {title(package)}", rows, code(package))
    if len(order) > _MAX_PACKAGES:
        yield Part(f"Not listed: {counted(len(order) - _MAX_PACKAGES, 'more package')}.")


def _most_shown_first(packages: Sequence[str]) -> list[str]:
    """Return packages in the order of what is shown most of them and of those inside; outer ones first."""
    first: dict[str, int] = {}
    for number, package in enumerate(packages):
        outer = package
        while outer:
            first.setdefault(outer, number)
            outer = re.sub(r"(?:^|[./])[^./]*$", "", outer)
    return sorted(packages, key=lambda name: (first[name], name.count(".") + name.count("/"), name))


def _exported(context: PageContext, symbol: Symbol, name: str, cited: CitationWriter) -> str:
    linked = cited.named(name, symbol.path, symbol.start, symbol.end)
    about = f": {said(symbol.summary.text)}" if symbol.summary else ""
    home = context.page_of.get(symbol.path)
    more = f" ({cited.page(context.pages[home])})" if home else ""
    return f"- {linked}{more}{about}"


# ---------------------------------------------------------------- extending


def extending_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield base classes and interfaces with their implementations, and what registers code."""
    rows = []
    for point in context.facts.extension_points[:_MAX_POINTS]:
        named = context.definition(cited, point.symbol)
        inherited = [code(s.name) for s in point.implementations[:_MAX_IMPLEMENTATIONS]]
        rest = len(point.implementations) - len(inherited)
        more = f" and {rest:,} more" if rest > 0 else ""
        verb = "Implemented by" if point.is_interface else "Extended by"
        rows.append(f"- {named}" + (f" {verb} {', '.join(inherited)}{more}." if inherited else ""))
    if rows:
        yield from _listed("## Classes and interfaces to extend", rows, "classes")
    registering = context.facts.registering[:_MAX_REGISTERING]
    if registering:
        rows = [f"- {context.definition(cited, symbol)}" for symbol in registering]
        yield from _listed("## Functions that register code", rows, "functions")
    if rows := _tables(context, cited):
        yield from _listed("## Tables of functions", rows, "tables")


def _tables(context: PageContext, cited: CitationWriter) -> list[str]:
    """Return the tables of functions by their type, the most frequent types first."""
    of_type: dict[str, list[FunctionTable]] = defaultdict(list)
    for one in context.facts.graph.dispatch.tables:
        of_type[one.type or f"{one.path} {one.name}"].append(one)
    rows = []
    for tables in sorted(of_type.values(), key=lambda found: (-len(found), found[0].path, found[0].start)):
        first = max(tables, key=lambda one: len(one.functions))
        held = [code(short_name(function)) for function in first.functions[:_MAX_IMPLEMENTATIONS]]
        rest = len(first.functions) - len(held)
        more = f" and {rest:,} more" if rest > 0 else ""
        linked = cited.named(first.name, first.path, first.start, first.end)
        kind = f"{code(first.type)}, " if first.type else ""
        count = f"{len(tables):,} tables, such as " if len(tables) > 1 else ""
        rows.append(f"- {kind}{count}{linked}, which holds {', '.join(held)}{more}.")
        if len(rows) == _MAX_TABLES:
            break
    return rows


# ---------------------------------------------------------------- glossary


def glossary_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the main types and functions, in the order of the alphabet, each with its sentence."""
    rows = {}
    for symbol in glossary_terms(context):
        home = context.page_of.get(symbol.path)
        cited.paths.add(symbol.path)
        named = code(short_name(symbol))
        linked = cited.page(context.pages[home], named) if home else named
        rows[short_name(symbol)] = f"- {linked}: {said(symbol.summary.text) if symbol.summary else ''}"
    yield from _listed("", [rows[name] for name in sorted(rows, key=str.lower)], "terms")


def glossary_terms(context: PageContext) -> list[Symbol]:
    """Return the documented types, then other definitions, that a reader should know."""
    ranked = [s for s in context.facts.ranked(sorted(context.facts.own)) if s.summary is not None]
    types = [s for s in ranked if s.unit == "class"]
    others = [s for s in ranked if s.unit != "class" and not context.facts.scope(s)]
    return [*types, *others][:_MAX_TERMS] if len(types) < _MAX_TERMS else types[:_MAX_TERMS]


# ---------------------------------------------------------------- tests


def testing_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield which tests touch which concept, and the test files."""
    survey = context.survey
    touched: dict[str, Counter[str]] = defaultdict(Counter)
    for call in survey.calls:
        if survey.files[call.path].kind == "test" and (home := context.page_of.get(call.callee.path)):
            touched[home][call.path] += 1
    for link in survey.links:
        if survey.files[link.source].kind == "test":
            for path in survey.files_of(link.target):
                if home := context.page_of.get(path):
                    touched[home][link.source] += 1
    rows = []
    for concept in context.concepts:
        counts = touched[concept.id]
        if counts:
            best = sorted(counts, key=lambda path: (-counts[path], path))
            places = [(path, 1, max(1, len(survey.files[path].lines))) for path in best]
            rows.append((cited.page(concept), f"{len(counts):,}", cited.places(places, 3)))
    if rows:
        yield Part(
            "## Which tests touch which concept\n\n"
            + table(("Concept", "Test files", "Those with most calls and imports"), rows[:_MAX_TESTED])
        )
    tests = [file for file in survey.of_kind("test") if file.text.strip()]
    named = [_test(context, file, cited) for file in tests[:_MAX_TESTS]]
    note = [f"- {len(tests) - _MAX_TESTS:,} more"] if len(tests) > _MAX_TESTS else []
    yield from _listed("## Test files", [*named, *note], "test files")


def _test(context: PageContext, file: File, cited: CitationWriter) -> str:
    count = sum(1 for s in context.survey.symbols(file.path) if s.name.lower().startswith("test"))
    summary = context.survey.summary(file.path)
    tests = f", {count:,} tests" if count > 1 else ""
    return f"- {cited.file(file.path, len(file.lines))}{tests}" + (
        f": {said(summary.text)}" if summary else ""
    )


# ---------------------------------------------------------------- configuration, documents, carried code


def configuration_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the settings with their meanings, first the variables, then the others by file."""
    rows: dict[str, list[str]] = {}
    for one in sorted(context.facts.settings, key=lambda one: not one.name.isupper()):
        cited.paths |= set(one.paths)
        default = f", by default {code(one.default)}" if one.default else ""
        about = f": {said(one.about)}" if one.about else ""
        head = "Environment variables" if one.name.isupper() else one.path
        homes = [path for path in one.paths if path in context.page_of][:_MAX_HOMES]
        read = [cited.page(context.pages[context.page_of[path]], code(path)) for path in homes]
        places = f" ({', '.join(read)})" if read else ""
        rows.setdefault(head, []).append(f"- {code(one.name)}{default}{about}{places}")
    for head, inside in rows.items():
        yield from _listed(f"## {title(head)}", inside, head)


def documentation_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the documents with their titles and first sentences."""
    files = [context.survey.files[path] for path in page.file_paths if path in context.survey.files]
    files = [file for file in files if file.text.strip() and not file.path.endswith(".py")]
    rows = []
    for file in files[:_MAX_DOCUMENTS]:
        summary = context.survey.summary(file.path)
        is_legal = file.path.startswith("LICEN") or (summary and _LEGAL.match(summary.text))
        about = f": {said(summary.text)}" if summary and not is_legal else ""
        named = plain(title_of(file.text, file.path).text)
        rows.append(f"- {named} ({cited.file(file.path, len(file.lines))}){about}")
    if len(files) > _MAX_DOCUMENTS:
        rows.append(f"- {counted(len(files) - _MAX_DOCUMENTS, 'more document')}")
    yield from _listed("", rows, "documents")


def carried_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the folders of code that is listed on one page, with their files."""
    folders: dict[str, list[str]] = defaultdict(list)
    depth = 2 if len({path.split("/")[0] for path in page.file_paths}) <= 2 else 1
    for path in page.file_paths:
        folders["/".join(path.split("/")[:-1][:depth])].append(path)
    rows = []
    for folder, paths in sorted(folders.items()):
        paths.sort(key=lambda path: (path.count("/"), path))
        first = next((path for path in paths if context.survey.summary(path)), paths[0])
        summary = context.survey.summary(first)
        about = f" {said(summary.text)}" if summary else ""
        count = counted(len(paths), "file")
        named = f"**{plain(folder)}**" if folder else "**The top folder**"
        rows.append(
            f"- {named}, {count}, such as {cited.file(first, len(context.survey.files[first].lines))}.{about}"
        )
    if len(rows) > _MAX_FOLDERS:
        rows = [*rows[:_MAX_FOLDERS], f"- {counted(len(rows) - _MAX_FOLDERS, 'more folder')}"]
    yield from _listed("## Folders", rows, "folders")
