"""What is kept on disk for refs that requests name is counted, bounded, and evicted by last use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import git
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rag.service import Engine
from rag.service.repositories.ref_retention import RefRetention, RetentionFull
from rag.settings import Settings
from rag.types import Source

TAGS = [f"v{number}" for number in range(5)]
LONG_S = 10_000.0


class Home:
    """A repository with tags, and one home that servers share."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "links"
        (self.root / "part").mkdir(parents=True)
        git(self.root, "init", "--quiet", "--template=")
        for tag in TAGS:
            (self.root / "part" / "codes.py").write_text(f"def code():\n    return {tag!r}\n")
            git(self.root, "add", "--all")
            git(self.root, "commit", "--quiet", "--message", tag)
            git(self.root, "tag", tag)
        self.home, self.now = folder / "home", 0.0
        self.engine = Engine(Settings(home=self.home, memory="memory:"))

    def source(self, tag: str, inside: str = "") -> Source:
        return Source(str((self.root / inside).resolve()), tag)

    def server(self, **limits: int) -> RefRetention:
        limits = {"max_entries": 3, "max_bytes": 1 << 40, **limits}
        return RefRetention(self.home, self.engine.store_file, clock=lambda: self.now, **limits)

    def job(self, server: RefRetention, source: Source) -> list[Source]:
        """What a server does for a ref: fetch and index it."""
        evicted = server.begin(source)
        self.engine.repository(source)
        self.engine.release(source)
        return evicted + server.end(source)

    def on_disk(self) -> tuple[int, int]:
        clones = [path for path in (self.home / "repos").glob("*") if path.is_dir()]
        stores = (self.home / "stores").glob("*.pkl")
        return len(clones), len([path for path in stores if not path.name.endswith(".part.pkl")])

    def size(self) -> int:
        """The bytes of all files but locks; refs of one repository share files, each of which counts once."""
        files = [path for name in ("repos", "stores") for path in (self.home / name).rglob("*")]
        status = [path.stat() for path in files if path.is_file() and path.suffix != ".lock"]
        return sum({one.st_ino: one.st_size for one in status}.values())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_longest_unused_goes(home: Home) -> None:
    server = home.server()
    for tag in TAGS[:3]:
        assert home.job(server, home.source(tag)) == []
        home.now += LONG_S
    server.used(home.source("v0"))
    home.now += LONG_S
    assert home.job(server, home.source("v3")) == [home.source("v1")]
    assert home.on_disk() == (3, 3)
    count, size = server.totals()
    assert count == 3
    assert home.size() <= size < 2 * home.size()  # what refs share counts in full for each


def test_what_is_in_use_stays_and_the_next_is_refused(home: Home) -> None:
    server = home.server()
    for tag in TAGS[:3]:
        home.job(server, home.source(tag))
    with pytest.raises(RetentionFull, match="3 refs and URLs are kept"):
        server.begin(home.source("v3"))
    server.release(home.source("v1"))
    assert home.job(server, home.source("v3")) == [home.source("v1")]
    assert home.on_disk() == (3, 3)


