"""`rag ask`: an answer with citations, in a conversation."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.selectors import title
from rag.cli.terminal import (
    NOTHING_FOUND,
    counted,
    errors_as_exit_codes,
    opened_engine,
    out,
    out_json,
    say,
    seconds,
)
from rag.cli.terminal_markdown import TerminalMarkdown
from rag.errors import ConfigError, NotFound, ProviderError, RagError, SourceNotFound
from rag.quoting import visible
from rag.resources import is_folder
from rag.schema import to_json
from rag.types import Answer, Conversation, Filters, Source

if TYPE_CHECKING:
    from rag.service import Dialog, Engine


@options.grouped
def ask(
    words: options.Words,
    *,
    repo: options.Repositories = None,
    conversation: options.ConversationOptions,
    json: options.Json = False,
    answering: options.AnswerOptions,
    index: options.IndexOptions,
    no_refresh: options.NoRefresh = False,
    keep_broken: Annotated[
        bool,
        typer.Option("--keep-broken", help="Store an incomplete answer, marked as such, if the model fails."),
    ] = False,
    yes: options.Yes = False,
) -> None:
    """Ask a question; the answer cites `path:start-end`.

    rag ask . "Where is a token checked?"

    rag ask "And who calls it?" -c

    rag ask -r ../api -r https://example.org/team/web.git "How does login work?"
    """
    with errors_as_exit_codes():
        settings = answering.settings()
        sources, question = split_words(words, repo or [])
        with opened_engine(settings, yes=yes) as engine:
            dialog = open_dialog(
                engine, sources, index=index, conversation=conversation, refreshing=not no_refresh
            )
            try:
                answer = answer_question(engine, dialog, question, show=not json, keep_broken=keep_broken)
            except ProviderError as error:
                if json:
                    out_json(_failed_json(error, dialog))
                raise
            if json:
                out_json(answer_json(answer, dialog))
    if not answer.found:
        raise typer.Exit(NOTHING_FOUND)


_PLACE = re.compile(r"(?:(?:\.\.?|~)(?:/\S*)?|[a-z][a-z+]*://\S+|git@\S+)")
"""A path or URL, which is never a question."""


def split_words(words: Sequence[str], repositories: Sequence[str]) -> tuple[list[str], str]:
    """Split the words of a command line, `QUESTION` or `SOURCE QUESTION`, into sources and question.

    Raises:
        ConfigError: there are more words, the question is empty, or there is only a source.
    """
    if len(words) > 2 or (len(words) == 2 and repositories):
        raise ConfigError(
            f"expected a source and a question, got {len(words)} words; put the question in "
            'quotes: rag ask . "Where is a token checked?"'
        )
    question = words[-1].strip()
    if not question:
        raise ConfigError('the question is empty; for example: rag ask . "Where is a token checked?"')
    is_place = "/" in question and is_folder(question)
    if len(words) == 1 and (is_place or _PLACE.fullmatch(question)):
        raise ConfigError(
            f'{question} is a source without a question; for example: rag ask {question} "Where is …?"'
        )
    return [*repositories, *words[:-1]], question


def open_dialog(
    engine: Engine,
    sources: Sequence[str],
    *,
    index: options.IndexOptions,
    conversation: options.ConversationOptions,
    refreshing: bool = True,
) -> Dialog:
    """Return the requested conversation, with its repositories open.

    Raises:
        ConversationMismatch: it belongs to other repositories than the named ones.
        NotFound: there is no conversation to continue.
        SourceNotFound: one of its folders was moved or removed.
    """
    from rag.service import Dialog, locate

    name, filters = conversation.conversation, index.filters
    asked = [locate(source, index.ref, filters) for source in sources]
    found = _continued(engine, name, go_on=conversation.go_on)
    if found is not None:
        _check_folders(found)
        asked = [_with_known_filters(source, found.sources) for source in asked]
        found = engine.find_conversation(name or found.id, asked)
    wanted = asked or (list(found.sources) if found else []) or [locate(None, index.ref, filters)]
    repositories = [engine.repository(source, refreshing=refreshing) for source in wanted]
    return Dialog(engine, repositories, found, name=name or "")


def _continued(engine: Engine, name: str | None, *, go_on: bool) -> Conversation | None:
    """Return the conversation with this name, or the last one with `go_on`; None for a new one.

    Raises:
        NotFound: there is none to continue.
    """
    if name is None:
        return engine.last_conversation() if go_on else None
    try:
        return engine.find_conversation(name)
    except NotFound:
        if go_on:
            raise
        return None


def _check_folders(conversation: Conversation) -> None:
    for source in conversation.sources:
        folder = source.location
        if not source.is_url and not Path(folder).exists():
            raise SourceNotFound(
                f"the conversation {title(conversation)} is about the folder {folder}, which does not exist; "
                f"if it was moved, create a link: ln -s NEW_FOLDER {quote(folder)}"
            )


def _with_known_filters(source: Source, known: Sequence[Source]) -> Source:
    """Return the source with the filters that the conversation has for it, if it is one of its sources.

    A link at the old path of a moved folder is followed.
    """
    alike = [one for one in known if replace(_followed(one), filters=Filters()) == source]
    return alike[0] if len(alike) == 1 else source


def _followed(source: Source) -> Source:
    return source if source.is_url else replace(source, location=os.path.realpath(source.location))


def answer_question(
    engine: Engine, dialog: Dialog, question: str, *, show: bool, keep_broken: bool = False
) -> Answer:
    """Ask, print the answer while it arrives (with `show`), then its sources, time and cost.

    Raises:
        BrokenPipeError: the reader closed the pipe (`rag ask … | head`). The turn is stored anyway.
    """
    from rag.service import converse

    generator = engine.answering_generator()
    prose = TerminalMarkdown()
    gone: BrokenPipeError | None = None
    with closing(converse(dialog, question, generator, keep_broken=keep_broken, cache=None)) as pieces:
        try:
            for piece in pieces:
                if isinstance(piece, Answer):
                    answer = piece
                elif show and gone is None:
                    try:
                        prose.write(piece)
                    except BrokenPipeError as error:
                        gone = error
        except RagError as error:
            if gone is None:
                prose.end()  # the error message starts on its own line
                if show and isinstance(error, ProviderError) and error.quotes is not None:
                    _print_quotes(error.quotes, several=len(dialog.repositories) > 1)
            raise
    if gone is not None:
        raise gone
    if show:
        prose.end()
        _print_sources(answer, several=len(dialog.repositories) > 1)
    _print_figures(engine, answer)
    return answer


def _print_quotes(quotes: Answer, *, several: bool) -> None:
    """Print the quotes for a question whose model failed."""
    prose = TerminalMarkdown()
    prose.write(quotes.text)
    prose.end()
    _print_sources(quotes, several=several)


def _failed_json(error: ProviderError, dialog: Dialog) -> dict[str, Any]:
    """Return a failed question as JSON values; the quotes are None if the search did not run."""
    quotes = None if error.quotes is None else answer_json(error.quotes, dialog)
    return {"error": {"message": str(error), "type": type(error).__name__}, "quotes": quotes}


def _print_sources(answer: Answer, *, several: bool) -> None:
    if answer.citations:
        out()
    for citation in answer.citations:
        place = visible(f"{citation.repo}:{citation.place}" if several else citation.place)
        out(f"[{citation.n}] {place}{'  ' + citation.qualified_name if citation.symbol else ''}")


def _print_figures(engine: Engine, answer: Answer) -> None:
    for note in answer.notes:
        say(f"rag: {note}")
    if not answer.found and answer.hits:
        say("rag: use --no-gate (RAG_GATE=off) to answer from the nearest places anyway")
    if answer.warning:
        say("rag: use --no-gate (RAG_GATE=off) to turn this warning off")
    if answer.found and answer.sources and not answer.citations:
        say(f"rag: the answer cites none of its {counted(len(answer.sources), 'source')}")
    usage = answer.usage
    parts = [seconds(answer.seconds)]
    if engine.settings.has_model:
        about = "about " if usage.estimated else ""
        cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ""
        parts.append(f"{about}{usage.prompt_tokens:,} + {usage.answer_tokens:,} tokens{cost}")
        parts.append(answer.model)
    number = "" if answer.turn_order is None else f"turn {answer.turn_order + 1}"
    say("rag: " + " · ".join(part for part in (*parts, number) if part))
    if not engine.settings.has_model and sys.stderr.isatty():
        say("rag: no language model is configured; `rag doctor` says how to add one")


def answer_json(answer: Answer, dialog: Dialog) -> dict[str, Any]:
    """Return the answer and the repositories as JSON values."""
    return to_json(answer) | {"repositories": [str(r.source) for r in dialog.repositories]}
