"""Extract documentation from code: docstrings, comments above a definition, the introduction of a document.

The text is only quoted, with its lines; nothing is generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.code.definitions import plain_title
from rag.markdown import without_emphasis


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation from the repository, with its lines."""

    text: str
    path: str
    start: int
    end: int


_STRING_BEGIN = re.compile(r"\s*[rRuU]?(\"\"\"|'''|\"|')")
_MAX_DOC_LINES = 200
_MAX_HEAD_LINES = 12
_MAX_SIGNATURE = 110

_HASH = frozenset({"python", "ruby", "bash", "yaml", "toml", "make", "docker", "ini", "perl", "r", "kconfig"})
_DASHES = frozenset({"sql", "lua"})
_LICENSE = re.compile(r"copyright|licen[cs]ed?\b|SPDX-|all rights reserved", re.IGNORECASE)
_MACHINE = re.compile(
    r"^(?:!|-\*-|vim:|eslint|prettier|shellcheck|noqa|type:|pylint|mypy|ruff|@ts-|tslint|istanbul|nolint|go:|\+build|region"
    r"|endregion|pragma"
    r"|#region|global |jshint|flow\b|@flow|clang-format|\(?non-javadoc|=+$|-+$|\*+$|#+$)",
    re.IGNORECASE,
)
_DECORATION = re.compile(r"^\s*(?:@[\w.]+|#\[|\[\w+|template\s*<|__attribute__)")
_NOTE = re.compile(r"(?:xxx|todo|fixme|hack)\b", re.IGNORECASE)
"""How a note to oneself begins; it goes on in the lines that begin with a small letter."""
_FOR_DOCUMENTATION = ("/**", "/*!", "///", "//!")
_FREE = re.compile(r"\s*(?:$|package\b|import\b|use\b|#|mod\b|namespace\b|'use|\"use)")
_STATEMENT = re.compile(r"\s*(?:>>> |assert |[\w.]+ = \S)")
"""How a paragraph begins that is code: `url = URL("…")`."""
_ASIDE = re.compile(r"^\s*//[/!]\s*#{1,4}\s+(?:Safety|Panics|Errors|Examples?)\b")
"""A section of Rust's documentation that does not say what a definition is."""
_RDOC_HEADING = re.compile(r"={1,4} \S")
_XML_SECTION = re.compile(r"</?(?:summary|remarks|para|value)\s*/?>|<(?:inheritdoc|include)\b[^<>]*/>")
_XML_ENTRY = re.compile(r"<(?:param|typeparam|returns|exception|example|code|seealso|permission)\b")
_DIRECTIVE = re.compile(r"@!\w+")
"""A directive of YARD; the indented lines below it are code, or are about another definition."""
_TAG = re.compile(r"^\s*(?:@\w+|:\w[\w ]*:(?!`)|\\(?:param|return)|Args?:|Returns?:|Raises:|Parameters\b)")

_OWN_WORDS = frozenset(
    "class struct interface trait enum type record protocol object module namespace union mixin extension"
    " impl message service contract table view model package newtype data".split()
)
_OF_LANGUAGE = {"make": "target", "gherkin": "scenario", "css": "rule", "scss": "rule", "kconfig": "option"}


def _is_code(paragraph: Sequence[str]) -> bool:
    return _STATEMENT.match("\n".join(paragraph)) is not None


def docstring(lines: Sequence[str], path: str, row: int, end: int) -> Quote | None:
    """Return the first paragraph, without code, of the Python string that begins rows `row` to `end`."""
    while row < end and (not lines[row].strip() or lines[row].lstrip().startswith("#")):
        row += 1
    begin = _STRING_BEGIN.match(lines[row]) if row < end else None
    if begin is None:
        return None
    mark, text = begin[1], lines[row][begin.end() :]
    taken: list[str] = []
    first = row + 1
    for number in range(row, min(end, row + _MAX_DOC_LINES)):
        body = text if number == row else lines[number]
        inside, closed, _ = body.partition(mark)
        if (not inside.strip() and any(t.strip() for t in taken)) or _TAG.match(inside):
            if not _is_code(taken):
                return _quote(taken, path, first)
            taken, first = [], number + 2
            continue
        taken.append(inside)
        if closed or len(mark) == 1:
            return _quote(taken, path, first) if closed and not _is_code(taken) else None
    return None


def comment_above(lines: Sequence[str], path: str, row: int, language: str) -> Quote | None:
    """Return the first paragraph of the comment that ends directly above a row, ignoring decorators.

    Of several comments it is the one for documentation: `/** … */`.
    """
    bottom = row - 1
    while bottom >= 0 and _DECORATION.match(lines[bottom]):
        bottom -= 1
    top = bottom + 1
    if language not in _HASH and (begin := _block_begin(lines, bottom)) is not None:
        if begin < 0:
            return None
        top = begin
    else:
        marks = _line_marks(language)
        while top > 0 and lines[top - 1].lstrip().startswith(marks):
            top -= 1
    if top < bottom + 1 and not lines[top].lstrip().startswith(_FOR_DOCUMENTATION):
        before = _block_begin(lines, top - 1)
        if before is not None and before >= 0 and lines[before].lstrip().startswith("/**"):
            top, bottom = before, top - 1
    return _comment(lines[top : bottom + 1], path, top) if top <= bottom else None


