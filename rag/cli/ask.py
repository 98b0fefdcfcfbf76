"""`rag ask`: an answer with citations, in a conversation."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.screen import ShownAnswer, print_screen
from rag.cli.selectors import title
from rag.cli.settings_options import settings_from
from rag.cli.terminal import (
    INTERRUPTED,
    NOTHING_FOUND,
    Waiting,
    opened_engine,
    out,
    out_json,
    say,
    seconds,
    wants_json,
)
from rag.cli.terminal_markdown import TerminalMarkdown
from rag.display.mermaid import as_text
from rag.errors import ConfigError, ConversationMismatch, NotFound, ProviderError, RagError, SourceNotFound
from rag.quoting import counted, visible
from rag.resources import is_folder
from rag.schema import to_json
from rag.types import Answer, Conversation, Filters, Source, Subject, TraceStep
from rag.types.answer import QUOTING

if TYPE_CHECKING:
    from rag.answer.one_screen import Extract
    from rag.service import Dialog, Engine
    from rag.service.repositories.groups import Selection


@options.grouped
def ask(
    words: options.AskWords,
    *,
    repo: options.Repositories = None,
    conversation: options.ConversationOptions,
    within: options.FilterOptions,
    index: options.IndexOptions,
    no_refresh: options.NoRefresh = False,
    keep_broken: Annotated[
        bool,
        typer.Option("--keep-broken", help="Keep the incomplete answer, marked as such, if the model fails."),
    ] = False,
) -> None:
    """Ask a question; the answer cites `path:start-end`.

    rag ask . "Where is a token checked?"

    rag ask "And who calls it?" -c

    rag ask . "Who calls it?" --about authenticate

    rag ask -r ../api -r https://example.org/team/web.git "How does login work?"

    rag ask @all "Where do we validate tokens?"
    """
    settings = settings_from()
    sources, question = split_words(words, repo or [])
    with opened_engine(settings) as engine:
        dialog = open_dialog(
            engine,
            sources,
            question,
            index=index,
            conversation=conversation,
            refreshing=not no_refresh,
        )
        dialog.restrict(within.only)
        try:
            answer = answer_question(engine, dialog, question, show=not wants_json(), keep_broken=keep_broken)
        except ProviderError as error:
            if wants_json():
                out_json(_failed_json(error, dialog))
            raise
        if wants_json():
            out_json(answer_json(answer, dialog))
    if not answer.complete:
        raise typer.Exit(ProviderError.exit_code if answer.cut else INTERRUPTED)
    if not answer.found:
        raise typer.Exit(NOTHING_FOUND)


_PLACE = re.compile(r"(?:(?:\.\.?|~)(?:/\S*)?|[a-z][a-z+]*://\S+|git@\S+|@\S+)")
"""A path, URL or group, which is never a question."""


def split_words(
    words: Sequence[str], repositories: Sequence[str], *, verbatim: bool = False
) -> tuple[list[str], str]:
    """Split the words of a command line, `QUESTION` or `SOURCE QUESTION`, into sources and question.

    With `verbatim` the question is a string to find, with its spaces; it may look like a path.

    Raises:
        ConfigError: there are more words, the question is empty, there is only a source, or it comes last.
    """
    if len(words) > 2 or (len(words) == 2 and repositories):
        raise ConfigError(
            f"expected a source and a question, got {len(words)} words; put the question in "
            'quotes: rag ask . "Where is a token checked?"'
        )
    question = words[-1] if verbatim else words[-1].strip()
    if not question:
        raise ConfigError('the question is empty; for example: rag ask . "Where is a token checked?"')
    if verbatim:
        return [*repositories, *words[:-1]], question
    if len(words) == 1 and is_place(question):
        raise ConfigError(
            f'{question} is a source without a question; for example: rag ask {question} "Where is …?"'
        )
    if len(words) == 2 and is_place(question) and _is_sentence(words[0]):
        raise ConfigError(f"the source comes before the question: rag ask {question} {shlex.quote(words[0])}")
    return [*repositories, *words[:-1]], question


def is_place(word: str) -> bool:
    """Return whether a word of a command line is a source, and no question or command."""
    return bool(_PLACE.fullmatch(word)) or ("/" in word and is_folder(word))


def _is_sentence(text: str) -> bool:
    return len(text.split()) > 1 and not is_folder(text)


def open_dialog(
    engine: Engine,
    sources: Sequence[str],
    question: str = "",
    *,
    index: options.IndexOptions,
    conversation: options.ConversationOptions,
    refreshing: bool = True,
) -> Dialog:
    """Return the requested conversation, with its repositories open.

    Of a group, those are opened that the question is about; a conversation keeps those of its first question.

    Raises:
        ConfigError: a group is named without a question.
        ConversationMismatch: it belongs to other repositories than the named ones.
        NotFound: there is no conversation to continue, no such group, or nothing with the subject's name.
        SourceNotFound: one of its folders was moved or removed.
    """
    from rag.service import Dialog, locate
    from rag.service.repositories.groups import is_group, members

    name, filters = conversation.conversation, index.filters
    asked = [locate(source, index.ref, filters) for source in sources if not is_group(source)]
    groups = [source for source in sources if is_group(source)]
    choice = [source for group in groups for source in members(engine, group)]
    found = _continued(engine, conversation, asked, choice)
    remarks: tuple[str, ...] = ()
    if found is not None:
        _check_folders(found)
        if groups:
            asked = _within(found, [*asked, *choice])
        asked = [_with_known_filters(source, found.sources) for source in asked]
        found = engine.find_conversation(name or found.id, asked)
    elif groups:
        chosen = chosen_for(engine, question, asked, choice)
        asked, remarks = list(chosen.sources), (chosen.note,) if chosen.note else ()
    wanted = asked or (list(found.sources) if found else []) or [locate(None, index.ref, filters)]
    repositories = [engine.repository(source, refreshing=refreshing, else_old=True) for source in wanted]
    if name and found is None:
        say(f"rag: starting a new conversation, {visible(name)}")
    dialog = Dialog(engine, repositories, found, name=name or "")
    dialog.remarks = remarks
    if conversation.about:
        dialog.about(conversation.about)
    return dialog


def chosen_for(engine: Engine, question: str, named: Sequence[Source], choice: Sequence[Source]) -> Selection:
    """Return the repositories that are named, and those of a choice that a question is about.

    Raises:
        ConfigError: there is no question, or as many repositories are named as can be asked.
        NotFound: none of the choice is indexed.
    """
    from rag.service.repositories.groups import MAX_SELECTED, selected

    if not question:
        raise ConfigError(
            "a group needs a question that chooses its repositories; start with "
            '`rag ask @GROUP "Where is …?"`, then continue with `rag chat -c`'
        )
    if len(named) >= MAX_SELECTED:
        raise ConfigError(
            f"{len(named)} repositories are named, and at most {MAX_SELECTED} are asked; omit the group"
        )
    others = [source for source in choice if source not in named]
    found = selected(engine, others, question, MAX_SELECTED - len(named))
    return replace(found, sources=(*named, *found.sources), total=found.total + len(named))


def _within(conversation: Conversation, allowed: Sequence[Source]) -> list[Source]:
    """Return the sources of a conversation. Raises ConversationMismatch if one is not in the group."""
    outside = [source for source in conversation.sources if source not in allowed]
    if outside:
        raise ConversationMismatch(
            conversation=title(conversation), about=", ".join(map(str, outside)), asked="the group"
        )
    return list(conversation.sources)


def _continued(
    engine: Engine, chosen: options.ConversationOptions, asked: Sequence[Source], choice: Sequence[Source]
) -> Conversation | None:
    """Return the conversation with the chosen name, or the last one that is meant; None for a new one.

    `choice` are the repositories of the groups that are named.

    Raises:
        NotFound: there is none to continue.
    """
    from rag.service.loop.current_conversation import conversation_within

    if chosen.conversation is None:
        if chosen.last:
            return engine.last_conversation()
        if choice and chosen.go_on:
            return conversation_within(engine, [*asked, *choice])
        return _last_here(engine, asked) if chosen.go_on else None
    try:
        return engine.find_conversation(chosen.conversation)
    except NotFound:
        if chosen.go_on or chosen.last:
            raise
        return None


def _last_here(engine: Engine, asked: Sequence[Source]) -> Conversation:
    """Return the last conversation about the named repositories, else about that of the current folder.

    Outside of any indexed repository this is the last one of all, which a message names. Raises NotFound.
    """
    from rag.service.loop.current_conversation import conversation_about, current_conversation

    if asked:
        try:
            return conversation_about(engine, asked)
        except NotFound:
            _check_folders(engine.last_conversation())  # perhaps it is about a folder that was moved
            raise
    here = Path.cwd()
    found = current_conversation(engine, here)
    if not any(here.is_relative_to(_followed(source).location) for source in found.sources):
        about = ", ".join(visible(source.name) for source in found.sources)
        say(f"rag: continuing the last conversation, {visible(title(found))}, about {about}")
    return found


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
    engine: Engine,
    dialog: Dialog,
    question: str,
    *,
    show: bool,
    in_chat: bool = False,
    keep_broken: bool = False,
) -> Answer:
    """Ask, print the answer while it arrives (with `show`), then its sources, time and cost.

    On a terminal an answer without a model is printed when it is complete, on one screen.
    `in_chat`: name commands of a chat, and no options.

    Raises:
        BrokenPipeError: the reader closed the pipe (`rag ask … | head`). The turn is stored anyway.
    """
    from rag.answer.extract import ExtractiveGenerator
    from rag.service import converse

    generator = engine.answering_generator()
    on_screen = show and sys.stdout.isatty() and not engine.settings.has_model
    prose = TerminalMarkdown()
    gone: BrokenPipeError | None = None
    with closing(converse(dialog, question, generator, keep_broken=keep_broken, cache=None)) as pieces:
        try:
            for piece in _shown_waiting(pieces) if engine.settings.has_model else pieces:
                if isinstance(piece, Answer):
                    answer = piece
                elif isinstance(piece, TraceStep):
                    _print_step(piece)
                elif show and gone is None and not on_screen:
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
    if on_screen and isinstance(generator, ExtractiveGenerator) and answer.model and generator.extract:
        _print_screen(answer, generator.extract, dialog, in_chat=in_chat)
        return answer
    if on_screen:
        prose.write(as_text(answer.text))
    if show:
        prose.end()
        _print_sources(answer, several=len(dialog.repositories) > 1)
    _print_figures(engine, answer, in_chat=in_chat)
    return answer


def _shown_waiting(pieces: Iterable[str | TraceStep | Answer]) -> Iterator[str | TraceStep | Answer]:
    """Yield the pieces; show that the model reads before the first one, and after each step."""
    line = Waiting("the model reads the question …")
    try:
        line.start()
        for piece in pieces:
            line.stop()
            yield piece
            if isinstance(piece, TraceStep):
                line.start()
    finally:
        line.stop()


def _print_screen(answer: Answer, extract: Extract, dialog: Dialog, *, in_chat: bool) -> None:
    """Print the notes of an answer without a model, then one screen of it."""
    _print_notes(answer, in_chat=in_chat)
    took = seconds({"": sum(answer.seconds.values())}).strip()
    setup = "" if answer.turn_order else " · no model is connected: `rag setup` finds one"
    hint = f"{took} · turn {(answer.turn_order or 0) + 1}{setup}"
    roots = {repository.source.location: repository.checkout.root for repository in dialog.repositories}
    print_screen(ShownAnswer(extract, roots, answer.warning), hint=hint)


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


def _print_step(step: TraceStep) -> None:
    """Print a step of a second look."""
    took = f" ({seconds({'': step.seconds}).strip()})" if step.seconds else ""
    say(f"rag: {step.line}{took}", dim=True)


def _print_sources(answer: Answer, *, several: bool) -> None:
    """Print the citations, and the sources that have the words of statements without one.

    An answer without a model names its places itself.
    """
    if answer.model == QUOTING:
        return
    named = answer.support.nearest if answer.support else ()
    listed = [*answer.citations, *(one for one in answer.sources if one.n in named and not one.used)]
    if listed:
        out()
    for citation in listed:
        place = visible(f"{citation.repo}:{citation.place}" if several else citation.place)
        name = f"  {citation.qualified_name}" if citation.symbol else ""
        out(f"[{citation.n}] {place}{name}{'' if citation.used else '  (not cited)'}")


def print_subject(subject: Subject) -> None:
    """Print what "it" means."""
    place = f" ({visible(subject.place)})" if subject.symbol else ""
    say(f"rag: it = `{visible(subject.name)}`{place}")


def _print_notes(answer: Answer, *, in_chat: bool) -> None:
    if answer.subject and (answer.subject.symbol or answer.subject.path) not in answer.question:
        print_subject(answer.subject)
    for note in answer.notes:
        say(f"rag: {note}")
    if answer.support and answer.support.summary:
        say(f"rag: {visible(answer.support.summary)}")
    if in_chat:
        return
    if not answer.found and answer.hits:
        say("rag: use --no-gate (RAG_GATE=off) to answer from the nearest places anyway")
    if answer.warning and answer.found:
        say("rag: use --no-gate (RAG_GATE=off) to turn this warning off")


def _print_figures(engine: Engine, answer: Answer, *, in_chat: bool) -> None:
    _print_notes(answer, in_chat=in_chat)
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


def answer_json(answer: Answer, dialog: Dialog) -> dict[str, Any]:
    """Return the answer and the repositories as JSON values."""
    return to_json(answer) | {"repositories": [str(r.source) for r in dialog.repositories]}
