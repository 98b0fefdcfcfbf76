"""`rag turns export`, `import`, `backup`, `restore`: move conversations."""

from __future__ import annotations

import json as json_module
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.selectors import Of, named
from rag.cli.settings_options import settings_from
from rag.cli.terminal import (
    agrees,
    confirm,
    json_text,
    megabytes,
    opened_engine,
    out,
    out_json,
    result,
    say,
    wants_json,
)
from rag.decoding import decoded_lines
from rag.errors import ConfigError, NotFound
from rag.parsing import parse_json
from rag.quoting import counted, visible
from rag.resources import user_path

if TYPE_CHECKING:
    from rag.service import Engine
    from rag.types import Backup

Url = Annotated[str, typer.Argument(help="A turn store, as for --memory.", show_default=False)]


def export(
    conversation: Of = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All conversations, preferences and facts.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAME",
            help="Everything in this namespace: turns, facts, answers and files; with --conversation, one.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The output file. Default: stdout.")
    ] = None,
) -> None:
    """Write conversations as JSON lines: first the conversations, then each turn and message.

    Versions, marks and forks are included. `rag turns import` reads the file.

    rag turns export --all -o turns.jsonl

    rag turns export --namespace ci -o ci.jsonl
    """
    with (
        opened_engine(settings_from(namespace=namespace)) as engine,
    ):
        if namespace is not None and namespace not in engine.turns.namespaces():
            raise NotFound(f"there is no namespace {namespace!r}; `rag memory namespaces` lists them")
        everything = everything or (namespace is not None and conversation is None)
        only = None if everything else [named(engine, conversation).id]
        dumped = engine.turns.dump(namespace=engine.settings.namespace, conversations=only)
        if output is None:
            for line in dumped:
                out(_line(line), end="")
            return
        try:
            count = _write_lines(map(_line, dumped), output)
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror}; choose another file") from error
        say(f"rag: wrote {counted(count, 'line')} to {output}")


@options.grouped
def import_(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A file written by `export`; `-` reads stdin. With --from: folders and files with sessions, "
            "by default the agent's own folder.",
            metavar="[FILE|FOLDER]...",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="AGENT",
            help="Import the sessions of a coding agent about the repository: claude-code, codex, opencode, "
            "gemini, cursor or aider.",
        ),
    ] = None,
    repo: options.Repository = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="NAME", help="Read them into this namespace. Default: RAG_NAMESPACE."
        ),
    ] = None,
) -> None:
    """Read conversations from JSON lines, or from the sessions of a coding agent.

    Existing conversations do not change; sessions that have grown get their new turns.

    rag turns import turns.jsonl

    rag turns import --from claude-code
    """
    with (
        opened_engine(settings_from(namespace=namespace)) as engine,
    ):
        if agent is not None:
            _import_sessions(engine, agent, sources or [], repo)
            return
        if len(sources or ()) != 1 or sources is None:
            raise ConfigError("name one file written by `rag turns export`, or an agent with --from")
        try:
            new = engine.turns.restore(_lines(sources[0]), namespace=engine.settings.namespace)
        except ValueError as error:
            raise ConfigError(f"cannot read {sources[0]}: {error}; nothing was stored") from error
        if wants_json():
            out_json({"conversations": new})
        else:
            out(f"stored {counted(new, 'conversation')}")
            if not new:
                say("rag: everything in the file is already stored; existing conversations do not change")


def _import_sessions(engine: Engine, agent: str, places: Sequence[Path], repo: str | None) -> None:
    from rag.service import locate
    from rag.service.checks.sessions import import_sessions, session_folder

    source = locate(repo)
    if not places:
        places = [folder := session_folder(agent, source)]
        if not agrees() and not sys.stdin.isatty():
            raise ConfigError(f"agree with --yes that {folder} is read, or name a folder with sessions")
        confirm(f"read the sessions of {agent} in {visible(str(folder))}?")
    done = import_sessions(engine, source, agent, [user_path(place) for place in places])
    if wants_json():
        out_json(asdict(done))
        return
    grown = f", {done.grown} of them in known conversations" if done.grown else ""
    out(f"stored {counted(done.conversations, 'conversation')}; {counted(done.turns, 'new turn')}{grown}")
    if done.elsewhere:
        say(f"rag: {counted(done.elsewhere, 'session')} about other folders: not imported")
    if done.skipped:
        what = ", ".join(f"{name} ({count})" for name, count in sorted(done.skipped.items()))
        say(f"rag: left out: {what}")


