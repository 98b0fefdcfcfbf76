"""What is on a long line is read like what is on a short one."""

from __future__ import annotations

import pytest

from rag.code.patterns import outline_by_lines
from rag.retrieval.kinds.line_series import series_of, shapes_of
from rag.retrieval.lookup import _Patterns
from rag.retrieval.search import search

LONG = "a long description of it, " * 40


def found(searcher_of, files, question):
    return search([searcher_of(files)], question).code_facts


def test_a_member_of_a_list_may_have_a_long_description():
    lines = ["flags = [", *(f"    Flag('{name}', help='{name}')," for name in ("one", "two", "three")), "]"]
    (short,) = (one for one in series_of(lines) if one.shape == "call")
    lines[2] = f"    Flag('two', help='{LONG}'),"
    (long,) = (one for one in series_of(lines) if one.shape == "call")
    assert long.members == short.members and len(long.members) == 3
    assert shapes_of(lines[2])[0] == shapes_of("    Flag('two', help='two'),")[0]


def test_the_strings_of_a_line_are_counted_only_if_it_is_read_whole():
    strings = "', '".join(f"name_{n}" for n in range(100))
    assert not [one for one in shapes_of(f"NAMES = ['{strings}']") if one[0] == "strings"]


@pytest.mark.parametrize("language", ["python", "java"])
def test_a_line_that_defines_a_name_may_be_long(language):
    line = f"def sign(token): return digest(token, '{LONG}')"
    assert _Patterns.of("sign").defines(line, language)


def test_a_definition_without_a_grammar_may_be_a_long_line():
    columns = ", ".join(f"column_{n} text" for n in range(60))
    found = outline_by_lines([f"CREATE TABLE orders ({columns});\n"], "sql")
    assert [one.symbol for one in found] == ["orders"]


def test_a_base_is_found_on_a_long_line(searcher_of):
    bases = ", ".join(f"Interface{n}" for n in range(60))
    text = f"class Shape\nclass Round : {bases}, Shape()\n"
    facts = found(searcher_of, {"A.kt": text}, "Which classes extend Shape?")
    assert any(item.start == 2 for item in facts.items)


def test_a_message_may_be_on_a_long_line(searcher_of, monkeypatch):
    message = "the configuration file cannot be opened for reading"
    text = f"const texts = {{ a: '{LONG}', b: '{message}' }};\nfunction other() {{ return 1; }}\n"
    facts = found(searcher_of, {"texts.js": text}, message)
    assert facts is not None and facts.kind == "message" and not facts.note
    monkeypatch.setattr("rag.retrieval.kinds.messages._MAX_SEARCHED_CHARS", 500)
    text = f"const texts = {{ b: '{message}', a: '{LONG}' }};\n"
    facts = found(searcher_of, {"texts.js": text}, message)
    assert "may be incomplete: only the first 500 characters of a line were read" in facts.note
