"""Shared parts of all commands: settings from flags, progress and notices on stderr, exit codes.

Results go to stdout; everything else to stderr, and plainly when that is not a terminal. Text of a repository
or of a service may hold escapes that command a terminal, or reorder what it shows. They are replaced wherever
the output goes: a pipe mostly ends on a terminal too. `rag --raw` leaves them where it does not.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from rag.cli.settings_options import SettingsGroup, settings_from
from rag.errors import ConfigError, RagError, StoreError
from rag.quoting import CONTROLS, counted, visible
from rag.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from rag.ports import Embedder
    from rag.service import Engine

NOTHING_FOUND = 1
INTERRUPTED = 130

_NAME_WIDTH = 36  # an id
_PHRASE_WIDTH = 24  # what stays on one line though it has spaces: a date, a few words
_LEAST_ROOM = 40  # narrower than this no sentence is set
_INDENT = 4
_SMALL_USD = 0.05
"""What is sent to a paid service without a question."""

_STAGES = {
    "scan": "looking for changes",
    "chunk": "reading",
    "embed": "embedding",
    "shorten": "compressing",
    "write": "saving",
}

_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS}


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options of `rag` that every command has."""

    json: bool = False
    yes: bool = False
    raw: bool = False


_options = OutputOptions()


def use_output(options: OutputOptions) -> None:
    """Set the options of this command line."""
    global _options
    _options = options


def wants_json() -> bool:
    """Return whether results are printed as JSON (`--json`)."""
    return _options.json


def refuse_json(command: str) -> None:
    """Raise ConfigError if JSON is wanted of a command that has none."""
    if _options.json:
        raise ConfigError(f"`{command}` has no JSON output; leave out --json")


def agrees() -> bool:
    """Return whether the user agrees to everything in advance (`--yes`)."""
    return _options.yes


class Program(SettingsGroup):
    """The command `rag`, whose errors are lines on stderr and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with errors_as_exit_codes():
            return super().invoke(ctx)


def _write(stream: TextIO, text: str) -> None:
    """Write and flush. Characters that the stream cannot encode are written as escapes, valid in JSON too."""
    kept = _options.raw and not stream.isatty()
    text = text if kept else text.replace("\r\n", "\n").translate(CONTROLS)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def out(text: str = "", *, end: str = "\n") -> None:
    """Write a result to stdout.

    Raises:
        ConfigError: it goes to a file, and there is no room left for it.
        BrokenPipeError: its reader went away.
    """
    try:
        _write(sys.stdout, text + end)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise ConfigError(f"the output cannot be written: {error.strerror}") from error


def say(text: str, *, dim: bool = False) -> None:
    """Print a message that is not part of the result to stderr; with `dim` less bright on a terminal."""
    if sys.stderr.isatty():
        room = shutil.get_terminal_size().columns
        text = "\n".join("\n".join(_wrapped(line, room, "", " " * 5)) for line in text.split("\n"))
    is_dim = dim and sys.stderr.isatty() and "NO_COLOR" not in os.environ
    if is_dim:
        sys.stderr.write("\x1b[2m")
    _write(sys.stderr, text + "\n")
    if is_dim:
        sys.stderr.write("\x1b[0m")
        sys.stderr.flush()


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON without ASCII escapes, except for terminal control characters."""
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_JSON_ESCAPES)


def out_json(value: Any) -> None:
    """Write a result as one JSON document."""
    out(json_text(value, indent=2 if sys.stdout.isatty() else None))


def result(value: Any, text: str) -> None:
    """Write what a command did: the value as JSON if that is wanted, else the text."""
    out_json(value) if wants_json() else out(text)


def nothing(text: str) -> NoReturn:
    """Say why there is no result, and end the command with the exit code for that."""
    say(f"rag: {text}")
    raise typer.Exit(NOTHING_FOUND)


def listing(value: Any, columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "") -> None:
    """Write a list: the value as JSON if that is wanted, else a table, or what `empty` says of no rows."""
    if wants_json():
        out_json(value)
    elif not rows and empty:
        say(f"rag: {empty}")
    else:
        table("", columns, rows)


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn our errors into a line on stderr and an exit code, Ctrl-C into 130, a closed pipe into 0."""
    try:
        yield
    except RagError as error:
        say(f"rag: {error}")
        raise typer.Exit(error.exit_code) from None
    except typer.Abort:
        say("\nrag: nothing was changed; answer y, or use --yes")
        raise typer.Exit(ConfigError.exit_code) from None
    except KeyboardInterrupt:
        say("\nrag: interrupted; nothing is lost")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader closed the pipe (`rag search … | head`), which is not an error.
        _drop_output()
        raise typer.Exit(0) from None


def _drop_output() -> None:
    """Discard the rest of the buffered output, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def opened_engine(settings: Settings | None = None) -> Iterator[Engine]:
    """Open an engine whose progress and notices go to stderr, and close it at the end.

    Without `settings`, those of the command line are used.
    What expired conversations have left in its store is removed when the command has done its work.
    """
    from rag.service import Engine

    progress = _Progress()
    engine = Engine(
        settings or settings_from(),
        progress=progress.show,
        notice=progress.interrupted_by(lambda text: say(f"rag: {text}")),
        confirm=progress.interrupted_by(_confirm_cost),
    )
    try:
        yield engine
        if "turns" in vars(engine):
            _sweep(engine)
    finally:
        progress.stop()
        engine.close()


def _sweep(engine: Engine) -> None:
    from rag.service.upkeep.retention import KeptFiles

    try:
        KeptFiles(engine.turns, engine.settings.namespace).sweep_expired()
    except StoreError as error:
        engine.notice(f"cited files of expired conversations were not removed ({error})")


