from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.answer.citations import resolve
from rag.answer.extract import ExtractiveGenerator, extract
from rag.types import Conversation, Hit, NumberedSource, Prepared, Prompt, Span, Usage

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
    r"^(?P<head>[^\n]*) \[(?P<n>\d+)\][^\n]*\n\n"
    r"(?P<body>(?:…\n)?(?P<marks>`{3,})[^\n`]*\n.*?\n(?P=marks)"
    r"(?:\n…|\n(?P=marks)[^\n`]*\n.*?\n(?P=marks))*)$",
    re.DOTALL | re.MULTILINE,
)
_PLACES = re.compile(r"`[^`]*:(\d+(?:-\d+)?)`((?:, \d+(?:-\d+)?)*) \[")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def quotes(text: str) -> list[tuple[int, list[tuple[int, int]], str]]:
    """Number, ranges of lines, and body of each quote."""
    return [
        (
            int(m["n"]),
            [(int(a), int(b or a)) for a, b in _RANGE.findall(_named(m["head"] + " ["))],
            _unfenced(m),
        )
        for m in _BLOCK.finditer(text)
    ]


def _unfenced(block: re.Match[str]) -> str:
    """The quoted lines, without the lines of fences."""
    fence_line = re.compile(rf"^{block['marks']}[^\n`]*(?:\n|\Z)", re.MULTILINE)
    return fence_line.sub("", block["body"]).removesuffix("\n")


def _named(head: str) -> str:
    found = _PLACES.search(head)
    assert found
    return found[1] + found[2]


def test_the_definition_its_documentation_and_the_matching_lines_are_quoted() -> None:
    text = answer("When does a session token expire?", SIGN)
    ((n, ranges, body),) = quotes(text)
    assert n == 1
    assert body.startswith("@cached\ndef sign(token: str) -> str:\n" + '    """Sign a token for a session.')
    assert "    if expired(token):\n        raise Expired\n" in body
    assert "\n…\n" in body
    assert "\n```\n…\n```python\n" in text, "each range is in a fence of its own"
    assert ranges[0][0] == 40
    assert text.startswith("No language model is configured")
    assert "Function `sign`, `shop/sessions.py:40-" in text
    assert "— matches *session*, *token*, *expire*" in text


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
    [(_, places, quoted)] = quotes(answer(question, PAGE))
    assert places[0][0] >= 20
    assert "\nShop is a till for small markets.\nIt adds up.\n" in quoted
    assert "example.org" not in quoted


def test_what_is_asked_about_a_project_is_quoted_from_the_line_where_its_answer_begins() -> None:
    lines = [f"Sails, part {n}." for n in range(1, 31)]
    lines[11:13] = ["[![Build](https://ci.example/build.svg)](https://ci.example)"] * 2
    page = Hit(Span("shop", "README.md", 41, 70), "\n".join(lines) + "\n", 0.9, kind="doc")
    [(_, places, _)] = quotes(answer("How do I install part 2?", replace(page, asked_line=50)))
    assert places == [(50, 51), (54, 65)]


def test_the_line_that_defines_is_not_quoted_alone() -> None:
    [(_, places, _)] = quotes(answer("What is `sign`?", SIGN))
    assert sum(last - first + 1 for first, last in places) >= 8


def test_without_a_hit_nothing_is_said_but_that() -> None:
    assert answer("Where?") == (
        "Nothing was found on this question. No language model is configured, so nothing is explained here.\n"
    )


def test_sources_that_the_template_does_not_show_are_not_called_missing() -> None:
    assert "shows no sources" in "".join(extract(prepared("Where?", SIGN, shown=False)))


def test_three_sources_are_quoted_each_under_its_number_and_repository() -> None:
    others = [another(n, repo="desk") for n in range(4)]
    text = answer("token", SIGN, *others)
    assert [n for n, _, _ in quotes(text)] == [1, 2, 3]
    assert "`shop:shop/sessions.py:" in text
    assert "`desk:f0.py:" in text


def test_the_next_five_sources_are_named_with_one_line_each() -> None:
    others = [another(n, start=10 * n, end=10 * n + 30) for n in range(9)]
    generator = ExtractiveGenerator()
    text = "".join(generator.stream(prepared("token", *others)))
    further = re.findall(r"^- `(f\d\.py):(\d+)` \[(\d)\] `(.*)`$", text, re.MULTILINE)
    assert further == [
        (f"f{n}.py", str(10 * n + 1), str(n + 1), "def sign(token: str) -> str:") for n in range(3, 8)
    ]
    assert generator.quoted[-1][1:] == ("f7.py", 71, 71)
    assert resolve(text, prepared("token", *others).prompt.sources).invented == 0


