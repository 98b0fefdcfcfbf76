"""Cut a file's text into chunks that are meaningful on their own.

Three steps over whole lines. *Partition*: the outline's definitions become pieces, each with the comment
above it; a class becomes its head and its members, and the lines between definitions become loose pieces.
*Merge*: small neighbours are joined (imports, constants, one-line functions); a definition with a body stays
alone. *Cut*: a piece over the limit is divided at the least indented line after a blank one.

The chunks of a file, joined in order, are its text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rag.code.definitions import Definition
from rag.code.parsing import SourceText, outlines
from rag.corpus.cut import cut
from rag.corpus.merge import merge
from rag.corpus.partition import partition
from rag.identifiers import composed
from rag.lines import whole_lines_of
from rag.types import Chunk, SourceFile, Span

DEFAULT_MAX_CHARS = 1600


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
        Chunks that, joined in order, are the text. None is empty; an empty file has none.
    """
    if max_chars < 1:
        raise ValueError(f"max_chars must be at least 1, not {max_chars}")
    if definitions is None:
        (found,) = outlines([SourceText(file.text, file.language)], max_chars=max_chars)
        definitions = found.definitions
    return list(_chunks(file, max_chars, definitions))


def _chunks(file: SourceFile, max_chars: int, definitions: Sequence[Definition]) -> Iterator[Chunk]:
    lines = whole_lines_of(file.text)
    offsets = [0, *accumulate(map(len, lines))]
    for piece in merge(partition(lines, offsets, definitions, file.language), lines, offsets, max_chars):
        label, (symbol, scope) = piece.label, map(composed, (piece.label.symbol, piece.label.scope))
        for start, end in cut(lines, offsets, piece, max_chars):
            first, last = bisect_right(offsets, start), bisect_right(offsets, end - 1)
            yield Chunk(
                Span("", file.path, first, last, file.blob, symbol=symbol, scope=scope),
                file.text[start:end],
                unit=label.unit,
                kind=file.kind,
                language=file.language,
            )