def backup(
    file: Annotated[Path, typer.Argument(help="The output file.", metavar="FILE")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write everything in the turn store, in all namespaces, to one file, and verify it.

    Other processes can write at the same time. The file can be restored into any kind of turn store.

    rag turns backup turns-backup.db
    """
    from rag.service.upkeep.backup import back_up

    with opened_engine() as engine:
        held = back_up(engine, file, force=force)
        result(
            {"file": str(file), **_held(held)},
            f"backed up {_in_words(held)} to {file} ({megabytes(file.stat().st_size)})",
        )


def restore(
    file: Annotated[Path, typer.Argument(help="A file written by `backup`.", metavar="FILE")],
) -> None:
    """Restore a backup. Existing data does not change.

    The keys of servers are restored only if the turn store has none.

    A damaged backup, or one from a newer version, is refused before anything is restored.

    rag turns restore turns-backup.db
    """
    from rag.service.upkeep.backup import restore_backup

    with opened_engine() as engine:
        held, new = restore_backup(engine, file)
        if wants_json():
            out_json({"file": str(file), **_held(held), "new_conversations": new})
        else:
            made = held.made.astimezone().strftime("%Y-%m-%d %H:%M")
            out(f"restored {file} of {made}: {_in_words(held)}; {counted(new, 'conversation')} new here")


def _held(held: Backup) -> dict[str, Any]:
    return {**held._asdict(), "made": held.made.isoformat()}


def _in_words(held: Backup) -> str:
    return (
        f"{counted(held.conversations, 'conversation')}, {counted(held.turns, 'turn')}, "
        f"{counted(held.messages, 'message')} and {counted(held.records, 'record')}"
    )


def _must_exist(source: str) -> None:
    """Check that the source exists: a mistyped file name would be copied as an empty store."""
    scheme, _, path = source.partition(":///")
    if scheme == "sqlite" and path and not (file := user_path(path)).is_file():
        raise ConfigError(f"there is no file {file} to copy from")


def _write_lines(lines: Iterable[str], output: Path) -> int:
    """Write lines to a file, which is only opened when all lines could be read; return their number."""
    count = 0
    with tempfile.TemporaryFile() as file:
        for line in lines:
            file.write(line.encode())
            count += 1
        file.seek(0)
        with output.open("wb") as target:
            shutil.copyfileobj(file, target)
    return count


def _line(line: dict[str, Any]) -> str:
    text = json_text(line)
    try:
        text.encode()
    except UnicodeEncodeError:  # the name of a file whose bytes are no text
        text = json_module.dumps(line)
    return text + "\n"


_MAX_LINE_BYTES = 64 << 20
_MAX_STREAM_BYTES = 1 << 30
"""The limit of an input that is not a file, and may have no end."""


def _lines(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines as they are read. Raises ValueError for a line that is not JSON."""
    return (parse_json(line) for line in decoded_lines(_raw_lines(source)) if line.strip())


def _raw_lines(source: Path) -> Iterator[bytes]:
    read = 0
    try:
        with nullcontext(sys.stdin.buffer) if str(source) == "-" else source.open("rb") as file:
            is_file = stat.S_ISREG(source.stat().st_mode) if str(source) != "-" else False
            while line := file.readline(_MAX_LINE_BYTES + 1):
                read += len(line)
                if len(line) > _MAX_LINE_BYTES:
                    raise ValueError(f"a line has more than {_MAX_LINE_BYTES >> 20} MB")
                if read > _MAX_STREAM_BYTES and not is_file:
                    limit = f"{_MAX_STREAM_BYTES >> 20:,} MB"
                    raise ValueError(f"it sends more than {limit}; write it to a file, and import that")
                yield line
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}") from error
