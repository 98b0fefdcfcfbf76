"""Getting a source on disk: against real git repositories, and with the real git recorded."""

from __future__ import annotations

import base64
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag.corpus.acquire import acquire, committed, resolve
from rag.corpus.git import run_git, scrub
from rag.errors import RefNotFound, SourceError, SourceNotFound, SourceUnreachable
from rag.types import Checkout, Source, blob_id

_IDENTITY = ["-c", "user.name=A", "-c", "user.email=a@example.org"]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *_IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    git(folder, "add", "--", name)
    git(folder, "commit", "-q", "-m", f"change {name}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "a.py", "print(1)\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "rag-home"


@pytest.fixture
def fetch(home: Path) -> Callable[..., Checkout]:
    def fetch(text: str, ref: str | None = None, **options: object) -> Checkout:
        return acquire(resolve(text, ref), home=home, **options)  # type: ignore[arg-type]

    return fetch


def clones(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "repos").iterdir()) if (home / "repos").exists() else []


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("https://GitHub.com/o/r.git", "https://github.com/o/r"),
        ("https://github.com/o/r/", "https://github.com/o/r"),
        ("HTTPS://github.com:443/o/r", "https://github.com/o/r"),
        ("https://user:secret@github.com/o/r.git", "https://github.com/o/r"),
        ("https://secret@github.com/o/r?token=secret", "https://github.com/o/r"),
        ("git@GitHub.com:o/r.git", "git@github.com:o/r"),
        ("ssh://git:secret@Host.org:2222/o/r.git", "ssh://git@host.org:2222/o/r"),
        ("http://[::1]:8080/r", "http://[::1]:8080/r"),
    ],
)
def test_spellings_of_one_repository_have_one_location(text: str, location: str) -> None:
    assert resolve(text) == Source(location)
    assert resolve(location) == Source(location)
    assert "secret" not in repr(resolve(text))


def test_a_path_becomes_real_and_a_link_is_followed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = repository.parent / "link"
    link.symlink_to(repository)
    monkeypatch.chdir(repository.parent)
    for text in (f"{repository}/", "project", "./project/../project", str(link)):
        assert resolve(text) == Source(str(repository.resolve()))
    assert resolve(f"file://{link}/") == Source(f"file://{repository.resolve()}")


def test_a_folder_with_a_colon_in_its_name_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host:path").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("host:path").location == str((tmp_path / "host:path").resolve())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "no/such",
        "-u",
        "--upload-pack=x",
        "a\0b",
        "/nonexistent/folder",
        "KilnError: the door is open",
    ],
)
def test_what_is_no_folder_and_no_url_is_not_found(text: str) -> None:
    with pytest.raises(SourceNotFound):
        resolve(text)


def test_owner_and_repository_alone_are_not_guessed() -> None:
    with pytest.raises(SourceNotFound, match=r"https://github\.com/django/django"):
        resolve("django/django")


@pytest.mark.parametrize(
    "text", ["ext::sh -c x", "ftp://h/r", "https://", "ssh://-oProxyCommand=x/r", "https://h:x/r"]
)
def test_a_url_that_git_must_not_be_given_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        resolve(text)


@pytest.mark.parametrize("ref", ["--upload-pack=x", "a:b", "a b", "HEAD~1", "a..b", "@{u}", "x\n", "-"])
def test_a_ref_that_is_no_name_is_refused(repository: Path, ref: str) -> None:
    with pytest.raises(RefNotFound):
        resolve(str(repository), ref if ref != "x\n" else "x\ny")


# ---------------------------------------------------------------- folders in place


def test_a_plain_folder_has_no_commit(tmp_path: Path, fetch: Callable[..., Checkout]) -> None:
    (tmp_path / "plain").mkdir()
    found = fetch(str(tmp_path / "plain"))
    assert (found.commit, found.dirty, found.remote) == (None, False, None)
    assert found.root == (tmp_path / "plain").resolve()


def test_a_work_tree_is_read_in_place_at_its_commit(
    repository: Path, fetch: Callable[..., Checkout], home: Path
) -> None:
    git(repository, "remote", "add", "origin", "https://me:secret@example.org/o/r.git")
    found = fetch(str(repository))
    assert found == Checkout(
        Source(str(repository)),
        repository,
        git(repository, "rev-parse", "HEAD"),
        False,
        "https://example.org/o/r",
    )
    assert clones(home) == []


def test_before_the_first_commit_there_is_none(tmp_path: Path, fetch: Callable[..., Checkout]) -> None:
    git(tmp_path, "init", "-q", "new")
    assert fetch(str(tmp_path / "new")).commit is None


