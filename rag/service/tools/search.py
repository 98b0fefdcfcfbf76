"""One search for every interface: a question, a string or an expression, in all files or in some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from rag.database.filtering import filtered, paths_allowed
from rag.errors import QuestionEmpty, QuestionTooLong, SearchInvalid
from rag.retrieval.phrasings import best_confidence, with_phrasings
from rag.retrieval.search import FURTHER_HITS, RetrievalResult, search_in_turn
from rag.service.repositories.repository import Repository
from rag.service.tools.definition_history import with_history
from rag.service.tools.unread import pending_notes, text_note, with_unread
from rag.settings import MAX_CODE_WORDS
from rag.types import (
    HITS,
    LINES,
    LOCAL,
    MAX_HITS,
    MAX_QUESTION_CHARS,
    Confidence,
    Hit,
    PatternMatches,
    Reach,
    SearchFilter,
    SearchMode,
)


def check_question(question: str) -> None:
    """Refuse what is no question. Raises QuestionEmpty, QuestionTooLong."""
    if not question.strip():
        raise QuestionEmpty()
    if len(question) > MAX_QUESTION_CHARS:
        raise QuestionTooLong(len(question), MAX_QUESTION_CHARS)


def check_code_words(texts: Sequence[str]) -> None:
    """Refuse too many or too long texts in the code's words. Raises SearchInvalid, QuestionTooLong."""
    if len(texts) > MAX_CODE_WORDS:
        raise SearchInvalid(f"{len(texts)} texts in the code's words; give at most {MAX_CODE_WORDS}")
    for text in texts:
        if len(text) > MAX_QUESTION_CHARS:
            raise QuestionTooLong(len(text), MAX_QUESTION_CHARS)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is searched: `text` is a question, a string or an expression; `only` selects the files.

    `k` is the number of hits, by default `HITS`, or of lines on a page, by default `LINES`; `page` is that of
    the lines, from 1. `earlier` are the questions before it, where the turns of the conversation are not
    stored. `in_code_words` are texts that say what is asked as the code would, with likely identifiers: they
    are searched besides a question in everyday words.
    """

    text: str
    mode: SearchMode = "question"
    ignore_case: bool = False
    k: int | None = None
    only: SearchFilter = field(default_factory=SearchFilter)
    earlier: Sequence[str] = ()
    in_code_words: Sequence[str] = ()
    page: int = 1

    @property
    def most(self) -> int:
        """The number of hits, or of lines on a page."""
        return self.k if self.k is not None else HITS if self.mode == "question" else LINES

    @property
    def depth(self) -> int:
        """How many hits the question itself is searched for: more than asked, to be fused with others."""
        return max(self.most, FURTHER_HITS) if self.in_code_words else self.most

    def check(self) -> None:
        """Refuse what cannot be searched.

        Raises:
            QuestionEmpty: there is no text. A string or an expression may consist of spaces.
            QuestionTooLong: as `check_question`.
            SearchInvalid: `k` is not from 1 to `MAX_HITS`, the mode is unknown, a question ignores case or
                has a page, or `in_code_words` are too many or those of no question.
        """
        if self.mode not in (modes := get_args(SearchMode)):
            raise SearchInvalid(f"unknown mode {self.mode!r}; use {', '.join(modes)}")
        if self.mode == "question":
            check_question(self.text)
        elif not self.text:
            raise QuestionEmpty()
        if not 1 <= self.most <= MAX_HITS:
            raise SearchInvalid(f"the number of hits is {self.most:,}; ask for 1 to {MAX_HITS:,}")
        if self.page < 1 or (self.page > 1 and self.mode == "question"):
            raise SearchInvalid(
                f"there is no page {self.page:,}; the lines of exact and regex have pages, from 1"
            )
        if self.ignore_case and self.mode == "question":
            raise SearchInvalid("only exact and regex can ignore case; a question ignores case anyway")
        if self.in_code_words and self.mode != "question":
            raise SearchInvalid(
                "only a question is searched in the code's words too, no string or expression"
            )
        check_code_words(self.in_code_words)


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Hits, best first. `matches` counts those of a pattern; `retrieval` is the result for a question.

    `remarks` are sentences for the person who asked. `searched` are the repositories with only the files that
    the filter allows.
    """

    hits: tuple[Hit, ...]
    searched: Sequence[Repository]
    remarks: tuple[str, ...] = ()
    matches: PatternMatches | None = None
    retrieval: RetrievalResult | None = None

    @property
    def confidence(self) -> Confidence | None:
        """The confidence that the answer to the question is in the repositories; None for a pattern."""
        searchers = [repository.searcher for repository in self.searched]
        return best_confidence(searchers, self.retrieval) if self.retrieval else None


