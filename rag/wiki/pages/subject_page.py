"""The page about a subject: its types, and what the code of each part does with it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from rag.code.symbols import Symbol
from rag.markdown import code, title
from rag.quoting import counted
from rag.wiki.facts.placed_documents import sections_named
from rag.wiki.facts.subjects import singular
from rag.wiki.models import WikiPage
from rag.wiki.pages.concept_page import type_text
from rag.wiki.pages.links import CitationWriter
from rag.wiki.pages.page_context import PageContext, Part

_MAX_TYPES, _MAX_PARTS, _MAX_ROWS, _MAX_TESTS, _MAX_NAMES = 1, 8, 8, 8, 12
_MAX_DOCUMENTS = 3


def subject_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the parts of the page of a subject."""
    subject = next(one for one in context.facts.subjects if one.title == page.title)
    yield from _documents(context, subject.title, cited)
    types = [symbol for symbol in subject.types if not context.facts.scope(symbol)][:_MAX_TYPES]
    for symbol in types:
        yield Part(type_text(context, symbol, cited), code(symbol.name))
    inside: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in subject.symbols:
        if symbol not in types and (symbol.public or not context.facts.scope(symbol)):
            inside[context.page_of.get(symbol.path, "")].append(symbol)
    order = sorted(inside, key=lambda name: (not name, -len(inside[name]), name))
    for name in order[:_MAX_PARTS]:
        head = f"## In {cited.page(context.pages[name])}" if name else "## Elsewhere"
        yield Part(f"{head}\n\n{_rows(context, inside[name], cited)}", head)
    yield from _tests(context, subject.symbols, cited)


def _rows(context: PageContext, symbols: list[Symbol], cited: CitationWriter) -> str:
    """Return the most important definitions as a list, and the names of others."""
    shown = sorted(symbols[:_MAX_ROWS], key=lambda symbol: (symbol.path, symbol.start))
    rows = "\n".join(f"- {context.definition(cited, symbol)}" for symbol in shown)
    rest = list(dict.fromkeys(symbol.name for symbol in symbols[_MAX_ROWS:]))
    more = f" and {len(rest) - _MAX_NAMES:,} more" if len(rest) > _MAX_NAMES else ""
    return f"{rows}\n\nAlso {', '.join(map(code, rest[:_MAX_NAMES]))}{more}." if rest else rows


def _documents(context: PageContext, plural: str, cited: CitationWriter) -> Iterator[Part]:
    """Yield what the repository's documents say under headings that begin with the subject."""
    forms = f"{re.escape(plural)}|{re.escape(singular(plural.lower()))}"
    begins = re.compile(rf"(?:the |your |managing |about )?(?:{forms})\b", re.IGNORECASE)
    for section in sections_named(context.survey, begins)[:_MAX_DOCUMENTS]:
        yield Part(
            f"### {title(section.title)}\n\n" + context.quoted(cited, section.quotes), title(section.title)
        )


def _tests(context: PageContext, symbols: tuple[Symbol, ...], cited: CitationWriter) -> Iterator[Part]:
    survey, callers = context.survey, context.survey.callers
    counts = Counter(
        call.path
        for symbol in symbols
        for call in callers.get(symbol, ())
        if survey.files[call.path].kind == "test"
    )
    if counts:
        best = sorted(counts, key=lambda path: (-counts[path], path))
        rows = [f"- {cited.file(path, len(survey.files[path].lines))}" for path in best[:_MAX_TESTS]]
        rest = len(best) - _MAX_TESTS
        more = f"\n\nNot listed: {counted(rest, 'more test file')}." if rest > 0 else ""
        yield Part("## Tested by\n\n" + "\n".join(rows) + more, "the tests")