@pytest.mark.parametrize("change", ["edit", "stage", "add", "remove"])
def test_any_change_makes_it_dirty(repository: Path, fetch: Callable[..., Checkout], change: str) -> None:
    if change == "edit":
        (repository / "a.py").write_text("print(2)\n")
    elif change == "stage":
        (repository / "a.py").write_text("print(2)\n")
        git(repository, "add", "a.py")
    elif change == "add":
        (repository / "b.py").write_text("")
    else:
        (repository / "a.py").unlink()
    assert fetch(str(repository)).dirty


def test_ignored_files_and_changes_elsewhere_do_not_make_it_dirty(
    repository: Path, fetch: Callable[..., Checkout]
) -> None:
    commit(repository, ".gitignore", "*.log\n")
    head = commit(repository, "sub/b.py", "")
    (repository / "x.log").write_text("")
    assert not fetch(str(repository)).dirty
    (repository / "a.py").write_text("changed")
    found = fetch(str(repository / "sub"))
    assert (found.root, found.commit, found.dirty) == (repository / "sub", head, False)
    assert fetch(str(repository)).dirty


def test_a_folder_the_enclosing_repository_ignores_has_no_history(
    repository: Path, fetch: Callable[..., Checkout]
) -> None:
    commit(repository, ".gitignore", "/build\n")
    (repository / "build" / "lib").mkdir(parents=True)
    assert fetch(str(repository / "build" / "lib")).commit is None


def test_a_damaged_repository_is_read_without_history(
    repository: Path, fetch: Callable[..., Checkout]
) -> None:
    (repository / ".git" / "HEAD").write_text("nonsense")
    said: list[str] = []
    assert fetch(str(repository), progress=said.append).commit is None
    assert "without history" in said[0]


