"""The command `rag`, run as a person runs it: in this process where that is enough, else as a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner


class Ran(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def rag(*arguments: object, cwd: Path | None = None, stdin: str | None = None) -> Ran:
    """Run a command in this process; an exception that it does not turn into an exit code is raised."""
    from rag.cli import app

    with contextlib.chdir(cwd or Path.cwd()):
        done = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
    return Ran(done.exit_code, done.stdout, done.stderr)


def rag_process(
    *arguments: object,
    cwd: Path | None = None,
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Ran:
    """Run a command in a process of its own; it never prints a traceback."""
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        timeout=120,
        check=False,
        **options,
    )
    err = done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in err, err
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), err)


def command(*arguments: object) -> list[Any]:
    """The command line that runs `rag`; bytes stay bytes."""
    return [sys.executable, "-P", "-m", "rag", *(a if isinstance(a, bytes) else str(a) for a in arguments)]
