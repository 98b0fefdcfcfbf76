from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag.answer.citations import CitationFilter, Resolved, resolve
from rag.answer.references import at_cited_lines, reference_spans, with_places
from rag.types import (
    AssistantResponse,
    Citation,
    DialogTurn,
    Freshness,
    Hit,
    NumberedSource,
    Span,
    UserQuery,
)


def source(n: int, path: str = "", start: int = 1, end: int = 9) -> NumberedSource:
    text = f"text of {n}\n"
    span = Span("shop", path or f"f{n}.py", start, end, f"b{n}", "c0ffee", "sign", "Session")
    return NumberedSource(n, Hit(span, text, 1 / n, dirty=n == 2, location="/src/shop"))


THREE = [source(1), source(2), source(3)]


@pytest.mark.parametrize(
    ("text", "clean", "used", "invented"),
    [
        ("Signed [1].", "Signed [1].", [1], 0),
        ("Signed [1, 2] and [1-3].", "Signed [1, 2] and [1, 2, 3].", [1, 2, 3], 0),
        ("Signed [1][3].", "Signed [1][2].", [1, 3], 0),
        ("Signed [3], [1;3] and [ 2 ].", "Signed [1], [1, 2] and [3].", [3, 1, 2], 0),
        ("Signed [3, 1]. f3.py:2 and f2.py:2", "Signed [1, 2]. f3.py:2 and f2.py:2", [3, 1, 2], 0),
        ("Take `a[3]` from x[3][2].", "Take `a[3]` from x[3][2].", [], 0),
        ("Signed【1】 and [^2] and 【3†f3.py】.", "Signed [1] and [2] and [3].", [1, 2, 3], 0),
        ("a[9]【1】 a[1]【9】", "a[9] [1] a[1]", [1], 1),
        ("签名是[1]。", "签名是[1]。", [1], 0),
        ("Signed [9].", "Signed.", [], 1),
        ("Signed [9] here [8], yes [7]", "Signed here, yes", [], 3),
        ("Signed [1, 9, 2].", "Signed [1, 2].", [1, 2], 1),
        ("Signed [2-5].", "Signed [1, 2].", [2, 3], 1),
        ("Signed [9][1].", "Signed [1].", [1], 1),
        ("Signed [1][9].", "Signed [1].", [1], 1),
        ("[9] First.\n- [8] second\n", "First.\n- second\n", [], 2),
        ("One [9]two", "One two", [], 1),
        ("No [0] and [404].", "No and.", [], 2),
        ("Take a[1], f()[9], m[i][9], x[0][9].", "Take a[1], f()[9], m[i][9], x[0][9].", [], 0),
        ("Code `x = [9]` is kept [1].", "Code `x = [9]` is kept [1].", [1], 0),
        ("Code ``a ` [9]`` and `f`[9].", "Code ``a ` [9]`` and `f`.", [], 1),
        ("An open ` tick [9].", "An open ` tick.", [], 1),
        ("```py\nx = [9]\n```\nso [9]", "```py\nx = [9]\n```\nso", [], 1),
        ("- ~~~~\n  [9]\n  ~~~\n  [8]\n  ~~~~\n[7]", "- ~~~~\n  [9]\n  ~~~\n  [8]\n  ~~~~\n", [], 1),
        ("```a` [9]", "```a`", [], 1),
        ("[1]: f1.py and [9]: f9.py", "[1]: f1.py and: f9.py", [1], 1),
        ("[see] [x] [1a] [12345] [] [1.5]", "[see] [x] [1a] [12345] [] [1.5]", [], 0),
        ("[ [9]1]", "[ [?]1]", [], 1),
        ("[9] ```\n[1]", "[?] ```\n[1]", [1], 1),
        ("See `f2.py:3-4` and f3.py:12 and f1.py:9.", "See `f2.py:3-4` and f3.py:12 and f1.py:9.", [1, 2], 0),
        ("In xf1.py:3 and dir/f1.py:3", "In xf1.py:3 and dir/f1.py:3", [], 0),
        ("Signed [2:4] and [1:3-5, 2].", "Signed [1:4] and [1, 2:3-5].", [2, 1], 0),
        ("Signed [1:L3–L99], 【2:4】, [ 3:1 ].", "Signed [1:3-9], [2:4], [3:1].", [1, 2, 3], 0),
        ("Signed [1:77] and [9:4].", "Signed and.", [], 2),
        ("Signed [2:900], [2:0] and [2:5-900].", "Signed, [2:0] and [1:5-9].", [2], 1),
        ("A [1] and [99:1] and B.", "A [1] and B.", [1], 1),
        ("A [1] und\t[9][8] und [2]", "A [1] und [2]", [1, 2], 2),
        ("An andy [9] and B, and [9], and C", "An andy and B, and, and C", [], 2),
        (
            "Take x[1:3] and `y[1:3]` and [0:3] and [:3].",
            "Take x[1:3] and `y[1:3]` and [0:3] and [:3].",
            [],
            0,
        ),
        ("At [1:2][2:3] and [1:2, 1:2].", "At [1:2][2:3] and [1:2].", [1, 2], 0),
        ("", "", [], 0),
    ],
)
def test_references_are_resolved(text: str, clean: str, used: list[int], invented: int) -> None:
    resolved = resolve(text, THREE)
    assert (resolved.text, resolved.invented) == (clean, invented)
    assert [c.path for c in resolved.used] == [f"f{n}.py" for n in used]
    assert [c.n for c in resolved.shown] == [1, 2, 3]
    assert resolved.used == resolved.shown[: len(used)]


