from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.answer.citations import resolve
from rag.answer.extract import ExtractiveGenerator, extract
from rag.answer.one_screen import Extract, NamedPlace
from rag.answer.wording import doubt, sentence_of_facts
from rag.types import (
    CodeFact,
    CodeFacts,
    Confidence,
    Conversation,
    Hit,
    NumberedSource,
    PlaceNote,
    Prepared,
    Prompt,
    Span,
    Usage,
)

SIGN = Hit(
    Span("shop", "shop/sessions.py", 40, 70, symbol="sign"),
    "@cached\ndef sign(token: str) -> str:\n"
    '    """Sign a token for a session.\n\n    The key is rotated.\n    """\n'
    + "".join(f"    step_{n}()\n" for n in range(20))
    + "    if expired(token):\n        raise Expired\n    digest = hmac(key, token)\n    return digest\n\n",
    0.9,
    unit="function",
    language="python",
)


def like(hit: Hit, **changes: Any) -> Hit:
    """The hit with other values, of its own or of its span."""
    names = changes.keys() & {"repo", "path", "start", "end", "symbol", "scope"}
    of_span = {name: changes.pop(name) for name in names}
    return replace(hit, span=replace(hit.span, **of_span), **changes)


def another(number: int, **changes: Any) -> Hit:
    """A hit like `SIGN` in a file of its own; one of its lines differs."""
    text = SIGN.text.replace("hmac(key", f"hmac(key{number}")
    return like(SIGN, **{"path": f"f{number}.py", "text": text, **changes})


def prepared(question: str, *hits: Hit, shown: bool = True) -> Prepared:
    sources = tuple(NumberedSource(n, hit) for n, hit in enumerate(hits, start=1)) if shown else ()
    prompt = Prompt("", sources, (), 0, 0)
    return Prepared(question, question, Conversation("c"), hits, prompt)


def answer(question: str, *hits: Hit) -> str:
    return "".join(extract(prepared(question, *hits)))


_BLOCK = re.compile(
    r"^\[(?P<n>\d+)\] `?[^`\n]*:(?P<first>\d+)(?:-(?P<last>\d+))?`?(?: \([^\n]*\))?\n"
    r"(?P<body>(?P<marks>`{3,})[^\n`]*\n.*?\n(?P=marks))$",
    re.DOTALL | re.MULTILINE,
)


def quoted(text: str) -> tuple[int, tuple[int, int], str]:
    """The number of the quotation, its first and last line, and its text."""
    (found,) = _BLOCK.finditer(text)
    first = int(found["first"])
    return int(found["n"]), (first, int(found["last"] or first)), _unfenced(found)


def _unfenced(block: re.Match[str]) -> str:
    """The quoted lines, without the lines of fences."""
    fence_line = re.compile(rf"^{block['marks']}[^\n`]*(?:\n|\Z)", re.MULTILINE)
    return fence_line.sub("", block["body"]).removesuffix("\n")


def test_the_sentence_names_the_definition_and_the_quotation_has_the_line_that_decides() -> None:
    text = answer("When does a session token expire?", SIGN)
    n, place, body = quoted(text)
    assert text.startswith("This is in function `sign` (`shop/sessions.py:41`) [1].\n\n[1] shop/sessions.py:")
    assert n == 1 and place[1] - place[0] < 12
    assert "    if expired(token):\n        raise Expired\n" in body
    assert "…" not in text, "it is one piece"


def noted(question: str, *hits: Hit, note: PlaceNote, right: float | None = None, **changes: Any) -> str:
    """The answer with the same note on each source."""
    confidence = None if right is None else Confidence(0.9, True, first_right=right)
    notes = {n: note for n, _ in enumerate(hits, 1)}
    return "".join(extract(replace(prepared(question, *hits), notes=notes, confidence=confidence, **changes)))


SIGNS = PlaceNote(41, ((42, "Sign a token for a session."),))


def test_the_sentence_quotes_the_documentation() -> None:
    text = noted("Where is a token signed?", SIGN, note=SIGNS)
    assert text.startswith(
        "This is in function `sign` (`shop/sessions.py:41`) [1]: “Sign a token for a session.”\n"
    )


def test_without_documentation_the_sentence_has_the_calls() -> None:
    note = PlaceNote(41, callers=("login",), callees=("hmac", "expired"))
    text = noted("Where is a token signed?", SIGN, another(2), note=note)
    assert "[1], which is called by `login` and calls `hmac` and `expired`.\n" in text
    assert "`f2.py:41` [2] — function, called by `login`, calls `hmac`" in text


