"""Write Markdown in which untrusted text is shown literally.

Viewers differ in their markup, so outside fenced blocks no text of a repository is written unescaped:
characters that are markup in one of them become entities, which all viewers show and none interprets. No `<`
is ever written outside a fence, neither ours nor the repository's. MDX compiles the result: it reads braces
as expressions, and lines that begin with `import` or `export` as JavaScript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from rag.quoting import fence, visible

_MARKUP = re.compile(r"[\\`*{}\[\]<>|#&~$^!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|@(?=\w)")
_LINE_BEGIN = re.compile(r"^(\s*)([-+=>:]|\d+(?=[.)]))")
_EMPHASIS = re.compile(
    r"(?<![\w*\\])(\*{1,2})(?=[^\s*])([^*`]+?)(?<=[^\s*])\1(?![\w*])"
    r"|(?<![\w\\`.:/(])(?P<line>_{1,2})(?=[^\W_])(?P<words>[^_`\n]+ [^_`\n]+)(?<=[^\W_])(?P=line)(?!\w)"
)
_PLAIN_CODE = re.compile(r"[\w .,:;/()\[\]{}*=+\-@#!?'\"%^$~&>|…→]+")
_CODE_SPAN = re.compile(r"``(.+?)``|`([^`]+)`")
_MODULE_LINE = re.compile(r"^(?:i(?=mport(?:\s|$))|e(?=xport(?:\s|$)))")


def without_emphasis(text: str) -> str:
    """Return `text` without the asterisks around emphasised `*words*`; those of `*args` are kept.

    Underscores are removed around several words only: `_name_` may be a name.
    """
    return _EMPHASIS.sub(lambda match: match[2] or match["words"], text)


def plain(text: str) -> str:
    """Return `text` on one line, escaped as plain words."""
    return _begun(_escaped(text))


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", " ".join(visible_words(text).split()))


def _begun(escaped: str) -> str:
    """Return escaped text that begins a line."""
    begun = _LINE_BEGIN.sub(lambda match: f"{match[1]}&#{ord(match[2][0])};{match[2][1:]}", escaped)
    return without_module_line(begun)


def without_module_line(line: str) -> str:
    """Return a line that MDX does not read as JavaScript."""
    return _MODULE_LINE.sub(lambda match: f"&#{ord(match[0])};", line)


_NO_TAGS = str.maketrans({"<": "‹", ">": "›", '"': "”"})


def untagged(text: str) -> str:
    """Return `text` on one line with lookalikes of tag delimiters, for viewers that escape nothing."""
    return " ".join(visible_words(text).split()).translate(_NO_TAGS)


def title(text: str) -> str:
    """Return `text` as a heading: escaped, and without tags for viewers that copy headings into menus."""
    return plain(untagged(text))


def words(text: str) -> str:
    """Return `text` on one line without emphasis, but with its text between backticks as code."""
    text = " ".join(visible_words(text).split())
    parts, position = [], 0
    for match in _CODE_SPAN.finditer(text):
        parts += [_escaped(without_emphasis(text[position : match.start()])), code(match[1] or match[2])]
        position = match.end()
    parts.append(_escaped(without_emphasis(text[position:])))
    return _begun(_joined(text, parts))


def _joined(text: str, parts: Sequence[str]) -> str:
    """Join parts whose outer spaces were lost, with a space where the text has one."""
    spans = list(_CODE_SPAN.finditer(text))
    made = parts[0]
    for number, span in enumerate(spans):
        before = " " if span.start() and text[span.start() - 1] == " " else ""
        after = " " if text[span.end() : span.end() + 1] == " " else ""
        made += before + parts[2 * number + 1] + after + parts[2 * number + 2]
    return made


def visible_words(text: str) -> str:
    """Return `text` with its line ends as spaces; other unprintable characters become visible escapes."""
    return visible(re.sub(r"[\r\n\t\f\v]+", " ", text))


def code(text: str) -> str:
    """Return `text` between backticks; as plain words where that is not safe in every viewer."""
    text = " ".join(visible_words(text).split())
    return f"`{text}`" if text and _PLAIN_CODE.fullmatch(text) else plain(text)


def link(label: str, url: str) -> str:
    """Return a link whose label is Markdown already; only the label when there is no address."""
    return f"[{label}]({url})" if url else label


def url_path(path: str) -> str:
    """Return a path escaped for an address."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/-._~")


