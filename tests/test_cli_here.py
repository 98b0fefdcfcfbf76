"""Where no repository is named the current folder is meant, unless it can hardly be."""

import contextlib

import pytest
from command import rag, rag_process
from conftest import git

from rag.cli import is_question, is_source_alone
from rag.errors import SourceNotFound
from rag.service import locate

ASKED = ("ask", "Where is a token checked?")


@pytest.mark.parametrize("words", [ASKED, ("search", "token"), ("index",), ("chat",), ("wiki",), ("mcp",)])
def test_a_home_folder_is_not_indexed_unasked(words, isolated_home, tmp_path):
    (isolated_home / "letter.txt").write_text("Where is a token checked?\n")
    done = rag(*words, cwd=isolated_home)
    assert (done.code, done.out) == (2, "")
    assert "no repository was named, and this is" in done.err
    assert not (tmp_path / "rag-home" / "stores").exists()


@pytest.mark.parametrize("folder", ["/", "/usr"])
def test_the_root_of_the_file_system_is_not_meant_by_itself(folder, monkeypatch):
    monkeypatch.setenv("HOME", "/usr/lib")
    with contextlib.chdir(folder):
        with pytest.raises(SourceNotFound, match="change to a repository, name one"):
            locate(None)
        assert locate(".").location == folder


def test_a_home_folder_that_is_named_or_in_git_is_indexed(isolated_home):
    (isolated_home / "auth.py").write_text("def check(token):\n    return token == 'no'\n")
    named = rag("index", ".", cwd=isolated_home)
    assert named.code == 0, named.err
    git(isolated_home, "init", "--quiet")
    in_git = rag(*ASKED, cwd=isolated_home)
    assert "auth.py" in in_git.out, in_git.err


def test_a_conversation_goes_on_from_home(sample_repo, isolated_home):
    rag("ask", sample_repo, "Where is a token checked?")
    assert rag("ask", "And who calls it?", "-c", cwd=isolated_home).code == 0


def test_the_last_conversation_is_that_about_the_repository(sample_repo, tmp_path, isolated_home):
    other = tmp_path / "other"
    other.mkdir()
    (other / "jokes.py").write_text("def joke():\n    return 'Why did the session expire?'\n")
    rag("ask", sample_repo, "How are sessions signed?", "--conversation", "login")
    rag("ask", other, "Where is the joke?", "--conversation", "jokes")
    for cwd, words, repository in (
        (sample_repo / "snip", (), sample_repo),
        (other, (), other),
        (tmp_path, (sample_repo,), sample_repo),
        (sample_repo, (other,), other),
        (sample_repo, ("--last",), other),
    ):
        flag = () if "--last" in words else ("-c",)
        sources, options = [w for w in words if w != "--last"], [w for w in words if w == "--last"]
        done = rag("ask", *sources, "And who calls it?", *flag, *options, "--json", cwd=cwd)
        assert done.json["repositories"] == [str(repository)], done
    nobody_asked = rag("ask", tmp_path, "And who calls it?", "-c")
    assert nobody_asked.code == 2 and "--last" in nobody_asked.err
    elsewhere = rag("ask", "And who calls it?", "-c", cwd=isolated_home)
    assert "continuing the last conversation, jokes, about other" in elsewhere.err


def test_a_conversation_follows_a_folder_that_left_a_link(sample_repo, tmp_path):
    rag("ask", sample_repo, "How are sessions signed?", "--conversation", "login")
    moved = tmp_path / "moved"
    sample_repo.rename(moved)
    for place, flag in (([], "-c"), ([moved], "-c"), ([moved], "--conversation=login")):
        lost = rag("ask", *place, "And when do they expire?", flag)
        assert lost.code == 2
        assert f"ln -s NEW_FOLDER {sample_repo}" in lost.err
    sample_repo.symlink_to(moved)
    assert rag("ask", "And when do they expire?", "-c").code == 0
    assert rag("ask", moved, "Is there a test for it?", "-c").code == 0
    assert rag("turns", "about", moved / "snip" / "sessions.py").code == 0
    assert rag("turns", "about", "snip/sessions.py", "--repo", moved).code == 0
    assert rag("turns", "check").err == "rag: 3 fresh\n"


@pytest.mark.parametrize(
    ("words", "is_asked"),
    [
        (["Where is a token checked?"], True),
        (["And who calls it?", "-c"], True),
        ([".", "Where is a token checked?"], True),
        (["@all", "Where is a token checked?"], True),
        (["https://example.org/web.git", "Where is a token checked?"], True),
        ([".", "--model", "x", "Where is a token checked?"], True),
        (["aks", "Where is a token checked?"], False),
        (["authenticate"], False),
        (["search", "Where is a token checked?"], False),
        (["--model", "a model"], False),
        ([" "], False),
        ([], False),
    ],
)
def test_a_text_with_a_space_is_a_question_and_a_word_is_a_command(words, is_asked):
    assert is_question(words) == is_asked


def test_a_question_needs_no_command(sample_repo):
    done = rag_process("Where is a token checked?", cwd=sample_repo)
    assert "in function `authenticate` (`snip/auth.py:27`) [1]" in done.out.splitlines()[0]
    assert rag_process(sample_repo, "Who calls it?", "--about", "authenticate").code == 0
    assert rag_process(sample_repo.name, "Where is a token checked?", cwd=sample_repo.parent).out == done.out
    wrong = rag_process("aks", "Where is a token checked?", cwd=sample_repo)
    assert wrong.code == 2 and "Did you mean 'ask'?" in wrong.err


@pytest.mark.parametrize(
    ("words", "is_alone"),
    [
        (["."], True),
        (["../shop"], True),
        (["https://example.org/web.git", "--json"], True),
        (["@all"], True),
        ([".", "--model", "x"], True),
        (["ask"], False),
        (["shop"], False),
        ([".", "ask"], False),
        (["--version"], False),
        ([], False),
    ],
)
def test_a_source_alone_asks_for_its_overview(words, is_alone):
    assert is_source_alone(words) == is_alone


def test_a_folder_alone_has_its_overview(sample_repo):
    done = rag_process(".", cwd=sample_repo)
    assert done.out.startswith("**sample_repo**: ") and "- Test: `" in done.out
