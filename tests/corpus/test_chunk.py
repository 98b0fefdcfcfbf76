"""Files are cut along their syntax, and nothing of them is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.code.definitions import Definition
from rag.code.grammars import has_grammar
from rag.code.languages import language_of_path
from rag.code.outline import outline
from rag.code.patterns import outline_by_lines
from rag.corpus.chunk import chunk
from rag.isolated import GaveUp
from rag.lines import LONG_VALUE, whole_lines_of
from rag.types import Chunk, SourceFile

SNIPPETS = Path(__file__).parent / "snippets"
SNIPPET_FILES = sorted(SNIPPETS.glob("*.txt"))
LANGUAGES = sorted(
    "python javascript typescript tsx java go rust c cpp ruby php csharp kotlin scala swift lua bash sql "
    "html vue css json yaml toml markdown rst text make docker ini perl r elixir haskell terraform proto "
    "scss unheard-of".split()
)


def cut(text: str, language: str = "python", max_chars: int = 1600) -> list[Chunk]:
    return chunk(SourceFile("a/b", text, "", language, "code"), max_chars=max_chars)


def names(chunks: list[Chunk]) -> list[tuple[str, str]]:
    return [(c.unit, c.qualified_name) for c in chunks]


def check_laws(text: str, language: str, max_chars: int) -> None:
    chunks = cut(text, language, max_chars)
    is_whole = all(len(line) <= 16_000 and not LONG_VALUE.search(line) for line in text.split("\n"))
    assert not is_whole or "".join(c.text for c in chunks) == text
    position = 0
    for c in chunks:
        assert 0 < len(c.text) <= max_chars
        position = position if is_whole else text.index(c.text, position)
        assert c.start == 1 + text.count("\n", 0, position)
        position += len(c.text)
        assert c.end == 1 + text.count("\n", 0, position - 1)
        assert (c.path, c.kind, c.language) == ("a/b", "code", language)


# ---------------------------------------------------------------- laws

_PARTS = [
    *["\n", "\r\n", "\r", " ", "    ", "\t", "\u2028", "\ufeff", "\x0c", "\n" * 9, "x" * 90],
    *"""{ } ( ) [ ] < > " ' ` \"\"\" /* */ # // -- : ; , = \\ $ | ``` é""".split(),
    *"日本 😀 <?php <script> <a> end begin do".split(),
    *["def f(x):", "class A", "function g()", "if x", "return 1", "# T", "- a: b", "a:", "<|endoftext|>"],
    *["SELECT 1", "impl X for Y", "fn h()", "namespace n", "CREATE TABLE t (", "public void m() {"],
]


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.one_of(st.sampled_from(_PARTS), st.text(max_size=20)), max_size=60),
    max_chars=st.sampled_from([1, 40, 300, 1600]),
)
def test_chunks_joined_give_back_any_text(language: str, parts: list[str], max_chars: int) -> None:
    check_laws("".join(parts), language, max_chars)


@pytest.mark.parametrize("path", SNIPPET_FILES, ids=lambda path: path.stem)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(), edits=st.integers(0, 6), max_chars=st.sampled_from([60, 400, 1600]))
def test_chunks_joined_give_back_mutated_code(path: Path, seed: int, edits: int, max_chars: int) -> None:
    luck = random.Random(seed)
    text = path.read_text() * 2
    for _ in range(edits):
        start = luck.randrange(len(text) + 1)
        stop = start + luck.randrange(80)
        text = text[:start] + luck.choice(["", text[start:stop] * 3, luck.choice(_PARTS)]) + text[stop:]
    check_laws(text, language_of_path(path.stem) or "text", max_chars)


def test_an_empty_file_has_no_chunks() -> None:
    assert [cut("", language) for language in LANGUAGES] == [[]] * len(LANGUAGES)


def test_a_cap_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_chars"):
        cut("x", max_chars=0)


def test_a_line_over_the_cap_is_cut_within_at_a_pause() -> None:
    line = "word, " * 700
    chunks = cut(line + "\nx = 1\n", "text")
    assert [c.start for c in chunks] == [1] * (len(chunks) - 1) + [2]
    assert all(c.text.endswith((" ", ",")) for c in chunks[:-2])


@pytest.mark.parametrize("language", [language for language in LANGUAGES if has_grammar(language)])
@pytest.mark.parametrize(
    "opening", ["(", "[", "{", "<a>", "- ", "> ", "if x:\n", "a: [", '"', "x = {", "f(function() {"]
)
def test_deep_nesting_is_only_text(language: str, opening: str) -> None:
    check_laws(opening * 10_000, language, 1600)


