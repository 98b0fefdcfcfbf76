"""Generators of hostile text and JSON, deterministic for a `random.Random`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

_SIZES = ((10, 100, 42), (100, 1_000, 32), (1_000, 10_000, 20), (10_000, 100_000, 5), (100_000, 950_000, 1))
"""From, to, weight: most inputs are small, and a few nearly reach the limit for files."""

REPEATED = (
    "<a\n", "<a", "a<b,\n", "a<b,", "((((", "[[[[", "{{{{", "(", "[", "{", "<", ">", ")", "]", "}", "<<",
    "<<<",
    "`", "``", "'", '"', '"""', "'''", "\\", "\\\n", "/*", "*/", "//", "--", "<!--", "{-", "(*", "#", "##",
    "# #",
    "![", "[a](", "](", "**", "__", "~~~", "```\n", "- ", "* ", "? ", ": ", "a: ", "- - ", "> ", "| ", "|a",
    "&a ",
    "*a ", "!a ", "<<EOF\n", "<<~X\n", "%w[", "#{", "${", "$(", "$((", "@", "@a\n", "a.", "a::", "a->",
    "a,", "a;",
    ";", ",", ".", "..", "=", "==", "a=", "a=b\n", "a = ", "-", "+", "!", "!!", "~", "^", "&", "&&", "||",
    "?", "? a : ",
    "if a:\n", "if(a)", "if (a) {\n", "else if ", "for(;;)", "while(1){", "try{", "switch(a){case 1:",
    "do ", "begin\n",
    "end\n", "def a\n", "def a(", "fn a(", "class A {\n", "class A:\n", "namespace a{", "struct a{",
    "interface a{",
    "template<", "template <class T>\n", "operator", "lambda x: ", "x => ", "() => ", "function(",
    "function a(){",
    "async ", "await ", "new ", "not ", "::", ":", " : ", "public ", "static ", "const ", "#if a\n",
    "#define a \\\n",
    "#include <a>\n", "<div>", "<div ", "<script>", "</div>", "<p><b>", "<a href='", "&amp;", "&#x",
    "<![CDATA[", "<?php ",
    "<?", "<%", "{%", "{{", "\t", " ", "  ", "\n", "\r", "\r\n", "\x0c", "\x1b[31m", "\u2028", "\u202e",
    "\u200b", "\ufeff",
    "é", "e\u0301", "漢字", "한글", "ก", "🏳️\u200d🌈", "\U0001f468\u200d", "a" * 50 + " ", "A1", "a_", "aA",
    "0", "9", "0x",
    "1e", "1.", "a: a: ", "a/", "../", "a\\", "%", "%s", "%00", "\\u0000", "SELECT a FROM (", "CASE WHEN ",
    "UNION ALL ",
    "BEGIN;\n", "[a]\n", "[[a]]\n", "a.b.", "key = {", '{"a":', "[1,", '"a",', "import a\n",
    "from a import b\n", "use a;\n",
    "File \"a.py\", line 1\n", "a.py:1 ", "a/b.c ", "-----BEGIN PRIVATE KEY-----\n", "ghp_", "AKIA", "eyJ",
    "sk-", "token=",
    "And ", "it ", "not ", "why ", "[1]", "[^1]", "[1, 2] ", "=====\n", "-----\n", "Title\n=====\n\n",
    ".. _a:\n", ":a:`",
    "\\section{", "* * ", "#+BEGIN_SRC\n", ".SH A\n", "create or replace ", "FEATURE: a\n", "(defun a (",
    "(define (",
)  # fmt: skip
"""Text that is repeated many times: what makes parsers and patterns look back, nest or never close."""

_PAIRS = (
    ("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"), ("<a>", "</a>"), ("{{", "}}"), ("'", "'"), ('"', '"'),
    ("`", "`"),
    ("/*", "*/"), ("begin ", " end "), ("if x then ", " end "), ("#if 1\n", "#endif\n"), ("{a:", "}"),
    ('{"a":', "}"),
    ("[a](", ")"), ("**", "**"), ("(a ", ")"), ("do ", " done\n"), ("$(", ")"), ("f(", ")"), ("a[", "]"),
    ("a<", ">"),
    ("<div>\n", "</div>\n"), ("class A {\n", "}\n"), ("def f():\n", ""), ("\"${", "}\""), ("`${", "}`"),
    ("#{", "}"),
)  # fmt: skip

_OPENINGS = (
    "/*", '"""', "'''", "<!--", "<<EOF\n", "<<~SQL\n", "`", '"', "'", "{-", "(*", "--[[", "=begin\n",
    "<script>", "<style>",
    "<![CDATA[", "```\n", "~~~\n", 'R"(', 'r#"', "$$", "$tag$", "@\"", "q{", "%q(", "#|", "{%", "{{", "<%",
    "<?php /*",
    "---\n", "//", "#if 0\n", "\\begin{a}", "..\n ", "|\n ", ">\n ", "export `", "\\",
)  # fmt: skip

