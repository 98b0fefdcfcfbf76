"""`rag turns check`, `about`, and what `show` says: a person's walk."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import rag
from conftest import git

PATH = "shortener/signing.py"
QUESTION = "How is a token signed?"


@pytest.fixture
def asked(sample_repo: Path) -> Path:
    """The sample repository, of which one question was asked in the conversation `signing`."""
    (sample_repo / "shortener").mkdir(exist_ok=True)
    write(sample_repo, "import hmac\n\n\n" + SIGN)
    assert rag("ask", sample_repo, QUESTION, "--conversation", "signing").code == 0
    return sample_repo


SIGN = '''def sign_the_token(token, pepper):
    """Sign a token with the pepper of the house."""
    mixture = stir(token, pepper)
    return seal(mixture, with_wax=True)
'''


def write(root: Path, text: str) -> None:
    (root / PATH).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "next")


def test_a_cited_function_moves_and_is_re_anchored_then_changes_and_is_stale(asked):
    first = rag("turns", "check", "signing", "--json").json[0]
    assert first["number"] == 1
    assert {c["freshness"]["state"] for c in first["citations"]} == {"fresh"}
    write(asked, "import os\nimport hmac\n\n\n" + SIGN)
    done = rag("turns", "check", "signing")
    assert done.code == 0
    assert f"1. {QUESTION}  [moved]" in done.out
    assert f"moved → {PATH}:2-8" in done.out
    assert "1 moved" in done.err
    write(asked, "import os\nimport hmac\n\n\n" + SIGN.replace("True", "False"))
    assert f"1. {QUESTION}  [changed]" in rag("turns", "check").out
    assert (
        f"now sign_the_token: changed → {PATH}:5-8 (75% of the lines are unchanged)"
        in rag("turns", "show").out
    )
    assert f"1. {QUESTION}  (stale: the code has changed since)" in rag("turns", "show", "1").out
    git(asked, "rm", "--quiet", PATH)
    gone = rag("turns", "check").out
    assert f"1. {QUESTION}  [gone]" in gone
    assert "gone (the file was removed)" in gone
    git(asked, "commit", "--quiet", "--message", "next")
    assert "[fresh]" in rag("turns", "check", "--as-of", "HEAD~3").out
    missing = rag("turns", "check", "--as-of", "nowhere")
    assert missing.code == 2
    assert "has no branch, tag or commit 'nowhere'" in missing.err


def test_the_answers_about_a_line_are_listed(asked):
    write(asked, "import os\nimport hmac\n\n\n" + SIGN)
    done = rag("turns", "about", f"{PATH}:6", cwd=asked)
    assert done.code == 0
    assert done.out.startswith(f"signing 1. {QUESTION}")
    (found,) = rag("turns", "about", PATH, "--repo", asked, "--json").json
    assert {c["path"] for c in found["citations"]} == {PATH}
    by_name = rag("turns", "about", "sign_the_token", cwd=asked)
    assert by_name.code == 0 and f"1. {QUESTION}  [moved]" in by_name.out
    unknown = rag("turns", "about", "sign_the_tokne", cwd=asked)
    assert (
        unknown.code == 1
        and "there is no such file; the index has no definition sign_the_tokne" in unknown.err
    )
    nothing = rag("turns", "about", "README.md:1000", cwd=asked)
    assert (nothing.code, nothing.out) == (1, "")
    assert rag("turns", "about", "x.py", cwd=asked.parent).code == 2
    for wrong in ("0", "7-6", "0-3"):
        no_lines = rag("turns", "about", f"{PATH}:{wrong}", cwd=asked)
        assert no_lines.code == 2 and "count from 1" in no_lines.err


@pytest.mark.parametrize(("lines", "code"), [("1-9", 0), ("6-6", 0), ("6–400", 0), ("900-1000", 1)])
def test_the_answers_about_lines_are_listed_as_a_source_is_written(asked, lines, code):
    assert rag("turns", "about", f"{PATH}:{lines}", cwd=asked).code == code


def test_what_a_fork_inherited_can_be_asked_about_when_its_origin_is_gone(asked):
    assert rag("turns", "fork", "1", "--conversation", "signing", "--name", "fork").code == 0
    assert rag("turns", "delete", "--conversation", "signing", "--yes").code == 0
    assert QUESTION in rag("turns", "show", "--conversation", "fork").out
    assert rag("turns", "about", PATH, cwd=asked).out.startswith(f"fork 1. {QUESTION}")
    assert rag("facts", "add", "Pepper is stirred in", "--turn", "1", "--conversation", "fork").code == 0


def test_deleting_turns_removes_what_was_kept_for_them(asked, tmp_path):
    rag("ask", asked, "What is baked?", "--conversation", "baking")
    assert rag("turns", "delete", "--conversation", "signing", "--yes").code == 0
    assert rag("turns", "delete", "1", "--conversation", "baking").code == 0
    from rag.service import Engine
    from rag.settings import Settings

    engine = Engine(Settings(home=tmp_path / "rag-home"))
    assert engine.turns.count_records(shelf="blob") == 0
    engine.close()
    assert rag("turns", "check", "baking").code == 1


def test_the_lines_that_differ_are_shown(asked):
    write(asked, "import hmac\n\n\n" + SIGN.replace("True", "False"))
    shown = rag("turns", "check", "--diff").out
    assert (
        "      -    return seal(mixture, with_wax=True)\n      +    return seal(mixture, with_wax=False)\n"
        in shown
    )
    (turn,) = rag("turns", "check", "--diff", "--json").json
    (diff,) = {one["diff"] for one in turn["citations"] if one["path"] == PATH}
    assert diff.startswith(f"--- {PATH}:4-7\n+++ {PATH}:4-7\n")
    assert "diff" not in rag("turns", "check", "--json").json[0]["citations"][0]
