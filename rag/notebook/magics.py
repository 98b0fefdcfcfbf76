"""The magics of a notebook: `%ask` for a question on one line, `%%ask` for one in a cell."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from typing import Any, NoReturn

from rag.display.answers import answer_html
from rag.display.values import html_of
from rag.errors import BackendMissing, ConfigError, ProviderError, RagError
from rag.quoting import CONTROLS
from rag.settings import read_steps
from rag.types import Answer, TraceStep
from rag.types.answer import QUOTING

_REDRAWN_S = 0.15
"""A running answer is drawn again at most this often."""
_VARIABLE = "answer"
_ASKED = re.compile(r"(\s*)%ask\s+(.*\?)\s*$")


class _Parser(argparse.ArgumentParser):
    """Options of a magic; a wrong one raises ConfigError, and does not end the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; %ask --help lists the options")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Helped(message or "")


class _Helped(Exception):
    """The help was shown."""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="%ask",
        description="Ask about a repository; the conversation goes on from cell to cell. The Answer is in "
        f"the variable `{_VARIABLE}`, and `ask_rag()` returns the RAG with its memory and repositories.",
    )
    parser.add_argument("-r", "--repository", action="append", default=[], metavar="PATH_OR_URL")
    parser.add_argument("--ref", metavar="REF", help="a branch, tag or commit of it")
    parser.add_argument("-c", "--conversation", metavar="NAME", help="continue or begin this conversation")
    parser.add_argument("--new", action="store_true", help="begin another conversation")
    parser.add_argument("-m", "--model", metavar="NAME")
    parser.add_argument("--base-url", metavar="URL", help="the model's server")
    parser.add_argument(
        "--steps", type=read_steps, metavar="N", help="how many times the model may look again"
    )
    parser.add_argument("-o", "--out", default=_VARIABLE, metavar="NAME", help="the variable for the Answer")
    parser.add_argument("question", nargs=argparse.REMAINDER, help="the rest of the line, or the cell")
    return parser


def load(ipython: Any) -> None:
    """Register the magics in an IPython shell.

    Raises:
        BackendMissing: IPython is not installed.
    """
    try:
        import IPython.display  # noqa: F401 - whether it is there
    except ImportError as error:
        raise BackendMissing(backend="%load_ext rag", missing="IPython", extra="notebook") from error
    asking = _Asking(ipython)
    ipython.register_magic_function(asking.ask, "line_cell", "ask")
    ipython.push({"ask_rag": asking.current})
    ipython.input_transformers_cleanup.append(questions_as_calls)


def questions_as_calls(lines: list[str]) -> list[str]:
    """Return the lines of a cell with `%ask …?` as a call: IPython takes a `?` at the end for its help."""
    if lines and lines[0].startswith("%%"):
        return lines
    call = "{}get_ipython().run_line_magic('ask', {!r})\n"
    return [call.format(*found.groups()) if (found := _ASKED.match(line)) else line for line in lines]


