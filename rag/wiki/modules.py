"""The section of a page on one file: documentation, imports, public definitions and their users."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from rag.code.documentation import Quote
from rag.code.survey import Call, Survey
from rag.code.symbols import File, Symbol
from rag.wiki.links import CitationWriter
from rag.wiki.markdown import blockquote, code, sentence, table, title, words

MAX_ROWS = 80
_MAX_PLACES = 4
_MAX_USES = 3


def quoted(cited: CitationWriter, quotes: Sequence[Quote]) -> str:
    """Return a quotation from the repository with its lines; "" for none."""
    if not quotes:
        return ""
    places = cited.places([(quote.path, quote.start, quote.end) for quote in quotes], 6)
    quotation = blockquote("\n\n".join(quote.text for quote in quotes))
    return f"{quotation}\n\nSource: {places}"


def module_section(survey: Survey, cited: CitationWriter, path: str, *, level: int = 3) -> str:
    """Return a file with its public definitions, under a heading."""
    file = survey.files[path]
    parts = [f"{'#' * level} {title(path)}", _facts(survey, cited, file)]
    if summary := survey.summary(path):
        parts.append(quoted(cited, [summary]))
    parts.append(symbol_table(survey, cited, path))
    return "\n\n".join(part for part in parts if part)


def _facts(survey: Survey, cited: CitationWriter, file: File) -> str:
    """Return the size, and what the file imports and is imported by, each with its lines."""
    sentences = [f"{cited.file(file.path, len(file.lines))} ({code(file.language)})"]
    taken = [(link.source, link.start, link.end, link.target) for link in survey.links_from(file.path)]
    if taken:
        sentences.append(f"Imports {_targets(cited, taken)}")
    users = [link for link in survey.links_to(file.path) if survey.files[link.source].kind != "test"]
    if users:
        sentences.append(
            f"Imported at {cited.places([(u.source, u.start, u.end) for u in users], _MAX_PLACES)}"
        )
    return ". ".join(sentences) + "."


def _targets(cited: CitationWriter, taken: Sequence[tuple[str, int, int, str]]) -> str:
    first: dict[str, tuple[str, int, int]] = {}
    for source, start, end, target in taken:
        first.setdefault(target, (source, start, end))
    shown = [
        f"{code(target)} ({cited.place(*place, short=True)})"
        for target, place in list(first.items())[: 3 * _MAX_PLACES]
    ]
    rest = len(first) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def symbol_table(survey: Survey, cited: CitationWriter, path: str) -> str:
    """Return the public definitions of a file; "" when it has none. It says what is left out."""
    public = [symbol for symbol in survey.symbols(path) if symbol.public]
    if not public:
        return ""
    shown, note = public, ""
    if len(shown) > MAX_ROWS:
        shown = [symbol for symbol in public if not symbol.scope][:MAX_ROWS]
        note = f"{len(shown):,} of {len(public):,} public definitions, the outermost."
    rows = [_row(survey, cited, symbol) for symbol in shown]
    return "\n\n".join(
        part for part in (table(("Definition", "In its own words", "Lines", "Called at"), rows), note) if part
    )


def _row(survey: Survey, cited: CitationWriter, symbol: Symbol) -> tuple[str, ...]:
    lines = cited.place(symbol.path, symbol.start, symbol.end, short=True)
    summary = words(sentence(symbol.summary.text)) if symbol.summary else ""
    return code(shown_signature(symbol)), summary, lines, uses(survey, cited, symbol)


def shown_signature(symbol: Symbol) -> str:
    """Return the head of a definition, with the class it belongs to."""
    if symbol.scope and symbol.name in symbol.signature and "(" in symbol.signature:
        before, _, after = symbol.signature.partition("(")
        if before.rpartition(" ")[2] == symbol.name:
            return f"{symbol.qualified_name}({after}"
    if not symbol.scope and symbol.signature.startswith(symbol.name):
        return symbol.signature
    return symbol.qualified_name


def uses(survey: Survey, cited: CitationWriter, symbol: Symbol) -> str:
    """Return the first calls of a definition outside tests, and the number of the others."""
    calls = [call for call in survey.callers.get(symbol, ()) if survey.files[call.path].kind == "code"]
    here: list[Call] = calls[:_MAX_USES]
    shown = [cited.place(call.path, call.line, call.line) for call in here]
    rest = len(calls) - len(here)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def file_table(survey: Survey, cited: CitationWriter, paths: Sequence[str], limit: int = 100) -> str:
    """Return files without public definitions, one line each; it says how many are left out."""
    rows = []
    for path in paths[:limit]:
        summary = survey.summary(path)
        summed = words(sentence(summary.text)) if summary else ""
        rows.append((cited.file(path, len(survey.files[path].lines)), summed))
    note = f"\n\n{limit:,} of {len(paths):,} files." if len(paths) > limit else ""
    return table(("File", "In its own words"), rows) + note


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the name in diagrams for each path: without the folder that all share."""
    if not paths:
        return {}
    common = posixpath.commonpath([posixpath.dirname(path) for path in paths]) if len(paths) > 1 else ""
    cut = len(common) + 1 if common else 0
    return {path: path[cut:] for path in paths}
