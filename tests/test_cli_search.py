"""`rag search` for a string or an expression, and filters on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import rag


def test_lines_are_listed_by_file_and_all_matches_are_counted(sample_repo: Path) -> None:
    done = rag("search", sample_repo, "def authenticate(", "--exact")
    assert (done.code, done.out) == (
        0,
        "1 match on 1 line of 1 file:\n"
        "snip/auth.py:27: def authenticate(storage: Storage, authorization: str) -> User:\n",
    )
    more = rag("search", sample_repo, "authenticate", "--exact", "-k", 1)
    assert "more lines are not shown:" in more.out and "snip/app.py" in more.out
    assert more.out.endswith("Repeat the command with --page 2 for the next lines.\n")
    second = rag("search", sample_repo, "authenticate", "--exact", "-k", 1, "--page", 2)
    assert "1 line is on earlier pages" in second.out and "snip/auth.py:27" not in second.out
    last = rag("search", sample_repo, "authenticate", "--exact", "--page", 2)
    assert last.code == 1 and "no more lines" in last.err
    assert rag("search", sample_repo, "Where is a token checked?", "--page", 2).code == 2


def test_a_string_is_taken_as_it_is(sample_repo: Path) -> None:
    assert rag("search", sample_repo, "   def ", "--exact").code == 0
    assert rag("search", sample_repo, "./snip", "--exact", "--json").json["question"] == "./snip"
    assert rag("search", sample_repo, "AUTHENTICATE(", "--exact").code == 1
    assert rag("search", sample_repo, "AUTHENTICATE(", "--exact", "-i").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x", "--exact", "--regex"], "either --exact or --regex"),
        (["x", "--ignore-case"], "--ignore-case needs"),
        (["(", "--regex"], "invalid regular expression: missing )"),
        (["x", "--lang", "pyton"], "did you mean python"),
        (["x", "--kind", "tests"], "use code, test, doc, config"),
        (["x", "--path", "[z-a]"], "invalid pattern"),
    ],
)
def test_an_invalid_search_is_a_user_error(sample_repo: Path, words: list[str], said: str) -> None:
    done = rag("search", sample_repo, *words)
    assert done.code == 2 and said in done.err


def test_a_filter_that_matches_nothing_is_named(sample_repo: Path) -> None:
    done = rag("search", sample_repo, "token", "--path", "nowhere/", "--lang", "go")
    assert done.code == 1
    assert "no indexed file matches the filter (path nowhere/, language go)" in done.err
    asked = rag("ask", sample_repo, "Where is a token checked?", "--path", "nowhere/")
    assert asked.code == 2 and "no indexed file matches" in asked.err


def test_an_answer_comes_from_the_chosen_files(sample_repo: Path) -> None:
    done = rag("ask", sample_repo, "How are sessions signed?", "--kind", "doc", "--json")
    assert {source["path"].rpartition(".")[2] for source in done.json["sources"]} == {"md"}


def test_several_repositories_are_searched_together(sample_repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "kiln"
    other.mkdir()
    (other / "glaze.py").write_text("# authenticate(\ndef fire(kiln):\n    return kiln\n")
    done = rag("search", "-r", sample_repo, "-r", other, "authenticate(", "--exact", "-k", 50)
    head, first, *others = [line.split(": ")[0] for line in done.out.splitlines()]
    assert head.endswith("files:") and first.endswith(":snip/auth.py:27") and "kiln:glaze.py:1" in others


def test_a_changed_file_is_searched_as_it_is_and_a_ref_as_it_was(sample_repo: Path) -> None:
    file = sample_repo / "snip" / "auth.py"
    file.write_text(file.read_text() + "\n# a brand-new line\n")
    (hit,) = rag("search", sample_repo, "a brand-new line", "--exact", "--json").json["hits"]
    assert hit["path"] == "snip/auth.py" and hit["dirty"]
    before = rag("search", sample_repo, "a brand-new line", "--exact", "--json", "--ref", "main")
    assert before.code == 1 and before.json["matches"]["count"] == 0


def test_words_of_the_code_are_searched_besides_the_question(sample_repo: Path) -> None:
    asked = ("How are people kept from asking too often?", "--words", "RateLimiter token bucket")
    assert rag("search", sample_repo, *asked, "--json").json["hits"][0]["path"] == "snip/ratelimit.py"
    refused = rag("search", sample_repo, "x", "--exact", "--words", "y")
    assert refused.code == 2 and "only a question" in refused.err


def test_a_repository_is_explored_page_by_page(sample_repo: Path) -> None:
    asked = ("explore", sample_repo, "Where are errors raised?", "--budget", 200)
    first, second = rag(*asked), rag(*asked, "--page", 2)
    assert (first.code, second.code) == (0, 0)
    assert "repeat the command with --page 2" in first.out and first.out != second.out
    last = rag(*asked, "--page", 50, "--json")
    assert last.code == 1 and last.json["places"] == []
    assert rag("explore", "-r", sample_repo, "-r", sample_repo.parent, "x").code == 2
