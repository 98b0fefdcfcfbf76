"""What texts say of the code, followed through git histories: `rag check` in every interface."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command import rag
from conftest import git

from rag.corpus.named_history import files_once_with, files_with
from rag.errors import ConfigError, SourceError
from rag.mcp.toolbox import Toolbox
from rag.memory.facts import Fact, Facts
from rag.service import Engine, locate
from rag.service.checks.claims import CheckedText, agent_texts, check_texts
from rag.service.checks.claims_cache import ClaimsCache
from rag.service.checks.facts import add_fact, check_facts, confirm_fact, facts_of
from rag.service.upkeep.retention import KeptFiles
from rag.settings import Settings
from rag.types import Source

AUTH = '''import os

SECRET = os.environ["APP_SECRET"]


def check_token(token):
    """Check a token of a request."""
    if not token:
        raise ValueError("a token is missing")
    return token == SECRET


def other_helper(value):
    return [value, value, "other"]
'''
STORE = "".join(f"def load_{word}(given):\n    return given[{word!r}] + {n}\n\n\n" for n, word in enumerate(
    "amber birch cedar daisy ember flint grove heron".split()
))  # fmt: skip
MAKE = "lint:\n\truff check .\n\ntest:\n\tpytest -x\n"
NOTES = """# Notes

Tokens are checked in `src/auth.py` by `check_token()`.
The rule is `src/auth.py:8-9`, and `src/store.py` loads; `tools/gone.py` and `lib/parts/` too.
Set `APP_SECRET`; run `make lint` and `make test`.
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    files = {
        "src/auth.py": AUTH,
        "src/store.py": STORE,
        "tools/gone.py": "print('a tool that goes')\n",
        "lib/parts/one.py": "ONE = 'the first of the parts'\n",
        "lib/parts/two.py": "TWO = 'the second of the parts'\n",
        "Makefile": MAKE,
        "AGENTS.md": NOTES,
    }
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, files)
    return root


def commit(root: Path, files: Mapping[str, str | None] | None = None) -> str:
    for path, text in (files or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "next")
    return git(root, "rev-parse", "HEAD").strip()


def stale(engine: Engine, root: Path, text: str | None = None, path: str = "") -> dict[str, str]:
    source = locate(str(root))
    texts = agent_texts(engine, source) if text is None else [CheckedText("text", text, path)]
    return {
        one.claim.text: f"{one.state} {one.now or one.commit}".strip()
        for one in check_texts(engine, source, texts)
        if one.is_stale
    }


def test_nothing_is_stale_as_long_as_the_code_is_the_same(engine, root):
    found = check_texts(engine, locate(str(root)), agent_texts(engine, locate(str(root))))
    assert {one.state for one in found} == {"fresh"}
    assert len(found) == 9


