"""`rag chat`: an interactive conversation."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, Annotated

from rag.cli import options
from rag.cli.ask import answer_question, open_dialog, print_subject
from rag.cli.selectors import place_in
from rag.cli.terminal import opened_engine, out, refuse_json, say
from rag.errors import RagError
from rag.quoting import counted, visible
from rag.resources import make_private

if TYPE_CHECKING:
    from rag.service import Dialog, Engine
    from rag.types import DialogTurn

_HELP = """/turns    the questions so far
/sources  the sources of the last answer
/about    what "it" means; /about NAME sets it for the next question
/new      start a new conversation
/help     show this help
/quit     end the session (also Ctrl-D)"""
_COMMANDS = [line.split()[0] for line in _HELP.splitlines()]
_SHOWN_CHARS = 200
"""How much of an earlier question is shown."""
_COMMANDS_WITHOUT_SLASH = ("exit", "help", "quit")
"""What people type to other programs; a line with nothing else is no question."""


@options.grouped
def chat(
    source: Annotated[str, options.RepositoryArgument] = "",
    *,
    repo: options.Repositories = None,
    conversation: options.ConversationOptions,
    index: options.IndexOptions,
) -> None:
    """Ask questions interactively. Ctrl-C stops an answer, Ctrl-D ends the session.

    rag chat .

    rag chat -c
    """
    refuse_json("rag chat")
    sources = [*(repo or []), *([source] if source else [])]
    with opened_engine() as engine:
        dialog = open_dialog(engine, sources, index=index, conversation=conversation)
        Session(engine, dialog).run()


class Session:
    """An interactive session. Ctrl-C stops an answer or clears the line; it does not end the program."""

    def __init__(self, engine: Engine, dialog: Dialog) -> None:
        self._engine, self._dialog = engine, dialog
        self._interactive = sys.stdin.isatty()

    def run(self) -> None:
        """Answer questions until the input ends."""
        self._load_history()
        names = ", ".join(r.source.name for r in self._dialog.repositories)
        chunks = sum(r.store.live_count for r in self._dialog.repositories)
        say(f"rag: {names}, {chunks:,} chunks; /help lists the commands, Ctrl-D ends")
        if turns := self._dialog.turns():
            so_far = f"{counted(len(turns), 'question')} so far (/turns)"
            say(f'rag: continuing after "{_shown(turns[-1])}", {so_far}')
        while (line := self._read()) is not None:
            if line in _COMMANDS_WITHOUT_SLASH:
                line = f"/{line}"
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
            answer_question(self._engine, self._dialog, question, show=True, in_chat=True)
        except KeyboardInterrupt:
            say("\nrag: stopped; the question and the text so far are stored")
        except RagError as error:
            say(f"rag: {error}")

    def _refresh(self) -> None:
        self._dialog.repositories = tuple(map(self._engine.current, self._dialog.repositories))

    def _command(self, line: str) -> bool:
        """Run a command. Return False to end the session."""
        name = line.split()[0]
        turns = self._dialog.turns()
        if name in ("/quit", "/exit", "/q"):
            return False
        if name in ("/turns", "/sources") and not turns:
            say("rag: there is no question yet; type one")
        elif name == "/turns":
            for turn in turns:
                out(f"{(turn.order or 0) + 1}. {_shown(turn)}")
        elif name == "/sources":
            if not turns[-1].citations:
                say("rag: the last answer has no sources")
            for citation in turns[-1].citations:
                place = place_in(turns[-1], citation)
                out(f"[{citation.n}] {place}{'' if citation.used else '  (not cited)'}")
        elif name == "/help":
            out(_HELP)
        elif name == "/about":
            self._about(line.partition(" ")[2].strip())
        elif name == "/new":
            from rag.service import Dialog

            self._dialog = Dialog(self._engine, self._dialog.repositories)
            say("rag: started a new conversation")
        elif nearest := difflib.get_close_matches(name[:20], _COMMANDS, n=1, cutoff=0.7):
            say(f"rag: there is no command {name}; did you mean {nearest[0]}?")
        else:
            say(f"rag: there is no command {name}; a question does not begin with /")
            out(_HELP)
        return True

    def _about(self, name: str) -> None:
        """Set or show what "it" means in the next question."""
        try:
            subject = self._dialog.about(name) if name else self._dialog.next_subject()
        except RagError as error:
            say(f"rag: {error}")
            return
        if subject is None:
            say('rag: "it" means nothing yet; /about NAME sets it')
        else:
            print_subject(subject)

    def _load_history(self) -> None:
        """Let the arrow keys recall earlier input, also of earlier sessions."""
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
            say(f"rag: cannot read the input history: {error}")
            return
        readline.set_history_length(1000)
        atexit.register(readline.write_history_file, file)


def _shown(turn: DialogTurn) -> str:
    """Return the question of a turn on one line, a long one cut."""
    question = visible(" ".join(turn.question.split()))
    return question if len(question) <= _SHOWN_CHARS else f"{question[:_SHOWN_CHARS]}…"
