"""Facts and conversations that a team shares in a git ref of the repository."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command import Ran, rag
from conftest import git
from hypothesis import given
from hypothesis import strategies as st

from rag.corpus.shared_files import REF
from rag.errors import ConfigError
from rag.memory.facts import Facts, fact_id
from rag.service import Engine
from rag.service.checks.facts import add_fact, check_facts, confirm_fact, facts_of, forget_fact
from rag.service.checks.shared_facts import FactExchange, Side, exchange_facts, merged_files
from rag.settings import Settings
from rag.types import Source

CHECKED = "Tokens are checked in snip/auth.py:27-39 by authenticate"
SESSIONS = "Sessions end after one hour"


class Member:
    """Somebody with a clone and a data folder of their own."""

    def __init__(self, team: Path, folder: Path, *options: str) -> None:
        git(folder.parent, "clone", "--quiet", *options, f"file://{team}" if options else team, folder.name)
        self.folder, self.home = folder, folder.parent / f"{folder.name}-home"
        git(folder, "config", "user.name", folder.name)
        git(folder, "config", "user.email", f"{folder.name}@example.org")
        self.source = Source(str(folder.resolve()))
        self.engine = Engine(Settings(home=self.home))

    def add(self, text: str, **more: object) -> str:
        return add_fact(self.engine, text, source=self.source, **more).id  # type: ignore[arg-type]

    def push(self, **more: object) -> FactExchange:
        return exchange_facts(self.engine, self.source, **more)  # type: ignore[arg-type]

    def pull(self, **more: object) -> FactExchange:
        return self.push(push=False, **more)

    def texts(self) -> list[str]:
        return [fact.text for fact in facts_of(self.engine).list(self.source.location)]


@pytest.fixture
def team(tmp_path: Path, sample_repo: Path) -> Path:
    """A bare repository with one commit of the sample."""
    return Path(
        git(tmp_path, "clone", "--quiet", "--bare", str(sample_repo), "team.git") or tmp_path / "team.git"
    )


@pytest.fixture
def ann(team: Path, tmp_path: Path) -> Member:
    return Member(team, tmp_path / "ann")


@pytest.fixture
def bob(team: Path, tmp_path: Path) -> Member:
    return Member(team, tmp_path / "bob")


def run(member: Member, *arguments: object) -> Ran:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_HOME", str(member.home))
        return rag(*arguments)


def write(team: Path, files: dict[str, bytes], *, mode: str = "100644") -> None:
    """Replace the shared files of a repository by these, as anybody who may push can."""
    stream = f"commit {REF}\ncommitter Eve <eve@example.org> 1 +0000\ndata 0\ndeleteall\n".encode()
    for path, content in files.items():
        stream += f"M {mode} inline {path}\ndata {len(content)}\n".encode() + content + b"\n"
    subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=team, input=stream, check=True)


def shared(team: Path) -> dict[str, bytes]:
    names = git(team, "ls-tree", "-r", "--name-only", REF).split()
    return {name: git(team, "show", f"{REF}:{name}").encode() for name in names}


def conversation_file(team: Path) -> tuple[str, list[dict[str, Any]]]:
    (name,) = (name for name in shared(team) if name.startswith("conversations/"))
    return name, [json.loads(line) for line in shared(team)[name].decode().splitlines()]


def test_a_clone_gets_the_facts_of_others_with_their_places(ann: Member, bob: Member) -> None:
    ann.add(CHECKED)
    assert ann.push() == FactExchange(str(ann.folder.parent / "team.git"), sent=1)
    assert bob.pull() == FactExchange(str(ann.folder.parent / "team.git"), received=1)
    known = facts_of(bob.engine).list()
    (fact,) = check_facts(bob.engine, known, [bob.source])
    assert (fact.text, fact.location, fact.places) == (CHECKED, bob.source.location, ["snip/auth.py:27-39"])
    assert fact.freshness is not None and fact.freshness.state == "fresh"
    (bob.folder / "snip" / "auth.py").write_text("")
    (fact,) = check_facts(bob.engine, known, [bob.source])
    assert fact.freshness is not None and fact.freshness.state == "gone"


def test_changes_and_deletions_reach_the_others(ann: Member, bob: Member) -> None:
    ann.add(CHECKED)
    old = ann.add(SESSIONS)
    ann.push()
    bob.pull()
    ann.add("Sessions end after two hours", supersedes=[old])
    forget_fact(ann.engine, ann.add(CHECKED))
    assert (done := ann.push()).sent == 2 and done.deleted_there == 1
    assert (done := bob.pull()).received == 2 and done.deleted_here == 1
    assert bob.texts() == ["Sessions end after two hours"]
    every = {fact.text: fact for fact in facts_of(bob.engine).all()}
    assert every[SESSIONS].superseded_by == every["Sessions end after two hours"].id
    for member in (ann, bob, ann):
        assert member.push() == FactExchange(str(ann.folder.parent / "team.git"))


def test_nothing_is_lost_when_many_push_at_the_same_time(team: Path, tmp_path: Path) -> None:
    members = [Member(team, tmp_path / f"member{n}") for n in range(3)]

    def work(member: Member) -> None:
        for n in range(2):
            member.add(f"{member.folder.name} says {n}")
            member.push()

    with ThreadPoolExecutor() as pool:
        [*pool.map(work, members)]
    for member in members:
        member.pull()
        assert len(member.texts()) == 6
    commits = git(team, "log", "--format=%an <%ae>%n%(trailers:key=Signed-off-by,valueonly)", REF)
    assert len(commits.split("\n\n")) == 6 and "member1 <member1@example.org>\nmember1" in commits


def test_the_folder_and_its_repository_are_not_written(ann: Member, bob: Member) -> None:
    ann.add(CHECKED)
    before = {path: path.stat().st_mtime_ns for path in ann.folder.rglob("*")}
    ann.push()
    assert {path: path.stat().st_mtime_ns for path in ann.folder.rglob("*")} == before
    assert git(bob.folder, "for-each-ref", "refs/rag") == ""


def test_settings_and_hooks_of_a_folder_run_nothing(ann: Member, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in (
        "core.sshCommand",
        "credential.helper",
        "remote.origin.uploadpack",
        "core.alternateRefsCommand",
    ):
        git(ann.folder, "config", name, f"!touch {ran}; touch {ran}")
    git(ann.folder, "config", "remote.origin.receivepack", f"touch {ran}; git-receive-pack")
    hook = ann.folder / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    ann.add(SESSIONS)
    assert ann.push().sent == 1
    assert not ran.exists()


def test_what_the_user_rejected_stays_rejected_here_and_shared_there(
    ann: Member, bob: Member, team: Path
) -> None:
    ann.add(SESSIONS)
    ann.push()
    bob.pull()
    (fact,) = facts_of(bob.engine).all()
    Facts(bob.engine.turns).decide(fact, "rejected")
    assert (bob.push().received, bob.texts()) == (0, [])
    assert (bob.push().deleted_there, len(shared(team))) == (0, 1)
    confirm_fact(bob.engine, fact.id)
    assert (bob.push().sent, bob.texts()) == (0, [SESSIONS])


def test_a_likely_secret_is_not_pushed(ann: Member, team: Path) -> None:
    ann.add(SESSIONS)
    ann.add("The token is ghp_" + "x7Kq9ZtR2mWb4LpVd8NcYs1GhJ3fEaUo6TiB")
    with pytest.raises(ConfigError, match="likely a secret"):
        ann.push()
    assert git(team, "for-each-ref", REF) == ""


def name_of(text: str, folder: str = "") -> str:
    return f"facts/{fact_id(folder, text, 0)}.json"


def written(text: str, **more: object) -> bytes:
    base = {"text": text, "created": "2026-01-01T00:00:00+00:00", "citations": [], "folder": ""}
    return json.dumps(base | more).encode()


def cites(path: str, **more: object) -> bytes:
    place = {"n": 1, "path": path, "start_line": 1, "end_line": 2, "blob": "", "commit": None}
    return written("A fact", citations=[place | more])


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"[]",
        b"[" * 100_000,
        written("A fact") + b" " * (64 << 10),
        cites("../../etc/passwd"),
        cites("/etc/passwd"),
        cites("a/../../b"),
        cites("a\nb"),
        cites("a.py", start_line="1"),
        cites("a.py", end_line=-1),
        cites("a.py", blob=[]),
        written("A fact", citations=[json.loads(cites("a.py"))["citations"][0]] * 51),
        written("A  fact"),
        written("A fact", folder=[]),
        written("A fact", created="then"),
        written("Another fact"),
        written("A fact", kind={"a": 1}),
    ],
)
def test_an_invalid_file_is_left_out_and_harms_nothing(ann: Member, team: Path, content: bytes) -> None:
    ann.add("A fact")
    ann.push()
    write(team, {name_of("A fact"): content, name_of(SESSIONS): written(SESSIONS)})
    done = ann.pull()
    assert (done.left_out, done.received, done.deleted_here) == (1, 1, 0)
    assert ann.texts() == ["A fact", SESSIONS] or ann.texts() == [SESSIONS, "A fact"]
    ann.push()
    assert json.loads(shared(team)[name_of("A fact")])["text"] == "A fact"


def test_links_and_files_of_others_are_left_alone(ann: Member, team: Path) -> None:
    write(team, {"facts/link.json": b"/etc/passwd"}, mode="120000")
    assert ann.pull() == FactExchange(str(team), left_out=1)
    write(team, {"later/version": b"x", "facts/link.json": b"{}"})
    ann.add(SESSIONS)
    assert (ann.push().left_out, {*shared(team)}) == (
        1,
        {"later/version", "facts/link.json", name_of(SESSIONS)},
    )


@pytest.mark.parametrize("mode", ["100755", "120000"])
def test_a_fact_that_became_no_regular_file_is_kept_here(ann: Member, team: Path, mode: str) -> None:
    ann.add(SESSIONS)
    ann.push()
    write(team, shared(team), mode=mode)
    assert (ann.pull().deleted_here, ann.texts()) == (0, [SESSIONS])


def test_each_remote_is_merged_for_itself(ann: Member, team: Path, tmp_path: Path) -> None:
    ann.add(SESSIONS)
    ann.push()
    git(tmp_path, "clone", "--quiet", "--bare", str(team), "upstream.git")
    assert (ann.push(remote=str(tmp_path / "upstream.git")).sent, ann.texts()) == (1, [SESSIONS])
    git(team, "update-ref", "-d", REF)
    assert (ann.pull().deleted_here, ann.push().sent, ann.texts()) == (0, 1, [SESSIONS])


def test_the_state_of_a_fact_is_not_taken_from_others(ann: Member, bob: Member, team: Path) -> None:
    write(team, {name_of("A fact"): written("A fact", state="rejected", turn="x", scope="team")})
    assert (bob.pull().received, bob.texts(), bob.push().deleted_there) == (1, ["A fact"], 0)


def test_nothing_of_a_remote_in_the_folder_is_run(ann: Member, team: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = ann.folder / "origin"
    git(ann.folder, "clone", "--quiet", "--bare", str(team), "origin")
    (evil / "hooks").mkdir(exist_ok=True)
    for name in ("pre-receive", "update", "post-receive", "reference-transaction"):
        (evil / "hooks" / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (evil / "hooks" / name).chmod(0o755)
    git(evil, "config", "core.alternateRefsCommand", f"touch {ran}")
    ann.add(SESSIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ann.folder)
        assert ann.push().remote == str(team)
        assert ann.push(remote="./origin").sent == 1
    assert not ran.exists()


def test_repositories_with_sha256_ids_share_facts(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "first")
    git(tmp_path / "first", "commit", "--quiet", "--allow-empty", "--message", "Begin")
    git(tmp_path, "clone", "--quiet", "--bare", str(tmp_path / "first"), "team.git")
    members = [Member(tmp_path / "team.git", tmp_path / name) for name in ("ann", "bob")]
    members[0].add(SESSIONS)
    assert (members[0].push().sent, members[1].pull().received) == (1, 1)


@pytest.mark.parametrize("target", ["blob", "empty tree"])
def test_a_ref_that_is_no_commit_is_named(ann: Member, team: Path, target: str) -> None:
    ann.add(SESSIONS)
    command = ["hash-object", "-w", "-t", "blob" if target == "blob" else "tree", "/dev/null"]
    git(team, "update-ref", REF, git(team, *command))
    for work in (ann.pull, ann.push):
        with pytest.raises(ConfigError, match="damaged"):
            work()
    assert ann.texts() == [SESSIONS]


def test_a_folder_of_a_repository_shares_its_own_facts(ann: Member, bob: Member) -> None:
    part = Source(str((ann.folder / "snip").resolve()))
    add_fact(ann.engine, "Tokens are checked in auth.py:27-39", source=part)
    exchange_facts(ann.engine, part)
    assert bob.pull() == FactExchange(str(ann.folder.parent / "team.git"))
    same = Source(str((bob.folder / "snip").resolve()))
    assert exchange_facts(bob.engine, same, push=False).received == 1
    assert [fact.places for fact in facts_of(bob.engine).all(same.location)] == [["auth.py:27-39"]]


def test_what_cannot_be_shared_is_said(ann: Member, tmp_path: Path) -> None:
    for remote in ("nowhere", str(tmp_path / "missing")):
        with pytest.raises(ConfigError, match=r"nowhere|missing"):
            ann.push(remote=remote)
    (tmp_path / "plain").mkdir()
    with pytest.raises(ConfigError, match="no git history"):
        exchange_facts(ann.engine, Source(str(tmp_path / "plain")))
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    git(ann.folder, "config", "--unset", "user.email")
    with pytest.raises(ConfigError, match=r"user\.email"):
        ann.push()


def test_a_chosen_conversation_continues_in_another_clone(ann: Member, bob: Member, team: Path) -> None:
    run(ann, "ask", ann.folder, "Where is a token checked?", "--conversation", "login")
    done = run(ann, "facts", "push", "--repo", ann.folder, "--conversation", "login", "--json").json
    assert (done["conversations_sent"], done["sent"]) == (1, 0)
    assert bob.pull().conversations_received == 1
    assert bob.pull().conversations_received == 0
    after = run(bob, "ask", bob.folder, "Who calls it?", "--conversation", "login")
    assert "`authenticate` is called in" in after.out
    assert str(ann.folder) not in json.dumps(conversation_file(team))


def test_a_conversation_that_was_deleted_does_not_come_back(ann: Member, bob: Member) -> None:
    run(ann, "ask", ann.folder, "Where is a token checked?", "--conversation", "login")
    run(ann, "facts", "push", "--repo", ann.folder, "--conversation", "login")
    bob.pull()
    for member in (ann, bob):
        run(member, "turns", "delete", "--conversation", "login", "--yes")
        assert member.pull().conversations_received == 0
    assert bob.push().conversations_received == 0


def test_a_conversation_whose_name_is_taken_gets_a_number(ann: Member, bob: Member) -> None:
    for member in (ann, bob):
        run(member, "ask", member.folder, "Where is a token checked?", "--conversation", "login")
    run(ann, "facts", "push", "--repo", ann.folder, "--conversation", "login")
    pulled = run(bob, "facts", "pull", "--repo", bob.folder)
    assert "another conversation is called login: the one of others is login 2 here" in pulled.err
    assert "token" in run(bob, "turns", "show", "--conversation", "login 2").out


def test_facts_are_pushed_to_where_git_pushes(ann: Member, bob: Member, team: Path) -> None:
    """The address to push to is another one of the same repository: both have one base."""
    git(ann.folder, "remote", "set-url", "--push", "origin", f"file://{team}")
    ann.add(CHECKED)
    assert ann.push().remote == f"file://{team.with_suffix('')}"
    bob.pull()
    forget_fact(bob.engine, facts_of(bob.engine).list(bob.source.location)[0].id)
    bob.push()
    assert (ann.pull().deleted_here, ann.texts()) == (1, [])
    git(ann.folder, "config", f"url.{team}.insteadOf", "https://example.invalid/team")
    git(ann.folder, "remote", "add", "short", "https://example.invalid/team")
    assert ann.pull(remote="short").remote == str(team)


def test_nothing_is_pushed_to_another_repository_without_agreement(
    ann: Member, bob: Member, team: Path, tmp_path: Path
) -> None:
    git(bob.folder, "commit", "--quiet", "--allow-empty", "-m", "later")
    git(bob.folder, "push", "--quiet")
    ann.add(CHECKED)
    assert ann.push().sent == 1, "the remote is ahead, and no other repository"
    assert Member(team, tmp_path / "shallow", "--depth", "1").push().received == 1
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", "other")
    git(other, "-c", "user.name=o", "-c", "user.email=o@o", "commit", "--quiet", "--allow-empty", "-m", "o")
    refused = run(ann, "facts", "push", "--repo", ann.folder, "--remote", other)
    assert refused.code == 2 and "seems to be another repository" in refused.err
    assert git(other, "for-each-ref", REF) == ""
    assert ann.pull(remote=str(other)).received == 0
    agreed = run(ann, "facts", "push", "--repo", ann.folder, "--remote", other, "--yes", "--json")
    assert agreed.json["sent"] == 1
    assert "seems to be another repository; the facts are shared there anyway" in agreed.err


def test_an_empty_repository_is_no_other_one(ann: Member, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "empty.git")
    for fact in (CHECKED, "Tokens expire after an hour."):
        ann.add(fact)
        pushed = run(ann, "facts", "push", "--repo", ann.folder, "--remote", tmp_path / "empty.git", "--yes")
        assert pushed.code == 0 and "another repository" not in pushed.err
    pushed = run(ann, "facts", "push", "--repo", ann.folder, "--remote", tmp_path / "empty.git", "--json")
    assert (pushed.code, pushed.json["sent"]) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"conversation": {"id": "other"}},
        {"conversation": {"parent": "other"}},
        {"conversation": {"sources": [{"location": "/etc", "ref": None, "include": [], "exclude": []}]}},
        {"spans": [["other", 0, None]]},
        {"turn": {"conversation": "other"}},
        {"record": {"shelf": "preferences", "key": "me", "value": "e30=", "expires": None}},
        {"turn": {"order": -1}},
        {"turn": {"citations": [{"location": "/etc"}]}},
    ],
)
def test_a_hostile_conversation_is_left_out(
    ann: Member, bob: Member, team: Path, change: dict[str, object]
) -> None:
    run(ann, "ask", ann.folder, "Where is a token checked?", "--conversation", "login")
    run(ann, "facts", "push", "--repo", ann.folder, "--conversation", "login")
    file, lines = conversation_file(team)
    for line in lines:
        for name, new in change.items():
            if name in line and isinstance(new, dict):
                line[name] |= new
            elif name in line:
                line[name] = new
    lines += [change] if "record" in change else []
    write(team, {file: "\n".join(map(json.dumps, lines)).encode()})
    done = bob.pull()
    assert (done.conversations_received, done.left_out) == (0, 1)
    kept = [*bob.engine.turns.dump(namespace="")]
    assert {line["record"]["shelf"] for line in kept} == {"exchanged-conversations", "exchanged-facts"}


STATES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3))


def as_files(state: dict[str, int]) -> dict[str, bytes]:
    return {
        name: json.dumps({"created": f"2026-01-0{1 + age}", "closed": None}).encode()
        for name, age in state.items()
    }


@given(base=STATES, here=STATES, there=STATES)
def test_both_sides_merge_to_the_same_and_lose_nothing_that_changed(
    base: dict[str, int], here: dict[str, int], there: dict[str, int]
) -> None:
    from hashlib import sha256

    digests = {name: sha256(content).hexdigest() for name, content in as_files(base).items()}
    merged = merged_files(digests, as_files(here), Side(as_files(there)))
    assert merged == merged_files(digests, as_files(there), Side(as_files(here)))
    for one, other in ((here, there), (there, here)):
        for name, age in one.items():
            if base.get(name) != age:  # it is new, or changed
                assert name in merged
                if other.get(name) == base.get(name):
                    assert merged[name] == as_files(one)[name]
    assert set(merged) <= {*here, *there}