def test_each_kind_of_claim_is_followed(engine, root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    git(root, "mv", "lib/parts", "lib/pieces")
    commit(root)
    gone = commit(root, {"tools/gone.py": None})
    half = STORE.index("def load_ember")
    split = commit(root, {"src/store.py": None, "src/first.py": STORE[:half], "src/last.py": STORE[half:]})
    changed = AUTH.replace("check_token", "verify_token").replace("a token is", "it is")
    changed = changed.replace("APP_SECRET", "APP_KEY")
    renaming = commit(root, {"src/tokens.py": changed, "Makefile": MAKE.replace("lint:", "check:")})
    found = stale(engine, root)
    assert split not in found["src/store.py"] or found["src/store.py"] == f"removed {split}"
    assert found.pop("src/store.py").startswith(("removed", "moved src/"))
    assert found == {
        "src/auth.py": "moved src/tokens.py",
        "check_token()": "renamed verify_token",
        "src/auth.py:8-9": "changed src/tokens.py:8-9",
        "tools/gone.py": f"removed {gone}",
        "lib/parts/": "moved lib/pieces/",
        "APP_SECRET": f"removed {renaming}",
        "make lint": f"removed {renaming}",
    }


def test_removed_names_have_the_commit_that_removed_them(engine, root):
    end = AUTH.index("def check_token")
    commit(root, {"src/auth.py": AUTH + "\n# more\n"})
    removed = commit(root, {"src/auth.py": AUTH[:end] + AUTH[AUTH.index("def other_helper") :]})
    target = commit(root, {"Makefile": MAKE[: MAKE.index("test:")]})
    commit(root, {"src/auth.py": "pass\n"})
    found = stale(engine, root)
    assert found["check_token()"] == f"removed {removed}"
    assert found["make test"] == f"removed {target}"


def test_a_renamed_name_is_never_corrected_and_only_certain_with_its_body(engine, root):
    changed = AUTH.replace("check_token", "verify_token")
    commit(root, {"src/auth.py": changed, "Makefile": MAKE.replace("lint:", "nuke-db:")})
    source = locate(str(root))
    found = [one for one in check_texts(engine, source, agent_texts(engine, source)) if one.is_stale]
    said = {one.claim.text: (one.state, one.fix, one.reason) for one in found}
    assert said["check_token()"] == ("renamed", "", "src/auth.py:6")
    assert said["make lint"] == ("removed", "", "it was in Makefile, perhaps now nuke-db")


def test_a_name_that_another_commit_added_is_only_perhaps_the_new_one(engine, root):
    start, end = AUTH.index("def check_token"), AUTH.index("def other_helper")
    other = AUTH[start:end].replace("check_token", "verify_token")
    commit(root, {"src/auth.py": AUTH + "\n\n" + other})
    removed = commit(root, {"src/auth.py": AUTH[:start] + AUTH[end:] + "\n\n" + other})
    assert stale(engine, root)["check_token()"] == f"removed {removed}"


def test_lines_that_moved_have_their_new_place(engine, root):
    commit(root, {"src/auth.py": "# a licence\n\n" + AUTH})
    assert stale(engine, root) == {"src/auth.py:8-9": "moved src/auth.py:10-11"}


def test_a_text_is_compared_as_of_when_its_line_was_written(engine, root):
    commit(root, {"src/auth.py": AUTH.replace("is missing", "is not there")})
    later = "\nThe message is raised in `src/auth.py:9`.\n"
    commit(root, {"AGENTS.md": NOTES + later})
    commit(root, {"src/auth.py": "# one more line\n" + AUTH.replace("is missing", "is not there")})
    assert stale(engine, root) == {
        "src/auth.py:8-9": "changed src/auth.py:9-10",
        "src/auth.py:9": "moved src/auth.py:10",
    }


def test_a_line_that_was_moved_or_in_which_another_place_was_corrected_is_as_old_as_before(engine, root):
    said = "Tokens are in `src/auth.py`, kept by `tools/gone.py`; start with `make lint`.\n"
    commit(root, {"AGENTS.md": f"# Notes\n\n{said}\nMore.\n"})
    git(root, "mv", "src/auth.py", "src/tokens.py")
    gone = commit(root, {"tools/gone.py": None, "Makefile": MAKE.replace("lint:", "nuke-db:")})
    before = stale(engine, root)
    assert before == {
        "src/auth.py": "moved src/tokens.py",
        "tools/gone.py": f"removed {gone}",
        "make lint": f"removed {gone}",
    }
    del before["src/auth.py"]
    corrected = said.replace("src/auth.py", "src/tokens.py")
    (root / "AGENTS.md").write_text(f"# Notes\n\n{corrected}\nMore.\n")
    assert stale(engine, root) == before  # not yet committed
    commit(root, {"AGENTS.md": f"# Notes\n\nMore.\n\n## Layout\n\n{corrected}"})
    assert stale(engine, root) == before
    assert stale(engine, root) == before  # from the cache
    confirmed = corrected.replace("kept by", "formerly kept by")
    commit(root, {"AGENTS.md": f"# Notes\n\nMore.\n\n## Layout\n\n{confirmed}"})
    assert stale(engine, root) == {}


def test_what_was_never_there_or_went_with_the_text_is_no_claim(engine, root):
    text = "`no/such.py`, `never_was()`, `NO_SUCH_THING`, `make nothing`, no/such.py:999, ../../etc/passwd"
    assert stale(engine, root, text) == {}
    commit(
        root, {"tools/gone.py": None, "AGENTS.md": NOTES.replace("`tools/gone.py`", "not `tools/gone.py`")}
    )
    assert stale(engine, root) == {}


def test_lines_that_a_file_never_had_are_stale(engine, root):
    commit(root, {"AGENTS.md": "See `src/auth.py:9999`, and `no/such.py:9999`.\n"})
    (found,) = (one for one in check_texts(engine, *_texts(engine, root)) if one.is_stale)
    assert str(found) == "src/auth.py:9999: the file has only 14 lines"


def _texts(engine: Engine, root: Path) -> tuple[Source, list[CheckedText]]:
    return locate(str(root)), agent_texts(engine, locate(str(root)))


def test_a_generated_file_that_git_ignores_is_not_missing(engine, root):
    commit(root, {"tools/gone.py": None, ".gitignore": "/tools/\n"})
    assert stale(engine, root) == {}


def test_an_ignored_folder_is_not_missing_and_a_path_beyond_a_link_is_no_obstacle(engine, root):
    (root / "link").symlink_to("src")
    commit(root, {"lib/parts/one.py": None, "lib/parts/two.py": None, ".gitignore": "parts/\n/tools/\n"})
    commit(root, {"tools/gone.py": None, "AGENTS.md": NOTES + "And `link/no/such.py`.\n"})
    (root / "lib/parts").rmdir()
    assert stale(engine, root) == {}


def test_a_path_that_other_paths_end_with_is_not_that_path(engine, root):
    commit(
        root, {"AGENTS.md": "`one/conf.py`\n", "one/conf.py": "ONE = 1\n", "more/one/conf.py": "TWO = 2\n"}
    )
    gone = commit(root, {"one/conf.py": None})
    assert stale(engine, root) == {"one/conf.py": f"removed {gone}"}
    assert stale(engine, root, "`more/one/conf.py`") == {}


def test_lines_are_dated_again_after_a_rebase(engine, root):
    git(root, "checkout", "--quiet", "-b", "side")
    commit(root, {"docs/AGENTS.md": "Read `lib/parts/two.py`.\n"})
    assert stale(engine, root, None) == {}
    git(root, "checkout", "--quiet", "main")
    commit(root, {"Makefile": MAKE + "# more\n"})
    git(root, "checkout", "--quiet", "side")
    git(root, "mv", "lib/parts/two.py", "lib/parts/second.py")
    commit(root)
    assert stale(engine, root) == {"lib/parts/two.py": "moved lib/parts/second.py"}
    git(root, "rebase", "--quiet", "main")
    assert stale(engine, root) == {"lib/parts/two.py": "moved lib/parts/second.py"}


def test_what_is_known_of_one_branch_is_used_for_another(engine, root, monkeypatch):
    commit(root, {"src/auth.py": AUTH.replace("check_token", "verify_token")})
    git(root, "branch", "side", "HEAD~1")
    expected = stale(engine, root)
    git(root, "checkout", "--quiet", "side")
    commit(root, {"src/more.py": "MORE = 1\n"})

    def dated(*_: object, **__: object) -> None:
        raise AssertionError("the lines are known")

    monkeypatch.setattr("rag.service.checks.claims.written_in", dated)
    assert stale(engine, root, None) == {}
    git(root, "merge", "--quiet", "--no-edit", "main")
    assert stale(engine, root) == expected == {"check_token()": "renamed verify_token"}


def test_lines_of_a_file_that_is_not_text_are_gone_with_it(engine, root):
    (root / "logo.png").write_bytes(b"\x89PNG\0\n" * 9)
    commit(root, {"AGENTS.md": "See `logo.png:2-3` and `src/auth.py:900`.\n"})
    assert stale(engine, root) == {"src/auth.py:900": "changed"}
    (root / "logo.png").unlink()
    gone = commit(root, {"src/auth.py": None})
    assert stale(engine, root) == {
        "logo.png:2-3": f"removed {gone}",
        "src/auth.py:900": f"removed {gone}",
    }


def test_names_are_found_in_a_clone_without_some_files(engine, root, tmp_path):
    commit(root, {"big.txt": "check_token\n" * 200, "AGENTS.md": "Call `check_token()`.\n"})
    commit(root, {"src/auth.py": AUTH.replace("check_token", "verify_token"), "big.txt": None})
    git(root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:limit=2k", f"file://{root}", "partial")
    assert stale(engine, tmp_path / "partial") == {"check_token()": "renamed verify_token"}


def test_a_damaged_cache_is_written_again(engine, root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    first = stale(engine, root)
    for file in (engine.settings.home / "lineage").iterdir():
        file.write_bytes(b"damaged")
    assert stale(engine, root) == first != {}


def test_commits_of_side_branches_are_followed(engine, root):
    git(root, "checkout", "--quiet", "-b", "side")
    commit(root, {"docs/side.md": "See `src/store.py`.\n"})
    git(root, "checkout", "--quiet", "main")
    git(root, "mv", "src/store.py", "src/shop.py")
    commit(root)
    git(root, "merge", "--quiet", "--no-edit", "side")
    text = (root / "docs/side.md").read_text()
    assert stale(engine, root, text, "docs/side.md") == {"src/store.py": "moved src/shop.py"}


def test_a_text_that_was_written_after_a_move_is_not_stale(engine, root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    moved = commit(root)
    commit(
        root, {"AGENTS.md": "`src/auth.py` was renamed to `src/tokens.py`; `src/none.py` is an example.\n"}
    )
    assert stale(engine, root) == {}
    said = [str(one) for one in check_texts(engine, *_texts(engine, root))]
    assert said == [
        f"src/auth.py: names nothing in the repository (removed in {moved[:10]}, before this was written)",
        "src/tokens.py: fresh",
        "src/none.py: names nothing in the repository",
    ]


def test_a_text_of_a_merged_branch_that_was_written_after_a_move_is_not_stale(engine, root):
    git(root, "checkout", "--quiet", "-b", "side")
    git(root, "mv", "src/auth.py", "src/tokens.py")
    git(root, "mv", "lib/parts", "lib/pieces")
    commit(root)
    commit(root, {"AGENTS.md": "`src/auth.py` became another, and so did `lib/parts/`.\n"})
    git(root, "checkout", "--quiet", "main")
    commit(root, {"src/store.py": STORE + "# more\n"})
    git(root, "merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert stale(engine, root) == {}


def fixes(engine: Engine, root: Path, text: str) -> list[tuple[str, str]]:
    found = check_texts(engine, locate(str(root)), [CheckedText("text", text)])
    return [(one.fix, one.reason) for one in found if one.is_stale]


def test_only_a_certain_place_is_a_correction(engine, root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    git(root, "mv", "lib/parts/one.py", "lib/parts/of $(shell).py")
    commit(root, {"src/shop.py": STORE.replace("amber", "azure"), "src/store.py": None})
    commit(root)
    assert fixes(engine, root, "`src/auth.py`") == [("src/tokens.py", "")]
    assert fixes(engine, root, "`src/auth.py` was renamed to `src/tokens.py`") == [("", "")]
    assert fixes(engine, root, "```\ncat src/auth.py\n```") == [("", "")]
    assert fixes(engine, root, "https://host/a,src/auth.py") == []
    assert fixes(engine, root, "`lib/parts/one.py`") == [("", "")]
    assert fixes(engine, root, "`src/store.py`") == [("", "perhaps moved to src/shop.py")]


def test_a_shallow_clone_and_a_plain_folder_do_not_guess(engine, root, tmp_path):
    commit(root, {"tools/gone.py": None})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{root}", "shallow")
    with pytest.raises(SourceError, match="it is a shallow clone"):
        stale(engine, tmp_path / "shallow", "`tools/gone.py`")
    assert rag("check", cwd=tmp_path / "shallow").code == 2
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match="no git history"):
        stale(engine, tmp_path / "plain", "`tools/gone.py`")


def test_a_history_that_git_cannot_read_in_time_is_an_error(engine, root, monkeypatch):
    commit(root, {"tools/gone.py": None})

    def slow(*_: object, **__: object) -> bytes:
        raise SourceError("git took too long")

    monkeypatch.setattr("rag.corpus.lineage.run_git", slow)
    with pytest.raises(SourceError, match="git took too long"):
        stale(engine, root)


def test_a_name_with_too_many_uses_is_left_out(engine, root, monkeypatch):
    commit(root, {"src/uses.py": "print(other_helper)\n" * 500, "AGENTS.md": NOTES + "`other_helper()`\n"})
    start, end = AUTH.index("def check_token"), AUTH.index("def other_helper")
    commit(root, {"src/auth.py": AUTH[:start] + AUTH[end:]})
    monkeypatch.setattr("rag.corpus.named_history._MAX_BYTES", 5_000)
    found = {one.claim.text: one.state for one in check_texts(engine, *_texts(engine, root))}
    assert (found["other_helper()"], found["check_token()"]) == ("fresh", "removed")


def test_names_that_cannot_be_followed_in_time_are_said_and_the_rest_is_checked(engine, root, monkeypatch):
    def late(*_: object, **__: object) -> None:
        raise SourceError("git took too long")

    git(root, "mv", "src/store.py", "src/loads.py")
    commit(root, {"src/auth.py": AUTH.replace("check_token", "check_pass")})
    monkeypatch.setattr("rag.service.checks.claims.files_once_with", late)
    said: list[str] = []
    engine.notice = said.append
    assert stale(engine, root) == {"src/store.py": "moved src/loads.py"}
    assert said == ["what became of 1 name is not known: git took too long"]


def test_names_that_begin_alike_are_found_as_whole_words(root):
    names = ["q" * length for length in range(1, 301)] + ["load_a", "load_amber", "APP_SECRET", "APP", "$x"]
    found = files_with(root, names)
    assert found == {"load_amber": ["src/store.py"], "APP_SECRET": ["AGENTS.md", "src/auth.py"]}
    commits = git(root, "rev-list", "HEAD").split()
    once = files_once_with(root, names, commits)
    assert all(held == found for held in once.values()) and set(once) == set(commits)
    blob = git(root, "rev-parse", "HEAD:src/store.py").strip()
    assert "load_amber" not in files_once_with(root, names, commits, unsearched=[blob])[commits[0]]


def test_a_check_of_a_changed_folder_finds_what_a_check_without_a_cache_finds(engine, root, tmp_path):
    source = locate(str(root))
    without = AUTH.replace("check_token", "verify_token")

    def compared(step: str) -> list[str]:
        home = Settings(home=tmp_path / step, memory="memory:")
        with closing(Engine(home)) as other:
            texts = agent_texts(other, source)
            every = check_texts(other, source, texts)
        assert check_texts(engine, source, texts) == every, step
        return [one.claim.text for one in every if one.is_stale]

    assert compared("first") == []
    (root / "src/auth.py").write_text(without)
    assert compared("changed, not committed") == ["check_token()"]
    (root / "src/new.py").write_text("def check_token(): ...\n")
    assert compared("a new file, not committed") == []
    (root / "src/new.py").unlink()
    git(root, "checkout", "--quiet", "src/auth.py")
    assert compared("as committed") == []
    (root / "src/auth.py").unlink()
    assert "check_token()" in compared("deleted, not committed")
    git(root, "checkout", "--quiet", "src/auth.py")
    commit(root, {"src/auth.py": without})
    assert compared("changed in a commit") == ["check_token()"]
    commit(root, {"src/other.py": "def check_token(): ...\n"})
    assert compared("added in a commit") == []
    git(root, "reset", "--quiet", "--hard", "HEAD~1")
    assert compared("back at an earlier commit") == ["check_token()"]
    commit(root, {"src/auth.py": AUTH})
    commit(root, {"AGENTS.md": NOTES.replace("Tokens", "All tokens") + "\n`load_amber` loads.\n"})
    commit(root, {"src/store.py": STORE.replace("load_amber", "read_amber")})
    assert compared("with a new text") == ["load_amber"]


def test_only_unknown_names_and_changed_files_are_searched_again(tmp_path):
    asked: list[tuple[set[str], set[str]]] = []
    files = {"one": {"a.py", "b.py"}, "two": {"b.py"}}

    def search(names: Collection[str], paths: Collection[str]) -> dict[str, set[str]]:
        asked.append((set(names), set(paths)))
        return {
            name: held
            for name in names
            if (held := files.get(name, set()) & (set(paths) or {"a.py", "b.py"}))
        }

    def cache(at: str, changed: Collection[str] | None = ()) -> ClaimsCache:
        return ClaimsCache(tmp_path, tmp_path, at, lambda before: changed)

    def found(known: ClaimsCache, names: set[str], differing: set[str] = frozenset()) -> dict[str, set[str]]:
        held = {name: set(paths) for name, paths in known.holders(names, differing, search, ()).items()}
        known.save()
        return {name: held[name] for name in names}

    assert found(cache("1"), {"one", "three"}) == {"one": {"a.py", "b.py"}, "three": set()}
    assert found(cache("1"), {"one", "two"})["two"] == {"b.py"}
    assert asked == [({"one", "three"}, set()), ({"two"}, set())]
    files["one"] = {"b.py"}
    assert found(cache("2", {"a.py"}), {"one"}) == {"one": {"b.py"}}
    assert asked[2:] == [({"one", "two", "three"}, {"a.py"})]
    found(cache("2"), {"one"}, {"b.py"})
    found(cache("2"), {"one"})
    assert asked[3:] == [({"one", "two", "three"}, {"b.py"})] * 2
    found(cache("3", None), {"one"})
    assert asked[5:] == [({"one"}, set())]


def test_the_size_of_the_cache_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("rag.service.checks.claims_cache._MAX_HOLDERS", 3)
    held = {"often": ["a", "b", "c"], "rarely": ["a"]}
    for asked in ({"often", "rarely"}, {"often"}):
        known = ClaimsCache(tmp_path, tmp_path, "1", lambda before: ())
        new: set[str] = set()
        known.holders(held, (), lambda names, paths: new.update(names) or held, ())  # noqa: B023
        assert new == asked
        known.save()


def test_too_much_is_refused(engine, root):
    texts = [CheckedText(str(n), "") for n in range(501)]
    with pytest.raises(ConfigError, match="501 texts"):
        check_texts(engine, locate(str(root)), texts)
    with pytest.raises(ConfigError, match="2,000,001 characters"):
        check_texts(engine, locate(str(root)), [CheckedText("big", "x" * 2_000_001)])


# ---------------------------------------------------------------- the command


def test_the_command_reports_fixes_and_exits(root):
    assert rag("check", cwd=root).code == 0
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root, {"tools/gone.py": None})
    done = rag("check", cwd=root)
    assert done.code == 1
    assert "AGENTS.md:3:24: src/auth.py: moved to src/tokens.py" in done.out
    assert "rag: `rag check --fix` corrects 2 of them" in done.err
    fixed = rag("check", "AGENTS.md", "--fix", cwd=root)
    assert (fixed.code, "corrected 2 places" in fixed.err) == (1, True)
    expected = NOTES.replace("src/auth.py", "src/tokens.py")
    assert (root / "AGENTS.md").read_bytes() == expected.encode()
    assert rag("check", "-", cwd=root, stdin="See `src/store.py`.").code == 0
    for wrong in (("--fix", "-"), ("--format", "xml"), ("no-such.md",)):
        assert rag("check", *wrong, cwd=root).code == 2


def test_the_command_has_formats_for_programs(root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    first, *_ = json.loads(rag("check", "--json", cwd=root).out)["claims"]
    assert (first["file"], first["line"], first["column"], first["end_column"]) == ("AGENTS.md", 3, 24, 35)
    assert (first["kind"], first["state"], first["now"]) == ("path", "moved", "src/tokens.py")
    log = json.loads(rag("check", "--format", "sarif", cwd=root).out)
    result = log["runs"][0]["results"][0]
    assert (log["version"], result["ruleId"], result["level"]) == ("2.1.0", "moved", "warning")
    assert (
        result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == first["fix"]
    )
    line, *_ = rag("check", "--format", "github", cwd=root).out.splitlines()
    assert line.startswith("::warning file=AGENTS.md,line=3,col=24,endColumn=35,title=rag check::src/auth.py")


def test_a_log_has_encoded_paths_and_may_be_empty(root):
    commit(root, {"a b#1.md": NOTES, "AGENTS.md": None})
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    result = json.loads(rag("check", "a b#1.md", "--format", "sarif", cwd=root).out)["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b%231.md"}
    assert json.loads(rag("check", "--format", "sarif", cwd=root).out)["runs"][0]["results"] == []
    assert json.loads(rag("check", "--json", cwd=root).out) == {"claims": []}


def test_a_file_with_other_bytes_keeps_them(root):
    content = b"See src/auth.py.\r\n\xff\xfe caf\xe9 `src/auth.py`\n"
    (root / "MEMORY.md").write_bytes(content)
    commit(root)
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    assert rag("check", "MEMORY.md", "--fix", cwd=root).code == 0
    assert (root / "MEMORY.md").read_bytes() == content.replace(b"src/auth.py", b"src/tokens.py")


def test_a_file_that_is_given_twice_is_read_once(root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    (root / "LINK.md").symlink_to("AGENTS.md")
    commit(root)
    fixed = rag("check", "AGENTS.md", "./AGENTS.md", "LINK.md", "--fix", cwd=root)
    assert "1 text:" in fixed.err and "corrected 2 places" in fixed.err
    assert (root / "AGENTS.md").read_text() == NOTES.replace("src/auth.py", "src/tokens.py")


def test_only_regular_files_of_the_repository_are_corrected(root, tmp_path):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    outside = tmp_path / "outside.md"
    outside.write_text(NOTES)
    (root / "LINK.md").symlink_to(outside)
    refused = rag("check", "AGENTS.md", "LINK.md", "--fix", cwd=root)
    assert (refused.code, "outside of the repository" in refused.err) == (2, True)
    assert outside.read_text() == (root / "AGENTS.md").read_text() == NOTES
    os.mkfifo(root / "pipe.md")
    assert rag("check", "pipe.md", cwd=root).code == 2


def test_the_reply_to_an_agent_is_one_line_for_each_claim(engine, root):
    (root / "src/new\n- ok").mkdir()
    git(root, "mv", "src/auth.py", "src/new\n- ok/auth.py")
    commit(root)
    commit(root)

    async def run(work: Callable[[], Any], **_: object) -> Any:
        return work()

    repository = SimpleNamespace(source=locate(str(root)))
    host: Any = SimpleNamespace(engine=engine, repository=lambda _: repository, run=run)
    progress: Any = None
    reply = asyncio.run(Toolbox(host).check(progress, "See `src/auth.py`."))
    assert reply.text.splitlines()[2:] == [r"- text:1:6: src/auth.py: moved to src/new\n- ok/auth.py"]


# ---------------------------------------------------------------- facts


def test_a_fact_is_bound_to_what_it_names(engine, root):
    source = locate(str(root))
    fact = add_fact(
        engine, "Tokens are checked in src/auth.py:8-9 by check_token, see `make lint`", source=source
    )
    assert [one.place for one in fact.citations] == ["src/auth.py:8-9", "src/auth.py:6-10", "Makefile:1-2"]
    assert fact.note == ""
    assert check_facts(engine, [fact], [source])[0].freshness.state == "fresh"
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    (moved,) = check_facts(engine, [fact], [source])
    assert moved.freshness.state == "moved"
    commit(root, {"src/tokens.py": AUTH.replace("a token is missing", "there is none")})
    (changed,) = check_facts(engine, [fact], [source])
    assert changed.freshness.state == "changed"
    assert changed.places[0].startswith("src/auth.py:8-9  changed → src/tokens.py:8-9")


def test_a_fact_depends_on_names_in_the_files_that_it_names(engine, root):
    tasks = "env:\n  APP_SECRET: 256\n"
    commit(root, {"tasks.yml": tasks, "src/other.py": AUTH})
    source = locate(str(root))
    fact = add_fact(engine, "check_token in src/auth.py compares with APP_SECRET", source=source)
    assert {one.place for one in fact.citations} == {"src/auth.py:6-10", "src/auth.py", "src/auth.py:3-3"}
    whole = add_fact(engine, "src/auth.py:3-10 reads APP_SECRET in check_token", source=source)
    assert [one.place for one in whole.citations] == ["src/auth.py:3-10"]
    commit(root, {"tasks.yml": tasks.replace("256", "512")})
    assert {one.freshness.state for one in check_facts(engine, [fact, whole], [source])} == {"fresh"}


def test_a_fact_about_a_file_is_true_while_there_is_one(engine, root):
    source = locate(str(root))
    fact = add_fact(engine, "Every loader is in src/store.py.", source=source)
    assert [one.place for one in fact.citations] == ["src/store.py"]
    commit(root, {"src/store.py": STORE + "# more\n"})
    assert check_facts(engine, [fact], [source])[0].freshness.state == "fresh"
    git(root, "mv", "src/store.py", "src/shop.py")
    commit(root)
    (moved,) = check_facts(engine, [fact], [source])
    assert str(moved.freshness) == "moved → src/shop.py"
    commit(root, {"src/shop.py": None})
    assert check_facts(engine, [fact], [source])[0].freshness.state == "gone"


def test_a_fact_that_names_nothing_says_so_once(engine, root):
    source = locate(str(root))
    fact = add_fact(engine, "Releases are cut on Fridays", source=source)
    assert fact.citations == () and fact.note.startswith("it names no place")
    assert check_facts(engine, [fact], [source])[0].note == fact.note
    (stored,) = facts_of(engine).list()
    assert stored.note == ""


def test_a_fact_of_uncommitted_lines_and_of_a_plain_folder_is_bound(engine, root, tmp_path):
    (root / "src/auth.py").write_text(AUTH.replace("a token is missing", "it is not committed"))
    dirty = add_fact(engine, "See src/auth.py:9", source=locate(str(root)))
    assert dirty.citations[0].dirty
    git(root, "checkout", "--quiet", "src/auth.py")
    assert check_facts(engine, [dirty], [locate(str(root))])[0].freshness.state == "changed"
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "auth.py").write_text(AUTH)
    fact = add_fact(engine, "check_token compares, see auth.py:8", source=locate(str(plain)))
    assert [one.place for one in fact.citations] == ["auth.py:8-8", "auth.py:6-10"]


def test_a_fact_that_was_stored_without_places_is_bound_when_it_is_confirmed(engine, root):
    old = Fact("check_token compares with SECRET", str(root), state="proposed")
    (stored,) = Facts(engine.turns, namespace=engine.settings.namespace).add([old])
    confirmed = confirm_fact(engine, stored.id)
    assert [one.place for one in confirmed.citations] == ["src/auth.py:6-10"]


def test_bytes_with_a_secret_are_not_stored_for_a_fact(engine, root):
    secret = "ghp_" + "k3Jd8sLq0ZpXv7Bn2MwRt5YcHf9GaE1uQ6Ti"
    commit(root, {"src/keys.py": f"KEY = {secret!r}\n\n\ndef read_keys_now():\n    return KEY\n"})
    fact = add_fact(engine, "read_keys_now reads them, see src/keys.py:4", source=locate(str(root)))
    blobs = {one.blob for one in fact.citations}
    assert blobs and KeptFiles(engine.turns, engine.settings.namespace).contents(blobs) == {}


def test_renames_are_followed_in_a_clone_without_some_files(engine, root, tmp_path):
    big = STORE.replace("load_", "big_") * 9
    commit(root, {"big/one.py": big, "big/two.py": big})
    git(root, "mv", "src/store.py", "src/shop.py")
    commit(root, {"src/shop.py": STORE.replace("amber", "azure")})
    git(root, "mv", "big/one.py", "big/first.py")
    commit(root, {"big/first.py": f"{big}# more\n", "big/two.py": f"{big}# more\n"})
    git(root, "mv", "src/shop.py", "src/loads.py")
    commit(root, {"src/loads.py": STORE.replace("birch", "beech")})
    git(root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:limit=2k", f"file://{root}", "partial")
    text = "`src/store.py` and `big/one.py`"
    assert fixes(engine, tmp_path / "partial", text) == [("", "perhaps moved to src/loads.py"), ("", "")]


def test_a_name_that_was_removed_before_its_file_was_renamed_again_is_dated_right(engine, root):
    git(root, "mv", "src/auth.py", "src/login.py")
    commit(root)
    start, end = AUTH.index("def check_token"), AUTH.index("def other_helper")
    removed = commit(root, {"src/login.py": AUTH[:start] + AUTH[end:]})
    git(root, "mv", "src/login.py", "src/tokens.py")
    commit(root)
    assert stale(engine, root)["check_token()"] == f"removed {removed}"


def test_standard_input_is_not_offered_a_correction(root):
    git(root, "mv", "src/auth.py", "src/tokens.py")
    commit(root)
    commit(root)
    said = rag("check", "-", cwd=root, stdin="See `src/auth.py`.")
    assert "moved to src/tokens.py" in said.out and "--fix" not in said.err


def test_a_name_that_is_too_common_is_searched_again(tmp_path: Path) -> None:
    known = ClaimsCache(tmp_path, tmp_path, "a" * 40, lambda commit: ())
    searched: list[set[str]] = []

    def search(names: Collection[str], paths: Collection[str]) -> dict[str, list[str]]:
        searched.append(set(names))
        return {"rare": ["a.py"]}

    for _ in range(2):
        known.holders({"rare", "get"}, (), search, {"get"})
    assert searched == [{"rare", "get"}, {"get"}]
