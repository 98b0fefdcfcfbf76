"""Run the `git` program so that a repository can neither execute code nor learn a secret.

No hooks, no file-system monitor, no submodules, no LFS or other filters, no signature checks, no prompt, no
`ext::` transport, and only `fetch`, `ls-remote` and `push` use the network: no program that a repository's
own settings name is run, and they do not change the form of what git prints. A token is passed in the
environment as an extra HTTP header for one host, never in an argument, a URL or a file. Git's messages are
sanitized before they are shown. Its memory and its output are limited: a few kilobytes of objects can mean
billions of files.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from rag.corpus.blocking_files import blocking_file
from rag.errors import SourceError
from rag.processes import NEUTRAL_FOLDER, Limits, deferred_signals, limit, search_path, share_of_memory

_SAFE = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.askPass": "",
    "credential.interactive": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "core.quotePath": "false",
    "log.showSignature": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "mailmap.file": "/dev/null",
    "diff.orderFile": "/dev/null",
    "blame.blankBoundary": "false",
    "advice.detachedHead": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_FOREIGN = re.compile(
    r"^GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|NAMESPACE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|PREFIX"
    r"|CONFIG|CONFIG_PARAMETERS|CONFIG_COUNT|CONFIG_KEY_\d+|CONFIG_VALUE_\d+|ASKPASS|TRACE.*|CURL_VERBOSE"
    r"|EXTERNAL_DIFF|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR|CEILING_DIRECTORIES|LITERAL_PATHSPECS|GLOB_PATHSPECS"
    r"|NOGLOB_PATHSPECS|ICASE_PATHSPECS)$|^SSH_ASKPASS"
)
_NETWORK_COMMANDS = frozenset({"fetch", "ls-remote", "push"})
_FILTERING_COMMANDS = frozenset({"status", "diff", "blame"})
"""Commands that compare files with git's objects, and would run filters for that."""
MAX_OUTPUT_BYTES = 256 << 20
_MAX_STDERR_BYTES = 1 << 20
_MEMORY_SHARE = 0.25
_SILENCE_S = 3.0
"""After this time without output it is checked whether git waits for a pipe or a device."""
_PIECE_BYTES = 1 << 16
_PINNED_ADDRESSES: list[str] = []
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_HEADER = re.compile(r"(?i)(authorization:\s*\w+\s+)\S+")


class GitError(Exception):
    """git exited with an error. `line` is its last message, without secrets."""

    def __init__(self, line: str, output: str) -> None:
        super().__init__(line)
        self.line, self.output = line, output


@contextmanager
def pinned_connection(place: str) -> Iterator[None]:
    """Make git, in this whole process, connect only to an address that was checked before.

    Git does not resolve the host again and follows no redirect. The user's own configuration of proxies and
    certificates still applies. A git before 2.37 does not support the setting.

    Args:
        place: `HOST:PORT:ADDRESS,…`, as curl's `--resolve` takes it.
    """
    _PINNED_ADDRESSES.append(place)
    try:
        yield
    finally:
        _PINNED_ADDRESSES.remove(place)


def run_git(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    token: str | None = None,
    url: str = "",
    timeout_s: float = 60.0,
    ok_codes: Sequence[int] = (0,),
    on_stderr: Callable[[bytes], None] | None = None,
    stdin: bytes | None = None,
    max_bytes: int = MAX_OUTPUT_BYTES,
    on_output: Callable[[bytes], None] | None = None,
) -> bytes:
    """Run git and return its output.

    Args:
        arguments: the command and its arguments; user input must come after `--`.
        cwd: the folder to run in; None is outside of any repository.
        token: sent only to the host of `url`.
        url: the http(s) address the token is for.
        timeout_s: after this, git and its child processes are killed.
        ok_codes: the exit codes that mean success.
        on_stderr: called with git's stderr when it is not empty and git did not fail.
        stdin: git's stdin; None is empty.
        max_bytes: if git prints more than this, it is killed.
        on_output: called with each piece of the output, which is then not returned. If it raises, git is
            killed.

    Raises:
        GitError: another exit code.
        SourceError: git is not installed, the time is up, or the output is too large.
    """
    settings = _without_filters(cwd) if arguments[0] in _FILTERING_COMMANDS else {}
    asks_server = arguments[0] in _NETWORK_COMMANDS
    environment = _environment(token, url, settings, asks_server=asks_server)
    output = _Output(arguments[0], max_bytes)
    process: subprocess.Popen[bytes] | None = None
    try:
        with deferred_signals():
            process = _started(arguments, cwd, environment, reads=stdin is not None)
        local = Path(url.removeprefix("file://")) if url.startswith(("/", "file:///")) else None
        watched = local if asks_server else cwd
        stderr = _exchanged(process, timeout_s, arguments[0], stdin, on_output or output.take, watched)
    except BaseException:
        if process is not None and process.returncode is None:
            _end(process)
        raise
    if process.returncode not in ok_codes:
        message = scrub(stderr.decode("utf-8", "replace"), token)
        raise GitError(_last_line(message) or f"git {arguments[0]} ended with {process.returncode}", message)
    if on_stderr and stderr:
        on_stderr(stderr)
    return bytes(output.taken)