_ODD = (
    "\x00", "\ud800", "\udfff", "\ufffe", "\U0010ffff", "\u202e", "\u2066", "\u200b", "\u0301", "\ufeff",
    "\x7f", "\x85",
    "\u2028", "\u2029", "\x1b]0;a\x07", "\x08", "İ", "ß", "ﬁ", "Ⅻ", "٣", "𝔘", "ʼ", "‘", "“", "\u3000", "Ω",
    "ſ", "ǅ",
    "漢", "한", "あ", "ก", "ا", "א", "🙂",
)  # fmt: skip

_WORDS = """
    token session parse request user id name value list map get set where is the what does how why it and
    not error
    config test docs login password hash sign check expire cookie server client path file line class
    function
""".split()


def size_of(rng: Random, most: int) -> int:
    """A size: small ones are frequent."""
    low, high, _ = rng.choices(_SIZES, weights=[weight for _, _, weight in _SIZES])[0]
    return max(1, min(most, int(low * (high / low) ** rng.random())))


def text(rng: Random, most: int, *, samples: Sequence[str] = (), tokens: Sequence[str] = ()) -> str:
    """A hostile text of at most about `most` characters.

    Args:
        rng: decides everything.
        most: the size that is not exceeded by much.
        samples: real texts of the kind, to be mutated.
        tokens: words of the language.
    """
    size = size_of(rng, most)
    made = rng.choice(_MAKERS)(rng, size, samples, tokens)
    if rng.random() < 0.15:
        other = rng.choice(_MAKERS)(rng, size, samples, tokens)
        at = rng.randrange(len(made) + 1)
        made = made[:at] + other + made[at:]
    return made[: most + 100]


Maker = Callable[[Random, int, Sequence[str], Sequence[str]], str]


