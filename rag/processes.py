"""Start child processes so that no code in the current folder runs in them, and their resources are limited.

This is the only module that starts processes, except that `rag.corpus.git` has its own rules for git.

- A child imports from where this process imports, but never from the current folder: Python runs with `-P`,
  in the folder `/`, with our resolved `sys.path`. The current folder may be a repository with modules named
  like ours, like a dependency, or like the standard library.
- A child gets the environment variables of a fixed list. Variables that load code (LD_PRELOAD, PYTHONSTARTUP,
  …) are not in it, relative paths are made absolute, and search paths lose their empty and relative entries,
  which would mean the current folder.
- Private memory and CPU time are limited where the system supports that for a running process (Linux).
"""

from __future__ import annotations

import gc
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from rag.errors import SettingsError
from rag.quoting import visible
from rag.resources import user_path

Process = subprocess.Popen
PIPE = subprocess.PIPE
NO_INPUT = subprocess.DEVNULL
TimeoutExpired = subprocess.TimeoutExpired

STOPPED = 128 + signal.SIGTERM
"""The exit code of a command that SIGTERM has stopped."""

NEUTRAL_FOLDER = "/"
"""The working folder of a child: it always exists, and only the system's administrator can write to it."""

_ROOT = Path(__file__).resolve().parent.parent
"""The folder that contains this package."""

_ALLOWED = re.compile(
    r"HOME|USER|LOGNAME|USERNAME|SHELL|TERM|TZ|PATH|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP"
    r"|XDG_\w+_(?:HOME|DIR)"
    r"|(?:https?|ftp|all|no)_proxy|(?:HTTPS?|FTP|ALL|NO)_PROXY"
    r"|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    # Settings: ours, those of the model services, and of the memory servers.
    r"|RAG_\w+|OPENAI_\w+|TIKTOKEN_CACHE_DIR|PG[A-Z]+|HF_HOME|HF_HUB_OFFLINE"
    # The interpreter: only variables that load no code.
    r"|PYTHON(?:HOME|UTF8|COERCECLOCALE|HASHSEED|NOUSERSITE|DONTWRITEBYTECODE|MALLOC|FAULTHANDLER)"
    # Numeric libraries: how many threads they use, and how those wait.
    r"|(?:OMP|OPENBLAS|GOTO|MKL|KMP|VECLIB|NUMEXPR|BLIS)_(?:NUM|MAXIMUM)_THREADS|OMP_(?:WAIT_POLICY|THREAD_LIMIT"
    r"|DYNAMIC|PROC_BIND|PLACES)|KMP_(?:BLOCKTIME|AFFINITY|DUPLICATE_LIB_OK)|MALLOC_ARENA_MAX"
    r"|OPENBLAS_CORETYPE|MKL_THREADING_LAYER|NPY_DISABLE_CPU_FEATURES|FAISS_OPT_LEVEL"
    r"|LD_LIBRARY_PATH|DYLD_(?:FALLBACK_)?LIBRARY_PATH"
    # Git: how it reaches a server. `rag.corpus.git` restricts its commands.
    r"|GIT_SSH|GIT_SSH_(?:COMMAND|VARIANT)|GIT_SSL_\w+|GIT_HTTP_\w+|GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)"
    r"|SSH_AUTH_SOCK|SSH_AGENT_PID|KRB5CCNAME|KRB5_CONFIG|DBUS_SESSION_BUS_ADDRESS"
)
_OBJECT_STORE = re.compile(r"AWS_[A-Z0-9_]+")
_SEARCH_PATHS = frozenset(
    "PATH PYTHONPATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH".split()
)
_PATHS = re.compile(
    r"HOME|RAG_HOME|TMPDIR|TEMP|TMP|XDG_\w+_(?:HOME|DIR)|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|CURL_CA_BUNDLE|TIKTOKEN_CACHE_DIR|PYTHONHOME|PG(?:PASSFILE|SERVICEFILE|SYSCONFDIR)|HF_HOME"
    r"|GIT_SSL_(?:CAINFO|CAPATH|CERT|KEY)|GIT_CONFIG_(?:GLOBAL|SYSTEM)|SSH_AUTH_SOCK"
)
"""Variables that hold a path; a relative one is relative to the folder of this process."""

