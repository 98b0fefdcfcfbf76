"""Answers as a notebook shows them: what strangers wrote never becomes markup."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from rag.markup import framed
from rag.quoting import code_span
from rag.types import Answer, AssistantResponse, Citation, DialogTurn, Span, UserQuery

OURS = {"div", "pre", "code", "b", "em", "table", "tr", "td"}


class Reader(HTMLParser):
    """Collects the tags and the text of a page, and fails where tags do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert [name for name, _ in attrs] in ([], ["style"])
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.sampled_from("a<>&\"'`*\n []/script")), st.text(), st.text())
def test_no_text_becomes_markup(answer: str, title: str, place: str) -> None:
    page = Reader(framed(title, answer, [("[1]", place, "<b>", "")], "<i>"))
    assert page.tags <= OURS
    assert set(answer) - set("`*\n ") <= set(page.text)


def test_code_is_shown_as_it_stands() -> None:
    code = "def f(*args, **kwargs):\n    return `1` < 2\n"
    page = Reader(framed("", f"See `a*b*c` and *this*:\n\n````python\n{code}````\n\nand [1].\n"))
    assert code in page.text
    assert "See a*b*c and this:" in page.text
    assert "and [1]." in page.text


def test_answers_and_turns_show_question_text_and_sources() -> None:
    citation = Citation(
        1, Span("snip", "snip/a.py", 3, 9, commit="0123456789abcdef", symbol="sign"), dirty=True
    )
    answer = Answer(
        "It is `signed` [1].", question="How?", citations=(citation,), notes=("cut at the limit",)
    )
    turn = DialogTurn(
        user_query=UserQuery("How?"),
        assistant_response=AssistantResponse(answer.text),
        citations=(citation,),
        order=0,
    )
    for page, title in ((answer._repr_html_(), "How?"), (turn._repr_html_(), "1. How?")):
        text = Reader(page).text
        assert title in text
        assert "It is signed [1]." in text
        assert "[1]snip/a.py:3-9signat 0123456789 + changes" in text
    assert "cut at the limit" in answer._repr_html_()


def test_code_with_backticks_is_shown_as_it_is_written():
    for code in ("const x = `a${b}`", "``literal``", "`", "plain"):
        page = Reader(framed("", f"see {code_span(code)} here"))
        assert page.text == f"see {code} here"
        assert "code" in page.tags