@pytest.mark.parametrize("language", ["yaml", "python", "markdown"])
def test_deep_indentation_is_only_text(language: str) -> None:
    check_laws("".join(f"{' ' * depth}a:\n" for depth in range(600)), language, 1600)
    check_laws("".join(f"{'  ' * depth}- a\n" for depth in range(300)), language, 1600)


def test_text_that_a_parser_gets_lost_in_is_cut_by_lines() -> None:
    text = "lorem ipsum dolor " * 20_000
    check_laws(text, "lua", 1600)
    began = time.thread_time()
    definitions_of(text, "lua")
    assert time.thread_time() - began < 10


def definitions_of(text: str, language: str) -> list[Definition]:
    """As the process finds them that reads source text; here, so that its time is measured too."""
    lines = whole_lines_of(text)
    try:
        return outline(text, lines, language, lambda start, end: end - start > 12)
    except GaveUp:
        return outline_by_lines(lines, language)


@pytest.mark.parametrize("path", SNIPPET_FILES, ids=lambda path: path.stem)
def test_a_megabyte_takes_about_a_second(path: Path) -> None:
    text = path.read_text()
    language = language_of_path(path.stem) or "text"
    file = SourceFile("x", text * (300_000 // len(text)), "", language, "code")
    began = time.thread_time()
    chunk(file, definitions=definitions_of(file.text, language))
    assert time.thread_time() - began < 0.3 * 6  # 0.1 to 0.9 s a megabyte on a quiet machine


# ---------------------------------------------------------------- definitions, by language


def outline_of(path: Path) -> list[str]:
    """The file's definitions, one a line, as its chunks tell them when nothing is merged."""
    text = path.read_text()
    found: list[str] = []

    def tell(definitions: list[Definition]) -> None:
        for definition in definitions:
            found.append(
                f"{definition.unit} {definition.inner_scope} {definition.start + 1}-{definition.end}"
            )
            tell(definition.members)

    lines = text.splitlines(keepends=True)
    tell(outline(text, lines, language_of_path(path.stem) or "text", lambda start, end: end - start > 12))
    return found


@pytest.mark.parametrize("path", SNIPPET_FILES, ids=lambda path: path.stem)
def test_each_language_tells_what_it_defines(path: Path) -> None:
    assert outline_of(path) == path.with_suffix(".outline").read_text().splitlines()


def test_comments_define_nothing_where_the_parser_fails() -> None:
    text = "/* of this software and\n * files (the copies) of\n   files (the rest) of\n */\n"
    text += "int run(int a) {\n}\n"
    found = outline_by_lines(text.splitlines(keepends=True), "c")
    assert [definition.symbol for definition in found] == ["run"]


def test_every_grammar_has_a_snippet() -> None:
    covered = {language_of_path(path.stem) for path in SNIPPET_FILES}
    missing = {language for language in LANGUAGES if has_grammar(language)} - covered
    assert not missing


# ---------------------------------------------------------------- chunks that read well

_BODY = "".join(f"    step_{number} = work(step_{number - 1})\n" for number in range(1, 9))


def test_a_function_stands_with_its_decorator_and_the_comment_above_it() -> None:
    imports = "".join(f"from package import module_{number}\n" for number in range(6))
    header = f'"""Docs."""\n\n{imports}\nNAME = 1\n\n\n'
    first = f"# Why it is so.\n@cached\ndef first(x):\n{_BODY}\n\n"
    second = f"async def second(x):\n{_BODY}"
    chunks = cut(header + first + second)
    assert [c.text for c in chunks] == [header, first, second]
    assert names(chunks) == [("block", ""), ("function", "first"), ("function", "second")]
    assert [(c.start, c.end) for c in chunks] == [(1, 12), (13, 25), (26, 34)]


def test_a_class_becomes_its_head_and_its_methods() -> None:
    body = _BODY.replace("    ", "        ")
    head = 'class Store(Base):\n    """Keeps things."""\n\n    size = 1\n\n' + "    field_of_it = 1\n" * 8
    chunks = cut(f"{head}    def get(self):\n{body}\n    @property\n    def put(self):\n{body}")
    assert names(chunks) == [("class", "Store"), ("function", "Store.get"), ("function", "Store.put")]
    assert chunks[0].text.startswith("class Store")
    assert "@property" in chunks[2].text


def test_a_bare_head_stands_with_its_constructor() -> None:
    body = _BODY.replace("    ", "        ")
    chunks = cut(f"class Store:\n    def __init__(self):\n{body}\n    def get(self):\n{body}")
    assert names(chunks) == [("class", "Store"), ("function", "Store.get")]


def test_a_long_function_is_cut_between_statements_and_keeps_its_name() -> None:
    block = "    for item in items:\n        if item:\n            use(item)\n            keep(item)\n\n"
    chunks = cut("class A:\n    pass\n\n" + "def long(items):\n" + block * 60)
    parts = [c for c in chunks if c.symbol == "long"]
    assert len(parts) > 2
    assert len({c.qualified_name for c in parts}) == 1
    assert all(c.text.startswith("    for item") for c in parts[1:])


def test_small_neighbours_are_merged_and_bodies_are_not() -> None:
    small = "".join(f"def get_{number}(x):\n    return x.f_{number}\n\n\n" for number in range(6))
    chunks = cut(f"{small}def big(x):\n{_BODY}")
    assert [c.unit for c in chunks] == ["function"] * len(chunks)
    assert len(chunks) <= 3
    assert chunks[-1].text.startswith("def big")


def test_a_small_definition_keeps_its_name_beneath_what_opens_the_file() -> None:
    opening = '"""What this is about, said at some length:\n' + "more than a line or two.\n" * 4 + '"""\n'
    chunks = cut(f"{opening}import sys\n\n\ndef name() -> str:\n    return sys.argv[0]\n")
    assert names(chunks) == [("block", ""), ("function", "name")]


def test_overloads_stand_together() -> None:
    overload = "export function parse(input: string, options: Options{}): Result;\n"
    chunks = cut("".join(overload.format(n) for n in range(4)), "typescript")
    assert names(chunks) == [("function", "parse")]


def test_sections_are_named_by_their_headings_and_nest() -> None:
    prose = "Some words that explain the matter at hand, at length.\n" * 7
    text = f"# The `tool`\n\n{prose}\n## Use [it](x)\n\n{prose}\n### Deep\n\n{prose}\nTwo\n===\n\n{prose}"
    assert names(cut(text, "markdown")) == [
        ("section", "The tool"),
        ("section", "The tool.Use it"),
        ("section", "The tool.Use it.Deep"),
        ("section", "Two"),
    ]


def test_a_ruled_title_in_plain_text_is_a_heading() -> None:
    prose = "Some words that explain the matter at hand, at length.\n" * 7
    text = f"=====\nTitle\n=====\n\n{prose}\n.. _there:\n\nPart\n----\n\n{prose}"
    chunks = cut(text, "rst")
    assert names(chunks) == [("section", "Title"), ("section", "Title.Part")]
    assert chunks[1].text.startswith(".. _there:")


def test_keys_of_data_name_their_values() -> None:
    values = ", ".join(f'"value number {number}"' for number in range(20))
    text = f'{{\n  "first": [{values}],\n  "second": {{\n    "inner": [{values}]\n  }}\n}}\n'
    assert names(cut(text, "json")) == [("section", "first"), ("section", "second")]


def test_a_script_in_a_page_is_cut_like_any_script() -> None:
    body = "".join(f"  work({number});\n" for number in range(30))
    template = "<template>\n" + "  <p>hello world</p>\n" * 8 + "</template>\n"
    page = f'{template}<script lang="ts">\nfunction run(a: string) {{\n{body}}}\n</script>\n'
    (run,) = [c for c in cut(page, "vue") if c.symbol == "run"]
    assert run.text.startswith("function run")
    assert run.start == 12


def test_text_that_looks_like_a_models_marks_is_just_text() -> None:
    text = 'END = "<|endoftext|>"\n'
    assert [c.text for c in cut(text)] == [text]


def test_the_last_lines_of_a_function_are_no_part_of_the_next():
    steps = [f"    step_{n} = value_of(step_{n}, {n}, extension)\n" for n in range(60)]
    text = (
        f"def select(names):\n{''.join(steps[:30])}\n    def chosen(name):\n"
        f"{''.join('    ' + step for step in steps[:15])}        return name\n\n    return chosen\n\n\n"
        f"def dump(value):\n{''.join(steps[:12])}    return value\n"
    )
    chunks = cut(text)
    assert {c.qualified_name for c in chunks if "return chosen" in c.text} == {"select"}
    (dump,) = (c for c in chunks if "def dump" in c.text)
    assert dump.text.startswith("def dump")
    assert dump.qualified_name == "dump"
