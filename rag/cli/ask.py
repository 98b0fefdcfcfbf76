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
    settings_from,
)
from rag.cli.terminal_markdown import TerminalMarkdown
from rag.errors import ConfigError, NotFound, ProviderError, RagError, SourceNotFound
from rag.quoting import visible
from rag.resources import is_folder
from rag.schema import to_json
from rag.types import Answer, Conversation, Filters, Source

if TYPE_CHECKING:
    from rag.service import Dialog, Engine


def ask(
    words: Annotated[
        list[str], typer.Argument(metavar="[SOURCE] QUESTION", help="A path or git URL, and a question.")
    ],
    repo: options.Repositories = None,
    ref: options.Ref = None,
    go_on: options.Continue = False,
    conversation: options.Named = None,
    json: options.Json = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    client: options.Client = None,
    template: options.Template = None,
    context_tokens: options.ContextTokens = None,
    answer_tokens: options.AnswerTokens = None,
    gate: options.Gate = None,
    reword: options.Reword = None,
    cache: options.Cache = None,
    memory: options.Memory = None,
    embedder: options.Embedder = None,
    include: options.Include = None,
    exclude: options.Exclude = None,
    no_refresh: options.NoRefresh = False,
    keep_broken: Annotated[
        bool, typer.Option("--keep-broken", help="Keep an answer that broke off, marked incomplete.")
    ] = False,
    yes: options.Yes = False,
) -> None:
    """Ask a question; the answer cites `path:start-end`.

    With one word the repository is the conversation's, else the current directory.

        rag ask . "Where is a token checked?"

        rag ask "And who calls it?" -c

        rag ask -r ../api -r https://example.org/team/web.git "How does login work?"
    """
    with errors_as_exit_codes():
        settings = settings_from(
            model=model,
            base_url=base_url,
            client=client,
            template=template,
            context_tokens=context_tokens,
            answer_tokens=answer_tokens,
            gate=gate,
            reword=reword,
            cache=cache,
            memory=memory,
            embedder=embedder,
        )
        sources, question = split_words(words, repo or [])
        with opened_engine(settings, yes=yes) as engine:
            dialog = open_dialog(
                engine,
                sources,
                ref=ref,
                go_on=go_on,
                name=conversation,
                filters=Filters(tuple(include or ()), tuple(exclude or ())),
                refreshing=not no_refresh,
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
"""What nobody asks."""


def split_words(words: Sequence[str], repositories: Sequence[str]) -> tuple[list[str], str]:
    """The sources and the question of a command line: `QUESTION`, or `SOURCE QUESTION`.

    Raises:
        ConfigError: more words than that, an empty question, or a place alone.
    """
    if len(words) > 2 or (len(words) == 2 and repositories):
        raise ConfigError(
            f"{len(words)} words were given where a source and a question are expected; put the question in "
            'quotes: rag ask . "Where is a token checked?"'
        )
    question = words[-1].strip()
    if not question:
        raise ConfigError('the question is empty; ask for instance: rag ask . "Where is a token checked?"')
    is_place = "/" in question and is_folder(question)
    if len(words) == 1 and (is_place or _PLACE.fullmatch(question)):
        raise ConfigError(f'{question} is a place; say what is asked of it: rag ask {question} "Where is …?"')
    return [*repositories, *words[:-1]], question


def open_dialog(
    engine: Engine,
    sources: Sequence[str],
    *,
    ref: str | None,
    go_on: bool,
    name: str | None,
    filters: Filters,
    refreshing: bool = True,
) -> Dialog:
    """The conversation that is asked for, with its repositories open.

    Raises:
        ConversationMismatch: it is about other repositories than those named.
        NotFound: there is none to go on with.
        SourceNotFound: a folder that it is about was moved or removed.
    """
    from rag.service import Dialog, locate

    asked = [locate(source, ref, filters) for source in sources]
    found = _begun(engine, name, go_on=go_on)
    if found is not None:
        _see_that_all_is_there(found)
        asked = [_as_before(source, found.sources) for source in asked]
        found = engine.find_conversation(name or found.id, asked)
    wanted = asked or (list(found.sources) if found else []) or [locate(None, ref, filters)]
    repositories = [engine.repository(source, refreshing=refreshing) for source in wanted]
    return Dialog(engine, repositories, found, name=name or "")


def _begun(engine: Engine, name: str | None, *, go_on: bool) -> Conversation | None:
    """The conversation of this name, else the last one when it is to go on. Raises NotFound if it cannot."""
    if name is None:
        return engine.last_conversation() if go_on else None
    try:
        return engine.find_conversation(name)
    except NotFound:
        if go_on:
            raise
        return None


def _see_that_all_is_there(conversation: Conversation) -> None:
    for source in conversation.sources:
        folder = source.location
        if not source.is_url and not Path(folder).exists():
            raise SourceNotFound(
                f"there is no folder {folder} any more, and the conversation {title(conversation)} is about "
                f"it; where it was moved leave a link to it: ln -s NEW_PLACE {quote(folder)}"
            )


def _as_before(source: Source, known: Sequence[Source]) -> Source:
    """The source as the conversation knows it: of its filters nothing has to be said again.

    A link that stands where a folder was before it was moved leads to it.
    """
    alike = [one for one in known if replace(_followed(one), filters=Filters()) == source]
    return alike[0] if len(alike) == 1 else source


def _followed(source: Source) -> Source:
    return source if source.is_url else replace(source, location=os.path.realpath(source.location))


def answer_question(
    engine: Engine, dialog: Dialog, question: str, *, show: bool, keep_broken: bool = False
) -> Answer:
    """Ask, print the answer as it comes (when `show`), and what it rests on and cost.

    Raises:
        BrokenPipeError: its reader went away (`rag ask … | head`); the turn is stored all the same.
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
                prose.end()  # what is said of the error gets a line of its own
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
    """Print what is shown of a question whose model failed."""
    prose = TerminalMarkdown()
    prose.write(quotes.text)
    prose.end()
    _print_sources(quotes, several=several)


def _failed_json(error: ProviderError, dialog: Dialog) -> dict[str, Any]:
    """A failed question as JSON values; the quotes are None where the question was not searched."""
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
        say("rag: with --no-gate (RAG_GATE=off) the nearest places are answered from all the same")
    if answer.warning:
        say("rag: with --no-gate (RAG_GATE=off) answers come without this warning")
    if answer.found and answer.sources and not answer.citations:
        say(f"rag: the answer refers to none of the {counted(len(answer.sources), 'source')} it was shown")
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
    """The answer as JSON, and which repositories were asked."""
    return to_json(answer) | {"repositories": [str(r.source) for r in dialog.repositories]}
