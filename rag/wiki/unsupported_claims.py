"""Find the parts of a model's text for a page that the repository does not support."""

from __future__ import annotations

import re

from rag.answer.markdown import closes_fence, code_spans, opened_fence
from rag.code.survey import Survey
from rag.wiki.build_state import Prose
from rag.wiki.markdown import code, plain

_MAX_NAMES = 8
_NAME = re.compile(r"[A-Za-z_][\w.:/$-]*\w(?:\(\))?")
_PART = re.compile(r"[A-Za-z_$][\w$]{2,}")
_REFERENCE = re.compile(r"\[\d{1,3}(?:[ \t]*[,;–-][ \t]*\d{1,3})*\]")
_SENTENCE_END = re.compile(r"[.!?。！？](?:[*_\"')\]]|\s*\[[\d,; –-]+\])*(?=\s|$)")


def whole_sentences(text: str) -> str:
    """Return the text up to the end of its last whole sentence or list item; unchanged if it has none."""
    kept = text.rstrip()
    fence, opened_at, position = None, 0, 0
    for line in kept.split("\n"):
        if fence is None and (fence := opened_fence(line)) is not None:
            opened_at = position
        elif fence is not None and closes_fence(line, fence):
            fence = None
        position += len(line) + 1
    if fence is not None:
        kept = kept[:opened_at].rstrip()
    ends = [match.end() for match in _SENTENCE_END.finditer(kept)]
    return kept[: ends[-1]] if ends else text


def unknown_names(text: str, survey: Survey) -> tuple[tuple[str, str], ...]:
    """Return the names between backticks that do not occur in the repository, each with its sentence."""
    found: dict[str, str] = {}
    for line in _outside_fences(text):
        for start, end in code_spans(line):
            name = line[start:end].strip("`").strip()
            if name not in found and _NAME.fullmatch(name) and not _occurs(name, survey):
                found[name] = _sentence_at(line, start)
    return tuple(found.items())


def cites(prose: Prose) -> bool:
    """Return whether any statement of a model's text refers to a source by its number."""
    return bool(prose.citations and _REFERENCE.search(prose.text))


def doubts(prose: Prose, survey: Survey) -> list[str]:
    """Return warnings on a model's text, in sentences of Markdown; none if nothing is wrong."""
    notes = []
    if not cites(prose):
        notes.append("No statement of the text below cites a source.")
    if unknown := unknown_names(prose.text, survey):
        named = ", ".join(code(name) for name, _ in unknown[:_MAX_NAMES])
        more = f" and {len(unknown) - _MAX_NAMES} more" if len(unknown) > _MAX_NAMES else ""
        notes.append(f"The text below uses names that do not occur in the repository: {named}{more}.")
    if prose.invented:
        what = "1 reference" if prose.invented == 1 else f"{prose.invented} references"
        removed = f"{_were(prose.invented)} removed from the text"
        notes.append(f"{what} to sources that were never shown {removed}.")
    if prose.cut:
        notes.append("The text below was cut at its token limit and ends with its last whole sentence.")
    return notes


def marked(notes: list[str], model: str) -> str:
    """Return the note before such a text; "" without warnings."""
    return f"**{' '.join(notes)}** It was written by {plain(model)}." if notes else ""


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _occurs(name: str, survey: Survey) -> bool:
    bare = name.removesuffix("()")
    if any(bare in path for path in survey.files):
        return True
    parts = [part for part in _PART.findall(bare) if part not in ("self", "this")]
    return all(any(part in file.text for file in survey.files.values()) for part in parts)


def _outside_fences(text: str) -> list[str]:
    lines, fence = [], None
    for line in text.split("\n"):
        if fence is not None:
            fence = None if closes_fence(line, fence) else fence
        elif (fence := opened_fence(line)) is None:
            lines.append(line)
    return lines


def _sentence_at(line: str, position: int) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    begin = max((end for end in ends if end <= position), default=0)
    return line[begin : next((end for end in ends if end > position), len(line))].strip(" \t-*#>")
