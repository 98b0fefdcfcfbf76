"""The tools for agents as plain functions, independent of the SDK.

Their names, descriptions and arguments are in `tools.py`, those for the memory in `memory_tools.py`.

The first four are DeepWiki's tools, with their names and texts. Each also returns structured values, and has
additional optional arguments.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from rag import types
from rag.errors import ProviderError
from rag.lines import lines_of
from rag.retrieval.kinds.asked import INCOMPLETE
from rag.retrieval.lookup import definitions
from rag.retrieval.question import last_part
from rag.retrieval.uses import Uses, indexed_files, summary, uses_of_name
from rag.review.report import as_markdown
from rag.review.values import REVIEW_PARTS
from rag.review.values import Review as ReviewValue
from rag.schema import ANSWER_FIELDS, Json, to_json
from rag.serve.access.keys import Caller
from rag.serve.api.code import Structures
from rag.serve.api.json_models import JsonModels, ResponseModel
from rag.serve.api.rendering import sent
from rag.serve.errors import BadRequest, ModelFailed, StillIndexing
from rag.serve.links import citation_url
from rag.serve.mcp.arguments import lines_seen
from rag.serve.mcp.sent_lines import SentLines
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service import Dialog, Repository
from rag.service.explore import explore
from rag.service.explored_places import ExploredPlace
from rag.service.groups import is_group
from rag.service.read_lines import read_lines
from rag.service.recall import recall
from rag.service.review import ReviewRange, review
from rag.service.search import SearchQuery
from rag.service.unread import uses_note
from rag.types import Answer
from rag.wiki import WikiStructure, page_markdown, structure_outline

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Called with done, total and a message."""

MAX_RESULTS = 50
"""How many places or turns a tool returns at most: less than elsewhere, since their texts enter the context
of the agent's model."""
_MAX_LINES = 2_000
_SPAN_CHARS = 16_000
"""What a span without an end has at most, about 4,000 tokens."""
_WIKI_CHARS = 20_000
"""How much of a wiki is returned at once by default."""
_RECALLED_CHARS = 400
"""How much of an earlier answer is shown; the whole turn is read by its id."""
_NEXT_BY_SESSION = "ask the same question again for them"
_NEXT_BY_SEEN = "ask again with the places above as `seen` for them"


if TYPE_CHECKING:
    Coverage: TypeAlias = Json
    Citation: TypeAlias = Json
    CodeFacts: TypeAlias = Json
    Confidence: TypeAlias = Json
    SupportCheck: TypeAlias = Json
    PatternMatches: TypeAlias = Json
    Review: TypeAlias = Json
    Subject: TypeAlias = Json
    TraceStep: TypeAlias = Json
else:
    _models = JsonModels()
    Coverage = _models.of(types.Coverage)
    Subject = _models.of(types.Subject)
    _models.of(types.MissingPart)
    Confidence = _models.of(types.Confidence)
    _models.of(types.CitedSymbol)
    Citation = _models.of(types.Citation, url=str)
    PatternMatches = _models.of(types.PatternMatches)
    _models.of(types.CodeFact, url=str)
    CodeFacts = _models.of(types.CodeFacts)
    TraceStep = _models.of(types.TraceStep)
    _models.of(types.FlaggedStatement)
    SupportCheck = _models.of(types.SupportCheck)
    for _part in REVIEW_PARTS:
        _models.of(_part)
    Review = _models.of(ReviewValue)


class ToolReply(ResponseModel):
    """The text of a tool's reply, and the coverage of the repositories that it used."""

    result: str
    coverage: list[Coverage] = Field(default_factory=list)


class AskResult(ToolReply):
    """An answer with its sources, and the conversation to continue."""

    sources: list[Citation] = Field(default_factory=list)
    subject: Subject | None = None
    found: bool = True
    confidence: Confidence | None = None
    warning: str = ""
    missing_words: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    code_facts: CodeFacts | None = None
    trace: list[TraceStep] = Field(default_factory=list)
    support: SupportCheck | None = None
    model: str = ""
    conversation: str = ""
    turn: str = ""
    number: int | None = None


class WikiContents(ToolReply):
    """Pages of a wiki; `nextPage` is the first page that was not returned, or None at the end."""

    pages: list[str] = Field(default_factory=list)
    nextPage: int | None = None  # noqa: N815


class Places(ToolReply):
    """The places found, best first, as `path:start-end`; their lines are in the text."""

    places: list[str] = Field(default_factory=list)


class CodeFound(Places):
    """The places found, best first; for a string or an expression lines, and the number of all matches."""

    mode: types.SearchMode = "question"
    matches: PatternMatches | None = None
    remarks: list[str] = Field(default_factory=list)


