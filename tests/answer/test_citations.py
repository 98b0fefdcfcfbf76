from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag.answer.citations import CitationFilter, resolve
from rag.types import Citation, Hit, NumberedSource


def source(n: int, path: str = "", start: int = 1, end: int = 9) -> NumberedSource:
    text = f"text of {n}\n"
    hit = Hit(
        "shop", path or f"f{n}.py", start, end, text, 1 / n, symbol="sign", scope="Session", blob=f"b{n}",
        commit="c0ffee", dirty=n == 2, location="/src/shop",
    )  # fmt: skip
    return NumberedSource(n, hit)


THREE = [source(1), source(2), source(3)]


@pytest.mark.parametrize(
    ("text", "clean", "used", "invented"),
    [
        ("Signed [1].", "Signed [1].", [1], 0),
        ("Signed [1, 2] and [1-3].", "Signed [1, 2] and [1-3].", [1, 2, 3], 0),
        ("Signed [1][3].", "Signed [1][3].", [1, 3], 0),
        ("Signed【1】 and [^2] and 【3†f3.py】.", "Signed [1] and [2] and [3].", [1, 2, 3], 0),
        ("a[9]【1】 a[1]【9】", "a[9] [1] a[1]", [1], 1),
        ("签名是[1]。", "签名是[1]。", [1], 0),
        ("Signed [9].", "Signed.", [], 1),
        ("Signed [9] here [8], yes [7]", "Signed here, yes", [], 3),
        ("Signed [1, 9, 2].", "Signed [1, 2].", [1, 2], 1),
        ("Signed [2-5].", "Signed [2, 3].", [2, 3], 1),
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
        ("", "", [], 0),
    ],
)
def test_references_are_resolved(text: str, clean: str, used: list[int], invented: int) -> None:
    resolved = resolve(text, THREE)
    assert (resolved.text, [c.n for c in resolved.used], resolved.invented) == (clean, used, invented)
    assert [c.n for c in resolved.shown] == [1, 2, 3]
    assert [c.n for c in resolved.shown if c.used] == used


def test_a_citation_says_which_bytes_were_shown() -> None:
    (citation,) = resolve("It is [2].", THREE).used
    assert citation == Citation(
        n=2, repo="shop", path="f2.py", start=1, end=9, commit="c0ffee", blob="b2", symbol="Session.sign",
        span_hash=hashlib.sha256(b"text of 2\n").hexdigest(), dirty=True, score=0.5, used=True,
        location="/src/shop",
    )  # fmt: skip


def test_without_sources_every_number_is_invented() -> None:
    assert resolve("It is [1].", []) == ("It is.", (), (), 1, False)


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
    others = [replace(other, hit=replace(other.hit, symbol="")) for other in others]
    resolved = resolve(text, [first, *others])
    assert ([c.n for c in resolved.used], resolved.by_name) == (used, by_name)
    assert resolved.text == text


def test_text_is_held_back_only_while_it_may_become_a_reference() -> None:
    filtered = CitationFilter(THREE)
    pieces = ["Sig", "ned ", "[", "9", "]", " by `f [9", "]", "` an", "d [x", "] [1", "]", "."]
    shown = [filtered.feed(piece) for piece in pieces]
    assert shown == ["Sig", "ned", "", "", "", " by `f", "", " [9]` an", "d [x", "]", "", " [1]."]
    assert filtered.close() == ""
    assert (filtered.used, filtered.invented) == ({1}, 1)


fragments = st.sampled_from(
    [*"[1] [9] [ ] 1 9 , - ^ 【2】 【9† 】 ` `` ``` ~~~ a () . é".split(), " ", "\n", "> ", "- ", "\t"]
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
    again = resolve(clean.text, THREE)
    assert again.invented == 0
    assert again.text == clean.text
    assert again.used == clean.used
    if not clean.invented and "【" not in text and "^" not in text:
        assert clean.text == text
