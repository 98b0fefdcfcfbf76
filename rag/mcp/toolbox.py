"""What the tools for agents do, independent of the protocol.

Their names, descriptions and arguments are in `catalog.py`; the tools for the memory are in
`memory_tools.py`. The first four are DeepWiki's tools, with their names and texts. Each also returns
structured values, and has additional optional arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from rag import types
from rag.errors import ConfigError, ProviderError, RagError
from rag.lines import lines_of, ranges
from rag.mcp.arguments import lines_seen
from rag.mcp.catalog import MAX_REPOSITORIES, MAX_RESULTS
from rag.mcp.host import Host, Progress
from rag.mcp.sent_lines import SentLines
from rag.memory.claims import CheckedClaim
from rag.quoting import visible
from rag.retrieval.kinds.asked import INCOMPLETE
from rag.retrieval.lookup import definitions
from rag.retrieval.question import bare_name, last_part
from rag.retrieval.uses import Uses, indexed_files, summary, uses_of_name
from rag.review.report import as_markdown
from rag.review.values import Review
from rag.schema import ANSWER_FIELDS, Json, to_json
from rag.service import Dialog, Repository
from rag.service.checks.claims import CheckedText, agent_texts, check_texts
from rag.service.checks.freshness import checked
from rag.service.checks.recall import recall
from rag.service.checks.review import ReviewRange, review
from rag.service.repositories.read_lines import read_lines
from rag.service.tools.explore import explore
from rag.service.tools.explored_definitions import ExploredPlace
from rag.service.tools.line_list import line_list, line_places
from rag.service.tools.search import SearchQuery, check_question
from rag.service.tools.unread import uses_note
from rag.settings import EXPLORE_TOKENS, Steps
from rag.types import Answer
from rag.types.answer import QUOTING
from rag.wiki import WikiStructure, page_markdown, structure_outline

_MAX_LINES = 2_000
_SPAN_CHARS = 16_000
"""What a span without an end has at most, about 4,000 tokens."""
_WIKI_CHARS = 20_000
"""How much of a wiki is returned at once by default."""
_SHOWN_SOURCES = 20
_RECALLED_CHARS = 400
"""How much of an earlier answer is shown; the whole turn is read by its id."""
_MAX_FURTHER = 500
"""How many callers or definitions that are not shown are listed by their lines alone."""
_NEXT_PLACES = "ask the same question again for them"


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's reply: the text, and the values for programs."""

    text: str
    values: Json = field(default_factory=dict)


class ToolFailed(RagError):
    """A tool failed; the message says all that is known, also what was found nevertheless."""