@pytest.mark.parametrize(
    ("right", "begin"),
    [
        (0.65, "This is probably in "),
        (0.6, "This is possibly in "),
        (None, "This is in "),
    ],
)
def test_doubt_is_one_word(right: float | None, begin: str) -> None:
    assert noted("token", SIGN, another(1), note=SIGNS, right=right).startswith(f"{begin}function `sign` (")


def test_a_definition_that_the_question_names_is_not_doubted() -> None:
    named = like(SIGN, symbol="sign_it")
    for question, begin in (("What does sign_it do?", ""), ("What signs it?", "possibly ")):
        text = noted(question, named, another(1), note=SIGNS, right=0.1)
        assert text.startswith(f"This is {begin}in function `sign_it` (")


def test_a_warning_leaves_only_the_nearest_place() -> None:
    text = noted("token", SIGN, note=SIGNS, right=0.1, warning="Probably not.")
    assert text.startswith("The nearest place is function `sign` (")


@pytest.mark.parametrize(
    ("kind", "certain", "summary", "sentence"),
    [
        ("trace", 3, "From `a` to `b`", "From `a` to `b`"),
        ("trace", 2, "From `a` to `b`", "Possibly from `a` to `b`"),
        ("callers", 2, "`a` is called in 3 places", "`a` is called in 3 places"),
        ("list", 3, "The list is `A`", "Possibly the list is `A`"),
    ],
)
def test_what_certain_facts_say_is_not_doubted(kind: str, certain: int, summary: str, sentence: str) -> None:
    asked = replace(prepared("which?", SIGN), confidence=Confidence(0.9, True, first_right=0.1))
    assert sentence_of_facts(CodeFacts(kind, "a", summary, (), 3, certain), doubt(asked)) == sentence


def test_documentation_opens_no_code_and_is_no_reference() -> None:
    note = PlaceNote(41, ((42, "See [2] and 【3】, or `a\x1b[2J.\nThen:"),))
    text = noted("token", SIGN, another(1), note=note)
    resolved = resolve(text, prepared("token", SIGN, another(1)).prompt.sources)
    assert (resolved.text, resolved.invented) == (text, 0)
    assert "“See (2) and (3), or 'a" in text and "\x1b" not in text
    assert "\nThen" not in text and "Then …”" in text


PAGE = like(
    SIGN,
    path="README.md",
    kind="doc",
    unit="section",
    symbol="",
    language="markdown",
    start=1,
    text='<div align="center">\n  <img\n    src="https://example.org/shop.svg"\n  />\n</div>\n\n'
    + "[![Shop](https://example.org/shop.svg)](https://example.org/shop)\n" * 12
    + "\nShop is a till for small markets.\nIt adds up.\n"
    + "And more.\n" * 20,
)


@pytest.mark.parametrize("question", ["What is it for?", "What is shop?"])
def test_a_page_is_quoted_from_its_text_not_from_its_badges(question: str) -> None:
    _, place, body = quoted(answer(question, PAGE))
    assert place[0] >= 20
    assert "Shop is a till for small markets.\nIt adds up.\n" in body
    assert "example.org" not in body


def test_what_is_asked_about_a_project_is_quoted_from_the_line_where_its_answer_begins() -> None:
    lines = [f"Sails, part {n}." for n in range(1, 31)]
    lines[11:13] = ["[![Build](https://ci.example/build.svg)](https://ci.example)"] * 2
    page = Hit(Span("shop", "README.md", 41, 70), "\n".join(lines) + "\n", 0.9, kind="doc")
    _, place, _ = quoted(answer("How do I install part 2?", replace(page, asked_line=50)))
    assert place == (50, 51), "up to the badges"


def test_without_a_hit_nothing_is_said_but_that() -> None:
    assert answer("Where?") == "Nothing was found on this question.\n"


def test_sources_that_the_template_does_not_show_are_not_called_missing() -> None:
    assert "shows no sources" in "".join(extract(prepared("Where?", SIGN, shown=False)))