def _block_begin(lines: Sequence[str], bottom: int) -> int | None:
    """Return the row where the block comment begins that ends at a row; None if none ends there, -1 if its
    first row has code.
    """
    if bottom < 0 or not lines[bottom].rstrip().endswith("*/"):
        return None
    top = bottom
    while top >= 0 and "/*" not in lines[top]:
        top -= 1
    return top if top >= 0 and lines[top].lstrip().startswith("/*") else -1


_ELIXIR_DOC = re.compile(r"\s*@(?:module)?doc\s+(?:~[sS])?\"\"\"\s*$")
_ELIXIR_BETWEEN = re.compile(r"\s*(?:@(?:impl|spec|since|deprecated|doc)\b|#|$)")
_MAX_BETWEEN_LINES = 4


def elixir_attribute(lines: Sequence[str], path: str, row: int, end: int) -> Quote | None:
    """Return the first paragraph of the `@moduledoc` of a module, or of the `@doc` above a function."""
    if lines[row].lstrip().startswith("defmodule"):
        inside = range(row + 1, min(end, row + 1 + _MAX_BETWEEN_LINES))
        begin = next((number for number in inside if _ELIXIR_DOC.match(lines[number])), None)
    else:
        bottom = row - 1
        while bottom >= 0 and row - bottom < _MAX_BETWEEN_LINES and _ELIXIR_BETWEEN.match(lines[bottom]):
            bottom -= 1
        if bottom < 0 or lines[bottom].strip() != '"""':
            return None
        above = range(bottom - 1, max(-1, bottom - _MAX_DOC_LINES), -1)
        begin = next((number for number in above if '"""' in lines[number]), None)
        begin = begin if begin is not None and _ELIXIR_DOC.match(lines[begin]) else None
    if begin is None:
        return None
    taken: list[str] = []
    for line in lines[begin + 1 : begin + _MAX_DOC_LINES]:
        if '"""' in line or (taken and not line.strip()):
            break
        taken.append(line)
    return _quote(taken, path, begin + 2)


def head_comment(lines: Sequence[str], path: str, language: str) -> Quote | None:
    """Return the first paragraph of the comment at the top of a file, without licence and tool marks."""
    row, marks = 0, _line_marks(language)
    while row < min(len(lines), 60):
        line = lines[row].strip()
        if not line or line.startswith(("#!", "<?php", "package ", "'use strict'", '"use strict"')):
            row += 1
            continue
        end = row
        if line.startswith("/*") and language not in _HASH:
            while end < len(lines) and "*/" not in lines[end]:
                end += 1
            end += 1
        else:
            while end < len(lines) and lines[end].lstrip().startswith(marks):
                end += 1
        if end == row:
            return None
        block = lines[row:end]
        below = lines[end] if end < len(lines) else ""
        if below.strip() if language in _HASH else language not in _DASHES and not _FREE.match(below):
            return None  # it belongs to what is below
        if not _LICENSE.search("".join(block)) and (found := _comment(block, path, row)):
            return found
        row = end
    return None


def _line_marks(language: str) -> tuple[str, ...]:
    if language in _HASH:
        return ("#",)
    return ("--",) if language in _DASHES else ("//",)


def _comment(lines: Sequence[str], path: str, row: int) -> Quote | None:
    """Return a comment's first paragraph of prose, without its comment marks."""
    taken: list[str] = []
    first, in_directive, in_note = row + 1, False, False
    for number, line in enumerate(lines):
        inside = re.sub(r"^\s*(?:/\*+!?|\*+/|\*|//+!?|#+|--+)\s?|\s*\*+/\s*$", "", line)
        words = inside.strip()
        if line.lstrip().startswith("///"):  # XML documentation of C#
            words = "" if _XML_ENTRY.match(words) else _XML_SECTION.sub("", words).strip()
        if _ASIDE.match(line):
            break
        in_directive = _DIRECTIVE.match(words) is not None or (in_directive and not inside[:1].strip())
        in_note = _NOTE.match(words) is not None or (in_note and words[:1].islower())
        if in_directive or in_note:
            words = ""
        if _MACHINE.match(words) or _TAG.match(words) or _RDOC_HEADING.match(words):
            words = ""
        if words and not taken:
            first = row + number + 1
        if not words and taken:
            break
        if words:
            taken.append(words)
    return _quote(taken, path, first)