def block(text: str, language: str = "") -> str:
    """`text` in a fence that it cannot close."""
    text = "\n".join(visible(line.expandtabs(4)) for line in text.rstrip("\n").split("\n"))
    mark = fence(text)
    return f"{mark}{re.sub(r'[^A-Za-z0-9+-]', '', language)}\n{text}\n{mark}"


def blockquote(text: str) -> str:
    """Paragraphs as a quotation, each on one line."""
    paragraphs = [words(paragraph) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    return "\n>\n".join(f"> {paragraph}" for paragraph in paragraphs)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells, without empty columns; "" when it has no rows."""
    cells = [tuple(_without_bars(cell) for cell in row) for row in rows]
    kept = [n for n in range(len(columns)) if any(row[n] for row in cells)]
    if not kept:
        return ""
    lines = [f"| {' | '.join(row[n] or ' ' for n in kept)} |" for row in cells]
    head = f"| {' | '.join(columns[n] for n in kept)} |"
    return "\n".join([head, f"|{' --- |' * len(kept)}", *lines])


def _without_bars(cell: str) -> str:
    """Return a cell whose code has no `|`, which viewers take for the end of a cell in different ways."""
    return re.sub(r"`([^`]*\|[^`]*)`", lambda match: plain(match[1]), cell)


def bullets(items: Iterable[str]) -> str:
    """Return a list of Markdown items."""
    return "\n".join(f"- {item}" for item in items)


_ROLE = re.compile(r":[a-z][\w:.+-]{0,60}:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
_INLINE_TAG = re.compile(r"\{@(?:link|code|linkplain|literal|value)\s+#?([^}]*)\}")
_LABELLED_TAG = re.compile(r"\{@link(?:plain)?\s+[^\s{}]+\s+([^{}]+)\}")
_XML_NAME = re.compile(
    r'<(?:see|seealso|paramref|typeparamref)\s+(?:cref|name|langword)="(?:[A-Z]:)?([^"<>{]+)[^"<>]*"\s*/>'
)
"""A name in the XML documentation of C#, without its type arguments."""
_XML_CODE = re.compile(r"<c>([^<>`]*)</c>")
_BLOCK_TAG = re.compile(r"</?(?:p|br|img|hr|ul|ol|li|pre|div|h\d)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_SPAN_TAG = re.compile(r"</?(?:b|i|em|strong|code|tt|a|span|sub|sup)(?:\s[^<>]*)?>", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(r"!?\[([^\[\]]+)\](?:\([^()\s]*\)|\[[^\[\]]*\])")
_RUST_LINK = re.compile(r"\[(`[^`]+`)\](?!\()")
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
_RST_NAME = re.compile(r"(?<![\w`-])([^\W\d_][\w-]*[^\W_])__?(?=[\s.,;:)]|$)")
_DOXYGEN = re.compile(r"(?<!\S)[\\@](?:a|b|c|p|e|em|ref)\s+(?=\w)|(?<!\S)[\\@](?:brief|short|details)\s+")
_RULE = re.compile(r"(?:[-=*#/~_]{4,}|\|\s)+")


def documented(text: str) -> str:
    """Return documentation without the markup of its language: roles, tags and links become their words."""
    text = _ROLE.sub(_role, text)
    text = _XML_CODE.sub(r"`\1`", _XML_NAME.sub(r"`\1`", text))
    text = _LABELLED_TAG.sub(r"\1", text)
    text = _INLINE_TAG.sub(r"`\1`", _RST_NAME.sub(r"\1", _RST_LINK.sub(r"\1", _DOXYGEN.sub("", text))))
    text = _BLOCK_TAG.sub(" ", _SPAN_TAG.sub("", text))
    return " ".join(_RULE.sub(" ", _RUST_LINK.sub(r"\1", _MARKDOWN_LINK.sub(r"\1", text))).split())


def _role(match: re.Match[str]) -> str:
    """Return a role of reStructuredText as code; with `~` only the last part of the name."""
    return f"`{match[1].rpartition('.')[2] if '`~' in match[0] else match[1]}`"


def said(text: str, limit: int = 320) -> str:
    """Return the first sentence of documentation as Markdown; it ends as a sentence does."""
    first = sentence(documented(text), limit).rstrip(": ")
    return words(first if not first or _END.search(first) else f"{first}.")


_END = re.compile(r"[.!?…。！？][\"'”’)*_]*$")
"""How a text ends that needs no full stop."""
_LIST = re.compile(r"(?<=\w):\s+[-*•](?=\s+[\w`])")
"""Where a sentence goes on as a list, whose lines were joined."""


def sentence(text: str, limit: int = 220) -> str:
    """Return the first sentence of `text`, cut at a word with `…` when it is too long."""
    text = _LIST.split(" ".join(text.split()))[0]
    end = re.search(r"(?<=[。！？])|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+(?=[^a-z])", text)
    first = text[: end.start()].rstrip() if end else text
    return first if len(first) <= limit else first[:limit].rsplit(" ", 1)[0].rstrip(",;:") + " …"


# ---------------------------------------------------------------- Markdown of others

_TAG = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")
_ZERO_WIDTH = "\u200b"
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)", re.DOTALL)
_DIAGRAM = re.compile(r"((?:(?<!`)`{3,}+|(?<!~)~{3,}+)[ \t{.]*+)mermaid", re.IGNORECASE)
_MAY_OPEN = re.compile(r"`{3}|~{3}|`{1,2}\Z|~{1,2}\Z")
_TAG_START_CHARS = "<!"
_WHOLE_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class StreamSanitizer:
    """Sanitizes streamed Markdown for viewers that interpret HTML, however it is split.

    Such a viewer passes HTML on to its page, loads images from anywhere, and draws diagrams whose text may
    contain scripts. Here a `<` that would begin a tag, and a `!` that would begin an image, are followed by a
    zero-width space, and a diagram block becomes a text block. Fenced blocks are not changed, but only where
    every viewer agrees that they are fenced: with fences at the very beginning of a line.
    """

    def __init__(self) -> None:
        self._line = ""
        """The current line."""
        self._returned = 0
        """The number of its characters that were returned."""
        self._fence = ""

    def feed(self, text: str) -> str:
        """Process the next piece; return the text that is complete now."""
        done = []
        # Viewers end a line at a carriage return alone, but the code below does not: replace it.
        for part in _WHOLE_LINE.findall(text.replace("\r", " ")):
            self._line += part
            if part.endswith("\n"):
                done.append(self._whole())
            else:
                done.append(self._beginning())
        return "".join(done)

    def close(self) -> str:
        """Return the rest of the text."""
        return self._whole() if self._line else ""

    def _beginning(self) -> str:
        """Return the part of the growing line that cannot change any more."""
        rest = self._line[self._returned :]
        if self._fence:
            self._returned = len(self._line)
            return rest
        opening = _MAY_OPEN.search(rest)
        done = rest.rstrip(_TAG_START_CHARS) if opening is None else rest[: opening.start()]
        self._returned += len(done)
        return _without_tags(done)

    def _whole(self) -> str:
        line, rest = self._line, self._line[self._returned :]
        self._line, self._returned = "", 0
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
            return rest
        opened = _FENCE.match(line)
        if opened is not None and not (opened[1][0] == "`" and "`" in opened[2]):
            self._fence = opened[1]
        return _without_tags(_DIAGRAM.sub(r"\1text", rest))


def sanitize(text: str) -> str:
    """Sanitize a whole text."""
    made = StreamSanitizer()
    return made.feed(text) + made.close()


def _without_tags(text: str) -> str:
    return _TAG.sub(lambda match: match[0] + _ZERO_WIDTH, text)


def _closes(line: str, fence: str) -> bool:
    """Return whether this whole line closes the fence, by CommonMark's rules."""
    indent = len(line) - len(line.lstrip(" "))
    marks = line.strip(" \t\r\n")
    return indent <= 3 and len(marks) >= len(fence) and marks == fence[0] * len(marks)
