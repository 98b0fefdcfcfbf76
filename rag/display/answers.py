"""An answer as HTML: its Markdown with highlighted code, and each source once, with its lines.

The text is untrusted: HTML in it is shown as text, and links and images are shown as they were written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rag.display.html import code, file_link, framed, place, plain
from rag.types.code import Located, Span

_MAX_MARKDOWN = 100_000
"""A longer text is shown as it is: its Markdown would take 7 µs of CPU a character."""
_REFERENCE = re.compile(r"\[(\d{1,3})(:\d{1,7}(?:-\d{1,7})?)?\]")


@dataclass(frozen=True, slots=True)
class ShownSource(Located):
    """A source of an answer: its number, and its lines ("" if they are not known)."""

    n: int
    span: Span
    location: str
    note: str = ""
    text: str = ""
    language: str = ""


def answer_html(
    title: str,
    text: str,
    sources: Sequence[ShownSource] = (),
    notes: Sequence[str] = (),
    warning: str = "",
    *,
    names_places: bool = False,
) -> str:
    """Return a question, its answer, the sources that it refers to, and notes.

    References in the text lead to the sources; those of a text that `names_places` itself, as an answer
    without a model does, lead to the files, and the sources are not listed again.
    """
    mark = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "replace")).hexdigest()[:8]
    numbers = {source.n: f"rag-{mark}-{source.n}" for source in sources}
    parts = [f"<p><strong>{plain(title)}</strong></p>" if title else ""]
    parts.append(f"<p>{plain(warning)}</p>" if warning else "")
    if names_places:
        targets = {source.n: file_link(source.location, source.path) for source in sources}
    else:
        targets = {n: f"#{name}" for n, name in numbers.items()}
    parts.append(_markdown(text, targets) if len(text) <= _MAX_MARKDOWN else code(text))
    if sources and not names_places:
        parts.append("<p><strong>Sources</strong></p>")
        parts += [_source(source, numbers[source.n]) for source in sources]
    parts += [f'<p class="quiet">{plain(note)}</p>' for note in notes]
    return framed("".join(parts))


def _source(source: ShownSource, name: str) -> str:
    """Return a source that shows its lines when it is opened."""
    more = "".join(f" {plain(part)}" for part in (source.qualified_name, source.note) if part)
    head = f"[{source.n}] {place(source.location, source.path, source.place)}{more}"
    if not source.text:
        return f'<div id="{name}" class="plain">{head}</div>'
    suffix = PurePosixPath(source.path).suffix.removeprefix(".")
    lines = code(source.text, source.language or suffix, source.start)
    return f'<details><summary>{head}</summary><div id="{name}">{lines}</div></details>'


def _markdown(text: str, targets: Mapping[int, str]) -> str:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML

    class Renderer(RendererHTML):
        """Renders code with colours, and references to sources as links."""

        def fence(self, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
            """Return a block of code."""
            language = tokens[at].info.strip().split(" ")[0]
            return code(tokens[at].content.rstrip("\n"), language)

        def code_block(self, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
            """Return a block that is indented."""
            return code(tokens[at].content.rstrip("\n"))

        def text(self, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
            """Return words, with references as links."""
            return _REFERENCE.sub(
                lambda found: (
                    f'<a href="{plain(target)}">{found[0]}</a>'
                    if (target := targets.get(int(found[1])))
                    else found[0]
                ),
                plain(tokens[at].content),
            )

    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=Renderer).enable("table")
    parser.disable(["link", "image", "autolink", "reference", "html_block", "html_inline", "entity"])
    return str(parser.render(_valid(text)))


def _valid(text: str) -> str:
    """Return text without characters that cannot be shown; the parser replaces NUL only."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x1b", "\ufffd")
