"""The list of pages of a wiki: from the code itself, or as the repository's steering file requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rag.code.documentation import Quote
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.retrieval.search import search
from rag.types import Kind
from rag.wiki.entry_points import MANIFESTS
from rag.wiki.grouping import PageGroup, groups
from rag.wiki.markdown import sentence
from rag.wiki.models import Importance, PageKind, WikiPage, WikiSection, WikiStructure
from rag.wiki.project_summary import project_description, readmes
from rag.wiki.repository_graph import survey
from rag.wiki.steering import Steering, read_steering

if TYPE_CHECKING:
    from rag.retrieval.search import Searcher
    from rag.service import Repository

MAX_PAGES = 60
_FIXED_PAGES = 6
_MAX_RELATED = 6
_MAX_FOUND_FILES = 12
_PACKAGE_DOCS = (
    "__init__.py",
    "README.md",
    "README.rst",
    "doc.go",
    "lib.rs",
    "mod.rs",
    "index.ts",
    "index.js",
)


def wiki_structure(
    repository: Repository, *, max_pages: int = MAX_PAGES, steering: Steering | None = None
) -> WikiStructure:
    """Return the pages of a repository's wiki, from its open store; nothing is written and no model is
    called.

    Args:
        repository: from `Engine.repository`.
        max_pages: at least 1; pages that the steering file requests are all made.
        steering: the requested pages; by default from the repository's own `.devin/wiki.json`.

    Raises:
        WikiSteeringInvalid: the steering file cannot be read.
    """
    surveyed = survey(repository)
    asked = read_steering(surveyed) if steering is None else steering
    return structure_of(surveyed, max_pages=max_pages, steering=asked, searcher=repository.searcher)


def structure_of(
    surveyed: Survey,
    *,
    max_pages: int = MAX_PAGES,
    steering: Steering | None = None,
    searcher: Searcher | None = None,
) -> WikiStructure:
    """Return the same from a survey. The `searcher` finds the files of pages that are requested by name."""
    if max_pages < 1:
        raise ValueError(f"a wiki has at least 1 page, not {max_pages}")
    steering = steering or Steering()
    if steering.pages:
        pages = _asked_pages(surveyed, steering, searcher)
    else:
        pages = _pages_of_code(surveyed, max_pages)
    return WikiStructure(
        id="wiki",
        title=surveyed.name,
        description=describe(surveyed),
        pages=tuple(pages),
        sections=tuple(sections_of(pages)),
        survey=surveyed,
        notes=steering.notes,
    )


def describe(surveyed: Survey) -> str:
    """Return the project's description in its own words; "" when it has none."""
    found = project_description(surveyed)
    return re.sub(r":$", ".", sentence(found[0].text, 400)) if found else ""


# ---------------------------------------------------------------- from the code


def _pages_of_code(surveyed: Survey, max_pages: int) -> list[WikiPage]:
    found = groups(surveyed.of_kind("code"), max(1, max_pages - _FIXED_PAGES))
    fixed = {page.id: page for page in _fixed_pages(surveyed)}
    packages = _package_pages(surveyed, found, {"index", *fixed})
    before = [fixed[name] for name in ("overview", "architecture") if name in fixed]
    after = [page for name, page in fixed.items() if name not in ("overview", "architecture")]
    pages = [*before, *packages, *after]
    # A small limit drops the pages that a reader needs least.
    while len(pages) > max_pages:
        pages.remove(after.pop() if after else before.pop() if len(before) > 1 else pages[-1])
    return pages


_LISTED: tuple[tuple[Kind, PageKind, str], ...] = (
    ("test", "testing", "Which tests touch which code"),
    ("config", "configuration", "Configuration files and settings"),
    ("doc", "documentation", "The repository's own documents"),
)
"""Pages that list all files of a kind."""