def _started(
    arguments: Sequence[str], cwd: Path | None, environment: dict[str, str], *, reads: bool
) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            ["git", *arguments],
            cwd=NEUTRAL_FOLDER if cwd is None else cwd,
            env=environment,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise SourceError(f"the folder {cwd} is gone") from error
        raise SourceError("the program `git` was not found; install git, or put it on PATH") from error
    except ValueError as error:  # a NUL or a lone surrogate, of a commit that others have written down
        raise GitError(f"an argument of git {arguments[0]} is no text", str(error)) from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise GitError(f"an argument of git {arguments[0]} is too long", str(error)) from error
        raise SourceError(f"git cannot be run in {cwd}: {error.strerror}") from error
    limit(process.pid, Limits(memory_bytes=share_of_memory(_MEMORY_SHARE)))
    return process


class _Output:
    """The output of a command, up to a limit."""

    def __init__(self, command: str, max_bytes: int) -> None:
        self.taken = bytearray()
        self._command, self._max_bytes = command, max_bytes

    def take(self, piece: bytes) -> None:
        self.taken += piece
        if len(self.taken) > self._max_bytes:
            raise SourceError(
                f"`git {self._command}` printed more than {self._max_bytes >> 20} MB and was killed; "
                "the repository is too large"
            )


def _exchanged(
    process: subprocess.Popen[bytes],
    timeout_s: float,
    command: str,
    stdin: bytes | None,
    take: Callable[[bytes], None],
    watched: Path | None,
) -> bytes:
    """Write stdin, give stdout to `take` in pieces, wait for the end, and return the last part of stderr.

    If git prints nothing but messages for a while, it is checked once whether a file of the folder `watched`
    blocks it, or has no end.
    """
    until, stderr, unsent = time.monotonic() + timeout_s, bytearray(), memoryview(stdin or b"")
    silent_until = time.monotonic() + _SILENCE_S
    with selectors.DefaultSelector() as open_pipes:
        for pipe, event in (
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
            (process.stdin, selectors.EVENT_WRITE),
        ):
            if pipe is not None:
                open_pipes.register(pipe, event)
        while open_pipes.get_map():
            left_s = _left_s(until, timeout_s, command)
            silence_s = silent_until - time.monotonic()
            ready = open_pipes.select(left_s if watched is None else min(left_s, silence_s))
            if watched is not None and silence_s <= 0:
                _check_blocked(watched, command)
                watched = None
            for key, _ in ready:
                if key.fileobj is not process.stderr:
                    silent_until = time.monotonic() + _SILENCE_S
                if key.fileobj is process.stdin:
                    unsent = _rest(key.fd, unsent)
                    is_over = not unsent
                else:
                    piece = os.read(key.fd, _PIECE_BYTES)
                    is_over = not piece
                    if key.fileobj is process.stdout:
                        take(piece)
                    else:
                        stderr += piece
                        del stderr[:-_MAX_STDERR_BYTES]
                if is_over:
                    open_pipes.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
    try:
        process.wait(_left_s(until, timeout_s, command))
    except subprocess.TimeoutExpired:
        _left_s(0, timeout_s, command)
    return bytes(stderr)


def _check_blocked(folder: Path, command: str) -> None:
    if (found := blocking_file(folder)) is not None:
        what = "larger than 64 MB" if found.is_file() else "a pipe or a device and not a file"
        raise SourceError(
            f"`git {command}` was stopped: it waits for {found}, which is {what}; remove it, or git's "
            "setting that names it"
        )


