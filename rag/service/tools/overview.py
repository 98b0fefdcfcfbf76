"""The overview of a repository: what it is, its parts, how to install, run and test it, where it starts.

It is made from the index alone, and every statement has its place. It answers a question about the repository
as a whole in every interface, and is the first screen of the page.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from rag.analysis import words
from rag.answer.wording import SURE
from rag.code.documentation import Quote, paragraphs, title_of
from rag.code.entry_points import CONTAINER, ENTRY, entry_points
from rag.code.parts import content, documents_near_top, listed_in_documents, main_parts, packages
from rag.code.project_summary import introduction_of, package_quote, project_description, readmes
from rag.code.survey import Survey
from rag.code.symbols import documentation_of
from rag.database.store import Store
from rag.display.mermaid import Graph
from rag.lines import lines_of
from rag.markdown import documented, sentence
from rag.quoting import one_line, visible
from rag.retrieval.answerability import judge
from rag.retrieval.kinds.commands import ProjectCommand, project_commands
from rag.retrieval.kinds.setting import declares_settings
from rag.retrieval.overview import Users
from rag.retrieval.rank import chunk_at
from rag.retrieval.search import RetrievalResult, search
from rag.retrieval.shown_definition import is_in_test, lines_of_hit
from rag.service.repositories.last_used import LastUsed
from rag.service.repositories.repository import Repository
from rag.service.tools.survey_of import survey
from rag.types import CodeDefinition, CodeFact, CodeFacts, Hit, NumberedSource, Prepared, source_of
from rag.types.question_kinds import OVERVIEW

_MAX_PARTS, _MAX_PART_FILES = 7, 6
_MIN_README_SHARE = 0.2
_INDEX = ("readme.md", "readme.rst", "index.md", "index.rst")
_MAX_LINES = 500
"""Further lines of a larger file, which may be generated, count a tenth."""
_MAX_STARTS, _MAX_QUESTIONS, _MAX_CANDIDATES, _MAX_CENTRAL = 2, 4, 9, 4
_BEGINNING = frozenset("begin beginning first start starting started".split())
"""One of these words is in a question for where to start."""
_MAX_DESCRIPTION_CHARS, _MAX_CHARS, _MAX_PATH_CHARS = 200, 110, 120
_CLAUSE = re.compile(
    r"[,;:.]?\s(?:[(—–-]|(?:and|as|because|by|for|from|if|in|including|or|so|that|to|using|when|where|which|while|with)\b)"
    r"|[,;:]\s"
)
"""Where a sentence that is too long can end."""
_LARGER_SHARE = 2 / 3
_JAVASCRIPT = frozenset("bun deno npm npx pnpm yarn".split())
_OF_SYSTEMS = frozenset("apt apt-get brew docker docker-compose dnf pacman podman scoop snap sudo".split())
_FEW_LINKS, _FEW_PARTS, _MIN_WEIGHT = 20, 3, 0.02
_MAX_ARROWS = 14
_KEPT = 16
_MAX_NAMES = 5
_PLAIN = frozenset(("", "init", "index", "lib", "main", "mod", "src"))
"""Names of files and folders that say nothing of what they are in."""
_GUIDES = ("architecture", "design", "contributing", "development", "hacking", "structure")
_COMMANDS = {"install": "Install", "build": "Build", "run": "Run", "test": "Test"}


@dataclass(frozen=True, slots=True)
class OverviewStatement:
    """A statement on a repository: what it is about ("Test", a folder), what it says, and its place."""

    about: str
    text: str
    path: str
    line: int

    @property
    def place(self) -> str:
        """The path and the line."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Overview:
    """What a newcomer has to know of a repository.

    `parts` are about folders or files, `uses` pairs of their numbers: the first imports the second. `steps`
    are commands, where the program starts, and what to read first; `central` are the main definitions of the
    parts; `questions` are answered well here.
    """

    name: str
    description: OverviewStatement | None
    parts: tuple[OverviewStatement, ...]
    uses: tuple[tuple[int, int], ...]
    steps: tuple[OverviewStatement, ...]
    central: tuple[OverviewStatement, ...]
    questions: tuple[str, ...]

    @property
    def statements(self) -> list[OverviewStatement]:
        """All statements, the most important first."""
        described = [self.description] if self.description else []
        return [*described, *self.steps, *self.parts]

    @property
    def reading_order(self) -> list[OverviewStatement]:
        """Where to start to read: a document, where the program starts, the main definitions of its parts."""
        by_about = {one.about: one for one in reversed(self.steps)}
        first = [by_about[about] for about in ("Read first", "Starts", "Run") if about in by_about]
        return [*first, *(self.central or self.parts)[:_MAX_CENTRAL]]


