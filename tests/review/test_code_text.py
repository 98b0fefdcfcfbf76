"""What is code, and what is only layout."""

import pytest

from rag.review.code_text import header, significant


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("python", "def f(a):\n    return a\n", 'def f(a):  # doc\n    """Say."""\n\n    return a\n'),
        ("python", "x = [1, 2]\n", "x = [\n    1, 2\n]\n"),
        ("javascript", "f(a) // b\ng()", "f(a)\n\n\n/* c */ g()"),
        ("go", "a := 1\n", "a  :=  1 // one\n"),
        ("c", "int f() { return 1; }", "int f()\n{\n  return 1; /* x */\n}\n"),
        ("rust", "fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {} // 'x'"),
        ("ruby", "a = 1 # one\n", "a = 1\n"),
        ("php", "$a = 1; # one", "$a = 1; // two"),
    ],
)
def test_only_the_layout_differs(language, one, other):
    assert significant(one, language) == significant(other, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("python", "if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"),
        ("python", "s = 'a # b'\n", "s = 'a # c'\n"),
        ("javascript", "return\nf()", "return f()"),
        ("javascript", 'u = "http://a"', 'u = "http://b"'),
        ("lua", "a = 1", "a = 2 -- 1"),
    ],
)
def test_the_code_differs(language, one, other):
    assert significant(one, language) != significant(other, language)


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("python", "@cached\ndef f(\n    a=1,  # x\n) -> int:\n    return a\n", "@cached def f(a=1,) -> int"),
        ("python", "class A(B, c=lambda: 1):\n    x = 1\n", "class A(B, c=lambda: 1)"),
        ("go", "func (s *S) F(a int) (int, error) {\n\treturn\n}", "func (s *S) F(a int) (int, error)"),
        ("typescript", "f({a, b}: T): R {\n  return a\n}", "f({a, b}: T): R"),
        ("javascript", "const f = (a) => a + 1", "const f = (a) ="),
        ("ruby", "def f(a,\n      b)\n  a + b\nend", "def f(a, b)"),
    ],
)  # fmt: skip
def test_the_header_of_a_definition(language, text, words):
    assert "".join(header(text, language)) == "".join(words.split())


def test_a_part_of_a_file_that_ends_within_a_bracket_is_read():
    assert significant("f(a,", "python") == ("f", "(", "a", ",")
    assert significant("'''x", "python") == ()