_MIN_MEMORY_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a child may use. None sets no limit; existing limits stay.

    `memory_bytes` counts private writable memory, `cpu_s` the CPU time over the whole life of the process;
    `niceness` lowers its priority relative to this process.
    """

    memory_bytes: int | None = None
    cpu_s: int | None = None
    niceness: int = 0


def share_of_memory(share: float = 0.75) -> int:
    """Return a share of the machine's memory in bytes, at least 2 GiB: the limit of a child in normal use."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        whole = 0
    return max(_MIN_MEMORY_BYTES, int(whole * share))


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with Python, without the current folder in its import path."""
    user_site = ["-s"] if sys.flags.no_user_site else []
    return [sys.executable, "-P", *user_site, "-m", module, *arguments]


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer signals until the block is left, so that none ends us before the new process is known."""
    received: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():  # only the main thread receives signals
        for ends in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(ends)):
                handlers[ends] = handler
                signal.signal(ends, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in received:
            handlers[number](number, frame)


def start(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | str = NEUTRAL_FOLDER,
    limits: Limits | None = None,
    stdin: int | IO[Any] | None = NO_INPUT,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    buffered: bool = True,
    own_group: bool = False,
    as_user: Mapping[str, Any] | None = None,
) -> Process[bytes]:
    """Start a process.

    Args:
        command: the program and its arguments; paths must be absolute, as `folder` is not the user's.
        environment: all of its variables; None is `closed_environment()`.
        folder: its working folder. Only a program that the user named runs in the user's folder.
        limits: its resources; None is no limit.
        stdin: as in `subprocess.Popen`; empty by default.
        stdout: likewise; ours by default.
        stderr: likewise.
        buffered: whether the pipes are.
        own_group: whether it leads a session and a process group, which a signal can end as a whole.
        as_user: `user`, `group` and `extra_groups` of `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        env=closed_environment() if environment is None else dict(environment),
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        bufsize=-1 if buffered else 0,
        start_new_session=own_group,
        **(as_user or {}),
    )
    if limits is not None:
        limit(process.pid, limits)
    return process


def start_module(
    module: str, *, environment: Mapping[str, str] | None = None, niceness: int = 0, **pipes: Any
) -> Process[bytes]:
    """Start one of our modules with the share of the memory that a child may use.

    Args:
        module: its name.
        environment: variables in addition to those that every child gets.
        niceness: see `Limits`.
        pipes: `stdin`, `stdout`, `stderr` and `buffered`, as in `start`.

    Raises:
        OSError: it cannot be started.
    """
    limits = Limits(memory_bytes=share_of_memory(), niceness=niceness)
    variables = closed_environment(environment)
    return start(python_command(module), environment=variables, limits=limits, **pipes)


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    folder: Path | str = NEUTRAL_FOLDER,
    as_user: Mapping[str, Any] | None = None,
) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, stdout and stderr.

    Raises:
        OSError: it cannot be started.
        TimeoutExpired: it took too long, and was killed.
    """
    with start(command, folder=folder, stdout=PIPE, stderr=PIPE, as_user=as_user) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def closed_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a child that runs our code: those of the list, our import path, and `more`."""
    kept = {name: value for name, value in os.environ.items() if _ALLOWED.fullmatch(name)}
    imports = {"PYTHONPATH": os.pathsep.join(import_path())}
    return _absolute_paths({**kept, **imports, **(more or {})})


def object_store_environment() -> dict[str, str]:
    """Return the variables with which a child reaches an object store, credentials included.

    They are not in the list of `closed_environment`: a child that parses untrusted text must not have them.
    """
    return {name: value for name, value in os.environ.items() if _OBJECT_STORE.fullmatch(name)}


def users_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a program that the user named: all of the user's, and `more`.

    Search paths lose the entries that would mean the current folder.
    """
    return _absolute_paths({**os.environ, **(more or {})})


def users_command(line: str) -> list[str]:
    """Return the program of a command line, as an absolute path, and its arguments. No shell reads them.

    Raises:
        SettingsError: the line is empty or has an open quotation, or the program is not found. A path that
            is relative to the current folder, which may be a repository, is refused.
    """
    try:
        program, *arguments = shlex.split(line)
    except ValueError as error:
        why = "it is empty" if not line.strip() else str(error)
        raise SettingsError(
            f'the command {visible(line)!r} cannot be read: {why}; write --model cmd:"PROGRAM ARGUMENTS"'
        ) from error
    program = str(user_path(program)) if program.startswith("~") else program
    if os.sep in program and not Path(program).is_absolute():
        raise SettingsError(
            f"the command {visible(program)!r} is relative to the current folder; name a program on the "
            "PATH, or an absolute path"
        )
    found = shutil.which(program, path=search_path(os.environ.get("PATH", "")))
    if found is None:
        raise SettingsError(
            f"there is no command {visible(program)!r}: it is not on the PATH, or cannot be executed. "
            "Install it, or choose another model: `rag setup` lists those it finds"
        )
    return [found, *arguments]


def _absolute_paths(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with absolute paths. A search path without remaining entries is left out."""
    settled: dict[str, str] = {}
    for name, value in variables.items():
        if name in _SEARCH_PATHS:
            value = search_path(value)
            if not value:
                continue
        elif value and _PATHS.fullmatch(name):
            value = _absolute(value)
        settled[name] = value
    return settled


def search_path(value: str) -> str:
    """Return a list of folders without its empty and relative entries, which depend on the current folder."""
    return os.pathsep.join(entry for entry in value.split(os.pathsep) if Path(entry).is_absolute())


def _absolute(path: str) -> str:
    with suppress(OSError, RuntimeError):  # the current folder is gone, or there is no such user
        return str(Path(path).expanduser().absolute())
    return path


def import_path() -> list[str]:
    """Return the import path of a child: our `sys.path`, absolute, without the current folder.

    A child also has what the interpreter adds by itself (its library, site-packages, the folders of `.pth`
    files). The folder of this package is always included, at the end unless it is there already.
    """
    entries = [entry for entry in sys.path if isinstance(entry, str) and not is_current_folder(entry)]
    kept = list(dict.fromkeys(map(os.path.abspath, entries)))
    if str(_ROOT) not in kept:
        kept.append(str(_ROOT))
    return [entry for entry in kept if os.pathsep not in entry]


def is_current_folder(entry: str) -> bool:
    """Return whether an entry of `sys.path` means the current folder."""
    if not entry:
        return True
    try:
        return os.path.realpath(entry) == os.path.realpath(Path.cwd())
    except OSError:  # it is gone
        return False


def exit_at_once(code: int) -> NoReturn:
    """End this process without waiting for its threads; `STOPPED` ends it as SIGTERM does by default."""
    if code == STOPPED:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    os._exit(code)


_dropped: list[str] = []


def collect_garbage_rarely() -> None:
    """Raise the thresholds of the garbage collector, for our programs: a library leaves them alone.

    With Python's own, a fifth of a question goes into walking what is cached, again and again.
    """
    gc.set_threshold(100_000, 50, 100)


def drop_current_folder() -> None:
    """Stop importing from the current folder in this process, as far as still possible, and starting from it.

    Libraries start programs by name, such as `uname`, so PATH loses its empty and relative entries.

    `python -m rag`, and an empty entry in PYTHONPATH, add it to the import path before any of our code runs.
    The folder that contains this package stays.
    """
    here = [entry for entry in sys.path if isinstance(entry, str) and is_current_folder(entry)]
    if here and not is_current_folder(str(_ROOT)):
        sys.path[:] = [entry for entry in sys.path if entry not in here]
        _dropped.extend(here)
    if "PATH" in os.environ:
        os.environ["PATH"] = search_path(os.environ["PATH"]) or os.defpath


def began_with_current_folder() -> bool:
    """Return whether modules of the current folder could have been imported before `drop_current_folder`."""
    return bool(_dropped)


def limit(pid: int, limits: Limits) -> None:
    """Limit a process that was just started, as far as the system supports that for a running one."""
    if limits.niceness:
        with suppress(OSError):  # it has ended
            ours = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, pid, ours + limits.niceness)
    if sys.platform == "linux":
        for kind, value in ((resource.RLIMIT_DATA, limits.memory_bytes), (resource.RLIMIT_CPU, limits.cpu_s)):
            if value is not None:
                with suppress(OSError, ValueError):  # it has ended, or has a lower limit already
                    _, hard = resource.prlimit(pid, kind)
                    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
                    resource.prlimit(pid, kind, (most, most))
