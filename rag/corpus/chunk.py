"""Cut a file's text into chunks that are meaningful on their own.

Three steps over whole lines. *Partition*: the outline's definitions become pieces, each with the comment
above it; a class becomes its head and its members, and the lines between definitions become loose pieces.
*Merge*: small neighbours are joined (imports, constants, one-line functions); a definition with a body stays
alone. *Cut*: a piece over the limit is divided at the least indented line after a blank one. The cells of a
notebook are cut apart.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rag.code.definitions import Definition, Heading, sections
from rag.code.languages import kind_inside
from rag.code.parsing import SourceText, outlines
from rag.corpus.cut import cut
from rag.corpus.merge import merge
from rag.corpus.partition import partition
from rag.identifiers import composed
from rag.lines import whole_lines_of
from rag.types import Chunk, Kind, SourceFile, Span

DEFAULT_MAX_CHARS = 1600
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")


def chunk(
    file: SourceFile,
    *,
    max_chars: int = DEFAULT_MAX_CHARS,
    definitions: Sequence[Definition] | None = None,
) -> list[Chunk]:
    """Cut a file into chunks.

    Args:
        file: its language decides how it is parsed; a text that does not parse is cut by lines.
        max_chars: no chunk is longer; a longer line is divided.
        definitions: what the file defines, if already known.

    Returns:
        Chunks in the order of the text; an empty file has none. Joined they are the text, without what nobody
        reads of long lines, and without the lines between the cells of a notebook.
    """
    return [one for _, one in placed_chunks(file, max_chars=max_chars, definitions=definitions)]


def placed_chunks(
    file: SourceFile, *, max_chars: int, definitions: Sequence[Definition] | None = None
) -> Iterator[tuple[int, Chunk]]:
    """Yield the chunks of a file, each with its offset in the text; see `chunk`."""
    if max_chars < 1:
        raise ValueError(f"max_chars must be at least 1, not {max_chars}")
    if definitions is None:
        (found,) = outlines([parsed_text(file)], max_chars=max_chars)
        definitions = found.definitions
    lines = whole_lines_of(file.text)
    offsets = [0, *accumulate(map(len, lines))]
    for rows, kind, defined in _parts(file, lines, definitions):
        pieces = partition(lines, offsets, defined, file.language, rows)
        for piece in merge(pieces, lines, offsets, max_chars):
            label, (symbol, scope) = piece.label, map(composed, (piece.label.symbol, piece.label.scope))
            for start, end in cut(lines, offsets, piece, max_chars):
                text = file.text[start:end]
                first, last = bisect_right(offsets, start), bisect_right(offsets, end - 1)
                span = Span("", file.path, first, last, file.blob, symbol=symbol, scope=scope)
                own = kind_inside(kind, file.language, f"{scope}.{symbol}")
                yield start, Chunk(span, text, unit=label.unit, kind=own, language=file.language)


def parsed_text(file: SourceFile) -> SourceText:
    """Return what is parsed of a file: of a notebook, the cells of code."""
    return SourceText(file.notebook.code if file.notebook else file.text, file.language)


def _parts(
    file: SourceFile, lines: Sequence[str], definitions: Sequence[Definition]
) -> Iterator[tuple[tuple[int, int], Kind, Sequence[Definition]]]:
    """Yield the parts that are cut apart, with what each defines: the whole file, or the cells of a notebook.

    The sections of a cell of Markdown end with it.
    """
    if file.notebook is None:
        yield (0, len(lines)), file.kind, definitions
        return
    for cell in file.notebook.cells:
        first, last = cell.start - 1, cell.end
        if cell.is_code:
            own = [one for one in definitions if first <= one.start < last]
            yield (first, last), file.kind, own
        else:
            titles = ((row, _HEADING.match(lines[row])) for row in range(first + 1, last))
            headings = [Heading(row, len(found[1]), found[2]) for row, found in titles if found]
            yield (first, last), "doc", sections(headings, last)