class Toolbox:
    """The tools of one client.

    Args:
        host: provides the repositories.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sent_lines = SentLines()
        self._sent_coverage: dict[tuple[str, str], str] = {}

    # ------------------------------------------------------------ DeepWiki's tools

    async def list_available_repos(
        self, progress: Progress, limit: int = MAX_REPOSITORIES, offset: int = 0
    ) -> Reply:
        """List a page of the repositories, with the state of each, and the number that follow."""
        seen = self._host.repositories()
        lines = [f"- {one.name} ({one.state})" for one in seen[offset : offset + limit]]
        if (more := len(seen) - offset - limit) > 0:
            lines += ["", f"{more:,} more: pass offset={offset + limit}"]
        return Reply("\n".join(["Available repositories:", "", *lines]))

    async def read_wiki_structure(self, progress: Progress, repository: Repository) -> Reply:
        """Return the pages of a repository's wiki as an outline."""
        structure = await self._wiki(repository, progress)
        outline = structure_outline(structure, repository.coverage.repository)
        return Reply(outline, {"coverage": [to_json(repository.coverage)]})

    async def read_wiki_contents(
        self,
        progress: Progress,
        repository: Repository,
        page: int = 1,
        max_chars: int = _WIKI_CHARS,
    ) -> Reply:
        """Return whole pages of the wiki from `page` on, up to about `max_chars`, and the next page."""
        structure = await self._wiki(repository, progress)
        total = len(structure.pages)
        if page > total:
            raise ConfigError(f"there is no page {page}; pages are numbered from 1 to {total}")
        texts: list[str] = []
        for one in structure.pages[page - 1 :]:
            written = await self._host.run(page_markdown, structure, one.id, is_long=True)
            text = f"# Page: {one.title}\n\n{written}"
            if texts and sum(map(len, texts)) + len(text) > max_chars:
                break
            texts.append(text)
        following = page + len(texts)
        if following <= total:
            texts.append(f"(Page {following} of {total} is next: pass page={following}.)")
        return Reply(
            "\n".join(texts),
            {
                "coverage": [to_json(repository.coverage)],
                "pages": [one.title for one in structure.pages[page - 1 : following - 1]],
                "nextPage": following if following <= total else None,
            },
        )

    async def ask_question(
        self,
        progress: Progress,
        question: str,
        repo: str | Sequence[str] = (),
        conversation: str | None = None,
        ref: str | None = None,
        about: str | None = None,
        steps: Steps | None = None,
    ) -> Reply:
        """Answer a question about one or more repositories, and store the turn."""
        dialog = await self._host.dialog(
            [repo] if isinstance(repo, str) else list(dict.fromkeys(repo)),
            question,
            ref=ref,
            conversation=conversation,
            about=about,
            steps=steps,
            progress=progress,
        )
        await progress(0.5, 1.0, "answering")

        async def on_step(step: types.TraceStep) -> None:
            await progress(0.5, 1.0, step.line)

        try:
            answer = await self._host.answered(dialog, question, on_step)
        except ProviderError as error:
            if error.quotes is None:
                raise
            quotes = _with_sources(error.quotes, self._places(error.quotes.citations))
            raise ToolFailed(f"{self._host.message(error)}\n\n{quotes}") from error
        places = self._places(answer.citations)
        notes = [f"it = `{answer.subject.name}`"] if answer.subject else []
        notes += [answer.support.summary] if answer.support and answer.support.summary else []
        written = to_json(answer)
        values = {name: written[name] for name in ANSWER_FIELDS} | {"sources": places}
        if answer.code_facts is not None:
            values["code_facts"] = to_json(answer.code_facts) | {
                "items": self._places(answer.code_facts.items)
            }
        return Reply(_with_notes(_with_sources(answer, places), [*notes, *answer.notes]), values)

    # ------------------------------------------------------------ tools for exploring code

    async def explore(
        self,
        progress: Progress,
        repository: Repository,
        question: str,
        in_code_words: Sequence[str] = (),
        budget: int = EXPLORE_TOKENS,
        seen: Sequence[str] = (),
    ) -> Reply:
        """Return the relevant places for a question, without the lines that the client was sent before."""
        known: dict[str, set[int]] = lines_seen(seen)
        coverage, generation = repository.coverage, str(repository.store.header["id"])
        for path, numbers in self._sent_lines.of(coverage.repository, generation).items():
            known.setdefault(path, set()).update(numbers)
        await progress(0.5, 1.0, "searching")
        engine = self._host.engine
        note = self._new_coverage(repository, "note", f"\n{coverage.note}") if coverage.note else ""

        find = partial(
            explore,
            repository,
            question,
            counter=engine.counter,
            budget_tokens=budget - (engine.counter.count(note) + 1 if note else 0),
            seen=known,
            in_code_words=in_code_words,
            next_places=_NEXT_PLACES,
            on_missing=engine.on_missing_files,
            reach=engine.reach,
        )
        found = await self._host.run(find)
        self._sent_lines.add(coverage.repository, generation, found.places)
        shown = [_lines_shown(place) for place in found.places]
        return Reply(found.text + note, {"shown": shown, "more": len(found.more), "coverage": []})

    async def search_code(
        self,
        progress: Progress,
        repository: Repository,
        query: str,
        in_code_words: Sequence[str] = (),
        limit: int | None = None,
        mode: types.SearchMode = "question",
        ignore_case: bool = False,
        path: str = "",
        language: str = "",
        kind: types.Kind | None = None,
        page: int = 1,
    ) -> Reply:
        """Return the chunks that are most relevant to a question, or the lines that match a pattern."""
        check_question(query)
        if mode == "question" and limit is not None and limit > MAX_RESULTS:
            raise ConfigError(f"limit={limit} is too many for a question; at most {MAX_RESULTS}")
        given = ((path,) if path else (), (language,) if language else (), (kind,) if kind else ())
        only = types.SearchFilter(*given)
        dialog = Dialog(self._host.engine, [repository])
        asked = SearchQuery(query, mode, ignore_case, limit, only, (), in_code_words, page)
        found = await self._host.run(dialog.find, asked)
        text, places = _listed(found.hits, nothing="Nothing was found."), [hit.place for hit in found.hits]
        if found.matches is not None:
            places = line_places(found.hits)
            again = f"pass page={found.matches.next_page} for the next lines"
            text = line_list(found.hits, found.matches, several=False, next_page=again)
        reply = self._found("\n\n".join([text, *found.remarks]), places, repository)
        reply.values.update(
            mode=mode,
            matches=_matches(found.matches, repository.coverage.repository),
            remarks=list(found.remarks),
        )
        return reply

    async def read_span(
        self,
        progress: Progress,
        repository: Repository,
        path: str,
        start_line: int = 1,
        end_line: int | None = None,
    ) -> Reply:
        """Return lines of a file as indexed."""
        last = min(end_line or start_line + _MAX_LINES - 1, start_line + _MAX_LINES - 1)
        if last < start_line:
            raise ConfigError(f"{start_line}-{end_line} is not a range of lines; lines are numbered from 1")
        read = await self._host.run(read_lines, repository, path, start_line, last)
        shown = read.text if end_line is not None else _first_lines(read.text, _SPAN_CHARS)
        stop = read.start + max(1, len(lines_of(shown))) - 1 if end_line is None else read.end
        name = repository.coverage.repository
        span = types.Span(name, read.path, read.start, stop, read.blob, read.commit)
        text = f"{span.place} (of {read.total} lines)\n\n{_numbered(shown, read.start)}"
        if end_line is None and stop < read.total:
            text += f"\n\nGo on with start_line={stop + 1}, or give end_line."
        return self._found(text, [span.place], repository)

    async def find_symbol(self, progress: Progress, repository: Repository, name: str) -> Reply:
        """Return the definitions of a symbol."""
        name = _checked_name(name)
        hits = await self._host.run(definitions, repository.store, name)
        unread = "" if hits else await self._unread(repository, name, 0)
        if not hits and (uses := (await self._host.run(uses_of_name, repository.store, name)).found):
            more = f" and {len(uses) - 1} more" if len(uses) > 1 else ""
            unread = f", but written in {uses[0].path}:{uses[0].line}{more} (who_calls lists them){unread}"
        shown = hits[:MAX_RESULTS]
        files = indexed_files(repository.store.file_count)
        text = _listed(shown, nothing=f"{name} is not defined in {files}{unread}.")
        if len(hits) > len(shown):
            further = line_places(hits[len(shown) :][:_MAX_FURTHER])
            text += f"\n\nThe first {len(shown)} of {len(hits):,} definitions; `Outer.name` names fewer."
            text += f" Also: {'; '.join(further)}."
        return self._found(text, [hit.place for hit in shown], repository)

    async def who_calls(self, progress: Progress, repository: Repository, symbol: str) -> Reply:
        """Return the callers of a symbol, or if there are none, the places that mention it."""
        symbol = _checked_name(symbol)
        found = await self._host.run(uses_of_name, repository.store, symbol)
        unread = await self._unread(repository, symbol, len(found.found))
        places = [f"{path}:{ranges(lines)}" for (path, *_), lines in _by_definition(found)]
        places += [place for _, further in _further(found) for place in further]
        return self._found(_called(found, repository.store.file_count, unread), places, repository)

    async def review(self, progress: Progress, repo: str | None = None, range_: str | None = None) -> Reply:
        """Return what a change of a repository makes false; nothing is fetched or indexed."""
        parsed, source = ReviewRange.parse(range_), self._host.repository(repo).source

        def reviewed() -> Review:
            return review(self._host.engine, source, parsed, fetching=False)

        found = await self._host.run(reviewed, is_long=True)
        return Reply(as_markdown(found), {"review": to_json(found)})

    async def check(
        self, progress: Progress, text: str | None = None, repo: str | None = None, path: str = ""
    ) -> Reply:
        """Return what is not true any more in a text about the code, or in the repository's agent files."""
        engine, source = self._host.engine, self._host.repository(repo).source

        def checked() -> list[CheckedClaim]:
            given = [CheckedText(path or "text", text, path)] if text is not None else None
            return check_texts(engine, source, agent_texts(engine, source) if given is None else given)

        found = await self._host.run(checked, is_long=True)
        stale = [one for one in found if one.is_stale]
        fresh = sum(one.state == "fresh" for one in found)
        lines = [visible(f"- {one.file}:{one.claim.place}: {one}") for one in stale]
        lines = (
            [f"Stale ({len(stale)}), still true ({fresh}):", "", *lines]
            if lines
            else [f"Nothing is stale; {fresh} places and names are still true."]
        )
        claims = [one.values() | {"now": visible(one.now)} for one in stale]
        return Reply("\n".join(lines), {"claims": claims, "fresh": fresh})

    async def recall_turns(
        self,
        progress: Progress,
        query: str = "",
        conversation: str | None = None,
        limit: int = 5,
        turn: str | None = None,
    ) -> Reply:
        """Return the beginnings of earlier turns with the words of a query, or one whole turn by its id."""
        if (turn is None) == (not query):
            raise ConfigError("pass either `query` or the id of a `turn`")
        engine = self._host.engine
        if turn is not None:
            id_ = turn
            one = await self._host.run(lambda: engine.turns.turn(id_, namespace=engine.settings.namespace))
            (one,) = await self._host.run(lambda: self._checked([one]))
            return Reply(f"## {one.question}\n\n{one.answer}\n\n({_cited(one)})")
        found = await self._host.run(
            lambda: self._checked(recall(engine, query, conversation=conversation, k=limit))
        )
        blocks = [
            f"## {turn.question}\n\n{_cut(turn.answer)}\n\n"
            f"(turn {turn.id} of conversation {turn.conversation_id}; {_cited(turn)})"
            for turn in found
        ]
        return Reply("\n\n".join(blocks) or "No earlier turn matches the query.")

    # ------------------------------------------------------------ shared

    def _checked(self, turns: Sequence[types.DialogTurn]) -> list[types.DialogTurn]:
        """Return turns with the freshness of their sources in the repositories that are offered."""
        return checked(self._host.engine, turns, [one.source for one in self._host.repositories()])

    def _found(self, text: str, places: Sequence[str], repository: Repository) -> Reply:
        """Return places with the coverage: an agent also draws conclusions from what was not found."""
        searched = f"\n\n(Searched: {repository.coverage.summary})"
        if self._new_coverage(repository, "summary", searched) or not places:
            text = f"{text.rstrip()}{searched}"
        return Reply(text, {"places": list(places), "coverage": [to_json(repository.coverage)]})

    def _new_coverage(self, repository: Repository, kind: str, text: str) -> str:
        """Return a text on what is searched, "" if it is the last of its kind that the client was sent."""
        key = (repository.coverage.repository, kind)
        is_known = self._sent_coverage.get(key) == text
        self._sent_coverage[key] = text
        return "" if is_known else text

    async def _unread(self, repository: Repository, name: str, count: int) -> str:
        """Return what a count of places with a name does not cover, as the end of a sentence."""
        reach = self._host.engine.reach
        note = await self._host.run(lambda: uses_note(repository, name, count, reach=reach))
        return f"; {note}" if note else ""

    async def _wiki(self, repository: Repository, progress: Progress) -> WikiStructure:
        """Return the structure of a repository's wiki, cached for the state of its index."""
        await progress(0.5, 1.0, "reading the structure")
        return await self._host.run(self._host.wiki, repository, is_long=True)

    def _places(self, found: Sequence[types.Citation | types.CodeFact]) -> list[Json]:
        """Return the JSON of places, with the names of their repositories and their URLs."""
        return [placed(self._host, one, to_json(one)) for one in found]