def test_bytes_are_bounded_too_and_what_is_too_large_alone_is_not_kept(home: Home) -> None:
    server = home.server()
    home.job(server, home.source("v0"))
    size = server.totals()[1]
    home.now += LONG_S
    small = home.server(max_bytes=size * 2)
    server.close()
    assert home.job(small, home.source("v1")) == [home.source("v0")]
    tiny = home.server(max_bytes=size // 2)
    small.close()
    with pytest.raises(RetentionFull, match="max_refs_bytes"):
        home.job(tiny, home.source("v2"))
    assert home.on_disk() == (0, 0)
    assert tiny.totals() == (0, 0)


def test_what_the_command_line_indexed_is_never_removed(home: Home) -> None:
    home.engine.repository(home.source("v4"))
    server = home.server(max_entries=1)
    assert home.job(server, home.source("v4")) == []
    for tag in TAGS[:3]:
        home.job(server, home.source(tag))
        home.now += LONG_S
    assert home.engine.store_file(home.source("v4")).exists()
    assert home.on_disk() == (2, 2)


def test_two_servers_never_remove_what_the_other_uses(home: Home) -> None:
    first, second = home.server(), home.server()
    for tag in TAGS[:2]:
        home.job(first, home.source(tag))
    home.job(second, home.source("v1"))
    home.now += LONG_S
    first.release(home.source("v1"))  # the second has it still
    home.job(second, home.source("v2"))
    with pytest.raises(RetentionFull):
        home.now += 1
        first.used(home.source("v0"))
        second.used(home.source("v1"))
        second.used(home.source("v2"))
        second.begin(home.source("v3"))
    first.close()
    assert home.job(second, home.source("v3")) == [home.source("v0")]


def test_a_server_that_was_killed_holds_nothing(home: Home) -> None:
    source = home.source("v0")
    code = f"""
        import os, signal
        from pathlib import Path
        from rag.service import Engine
        from rag.service.repositories.ref_retention import RefRetention
        from rag.settings import Settings
        from rag.types import Source
        engine, source = Engine(Settings(home=Path({str(home.home)!r}))), Source({source.location!r}, "v0")
        server = RefRetention(Path({str(home.home)!r}), engine.store_file, max_entries=1, max_bytes=1 << 40)
        server.begin(source)
        engine.repository(source)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env={**os.environ}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert home.job(home.server(max_entries=1), home.source("v1")) == [source]
    assert home.on_disk() == (1, 1)


def test_a_ref_that_is_not_there_keeps_no_entry(home: Home) -> None:
    server = home.server(max_entries=2)
    for number in range(5):
        missing = home.source(f"typo-{number}")
        server.begin(missing)
        assert server.end(missing) == []
    assert server.totals() == (0, 0)


def test_a_clone_that_two_folders_of_a_repository_share_stays_while_one_is_kept(home: Home) -> None:
    server = home.server(max_entries=2)
    home.job(server, home.source("v0"))
    home.now += LONG_S
    home.job(server, home.source("v0", "part"))
    home.now += 1
    assert home.job(server, home.source("v1")) == [home.source("v0")]
    assert home.engine.repository(home.source("v0", "part"), refreshing=False).checkout.root.is_dir()
    assert home.on_disk() == (2, 2)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"null", b'{"location": 1}', b'{"bytes": "x"}', b"[]", b"\xff"]
)
def test_a_damaged_entry_does_no_harm(home: Home, damage: bytes) -> None:
    server = home.server(max_entries=1)
    home.job(server, home.source("v0"))
    (entry,) = (home.home / "refs").glob("*.json")
    server.close()
    entry.write_bytes(damage)
    home.now += LONG_S
    home.job(server, home.source("v1"))
    assert server.totals()[0] == 1


class Servers(RuleBasedStateMachine):
    """Two servers over one home, in any order of jobs, questions and pauses."""

    shared: Home

    def __init__(self) -> None:
        super().__init__()
        for entry in (self.shared.home / "refs").glob("*.json"):
            entry.unlink()
        for path in (self.shared.home / "stores").glob("*"):
            path.unlink()
        self.shared.now = 0.0
        self.servers = [self.shared.server(), self.shared.server()]
        self.used: dict[tuple[int, str], float] = {}

    @rule(which=st.integers(0, 1), tag=st.sampled_from(TAGS))
    def job(self, which: int, tag: str) -> None:
        server, source = self.servers[which], self.shared.source(tag)
        store = self.shared.engine.store_file(source)
        try:
            server.begin(source)
        except RetentionFull:
            return
        store.parent.mkdir(parents=True, exist_ok=True)
        store.write_bytes(b"store")  # as a builder writes it; what it holds does not matter here
        server.end(source)
        self.used[which, tag] = self.shared.now

    @rule(which=st.integers(0, 1), tag=st.sampled_from(TAGS))
    def ask(self, which: int, tag: str) -> None:
        if (which, tag) in self.used and self.shared.engine.store_file(self.shared.source(tag)).exists():
            self.servers[which].used(self.shared.source(tag))

    @rule(seconds=st.sampled_from([1.0, 599.0, LONG_S]))
    def wait(self, seconds: float) -> None:
        self.shared.now += seconds

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.servers[which].close()
        self.servers[which] = self.shared.server()
        self.used = {key: at for key, at in self.used.items() if key[0] != which}

    @invariant()
    def there_are_never_too_many(self) -> None:
        assert len(list((self.shared.home / "stores").glob("*.pkl"))) <= 3

    @invariant()
    def what_was_just_indexed_or_asked_is_there(self) -> None:
        for (_, tag), at in self.used.items():
            if self.shared.now - at < 600:
                assert self.shared.engine.store_file(self.shared.source(tag)).exists()

    def teardown(self) -> None:
        for server in self.servers:
            server.close()


def test_in_any_order_there_are_never_too_many_and_what_is_in_use_stays(home: Home) -> None:
    Servers.shared = home
    case = Servers.TestCase()
    case.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
    case.runTest()