_overviews = LastUsed[Overview](_KEPT)


def overview_of(repository: Repository) -> Overview:
    """Return the overview of an open repository; the same for the same index. The last ones are cached.

    Raises:
        StoreCorrupt: the store is damaged where it had to be read.
    """
    key = str(repository.store.header["id"]), repository.source.name
    return _overviews.get(key, lambda: _Reading(repository).overview())


class _Reading:
    """Reads the overview of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository, self._store = repository, repository.store
        self._survey: Survey = survey(repository)
        self._users = Users(repository.store)
        self._packages = packages(self._survey)
        self._leads: list[tuple[CodeDefinition, Quote | None]] = []
        self._inside: list[str] = []

    def overview(self) -> Overview:
        """Return the overview."""
        first = next(iter(project_description(self._survey)), None)
        files = {file.path: _counted(len(file.lines)) for file in content(self._survey) if file.lines}
        central = self._central(files)
        divided = main_parts(central, _MAX_PARTS, with_files=True, whole=self._packages)
        weights = {part: sum(central[path] for path in paths) for part, paths in divided.items()}
        order = sorted(divided, key=lambda part: (-weights[part], part))
        least = _MIN_WEIGHT * sum(weights.values())
        order = [part for n, part in enumerate(order) if n < _FEW_PARTS or weights[part] >= least]
        said = listed_in_documents(self._survey, order)
        self._inside = [path for part in order for path in divided[part]]
        parts = [self._part(part, divided[part], said.get(part)) for part in order]
        if all(self._survey.files[path].kind == "doc" for path in files):
            parts = self._sections(sum(files.values()), first) or parts
        steps = (*self._commands(), *self._starts(), *self._documents())
        return Overview(
            name=self._repository.source.name,
            description=_statement("", first, _MAX_DESCRIPTION_CHARS) if first else None,
            parts=tuple(parts),
            uses=tuple(self._uses([divided[part] for part in order])),
            steps=steps,
            central=tuple(filter(None, (self._of_lead("Then", *lead) for lead in self._leads))),
            questions=tuple(self._questions(steps)),
        )

    def _central(self, files: Mapping[str, float]) -> dict[str, float]:
        """Return the weights of files: their share of the lines, and of the imports by other folders."""
        imported: Counter[str] = Counter()
        for link in self._survey.links:
            targets = [path for path in self._survey.files_of(link.target) if path in files]
            if link.source in files and posixpath.dirname(link.source) != posixpath.dirname(link.target):
                imported.update(dict.fromkeys(targets, 1 / len(targets)) if targets else {})
        lines, links = sum(files.values()), sum(imported.values())
        return {path: size / lines + imported[path] / (links + _FEW_LINKS) for path, size in files.items()}

    def _part(
        self, part: str, paths: Sequence[str], listed: tuple[str, str, int] | None
    ) -> OverviewStatement:
        """Return what a part is: what documents list, what it says of itself, or its main definition."""
        about = part if part in self._survey.files else f"{part}/"
        lead = self._lead(paths)
        if lead and self._users.count(lead[0]) and " " not in lead[0].name:
            self._leads.append(lead)
        is_file = part in self._survey.files
        if self._survey.files[paths[0]].kind == "doc":
            path = next((path for path in paths if posixpath.basename(path).lower() in _INDEX), "")
            quote = title_of(self._survey.files[path].text, path) if path else None
        else:
            quote = self._survey.summary(part) if is_file else package_quote(self._survey, paths)
        is_said = quote is not None and len(quote.text.split()) > 2
        if listed and not is_said:
            return OverviewStatement(about, _short(listed[0]), *listed[1:])
        quote = quote or introduction_of(self._survey, part)
        if quote is not None and len(quote.text.split()) > 2:
            return _statement(about, quote)
        folder, inner = self._inner(part, paths)
        if len(inner) > 1:
            rest = f" and {len(inner) - _MAX_NAMES:,} more" if len(inner) > _MAX_NAMES else ""
            names = f"{one_line(', '.join(inner[:_MAX_NAMES]))}{rest}"
            where = folder.removeprefix(part).strip("/")
            where = f"in {where}: " if where not in _PLAIN else ""
            first = [path for path in paths if path.startswith(f"{folder}/{inner[0]}")]
            return OverviewStatement(about, f"{one_line(where)}{names}", self._main_file(first), 1)
        return (self._of_lead(about, *lead) if lead else None) or self._of_file(about, self._main_file(paths))

    def _of_lead(self, about: str, one: CodeDefinition, quote: Quote | None) -> OverviewStatement | None:
        """Return what the main definition of a part is, else the definitions of its file; None if unknown."""
        if quote is not None:
            said = _statement(about, quote)
            words = said.text.removeprefix(f"{one.name} ")
            return replace(said, text=f"`{one.name}`{':' if words == said.text else ''} {words}")
        names = ", ".join(f"`{name}`" for name in self._names(one.path))
        return OverviewStatement(about, f"defines {names}", one.path, one.start) if names else None

    def _of_file(self, about: str, path: str) -> OverviewStatement:
        """Return what a file is: its title, what its head says, its tasks, or the names in it."""
        file = self._survey.files[path]
        quote = title_of(file.text, path) if file.kind == "doc" else self._survey.summary(path)
        if quote is not None and quote.text:
            return _statement(about, quote)
        tasks = [line.partition("name:")[2].strip() for line in file.lines if line.startswith("- name:")]
        if tasks and file.language == "yaml":
            return OverviewStatement(about, _short("; ".join(tasks)), path, 1)
        own = self._repository.source.name.lower()
        found = self._store.names(np.asarray(self._store.chunks_of(path), np.int64))
        names = dict.fromkeys(f"`{one_line(name)}`" for name, _ in found if name and name.lower() != own)
        shown = ", ".join(list(names)[:_MAX_NAMES])
        return OverviewStatement(about, f"has {shown}" if shown else file.language, path, 1)

    def _sections(self, total: float, described: Quote | None) -> list[OverviewStatement]:
        """Return sections of the README of a repository of documents, if that has much of the text."""
        path = next(iter(readmes(self._survey)), "")
        if not path or len(self._survey.files[path].lines) < _MIN_README_SHARE * total:
            return []
        found: dict[str, OverviewStatement] = {}
        for section, quote in paragraphs(self._survey.files[path].text, path):
            about = one_line(section.partition(" ")[2])
            if about and quote != described and len(quote.text.split()) > 2:
                found.setdefault(about, _statement(about, quote))
        return list(found.values())[:_MAX_PARTS]

    def _inner(self, part: str, paths: Sequence[str]) -> tuple[str, list[str]]:
        """Return the folder that has most of a part, and the names in it, those with most code first."""
        sizes: Counter[str] = Counter()
        for path in paths:
            sizes[path.removeprefix(f"{part}/").partition("/")[0]] += len(self._survey.files[path].lines)
        largest, size = sizes.most_common(1)[0]
        inside = [path for path in paths if path.startswith(f"{part}/{largest}/")]
        is_package = f"{part}/{largest}" in self._packages
        if inside and not is_package and size > _LARGER_SHARE * sizes.total():
            return self._inner(f"{part}/{largest}", inside)
        names = dict.fromkeys(name.partition(".")[0] for name, _ in sizes.most_common())
        return part, [name for name in names if name.strip("_") not in _PLAIN and part not in paths]

    def _names(self, path: str) -> list[str]:
        """Return the definitions of a file that most others use, and the largest; those of tests are none."""
        users = self._users.of_definitions(path)
        outer = [one for one in users if not (one.scope or is_in_test(self._store, path, one.start))]
        outer.sort(key=lambda one: -_prominence(one, users[one]))
        return list(dict.fromkeys(one_line(one.name) for one in outer))[:_MAX_NAMES]

    def _main_file(self, paths: Sequence[str]) -> str:
        """Return the largest of the files nearest to the top."""
        return min(paths, key=lambda path: (path.count("/"), -len(self._survey.files[path].lines)))

    def _lead(self, paths: Sequence[str]) -> tuple[CodeDefinition, Quote | None] | None:
        """Return the definition of some files that most others use, and its documentation; those with
        documentation come first.
        """
        largest = sorted(paths, key=lambda path: -len(self._survey.files[path].lines))[:_MAX_PART_FILES]
        own = self._repository.source.name.lower()
        found: dict[CodeDefinition, float] = {}
        for path in largest:
            for one, users in self._users.of_definitions(path).items():
                is_named = one.name[:1] != "_" and len(one.name) > 2 and one.name.lower() != own
                if is_named and not one.scope and not is_in_test(self._store, path, one.start):
                    found[one] = _prominence(one, users)
        best = sorted(found, key=lambda one: -found[one])[:_MAX_CANDIDATES]
        least = max(found.values(), default=0) / 2
        quoted = [(one, self._documentation(one)) for one in best]
        return next(
            (each for each in quoted if each[1] and found[each[0]] >= least), next(iter(quoted), None)
        )

    def _documentation(self, one: CodeDefinition) -> Quote | None:
        file = self._survey.files.get(one.path)
        if file is None:
            return None
        found = documentation_of(
            file.lines, one.path, file.language, one.name, row=one.start - 1, end=one.end
        )
        return found if found and len(found.text.split()) > 3 else None

    def _uses(self, parts: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
        """Yield which parts import which, the most imports first; a tenth of those back is not shown."""
        home = {path: number for number, paths in enumerate(parts) for path in paths}
        counts: Counter[tuple[int, int]] = Counter()
        for link in self._survey.links:
            source = home.get(link.source)
            targets = {home.get(path) for path in self._survey.files_of(link.target)} - {None, source}
            if source is not None:
                counts.update((source, target) for target in targets if target is not None)
        kept = [pair for pair, count in counts.most_common() if counts[pair[::-1]] < 10 * count]
        return iter(kept[:_MAX_ARROWS])

    def _commands(self) -> Iterator[OverviewStatement]:
        """Yield the first command of each purpose, and the next for the other part of a web application."""
        found = project_commands(self._store)
        for purpose, about in _COMMANDS.items():
            listed = [one for one in found if one.purpose == purpose]
            second = (one for one in listed if _is_other_part(listed[0], one))
            for one in (*listed[:1], *islice(second, 1)):
                yield OverviewStatement(about, one.shown, one.path, one.line)

    def _starts(self) -> Iterator[OverviewStatement]:
        files = self._survey.files
        found = [one for one in entry_points(self._survey) if one.what != ENTRY or one.leads_to in files]
        found.sort(key=lambda one: one.name != self._repository.source.name)
        programs = [one for one in found if one.what != CONTAINER] or found[:1]
        for one in [one for one in programs if one.what == programs[0].what][:_MAX_STARTS]:
            named = [one.name] if one.name != one.path else []
            shown = " → ".join(f"`{one_line(name)}`" for name in (*named, *filter(None, [one.leads_to])))
            yield OverviewStatement("Starts", f"{one.what} {shown}".strip(), one.path, one.start)

    def _documents(self) -> Iterator[OverviewStatement]:
        """Yield the document that explains the structure, else how to contribute."""
        documents = documents_near_top(self._survey)
        for word in _GUIDES:
            for file in documents:
                if file.path.rpartition("/")[2].lower().startswith(word):
                    yield _statement("Read first", title_of(file.text, file.path))
                    return

    def _questions(self, steps: Sequence[OverviewStatement]) -> Iterator[str]:
        """Yield questions that the search answers with confidence, about the main definitions of parts."""
        if any(one.about == "Test" for one in steps):
            yield "How do I run the tests?"
        names = [*dict.fromkeys(one.name for one, _ in self._leads)]
        forms = ["What does `{}` do?", "Who calls `{}`?", "How does `{}` work?"]
        if not names:
            names, forms = [*islice(self._settings(), _MAX_CANDIDATES)], ["What is the default of `{}`?"]
        asked = [forms[number % len(forms)].format(one_line(name)) for number, name in enumerate(names)]
        found = 0
        for question in asked[:_MAX_CANDIDATES]:
            if found < _MAX_QUESTIONS - 1 and self._is_answered(question):
                found += 1
                yield question

    def _settings(self) -> Iterator[str]:
        """Yield the outermost keys of the files of parts that declare defaults, the main part's first."""
        for path in self._inside:
            if declares_settings(path) and self._survey.files[path].kind == "config":
                keys = self._store.names(np.asarray(self._store.chunks_of(path), np.int64))
                yield from dict.fromkeys(name for name, scope in keys if name and not scope)

    def _is_answered(self, question: str) -> bool:
        searchers = [self._repository.searcher]
        result = search(searchers, question, k=5)
        facts, confidence = result.code_facts, judge(searchers, result)
        if facts is not None:
            return 0 < facts.count == facts.certain_count
        return confidence.is_sure and (confidence.first_right or 0) >= SURE