def _matches(found: types.PatternMatches | None, name: str) -> Json | None:
    """Return the JSON of counts, with the name that the repository is served under."""
    if found is None:
        return None
    written = to_json(found)
    return written | {"rest": [one | {"repository": name} for one in written["rest"]]}


def _checked_name(name: str) -> str:
    if not (bare := bare_name(name)):
        raise ConfigError("the name is empty; pass the name of a function, a class or a constant")
    return bare


def placed(host: Host, of: types.Citation | types.Hit | types.CodeFact, written: Json) -> Json:
    """Return the JSON of a place with the name of its repository and its URL."""
    name, url = host.shown_as(of)
    return written | {"repository": name, "url": url}


def _cited(turn: types.DialogTurn) -> str:
    by = f"by {turn.model}; " if turn.edited else ""
    states = [f"{cited.place} [{found.state}]" for cited, found in turn.checked]
    more = f" and {len(states) - _SHOWN_SOURCES} more" if len(states) > _SHOWN_SOURCES else ""
    return by + (", ".join(states[:_SHOWN_SOURCES]) or "no sources") + more


def _with_sources(answer: Answer, places: Sequence[Json]) -> str:
    if not places or answer.model == QUOTING:  # which names its places
        return answer.text
    lines = []
    for citation, place in zip(answer.citations, places, strict=True):
        where = citation.place
        lines.append(f"- [{citation.n}] " + (f"[{where}]({place['url']})" if place["url"] else where))
    return "\n".join([answer.text.rstrip(), "", "Sources:", *lines])


