"""`rag chat`: questions typed one after another, in one session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.ask import answer_question, open_dialog
from rag.cli.selectors import place_in
from rag.cli.terminal import errors_as_exit_codes, opened_engine, out, say, settings_from
from rag.errors import RagError
from rag.resources import make_private
from rag.types import Filters

if TYPE_CHECKING:
    from rag.service import Dialog, Engine

_HELP = """/turns    what was asked so far
/sources  the sources of the last answer, shown and cited
/new      begin a new conversation
/help     this
/quit     end the session (also Ctrl-D)"""


def chat(
    source: Annotated[
        str, typer.Argument(help="A path or git URL; the current directory when left out.")
    ] = "",
    repo: options.Repositories = None,
    ref: options.Ref = None,
    go_on: options.Continue = False,
    conversation: options.Named = None,
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
    yes: options.Yes = False,
) -> None:
    """Ask and go on asking, in one session. Ctrl-C stops an answer, Ctrl-D ends the session.

    rag chat .

    rag chat -c
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
        sources = [*(repo or []), *([source] if source else [])]
        with opened_engine(settings, yes=yes) as engine:
            dialog = open_dialog(
                engine,
                sources,
                ref=ref,
                go_on=go_on,
                name=conversation,
                filters=Filters(tuple(include or ()), tuple(exclude or ())),
            )
            Session(engine, dialog).run()


class Session:
    """Reads questions until the input ends. Ctrl-C stops an answer, or clears the line; never the program."""

    def __init__(self, engine: Engine, dialog: Dialog) -> None:
        self._engine, self._dialog = engine, dialog
        self._interactive = sys.stdin.isatty()

    def run(self) -> None:
        """Answer until there is nothing more to read."""
        self._load_history()
        names = ", ".join(r.source.name for r in self._dialog.repositories)
        chunks = sum(r.store.live_count for r in self._dialog.repositories)
        say(f"rag: {names}, {chunks:,} chunks; /help lists the commands, Ctrl-D ends")
        while (line := self._read()) is not None:
            if line.startswith("/"):
                if not self._command(line):
                    break
            elif line:
                self._answer(line)

    def _read(self) -> str | None:
        try:
            return input("\n> " if self._interactive else "").strip()
        except EOFError:
            if self._interactive:
                out()
            return None
        except KeyboardInterrupt:
            say("\nrag: Ctrl-D or /quit ends the session")
            return ""

    def _answer(self, question: str) -> None:
        try:
            self._refresh()
            answer_question(self._engine, self._dialog, question, show=True)
        except KeyboardInterrupt:
            say("\nrag: stopped; the turn was not kept")
        except RagError as error:
            say(f"rag: {error}")

    def _refresh(self) -> None:
        self._dialog.repositories = tuple(map(self._engine.current, self._dialog.repositories))

    def _command(self, line: str) -> bool:
        """Do a command; False ends the session."""
        name = line.split()[0]
        turns = self._dialog.turns()
        if name in ("/quit", "/exit", "/q"):
            return False
        if name == "/turns":
            for turn in turns:
                out(f"{(turn.order or 0) + 1}. {turn.question}")
        elif name == "/sources":
            for citation in turns[-1].citations if turns else ():
                place = place_in(turns[-1], citation)
                out(f"[{citation.n}] {place}{'' if citation.used else '  (not cited)'}")
        elif name == "/new":
            from rag.service import Dialog

            self._dialog = Dialog(self._engine, self._dialog.repositories)
            say("rag: a new conversation")
        else:
            out(_HELP)
        return True

    def _load_history(self) -> None:
        """Let the arrow keys bring back what was typed, also in earlier sessions."""
        if not self._interactive:
            return
        try:
            import atexit
            import readline
        except ImportError:  # a Python built without it: lines can still be typed
            return
        file = self._engine.settings.home / "chat_history"
        try:
            make_private(file.parent)
            if file.exists():
                readline.read_history_file(file)
        except OSError as error:
            say(f"rag: what was typed in earlier sessions cannot be read: {error}")
            return
        readline.set_history_length(1000)
        atexit.register(readline.write_history_file, file)
