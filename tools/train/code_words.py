"""Compile the descriptions of code words: `python -m tools.train.code_words` writes `data/code_words.txt`.

`tools/train/code_words/*.txt` describe words of code in plain words, an entry a line:

    debounce, throttle: wait, pause, rapid, too often, burst, typing

They were written from general knowledge of programs, without sight of any set of questions. The result has a
line for each plain word, with the code words that it describes, all as terms of `rag.analysis`. Compounds
(`dead letter`) are left out: with them, the search found nothing more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from rag.analysis import terms

SOURCES = Path(__file__).parent / "code_words"
RESULT = Path(__file__).parents[2] / "data" / "code_words.txt"


def compiled(sources: Iterable[Path]) -> str:
    """Return the table of these files, in the order of the alphabet."""
    described: dict[str, dict[str, None]] = defaultdict(dict)
    for source in sources:
        for code, plain in _entries(source):
            for word in plain:
                described[word] |= dict.fromkeys(other for other in code if other != word)
    lines = [f"{word}: {' '.join(sorted(code))}" for word, code in sorted(described.items()) if code]
    return "\n".join(
        [f"# Plain words and the words of code they describe; {Path(__file__).name} writes this.", *lines, ""]
    )


def _entries(source: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the single code words and the plain words of each entry, as terms."""
    for line in source.read_text(encoding="utf-8").splitlines():
        code, described, plain = line.partition(":")
        if described and not line.startswith("#"):
            names = (_stems(name) for name in code.split(","))
            yield [name[0] for name in names if len(name) == 1], _stems(plain)


def _stems(text: str) -> list[str]:
    return [parts[-1] for word in text.split() if (parts := terms(word))]


if __name__ == "__main__":
    RESULT.write_text(compiled(sorted(SOURCES.glob("*.txt"))), encoding="utf-8")