def test_settings_of_a_surrounding_git_process_are_not_obeyed(
    repository: Path, fetch: Callable[..., Checkout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    assert fetch(str(repository)).commit


# ---------------------------------------------------------------- clones


def test_a_url_is_cloned_one_commit_deep_and_nothing_of_it_runs(
    repository: Path, fetch: Callable[..., Checkout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtered = tmp_path / "filtered"
    commit(repository, ".gitattributes", "*.txt filter=bad\n*.crlf text eol=crlf\n")
    commit(repository, "b.txt", "text\n")
    commit(repository, "c.crlf", "line\n")
    (tmp_path / "gitconfig").write_text(
        f'[filter "bad"]\n smudge = touch {filtered}; cat\n required = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    found = fetch(f"file://{repository}")
    assert (found.root / "b.txt").read_text() == "text\n"
    assert (found.root / "c.crlf").read_bytes() == b"line\n"
    assert not filtered.exists()
    assert git(found.root, "rev-list", "--count", "HEAD") == "1"
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert not found.dirty
    assert found.remote == found.source.location


def test_refs_of_every_kind_are_found(repository: Path, fetch: Callable[..., Checkout]) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "-a", "-m", "one", "v1")
    git(repository, "checkout", "-q", "-b", "feature/x")
    second = commit(repository, "b.py", "two\n")
    git(repository, "checkout", "-q", "main")
    third = commit(repository, "c.py", "three\n")
    for text in (f"file://{repository}", str(repository)):
        for ref, sha in {
            "v1": first,
            "feature/x": second,
            second: second,
            first[:9]: first,
            third[:7]: third,
        }.items():
            assert fetch(text, ref).commit == sha, (text, ref)
        for ref in ("nosuch", "f" * 40, "abcdef1"):
            with pytest.raises(RefNotFound, match=ref):
                fetch(text, ref)
    assert fetch(str(repository), "v1").root != repository
    assert fetch(f"file://{repository}").commit == third


def test_a_server_that_refuses_single_commits_is_asked_for_more(
    repository: Path, fetch: Callable[..., Checkout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text("[protocol]\n version = 0\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    first = git(repository, "rev-parse", "HEAD")
    commit(repository, "b.py", "two\n")
    assert fetch(f"file://{repository}", first).commit == first


def test_a_later_run_fetches_and_a_run_without_refresh_does_not(
    repository: Path, fetch: Callable[..., Checkout]
) -> None:
    url = f"file://{repository}"
    before = fetch(url)
    git(repository, "rm", "-q", "a.py")
    after = commit(repository, "b.py", "two\n")
    assert fetch(url, refresh=False).commit == before.commit
    (before.root / "left.py").write_text("from a broken checkout")
    (before.root / ".git" / "index.lock").write_text("")
    found = fetch(url)
    assert found.commit == after
    assert sorted(path.name for path in found.root.iterdir()) == [".git", "b.py"]
    assert git(found.root, "cat-file", "-t", before.commit or "") == "commit"


def test_a_rewritten_branch_is_followed(repository: Path, fetch: Callable[..., Checkout]) -> None:
    fetch(f"file://{repository}", "main")
    git(repository, "commit", "-q", "--amend", "-m", "another")
    assert fetch(f"file://{repository}", "main").commit == git(repository, "rev-parse", "HEAD")


def test_a_folder_inside_a_repository_keeps_its_place_at_a_ref(
    repository: Path, fetch: Callable[..., Checkout]
) -> None:
    commit(repository, "sub/b.py", "")
    git(repository, "tag", "v1")
    assert (fetch(str(repository / "sub"), "v1").root / "b.py").exists()
    plain = repository.parent / "plain"
    plain.mkdir()
    with pytest.raises(SourceError, match="no git history"):
        fetch(str(plain), "v1")


def test_a_bare_repository_is_cloned_and_the_ending_makes_no_difference(
    repository: Path, fetch: Callable[..., Checkout], tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    for text in (str(tmp_path / "bare.git"), f"file://{tmp_path}/bare.git", f"file://{tmp_path}/bare"):
        assert (fetch(text).root / "a.py").exists()


def test_submodules_stay_empty(repository: Path, fetch: Callable[..., Checkout], tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "other")
    git(
        repository,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(tmp_path / "other"),
        "sub",
    )
    git(repository, "commit", "-q", "-m", "submodule")
    assert list((fetch(f"file://{repository}").root / "sub").iterdir()) == []


def test_a_failed_clone_leaves_nothing_behind(
    repository: Path, fetch: Callable[..., Checkout], home: Path, tmp_path: Path
) -> None:
    for text, ref in ((f"file://{tmp_path}/nosuch", None), (f"file://{repository}", "nosuch")):
        with pytest.raises(SourceError):
            fetch(text, ref)
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(SourceError, match="has no commit: it is a new repository"):
        fetch(f"file://{tmp_path}/empty")
    with pytest.raises(SourceNotFound, match="check the address"):
        fetch(f"file://{tmp_path}/nosuch")
    assert clones(home) == []


def test_what_a_killed_clone_left_is_removed_by_the_next(
    repository: Path, fetch: Callable[..., Checkout], home: Path
) -> None:
    name = fetch(f"file://{repository}").root.name
    shutil.rmtree(home / "repos" / name)
    (home / "repos" / f".{name}.abc.tmp" / ".git").mkdir(parents=True)
    fetch(f"file://{repository}")
    assert clones(home) == [name]


def test_a_clone_that_takes_too_long_is_ended(
    repository: Path,
    fetch: Callable[..., Checkout],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _put_on_path(tmp_path, monkeypatch, 'case "$*" in *fetch*) exec sleep 60;; esac')
    with pytest.raises(SourceError, match="longer than"):
        fetch(f"file://{repository}", timeout_s=0.5)
    assert clones(home) == []


def test_two_processes_may_fetch_the_same_source_at_once(repository: Path, home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from rag.corpus.acquire import acquire, resolve;"
        "print(acquire(resolve(sys.argv[1]), home=Path(sys.argv[2])).commit)"
    )
    command = [sys.executable, "-c", program, f"file://{repository}", str(home)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = {run.communicate()[0].strip() for run in runs}
    assert results == {git(repository, "rev-parse", "HEAD")}
    assert len(clones(home)) == 1


def test_without_git_a_folder_is_read_and_a_url_says_what_is_missing(
    repository: Path,
    fetch: Callable[..., Checkout],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch(str(tmp_path / "plain")).commit is None
    with pytest.raises(SourceError, match="install git"):
        fetch(f"file://{repository}")
    assert clones(home) == []


def test_a_home_that_cannot_be_written_is_named(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot create a clone"):
        acquire(resolve(f"file://{repository}"), home=tmp_path / "file")


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = (
        "import os, sys, warnings; from pathlib import Path; from rag.corpus.acquire import acquire\n"
        "from rag.errors import SourceError; from rag.types import Source\n"
        "os.chmod(sys.argv[1], 0)\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "try: acquire(Source(sys.argv[1]), home=Path('/nonexistent'))\n"
        "except SourceError as error: print(error)"
    )
    for folder in closed.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    done = subprocess.run([sys.executable, "-c", program, str(closed)], capture_output=True, text=True)
    closed.chmod(0o700)
    assert "no permission" in done.stdout or "Permission denied" in done.stdout, done


def test_committed_names_the_blobs_of_the_commit(repository: Path, fetch: Callable[..., Checkout]) -> None:
    commit(repository, "sub/ä b.py", "b\n")
    (repository / "a.py").write_text("changed\n")
    found = fetch(str(repository))
    assert committed(found, ["a.py", "sub/ä b.py", "nosuch.py", "sub"]) == {
        "a.py": blob_id(b"print(1)\n"),
        "sub/ä b.py": blob_id(b"b\n"),
    }
    assert committed(fetch(str(repository / "sub")), ["ä b.py"]) == {"ä b.py": blob_id(b"b\n")}


# ---------------------------------------------------------------- secrets


def _put_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A `git` in front of the real one that first runs `script`."""
    real = shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")


class _GitServer(http.server.BaseHTTPRequestHandler):
    """git's own HTTP server, for those who bring the token; it knows its repositories with `.git` only."""

    wanted = "Basic " + base64.b64encode(b"x-access-token:t0p-s3cret").decode()
    root = ""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if self.headers.get("Authorization") != self.wanted:
            self.send_error(401)
            return
        if not path.startswith("/repo.git/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        heads, _, content = done.stdout.partition(b"\r\n\r\n")
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + heads + b"\r\n\r\n" + content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(repository: Path, tmp_path: Path) -> Iterator[str]:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "served/repo.git")
    _GitServer.root = str(tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _GitServer) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_token_reaches_the_server_and_nothing_else(
    server: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    _put_on_path(tmp_path, monkeypatch, f'echo "ARGV $*" >> {record}; env | sed "s/^/ENV /" >> {record}')
    found = acquire(resolve(f"http://{server}/repo"), home=home, token=f"{server}=t0p-s3cret")
    assert (found.root / "a.py").read_text() == "print(1)\n"
    encoded = _GitServer.wanted.split()[1]
    lines = record.read_text().splitlines()
    assert any(encoded in line for line in lines if line.startswith("ENV GIT_CONFIG_VALUE_"))
    kept = [line for line in lines if not line.startswith("ENV GIT_CONFIG_VALUE_")]
    kept += [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()]
    assert not [text for text in kept if "s3cret" in text or encoded in text]


def test_credentials_in_a_url_serve_as_token_and_are_not_kept(server: str, home: Path) -> None:
    source = resolve(f"http://x-access-token:t0p-s3cret@{server}/repo.git")
    assert "s3cret" not in repr(source)
    assert acquire(source, home=home).remote == f"http://{server}/repo"


def test_an_error_does_not_tell_the_token(server: str, home: Path) -> None:
    with pytest.raises(SourceError) as refused:
        acquire(resolve(f"http://{server}/other"), home=home, token="t0p-s3cret")
    assert "s3cret" not in str(refused.value)
    assert clones(home) == []
    assert scrub("fatal: https://me:t0p-s3cret@h/r: t0p-s3cret", "t0p-s3cret") == "fatal: https://h/r: ***"


def test_without_a_token_the_error_says_how_to_give_one(server: str, home: Path) -> None:
    with pytest.raises(SourceNotFound, match="RAG_GIT_TOKEN"):
        acquire(resolve(f"http://{server}/other"), home=home)


def test_an_address_where_nothing_answers_is_an_error_that_names_it(home: Path) -> None:
    with pytest.raises(SourceUnreachable, match=r"cannot fetch http://127\.0\.0\.1:1/o/r"):
        acquire(resolve("http://127.0.0.1:1/o/r"), home=home)
    with pytest.raises(SourceUnreachable, match=r"cannot fetch git://127\.0\.0\.1:1/o/r"):
        acquire(resolve("git://127.0.0.1:1/o/r"), home=home)


def test_git_ends_with_us_however_early_the_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    start, started = subprocess.Popen._execute_child, []  # type: ignore[attr-defined]

    def interrupted(process: subprocess.Popen[bytes], *arguments: object) -> None:
        start(process, *arguments)
        started.append(process.pid)
        signal.raise_signal(signal.SIGTERM)

    def leave(number: int, frame: object) -> None:
        raise SystemExit

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit):
            run_git(["fetch"])
        assert signal.getsignal(signal.SIGTERM) is leave
    finally:
        signal.signal(signal.SIGTERM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_server_that_fails_may_be_asked_later(home: Path) -> None:
    class Failing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(SourceUnreachable, match="503"):
            acquire(resolve(f"http://127.0.0.1:{running.server_port}/o/r"), home=home)
        running.shutdown()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("git@h: Permission denied (publickey).", SourceError),
        ("ssh: Could not resolve hostname h: Name or service not known", SourceUnreachable),
        ("ssh: connect to host h port 22: Connection refused", SourceUnreachable),
    ],
)
def test_why_ssh_failed_is_told(
    said: str, kind: type[SourceError], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", f"echo '{said}' >&2; exit 255; #")
    with pytest.raises(SourceError, match=re.escape(said)) as failed:
        acquire(resolve("git@h:o/r.git"), home=home)
    assert type(failed.value) is kind


def test_a_repository_with_sha256_ids_is_read_at_a_ref(
    tmp_path: Path, fetch: Callable[..., Checkout]
) -> None:
    folder = tmp_path / "longer-ids"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256")
    commit(folder, "a.py", "print(1)\n")
    found = fetch(str(folder), "main")
    assert len(found.commit or "") == 64
    assert (found.root / "a.py").read_text() == "print(1)\n"