class Explored(ToolReply):
    """The places shown, as `path:lines` (to pass as `seen`), and the number of those that are not."""

    shown: list[str] = Field(default_factory=list)
    more: int = 0


class ReviewResult(ToolReply):
    """What a change makes false."""

    review: Review


class Toolbox:
    """The tools of one service.

    Args:
        service: the service.
        base: the server's own URL, for links to our viewer; "" if there is none.
    """

    def __init__(self, service: Service, base: str = "") -> None:
        self._service, self._base = service, base
        self._structures = Structures()
        self._sent_lines = SentLines()

    # ------------------------------------------------------------ DeepWiki's tools

    async def list_available_repos(self, caller: Caller, limit: int, offset: int) -> ToolReply:
        """List a page of the repositories, with the state of each, and the number that follow."""
        seen = self._service.registry.visible_to(caller)
        lines = []
        for entry in seen[offset : offset + limit]:
            commit = entry.checkout.commit if entry.checkout else None
            where = f" at {commit[:10]}" if commit else ""
            lines.append(f"- {entry.name} ({entry.state}{where})")
        if (more := len(seen) - offset - limit) > 0:
            lines += ["", f"{more:,} more: pass offset={offset + limit}"]
        return ToolReply(result="\n".join(["Available repositories:", "", *lines]))

    async def read_wiki_structure(
        self, caller: Caller, repo: str | None, ref: str | None, progress: Progress
    ) -> ToolReply:
        """Return the pages of a repository's wiki as an outline."""
        structure, repository = await self._wiki(caller, repo, ref, progress)
        coverage = [to_json(repository.coverage)]
        name = repo or self._service.registry.only_entry().name
        return ToolReply(result=structure_outline(structure, name), coverage=coverage)

    async def read_wiki_contents(
        self,
        caller: Caller,
        repo: str | None,
        ref: str | None,
        page: int | None,
        max_chars: int | None,
        progress: Progress,
    ) -> WikiContents:
        """Return whole pages of the wiki from `page` on, up to about `max_chars`, and the next page."""
        structure, repository = await self._wiki(caller, repo, ref, progress)
        coverage = [to_json(repository.coverage)]
        max_chars = max_chars or _WIKI_CHARS
        first = 1 if page is None else page
        if not 1 <= first <= len(structure.pages):
            raise BadRequest(
                f"there is no page {first}; pages are numbered from 1 to {len(structure.pages)}", param="page"
            )
        texts: list[str] = []
        for one in structure.pages[first - 1 :]:
            async with self._service.limiter.long_slot():
                text = f"# Page: {one.title}\n\n{await to_thread(page_markdown, structure, one.id)}"
            if texts and sum(map(len, texts)) + len(text) > max_chars:
                break
            texts.append(text)
        following, total = first + len(texts), len(structure.pages)
        if following <= total:
            texts.append(f"(Page {following} of {total} is next: pass page={following}.)")
        return WikiContents(
            result="\n".join(texts),
            coverage=coverage,
            pages=[one.title for one in structure.pages[first - 1 : following - 1]],
            nextPage=following if following <= total else None,
        )

    async def ask_question(
        self,
        caller: Caller,
        repos: str | Sequence[str] | None,
        question: str,
        conversation: str | None,
        ref: str | None,
        about: str | None,
        steps: int | None,
        progress: Progress,
    ) -> AskResult:
        """Answer a question about one or more repositories, and store the turn."""
        repos = self._service.registry.only_entry().name if repos is None else repos
        names = [repos] if isinstance(repos, str) else list(dict.fromkeys(repos))
        entries = await self._asked(caller, names, ref, progress)
        dialog = await self._service.dialog(
            caller,
            entries,
            conversation=conversation,
            named=False,
            about=about,
            steps=steps,
            question=question,
        )
        await progress(0.5, 1.0, "answering")
        entry_of = self._service.registry.entry_of
        opened = [entry for one in dialog.repositories if (entry := entry_of(one.source))]
        served = {entry.source.location: entry for entry in opened}

        def places_of(answer: Answer) -> list[Json]:
            return [self._place(citation, served.get(citation.location)) for citation in answer.citations]

        async def on_step(step: types.TraceStep) -> None:
            await progress(0.5, 1.0, step.line)

        try:
            answer = await self._service.answered(dialog, question, on_step=on_step)
        except ProviderError as error:
            if error.quotes is None:
                raise
            quotes = _with_sources(error.quotes, places_of(error.quotes))
            raise ModelFailed(
                error, f"{self._service.public_message(error, 'mcp')}\n\n{quotes}", {}
            ) from error
        places = places_of(answer)
        notes = [f"it = `{answer.subject.name}`"] if answer.subject else []
        notes += [answer.support.summary] if answer.support and answer.support.summary else []
        written = to_json(answer)
        fields = {name: written[name] for name in ANSWER_FIELDS}
        return AskResult(
            **fields | {"code_facts": self._code_facts(answer.code_facts, served)},
            result=_with_notes(_with_sources(answer, places), [*notes, *answer.notes]),
            sources=places,
        )

    async def _asked(
        self, caller: Caller, names: Sequence[str], ref: str | None, progress: Progress
    ) -> Sequence[str | ServedRepository]:
        """Return the named repositories when they are indexed; names with a group among them as they are."""
        if any(map(is_group, names)):
            if ref is not None:
                raise BadRequest("a group has no ref; name one repository with it")
            return names
        self._service.check_count(len(names))
        return [(await self._ready(caller, name, ref, progress))[0] for name in names]

    # ------------------------------------------------------------ tools for exploring code

    async def explore(
        self,
        caller: Caller,
        session: str,
        repo: str | None,
        question: str,
        budget: int,
        seen: Sequence[str],
        ref: str | None,
        progress: Progress,
    ) -> Explored:
        """Return the relevant places for a question, without the lines that the session was sent before.

        `session` is the id of the MCP session; "" if there is none: then only `seen` is left out.
        """
        self._service.limiter.check_question(question)
        known: dict[str, set[int]] = lines_seen(seen)
        entry, repository = await self._ready(caller, repo, ref, progress)
        of, generation = (caller, session), str(repository.store.header["id"])
        if session:
            for path, numbers in self._sent_lines.of(of, entry.name, generation).items():
                known.setdefault(path, set()).update(numbers)
        await progress(0.5, 1.0, "searching")
        counter = self._service.engine_for(caller).counter
        coverage = repository.coverage
        note = f"\n{coverage.note}" if coverage.note else ""
        room = budget - (counter.count(note) + 1 if note else 0)
        async with self._service.limiter.slot():
            found = await to_thread(
                explore,
                repository,
                question,
                counter=counter,
                budget_tokens=room,
                seen=known,
                next_places=_NEXT_BY_SESSION if session else _NEXT_BY_SEEN,
                on_missing=self._service.engine.on_missing_files,
                around=self._service.engine.reads_around,
            )
        if session:
            self._sent_lines.add(of, entry.name, generation, found.places)
        return Explored(
            result=found.text + note,
            shown=[_lines_shown(place) for place in found.places],
            more=len(found.more),
        )

    async def search_code(
        self, caller: Caller, repo: str | None, query: SearchQuery, ref: str | None, progress: Progress
    ) -> CodeFound:
        """Return the chunks that are most relevant to a question, or the lines that match a pattern."""
        self._service.limiter.check_question(query.text, param="query")
        _, repository = await self._ready(caller, repo, ref, progress)
        dialog = Dialog(self._service.engine_for(caller), [repository])
        async with self._service.limiter.slot():
            found = await to_thread(dialog.find, query)
        text = _listed(found.hits, nothing="Nothing was found.")
        notes = [*([found.matches.note] if found.matches else []), *found.remarks]
        return CodeFound(
            result=_with_coverage("\n\n".join([text, *notes]), repository.coverage),
            coverage=[to_json(repository.coverage)],
            places=[hit.place for hit in found.hits],
            mode=query.mode,
            matches=to_json(found.matches) if found.matches else None,
            remarks=list(found.remarks),
        )

    async def read_span(
        self,
        caller: Caller,
        repo: str | None,
        path: str,
        start: int,
        end: int | None,
        ref: str | None,
        progress: Progress,
    ) -> Places:
        """Return lines of a file as indexed."""
        entry, repository = await self._ready(caller, repo, ref, progress)
        last = min(end or start + _MAX_LINES - 1, start + _MAX_LINES - 1)
        if start < 1 or last < start:
            raise BadRequest(f"{start}-{end} is not a range of lines; lines are numbered from 1")
        async with self._service.limiter.slot():
            read = await to_thread(read_lines, repository, path, start, last)
        shown = read.text if end is not None else _first_lines(read.text, _SPAN_CHARS)
        stop = read.start + max(1, len(lines_of(shown))) - 1 if end is None else read.end
        span = types.Span(entry.name, read.path, read.start, stop, read.blob, read.commit)
        text = f"{span.place} (of {read.total} lines)\n\n{_numbered(shown, read.start)}"
        if end is None and stop < read.total:
            text += f"\n\nGo on with start_line={stop + 1}, or give end_line."
        return _found(text, [span.place], repository)

    async def find_symbol(
        self, caller: Caller, repo: str | None, name: str, ref: str | None, progress: Progress
    ) -> Places:
        """Return the definitions of a symbol."""
        _, repository = await self._ready(caller, repo, ref, progress)
        async with self._service.limiter.slot():
            hits = await to_thread(definitions, repository.store, name)
            unread = "" if hits else await self._unread(repository, name, 0)
        shown = hits[:MAX_RESULTS]
        files = indexed_files(repository.store.file_count)
        text = _listed(shown, nothing=f"{name} is not defined in {files}{unread}.")
        if len(hits) > len(shown):
            text += f"\n\nThe first {len(shown)} of {len(hits):,} definitions; `Outer.name` names fewer."
        return _found(text, [hit.place for hit in shown], repository)

    async def who_calls(
        self, caller: Caller, repo: str | None, symbol: str, ref: str | None, progress: Progress
    ) -> Places:
        """Return the callers of a symbol, or if there are none, the places that mention it."""
        _, repository = await self._ready(caller, repo, ref, progress)
        async with self._service.limiter.slot():
            found = await to_thread(uses_of_name, repository.store, symbol)
            unread = await self._unread(repository, symbol, len(found.found))
        places = [f"{path}:{_ranges(lines)}" for (path, *_), lines in _by_definition(found)]
        return _found(_called(found, repository.store.file_count, unread), places, repository)

    async def review(self, caller: Caller, repo: str | None, range_: str | None) -> ReviewResult:
        """Return what a change of a repository makes false; nothing is fetched or indexed."""
        registry = self._service.registry
        entry = registry.entry(registry.only_entry().name if repo is None else repo, caller=caller)
        parsed, engine = ReviewRange.parse(range_), self._service.engine_for(caller)
        async with self._service.limiter.long_slot():
            found = await to_thread(review, engine, entry.source, parsed, fetching=False)
        return ReviewResult(result=as_markdown(found), review=self._sent(to_json(found)))

    async def recall_turns(
        self, caller: Caller, query: str, conversation: str | None, limit: int, turn: str | None
    ) -> ToolReply:
        """Return the beginnings of earlier turns with the words of a query, or one whole turn by its id."""
        engine = self._service.engine_for(caller)
        if (turn is None) == (not query):
            raise BadRequest("pass either `query` or the id of a `turn`")
        if turn is not None:
            async with self._service.limiter.slot():
                one = await to_thread(engine.turns.turn, turn, namespace=caller.namespace)
            sources = ", ".join(c.place for c in one.citations if c.used) or "no sources"
            return ToolReply(result=f"## {one.question}\n\n{one.answer}\n\n({sources})")
        async with self._service.limiter.slot():
            found = await to_thread(recall, engine, query, conversation=conversation, k=limit)
        if not found:
            return ToolReply(result="No earlier turn matches the query.")
        blocks = [
            f"## {turn.question}\n\n{_cut(turn.answer)}\n\n"
            f"(turn {turn.id} of conversation {turn.conversation_id}; "
            f"{', '.join(c.place for c in turn.citations if c.used) or 'no sources'})"
            for turn in found
        ]
        return ToolReply(result="\n\n".join(blocks))

    # ------------------------------------------------------------ shared

    async def _unread(self, repository: Repository, name: str, count: int) -> str:
        """Return what a count of places with a name does not cover, as the end of a sentence."""
        around = self._service.engine.reads_around
        note = await to_thread(uses_note, repository, last_part(name), count, around=around)
        return f"; {note}" if note else ""

    async def _ready(
        self, caller: Caller, name: str | None, ref: str | None, progress: Progress
    ) -> tuple[ServedRepository, Repository]:
        """Wait until a repository can answer, and report the progress of its index. Without a name, return
        the only one."""
        registry = self._service.registry
        entry = registry.entry(registry.only_entry().name if name is None else name, ref, caller=caller)
        while True:
            try:
                return entry, await registry.opened(entry)
            except StillIndexing:
                async for state in registry.events(entry):
                    await progress(float(state.done), float(state.total) or None, state.stage or "indexing")

    async def _wiki(
        self, caller: Caller, name: str | None, ref: str | None, progress: Progress
    ) -> tuple[WikiStructure, Repository]:
        """Return the structure of a repository's wiki, cached for the state of its index."""
        _, repository = await self._ready(caller, name, ref, progress)
        async with self._service.limiter.long_slot():
            await progress(0.5, 1.0, "reading the structure")
            return await to_thread(self._structures.of, repository), repository

    def _code_facts(
        self, found: types.CodeFacts | None, served: Mapping[str, ServedRepository]
    ) -> Json | None:
        """Return the JSON of code_facts, which are None for a question of no known kind."""
        if found is None:
            return None
        items = [self._place(item, served.get(item.location)) for item in found.items]
        return self._sent(to_json(found)) | {"items": items}

    def _place(
        self, found: types.Citation | types.Hit | types.CodeFact, entry: ServedRepository | None
    ) -> Json:
        """Return the JSON of a citation or hit, with its repository's served name and its URL."""
        name = entry.name if entry else found.repo
        url = citation_url(found, entry.checkout if entry else None, name, self._base)
        # Over stdio there is no viewer to link to.
        shown = "" if url.startswith("/") else url
        return self._sent(to_json(found) | {"repository": name, "url": shown})

    def _sent(self, written: Json) -> Json:
        return sent(self._service, written)


