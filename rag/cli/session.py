"""An interactive session: questions typed one after another."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rag.cli.ask import answer_question
from rag.cli.terminal import out, say
from rag.errors import RagError
from rag.quoting import visible
from rag.service import Dialog

if TYPE_CHECKING:
    from rag.service import Engine

_HELP = """/turns    what was asked so far
/sources  the sources of the last answer, shown and cited
/new      begin a new conversation
/help     this
/quit     end the session (also Ctrl-D)"""


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
        self._dialog.repositories = tuple(
            self._engine.repository(r.source) if not r.source.is_url else r for r in self._dialog.repositories
        )

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
                out(f"{visible(str(citation))}{'' if citation.used else '  (not cited)'}")
        elif name == "/new":
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
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if file.exists():
                readline.read_history_file(file)
        except OSError as error:
            say(f"rag: what was typed in earlier sessions cannot be read: {error}")
            return
        readline.set_history_length(1000)
        atexit.register(readline.write_history_file, file)