def test_one_source_is_quoted_and_the_next_five_are_named() -> None:
    others = [another(n, start=10 * n, end=10 * n + 30) for n in range(9)]
    generator = ExtractiveGenerator()
    text = "".join(generator.stream(prepared("token", *others)))
    assert quoted(text)[0] == 1
    places = re.findall(r"^- `sign` — `(f\d\.py):(\d+)` \[(\d)\] — mentions .*$", text, re.MULTILINE)
    assert places == [(f"f{n}.py", str(10 * n + 1), str(n + 1)) for n in range(1, 6)]
    assert generator.quoted[-1][1:] == ("f5.py", 51, 51)
    assert [n for n, *_ in generator.quoted] == [1, 2, 3, 4, 5, 6]
    assert resolve(text, prepared("token", *others).prompt.sources).invented == 0


@pytest.mark.parametrize("warning", ["", "Probably not in this repository. " * 4])
def test_a_whole_answer_is_on_one_screen_of_80_columns(warning: str) -> None:
    """Its long lines are wrapped: the quotation keeps the line that decides, a place has one line."""
    lines = [f"\tif wrong(session):  # {'because it is so ' * 6}" for _ in range(20)]
    lines[12] = "\t\traise Expired(token)"
    long = replace(SIGN, span=replace(SIGN.span, end=SIGN.span.start + 19), text="\n".join(lines) + "\n")
    others = [another(n, path=f"{'deep/' * 6}f{n}.py") for n in range(6)]
    note = PlaceNote(41, ((42, "Sign a token for a session, which is valid for a day and never longer."),))
    text = noted("When has a token expired?", long, *others, note=note, warning=warning)
    rows = [row for line in text.expandtabs().splitlines() for row in textwrap.wrap(line, 80) or [""]]
    assert len(rows) + (len(textwrap.wrap(warning, 80)) + 1 if warning else 0) <= 25
    assert "raise Expired(token)" in quoted(text)[2] and "\nOther places:\n- `sign` — `deep/" in text


def test_places_have_their_repository_where_several_are_asked() -> None:
    text = answer("token", SIGN, *[another(n, repo="desk") for n in range(4)])
    assert "(`shop:shop/sessions.py:41`)" in text and "`desk:f0.py:41`" in text


def test_a_place_that_defines_nothing_is_named_by_its_file_and_words() -> None:
    plain = like(SIGN, path="a/b.py", symbol="", unit="block", text="x = 1\ny = token\n", start=1, end=2)
    text = answer("Where is the token?", SIGN, plain)
    assert "- `b.py` — `a/b.py:2` [2] — mentions *token*\n" in text
    assert "This is in file `b.py` (`a/b.py:2`) [1].\n" in answer("Where is the token?", plain)


def test_a_section_is_named_by_its_heading_and_what_it_says() -> None:
    page = like(PAGE, symbol="Use", scope="Shop", text="## Use\n\nCall the shop.\n\n### Keys\n\nAsk Ann.\n")
    note = PlaceNote(sentences=((3, "Call the shop."), (7, "Ask Ann.")))
    text = noted("Which keys are there?", SIGN, page, note=note)
    assert "- “Keys” — `README.md:5` [2] — Call the shop.\n" in text


def test_a_later_part_of_a_definition_is_placed_at_the_line_that_decides() -> None:
    part = like(SIGN, text="    x = 1\n    if expired(token):\n        raise Expired\n", end=42)
    text = answer("When is a token expired?", *[another(n) for n in range(3)], part)
    assert "- `sign` — `shop/sessions.py:41` [4] — mentions *token*, *expired*\n" in text


def test_what_a_place_is_is_left_out_where_only_its_kind_is_known() -> None:
    text = answer("Where is a cookie signed?", SIGN, replace(another(1), reason=""))
    assert "- `sign` — `f1.py:41` [2]\n" in text


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("function `sign(token, key, algorithm='sha256', encoding='utf-8')`", ""),
        ("function, called by `authenticate_every_request`", ""),
        ("Wrap a value so that `extend_every_default()` replaces it", "Wrap a value so that …"),
        ("Wrap a value so that it is replaced and not merged", "Wrap a value so that it is …"),
    ],
)
def test_a_place_with_little_room_says_nothing_rather_than_its_kind(what: str, said: str) -> None:
    assert NamedPlace("`sign`", SIGN, "shop/tokens/sessions.py", "41", what, (2,)).on_one_line.what == said


def test_a_note_on_what_may_be_missing_begins_its_item_as_a_sentence() -> None:
    found = Extract("Found:", (NamedPlace("`sign`", SIGN, "a.py", "1", ""),), note="may be incomplete: x")
    assert "\n- May be incomplete: x\n" in "".join(found.pieces())
    assert "\n- and 2 more; may be incomplete: x\n" in "".join(replace(found, more=2).pieces())