def _with_sources(answer: Answer, places: Sequence[Json]) -> str:
    if not places:
        return answer.text
    lines = []
    for citation, place in zip(answer.citations, places, strict=True):
        where = citation.place
        lines.append(f"- [{citation.n}] " + (f"[{where}]({place['url']})" if place["url"] else where))
    return "\n".join([answer.text.rstrip(), "", "Sources:", *lines])


def _with_notes(text: str, notes: Sequence[str]) -> str:
    return "\n\n".join([text.rstrip("\n"), *(f"Note: {note}" for note in notes)]) if notes else text


def _found(text: str, places: Sequence[str], repository: Repository) -> Places:
    """Return places with the coverage: an agent also draws conclusions from what was not found."""
    coverage = repository.coverage
    return Places(
        result=_with_coverage(text, coverage),
        coverage=[to_json(coverage)],
        places=list(places),
    )


def _cut(answer: str) -> str:
    cut = len(answer) > _RECALLED_CHARS
    return f"{answer[:_RECALLED_CHARS].rstrip()} … (cut: recall_turns with `turn`)" if cut else answer


def _with_coverage(text: str, coverage: types.Coverage) -> str:
    return f"{text.rstrip()}\n\n(Searched: {coverage.summary})"


def _listed(hits: Sequence[types.Hit], *, nothing: str) -> str:
    blocks = []
    for hit in hits:
        symbol = f"  {hit.label}" if hit.label else ""
        blocks.append(f"{hit.place}{symbol}\n{_numbered(hit.text, hit.start)}")
    return "\n\n".join(blocks) or nothing