def _quote(taken: Sequence[str], path: str, first: int) -> Quote | None:
    """Return the non-blank lines as a quotation; it begins at the line of its first word."""
    skipped = next((n for n, line in enumerate(taken) if line.strip()), len(taken))
    words = [line.strip() for line in taken[skipped:] if line.strip()]
    text = " ".join(words)
    if not re.search(r"\w", text):
        return None
    return Quote(text, path, first + skipped, first + skipped + len(words) - 1)


def signature(lines: Sequence[str], row: int, end: int, name: str) -> str:
    """Return the head of a definition on one line, from its first line that holds the name up to its body."""
    own = name.rpartition(".")[2]
    begin = next((n for n in range(row, min(end, row + 20)) if own in lines[n]), row)
    depth, head = 0, ""
    for line in lines[begin : min(end, begin + _MAX_HEAD_LINES)]:
        for position, sign in enumerate(line):
            depth += (sign in "([") - (sign in ")]")
            if depth <= 0 and (sign in "{;" or line.startswith("=>", position) or _ends_head(line, position)):
                return _short(head + line[:position], own)
        head += line.rstrip("\n") + " "
    return _short(head.split("\n")[0], own) if depth <= 0 else f"{own}(…)"


def own_word(line: str, name: str, unit: str, language: str) -> str:
    """Return what a language calls a definition, by the line that has its name: `interface`, `target`."""
    if unit != "class":
        return _OF_LANGUAGE.get(language, unit)
    words = line.partition(name.rpartition(".")[2])[0].lower().split()
    return next((word for word in reversed(words) if word in _OWN_WORDS), unit)


def _ends_head(line: str, position: int) -> bool:
    """Return whether the colon ends a Python head: only a comment or a one-line body follows."""
    return line[position] == ":" and (line[position + 1 :].strip() == "" or line[position + 1] in " #")


def _short(head: str, name: str) -> str:
    text = re.sub(r"([(\[])\s+", r"\1", re.sub(r",?\s+([)\]])", r"\1", " ".join(head.split())))
    text = re.sub(
        r"^(?:export\s+|default\s+|async\s+|public\s+|static\s+|pub(?:\([^)]*\))?\s+|final\s+)+", "", text
    )
    text = re.sub(r"^(?:def|function\*?|func|fn|class|const|let|var)\s+", "", text)
    text = re.sub(r"\s*=$", "", text)
    if text and len(text) <= _MAX_SIGNATURE and name in text:
        return text
    return f"{name}(…)" if "(" in text else name


_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_BADGE = re.compile(
    r"^\s*(?:\[?!\[|(?:image|ifdef|ifndef|endif|include|toc)::?\S*\["
    r"|\[[^\]]+\]:\s|<(?!https?:)|\.\. |:\w[\w-]*:(?!`)"
    r"|>>>|\$ |#|={3,}|-{3,}|\*{3,}|~{3,}|\||[-*+] )"
)

_HTML_PARAGRAPH = re.compile(
    r"^\s*<(p|h[1-6]|div|center|b|strong|em|i)(?:\s[^<>]*)?>((?:[^<>]|<br ?/?>)+)</\1>\s*$"
)
"""Words in one element on a line, as at the top of many a README."""


def introduction(text: str, path: str, limit: int = 3) -> list[Quote]:
    """Return the first prose paragraphs of a document, without markup: not titles, badges, lists, code.

    They end with the section they begin in. A paragraph that only introduces omitted content (`…:`) is
    omitted too.
    """
    found: list[Quote] = []
    begun = ""
    for section, quote in paragraphs(text, path):
        if found and section != begun:
            break
        if len(quote.text.split()) > 3 and not (found and quote.text.endswith(":")):
            found.append(quote)
            begun = section
        if len(found) == limit:
            break
    return found


_SEPARATOR = re.compile(r"(?<!\s)\s*[∙•·|]\s+")
_MAX_LABEL_WORDS, _MIN_LABELS = 4, 3


def _is_navigation(text: str) -> bool:
    """Return whether a paragraph only names other places: "Install • Usage • FAQ"."""
    labels = _SEPARATOR.split(text)
    return len(labels) >= _MIN_LABELS and all(len(label.split()) <= _MAX_LABEL_WORDS for label in labels)


def paragraphs(text: str, path: str) -> Iterator[tuple[str, Quote]]:
    """Yield the prose paragraphs of a document, without markup, each with the title of its section.

    Titles, badges, lists, rows of links and code are left out. Section titles are preceded by a number, so
    that equal ones differ.
    """
    return ((section, quote) for section, quote in _all_prose(text, path) if not _is_navigation(quote.text))