def facts(kind: str, *items: CodeFact, count: int = 0) -> CodeFacts:
    return CodeFacts(kind, "Color", "`Color` has members", items, count or len(items), len(items))


def fact(line: int, text: str, path: str = "a.py", symbol: str = "", **more: Any) -> CodeFact:
    return CodeFact(Span("shop", path, line, line, symbol=symbol), text, **more)


COLORS = like(
    SIGN,
    path="a.py",
    symbol="Color",
    unit="class",
    start=1,
    end=30,
    text="class Color:\n" + "".join(f"    C{n} = {n}\n" for n in range(2, 31)),
)


def with_facts(found: CodeFacts, *hits: Hit) -> str:
    return "".join(extract(replace(prepared("Which colours are there?", *hits), code_facts=found)))


def test_a_short_list_is_quoted_as_a_whole() -> None:
    text = with_facts(facts("list", fact(2, "    C2 = 2"), fact(3, "    C3 = 3")), COLORS)
    assert quoted(text) == (1, (1, 3), "class Color:\n    C2 = 2\n    C3 = 3")
    assert text.startswith("`Color` has members:\n\n[1] a.py:1-3\n")
    assert "- " not in text


def test_all_members_of_a_long_list_are_named_with_their_lines() -> None:
    items = [fact(n, f"    C{n} = {n},", certain=n != 4) for n in range(2, 31)]
    text = with_facts(facts("list", *items, count=40), COLORS)
    listed = ", ".join(f"`C{n} = {n}` {n}{' (possibly)' if n == 4 else ''}" for n in range(2, 31))
    assert text == f"`Color` has members:\n\n- `a.py` [1] — {listed}\n- and 11 more\n"


def test_a_few_call_sites_have_their_definitions_and_many_only_lines() -> None:
    few = with_facts(facts("callers", fact(2, "x()", symbol="f"), fact(3, "x()", symbol="g")), COLORS)
    assert "- `f` — `a.py:2` [1]\n- `g` — `a.py:3` [1]\n" in few
    many = [fact(n, "x()", symbol=f"f{n}") for n in range(2, 9)]
    text = with_facts(facts("callers", fact(1, "x()", "b.py", "h"), *many), COLORS)
    assert "- `b.py` — `h` 1\n- `a.py` [1] — 2, 3, 4, 5, 6, 7, 8\n" in text


def test_several_lines_of_one_definition_come_after_its_name() -> None:
    first = [fact(n, "x()", "b.py", symbol, certain=n != 3) for n, symbol in ((1, "h"), (3, "h"), (5, "k"))]
    text = with_facts(facts("callers", *first, *(fact(n, "x()") for n in range(2, 9))), COLORS)
    assert "- `b.py` — `h` 1, 3 (possibly), `k` 5\n" in text


def test_facts_about_one_place_name_it_once() -> None:
    items = [fact(2, "    C2 = 2", reason=f"commit {n}") for n in range(3)]
    text = with_facts(facts("history", *items), COLORS)
    assert "— `a.py:2` [1] — commit 0\n- commit 1\n- commit 2\n" in text


def test_where_it_is_asked_who_calls_something_the_calling_lines_come_first() -> None:
    caller = like(
        SIGN,
        path="shop/http.py",
        symbol="respond",
        text="def respond(token):\n" + "    wait()\n" * 40 + "    cookie = sign(token)\n    send(cookie)\n",
        end=82,
    )
    for question in ("Who calls `sign`?", 'who calls it? (after "How?", about `sign`)'):
        first, _, body = quoted(answer(question, SIGN, caller))
        assert first == 2
        assert "    cookie = sign(token)\n" in body
    assert quoted(answer("How does `sign` work?", SIGN, caller))[0] == 1


def test_a_path_or_a_quote_cannot_pose_as_text_or_reference() -> None:
    hit = like(SIGN, path="app/[9]/`a`\n# x.py", symbol="[8]\n`", text="````\n[7]\n```\n", end=42)
    text = answer("x", hit)
    resolved = resolve(text, prepared("x", hit).prompt.sources)
    assert (resolved.text, resolved.invented) == (text, 0)
    assert quoted(text)[1:] == ((40, 42), "````\n[7]\n```")