class _Progress:
    """A progress bar on a terminal; elsewhere one line for each stage of indexing."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""

    def show(self, stage: str, done: int, total: int) -> None:
        """Show the progress of a stage. A total of 0 is unknown."""
        if stage == "scan":
            return
        name = _STAGES.get(stage, stage)
        if not sys.stderr.isatty():
            if stage != self._stage:
                say(f"rag: {name}{f' {counted(total, _unit(stage))}' if total else ''} …")
            self._stage = stage
            return
        self._show(name, stage, done, total)
        if stage == "write":
            self.stop()

    def _show(self, name: str, stage: str, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(name, total=total or None)
            self._stage = stage
        self._bar.update(self._task, completed=done, total=total or None)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None
        self._stage = ""

    def interrupted_by(self, action: Any) -> Any:
        """Return the action, which runs with the bar removed."""

        def run(*args: Any) -> None:
            self.stop()
            action(*args)

        return run


class Waiting:
    """A line with the time that passes, shown on a terminal until it is stopped; nothing elsewhere."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line: Any = None

    def start(self) -> None:
        """Show the line."""
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
        self._line = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._line.add_task(self._text, total=None)
        self._line.start()

    def stop(self) -> None:
        """Remove the line."""
        if self._line is not None:
            self._line.stop()
            self._line = None


def _unit(stage: str) -> str:
    return "chunk" if stage == "embed" else "file"


def confirm(question: str, *, always_ask: bool = False) -> None:
    """Ask for confirmation on a terminal; with `always_ask` also elsewhere, where no answer means no.

    Raises:
        ConfigError: the user does not agree.
    """
    if not agrees() and (always_ask or sys.stdin.isatty()) and not typer.confirm(question, err=True):
        raise ConfigError("nothing was changed")


def _confirm_cost(texts: Sequence[str], embedder: Embedder) -> None:
    """Ask for confirmation before many texts are sent to a paid service. Raises ConfigError."""
    estimate = getattr(embedder, "estimate", None)
    if estimate is None:
        return
    tokens, usd = estimate(texts)
    cost = "price unknown" if usd is None else f"about ${usd:.2f}"
    amount = f"{len(texts):,} chunks, about {tokens:,} tokens,"
    say(f"rag: {amount} will be sent to {embedder.fingerprint} ({cost})")
    if agrees() or (usd is not None and usd < _SMALL_USD):
        return
    if not sys.stdin.isatty():
        raise ConfigError("indexing would send this text to a paid service; use --yes to agree")
    if not typer.confirm("go on?", err=True):
        raise ConfigError("nothing was sent; choose another embedder with --embedder, or use --yes")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table to stdout: drawn on a terminal, tab-separated with a header line elsewhere.

    A cell is on one line: what would break it, in a name or a question, becomes a visible escape.
    Nothing is cut off: a path or a command may be copied from here. Where the terminal is too narrow for
    the drawn table, its long cells get lines of their own.
    """
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (columns, *cells):
            out("\t".join(row))
        return
    from rich.cells import cell_len
    from rich.console import Console

    console = Console()
    whole = [all(_stays_whole(row[position]) for row in cells) for position in range(len(columns))]
    widths = [max(cell_len(row[position]) for row in (columns, *cells)) for position in range(len(columns))]
    if sum(widths) + 3 * len(widths) + 1 <= console.width:
        _draw(console, title, columns, cells)
        return
    if title:
        out(title)
    while sum(width + 2 for width, one_line in zip(widths, whole, strict=True) if one_line) > console.width:
        whole[max(range(len(columns)), key=lambda position: whole[position] * widths[position])] = False
    for row in (columns, *cells):
        out("\n".join(_listed(row, widths, whole, console.width)))


def _stays_whole(cell: str) -> bool:
    """Return whether a cell fits on one line: a name, a number, a date."""
    return len(cell) <= (_PHRASE_WIDTH if " " in cell else _NAME_WIDTH)


def _draw(console: Console, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(title=title or None, title_justify="left")
    for column in columns:
        drawn.add_column(column, no_wrap=True)
    for row in cells:
        drawn.add_row(*map(escape, row))
    console.print(drawn)


def _listed(row: Sequence[str], widths: Sequence[int], whole: Sequence[bool], room: int) -> list[str]:
    """Return a row as lines: short cells first, the first long cell next to them if it fits, else below."""
    from rich.cells import set_cell_size

    first_long = whole.index(False) if False in whole else len(whole)
    used = sum(width + 2 for width in widths[:first_long])
    fits = used > 0 and room - used >= _LEAST_ROOM
    hang = " " * (used if fits else _INDENT)
    lines: list[str] = []
    short = ""
    for cell, width, one_line in zip(row, widths, whole, strict=True):
        if one_line:
            short += set_cell_size(cell, width + 2)
            continue
        if short.strip() and not (fits and not lines):
            lines.append(hang * bool(lines) + short)
            short = ""
        begin = short if fits and not lines else hang * bool(lines)
        lines += _wrapped(cell, room, begin, hang) or [begin] * bool(begin.strip())
        short = ""
    if short.strip():
        lines.append(hang * bool(lines) + short)
    return [line.rstrip() for line in lines]


def _wrapped(text: str, room: int, begin: str, hang: str) -> list[str]:
    return textwrap.wrap(
        text,
        room,
        initial_indent=begin,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def megabytes(size_bytes: int) -> str:
    """Return a size in megabytes."""
    return f"{size_bytes / 1e6:.1f} MB"


def seconds(values: Mapping[str, float]) -> str:
    """Return durations as `search 12 ms, answer 1.4 s`."""
    return ", ".join(f"{name} {_duration(value)}" for name, value in values.items())


def _duration(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"
