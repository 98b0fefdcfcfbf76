"""The fields of a class or struct, as its body declares them. Read by lines, since the outline has only
definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rag.code.symbols import File, Symbol

_MAX_BODY_LINES = 800


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field: its name, its type as it is written, the comment on it, and its line."""

    name: str
    type: str
    comment: str
    line: int


_COMMENT = r"(?:\s*(?://+!?|#|/\*+)\s*(?P<comment>.*?)\s*(?:\*/)?\s*)?$"
_TYPED: Mapping[str, re.Pattern[str]] = {
    "python": re.compile(rf"(?P<name>[^\W\d_]\w*)\s*:\s*(?P<type>[^=#]+?)\s*(?:=[^#]*)?{_COMMENT}"),
    "typescript": re.compile(
        r"(?:(?:public|readonly|declare|static|override)\s+)*(?P<name>[A-Za-z$]\w*)[?!]?\s*:\s*"
        rf"(?P<type>[^=(){{}}]+?)\s*(?:=[^/]*)?[;,]?{_COMMENT}"
    ),
    "go": re.compile(rf"(?P<name>[^\W\d_]\w*(?:,\s*\w+)*)\s+(?P<type>[^`/]+?)\s*(?:`[^`]*`)?{_COMMENT}"),
    "rust": re.compile(rf"(?:pub(?:\([^)]*\))?\s+)?(?P<name>[a-z]\w*)\s*:\s*(?P<type>[^=]+?),?{_COMMENT}"),
    "c": re.compile(
        r"(?P<type>(?:(?:const|unsigned|signed|struct|enum|union|volatile|long|short|static)\s+)*\w+[\s*]+)"
        rf"(?P<name>\w+)(?:\[[^\]]*\])?(?:\s*:\s*\d+)?\s*;{_COMMENT}"
    ),
    "java": re.compile(
        r"(?:(?:public|protected|private|static|final|volatile|transient)\s+)*"
        rf"(?P<type>[A-Z\w][\w.<>,\[\]? ]{{0,200}}?)\s+(?P<name>[a-z]\w*)\s*(?:=[^/]*)?;{_COMMENT}"
    ),
}
_SAME = {"tsx": "typescript", "cpp": "c", "csharp": "java", "kotlin": "typescript"}
_NOT_NAMES = frozenset(
    "return case default if else for while switch break continue goto typedef import package class def pass"
    " raise yield try except with lambda not del assert global throw new const let var function type".split()
)
_ATTRIBUTE = re.compile(rf"self\.(?P<name>[^\W\d_]\w*)\s*:\s*(?P<type>[^=#]+?)\s*=[^#]*?{_COMMENT}")
_MADE = re.compile(
    r"(?P<name>[a-z]\w*)\s*=\s*(?:\w+\.)*(?P<type>(?:[A-Z]\w*|attrib|ib|mapped_column|relationship)"
    r"(?:\(\s*[\"']?(?:\w+\.)*[A-Z]\w*\b[\"']?(?=\s*[,(.)])|(?=\())).*?(?:#\s*(?P<comment>.*))?"
)
"""A field that a call declares: `name = models.CharField(…)`, `author_id = Column(Integer)`."""
_IS_COMMENT = re.compile(r"\s*(?://|#:|/\*|# |\*)")
_CLOSED_COMMENT = re.compile(r"/\*.*?\*/")
_MAX_COMMENT_LINES = 12
_LINE_COMMENT = re.compile(r"^\s*(?://+!?|#:?|/\*+|\*)\s?(.*?)\s*(?:\*/)?\s*$")


def fields_of(file: File, symbol: Symbol) -> list[TypeField]:
    """Return the public fields that a class or struct declares with a type, in order."""
    language = _SAME.get(file.language, file.language)
    pattern = _TYPED.get(language)
    if pattern is None or symbol.unit != "class":
        return []
    rows = range(symbol.start, min(symbol.end, symbol.start + _MAX_BODY_LINES))
    found: dict[str, TypeField] = {}
    for row, line in _at_top(file, symbol, rows, is_indented=language == "python"):
        match = pattern.fullmatch(line)
        if match is None and language == "python":
            rest = file.lines[row + 1].strip() if line.endswith("(") else ""
            match = _ATTRIBUTE.fullmatch(line) or _MADE.fullmatch(line + rest)
        if match is None or match["type"].strip() in _NOT_NAMES or match["name"].startswith("_"):
            continue
        if match["name"] in _NOT_NAMES or match["type"].split(" ")[0] in _NOT_NAMES:
            continue
        comment = match["comment"] or _comment_above(file, row)
        kind = " ".join(match["type"].split())
        kind += ")" * (kind.count("(") - kind.count(")"))
        found.setdefault(match["name"], TypeField(match["name"], kind, " ".join(comment.split()), row + 1))
    return list(found.values())


def _at_top(file: File, symbol: Symbol, rows: range, *, is_indented: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines directly in the body of a class, and for Python, those of its constructor."""
    if is_indented:
        yield from _indented(file, symbol, rows)
        return
    depth = parens = 0
    in_comment = False
    for row in range(symbol.start - 1, rows.stop):
        line = file.lines[row]
        code, is_inside = _code_of(line, in_comment=in_comment)
        if row in rows and depth == 1 and not parens and not in_comment and "{" not in code:
            yield row, line.strip()
        in_comment = is_inside
        depth += code.count("{") - code.count("}")
        parens += code.count("(") - code.count(")")


def _code_of(line: str, *, in_comment: bool) -> tuple[str, bool]:
    """Return a line without its comments, and whether it ends inside of a block comment."""
    if in_comment:
        _, closed, line = line.partition("*/")
        if not closed:
            return "", True
    code = _CLOSED_COMMENT.sub("", line).partition("//")[0]
    before, opened, _ = code.partition("/*")
    return before, bool(opened)


def _indented(file: File, symbol: Symbol, rows: range) -> Iterator[tuple[int, str]]:
    least, constructor = 0, False
    quote = ""
    for row in rows:
        line = file.lines[row].rstrip("\n")
        marks = len(re.findall(r'"""|\'\'\'', line))
        if quote or marks:
            quote = "" if quote and marks else quote or ("" if marks == 2 else '"')
            continue
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        least = least or indent
        if indent == least:
            constructor = line.lstrip().startswith("def __init__")
        if indent == least or (constructor and line.lstrip().startswith("self.")):
            yield row, line.strip()


def _comment_above(file: File, row: int) -> str:
    """Return the first line of the comment directly above, if the line above has nothing else."""
    words: list[str] = []
    while row and len(words) < _MAX_COMMENT_LINES and _IS_COMMENT.match(file.lines[row - 1]):
        match = _LINE_COMMENT.match(file.lines[row - 1])
        words.insert(0, match[1] if match else "")
        row -= 1
    text = " ".join(words).strip()
    return text if re.search(r"\w", text) and not text.startswith("..") else ""