def _is_other_part(first: ProjectCommand, one: ProjectCommand) -> bool:
    """Return whether the same file has both commands, one for JavaScript and one for the rest."""
    tools = [each.text.rpartition("&& ")[2].split()[0] for each in (first, one)]
    is_pair = one.path == first.path and sum(tool in _JAVASCRIPT for tool in tools) == 1
    return is_pair and _OF_SYSTEMS.isdisjoint(tools) and "docs" not in one.text


def _prominence(one: CodeDefinition, users: int) -> float:
    return users + math.log2(one.end - one.start + 2)


def _counted(lines: int) -> float:
    return min(lines, _MAX_LINES) + max(lines - _MAX_LINES, 0) / 10


def _short(text: str, limit: int = _MAX_CHARS) -> str:
    """Return a first sentence without its full stop; a long one ends at a clause."""
    whole = sentence(documented(text), 10 * limit)
    ends = [match.start() for match in _CLAUSE.finditer(whole, limit // 2) if match.start() <= limit]
    return visible(whole if len(whole) <= limit or not ends else whole[: ends[-1]]).rstrip(".:")


def _statement(about: str, quote: Quote, limit: int = _MAX_CHARS) -> OverviewStatement:
    return OverviewStatement(about, _short(quote.text, limit), quote.path, quote.start)


# ---------------------------------------------------------------- as an answer


def with_overview(repositories: Sequence[Repository], found: RetrievalResult, k: int) -> RetrievalResult:
    """Add the statements of the overview to the result of a question about the repository as a whole."""
    if not found.is_overview:
        return found
    facts: list[CodeFact] = []
    hits: dict[tuple[str, str, int], Hit] = {}
    summaries = []
    for repository in repositories:
        overview = overview_of(repository)
        summaries.append(
            f"{overview.name}: {overview.description.text}" if overview.description else overview.name
        )
        for one in _asked(overview, found.sought.question.text):
            fact, hit = _fact(repository.store, one)
            facts.append(fact)
            hits.setdefault((hit.location, hit.path, hit.start), hit)
    best = max((hit.score for hit in found.ranked), default=0.0)
    placed = [replace(hit, score=best + (k - n) / 1_000) for n, hit in enumerate(list(hits.values())[:k])]
    summary, count = "; ".join(summaries), len(facts)
    return replace(
        found,
        hits=tuple(placed) or found.hits,
        further=(),
        code_facts=CodeFacts(OVERVIEW, repositories[0].source.name, summary, tuple(facts), count, count),
    )


def _asked(overview: Overview, question: str) -> list[OverviewStatement]:
    """Return the statements that a question asks for: an order of reading, or all."""
    if _asks_where_to_start(question) and len(overview.reading_order) > 1:
        return overview.reading_order
    return overview.statements


def _asks_where_to_start(question: str) -> bool:
    return not _BEGINNING.isdisjoint(word.lower() for word in words(question))


def _fact(store: Store, one: OverviewStatement) -> tuple[CodeFact, Hit]:
    """Return a statement as a fact, and the chunk that holds its line."""
    hit = store.hit(chunk_at(store, store.chunks_of(one.path), one.line), 0.0, {})
    text = lines_of(hit.text)[one.line - hit.start : one.line - hit.start + 1]
    reason = f"{one.about}: {one.text}" if one.about else one.text
    span = lines_of_hit(store, hit, one.line, one.line).span
    fact = CodeFact(span, "".join(text), reason, dirty=hit.dirty, location=hit.location)
    return fact, replace(hit, reason=reason, asked_line=one.line)


def quoted_overview(repositories: Sequence[Repository], prepared: Prepared) -> Prepared | None:
    """Return a question about the repository as a whole with its answer; None for another question."""
    facts = prepared.code_facts
    if facts is None or facts.kind != OVERVIEW:
        return None
    sources = prepared.prompt.sources
    written = reading_markdown if _asks_where_to_start(prepared.question) else overview_markdown
    found = [written(overview_of(one), facts.items, sources) for one in repositories]
    return replace(prepared, quotes=("\n".join(found),))


def _placing(
    facts: Sequence[CodeFact], sources: Sequence[NumberedSource]
) -> Callable[[OverviewStatement], str]:
    """Return how the place of a statement is written, with the number of the source that holds its line."""
    numbers = {(fact.path, fact.start): source_of(fact, sources) for fact in facts}

    def placed(one: OverviewStatement) -> str:
        number = numbers.get((one.path, one.line), 0)
        return f"(`{_path(one.place)}`)" + (f" [{number}]" if number else "")

    return placed


def reading_markdown(
    overview: Overview, facts: Sequence[CodeFact] = (), sources: Sequence[NumberedSource] = ()
) -> str:
    """Return in which order to read a repository, as Markdown; the overview if there is nothing to order."""
    order = overview.reading_order
    if len(order) < 2:
        return overview_markdown(overview, facts, sources)
    placed = _placing(facts, sources)
    rows = [f"{n}. {one.about}: {one.text} {placed(one)}" for n, one in enumerate(order, 1)]
    return f"Start to read **{one_line(overview.name)}** here:\n\n" + "\n".join(rows) + "\n"


def overview_markdown(
    overview: Overview,
    facts: Sequence[CodeFact] = (),
    sources: Sequence[NumberedSource] = (),
    *,
    with_questions: bool = True,
) -> str:
    """Return the overview as Markdown; a statement has the number of the source that holds its line."""
    placed = _placing(facts, sources)
    first = overview.description
    stop = "" if first and first.text.endswith(("…", "!", "?")) else "."
    said = f": {first.text}{stop} {placed(first)}" if first else stop
    blocks = [f"**{one_line(overview.name)}**{said}"]
    if overview.parts:
        rows = [f"- `{_path(one.about)}` — {one.text} {placed(one)}" for one in overview.parts]
        blocks.append("Parts:\n" + "\n".join(rows))
    if diagram := _diagram(overview):
        blocks.append(f"Which part uses which:\n\n{diagram}")
    if overview.steps:
        blocks.append("\n".join(f"- {one.about}: {one.text} {placed(one)}" for one in overview.steps))
    if overview.questions and with_questions:
        blocks.append("Questions to ask:\n" + "\n".join(f"- {one}" for one in overview.questions))
    return "\n\n".join(blocks) + "\n"


def _path(path: str) -> str:
    """Return a path on one line, without its middle if it is long."""
    shown, half = one_line(path), _MAX_PATH_CHARS // 2
    return shown if len(shown) <= _MAX_PATH_CHARS else f"{shown[:half]}…{shown[-half:]}"


def _diagram(overview: Overview) -> str:
    """Return the uses as a block of mermaid; "" without any."""
    graph = Graph()
    names = [one.about.strip("/").rpartition("/")[2] for one in overview.parts]
    for number, one in enumerate(overview.parts):
        graph.node(number, names[number] if names.count(names[number]) == 1 else _path(one.about))
    for source, target in overview.uses:
        graph.edge(source, target)
    drawn = graph.draw(direction="TB")
    return drawn.markdown if drawn else ""