def test_a_line_that_its_source_does_not_show_leads_to_the_source_of_the_file_that_does() -> None:
    sources = [source(1), source(2, "lib/key.py", 1, 9), source(3, "lib/key.py", 20, 29)]
    sources[2] = replace(
        sources[2], hit=replace(sources[2].hit, span=replace(sources[2].hit.span, blob="b2"))
    )
    resolved = resolve("See [2:24-40], [3:4], [2:15-21] and [1:24].", sources)
    assert resolved.text == "See [1:24-29], [2:4], [1:20-21] and."
    assert [c.place for c in resolved.used] == ["lib/key.py:20-29", "lib/key.py:1-9"]
    assert resolved.invented == 1


def test_links_lead_to_the_first_cited_lines() -> None:
    resolved = resolve("See [2], `[1:1]` and [1:3-4, 2:7], then [2:8].", THREE)
    cited = at_cited_lines(resolved.text, resolved.shown)
    assert [c.place for c in cited] == ["f2.py:7-7", "f1.py:3-4", "f3.py:1-9"]
    assert reference_spans(resolved.text) == {1: (4, 7), 2: (21, 33)}


def asked(answer: str, *citations: Citation, checks: tuple[Freshness, ...] = ()) -> DialogTurn:
    return DialogTurn(
        user_query=UserQuery("Why?"),
        assistant_response=AssistantResponse(answer),
        citations=citations,
        checks=checks,
    )


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("So [1:12].", "So [shop/sessions.py:12]."),
        (
            "So [1], [2:3-4] and [1:11].",
            "So [shop/sessions.py:10-13], [lib/keys.py:3-4] and [sessions.py:11].",
        ),
        ("So [2, 3] [3]", "So [lib/keys.py:1-9, other/keys.py:4] [other/keys.py:4]"),
        ("So [2-3], x[1] and `y[2]` [9].", "So [lib/keys.py:1-9, other/keys.py:4], x[1] and `y[2]`."),
        ("```\n[1]\n```\nSo.", "```\n[1]\n```\nSo."),
    ],
)
def test_an_earlier_answer_has_places_for_its_numbers(answer: str, shown: str) -> None:
    places = [("shop/sessions.py", 10, 13), ("lib/keys.py", 1, 9), ("other/keys.py", 4, 4)]
    cited = [Citation(n, Span("shop", *place)) for n, place in enumerate(places, 1)]
    assert with_places(asked(answer, *cited)).answer == shown


def test_the_places_of_an_earlier_answer_are_where_the_lines_are_now() -> None:
    moved = Freshness("moved", "", "new/keys.py", 3, 11)
    turn = asked("So [1:5].", Citation(1, Span("shop", "keys.py", 1, 9)), checks=(moved,))
    assert with_places(turn).answer == "So [new/keys.py:7]."
    both = asked("So [1][2].", *(Citation(n, Span(f"r{n}", "a/b.py", 1, 2)) for n in (1, 2)))
    assert with_places(both).answer == "So [r1:a/b.py:1-2][r2:a/b.py:1-2]."


