"""Values as a notebook shows them: what strangers wrote never becomes markup, and nothing is said twice."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import git
from hypothesis import given, settings
from hypothesis import strategies as st

from rag import RAG
from rag.display.answers import ShownSource, answer_html
from rag.display.html import code, file_link, plain
from rag.display.values import html_of
from rag.errors import BackendMissing, NotFound
from rag.settings import Settings
from rag.types import Answer, AssistantResponse, Citation, DialogTurn, Freshness, Hit, Hits, Span, UserQuery

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</pre></title></svg>\x00\x1b[2J"
TAGS = set(
    "div p strong em ol ul li h1 h2 h3 h4 h5 h6 hr br blockquote pre code span a style table thead tbody tr "
    "th td details summary meter".split()
)
ATTRIBUTES = set("style class id href target rel value title start".split())
words = st.text(st.sampled_from("a<>&\"'`*_\n []()!#-1|~:/\\script\x00"), max_size=60) | st.text(max_size=30)


class Reader(HTMLParser):
    """Fails for a tag or attribute that is not ours; collects the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.links += [str(value) for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def source(n: int, path: str = "snip/a.py", text: str = "", **more: Any) -> ShownSource:
    return ShownSource(n, Span("", path, 3, 9, symbol="sign"), "/repo", text=text, **more)


@settings(max_examples=300, deadline=None)
@given(words, words, words)
def test_no_text_becomes_markup(answer: str, title: str, path: str) -> None:
    page = Reader(answer_html(title, answer, [source(1, path, answer)], [title], path))
    assert all(re.fullmatch(r"#rag-[0-9a-f]{8}-1", link) for link in page.links)
    letters = set(answer) - set("`*_\n []()!#-1|~:/\\<>&\"'\x00 \x1b0123456789.+=\r\t")
    visible = {letter for letter in letters if letter.isalpha() and letter.isascii()}
    assert visible <= set(page.text)


def test_links_and_images_of_an_answer_are_shown_as_they_were_written() -> None:
    text = "[here](javascript:alert(1)) ![x](http://evil/x.png) <http://evil> [1]\n\n[1]: http://evil\n"
    page = Reader(answer_html("", text, [source(1)]))
    assert [link[:5] for link in page.links] == ["#rag-", "#rag-"], "both are references to the source"
    assert "![x](http://evil/x.png)" in page.text


def test_markdown_and_code_of_an_answer_are_rendered() -> None:
    text = "It does **two** things [2]:\n\n- signs\n- checks `a*b*c`\n\n"
    text += "```python\ndef f(x):  # why\n    return '1'\n```\n"
    html = answer_html("How?", text, [source(2, text="a\nb")])
    assert "<li>signs</li>" in html
    assert "<strong>two</strong>" in html
    assert "<code>a*b*c</code>" in html
    assert '<span class="k">def</span> <span class="f">f</span>' in html
    assert '<span class="c"># why</span>' in html
    assert re.search(r'<a href="#(rag-\w+-2)">\[2\]</a>.*<div id="\1">', html, re.DOTALL)
    assert '<span class="c">    4</span>  b' in html, "a source shows its lines with their numbers"


def test_a_text_longer_than_any_answer_is_shown_as_it_is() -> None:
    text = "x **y**\n" * 37_500
    page = Reader(html := answer_html("How?", text, [source(1)]))
    assert "<strong>y" not in html and page.text.count("**y**") == 37_500


def test_a_place_is_listed_once() -> None:
    text = "This is in `sign` (`snip/a.py:3`) [1].\n\n- `g` — `snip/b.py:3` [2] — function\n"
    sources = [source(1), source(2, "snip/b.py")]
    page = Reader(answer_html("", text, sources, names_places=True))
    for path in ("snip/a.py", "snip/b.py"):
        assert page.text.count(path) == 1
    assert "Sources" not in page.text and "Sources" in Reader(answer_html("", text, sources)).text


def test_lines_of_one_place_are_cited_once() -> None:
    citation = Citation(
        1, Span("r", "a.py", 1, 2, commit="0123456789abcdef", symbol="f"), dirty=True, location="/r"
    )
    again = Citation(2, Span("r", "a.py", 1, 2), location="/r")
    answer = Answer(
        "So [1].", question="How?", sources=(citation, again), notes=("cut",), warning="Perhaps not."
    )
    text = Reader(html_of(answer)).text
    assert text.count("a.py:1-2") == 1
    for shown in ("How?", "So [1].", "f at 0123456789 + changes", "cut", "Perhaps not."):
        assert shown in text
    turn = DialogTurn(
        user_query=UserQuery("How?"),
        assistant_response=AssistantResponse("So [1]."),
        citations=(citation,),
        order=0,
        state="partial",
    )
    assert "1. How?" in Reader(html_of(turn)).text
    assert "broke off" in Reader(html_of(turn)).text


def test_code_of_any_language_and_size_is_shown_whole() -> None:
    for language in ("python", "no such language", "", "c++"):
        assert Reader(code("a < b\n\nc", language, 7)).text == "    7  a < b\n    8  \n    9  c"
    assert Reader(code("x <\n" * 9_000, "python")).text == "x <\n" * 9_000


@pytest.mark.parametrize(("language", "text"), [("adl", " "), ("agda", "\n"), ("actionscript", '\\"')])
def test_code_on_which_a_highlighter_takes_long_is_shown_without_colours(language: str, text: str) -> None:
    began = time.thread_time()
    shown = code(text * 9_000, language)
    assert time.thread_time() - began < 0.5  # 2 s and more with the square of the text
    assert shown == f"<pre><code>{plain(text * 9_000)}</code></pre>"


def test_code_that_begins_within_a_comment_is_coloured_from_its_end() -> None:
    html = code('for a day.\n"""\nreturn 5\n', "python", 7)
    assert "</span>  for a day.\n" in html
    assert '<span class="k">return</span> <span class="n">5</span>' in html


def test_only_files_below_the_current_folder_are_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "a b.py").write_text("")
    (tmp_path / "out.py").write_text("")
    monkeypatch.chdir(here)
    assert file_link(str(here), "a b.py") == "a%20b.py"
    assert file_link(str(tmp_path), "out.py") == ""
    assert file_link(str(here), "../out.py") == ""
    assert file_link(str(here), "gone\0.py") == ""
    assert file_link("https://example.org/a.git", "a.py") == ""