def _fixed_pages(surveyed: Survey) -> list[WikiPage]:
    manifests = [path for path in surveyed.files if path.rpartition("/")[2] in MANIFESTS]
    manifests.sort(key=lambda path: (path.count("/"), path))
    code = surveyed.of_kind("code")
    pages = [
        WikiPage(
            "overview",
            "Overview",
            "What the repository is, what it holds, and where it starts",
            "high",
            (*readmes(surveyed), *manifests[:10]),
            kind="overview",
        )
    ]
    if code:
        central = _central(surveyed, code)
        pages += [
            WikiPage(
                "architecture",
                "Architecture",
                "The packages and how they depend on each other",
                "high",
                central,
                kind="architecture",
            ),
            WikiPage(
                "api",
                "Public API",
                "The public classes and functions, the most used first",
                "medium",
                central,
                kind="api",
            ),
        ]
    for kind, page, about in _LISTED:
        if files := surveyed.of_kind(kind):
            paths = sorted((file.path for file in files), key=lambda path: (path.count("/"), path))
            pages.append(WikiPage(page, page.capitalize(), about, "low", tuple(paths), kind=page))
    return pages


def _central(surveyed: Survey, code: Sequence[File], limit: int = 20) -> tuple[str, ...]:
    used = _imported(surveyed)
    paths = sorted((file.path for file in code), key=lambda path: (-used[path], path))
    return tuple(paths[:limit])


def _imported(surveyed: Survey) -> Counter[str]:
    """Return how many files import each file."""
    return Counter(
        path
        for source, target in {(link.source, link.target) for link in surveyed.links}
        for path in surveyed.files_of(target)
        if surveyed.files[source].kind != "test"
    )


def _package_pages(surveyed: Survey, found: Sequence[PageGroup], used: set[str]) -> list[WikiPage]:
    ids = {group.folder: new_id(group.folder or "other code", used) for group in found}
    parents = {inner.folder: group.folder for group in found for inner in group.inner}
    page_of = {file.path: ids[group.folder] for group in found for file in group.files}
    between = page_links(surveyed, page_of)
    imported = _imported(surveyed)
    weights = {ids[group.folder]: sum(len(file.lines) for file in group.files) for group in found}
    pages = []
    for group in found:
        page_id = ids[group.folder]
        paths = sorted((f.path for f in group.files), key=lambda path: (-imported[path], path))
        near: Counter[str] = Counter()
        for (source, target), count in between.items():
            if page_id in (source, target):
                near[target if source == page_id else source] += count
        parent = parents.get(group.folder)
        pages.append(
            WikiPage(
                page_id,
                group.folder or "Other code",
                _package_description(surveyed, group),
                _importance(page_id, weights, between),
                tuple(paths),
                tuple(name for name, _ in sorted(near.items(), key=lambda n: (-n[1], n[0]))[:_MAX_RELATED]),
                ids[parent] if parent is not None else "",
                kind="package",
            )
        )
    return pages


def page_links(surveyed: Survey, page_of: dict[str, str]) -> Counter[tuple[str, str]]:
    """Count the imports from the files of one page to those of another, by pairs of page ids."""
    between: Counter[tuple[str, str]] = Counter()
    for link in surveyed.links:
        source = page_of.get(link.source)
        targets = {page_of.get(path) for path in surveyed.files_of(link.target)} - {None, source}
        if source is not None:
            between.update((source, target) for target in targets if target is not None)
    return between


def _importance(page_id: str, weights: dict[str, int], between: Counter[tuple[str, str]]) -> Importance:
    """Rank by size and by how many other pages depend on it: the upper third is high, the lower third low."""

    def score(name: str) -> float:
        dependents = sum(1 for _, target in between if target == name)
        return weights[name] / max(1, max(weights.values())) + dependents / max(1, len(weights))

    rank = sorted(weights, key=lambda name: (-score(name), name)).index(page_id) / len(weights)
    return "high" if rank < 1 / 3 else "medium" if rank < 2 / 3 else "low"


def package_quote(surveyed: Survey, folder: str) -> Quote | None:
    """Return the documentation of a package in its conventional file; None if it has none."""
    for path in (f"{folder}/{name}" for name in _PACKAGE_DOCS if folder):
        if path in surveyed.files and (quote := surveyed.summary(path)):
            return quote
    return None


def _package_description(surveyed: Survey, group: PageGroup) -> str:
    """Return the package's own description; else its size."""
    if quote := package_quote(surveyed, group.folder):
        return sentence(quote.text)
    files, lines = len(group.files), sum(len(file.lines) for file in group.files)
    folders = sorted({file.path.rpartition("/")[0].partition("/")[0] or "the top" for file in group.files})
    where = group.folder or ", ".join(folders[:8]) + (" and more" if len(folders) > 8 else "")
    return f"{files:,} {'file' if files == 1 else 'files'}, {lines:,} lines in {where}"


