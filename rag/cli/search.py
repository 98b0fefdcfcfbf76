"""`rag search`: retrieval only. It uses no model and does not import AdalFlow."""

from __future__ import annotations

import json as json_module
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.ask import chosen_for, split_words
from rag.cli.settings_options import settings_from
from rag.cli.terminal import json_text, nothing, opened_engine, out, out_json, say, seconds, wants_json
from rag.decoding import decoded_lines
from rag.errors import ConfigError, StoreCorrupt, StoreError
from rag.parsing import parse_json
from rag.quoting import counted, string_literal, visible
from rag.schema import to_json
from rag.types import (
    HITS,
    LINES,
    MAX_HISTORY,
    MAX_HITS,
    MAX_QUESTION_CHARS,
    CodeFacts,
    Hit,
    SearchFilter,
    SearchMode,
)

if TYPE_CHECKING:
    from rag.service import Engine, Repository
    from rag.service.tools.search import SearchOutcome, SearchQuery
    from rag.types import Source

_PREVIEW_LINES = 3
_BATCH_FIELDS = {"path", "start_line", "end_line", "symbol", "scope", "score"}
_COMPARING_SHARE, _COMPARING_BURST_S = 0.1, 2.0
"""The share of the time for comparing folders that cannot be watched, and the most that is saved up."""
_PREVIEW_CHARS = 156  # if the output is not a terminal

_HITS_HELP = f"The number of hits, 1 to {MAX_HITS:,}. Default: {HITS}; of lines on a page: {LINES:,}."
_PAGE_HELP = "With --exact or --regex: 2 for the next lines, and so on."
_Hits = Annotated[int | None, typer.Option("-k", help=_HITS_HELP)]
_Page = Annotated[int, typer.Option("--page", help=_PAGE_HELP)]


@options.grouped
def search(
    words: options.SearchWords,
    *,
    repo: options.Repositories = None,
    k: _Hits = None,
    page: _Page = 1,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help='Read JSON lines {"id", "query", "history", "k"} from stdin; '
            'write {"id", "results", "subject", "remarks"}.',
        ),
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Find this string instead of a question.")] = False,
    regex: Annotated[bool, typer.Option("--regex", help="Find this regular expression (RE2).")] = False,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="With --exact or --regex: ignore case.")
    ] = False,
    code_words: options.CodeWords = None,
    within: options.FilterOptions,
    index: options.IndexOptions,
    no_refresh: options.NoRefresh = False,
) -> None:
    """Search without a model: the lines for a question, a string or a regular expression.

    rag search . "Where is a token checked?" -k 5

    rag search . "Where is a token checked?" --path "src/" --lang python --kind code

    rag search . "What stops people from asking too often?" --words "RateLimiter allow" --words "429"

    rag search . "def check_token(" --exact

    rag search . "TODO.*token" --regex --ignore-case

    rag search . --batch < questions.jsonl
    """
    settings = settings_from()
    if batch:
        sources, question = [*(repo or []), *words], ""
    else:
        sources, question = split_words(words, repo or [], verbatim=exact or regex)
    mode = _mode(exact=exact, regex=regex, ignore_case=ignore_case, batch=batch)
    began = time.perf_counter()
    with opened_engine(settings) as engine:
        from rag.service.tools.search import SearchQuery

        query = SearchQuery(question, mode, ignore_case, k, within.only, (), code_words or (), page)
        if not batch:
            query.check()  # before anything is indexed
        wanted, note = _sources(engine, sources, question, mode, index)
        repositories = [
            engine.repository(source, refreshing=not no_refresh, else_old=True) for source in wanted
        ]
        if batch:
            _serve_batch(engine, repositories, k, within.only, refreshing=not no_refresh)
            return
        opened = time.perf_counter()
        found = _found(engine, repositories, query)
        searched = time.perf_counter()
        for remark in (*([note] if note else []), *found.remarks):
            say(f"rag: {remark}")
        times = {"open": opened - began, "search": searched - opened}
    if wants_json():
        out_json(_search_json(question, mode, found, repositories) | {"seconds": times})
    else:
        _print_found(found, several=len(repositories) > 1)
    if sys.stderr.isatty():  # a program, such as a coding agent, has no use for the times in words
        say(f"rag: {seconds(times)}")
    if not found.hits:
        nothing("nothing found" if page == 1 else "rag: no more lines")