def test_hits_are_a_table_and_a_frame() -> None:
    hit = Hit(
        Span("r", HOSTILE, 3, 4, symbol=HOSTILE), HOSTILE + "\nx", 2.0, legs={"dense": 1.5}, reason=HOSTILE
    )
    hits = Hits([hit])
    assert "alert(1)" in Reader(html_of(hits)).text
    table = hits.to_frame()
    assert list(table.columns[:5]) == ["rank", "repo", "path", "start", "end"]
    assert (table.loc[0, "rank"], table.loc[0, "legs"]) == (1, {"dense": 1.5})
    assert list(Hits().to_frame().columns) == list(table.columns), "an empty table has its columns"
    assert "nothing found" in html_of(Hits())
    assert hits == (hit,)


def test_freshness_has_its_state_in_words() -> None:
    text = Reader(html_of(Freshness("changed", HOSTILE, "a.py", 1, 2))).text
    assert "changed → a.py:1-2" in text


def test_without_the_extra_the_message_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BackendMissing, match=r"from the checkout run `pip install '\.\[notebook\]'`"):
        Hits().to_frame()


SHOWN = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import rag")
assert not {name for name in sys.modules if name.startswith("rag.display.")}
def shown(code):
    return shell.display_formatter.format(shell.ev(code))[0].get("text/html", "")
shell.run_cell("from rag.types import *")
"""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Answer('So it is.', question='How?')", "So it is."),
        ("DialogTurn(user_query=UserQuery('How?'))", "How?"),
        ("Hit(Span('r', 'a.py', 3, 4), 'x = 1', 2.0)", "a.py:3-4"),
        ("Hits()", "nothing found"),
        ("Freshness('gone')", "gone"),
        ("CheckedTurns()", "question"),
    ],
)
def test_a_value_is_shown_in_a_shell_that_has_imported_rag(value: str, text: str) -> None:
    code = f"{SHOWN}\nprint(shown({value!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert '<div class="rag">' in done.stdout
    assert text in done.stdout


# ---------------------------------------------------------------- of a repository


@pytest.fixture(scope="module")
def rag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RAG]:
    """A conversation about a repository that has changed twice since."""
    home = tmp_path_factory.mktemp("values")
    root = Path(shutil.copytree(SAMPLE, home / "snip"))
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin")
    rag = RAG(settings=Settings(home=home / "home"), conversation="years")
    rag.prepare_retriever(str(root))
    rag("How are sessions signed?")
    sessions = root / "snip" / "sessions.py"
    sessions.write_text(sessions.read_text().replace("hashlib.sha256", "hashlib.sha512"))
    git(root, "commit", "--quiet", "--all", "--message", HOSTILE.replace("\x00", ""))
    rag("How is the rate limited?")
    (root / "snip" / "ratelimit.py").unlink()
    git(root, "commit", "--quiet", "--all", "--message", "No limits")
    rag.prepare_retriever(str(root))
    yield rag
    rag.engine.close()


def test_freshness_of_a_conversation_is_a_table(rag: RAG) -> None:
    checked = rag.memory.freshness()
    table = checked.to_frame()
    assert set(table["turn"]) == {1, 2}
    assert "gone" in set(table["state"])
    assert "gone" in Reader(html_of(checked)).text
    assert set(rag.memory.freshness(as_of="HEAD~2").to_frame().query("turn == 1")["state"]) == {"fresh"}


def test_a_memory_of_no_rag_says_so() -> None:
    from rag import Memory

    with pytest.raises(NotFound, match="memory` of a `RAG`"):
        Memory().freshness()


def test_a_repository_is_shown_as_what_is_indexed(rag: RAG) -> None:
    (repository,) = rag.repositories
    assert "snip" in Reader(repository._repr_html_()).text
    assert "files" in Reader(html_of(repository.report)).text