def _rest(pipe: int, unsent: memoryview) -> memoryview:
    """Write as much as a pipe that is ready takes without waiting; return what is left."""
    try:
        return unsent[os.write(pipe, unsent[: select.PIPE_BUF]) :]
    except BrokenPipeError:  # git does not read the rest
        return unsent[:0]


def _left_s(until: float, timeout_s: float, command: str) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise SourceError(
            f"`git {command}` took longer than {timeout_s:g} seconds and was killed; clone it "
            "yourself and give the folder"
        )
    return left_s


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it has exited meanwhile
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _without_filters(folder: Path | None) -> dict[str, str]:
    """Return settings that disable every filter configured there."""
    listed = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."]
    names = run_git(listed, cwd=folder, ok_codes=(0, 1)).decode("utf-8", "surrogateescape").split("\0")
    filters = {name.rpartition(".")[0] for name in names if name}
    nothing = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return {f"{each}.{what}": value for each in sorted(filters) for what, value in nothing.items()}


def _environment(
    token: str | None, url: str, more: Mapping[str, str], *, asks_server: bool
) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
    if folders := search_path(environment.pop("PATH", "")):
        environment["PATH"] = folders  # without the current folder, which may contain a program named git
    settings = [*_SAFE.items(), *more.items()]
    if token and url.lower().startswith(("https://", "http://")):
        # A redirect would carry the header to another host.
        settings.append(("http.followRedirects", "false"))
        settings.append((f"http.{_base(url)}.extraHeader", f"Authorization: Basic {_basic(token, url)}"))
    if _PINNED_ADDRESSES:
        settings.append(("http.followRedirects", "false"))
        settings += [("http.curloptResolve", place) for place in _PINNED_ADDRESSES]
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GCM_INTERACTIVE": "never",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND") or "ssh -o BatchMode=yes",
        # A partial clone would fetch missing objects with a program that the clone names.
        "GIT_ALLOW_PROTOCOL": "http:https:ssh:git:file" if asks_server else "none",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "en",
    }


def _base(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"


def _basic(token: str, url: str) -> str:
    """Return `user:password` as the host expects it; a bare token gets the user name that hosts use for
    tokens.
    """
    if ":" not in token:
        host = (urlsplit(url).hostname or "").lower()
        user = "x-access-token"
        if "gitlab" in host:
            user = "oauth2"
        elif "bitbucket" in host:
            user = "x-token-auth"
        token = f"{user}:{token}"
    return base64.b64encode(token.encode()).decode("ascii")


def scrub(text: str, token: str | None = None) -> str:
    """Return the text without credentials: the token, its encoded forms, and the part before `@` in a URL."""
    for secret in _forms(token) if token else ():
        text = text.replace(secret, "***")
    return _HEADER.sub(r"\1***", _USERINFO.sub("", text))


def _forms(token: str) -> list[str]:
    forms = {token, *(part for part in token.split(":") if len(part) > 5)}
    for url in ("https://x", "https://gitlab", "https://bitbucket"):
        forms.add(_basic(token, url))
    return sorted(forms, key=len, reverse=True)


_REASON_ABOVE = "fatal: Could not read from remote repository."
"""Git's message after another program, such as ssh, has printed the reason."""


_SUMMARY = re.compile(
    r"fatal: Could not reset index file|fatal: protocol error: bad pack header|fatal: index-pack failed"
    r"|(?:error|fatal): git upload-pack: |error: failed to push some refs"
    r"|fatal: fetch-pack: invalid index-pack output"
)
"""Messages that say only that something failed; an earlier one says what."""
_FAILURES = ("fatal:", "error:", "! [remote rejected]", "remote: fatal:", "remote: error:", "ERROR:")
_MAX_LINE_CHARS = 300


def _last_line(text: str) -> str:
    """Return the most informative line: the last `fatal:` or `error:`, else the last one."""
    reasons = before if (before := text.partition(_REASON_ABOVE)[0]).strip() else text
    lines = [line.strip() for line in re.split(r"[\r\n]+", reasons) if line.strip()]
    errors = [
        line
        for line in lines
        if line.startswith(
            ("fatal:", "error:", "! [remote rejected]", "remote: fatal:", "remote: error:", "ERROR:")
        )
    ]
    last = ([line for line in errors if not _SUMMARY.match(line)] or errors or lines or [""])[-1]
    if len(last) <= _MAX_LINE_CHARS:
        return last
    half = _MAX_LINE_CHARS // 2
    return f"{last[:half]} … {last[-half:]}"