def test_lines_that_a_repository_has_twice_are_quoted_once() -> None:
    """However they are indented; a copy is named as a further place, one of another repository is quoted."""
    copy = like(SIGN, path="shop/copy.py", text="\n".join("    " + line for line in SIGN.text.splitlines()))
    elsewhere = like(SIGN, repo="other")
    text = answer(
        "How is a token signed?", SIGN, copy, elsewhere, like(SIGN, path="a.py", text="token = 1\n")
    )
    assert [number for number, _, _ in quotes(text)] == [1, 3, 4]
    assert "- `shop:shop/copy.py:41` [2] `def sign(token: str) -> str:`" in text


def test_a_line_with_backticks_is_named_as_it_is_written() -> None:
    others = [another(n) for n in range(3)]
    code = "const sign = (token) => `signed ${token}`"
    text = answer("token", *others, like(SIGN, path="a.js", text=code, symbol="", scope="", unit="block"))
    assert f"] `` {code} ``" in text


def test_a_later_part_of_a_definition_is_named_by_the_line_that_tells_most() -> None:
    part = like(SIGN, text="    x = 1\n    if expired(token):\n        raise Expired\n", end=42)
    text = answer("When is a token expired?", *[another(n) for n in range(3)], part)
    assert "- `shop/sessions.py:41` [4] `if expired(token):`" in text


def test_where_it_is_asked_who_calls_something_the_calling_lines_come_first() -> None:
    caller = like(
        SIGN,
        path="shop/http.py",
        symbol="respond",
        text="def respond(token):\n" + "    wait()\n" * 40 + "    cookie = sign(token)\n    send(cookie)\n",
        end=82,
    )
    for question in ("Who calls `sign`?", 'who calls it? (after "How?", about `sign`)'):
        (first, _, body), (second, _, _) = quotes(answer(question, SIGN, caller))
        assert (first, second) == (2, 1)
        assert "    cookie = sign(token)\n" in body
        assert body.startswith("def respond(token):\n")
    assert [n for n, _, _ in quotes(answer("How does `sign` work?", SIGN, caller))] == [1, 2]


def test_a_path_or_a_quote_cannot_pose_as_text_or_reference() -> None:
    hit = like(SIGN, path="app/[9]/`a`\n# x.py", symbol="[8]\n`", text="````\n[7]\n```\n", end=42)
    text = answer("x", hit)
    resolved = resolve(text, prepared("x", hit).prompt.sources)
    assert (resolved.text, resolved.invented) == (text, 0)
    ((_, ranges, body),) = quotes(text)
    assert (ranges, body) == ([(40, 42)], "````\n[7]\n```")


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
    spans = [
        Span(f"r{n}", "a.py", 7, 6 + len(lines), symbol=symbol) for n, lines in enumerate(files)
    ]  # copies of one repository are quoted once
    texts = [end.join(lines) + end for lines in files]
    hits = [Hit(span, text, 1.0, language="python") for span, text in zip(spans, texts, strict=True)]
    found = quotes(answer(question, *hits))
    assert [n for n, _, _ in found] == list(range(1, len(files) + 1))
    for (_, ranges, body), lines in zip(found, files, strict=True):
        named = [[lines[i - 7] for i in range(a, b + 1)] for a, b in ranges]
        assert sum(map(len, named)) <= 20
        cut = [[text if len(text) <= 240 else text[:240] + "…" for text in part] for part in named]
        quoted = "\n…\n".join("\n".join(part) for part in cut)
        assert body in (quoted, f"…\n{quoted}", f"{quoted}\n…", f"…\n{quoted}\n…")


@pytest.mark.parametrize(
    ("change", "head"),
    [
        ({"unit": "class"}, "Class `sign`, `"),
        ({"unit": "section", "symbol": "Setup"}, "Section `Setup`, `"),
        ({"unit": "block", "symbol": "", "scope": "Outer"}, "In `Outer`, `"),
        ({"unit": "block", "symbol": ""}, "\n`shop/"),
        ({"scope": "Session"}, "Function `Session.sign`, `"),
    ],
)
def test_the_header_says_what_is_quoted(change: dict[str, Any], head: str) -> None:
    assert head in answer("token", like(SIGN, **change))


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


def test_the_end_of_a_docstring_that_is_cut_is_in_a_fence_without_a_language() -> None:
    text = answer("Which nonce is checked?", DOCS)
    assert text.count("```\n    Filler 18.\n") == 1, "no language"
    assert '    The nonce is checked.\n    """\n```\n```python\n    nonce = 1\n' in text
    ((_, ranges, _),) = quotes(text)
    assert ranges == [(40, 43), (60, 64)], "the fences of one range have one place"


def test_the_mark_of_a_docstring_that_is_cut_is_not_quoted_alone() -> None:
    docs = like(DOCS, text=DOCS.text.replace("The nonce is checked.", "Nothing."))
    asked = answer("Where is nonce returned from token?", docs)
    assert '```\n    """\n```' not in asked and "\n```python\n    nonce = 1\n" in asked