def new_id(title: str, used: set[str]) -> str:
    """Return an unused id of letters, digits and dashes."""
    base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "page"
    found, number = base, 2
    while found in used:
        found, number = f"{base}-{number}", number + 1
    used.add(found)
    return found


# ---------------------------------------------------------------- as asked


def _asked_pages(surveyed: Survey, steering: Steering, searcher: Searcher | None) -> list[WikiPage]:
    used = {"index"}
    ids = {page.title: new_id(page.title, used) for page in steering.pages}
    order = _parents_first([(page.title, page.parent) for page in steering.pages])
    by_title = {page.title: page for page in steering.pages}
    pages = []
    for title in order:
        page = by_title[title]
        about = " ".join((page.title, page.purpose, *page.notes))
        pages.append(
            WikiPage(
                ids[title],
                title,
                page.purpose,
                "medium" if page.parent else "high",
                files_about(surveyed, about, f"{page.title}. {page.purpose}", searcher),
                parent=ids[page.parent] if page.parent else "",
                notes=page.notes,
            )
        )
    return with_relations(surveyed, pages)


def files_about(
    surveyed: Survey, text: str, question: str, searcher: Searcher | None, limit: int = _MAX_FOUND_FILES
) -> tuple[str, ...]:
    """Return files that a text names by path or folder, then those that a search for the question finds."""
    named: list[str] = []
    for word in dict.fromkeys(re.findall(r"[\w.@+/-]*[\w/]", text)):
        path = word.removeprefix("./").strip("/")
        if path in surveyed.files:
            named.append(path)
        elif "/" in word and path:
            named += [other for other in surveyed.files if other.startswith(f"{path}/")][:limit]
    found = search([searcher], question, k=2 * limit).hits if searcher is not None else ()
    return tuple(dict.fromkeys([*named, *(hit.path for hit in found)]))[:limit]


def with_relations(surveyed: Survey, pages: Sequence[WikiPage]) -> list[WikiPage]:
    """Return the pages, related where they share files or one imports files of the other."""
    homes: dict[str, list[str]] = {}
    for page in pages:
        for path in page.file_paths:
            homes.setdefault(path, []).append(page.id)
    near: dict[str, Counter[str]] = {page.id: Counter() for page in pages}

    def join(sources: Iterable[str], targets: Iterable[str], weight: int) -> None:
        for source in sources:
            for target in targets:
                if source != target:
                    near[source][target] += weight
                    near[target][source] += weight

    for shared in homes.values():
        join(shared, shared, 1)
    for link in surveyed.links:
        if link.source in homes and link.target in homes:
            join(homes[link.source], homes[link.target], 1)
    return [
        replace(page, related_pages=tuple(name for name, _ in near[page.id].most_common(_MAX_RELATED)))
        for page in pages
    ]


def _parents_first(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return titles in the order given, each page followed by its descendants."""

    def below(parent: str) -> Iterable[str]:
        for title, above in pairs:
            if above == parent:
                yield title
                yield from below(title)

    return list(below(""))


# ---------------------------------------------------------------- sections


def sections_of(pages: Sequence[WikiPage]) -> list[WikiSection]:
    """Return sections as DeepWiki shows them; pages that have child pages form sections of their own."""
    parents = [page for page in pages if any(other.parent == page.id for other in pages)]
    own = {page.id: f"section-{page.id}" for page in parents}
    kinds = (
        ("Overview", ("overview", "architecture", "api")),
        ("Code", ("package",)),
        ("Topics", ("asked",)),
        ("Project", ("testing", "configuration", "documentation")),
    )
    sections: list[WikiSection] = []
    for title, wanted in kinds:
        inside = [page for page in pages if page.kind in wanted and not page.parent]
        if inside:
            subsections = tuple(own[page.id] for page in inside if page.id in own)
            ids = tuple(page.id for page in inside)
            sections.append(WikiSection(f"section-{len(sections) + 1}", title, ids, subsections))
    for page in parents:
        inside = [other for other in pages if other.parent == page.id]
        subsections = tuple(own[other.id] for other in inside if other.id in own)
        sections.append(
            WikiSection(own[page.id], page.title, tuple(other.id for other in inside), subsections)
        )
    return sections