def _with_notes(text: str, notes: Sequence[str]) -> str:
    return "\n\n".join([text.rstrip("\n"), *(f"Note: {note}" for note in notes)]) if notes else text


def _cut(answer: str) -> str:
    cut = len(answer) > _RECALLED_CHARS
    return f"{answer[:_RECALLED_CHARS].rstrip()} … (cut: recall_turns with `turn`)" if cut else answer


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
    return f"{place.path}:{ranges([number for number, _ in place.lines])}"


def _called(found: Uses, files: int, unread: str) -> str:
    """Return who calls a symbol: how many places, then a line for each definition that they are in."""
    if not (found.targets or found.found or found.is_file):
        return f"{found.name} is not defined, called or mentioned in {indexed_files(files)}{unread}."
    head = [summary(found, files=files)]
    if not found.targets and not found.is_file:
        head.append("none of the indexed files defines it")
    if found.limits:
        head.append(f"{INCOMPLETE}{', '.join(found.limits)}")
    if len(found.shown) < len(found.found):
        head.append(f"the first {len(found.shown)}")
    lines = [
        f"- {path}:{ranges(lines)}{f' in {within}' if within else ''}{note}"
        for (path, within, note), lines in _by_definition(found)
    ]
    lines += [f"- {said}: {'; '.join(places)}" for said, places in _further(found)]
    others = {*found.mentions, *found.unknown, *found.others, *found.by_name}.difference(found.shown)
    left = max(len(found.further) - _MAX_FURTHER, 0)
    if others or left:
        more = f"{left:,} more, and " if left else ""
        lines.append(f"- {more}other lines with `{last_part(found.name)}`: search_code, exact")
    return "\n".join(["; ".join([*head, *found.notes]) + unread + (":" if lines else "."), "", *lines])


def _further(found: Uses) -> list[tuple[str, list[str]]]:
    """Return the uses that are not shown by file, the certain ones first."""
    groups: dict[str, dict[str, list[int]]] = {}
    for use in found.further[:_MAX_FURTHER]:
        files = groups.setdefault("also" if use.certain else "also, possibly", {})
        files.setdefault(use.path, []).append(use.line)
    return [
        (said, [f"{path}:{ranges(sorted(lines))}" for path, lines in files.items()])
        for said, files in groups.items()
    ]


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