def _sources(
    engine: Engine, names: list[str], question: str, mode: SearchMode, index: options.IndexOptions
) -> tuple[list[Source], str]:
    """Return the named sources, those of a group that are searched, and a note on the others.

    A question is searched where its words are frequent; a string or an expression in the whole group.
    """
    from rag.service import locate
    from rag.service.repositories.groups import is_group, members

    named: list[str | None] = [name for name in names if not is_group(name)]
    groups = [name for name in names if is_group(name)]
    asked = [locate(name, index.ref, index.filters) for name in named or ([] if groups else [None])]
    choice = [source for group in groups for source in members(engine, group)]
    if not groups or mode != "question":
        return list(dict.fromkeys([*asked, *choice])), ""
    chosen = chosen_for(engine, question, asked, choice)
    return list(chosen.sources), chosen.note


def _mode(*, exact: bool, regex: bool, ignore_case: bool, batch: bool) -> SearchMode:
    """Return what the text of the search is. Raises ConfigError for options that exclude each other."""
    if exact and regex:
        raise ConfigError("use either --exact or --regex")
    if ignore_case and not (exact or regex):
        raise ConfigError("--ignore-case needs --exact or --regex; a question ignores case anyway")
    if batch and (exact or regex):
        raise ConfigError("--batch reads questions; use it without --exact and --regex")
    return "exact" if exact else "regex" if regex else "question"


def _search_json(
    question: str, mode: SearchMode, found: SearchOutcome, repositories: list[Repository]
) -> dict[str, Any]:
    """Return the result of a search as JSON values."""
    retrieval, confidence = found.retrieval, found.confidence
    code_facts = retrieval.code_facts if retrieval else None
    return {
        "question": question,
        "mode": mode,
        "taken": dict(retrieval.taken) if retrieval else {},
        "confidence": to_json(confidence) if confidence else None,
        "hits": [to_json(hit) for hit in found.hits],
        "code_facts": to_json(code_facts) if code_facts else None,
        "matches": to_json(found.matches) if found.matches else None,
        "remarks": list(found.remarks),
        "coverage": [to_json(repository.coverage) for repository in repositories],
    }


def _found(engine: Engine, repositories: list[Repository], query: SearchQuery) -> SearchOutcome:
    """Search the repositories; a damaged store is rebuilt first."""
    from rag.service.tools.search import search_repositories

    try:
        return search_repositories(repositories, query)
    except StoreCorrupt as damage:
        return search_repositories(engine.rebuilt(repositories, damage), query)


def _print_found(found: SearchOutcome, *, several: bool) -> None:
    from rag.retrieval.literal import quoted

    if found.matches is not None:
        from rag.service.tools.line_list import line_list  # late: a question needs no list

        again = f"repeat the command with --page {found.matches.next_page} for the next lines"
        out(line_list(found.hits, found.matches, several=several, next_page=again))
    if found.retrieval is None:
        return
    if found.retrieval.code_facts:
        _print_facts(found.retrieval.code_facts, several=several)
    question = found.retrieval.sought.question.text
    _print_hits(found.hits, question, several=several)
    for phrase in quoted(question)[:1]:
        say(f"rag: --exact finds each line with {string_literal(phrase)} as it is written")