def test_a_citation_says_which_bytes_were_shown() -> None:
    (citation,) = resolve("It is [2].", THREE).used
    assert citation == Citation(
        1,
        Span("shop", "f2.py", 1, 9, "b2", "c0ffee", "sign", "Session"),
        span_hash=hashlib.sha256(b"text of 2\n").hexdigest(),
        dirty=True,
        score=0.5,
        used=True,
        location="/src/shop",
    )


def test_without_sources_every_number_is_invented() -> None:
    assert resolve("It is [1].", []) == ("It is.", (), 1, False)


@pytest.mark.parametrize(
    ("text", "used", "by_name"),
    [
        ("It is signed by `Session.sign()` in lib/key.py.", [1], True),
        ("It is signed in `lib/key.py`, line 3.", [2, 3], True),
        ("It is signed in lib/key.py.", [2, 3], True),
        ("`sign` does it [3].", [3], False),
        ("It does sign by `signature` in key.py or my/lib/key.py.", [], False),
    ],
)
def test_an_answer_that_numbers_nothing_refers_to_what_it_names(
    text: str, used: list[int], by_name: bool
) -> None:
    first, *others = [source(1), source(2, "lib/key.py"), source(3, "lib/key.py", 20, 29)]
    unnamed = [replace(other.hit, span=replace(other.hit.span, symbol="")) for other in others]
    others = [replace(other, hit=hit) for other, hit in zip(others, unnamed, strict=True)]
    resolved = resolve(text, [first, *others])
    assert ([round(1 / c.score) for c in resolved.used], resolved.by_name) == (used, by_name)
    assert resolved.text == text.replace("[3]", "[1]")


def test_a_reference_with_a_hundred_numbers_is_text() -> None:
    """The text behind a bracket is held back while it may be a reference: this has an end."""
    filtered = CitationFilter(THREE)
    numbers = "1, " * 100
    assert filtered.feed(f"See [{numbers}") == f"See [{numbers}".rstrip()
    assert filtered.feed("1].") + filtered.close() == " 1]."


def test_text_is_held_back_only_while_it_may_become_a_reference() -> None:
    filtered = CitationFilter(THREE)
    pieces = ["Sig", "ned ", "[", "9", "]", " by `f [9", "]", "` an", "d [x", "] [1", "]", "."]
    shown = [filtered.feed(piece) for piece in pieces]
    assert shown == ["Sig", "ned", "", "", "", " by `f", "", " [9]` an", "d [x", "]", " [1]", "."]
    assert filtered.close() == ""
    assert (filtered.numbers, filtered.invented) == ({1: 1}, 1)


fragments = st.sampled_from(
    [
        *"[1] [9] [3] [1:3] [2: [ ] 1 2 9 : L , - ^ 【2】 【9† 】 ` `` ``` ~~~ a () . é".split(),
        " ",
        "\n",
        "> ",
        "- ",
        "\t",
    ]
)
answers = st.lists(fragments, max_size=30).map("".join)


@settings(max_examples=400, deadline=None)
@given(text=answers, cuts=st.lists(st.integers(0, 60), max_size=12))
@example("`a [9] b\n", [3, 4, 5, 6, 7, 8])
def test_pieces_give_the_same_text_however_it_is_split(text: str, cuts: list[int]) -> None:
    filtered = CitationFilter(THREE)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    shown = [filtered.feed(text[a:b]) for a, b in pairwise(edges)]
    whole = resolve(text, THREE)
    assert "".join([*shown, filtered.close()]) == whole.text
    assert filtered.invented == whole.invented


@settings(max_examples=400, deadline=None)
@given(answers)
@example("[9]> ```[1]")
@example("[9] 1. ```[1]")
def test_no_invented_reference_is_left_and_nothing_else_is_lost(text: str) -> None:
    clean = resolve(text, THREE)
    again = resolve(clean.text, renumbered(clean))
    assert again.invented == 0
    assert again.text == clean.text
    assert [c.path for c in again.shown] == [c.path for c in clean.shown]
    if not clean.invented:
        assert _BRACKETS.sub("", clean.text).replace(" ", "") == _BRACKETS.sub("", text).replace(" ", "")