def test_the_generator_costs_nothing_and_is_called_extractive() -> None:
    generator = ExtractiveGenerator()
    assert "".join(generator.stream(prepared("token", SIGN))) == answer("token", SIGN)
    assert (generator.model, generator.usage) == ("extractive", Usage(estimated=False, cost_usd=0.0))


line = st.lists(
    st.sampled_from(["def f():", "  ", "token", "sign", "x" * 100, "```", '"""', "…", "[1]", "#", "é", "`"]),
    max_size=4,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(line, min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from(["token sign", "nothing", ""]),
    st.sampled_from(["", "f"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_quoted_stands_in_the_file_at_the_lines_named(
    files: list[list[str]], question: str, symbol: str, end: str
) -> None:
    spans = [Span("r", f"{n}.py", 7, 6 + len(lines), symbol=symbol) for n, lines in enumerate(files)]
    texts = [end.join(lines) + end for lines in files]
    hits = [Hit(span, text, 1.0, language="python") for span, text in zip(spans, texts, strict=True)]
    number, (first, last), body = quoted(answer(question, *hits))
    assert number == 1 and last - first < 15
    shown = [line.rstrip("\r") for line in files[0][first - 7 : last - 6]]
    if all(len(line) <= 240 for line in shown):
        assert body == "\n".join(shown)


def test_a_very_long_line_is_cut_around_a_word_of_the_question() -> None:
    long = like(SIGN, text=f"def sign(): return '{'x' * 500} token {'y' * 500}'\n", end=40)
    _, _, body = quoted(answer("Where is the token?", long))
    assert len(body) <= 242 and " token " in body and body[0] == body[-1] == "…"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"unit": "class"}, "class `sign`"),
        ({"unit": "section", "symbol": "Setup", "kind": "doc"}, "“Setup”"),
        ({"unit": "block", "symbol": "", "scope": "Outer"}, "`Outer`"),
        ({"unit": "block", "symbol": ""}, "file `sessions.py`"),
        ({"scope": "Session"}, "function `Session.sign`"),
        ({"kind": "test"}, "test `sign`"),
    ],
)
def test_the_sentence_says_what_the_first_place_is(change: dict[str, Any], what: str) -> None:
    assert answer("token", like(SIGN, **change)).startswith(f"This is in {what} (`shop/sessions.py:")


def test_a_follow_up_quotes_the_lines_of_its_facet():
    fails = replace(
        prepared("what if it fails?", SIGN), standalone_question="what if it fails? (about `sign`)"
    )
    assert "raise Expired" in "".join(extract(fails))
    returns = replace(prepared("what does it return?", SIGN), standalone_question="… (about `sign`)")
    assert "return digest" in "".join(extract(returns))


DOCS = like(
    SIGN,
    text="def sign(token: str) -> str:\n"
    + '    """Sign something.\n'
    + "".join(f"    Filler {n}.\n" for n in range(20))
    + '    The nonce is checked.\n    """\n'
    + "    nonce = 1\n    return token\n",
)


def test_a_quotation_that_cuts_a_docstring_is_one_fence_without_a_language() -> None:
    text = answer("Which nonce is checked?", DOCS)
    assert "\n```\n    Filler 1" in text, "no language"
    assert '    The nonce is checked.\n    """\n    nonce = 1\n    return token\n```\n' in text
    assert quoted(text)[1] == (57, 65)


@pytest.mark.parametrize("fence", ["```", "````"])
def test_a_quoted_document_with_fences_is_one_quotation(fence: str) -> None:
    step = f"Run it:\n\n{fence} shell\n$ make docs\n{fence}\n\n"
    page = like(
        SIGN, path="a.md", symbol="Docs", text=f"# Docs\n\n{step * 9}The nonce.\n\n{step * 9}", kind="doc"
    )
    for text in (page.text, page.text.replace("$ make docs", "the nonce")):
        shown = answer("nonce", replace(page, unit="section", language="markdown", text=text))
        marks = f"{fence}`"
        body = shown.partition(f"\n{marks}")[2]
        assert shown.count(marks) == 2 and "\nOther" not in body.partition(f"\n{marks}\n")[0]


def test_the_mark_of_a_docstring_that_is_cut_is_not_quoted_alone() -> None:
    docs = like(DOCS, text=DOCS.text.replace("The nonce is checked.", "Nothing.") + "    more()\n" * 20)
    asked = answer("Where is nonce returned from token?", docs)
    assert '```\n    """\n```' not in asked and "    nonce = 1\n" in asked