def _print_facts(found: CodeFacts, *, several: bool) -> None:
    """Print the facts, each on a line with its place and text."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PREVIEW_CHARS
    out(f"{visible(found.summary)}:")
    for item in found.items:
        place = f"{item.path}:{item.start}"
        text = item.reason if found.is_about_one_place else item.text
        shown = " ".join(visible(text).split()) + ("" if item.certain else "  (possibly)")
        out(f"  {visible(f'{item.repo}:{place}' if several else place)}  {shown}"[:room])
    if (more := found.count - len(found.items)) > 0:
        out(f"  and {more:,} more; --exact finds each line with {string_literal(found.subject)}")
    if found.note:
        out(f"  {visible(found.note)}")
    out("")


def _print_hits(hits: tuple[Hit, ...], question: str, *, several: bool) -> None:
    from rag.answer.chosen_lines import preview

    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PREVIEW_CHARS
    for number, hit in enumerate(hits, 1):
        place = visible(f"{hit.repo}:{hit.place}" if several else hit.place)
        name = hit.label
        out(f"{number:2}. {place}  {name}  {hit.score:.3f}".replace("    ", "  "))
        for line, text in preview(hit, question, hits, _PREVIEW_LINES):
            out(f"{line:6} {text}"[:room])


def _serve_batch(
    engine: Engine, repositories: list[Repository], k: int | None, only: SearchFilter, *, refreshing: bool
) -> None:
    """Answer JSON lines until the input ends. An invalid line gets an error object as its reply.

    `k` is the number of hits for a line that has none, `only` selects the files. With `refreshing`, changed
    files are re-indexed before each answer.
    """
    from rag.service.repositories.background_budget import Allowance

    allowance = Allowance(_COMPARING_SHARE, _COMPARING_BURST_S)

    def current() -> list[Repository]:
        if refreshing:
            repositories[:] = [
                one if one.source.is_url else engine.current(one, allowance) for one in repositories
            ]
        return repositories

    chunks = sum(repository.store.live_count for repository in repositories)
    out(json_module.dumps({"ready": True, "chunks": chunks, "history": True}))
    failed = 0
    for line in decoded_lines(sys.stdin.buffer, errors="replace"):
        if not line.strip():
            continue
        reply = _batch_reply(current, line, k, only)
        failed += "error" in reply
        out(json_text(reply))
    if failed:
        raise ConfigError(
            f"{counted(failed, 'line')} of the input could not be answered; see the errors in the output"
        )


def _batch_reply(
    opened: Callable[[], list[Repository]], line: str, k: int | None, only: SearchFilter
) -> dict[str, Any]:
    from rag.service.tools.search import search_repositories

    request: Any = None
    try:
        request = parse_json(line)
        query = replace(_checked_request(request, k), only=only)
    except ValueError as error:
        number = request.get("id") if isinstance(request, dict) else None
        what = "invalid JSON: " if isinstance(error, json_module.JSONDecodeError) else ""
        return {"id": number, "error": f"{what}{error}"}
    try:
        found = search_repositories(opened(), query)
    except (ConfigError, StoreError) as error:
        return {"id": request.get("id"), "error": str(error)}
    assert found.retrieval is not None
    names = _BATCH_FIELDS | ({"repository"} if len(found.searched) > 1 else set())
    results = [
        {name: value for name, value in to_json(hit).items() if name in names}
        | {"score": round(hit.score, 6)}
        for hit in found.hits
    ]
    subject = found.retrieval.sought.subject
    reply = {
        "id": request.get("id"),
        "results": results,
        "subject": to_json(subject) if subject else None,
        "remarks": list(found.remarks),
    }
    if request.get("confidence") is True:
        confidence = found.confidence
        reply["first_right"] = confidence.first_right if confidence else None
    return reply


def _checked_request(request: Any, default_k: int | None) -> SearchQuery:
    """Return what a line asks for. Raises ValueError."""
    from rag.service.tools.search import SearchQuery

    if not isinstance(request, dict):
        raise ValueError("a JSON object is expected")
    query = request.get("query")
    history = [] if request.get("history") is None else request["history"]
    k = default_k if request.get("k") is None else request["k"]
    if not isinstance(query, str):
        raise ValueError('"query" must be text')
    if not isinstance(history, list) or not all(isinstance(text, str) for text in history):
        raise ValueError('"history" must be a list of earlier questions')
    _check_history(history)
    if k is not None and (not isinstance(k, int) or isinstance(k, bool)):
        raise ValueError('"k" must be a whole number')
    return SearchQuery(query, k=k, earlier=history)


def _check_history(history: list[str]) -> None:
    if len(history) > MAX_HISTORY:
        raise ValueError(
            f'"history" has {len(history):,} questions, more than {MAX_HISTORY}; send the last ones'
        )
    longest = max(map(len, history), default=0)
    if longest > MAX_QUESTION_CHARS:
        raise ValueError(
            f'a question of "history" has {longest:,} characters, more than {MAX_QUESTION_CHARS:,}'
        )
