"""Indexes that machines share: each home here is a machine, the folder `shared` is what they mount."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import rag
from conftest import _COMMIT, git

from rag.backends.shelf.generations import described
from rag.database.update import Options
from rag.errors import ConfigError, ShelfOutdated, ShelfRefused, ShelfUnreachable, StoreCorrupt
from rag.retrieval.search import search
from rag.service import Engine, locate
from rag.service.repositories import shared_stores
from rag.service.repositories.shared_stores import NEWEST, shelf_key
from rag.settings import Settings
from rag.store_shelf import ShelfFile
from rag.types import Filters, Source

URL = Source("https://example.org/team/app")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Each test begins as a new process."""
    monkeypatch.setattr(shared_stores, "_paused_until", {})


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def origin(tmp_path, sample_repo):
    """A repository that machines clone: the sample with more files, so that one is a small part."""
    folder = tmp_path / "origin"
    shutil.copytree(sample_repo, folder)
    for number in range(20):
        (folder / f"more_{number}.py").write_text(f"def more_{number}():\n    return {number} + 1000\n")
    commit(folder, "more")
    return folder


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


class Machine:
    """An engine with a home of its own, and what it has reported."""

    def __init__(self, home, shared, **settings):
        self.notices = []
        self.engine = Engine(Settings(home=home, stores=str(shared), **settings), notice=self.notices.append)

    def open(self, source, **named):
        return self.engine.repository(source if isinstance(source, Source) else locate(str(source)), **named)

    def publish(self, source, *, name=None):
        self.engine.shared_name = name
        return self.engine.publish(self.open(source))

    def found(self, source, question):
        return [hit.span.path for hit in search([self.open(source).searcher], question, k=3).hits]


@pytest.fixture
def machine(tmp_path, shared):
    def make(name, **settings):
        return Machine(tmp_path / "homes" / name, shared, **settings)

    return make


def url_of(folder):
    return f"file://{folder}"


# ---------------------------------------------------------------- keys


def test_a_key_is_of_the_remote_ref_filters_and_embedder_and_of_no_path(machine):
    embedder, options = machine("a").engine.embedder, Options()

    def key(source, **named):
        return shelf_key(source, embedder, options, **named)

    assert key(URL) == key(locate("https://user:secret@Example.org/team/app.git"))
    assert key(URL).startswith("app-") and "secret" not in key(URL)
    others = [
        key(replace(URL, ref="v1")),
        key(replace(URL, filters=Filters(include=("*.py",)))),
        key(Source("https://example.org/other/app")),
        shelf_key(URL, embedder, Options(max_file_bytes=5)),
        key(Source("/home/me/app"), name="app"),
    ]
    assert len({key(URL), *others}) == 6
    assert key(Source("/a/app"), name="app") == key(Source("/b/renamed"), name="app")
    assert key(Source("/a/app"), name=URL.location) == key(URL)
    assert key(Source("/a"), name=URL.location, ref="v1") == key(replace(URL, ref="v1"))
    with pytest.raises(ConfigError, match="--publish-as NAME"):
        key(Source("/home/me/app"))


def test_another_embedder_has_another_key(machine):
    class Other:
        fingerprint = "other"

    assert shelf_key(URL, Other(), Options()) != shelf_key(URL, machine("a").engine.embedder, Options())


# ---------------------------------------------------------------- publish and open


def test_what_one_machine_indexed_another_one_only_fetches(machine, origin):
    a, b = machine("a"), machine("b")
    published = a.publish(url_of(origin))
    opened = b.open(url_of(origin))
    assert opened.report.changed == 0 and opened.report.files > 20
    [notice] = b.notices
    assert published.commit[:10] in notice and published.generation[:10] in notice
    assert b.found(url_of(origin), "more_7") == a.found(url_of(origin), "more_7")
    assert b.open(url_of(origin)).report.action == "fresh"


def test_one_changed_file_is_all_that_is_uploaded_and_indexed(machine, origin):
    a, b = machine("a"), machine("b")
    first = a.publish(url_of(origin))
    b.open(url_of(origin))
    (origin / "more_3.py").write_text("def changed_function():\n    return 'rare_word'\n")
    commit(origin, "change")
    second = a.publish(url_of(origin))
    assert (first.uploaded_files, second.uploaded_files) == (1, 1)
    assert second.uploaded_bytes < first.uploaded_bytes / 4
    assert second.size_bytes > first.size_bytes
    opened = b.open(url_of(origin))
    assert opened.report.changed == 0 and opened.checkout.commit == second.commit
    assert second.generation[:10] in b.notices[-1]
    assert b.found(url_of(origin), "changed_function")[0] == "more_3.py"
    assert a.publish(url_of(origin)).uploaded_files == 0