def _first_lines(text: str, chars: int) -> str:
    """Return the whole lines that fit, at least one."""
    if len(text) <= chars:
        return text
    end = text.rfind("\n", 0, chars) + 1
    return text[: end or text.find("\n") + 1 or len(text)]


def _numbered(text: str, first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines_of(text), first))


def _lines_shown(place: ExploredPlace) -> str:
    return f"{place.path}:{_ranges([number for number, _ in place.lines])}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending line numbers as ranges, such as `3,12-40`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _called(found: Uses, files: int, unread: str) -> str:
    """Return who calls a symbol: how many places, then a line for each definition that they are in."""
    if not (found.targets or found.found):
        return f"{found.name} is not defined, called or mentioned in {indexed_files(files)}{unread}."
    head = [summary(found, files=files)]
    if found.definitions > 1:
        head.append(f"{found.definitions} definitions have this name")
    if not found.targets:
        head.append("none of the indexed files defines it")
    if found.limits:
        head.append(f"{INCOMPLETE}{', '.join(found.limits)}")
    if len(found.shown) < len(found.found):
        head.append(f"the first {len(found.shown)}")
    lines = [
        f"- {path}:{_ranges(lines)}{f' in {within}' if within else ''}{note}"
        for (path, within, note), lines in _by_definition(found)
    ]
    return "\n".join(["; ".join([*head, *found.notes]) + unread + (":" if lines else "."), "", *lines])


def _by_definition(found: Uses) -> list[tuple[tuple[str, str, str], list[int]]]:
    """Return the lines of the places to show by file, definition, and a note on what they are."""
    rows: dict[tuple[str, str, str], list[int]] = {}
    for use in found.shown:
        is_call = use.role == "call" and use not in found.unknown and use not in found.by_name
        is_call = is_call and not use.through
        note = "" if is_call else f", {found.reason(use)}"
        note += "" if use.certain else ", possibly"
        rows.setdefault((use.path, use.within, note), []).append(use.line)
    return [(key, sorted(lines)) for key, lines in rows.items()]
