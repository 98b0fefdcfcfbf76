"""What the bodies of pages share: the structure, the facts, and which page describes a file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag.code.documentation import Quote
from rag.code.symbols import Symbol
from rag.markdown import blockquote, documented, said, words
from rag.wiki.facts.facts import WikiFacts, facts_of, short_name
from rag.wiki.facts.placed_documents import PlacedSection, placed_documents
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.pages.links import CitationWriter, Links

MAX_PAGE_BYTES, MAX_PAGE_LINES = 40_000, 400
_RESERVED_BYTES, _RESERVED_LINES = 1_500, 8
_MAX_NAMED = 12


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page. Its `name` is listed where the page has no room for it; one that `continues` a list
    is not separated from it.
    """

    text: str
    name: str = ""
    continues: bool = False


class PageContext:
    """The structure of a wiki with what its pages are written from."""

    def __init__(self, structure: WikiStructure, links: Links) -> None:
        self.structure, self.survey, self.links = structure, structure.survey, links

    @property
    def facts(self) -> WikiFacts:
        """The facts of the repository."""
        return facts_of(self.survey)

    @cached_property
    def pages(self) -> Mapping[str, WikiPage]:
        """The pages by id."""
        return {page.id: page for page in self.structure.pages}

    @cached_property
    def concepts(self) -> Sequence[WikiPage]:
        """The pages about code, in order."""
        return [page for page in self.structure.pages if page.kind in ("package", "asked")]

    @cached_property
    def page_of(self) -> Mapping[str, str]:
        """The id of the page of each code file; of several the first."""
        found: dict[str, str] = {}
        for page in self.concepts:
            for path in page.file_paths:
                found.setdefault(path, page.id)
        return found

    def address_of(self, path: str) -> str:
        """Return the address of the page about a file, "" if there is none."""
        name = self.page_of.get(path)
        return self.links.page(self.pages[name]) if name else ""

    @cached_property
    def uses(self) -> Mapping[tuple[str, str], Sequence[tuple[str, int]]]:
        """Where the files of one page use another page: the lines of calls, then of imports at run time."""
        found: dict[tuple[str, str], dict[tuple[str, int], None]] = defaultdict(dict)
        for call in self.survey.calls:
            self._add(found, call.path, call.callee.path, call.line)
        for link in self.survey.links:
            if not link.types_only:
                for path in self.survey.files_of(link.target):
                    self._add(found, link.source, path, link.start)
        return {pair: tuple(places) for pair, places in found.items()}

    def _add(
        self, found: dict[tuple[str, str], dict[tuple[str, int], None]], source: str, target: str, line: int
    ) -> None:
        one, other = self.page_of.get(source), self.page_of.get(target)
        if one is not None and other is not None and one != other:
            found[one, other][source, line] = None

    @cached_property
    def between(self) -> Counter[tuple[str, str]]:
        """How many lines of one page's files call or import something of another's."""
        return Counter({pair: len(places) for pair, places in self.uses.items()})

    @cached_property
    def documents(self) -> Mapping[str, list[PlacedSection]]:
        """The sections of documents about each concept, by the id of its page."""
        return placed_documents(self.survey, {page.id: page.file_paths for page in self.concepts})

    # ------------------------------------------------------------ Markdown

    def page_list(self, cited: CitationWriter, pages: Iterable[WikiPage]) -> str:
        """Return pages as a list with their descriptions."""
        return "\n".join(f"- {cited.page(page)}: {words(page.description)}" for page in pages)

    def related(self, cited: CitationWriter, counts: Mapping[str, int], limit: int = 8) -> str:
        """Return pages with the most first, and the number of the others."""
        shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
        links = [cited.page(self.pages[name]) for name, _ in shown]
        rest = len(counts) - len(shown)
        return ", ".join(links) + (f" and {rest:,} more" if rest else "")

    def quoted(self, cited: CitationWriter, quotes: Sequence[Quote]) -> str:
        """Return a quotation from the repository with its source; "" for none."""
        if not quotes:
            return ""
        quotation = blockquote("\n\n".join(documented(quote.text) for quote in quotes))
        first, last = quotes[0], quotes[-1]
        end = last.end if last.path == first.path and last.end >= first.start else first.end
        return f"{quotation}\n\nSource: {cited.source(first.path, first.start, end)}"

    def definition(self, cited: CitationWriter, symbol: Symbol, name: str = "") -> str:
        """Return a definition as a linked name with the first sentence of its documentation."""
        linked = cited.named(name or short_name(symbol), symbol.path, symbol.start, symbol.end)
        about = said(symbol.summary.text) if symbol.summary else ""
        return f"{linked}: {about}" if about else linked


def fitted(parts: Sequence[Part], cited: CitationWriter) -> str:
    """Join the parts of a page that fit, then what is left out and the addresses of the links."""
    shown: list[str] = []
    left: list[str] = []
    size, lines = _RESERVED_BYTES, _RESERVED_LINES
    for part in parts:
        if not part.text:
            continue
        addresses = cited.references(part.text)
        more = len(part.text.encode()) + len(addresses.encode()) + 4
        rows = part.text.count("\n") + addresses.count("\n") + 4
        if shown and (size + more > MAX_PAGE_BYTES or lines + rows > MAX_PAGE_LINES):
            left.append(part.name)
            continue
        if part.continues and shown:
            shown[-1] += f"\n{part.text}"
        else:
            shown.append(part.text)
        size, lines = size + more, lines + rows
    named = [name for name in left if name]
    if named:
        rest = f" and {len(named) - _MAX_NAMED:,} more" if len(named) > _MAX_NAMED else ""
        shown.append(f"Left out, since the page is full: {', '.join(named[:_MAX_NAMED])}{rest}.")
    text = "\n\n".join(shown)
    return "\n\n".join(part for part in (text, cited.references(text)) if part).rstrip() + "\n"