def _all_prose(text: str, path: str) -> Iterator[tuple[str, Quote]]:
    paragraph: list[str] = []
    first, fence, section = 1, "", ""
    indented = (" ", "\t") if path.endswith((".md", ".markdown", ".mdx", ".rst")) else ("    ", "\t")
    lines = [*text.split("\n")[:400], ""]
    heading = re.compile(rf"{_heading_marks(path)}{{1,6}}\s")
    for number, line in enumerate(lines, start=1):
        if mark := _FENCE.match(line):
            fence = _next_fence(mark[1], fence)
            line = ""
        element = _HTML_PARAGRAPH.match(line) if not fence else None
        if element is not None:
            if paragraph:
                words = _plain_prose(" ".join(paragraph), path)
                yield section, Quote(words, path, first, number - 1)
                paragraph = []
            yield section, Quote(_plain_prose(re.sub("<[^>]*>", " ", element[2]), path), path, number, number)
            continue
        underlined = number < len(lines) and re.fullmatch(r"\s*([=\-~^#*+])\1{2,}\s*", lines[number])
        is_inner = line.startswith(indented) and (not paragraph or path.endswith(".rst"))
        is_markup = _BADGE.match(line) or heading.match(line) or underlined or is_inner
        if not fence and line.strip() and not is_markup:
            if not paragraph:
                first = number
            paragraph.append(line.strip().removeprefix(">").strip())
            continue
        if paragraph:
            words = _plain_prose(" ".join(paragraph), path)
            yield section, Quote(words, path, first, first + len(paragraph) - 1)
            paragraph = []
        if underlined or (not fence and heading.match(line)):
            section = f"{number} {_plain_prose(line.strip('#= '), path)}"


def _heading_marks(path: str) -> str:
    """Return a regular expression for a mark of a heading, which begins with one or more of them."""
    return "[#=]" if path.endswith((".adoc", ".asciidoc", ".asc")) else "#"


_RST_ROLE = re.compile(r":[a-z][\w:.+-]{0,60}:`[~!]?([^`<]+?)(?:\s*<[^`>]*>)?`")
_RST_LINK = re.compile(r"`([^`<]+?)\s*(?:<[^`>]*>)?`__?(?!\w)")
_RST_NAME = re.compile(r"(?<![\w`])([^\W\d_]\w*[^\W_])__?(?=[\s.,;:)]|$)")
_ADDRESS = re.compile(r"<(https?://[^<>\s]+)>")
_CODE = re.compile(r"(?<![:`])`++([^`]+)`+")
_SHIELDED = {ord(sign): 0xE000 + number for number, sign in enumerate("[]<>*_&{}")}
_UNSHIELDED = {shield: sign for sign, shield in _SHIELDED.items()}
"""Code that is no markup, such as `[a]`, while the markup around it is removed."""


def _role_name(match: re.Match[str]) -> str:
    """Return the name in a role of reStructuredText; with `~` only its last part."""
    return match[1].rpartition(".")[2] if "`~" in match[0] else match[1]


def _plain_prose(text: str, path: str) -> str:
    """Return prose without its markup, and without the gaps that markup leaves around punctuation."""
    if path.endswith(".rst"):
        text = _RST_ROLE.sub(_role_name, text)
        text = _RST_NAME.sub(r"\1", _RST_LINK.sub(r"\1", text))
    text = _CODE.sub(lambda match: match[1].translate(_SHIELDED), text)
    plain = plain_title(without_emphasis(_ADDRESS.sub(r"\1", text)))
    return re.sub(r"(?<=[(\[]) | (?=[.,;)\]](?:\W|$))", "", plain).translate(_UNSHIELDED)


def _next_fence(mark: str, fence: str) -> str:
    """Return the fence that is open after a mark; a fence is closed by one of the same kind and length."""
    if not fence:
        return mark
    return "" if mark[0] == fence[0] and len(mark) >= len(fence) else fence


_MAX_TITLE_LINE_CHARS = 1_000


def title_of(text: str, path: str) -> Quote:
    """Return the title of a document: its first heading, else the name of the file."""
    lines = [line[:_MAX_TITLE_LINE_CHARS] for line in text.split("\n", 80)[:80]]
    matter = lines.index("---", 1) if lines[0] == "---" and "---" in lines[1:] else 0
    for number, line in enumerate(lines[:matter]):
        if line.startswith("title:"):
            return Quote(line.removeprefix("title:").strip(" \"'"), path, number + 1, number + 1)
    for number, line in enumerate(lines):
        if number < matter:
            continue
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if heading := re.match(rf"{_heading_marks(path)}{{1,3}}\s+(.+?)\s*[#=]*$", line):
            return Quote(plain_title(heading[1]), path, number + 1, number + 1)
        if line.strip() and re.fullmatch(r"([=\-~*#^])\1{2,}\s*", below) and not re.match(r"\W{3,}$", line):
            return Quote(plain_title(line.strip()), path, number + 1, number + 1)
    return Quote(path.rpartition("/")[2], path, 1, 1)
