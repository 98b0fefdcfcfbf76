"""Commits that no `git add` makes: what cannot be checked out is an error with its reason."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command import rag
from conftest import git
from live_server import serving

from rag.corpus.acquire import acquire, resolve
from rag.corpus.walk import walk
from rag.errors import SourceError
from rag.types import Filters, Source

CODE = b"def harmless(): pass\n"


class Trees:
    """Writes objects of a repository as they are given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
        self.code = self.write("blob", CODE)

    def write(self, kind: str, content: bytes) -> str:
        command = ["git", "hash-object", "-w", "-t", kind, "--literally", "--stdin"]
        done = subprocess.run(command, cwd=self.folder, input=content, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        listed = (f"{mode} ".encode() + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        return self.write("tree", b"".join(listed))

    def file(self, name: bytes) -> str:
        return self.tree(("100644", name, self.code), ("100644", b"z.py", self.code))

    def inside(self, *folders: bytes, name: bytes = b"x.py", mode: str = "100755") -> str:
        tree = self.tree((mode, name, self.code))
        for folder in reversed(folders):
            tree = self.tree(("40000", folder, tree))
        return tree

    def link(self, name: bytes, target: bytes, *more: tuple[str, bytes, str]) -> str:
        return self.tree(("120000", name, self.write("blob", target)), *more)


def submodule(made: Trees) -> str:
    text = b'[submodule "x"]\n\tpath = ../../x\n\turl = --upload-pack=touch pwned\n\tupdate = !touch pwned\n'
    return made.tree(
        ("100644", b".gitmodules", made.write("blob", text)),
        ("160000", b"sub", made.code),
        ("100644", b"z.py", made.code),
    )


def through_link(made: Trees) -> str:
    inner = made.inside()
    return made.link(b"d", b"../../outside", ("40000", b"d", inner), ("100644", b"z.py", made.code))


REFUSED: dict[str, tuple[Callable[[Trees], str], str]] = {
    "hooks": (lambda made: made.inside(b".git", b"hooks", name=b"post-checkout"), "invalid path '.git/hooks"),
    "config in other case": (lambda made: made.inside(b".GIT", name=b"config"), "invalid path '.GIT/config'"),
    "a short name of Windows": (lambda made: made.file(b"git~1"), "invalid path 'git~1'"),
    "ignored characters": (lambda made: made.file(".g\u200cit".encode()), "invalid path"),
    "parent": (lambda made: made.inside(b"..", b".."), r"invalid path '\.\./\.\./x\.py'"),
    "slash": (lambda made: made.file(b"../x.py"), r"invalid path '\.\./x\.py'"),
    "absolute": (lambda made: made.file(b"/tmp/x.py"), "invalid path '/tmp/x.py'"),
    "no name": (lambda made: made.file(b""), "empty filename in tree entry"),
    "linked modules": (lambda made: made.link(b".gitmodules", b"/etc/passwd"), "invalid path '.gitmodules'"),
    "long name": (lambda made: made.file(b"n" * 300), "File name too long"),
    "longer name": (lambda made: made.file(b"n" * 9_000), "more than 4,000 bytes"),
    "deep": (lambda made: made.inside(*[b"d"] * 1_500), "200 folders in a path"),
    "missing": (lambda made: made.tree(("100644", b"a.py", "1" * 40)), "unable to read 1111"),
    "no folder": (lambda made: made.tree(("40000", b"d", made.code)), "is not a tree|bad tree object"),
}  # fmt: skip
HARMLESS: dict[str, Callable[[Trees], str]] = {
    "names that differ in case": lambda made: made.file(b"Z.py"),
    "one name twice": lambda made: made.file(b"z.py"),
    "unreadable names": lambda made: made.file(b"\xff\xfe\n\x1b[31m.py"),
    "impossible modes": lambda made: made.tree(
        ("10644", b"pipe", made.code), ("20000", b"tty", made.code), ("100644", b"z.py", made.code)
    ),
    "through a link": through_link,
    "submodule": submodule,
}


def committed(tmp_path: Path, make: Callable[[Trees], str]) -> Path:
    made = Trees(tmp_path / "repository")
    commit = git(made.folder, "commit-tree", make(made), "-m", "Begin")
    git(made.folder, "update-ref", "refs/heads/main", commit)
    return made.folder


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_checked_out_is_an_error_that_says_why(name, tmp_path):
    make, why = REFUSED[name]
    folder, home = committed(tmp_path, make), tmp_path / "home"
    for source in (resolve(f"file://{folder}"), resolve(str(folder), "main")):
        for _ in range(2):
            with pytest.raises(SourceError, match=why) as caught:
                acquire(source, home=home)
            assert len(str(caught.value)) < 600
    assert [path for path in home.rglob("*") if path.is_file()] == []
    ran = rag("search", f"file://{folder}", "harmless")
    assert ran.code == 2 and ran.err.count("\n") < 6


@pytest.mark.parametrize("name", HARMLESS)
def test_what_can_be_checked_out_stays_in_its_folder(name, tmp_path):
    folder, home = committed(tmp_path, HARMLESS[name]), tmp_path / "home"
    (tmp_path / "outside").mkdir()
    for source in (resolve(f"file://{folder}"), resolve(str(folder), "main")):
        checkout = acquire(source, home=home)
        found = [entry.path for entry in walk(checkout.root, Filters(), max_file_bytes=1_000).files]
        assert "z.py" in found
        assert all("\n" not in path and not path.startswith(("/", ".git/", "..")) for path in found)
    assert not list((tmp_path / "outside").iterdir()) and not list(tmp_path.rglob("pwned"))


def test_a_server_says_why_a_ref_cannot_be_checked_out(tmp_path):
    made = Trees(tmp_path / "repository")
    (made.folder / "z.py").write_bytes(CODE)
    git(made.folder, "add", "--all")
    git(made.folder, "commit", "--quiet", "--message", "Begin")
    for name, (make, _) in REFUSED.items():
        commit = git(made.folder, "commit-tree", make(made), "-m", name)
        git(made.folder, "update-ref", f"refs/heads/{name.replace(' ', '-')}", commit)
    with serving(tmp_path, repositories=(("served", Source(str(made.folder))),)) as served:
        served.ready()
        for name, (_, why) in REFUSED.items():
            asked = {"question": "harmless", "repositories": [f"served@{name.replace(' ', '-')}"]}
            reply = served.post("/api/search", asked)
            assert 400 <= reply.status < 500, (name, reply.json)
            assert re.search(why, reply.json["error"]["message"]), (name, reply.json)
