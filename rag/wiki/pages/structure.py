"""The list of pages of a wiki: from the code itself, or as the repository's steering file requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rag.code.entry_points import MANIFESTS
from rag.code.parts import content, packages
from rag.code.project_summary import package_quote, project_description, readmes
from rag.code.roles import Role, is_carried
from rag.code.survey import Survey
from rag.markdown import documented, sentence
from rag.quoting import counted
from rag.retrieval.search import search
from rag.service.tools.survey_of import survey
from rag.types import Kind
from rag.wiki.facts.compound_words import CompoundWords
from rag.wiki.facts.concept_names import concept_titles, is_named, path_words
from rag.wiki.facts.concepts import OTHER_CODE, Concept, concepts
from rag.wiki.facts.facts import WikiFacts, facts_of, short_name
from rag.wiki.models import MAX_DESCRIPTION, Importance, PageKind, WikiPage, WikiSection, WikiStructure
from rag.wiki.pages.devin_json import Steering, read_steering

if TYPE_CHECKING:
    from rag.retrieval.search import Searcher
    from rag.service import Repository

MAX_PAGES = 60
_MAX_RELATED = 6
_MAX_FOUND_FILES = 12
_MAX_SUBJECT_FILES = 40


def wiki_structure(
    repository: Repository,
    *,
    max_pages: int = MAX_PAGES,
    keeps: Callable[[str], bool] | None = None,
) -> WikiStructure:
    """Return the pages of a repository's wiki, from its open store; nothing is written and no model is
    called.

    Args:
        repository: from `Engine.repository`.
        max_pages: at least 1; pages that the steering file requests are all made.
        keeps: whether the wiki is about a file, by its path; by default about all.

    Raises:
        WikiSteeringInvalid: the steering file cannot be read.
    """
    surveyed = survey(repository)
    if keeps is not None:
        surveyed = surveyed.part(keeps)
    asked = read_steering(surveyed)
    return structure_of(surveyed, max_pages=max_pages, steering=asked, searcher=repository.searcher)


def with_page(
    structure: WikiStructure, repository: Repository, title: str, files: Sequence[str] = ()
) -> tuple[WikiStructure, WikiPage]:
    """Return the structure with one more page: about these files, or if none of them exists, about those that
    a search for the title finds.
    """
    existing = structure.survey.files
    named = [path for path in files if path in existing]
    found = named or files_about(structure.survey, title, title, repository.searcher)
    page = WikiPage("asked", title, "", file_paths=tuple(path for path in found if path in existing))
    return replace(structure, pages=(*structure.pages, page)), page


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
    """Return the pages in reading order; with a small limit, without those that a reader needs least."""
    facts = facts_of(surveyed)
    guides = {
        page.id: page for page in (*_guide_pages(facts), *_reference_pages(facts), *_carried_pages(facts))
    }
    room = max(1, max_pages - len(guides))
    used = {"index", *guides}
    about = _subject_pages(facts, used)[: room // 2]
    main = content(surveyed)
    files = facts.roles["own"] if facts.own.issuperset(file.path for file in main) else main
    groups = concepts(files, room - len(about), packages(surveyed))
    found = [*about, *_concept_pages(facts, groups, guides, used)]
    before = [guides.pop(name) for name in ("overview", "architecture", "flow") if name in guides]
    after = list(guides.values())
    while len(before) + len(found) + len(after) > max_pages:
        if after:
            after.pop()
        elif len(before) > 1:
            before.pop()
        else:
            found.pop()
    return [*before, *found, *after]


def _guide_pages(facts: WikiFacts) -> list[WikiPage]:
    surveyed = facts.survey
    manifests = [
        path for path in surveyed.files if path.rpartition("/")[2] in MANIFESTS and not is_carried(path)
    ]
    manifests.sort(key=lambda path: (path.count("/"), path))
    about = "What the repository is, its parts, and where it starts"
    sources = (*readmes(surveyed), *manifests[:10])
    pages = [WikiPage("overview", "Overview", about, "high", sources, kind="overview")]
    if facts.own:
        central = tuple(dict.fromkeys(s.path for s in facts.ranked(sorted(facts.own))[:60]))[:20]
        about = "The parts of the code, and how they depend on each other"
        pages.append(WikiPage("architecture", "Concepts", about, "high", central, kind="architecture"))
    if facts.flows:
        paths = tuple(dict.fromkeys(s.path for flow in facts.flows for s in flow.nodes))
        about = "What runs, in which order, from the entry points"
        pages.append(WikiPage("flow", "How it runs", about, "high", paths, kind="flow"))
    return pages


_LISTED: tuple[tuple[Kind, PageKind, str], ...] = (
    ("config", "configuration", "What can be set, with its meaning and default"),
    ("test", "testing", "Which tests touch which concept"),
    ("doc", "documentation", "The repository's own documents"),
)
"""Pages that list all files of a kind."""


def _reference_pages(facts: WikiFacts) -> list[WikiPage]:
    """Return public API, extending, configuration, testing, glossary and documents, where there are any."""
    surveyed, pages = facts.survey, []
    if facts.exports or facts.ranked(sorted(facts.own)):
        paths = tuple(dict.fromkeys(one.symbol.path for one in facts.exports))[:40]
        about = "What the packages export, the most documented and used first"
        pages.append(WikiPage("api", "Public API", about, "medium", paths, kind="api"))
    tables = facts.graph.dispatch.tables
    if facts.extension_points or facts.registering or tables:
        symbols = [*(point.symbol for point in facts.extension_points), *facts.registering]
        places = [*(symbol.path for symbol in symbols), *(table.path for table in tables)]
        paths = tuple(dict.fromkeys(places))[:40]
        about = "Classes and interfaces to extend, and functions that register code"
        pages.append(WikiPage("extending", "Extending", about, "medium", paths, kind="extending"))
    listed = {}
    for kind, page, about in _LISTED:
        files = [file.path for file in surveyed.of_kind(kind)]
        if kind == "config":
            files = list(dict.fromkeys(path for one in facts.settings for path in one.paths))
        if files:
            paths = tuple(sorted(files, key=lambda path: (is_carried(path), path.count("/"), path)))
            listed[page] = WikiPage(page, page.capitalize(), about, "low", paths, kind=page)
    pages += [listed[name] for name in ("configuration", "testing") if name in listed]
    documented = [s for s in facts.ranked(sorted(facts.own)) if s.summary is not None]
    if documented:
        about = "The main types and functions, by name"
        paths = tuple(dict.fromkeys(s.path for s in documented[:60]))
        pages.append(WikiPage("glossary", "Glossary", about, "low", paths, kind="glossary"))
    return [*pages, *([listed["documentation"]] if "documentation" in listed else [])]


_CARRIED: tuple[tuple[Role, str, str], ...] = (
    ("example", "Examples", "Examples, benchmarks and notebooks"),
    ("tool", "Tools", "Scripts and tools for development"),
    ("vendored", "Vendored code", "Code of other projects that the repository carries"),
    ("generated", "Generated code", "Code that a program wrote"),
    ("other", "Other files", "Files that define nothing"),
)


def _carried_pages(facts: WikiFacts) -> list[WikiPage]:
    return [
        WikiPage(
            new_id(name, set()), name, about, "low", tuple(f.path for f in facts.roles[role]), kind="carried"
        )
        for role, name, about in _CARRIED
        if facts.roles[role]
    ]


def _subject_pages(facts: WikiFacts, used: set[str]) -> list[WikiPage]:
    """Return a page for each subject of the program: the code of all its layers about it."""
    pages = []
    for subject in facts.subjects:
        paths = tuple(dict.fromkeys(symbol.path for symbol in subject.symbols))
        summaries = (documented(symbol.summary.text) for symbol in subject.types if symbol.summary)
        said = [sentence(next((text for text in summaries if len(text.split()) > 2), ""), MAX_DESCRIPTION)]
        said += [f"Operations: {', '.join(subject.verbs)}"] if subject.verbs else []
        about = ". ".join(text.rstrip(".") for text in said if text)
        about = about or f"{counted(len(subject.symbols), 'definition')} in {counted(len(paths), 'file')}"
        name = new_id(subject.title, used)
        pages.append(WikiPage(name, subject.title, about, "high", paths[:_MAX_SUBJECT_FILES], kind="subject"))
    return pages


def _concept_pages(
    facts: WikiFacts, found: Sequence[Concept], guides: Mapping[str, WikiPage], used: set[str]
) -> list[WikiPage]:
    paths = [file.path for concept in found for file in concept.files]
    known = CompoundWords(facts.survey, {word for path in paths for word in path_words(path)})
    others = {page.title for page in guides.values()} | {subject.title for subject in facts.subjects}
    titles = concept_titles(found, facts.survey.of_kind("doc"), known, facts.survey.name, others)
    ids = [new_id(title, used) for title in titles]
    page_of = {file.path: name for name, concept in zip(ids, found, strict=True) for file in concept.files}
    between = page_links(facts.survey, page_of)
    weights = {name: concept.lines for name, concept in zip(ids, found, strict=True)}
    pages = []
    quoted = _repeated(facts, found) | {quote.text for quote in project_description(facts.survey)}
    for page_id, title, concept in zip(ids, titles, found, strict=True):
        near: Counter[str] = Counter()
        for (source, target), count in between.items():
            if page_id in (source, target):
                near[target if source == page_id else source] += count
        pages.append(
            WikiPage(
                page_id,
                title,
                _concept_description(facts, concept, quoted, title),
                _importance(page_id, weights, between),
                tuple(file.path for file in concept.files),
                tuple(name for name, _ in sorted(near.items(), key=lambda n: (-n[1], n[0]))[:_MAX_RELATED]),
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


def _main_paths(concept: Concept) -> list[str]:
    """Return the files of the folder that has most of a concept's code, else all its files."""
    lines: Counter[str] = Counter()
    for file in concept.files:
        lines[file.folder] += len(file.lines)
    main = [file.path for file in concept.files if lines[file.folder] * 2 > lines.total()]
    return main or [file.path for file in concept.files]


