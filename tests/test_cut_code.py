"""Code that is cut within a string or comment: its lines are not coloured as code, the others are."""

import time

import pytest

from rag.cut_code import Constructs, parts_of

CUT_BEFORE = {
    "python": ('    """Docs.', '    for the class of 3', '    """', "    x = 1"),
    "toml": ('a = """', "b = 3", '"""', "c = 4"),
    "elixir": ('  @doc """', "  if it is", '  """', "  def f(), do: 1"),
    "kotlin": ('val a = """', "  if it's", '"""', "val b = 1"),
    "java": ("/**", " * The class", " */", "class A {}"),
    "c": ("/* Docs", "   don't if", "*/", "int f(void);"),
    "javascript": ("const a = `x", "${if} don't", "`;", "f();"),
    "typescript": ("/** Docs", " * if `it`", " */", "export const a = 1;"),
    "go": ("a := `x", "if it's", "`", "b := 1"),
    "rust": ('let a = r#"x', 'if "it"', '"#;', "let b = 1;"),
    "php": ("$a = <<<EOT", "if it's", "EOT;", "$b = 1;"),
    "css": ("/* Docs", "if it's", "*/", "a { color: red }"),
    "ruby": ("a = <<~EOS", "if it's", "EOS", "b = 1"),
    "perl": ("print <<'EOS';", "if it's", "EOS", "my $b = 1;"),
    "bash": ("cat <<-EOS", "if it's", "EOS", "echo 1"),
    "terraform": ("a = <<EOS", "if it's", "EOS", "b = 1"),
    "lua": ("--[[ Docs", "if it's", "]]", "x = 1"),
    "sql": ("/* Docs", "select it's", "*/", "SELECT 1;"),
    "haskell": ("{- Docs", "where it's", "-}", "f = 1"),
    "ocaml": ("(* Docs", "let it", "*)", "let f = 1"),
    "julia": ("#= Docs", "for it's", "=#", "f = 1"),
    "nix": ("a = ''", "if it", "'';", "b = 1;"),
    "powershell": ("<# Docs", "if it's", "#>", "$b = 1"),
    "html": ("<!-- Docs", "<b>it's", "-->", "<p></p>"),
    "markdown": ("```python", "if it:", "```", "Text"),
}  # fmt: skip


@pytest.mark.parametrize("language", CUT_BEFORE)
def test_lines_after_the_opening_mark_are_no_code_up_to_the_closing_one(language: str) -> None:
    lines = list(CUT_BEFORE[language])
    found = Constructs(lines, language)
    assert found.parts(0, 3) == [(0, 3, True)], "nothing is cut"
    assert found.parts(1, 3) == [(1, 2, False), (3, 3, True)]
    assert found.parts(2, 3) == [(2, 2, False), (3, 3, True)]
    assert found.parts(3, 3) == [(3, 3, True)]


@pytest.mark.parametrize("language", sorted({*CUT_BEFORE} - {"python", "elixir"}))
def test_lines_without_the_closing_mark_are_no_code(language: str) -> None:
    opening, inside, _, after = CUT_BEFORE[language]
    lines = [after, opening, inside]
    assert Constructs(lines, language).parts(0, 2) == [(0, 0, True), (1, 2, False)]


def test_a_docstring_of_python_is_coloured_rightly_without_its_end() -> None:
    assert Constructs(CUT_BEFORE["python"], "python").parts(0, 1) == [(0, 1, True)]


@pytest.mark.parametrize(
    "language", ["python", "java", "typescript", "c", "css", "haskell", "ocaml", "html", "markdown", "sql"]
)
def test_a_text_that_begins_within_a_comment_is_seen_by_its_closing_mark(language: str) -> None:
    text = "\n".join(CUT_BEFORE[language][1:])
    head, tail = parts_of(text, language)
    assert head == ("\n".join(CUT_BEFORE[language][1:3]), False)
    assert tail == (CUT_BEFORE[language][3], True)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", '"""Docs of the module."""\nimport a'),
        ("python", 'class A:\n    """\n    Docs that\n    go on'),
        ("python", 'x = """\na\n"""\ny = f("""b""")'),
        ("python", '# it\'s """ here\nx = 1'),
        ("python", "x = \"'''\"\ny = 1"),
        ("python", 'return """a\nb"""'),
        ("javascript", 'f("src/**/*.js");\ng("*/");\nh();'),
        ("c", "char a = '\"';\nint b;"),
        ("rust", "fn f<'a>(x: &'a str) {}\nlet s = \"x\";"),
        ("lua", "x = a[b[1]]\ny = 2"),
        ("bash", "echo ${#a} # it's\necho 'b'"),
        ("ruby", "a << b\nc <<d"),
        ("c", "*p = 1;\n*q = 2;"),
        ("unknown", '"""\n*/'),
        ("python", ""),
    ],
)
def test_a_whole_piece_of_code_is_code(language: str, text: str) -> None:
    assert parts_of(text, language) == [(text, True)]


@pytest.mark.parametrize("language", CUT_BEFORE)
@pytest.mark.parametrize(
    "mark", ['"', "'", "`", "/*", '"""', "<<A\n", "#", 'r#"', "\\", "{-", "[[", "\n=begin"]
)
def test_many_marks_cost_little(language: str, mark: str) -> None:
    begun = time.process_time()
    parts_of(mark * 20_000, language)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("language", "mark"), [("go", "`"), ("javascript", "`"), ("rust", '"'), ("bash", '"')]
)
def test_backslashes_in_a_string_without_an_end_cost_little(language: str, mark: str) -> None:
    begun = time.process_time()
    assert parts_of(f"f(\n{mark}\n" + r"\d+" * 20_000, language)[-1][1] is False
    assert time.process_time() - begun < 2


def test_a_string_of_go_that_ends_with_a_backslash_is_seen() -> None:
    lines = ["a := `C:", "\\`", "b := 1"]
    assert Constructs(lines, "go").parts(1, 2) == [(1, 1, False), (2, 2, True)]
