"""The Markdown of a wiki is also MDX, whatever the texts hold that it quotes.

MDX reads `{` as an expression and `<` as a tag, except in code, and as JavaScript each block that begins
with `import` or `export`; it has no autolinks, no HTML comments and no indented code.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from surveys import outside_fences, survey_of

from rag.answer.markdown import code_spans
from rag.markdown import block, blockquote, bullets, code, link, plain, table, title, words
from rag.wiki.models import Prose, ProseCitation
from rag.wiki.pages.links import CitationWriter, PlainLinks
from rag.wiki.pages.structure import structure_of
from rag.wiki.pages.text import wiki_contents
from rag.wiki.prose.prose_writer import as_markdown

PIECES = (
    *"{}<>`~[]()!|\\#*_-+:;='\"&@$%^/. \n\t",
    *(
        "import ",
        "export ",
        "import",
        "<https://example.org>",
        "<!-- x -->",
        "</div>",
        "<T>",
        "{x: 1}",
        "${a}",
    ),
    *(
        "```",
        "~~~",
        "    ",
        "> ",
        "- ",
        "1. ",
        "# ",
        "&#123;",
        "\\{",
        "`{a}`",
        "http://a.b",
        "word",
        "é",
        "\u2028",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def faults(markdown: str) -> list[str]:
    """The lines outside code that MDX would not read as text."""
    found = []
    for line in outside_fences(markdown).split("\n"):
        rest, position = "", 0
        for start, end in code_spans(line):
            rest += line[position:start]
            position = end
        rest += line[position:]
        if re.search(r"[<{}]", rest) or re.match(r"(?:import|export)(?:\s|$)", line):
            found.append(line)
    return found


@given(TEXTS)
def test_texts_of_a_repository_are_mdx(text):
    made = [plain(text), title(text), words(text), code(text), blockquote(text), bullets([words(text)])]
    made += [link(code(text), "a.md"), table(("A", "B"), [(words(text), code(text))]), block(text, text)]
    assert [fault for each in made for fault in faults(each)] == []


@example("`{a}``{a}``")
@given(TEXTS)
def test_text_of_a_model_is_mdx(text):
    prose = Prose(text, "", "m", (ProseCitation(1, "a{b}.py", 1, 2, ""),))
    assert faults(as_markdown(prose, CitationWriter(PlainLinks()))) == []


@pytest.mark.parametrize(
    "line", ["{x}", "a <b>", "<https://a.b>", "import x", "export default y", "`a` {`b`}", "import `x`"]
)
def test_what_is_no_mdx_is_a_fault(line):
    assert faults(line) == [line]
    assert faults(f"text {code(line)}") == faults(block(line)) == []


HOSTILE = '''"""import {everything} from <b>here</b>.

export const x = {1}; see <https://example.org> and {@link T<U>}.
"""


class Box:
    """import T from {here}, a Box<T> with ${braces} and <!-- comments -->."""

    def put(self, value: dict[str, int] = {}) -> "list[T | None]":
        """export {value}: <T>."""
        return self
'''


def test_pages_about_such_code_are_mdx():
    texts = {
        "README.md": "# {Title} <b>\n\nimport this <https://example.org> {project}.\n\n{% raw %} {x}\n",
        "pkg/__init__.py": HOSTILE,
        "pkg/box.py": f"from pkg import Box\n{HOSTILE}",
        "docs/guide.md": "# import {it}\n\nexport <Guide />\n",
    }
    assert faults(wiki_contents(structure_of(survey_of(texts)))) == []
