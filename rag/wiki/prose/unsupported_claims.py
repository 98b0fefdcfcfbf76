"""Find the parts of a model's text for a page that the repository does not support."""

from __future__ import annotations

from collections.abc import Sequence

from rag.answer import support
from rag.answer.finish import removed_references
from rag.answer.statements import REFERENCE
from rag.code.survey import Survey
from rag.markdown import code, plain
from rag.wiki.models import Prose

_MAX_NAMES = 8


def unknown_names(text: str, survey: Survey) -> tuple[tuple[str, str], ...]:
    """Return the names in code font that do not occur in the repository, each with its sentence."""
    found = support.unknown_names(text, lambda name: _occurs(name, survey))
    return tuple((name, sentence) for name, (_, sentence) in found.items())


def cites(prose: Prose) -> bool:
    """Return whether any statement of a model's text refers to a source by its number."""
    return bool(prose.citations and REFERENCE.search(prose.text))


def doubts(prose: Prose, survey: Survey) -> list[str]:
    """Return warnings on a model's text, in sentences of Markdown; none if nothing is wrong."""
    notes = []
    if not cites(prose):
        notes.append("No statement of the text below cites a source.")
    if unknown := unknown_names(prose.text, survey):
        named = ", ".join(code(name) for name, _ in unknown[:_MAX_NAMES])
        more = f" and {len(unknown) - _MAX_NAMES} more" if len(unknown) > _MAX_NAMES else ""
        notes.append(f"The text below uses names that do not occur in the repository: {named}{more}.")
    if prose.unsupported:
        notes.append(f"Of the text below, {prose.unsupported}.")
    if prose.invented:
        notes.append(f"{removed_references(prose.invented)} from the text.")
    if prose.cut:
        notes.append("The text below was cut at its token limit and ends with its last whole sentence.")
    return notes


def marked(notes: Sequence[str], model: str) -> str:
    """Return the note before such a text; "" without warnings."""
    return f"**{' '.join(notes)}** It was written by {plain(model)}." if notes else ""


def _occurs(part: str, survey: Survey) -> bool:
    return any(part in path for path in survey.files) or any(
        part in file.text for file in survey.files.values()
    )