def test_files_that_differ_from_the_published_ones_are_indexed(machine, origin):
    machine("a").publish(url_of(origin))
    (origin / "more_3.py").write_text("def changed_function():\n    return 'rare_word'\n")
    commit(origin, "not published")
    b = machine("b")
    opened = b.open(url_of(origin))
    assert opened.report.changed == 1
    assert b.found(url_of(origin), "changed_function")[0] == "more_3.py"
    assert "1000" not in opened.store.file_text("more_3.py")[0]


def test_bytes_decide_and_not_times_of_another_machine(machine, origin, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", url_of(origin), str(clone))
    for folder in (origin, clone):
        git(folder, "remote", "add", "origin", "https://example.org/team/app") if folder is origin else git(
            folder, "remote", "set-url", "origin", "https://example.org/team/app"
        )
    path = clone / "more_5.py"
    path.write_text(path.read_text().replace("1000", "9999"))  # the same size
    at = (origin / "more_5.py").stat().st_mtime
    for file in (path, origin / "more_5.py"):
        os.utime(file, (at, at))
    machine("a").publish(origin)
    b = machine("b")
    opened = b.open(clone)
    assert opened.report.changed == 1 and len(b.notices) == 1
    assert b.open(clone).store.file_text("more_5.py")[0].endswith("5 + 9999\n")


def test_a_work_tree_begins_from_what_was_published_for_its_remote(machine, origin, tmp_path):
    machine("a").publish(url_of(origin))
    clone = tmp_path / "elsewhere" / "my clone"
    git(tmp_path, "clone", "-q", url_of(origin), str(clone))
    (clone / "mine.py").write_text("def uncommitted_mine():\n    pass\n")
    b = machine("b")
    assert b.open(clone).report.changed == 1
    assert b.found(clone, "uncommitted_mine")[0] == "mine.py"


def test_a_small_change_of_a_folder_asks_no_shelf(machine, origin, shared):
    a = machine("a")
    a.open(origin)
    shutil.rmtree(shared)
    (origin / "more_3.py").write_text("def changed_function():\n    pass\n")
    assert a.open(origin).report.changed == 1
    assert a.notices == [n for n in a.notices if "indexed here" in n][:1]  # only the first build asked


def test_a_folder_is_published_by_branch_only_when_everything_is_committed(machine, origin):
    a = machine("a")
    with pytest.raises(ConfigError, match="without a remote"):
        a.publish(origin)
    git(origin, "remote", "add", "origin", "https://user:secret@example.org/team/app.git")
    key = a.publish(origin).key
    assert key == a.engine.shared.key(a.open(origin).checkout)
    branch = git(origin, "branch", "--show-current").strip()
    assert key == shelf_key(replace(URL, ref=branch), a.engine.embedder, a.engine._options)
    assert a.engine.shared.shelf.current(key).about["ref"] == branch
    (origin / "new.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="not committed"):
        a.publish(origin)
    assert a.publish(origin, name="mine").key.startswith("mine-")
    commit(origin, "new")
    git(origin, "checkout", "-q", "--detach")
    with pytest.raises(ConfigError, match="at no branch"):
        a.publish(origin)


def test_nothing_published_has_a_credential(machine, origin, shared, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "cloud-secret")
    git(origin, "remote", "add", "origin", "https://user:remote-secret@example.org/team/app.git")
    machine("a", api_key="model-secret", git_token="git-secret").publish(origin)
    for path in shared.rglob("*"):
        if path.is_file():
            assert b"-secret" not in path.read_bytes(), path


def test_without_a_setting_nothing_is_shared(machine, origin, tmp_path):
    engine = Engine(Settings(home=tmp_path / "home"))
    assert engine.shared is None
    with pytest.raises(ConfigError, match="set RAG_STORES"):
        engine.publish(engine.repository(locate(str(origin))))


# ---------------------------------------------------------------- failures


def test_an_unreachable_shelf_is_reported_once_and_the_index_made_here(machine, origin, shared):
    shutil.rmtree(shared)
    a = machine("a")
    opened = a.open(url_of(origin))
    assert opened.report.action == "built" and opened.report.changed > 20
    [notice] = a.notices
    assert "is indexed here" in notice and "no such folder" in notice
    a.open(Source(url_of(origin), "HEAD"))
    assert len(a.notices) == 1  # it is not asked again at once
    with pytest.raises(ShelfRefused):
        a.publish(url_of(origin))


def test_what_was_fetched_before_is_used_while_the_shelf_does_not_answer(machine, origin, monkeypatch):
    published = machine("a").publish(url_of(origin))
    b = machine("b")
    b.open(url_of(origin))
    shutil.rmtree(b.engine.settings.home / "stores")
    error = ShelfUnreachable(shelf="the shelf", why="no answer within 30 s")

    def fail(key):
        raise error

    monkeypatch.setattr(b.engine.shared.shelf, "current", fail)
    opened = b.open(url_of(origin))
    assert opened.report.changed == 0 and opened.report.files > 20
    assert published.generation[:10] in b.notices[-1] and "no answer within 30 s" in b.notices[-1]


def test_a_damaged_file_of_the_cache_is_fetched_again(machine, origin):
    machine("a").publish(url_of(origin))
    b = machine("b")
    key = b.engine.shared.key(b.engine._acquire(locate(url_of(origin)), Path("x"), refreshing=True))
    file = b.engine.shared.shelf.fetch(key).folder / NEWEST
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    assert b.open(url_of(origin)).report.changed == 0
    assert "took the index" in b.notices[0]


class Exploit:
    def __reduce__(self):
        return os.system, ("touch /tmp/rag-shelf-exploit",)


@pytest.mark.parametrize(
    "content", [b"", b"no store", pickle.dumps(Exploit()), pickle.dumps({"magic": "rag-store"})]
)
def test_a_published_file_that_is_no_store_is_refused(machine, origin, tmp_path, content):
    a, b = machine("a"), machine("b")
    published = a.publish(url_of(origin))
    hostile = tmp_path / "hostile"
    hostile.write_bytes(content)
    a.engine.shared.shelf.publish(published.key, {NEWEST: hostile}, about={}, expect=published.generation)
    opened = b.open(url_of(origin))
    assert opened.report.changed > 20
    assert any("is indexed here" in notice for notice in b.notices)
    assert not Path("/tmp/rag-shelf-exploit").exists()


def test_a_generation_without_a_store_is_refused(machine, origin, tmp_path):
    a, b = machine("a"), machine("b")
    published = a.publish(url_of(origin))
    (tmp_path / "other").write_text("x")
    a.engine.shared.shelf.publish(
        published.key, {"other.pkl": tmp_path / "other"}, about={}, expect=published.generation
    )
    assert b.open(url_of(origin)).report.changed > 20
    assert f"has no {NEWEST}" in b.notices[0]


def test_a_store_of_another_repository_is_not_used(machine, origin, sample_repo, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for number in range(30):
        (other / f"x{number}.py").write_text(f"def unrelated_{number}():\n    pass\n")
    git(other, "init", "-q")
    commit(other, "other")
    a, b = machine("a"), machine("b")
    published = a.publish(url_of(origin))
    store = a.open(url_of(other)).store.path
    a.engine.shared.shelf.publish(published.key, {NEWEST: store}, about={}, expect=published.generation)
    assert b.open(url_of(origin)).report.changed > 20
    assert "x3.py" not in b.found(url_of(origin), "unrelated_3")


def test_a_damaged_store_is_not_published(machine, origin):
    a = machine("a")
    repository = a.open(url_of(origin))
    content = bytearray(repository.store.path.read_bytes())
    content[-200] ^= 0xFF
    copy = repository.store.path.with_suffix(".copy")
    copy.write_bytes(content)
    copy.replace(repository.store.path)
    with pytest.raises(StoreCorrupt):
        a.engine.publish(repository)
    assert a.engine.shared.shelf.keys() == []


def test_another_machine_that_published_meanwhile_is_a_conflict(machine, origin, monkeypatch):
    a, b = machine("a"), machine("b")
    shelf = a.engine.shared.shelf
    current = shelf.current

    def outrun(key):
        found = current(key)
        monkeypatch.setattr(shelf, "current", current)
        (origin / "theirs.py").write_text("x = 1\n")
        commit(origin, "theirs")
        b.publish(url_of(origin))
        return found

    repository = a.open(url_of(origin))
    monkeypatch.setattr(shelf, "current", outrun)
    with pytest.raises(Exception, match="another process has published"):
        a.engine.publish(repository)


def committed_in(year, monkeypatch):
    """Set the committer's time of the next commits."""
    monkeypatch.setitem(_COMMIT, "GIT_COMMITTER_DATE", f"{year}-01-01T00:00:00Z")


def test_an_older_commit_does_not_replace_a_newer_one(machine, origin, monkeypatch):
    a, b = machine("a"), machine("b")
    repository = a.open(url_of(origin))
    committed_in(2090, monkeypatch)
    (origin / "theirs.py").write_text("x = 1\n")
    commit(origin, "theirs")
    newer = b.publish(url_of(origin)).commit
    with pytest.raises(ShelfOutdated, match=f"{newer[:10]}.*--force") as caught:
        a.engine.publish(repository)
    assert (caught.value.published, caught.value.commit) == (newer, repository.checkout.commit)
    [key] = a.engine.shared.shelf.keys()
    assert a.engine.shared.shelf.current(key).about["commit"] == newer
    a.engine.publish(repository, force=True)
    assert a.engine.shared.shelf.current(key).about["commit"] == repository.checkout.commit


@pytest.mark.parametrize("commit", ["a\0b", "x" * 200_000, "-h", "\u2028"])
def test_a_published_commit_that_is_none_does_not_stop_a_publisher(machine, origin, commit, monkeypatch):
    a = machine("a")
    a.publish(url_of(origin))
    shelf = a.engine.shared.shelf
    [key] = shelf.keys()
    found = shelf.current(key)
    theirs = described(key, found.files, {**found.about, "commit": commit, "committed": "1"}, found.published)
    monkeypatch.setattr(shelf, "current", lambda key: theirs)
    assert a.engine.publish(a.open(url_of(origin))).key == key


@pytest.mark.parametrize("seconds", ["9" * 5_000, "١٢", "nan", "-1", "1e9", ""])
def test_a_published_time_that_is_none_does_not_stop_a_publisher(machine, origin, seconds, monkeypatch):
    """Whoever may write to the shelf chooses these values."""
    a = machine("a")
    a.publish(url_of(origin))
    shelf = a.engine.shared.shelf
    [key] = shelf.keys()
    found = shelf.current(key)
    about = {**found.about, "commit": "f" * 40, "committed": seconds}
    theirs = described(key, found.files, about, found.published)
    monkeypatch.setattr(shelf, "current", lambda key: theirs)
    assert a.engine.publish(a.open(url_of(origin))).key == key


def test_descent_decides_before_the_clock_of_a_committer(machine, origin, monkeypatch):
    """The newer commit was made on a machine whose clock is years behind."""
    a = machine("a")
    first = a.publish(url_of(origin))
    committed_in(2001, monkeypatch)
    (origin / "theirs.py").write_text("x = 1\n")
    commit(origin, "theirs")
    shutil.copytree(origin, origin.with_name("folder"))
    folder = origin.with_name("folder")
    second = a.publish(folder, name=url_of(origin))
    assert first.key == second.key and first.commit != second.commit
    git(folder, "checkout", "-q", first.commit)
    with pytest.raises(ShelfOutdated):
        a.publish(folder, name=url_of(origin))


def test_a_rewritten_branch_is_ordered_by_the_time_of_its_commits(machine, origin, monkeypatch):
    a = machine("a")
    a.publish(url_of(origin))
    for year, refused in ((2001, True), (2090, False)):
        committed_in(year, monkeypatch)
        (origin / "more_1.py").write_text(f"year = {year}\n")
        git(origin, "commit", "-q", "-a", "--amend", "-m", f"rewritten in {year}")
        if refused:
            with pytest.raises(ShelfOutdated):
                a.publish(url_of(origin))
        else:
            a.publish(url_of(origin))


def test_what_an_older_version_published_is_replaced(machine, origin):
    """Versions before 0.3 published no time of the commit, and one may run next to this one."""
    a = machine("a")
    a.publish(url_of(origin))
    shelf = a.engine.shared.shelf
    [key] = shelf.keys()
    fetched = shelf.fetch(key)
    about = {name: text for name, text in fetched.generation.about.items() if name != "committed"}
    about["commit"] = "0" * 40
    files = {file.name: fetched.folder / file.name for file in fetched.generation.files}
    shelf.publish(key, files, about=about, expect=fetched.generation.id)
    assert a.publish(url_of(origin)).commit == shelf.current(key).about["commit"]


def test_a_publication_leaves_no_links(machine, origin):
    a = machine("a")
    a.publish(url_of(origin))
    assert list((a.engine.settings.home / "fetched" / "outgoing").iterdir()) == []


def test_an_index_of_several_parts_arrives_whole(machine, origin, monkeypatch):
    monkeypatch.setattr("rag.database.workers._BATCH_BYTES", 2_000)
    monkeypatch.setattr("rag.database.build._MOST_IN_GROUP", 20)
    a, b = machine("a"), machine("b")
    published = a.publish(url_of(origin))
    assert published.files > 2
    opened = b.open(url_of(origin))
    assert opened.report.changed == 0 and opened.report.files == a.open(url_of(origin)).report.files
    opened.store.verify()
    assert b.found(url_of(origin), "more_7") == a.found(url_of(origin), "more_7")


# ---------------------------------------------------------------- the command line


def test_the_commands_publish_list_remove_and_check(origin, shared, monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_STORES", str(shared))
    done = rag("index", url_of(origin), "--publish", "--json").json
    assert done["published"]["uploaded_files"] == 1 and done["published"]["shelf"] == str(shared)
    again = rag("index", url_of(origin), "--publish")
    assert again.code == 0 and "0 files, 0.00 MB uploaded" in again.err
    listed = rag("storage", "shared", "--json").json["indexes"]
    assert [one["key"] for one in listed] == [done["published"]["key"]]
    assert listed[0]["source"] == url_of(origin) and listed[0]["commit"] == done["commit"]
    assert done["published"]["key"] in rag("storage", "shared").out

    monkeypatch.setenv("RAG_HOME", str(tmp_path / "second"))
    asked = rag("ask", url_of(origin), "What does more_7 return?")
    assert asked.code == 0 and "took the index of commit" in asked.err
    items = rag("storage", "show", "--json").json["items"]
    [fetched] = [one for one in items if one["kind"] == "fetched"]
    assert fetched["removable"] and fetched["location"] == url_of(origin)
    assert rag("storage", "prune", fetched["name"], "--yes").code == 0
    assert "fetched" not in {one["kind"] for one in rag("storage", "show", "--json").json["items"]}
    assert rag("ask", url_of(origin), "What does more_7 return?").code == 0

    checked = {one["name"]: one for one in rag("doctor", "--json").json}
    assert checked["shared stores"]["state"] == "ok" and "1 at " in checked["shared stores"]["detail"]
    assert rag("storage", "shared", "--remove", done["published"]["key"], "--yes").code == 0
    gone = rag("storage", "shared", "--remove", done["published"]["key"], "--yes")
    assert gone.code == 2 and "has no index" in gone.err
    assert rag("storage", "shared", "--collect", "--yes").code == 0
    shutil.rmtree(shared)
    checked = {one["name"]: one for one in rag("doctor", "--json").json}
    assert checked["shared stores"]["state"] == "bad" and "mkdir -p" in checked["shared stores"]["fix"]


def test_a_damaged_file_is_found_by_verifying_and_repaired_by_publishing(origin, shared, monkeypatch):
    monkeypatch.setenv("RAG_STORES", str(shared))
    key = rag("index", url_of(origin), "--publish", "--json").json["published"]["key"]
    assert rag("storage", "shared", "--verify", "--yes").out.startswith("read 1 file, ")
    (file,) = (one for one in (shared / "objects").rglob("*") if one.is_file())
    sound = file.read_bytes()
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    found = rag("storage", "shared", "--verify", "--yes", "--json")
    assert found.code == 1 and [one["key"] for one in found.json["damaged"]] == [key]
    assert "rag index SOURCE --publish" in found.err
    assert rag("index", url_of(origin), "--publish").code == 0
    assert file.read_bytes() == sound
    assert rag("storage", "shared", "--verify", "--yes", "--json").json["damaged"] == []


def test_the_commands_say_what_is_missing(origin, monkeypatch, shared):
    for arguments in (("index", origin, "--publish"), ("storage", "shared")):
        done = rag(*arguments)
        assert done.code == 2 and "set RAG_STORES" in done.err
    monkeypatch.setenv("RAG_STORES", str(shared))
    done = rag("index", origin, "--publish")
    assert done.code == 2 and "--publish-as NAME" in done.err
    assert rag("index", origin, "--publish-as", "sample").code == 0


def test_the_commit_of_a_stranger_is_shown_on_one_line():
    files = [ShelfFile(NEWEST, "0" * 64, 1)]
    found = described("app", files, {"commit": "\x1b[2J\n"}, datetime.now(UTC))
    assert shared_stores._named(found).startswith(r"commit \x1b[2J\n (generation ")
