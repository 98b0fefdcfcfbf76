"""Which commits can be read by name where a policy of refs holds, whatever an attacker writes as a ref."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import git
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag.corpus.acquire import acquire, resolve
from rag.corpus.refs import allowed_commit, is_allowed
from rag.errors import RefNotFound
from rag.types import Source

ALLOWED = ("refs/heads", "refs/tags")
SECRET = "the embargoed fix\n"


@dataclass
class Repository:
    """A repository with published and unpublished commits."""

    root: Path
    bare: Path
    published: set[str]
    unpublished: dict[str, str]
    """Commit ids by what they are."""
    names: list[str]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("refs")
    root = folder / "work"
    root.mkdir()
    git(root, "init", "--quiet", "--template=")

    def commit(text: str) -> str:
        (root / "app.py").write_text(text)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", text)
        return git(root, "rev-parse", "HEAD")

    published = {commit("one\n"), commit("two\n")}
    git(root, "tag", "--annotate", "--message", "x", "v1")
    git(root, "checkout", "--quiet", "-b", "feature/x")
    published.add(commit("three\n"))
    unpublished = {}
    for name in ("refs/pull/7/head", "refs/notes/commits", "refs/rag/cited/x", "refs/remotes/private/fix"):
        git(root, "checkout", "--quiet", "--detach", "main")
        unpublished[name] = commit(f"{SECRET}{name}\n")
        git(root, "update-ref", name, unpublished[name])
    unpublished["dangling"] = commit(f"{SECRET}dangling\n")
    git(root, "checkout", "--quiet", "main")
    (root / "app.py").write_text(SECRET)
    git(root, "stash", "--quiet")
    unpublished["refs/stash"] = git(root, "rev-parse", "refs/stash")
    unpublished["index of the stash"] = git(root, "rev-parse", "refs/stash^2")
    bare = folder / "bare.git"
    git(folder, "clone", "--quiet", "--mirror", str(root), str(bare))
    git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    names = ["HEAD", "main", "feature/x", "v1", "refs/heads/main", "heads/main", "tags/v1"]
    return Repository(root, bare, published, unpublished, names)


def commits_of(repository: Repository) -> st.SearchStrategy[str]:
    every = [*repository.published, *repository.unpublished.values()]
    return st.sampled_from(every).flatmap(lambda oid: st.integers(4, 40).map(lambda n: oid[:n]))


_WORDS = st.sampled_from(
    """stash refs/stash refs/pull/7/head pull/7/head refs/notes/commits notes/commits commits private/fix
    remotes/private/fix refs/remotes/private/fix refs/rag/cited/x rag/cited/x ORIG_HEAD FETCH_HEAD HEAD @ main
    feature/x v1 refs/heads/../stash refs/heads/../../refs/stash worktrees/x/HEAD bisect/bad""".split()
)
_TAILS = st.sampled_from(
    [
        "",
        "^",
        "~1",
        "^{commit}",
        "^{/embargoed}",
        "@{0}",
        "@{1}",
        "@{-1}",
        "@{u}",
        "^0",
        "^2",
        "^!",
        ":app.py",
        "-1-g",
    ]
)
_HEADS = st.sampled_from(["", ":/", ":", "^", "--", "refs/", "heads/", "tags/", "./", "x-0-g"])


@settings(max_examples=120)
@given(data=st.data())
def test_no_string_gives_a_commit_that_no_branch_or_tag_reaches(repository, data):
    middle = data.draw(st.one_of(_WORDS, commits_of(repository), st.text(max_size=12)), "middle")
    ref = data.draw(_HEADS, "head") + middle + data.draw(_TAILS, "tail")
    if "\0" in ref:
        return
    found = allowed_commit(repository.root, ref, ALLOWED)
    assert found is None or found in repository.published


def test_what_an_allowed_ref_reaches_may_be_named_by_the_way_to_it(repository):
    oldest = git(repository.root, "rev-list", "--max-parents=0", "main")
    for ref in ("main~1", "v1^", "feature/x~2", "HEAD^1", f"{oldest[:12]}~0"):
        assert allowed_commit(repository.root, ref, ALLOWED) == oldest
    for ref in ("main~9", "refs/stash^2", "stash~1", "main^{/one}", "main~1:app.py", "~1"):
        assert allowed_commit(repository.root, ref, ALLOWED) is None


@pytest.mark.parametrize("place", ["root", "bare"])
def test_what_is_not_published_cannot_be_acquired_by_name_or_id(repository, tmp_path, place):
    location = str(getattr(repository, place).resolve())
    wanted = [
        text for pair in repository.unpublished.items() for text in (*pair, pair[1][:9]) if " " not in text
    ]
    for ref in [*wanted, "stash", "pull/7/head"]:
        with pytest.raises(RefNotFound):
            acquire(Source(location, ref), home=tmp_path, refs=ALLOWED)
    assert not [file for file in tmp_path.rglob("app.py") if SECRET in file.read_text()]


@pytest.mark.parametrize("place", ["root", "bare"])
def test_branches_tags_and_what_they_reach_can_be_acquired(repository, tmp_path, place):
    root = getattr(repository, place)
    location = str(root.resolve())
    by_id = [text for oid in repository.published for text in (oid, oid[:8], oid.upper())]
    for ref in [*repository.names, *by_id]:
        meant = git(root, "rev-parse", f"{ref}^{{commit}}")
        checkout = acquire(Source(location, ref), home=tmp_path, refs=ALLOWED)
        assert checkout.commit == meant, ref
        assert (checkout.root / "app.py").read_text() == git(root, "show", f"{meant}:app.py") + "\n"


def test_without_a_policy_all_that_git_can_name_is_read(repository, tmp_path):
    for name, oid in repository.unpublished.items():
        assert acquire(Source(str(repository.root), oid), home=tmp_path).commit == oid, name


def test_a_clone_that_was_fetched_without_a_policy_is_checked_first(repository, tmp_path):
    location = str(repository.bare.resolve())
    for ref in ("refs/pull/7/head", repository.unpublished["dangling"]):
        if ref != "refs/pull/7/head":
            git(repository.bare, "fetch", "--quiet", str(repository.root), ref)
        source = Source(location, ref)
        assert acquire(source, home=tmp_path).commit in repository.unpublished.values()
        for refresh in (True, False):
            with pytest.raises(RefNotFound):
                acquire(source, home=tmp_path, refs=ALLOWED, refresh=refresh)


@pytest.mark.parametrize(
    ("allowed", "ref", "reads"),
    [
        (("refs/heads/main",), "main", True),
        (("refs/heads/main",), "feature/x", False),
        (("refs/heads/feat*",), "feature/x", True),
        (("refs/heads/feature",), "feature/x", True),
        (("refs/heads/feat",), "feature/x", False),
        (("refs/heads", "refs/pull"), "refs/pull/7/head", True),
        (("refs/stash",), "stash", True),
        ((), "main", False),
    ],
)
@pytest.mark.parametrize("place", ["root", "bare"])
def test_the_policy_is_a_list_of_patterns(repository, tmp_path, place, allowed, ref, reads):
    root = getattr(repository, place).resolve()
    for text in (ref, git(root, "rev-parse", f"{ref}^{{commit}}")):
        source = Source(str(root), text)
        if reads:
            assert acquire(source, home=tmp_path, refs=allowed).commit
        else:
            with pytest.raises(RefNotFound):
                acquire(source, home=tmp_path, refs=allowed)


@given(name=st.text(max_size=20))
@example("refs/headsx/y")
@example("refs/heads")
def test_a_folder_of_refs_allows_what_is_below_it_only(name):
    assert is_allowed(name, ("refs/heads",)) == (name == "refs/heads" or name.startswith("refs/heads/"))


def test_a_ref_of_the_command_line_is_as_free_as_before(repository):
    assert resolve(str(repository.root), "refs/stash").ref == "refs/stash"


@pytest.mark.parametrize("place", ["root", "bare"])
@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("mian", "; similar names: main"),
        ("feature/y", "; similar names: feature/x"),
        ("FEATURE", "; similar names: feature/x"),
        ("v12", "; similar names: v1"),
        ("nothing-like-it", "; it has: "),
        ("f" * 40, "; it has: "),
    ],
)
def test_a_wrong_ref_is_answered_with_those_that_are_like_it(repository, tmp_path, place, ref, says):
    for allowed in (None, ALLOWED):
        with pytest.raises(RefNotFound, match="has no branch, tag or commit") as failed:
            acquire(Source(str(getattr(repository, place).resolve()), ref), home=tmp_path, refs=allowed)
        assert says in str(failed.value) and "ls-remote" not in str(failed.value)


@pytest.mark.parametrize("place", ["root", "bare"])
@pytest.mark.parametrize("ref", ["pull/8", "stash", "private/fiks", "notes", "head"])
def test_a_wrong_ref_is_not_answered_with_one_that_is_not_allowed(repository, tmp_path, place, ref):
    with pytest.raises(RefNotFound) as failed:
        acquire(Source(str(getattr(repository, place).resolve()), ref), home=tmp_path, refs=ALLOWED)
    named = str(failed.value).partition("; ")[2]
    assert named.startswith(("it has: ", "similar names: "))
    assert not [name for name in ("pull", "stash", "private", "notes") if name in named]