class _Asking:
    """`%ask` in one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Any = None

    def current(self) -> Any:
        """Return the `RAG` of `%ask`: its `memory`, its `repositories`. None before the first question."""
        return self._session.rag if self._session else None

    def ask(self, line: str, cell: str | None = None) -> None:
        """Ask a question about a repository; `%ask --help` lists the options."""
        try:
            self._ask(line, cell)
        except _Helped:
            return
        except RagError as error:
            self._say(str(error))
        except KeyboardInterrupt:
            self._say("stopped; what was written so far is stored as an incomplete turn")

    def _say(self, message: str) -> None:
        print(_inert(f"rag: {message}"), file=sys.stderr)  # noqa: T201 - a notebook shows it below the cell

    def _ask(self, line: str, cell: str | None) -> None:
        from rag.notebook.session import AskOptions, AskSession

        chosen, question = _options(line, cell)
        if self._session is None:
            self._session = AskSession(self._say)
        options = AskOptions(
            tuple(chosen.repository),
            chosen.ref,
            chosen.conversation,
            chosen.new,
            chosen.model,
            chosen.base_url,
            chosen.steps,
        )
        shown = _Shown(question) if hasattr(self._shell, "kernel") else _Printed(question)
        try:
            for piece in self._session.ask(question, options):
                if isinstance(piece, Answer):
                    shown.end(piece)
                    self._shell.push({chosen.out: piece})
                elif isinstance(piece, str):
                    shown.add(piece)
                elif isinstance(piece, TraceStep):
                    shown.note(piece.line)
        except ProviderError as error:
            if error.quotes is None:
                shown.stop()
            else:
                shown.end(error.quotes)  # the model failed; what was found is shown
            raise
        except (RagError, KeyboardInterrupt):
            shown.stop()
            raise


def _options(line: str, cell: str | None) -> tuple[argparse.Namespace, str]:
    """Return the options, and the question: the rest of the line and the cell.

    Raises:
        ConfigError: an option is wrong, or the question is empty.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe: everything after the options is the question as it is
        words = line.split()
    chosen = _parser().parse_args(words)
    rest = line[_begin(line, len(words) - len(chosen.question)) :] if chosen.question else ""
    question = "\n".join(part for part in (rest.strip(), (cell or "").strip()) if part)
    if len(question) > 1 and question[0] == question[-1] and question[0] in "\"'":
        question = question[1:-1]
    if not question:
        raise ConfigError("the question is empty; for example: %ask Where is a token checked?")
    if not chosen.out.isidentifier():
        raise ConfigError(f"{chosen.out!r} is no name of a variable; for example: -o first")
    return chosen, question


def _begin(line: str, words: int) -> int:
    """Return where the rest of a line begins after some words, which may be quoted."""
    at = 0
    for _ in range(words):
        while at < len(line) and line[at].isspace():
            at += 1
        mark = ""
        while at < len(line) and (mark or not line[at].isspace()):
            if line[at] in "\"'" and (not mark or mark == line[at]):
                mark = "" if mark else line[at]
            at += 1
    return at


def _inert(text: str) -> str:
    """Return text that cannot control a terminal, which shows the plain form of a notebook's outputs."""
    return text.translate(CONTROLS)


class _Printed:
    """An answer in a terminal, printed while it is written."""

    def __init__(self, question: str) -> None:
        self._has_text = False

    def add(self, piece: str) -> None:
        """Print a piece of the text."""
        self._has_text = True
        print(_inert(piece), end="", flush=True)  # noqa: T201

    def note(self, line: str) -> None:
        """Print nothing: only the answer stays in a terminal."""

    def stop(self) -> None:
        """End the line."""
        if self._has_text:
            print()  # noqa: T201

    def end(self, answer: Answer) -> None:
        """Print the sources."""
        text = "" if self._has_text else f"{answer.text}\n"
        sources = [] if answer.model == QUOTING else answer.citations
        print(_inert("\n".join([text, *map(str, sources)])))  # noqa: T201


class _Shown(_Printed):
    """An answer in a notebook while it is written: one output, drawn again as it grows."""

    def __init__(self, question: str) -> None:
        from IPython.display import DisplayHandle

        self._question, self._text, self._note = question, "", "searching …"
        self._drawn_s = time.monotonic()
        self._handle = DisplayHandle()
        self._handle.display(self._now(), raw=True)

    def _now(self) -> dict[str, str]:
        notes = [self._note] if self._note else []
        return {
            "text/html": answer_html(self._question, self._text, notes=notes),
            "text/plain": _inert(self._text),
        }

    def add(self, piece: str) -> None:
        """Add a piece of the text."""
        self._text, self._note = self._text + piece, ""
        self._redraw()

    def note(self, line: str) -> None:
        """Show what is being done."""
        self._note = line
        self._redraw()

    def _redraw(self) -> None:
        now = time.monotonic()
        if now - self._drawn_s >= _REDRAWN_S:
            self._handle.update(self._now(), raw=True)
            self._drawn_s = now

    def stop(self) -> None:
        """Show what there is of an answer that is not completed."""
        self._note = "" if self._text else "no answer"
        self._handle.update(self._now(), raw=True)

    def end(self, answer: Answer) -> None:
        """Show the whole answer with its sources."""
        drawn = {"text/html": html_of(answer), "text/plain": _inert(answer.text)}
        self._handle.update(drawn, raw=True)