_BRACKETS = re.compile(r"[\[【][ \d,;:L^–†-]*[\]】]")


def renumbered(resolved: Resolved) -> list[NumberedSource]:
    """The sources as a prompt would show them under the numbers of an answer."""
    by_path = {source.hit.path: source.hit for source in THREE}
    return [NumberedSource(c.n, by_path[c.path]) for c in resolved.shown]


# ---------------------------------------------------------------- numbering

MANY = [source(n) for n in range(1, 13)]
numbers = st.integers(0, 15)


def said(style: str, cited: list[int]) -> str:
    """A marked place `«numbers meant»` and a reference to them in one of the forms that models write."""
    known = sorted({n for n in cited if 1 <= n <= 12})
    meant = known
    mark = f"[{', '.join(map(str, cited))}]"
    if style == "apart":
        mark = "".join(f"[{n}]" for n in cited)
    elif style == "footnote":
        mark = "".join(f"[^{n}]" for n in cited)
    elif style == "cjk":
        mark = "".join(f"【{n}†f{n}.py】" for n in cited)
    elif style == "range":
        mark = f"[{cited[0]}-{cited[-1]}]"
        low, high = sorted((cited[0], cited[-1]))
        meant = [n for n in range(1, 13) if low <= n <= high]
    return f"«{'.'.join(map(str, meant))}» {mark}"


code = st.lists(numbers, min_size=1, max_size=2).map(lambda ns: "".join(f"[{n}]" for n in ns))
references = st.builds(
    said,
    st.sampled_from(["list", "apart", "footnote", "cjk", "range"]),
    st.lists(numbers, min_size=1, max_size=3),
)
cited_answers = st.lists(
    st.one_of(
        references,
        references,
        code.map("`a{}`".format),
        code.map("`` b ` {} ``".format),
        code.map("x.f(){}".format),
        code.map("\n```py\ny = {}\n```\n".format),
        st.sampled_from([".", ", and", "\n", "\n- ", "\n> "]),
    ),
    max_size=14,
).map(" ".join)


def places_read(text: str) -> list[tuple[list[str], list[int]]]:
    """What a client reads: of each mark the numbers that were meant, and those it stands before now."""
    read = re.findall(r"«([\d.]*)»((?: ?\[[\d, ]+\])*)", text)
    return [(meant.split(".") if meant else [], [int(n) for n in re.findall(r"\d+", r)]) for meant, r in read]


@settings(max_examples=400, deadline=None)
@given(text=cited_answers, cuts=st.lists(st.integers(0, 400), max_size=20))
def test_the_nth_citation_is_the_place_that_its_number_refers_to(text: str, cuts: list[int]) -> None:
    filtered = CitationFilter(MANY)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    out = "".join([*(filtered.feed(text[a:b]) for a, b in pairwise(edges)), filtered.close()])
    resolved = filtered.resolved(out)
    assert resolved.used == resolved.shown[: len(resolved.used)]
    assert [c.n for c in resolved.shown] == list(range(1, 13))
    for meant, read in places_read(out):
        assert {resolved.used[n - 1].path for n in read} == {f"f{n}.py" for n in meant}
    first_read = list(dict.fromkeys(n for _, read in places_read(out) for n in sorted(read)))
    assert first_read == list(range(1, len(first_read) + 1))
    assert re.findall(r"`[^«\n]*`|\(\)[^« ]*", out) == re.findall(r"`[^«\n]*`|\(\)[^« ]*", text)


@settings(max_examples=300, deadline=None)
@given(cited_answers)
def test_where_a_number_is_first_referred_to_is_found_outside_code(text: str) -> None:
    resolved = resolve(text, MANY)
    spans = reference_spans(resolved.text)
    assert sorted(spans) == [c.n for c in resolved.used]
    for n, (start, end) in spans.items():
        assert re.fullmatch(r"\[[\d, ]+\]", resolved.text[start:end])
        assert n in map(int, re.findall(r"\d+", resolved.text[start:end]))
        assert "«" in resolved.text[:start]
