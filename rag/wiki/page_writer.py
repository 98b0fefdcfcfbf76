"""Write the pages of a wiki without a model: the contents of the code, with citations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag.code.documentation import title_of
from rag.code.symbols import File
from rag.wiki import diagrams, modules
from rag.wiki.entry_points import entry_points, keys, variables
from rag.wiki.links import CitationWriter, Links
from rag.wiki.markdown import bullets, code, plain, sentence, table, title, words
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.outline import numbered
from rag.wiki.project_summary import project_description
from rag.wiki.structure import package_quote, page_links

_MAX_API = 300
_MAX_DEPENDENCIES = 80
_MAX_TESTS = 250
_MAX_FILES = 200
_MAX_KEYS = 12
_CALLS_NOTE = (
    "Calls are listed where names identify the called definition; calls on an object whose class the code "
    "does not name are not listed."
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page's Markdown, and the files it cites."""

    text: str
    sources: frozenset[str]


class PageWriter:
    """Writes the pages of one structure.

    Args:
        structure: the list of pages.
        links: creates the targets of citations.
    """

    def __init__(self, structure: WikiStructure, links: Links) -> None:
        self.structure, self.survey, self.links = structure, structure.survey, links

    def render(self, page: WikiPage, prose: str = "", *, note: str = "") -> Rendered:
        """Render a page. `prose` is Markdown put before the sections from the code, `note` a sentence before
        it.
        """
        cited = CitationWriter(self.links)
        parts = [f"# {title(page.title)}"]
        if note:
            parts.append(note)
        if prose:
            parts += [prose, "## From the code"]
        else:
            parts.append(self._introduction(page, cited))
        parts += self._bodies[page.kind](page, cited)
        text = "\n\n".join(part for part in parts if part).rstrip() + "\n"
        return Rendered(text, frozenset(cited.paths))

    def _introduction(self, page: WikiPage, cited: CitationWriter) -> str:
        """Return a package's own description, else the description of the page."""
        if page.kind == "package" and (quote := package_quote(self.survey, page.title)):
            return modules.quoted(cited, [quote])
        end = "" if page.description.endswith((".", "…")) or not page.description else "."
        return words(page.description) + end

    @cached_property
    def _bodies(self) -> Mapping[str, Callable[[WikiPage, CitationWriter], list[str]]]:
        return {
            "overview": self._overview,
            "architecture": self._architecture,
            "package": self._package,
            "asked": self._package,
            "api": self._api,
            "testing": self._testing,
            "configuration": self._configuration,
            "documentation": self._documentation,
        }

    # ------------------------------------------------------------ shared by several pages

    @cached_property
    def page_of(self) -> dict[str, str]:
        """The id of the page of each code file; of several the first."""
        found: dict[str, str] = {}
        for page in self.structure.pages:
            if page.kind in ("package", "asked"):
                for path in page.file_paths:
                    found.setdefault(path, page.id)
        return found

    @cached_property
    def between(self) -> Counter[tuple[str, str]]:
        """The number of imports from page to page."""
        return page_links(self.survey, self.page_of)

    @cached_property
    def _pages(self) -> Mapping[str, WikiPage]:
        return {page.id: page for page in self.structure.pages}

    def _page_list(self, cited: CitationWriter, pages: Iterable[WikiPage]) -> str:
        return bullets(f"{cited.page(page)}: {words(page.description)}" for page in pages)

    def _related(self, cited: CitationWriter, counts: Counter[str], limit: int = 12) -> str:
        shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
        links = [f"{cited.page(self._pages[name])} ({count:,})" for name, count in shown]
        rest = len(counts) - len(shown)
        return ", ".join(links) + (f" and {rest:,} more" if rest else "")

    # ------------------------------------------------------------ overview

    def _overview(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        survey = self.survey
        parts = []
        if caption := project_description(survey):
            parts.append(modules.quoted(cited, caption))
        files: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        for file in survey.files.values():
            files[file.language] += 1
            lines[file.language] += len(file.lines)
        rows = [
            (code(name), f"{files[name]:,}", f"{count:,}")
            for name, count in sorted(lines.items(), key=lambda item: (-item[1], item[0]))[:15]
        ]
        starts = [
            (
                code(e.name),
                e.what,
                code(e.leads_to) if e.leads_to else "",
                cited.place(e.path, e.start, e.end),
            )
            for e in entry_points(survey)
        ]
        listed = "\n".join(
            f"{'    ' * depth}- {cited.page(p)}: {words(p.description)}"
            for _, depth, p in numbered(self.structure)
            if p.id != page.id
        )
        if starts:
            note = f"\n\n40 of {len(starts):,} entry points." if len(starts) > 40 else ""
            parts += [
                "## Where it starts",
                table(("Name", "What it is", "Leads to", "Declared at"), starts[:40]) + note,
            ]
        parts += ["## Pages", listed, "## What it holds", table(("Language", "Files", "Lines"), rows)]
        return parts

    # ------------------------------------------------------------ architecture

    def _architecture(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        pages = [p for p in self.structure.pages if p.kind in ("package", "asked")]
        parts = [
            "An arrow leads from a package to one that it imports from; its number counts the imports. "
            "Imports that do not lead to a file of this repository are not drawn."
        ]
        drawn = diagrams.pages_diagram(pages, self.between)
        if drawn is not None:
            parts += [drawn.markdown, diagrams.left_out(drawn, "packages")]
        after: dict[str, Counter[str]] = defaultdict(Counter)
        before: dict[str, Counter[str]] = defaultdict(Counter)
        for (source, target), count in self.between.items():
            after[source][target] += count
            before[target][source] += count
        rows = [
            (cited.page(p), self._related(cited, after[p.id], 6), self._related(cited, before[p.id], 6))
            for p in pages
        ]
        parts += ["## Packages", table(("Package", "Imports from", "Imported by"), rows)]
        if found := diagrams.cycles(self.between):
            circles = [
                ", ".join(cited.page(self._pages[name]) for name in group[:20]) for group in found[:10]
            ]
            parts += ["## Cycles", "The packages of each line import each other, directly or through others."]
            parts.append(bullets(circles))
        return [*parts, "## Where the dependencies are written", self._evidence(cited)]

    def _evidence(self, cited: CitationWriter) -> str:
        places: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
        for link in self.survey.links:
            source = self.page_of.get(link.source)
            for path in self.survey.files_of(link.target):
                target = self.page_of.get(path)
                if source is not None and target is not None and source != target:
                    places[source, target].append((link.source, link.start, link.end))
        order = sorted(places, key=lambda pair: (-len(set(places[pair])), pair))
        rows = [
            (
                cited.page(self._pages[source]),
                cited.page(self._pages[target]),
                cited.places(places[source, target], 3),
            )
            for source, target in order[:_MAX_DEPENDENCIES]
        ]
        note = f"\n\n{len(rows):,} of {len(order):,} dependencies." if len(order) > len(rows) else ""
        return (
            table(("From", "To", "Lines"), rows) or "No import from one package to another was resolved."
        ) + note

    # ------------------------------------------------------------ packages

    def _package(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        survey = self.survey
        paths = [path for path in page.file_paths if path in survey.files]
        parts = []
        inner = self.structure.children(page.id)
        if inner:
            parts += ["## Below this page", self._page_list(cited, inner)]
        after: Counter[str] = Counter()
        before: Counter[str] = Counter()
        for (source, target), count in self.between.items():
            if source == page.id:
                after[target] += count
            elif target == page.id:
                before[source] += count
        if after:
            parts.append(f"Imports from {self._related(cited, after)}.")
        if before:
            parts.append(f"Imported by {self._related(cited, before)}.")
        parts += self._drawn(page, paths)
        described = [path for path in paths if any(symbol.public for symbol in survey.symbols(path))]
        rest = [path for path in paths if path not in set(described)]
        if described:
            parts += ["## Modules", _CALLS_NOTE]
            parts += [modules.module_section(survey, cited, path) for path in sorted(described)]
        if rest:
            parts += ["## Other files", modules.file_table(survey, cited, sorted(rest))]
        return parts

    def _drawn(self, page: WikiPage, paths: Sequence[str]) -> list[str]:
        titles = {p.id: p.title for p in self.structure.pages}
        parts = []
        drawn = diagrams.modules_diagram(self.survey, paths, self.page_of, titles)
        if drawn is not None:
            caption = "An arrow leads from a file to one that it imports; other packages are drawn round."
            parts += ["## Imports", caption, drawn.markdown, diagrams.left_out(drawn, "files")]
        drawn = diagrams.calls_diagram(self.survey, paths)
        if drawn is not None:
            caption = "An arrow leads from a definition to one that it calls, where names identify it."
            parts += ["## Calls", caption, drawn.markdown, diagrams.left_out(drawn, "definitions")]
        return parts

    # ------------------------------------------------------------ public API

    def _api(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        survey = self.survey
        used = {
            symbol: sum(1 for call in calls if survey.files[call.path].kind == "code")
            for symbol, calls in survey.callers.items()
        }
        public = [
            symbol
            for file in survey.of_kind("code")
            for symbol in survey.symbols(file.path)
            if symbol.public and not symbol.scope
        ]
        public.sort(key=lambda symbol: (-used.get(symbol, 0), symbol.path, symbol.start))
        shown = public[:_MAX_API]
        rows = [
            (
                cited.named(symbol.name, symbol.path, symbol.start, symbol.end),
                symbol.unit,
                words(sentence(symbol.summary.text)) if symbol.summary else "",
                f"{used.get(symbol, 0):,}",
                cited.place(symbol.path, symbol.start, symbol.end),
            )
            for symbol in shown
        ]
        caption = (
            f"{len(shown):,} of {len(public):,} public classes and functions outside of classes, "
            "ordered by the number of calls that names identify. The pages of the packages list all."
        )
        return [caption, table(("Name", "What it is", "In its own words", "Calls", "Defined at"), rows)]

    # ------------------------------------------------------------ testing

    def _testing(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        survey = self.survey
        touched: dict[str, dict[str, tuple[str, int, int]]] = defaultdict(dict)
        for link in survey.links:
            if survey.files[link.source].kind == "test":
                for path in survey.files_of(link.target):
                    if survey.files[path].kind == "code":
                        touched[link.source].setdefault(path, (link.source, link.start, link.end))
        by_page: dict[str, Counter[str]] = defaultdict(Counter)
        first: dict[tuple[str, str], tuple[str, int, int]] = {}
        for test, paths in touched.items():
            for path, place in paths.items():
                if name := self.page_of.get(path):
                    by_page[name][test] += 1
                    first.setdefault((name, test), place)
        parts = []
        if by_page:
            rows = []
            for tested in self.structure.pages:
                if tests := by_page.get(tested.id):
                    best = [first[tested.id, test] for test, _ in tests.most_common()]
                    rows.append((cited.page(tested), f"{len(tests):,}", cited.places(best, 4)))
            parts += [
                "## Which tests touch which package",
                table(("Package", "Test files", "By imports at"), rows),
            ]
        return [*parts, "## Test files", self._test_files(cited, touched)]

    def _test_files(
        self, cited: CitationWriter, touched: Mapping[str, Mapping[str, tuple[str, int, int]]]
    ) -> str:
        survey = self.survey
        tests = [file for file in survey.of_kind("test") if file.text.strip()]
        tests.sort(key=lambda file: (-len(touched.get(file.path, ())), file.path))
        rows = []
        for file in sorted(tests[:_MAX_TESTS], key=lambda file: file.path):
            places = touched.get(file.path, {})
            named = [
                f"{code(path)} ({cited.place(*place, short=True)})"
                for path, place in list(places.items())[:6]
            ]
            rest = len(places) - len(named)
            count = sum(1 for symbol in survey.symbols(file.path) if symbol.name.lower().startswith("test"))
            rows.append(
                (
                    cited.file(file.path, len(file.lines)),
                    f"{count:,}" if count else "",
                    ", ".join(named) + (f" and {rest:,} more" if rest else ""),
                )
            )
        note = (
            f"\n\n{len(rows):,} of {len(tests):,} files, those that import most."
            if len(tests) > len(rows)
            else ""
        )
        return table(("File", "Tests", "Imports of the code"), rows) + note

    # ------------------------------------------------------------ configuration, documents

    def _configuration(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        parts = []
        found = variables(self.survey)
        if found:
            rows = [
                (code(name), cited.places([(s.path, s.line, s.line) for s in places], 4))
                for name, places in list(found.items())[:_MAX_FILES]
            ]
            parts += ["## Environment variables", table(("Variable", "Read at"), rows)]
        listed: list[tuple[str, ...]] = []
        files = [self.survey.files[path] for path in page.file_paths if path in self.survey.files]
        for file in files[:_MAX_FILES]:
            named = [
                f"{code(key.name)} ({cited.place(key.path, key.line, key.line, short=True)})"
                for key in keys(file, _MAX_KEYS)
            ]
            listed.append((cited.file(file.path, len(file.lines)), code(file.language), ", ".join(named)))
        note = f"\n\n{_MAX_FILES:,} of {len(files):,} files." if len(files) > _MAX_FILES else ""
        return [*parts, "## Files", table(("File", "Language", "Holds"), listed) + note]

    def _documentation(self, page: WikiPage, cited: CitationWriter) -> list[str]:
        files = [self.survey.files[path] for path in page.file_paths if path in self.survey.files]
        files = [file for file in files if file.text.strip()]
        rows = [self._document(cited, file) for file in files[:_MAX_FILES]]
        note = f"\n\n{_MAX_FILES:,} of {len(files):,} documents." if len(files) > _MAX_FILES else ""
        return [table(("Title", "In its own words", "File"), rows) + note]

    def _document(self, cited: CitationWriter, file: File) -> tuple[str, ...]:
        named = title_of(file.text, file.path)
        summary = self.survey.summary(file.path)
        return (
            plain(named.text),
            words(sentence(summary.text)) if summary else "",
            cited.file(file.path, len(file.lines)),
        )