Ask = Callable[[Sequence[Repository]], RetrievalResult]


def search_repositories(
    repositories: Sequence[Repository], query: SearchQuery, ask: Ask | None = None, *, reach: Reach = LOCAL
) -> SearchOutcome:
    """Search repositories; the files are selected before the hits are ranked.

    Args:
        repositories: the repositories, open for search.
        query: what is searched.
        ask: searches for the question, by default in the context of the `earlier` ones.
        reach: what may be looked up in files that are not indexed.

    Raises:
        QuestionEmpty, QuestionTooLong, SearchInvalid: as `SearchQuery.check`; or the pattern or the filter is
            invalid.
        SourceError: a glob is invalid.
        StoreCorrupt: a store is damaged where the search had to read it.
    """
    query.check()
    chosen = within(repositories, query.only)
    remarks: tuple[str, ...] = (
        () if any(one.store.live_count for one in chosen) else (nothing_within(query.only),)
    )
    if query.mode != "question":
        from rag.retrieval.exact import find_text  # late: a question needs no regular expressions of RE2

        found = find_text(
            [one.store for one in chosen],
            query.text,
            regex=query.mode == "regex",
            ignore_case=query.ignore_case,
            k=query.most,
            page=query.page,
        )
        count = found.matches.count
        if not count or not query.only:
            remarks = (*remarks, *_unread(repositories, query, count, reach))
        elif query.mode == "exact":
            remarks = (*remarks, *pending_notes(chosen, [query.text], reach=reach))
        return SearchOutcome(found.hits, chosen, remarks, matches=found.matches)
    result = ask(chosen) if ask else _ask(chosen, query, reach)
    result = with_phrasings([one.searcher for one in chosen], result, query.in_code_words, k=query.most)
    said = result.code_facts.note if result.code_facts else ""
    pending = pending_notes(chosen, result.sought.question.names, said, reach=reach)
    remarks = (*remarks, *result.remarks, *pending)
    return SearchOutcome(result.hits, chosen, remarks, retrieval=result)


def _unread(
    repositories: Sequence[Repository], query: SearchQuery, count: int, reach: Reach
) -> Iterator[str]:
    """Yield what is known of a string or an expression in what is not indexed; `count` matches are."""
    is_regex = query.mode == "regex"
    for one in repositories:
        note = text_note(one, query.text, count, ignore_case=query.ignore_case, regex=is_regex, reach=reach)
        if note:
            yield f"{one.source.name}: {note}"


def _ask(repositories: Sequence[Repository], query: SearchQuery, reach: Reach) -> RetrievalResult:
    searchers = [repository.searcher for repository in repositories]
    found = search_in_turn(searchers, query.text, query.earlier, k=query.depth)
    return with_unread(repositories, with_history(repositories, found, query.depth), reach=reach)


def within(repositories: Sequence[Repository], only: SearchFilter) -> list[Repository]:
    """Return the repositories with only the files that a filter allows.

    Raises:
        SearchInvalid, SourceError: as `rag.database.filtering.filtered`.
    """
    if not only:
        return list(repositories)
    stores = [filtered(repository.store, only) for repository in repositories]
    return [
        replace(
            one,
            store=store,
            searcher=replace(one.searcher, index=store),
            compared=replace(one.compared, behind=paths_allowed(one.compared.behind, only)),
        )
        for one, store in zip(repositories, stores, strict=True)
    ]


def nothing_within(only: SearchFilter) -> str:
    """Return a sentence on repositories without a file that a filter allows."""
    return f"no indexed file matches the filter ({only})" if only else "nothing is indexed"