def _repeated(facts: WikiFacts, found: Sequence[Concept]) -> set[str]:
    """Return what several packages say of themselves: that they are parts, and not which."""
    quotes = {quote for one in found if (quote := package_quote(facts.survey, _main_paths(one)))}
    return {text for text, count in Counter(quote.text for quote in quotes).items() if count > 1}


def _concept_description(facts: WikiFacts, concept: Concept, quoted: set[str], title: str) -> str:
    """Return the concept's own description, unless it is in `quoted`, to which it is added; else its main
    definitions, first those of the files that the title names.
    """
    paths = _main_paths(concept)
    if concept.title == OTHER_CODE:
        folders = list(dict.fromkeys(f"`{file.folder or '.'}/`" for file in concept.files))
        return (
            f"{counted(len(concept.files), 'file')} of smaller parts, in {', '.join(folders[:_MAX_RELATED])}"
        )
    if (quote := package_quote(facts.survey, paths)) and quote.text not in quoted:
        quoted.add(quote.text)
        return sentence(documented(quote.text), MAX_DESCRIPTION)
    outer = [symbol for symbol in facts.ranked(paths) if not facts.scope(symbol)]
    outer.sort(key=lambda symbol: not is_named(title, symbol.path, facts.survey.name))
    names = list(dict.fromkeys(f"`{symbol.name}`" for symbol in outer))[:5]
    first = (
        sentence(documented(outer[0].summary.text), MAX_DESCRIPTION).rstrip(".:")
        if outer and outer[0].summary
        else ""
    )
    if re.sub(r"\W", "", first).lower() not in ("", outer[0].name.lower() if outer else ""):
        rest = f" Also {', '.join(names[1:])}." if len(names) > 1 else ""
        return f"{names[0]}: {first}.{rest}"
    members = list(dict.fromkeys(f"`{short_name(symbol)}`" for symbol in facts.ranked(paths)))[:5]
    if names or members:
        return f"Defines {', '.join(names or members)}"
    if quote := next(filter(None, map(facts.survey.summary, paths)), None):
        return sentence(documented(quote.text), MAX_DESCRIPTION)
    return f"{counted(len(concept.files), 'file')}, such as `{paths[0]}`"


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
        ("Overview", ("overview", "architecture", "flow")),
        ("Subjects", ("subject",)),
        ("Code", ("package",)),
        ("Topics", ("asked",)),
        ("Reference", ("api", "extending", "configuration", "testing", "glossary")),
        ("Project", ("documentation", "carried")),
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