def _filled(piece: str, size: int) -> str:
    return piece * max(1, size // max(len(piece), 1))


def _piece(rng: Random, tokens: Sequence[str]) -> str:
    if tokens and rng.random() < 0.5:
        return rng.choice(("", " ")).join(rng.choice(tokens) for _ in range(rng.randint(1, 3)))
    return "".join(rng.choice(REPEATED) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _repeated(rng: Random, size: int, _samples: Sequence[str], tokens: Sequence[str]) -> str:
    piece = _piece(rng, tokens) + rng.choice(("", "", "\n", " "))
    end = rng.choice(("", "", "x", "\n", _piece(rng, tokens)))
    return rng.choice(("", "", _piece(rng, tokens))) + _filled(piece, size) + end


def _nested(rng: Random, size: int, _samples: Sequence[str], tokens: Sequence[str]) -> str:
    pairs = [rng.choice(_PAIRS) for _ in range(rng.choice((1, 1, 2, 3)))]
    depth = max(1, size // sum(len(a) + len(b) for a, b in pairs))
    opening, closing = "".join(a for a, _ in pairs), "".join(b for _, b in reversed(pairs))
    inner = rng.choice(("", "a", _piece(rng, tokens)))
    return opening * depth + inner + closing * rng.choice((depth, depth, 0, depth // 2, depth + 1))


def _unclosed(rng: Random, size: int, samples: Sequence[str], tokens: Sequence[str]) -> str:
    opening = rng.choice(_OPENINGS)
    filler = rng.choice((opening, _piece(rng, tokens), "a ", "*", "\n", "a\n", *samples[:1]))
    return rng.choice(("", "a = ")) + opening + _filled(filler, size)


def _indented(rng: Random, size: int, _samples: Sequence[str], tokens: Sequence[str]) -> str:
    step, word = rng.choice((" ", "  ", "\t", "- ", "> ", "* ", "    ")), _piece(rng, tokens)
    lines: list[str] = []
    used, depth = 0, 0
    while used < size:
        line = step * depth + word + rng.choice((":", "", " {", ""))
        lines.append(line)
        used += len(line) + 1
        depth = depth + 1 if rng.random() < 0.97 else 0
    return "\n".join(lines)


def _long_lines(rng: Random, size: int, _samples: Sequence[str], tokens: Sequence[str]) -> str:
    """Lines that are long, and enough empty ones that the file is not taken for minified."""
    piece = _piece(rng, tokens).replace("\n", " ") or "a"
    head = rng.choice(
        ("", "# ", "## ", "//", "AAAA", "class ", "title: ", "* ", "= ", "\t", ".SH ", "<a ", "key = ")
    )
    long = head + _filled(piece, size) + rng.choice(("", "x", ":", "{"))
    return (
        rng.choice(("", "a\n")) + long + "\n" * max(1, len(long) // 200) + rng.choice(("", long[: size // 4]))
    )


def _unicode(rng: Random, size: int, _samples: Sequence[str], _tokens: Sequence[str]) -> str:
    few = [rng.choice(_ODD) for _ in range(rng.randint(1, 6))] + [" ", "a", "\n"]
    return "".join(rng.choice(few) for _ in range(min(size, 20_000)))


def _soup(rng: Random, size: int, _samples: Sequence[str], tokens: Sequence[str]) -> str:
    few = list(tokens) or list(REPEATED)
    if rng.random() < 0.5:
        few = [rng.choice(few) for _ in range(rng.randint(2, 8))]
    few += ["a", "b", "1", "\n", "\n"]
    between = rng.choice((" ", " ", "", "\n"))
    some = between.join(rng.choice(few) for _ in range(min(size // 3 + 1, 20_000)))
    return _filled(some, size) if len(some) < size else some[:size]


def _words(rng: Random, size: int, _samples: Sequence[str], _tokens: Sequence[str]) -> str:
    some = " ".join(rng.choice(_WORDS) for _ in range(min(size // 6 + 1, 5_000)))
    return _filled(some + rng.choice(("? ", " ", ". ", "\n")), size)


def _bytes(rng: Random, size: int, _samples: Sequence[str], _tokens: Sequence[str]) -> str:
    return rng.randbytes(min(size, 50_000)).decode("latin-1")


def mutated(rng: Random, sample: str, size: int, tokens: Sequence[str] = ()) -> str:
    """A real text with some mistakes in it, repeated up to the size."""
    made = sample
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(made) + 1)
        to = min(len(made), at + rng.randint(0, 40))
        kind = rng.randrange(6)
        if kind == 0:
            made = made[:at] + made[to:]
        elif kind == 1:
            made = made[:at] + made[at:to] * rng.randint(2, 200) + made[to:]
        elif kind == 2:
            made = made[:at] + rng.choice(_ODD) + made[at:]
        elif kind == 3:
            made = made[:at] + _piece(rng, tokens) + made[to:]
        elif kind == 4:
            made = made[:at] + rng.choice(_OPENINGS) + made[at:]
        else:
            made = made[:at] + _piece(rng, tokens) * rng.randint(1, 100) + made[at:]
    return _filled(made, size) if len(made) < size and rng.random() < 0.7 else made[: max(size, 200)]


def _mutated(rng: Random, size: int, samples: Sequence[str], tokens: Sequence[str]) -> str:
    return mutated(rng, rng.choice(samples) if samples else " ".join(_WORDS), size, tokens)


_MAKERS: tuple[Maker, ...] = (
    _mutated, _mutated, _mutated, _repeated, _repeated, _repeated, _nested, _unclosed, _indented,
    _long_lines, _unicode,
    _soup, _soup, _words, _bytes,
)  # fmt: skip


# ---------------------------------------------------------------- JSON

_LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1.5, 1e308, float("nan"), float("inf"),
    "", " ", "\x00",
    "\ud800", "a" * 5_000, "../../etc/passwd", "2026-01-01T00:00:00", "9999-12-31T23:59:59.999999+14:00",
    [], {}, [[]],
    [None], {"a": None}, "null", "𝔘", "-1", "1e9", "0001-01-01T00:00:00-14:00",
)  # fmt: skip


def json_value(rng: Random, most: int) -> Any:
    """Any JSON value: an odd leaf, a text, something wide or something deep."""
    kind = rng.randrange(10)
    if kind < 5:
        return rng.choice(_LEAVES)
    if kind < 8:
        return text(rng, min(most, 20_000))
    count = size_of(rng, max(1, most // 12))
    if kind == 8:
        return (
            [rng.choice(_LEAVES[:12])] * count if rng.random() < 0.5 else {f"k{n}": n for n in range(count)}
        )
    value: Any = rng.choice(_LEAVES)
    for _ in range(min(count, 60)):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def mutated_json(rng: Random, value: Any, most: int) -> Any:
    """The value with one to four of its parts replaced, removed, doubled or renamed."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _changed(rng, value, most)
    return value


def _changed(rng: Random, value: Any, most: int) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        kind = rng.randrange(8)
        if kind == 0:
            return {name: one for name, one in value.items() if name != key}
        if kind == 1:
            return {**value, text(rng, 50): json_value(rng, most)}
        return {**value, key: _changed(rng, value[key], most)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        kind = rng.randrange(8)
        if kind == 0:
            return value[:at] + value[at + 1 :]
        if kind == 1:
            return value[: at + 1] * min(200, max(2, most // 500)) + value[at:]
        return [*value[:at], _changed(rng, value[at], most), *value[at + 1 :]]
    if isinstance(value, str) and rng.random() < 0.4:
        return mutated(rng, value, min(len(value) + 50, most))
    return json_value(rng, most)


def json_text(rng: Random, value: Any) -> str:
    """The value as JSON, sometimes damaged, deeper than any parser goes, or with numbers that are none."""
    kind = rng.randrange(40)
    if kind == 0:
        depth = size_of(rng, 100_000)
        return rng.choice(("[", '{"a":', '[{"a":', '{"question":')) * depth
    if kind == 1:
        return '{"a":' + "9" * size_of(rng, 20_000) + "}"
    made = json.dumps(value, ensure_ascii=rng.random() < 0.7)
    if kind == 2:
        return mutated(rng, made, len(made))
    return made
