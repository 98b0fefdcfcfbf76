"""Append and remove a section between two markers in a file of instructions."""

from __future__ import annotations

from rag.integrations.edits import CannotEdit, Edit, line_break

BEGIN, END = "<!-- rag: begin -->", "<!-- rag: end -->"


def has_section(text: str) -> bool:
    """Return whether a text has the section."""
    return BEGIN in text


def with_section(text: str, content: str) -> Edit:
    """Return the edit that sets the section: at the end of the text if it is new. Raises CannotEdit."""
    eol = line_break(text)
    section = f"{BEGIN}\n{content.strip()}\n{END}\n".replace("\n", eol)
    if BEGIN in text or END in text:  # one alone could not be removed with the section
        return Edit(*_place(text), section)
    gap = "" if not text else eol if text.endswith("\n") else eol * 2
    return Edit(len(text), len(text), gap + section)


def without_section(text: str) -> Edit:
    """Return the edit that removes the section, and the empty line before it. Raises CannotEdit."""
    start, end = _place(text)
    eol = line_break(text)
    if text[:start].endswith(eol * 2):
        start -= len(eol)
    return Edit(start, end, "")


def _place(text: str) -> tuple[int, int]:
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise CannotEdit(f"{BEGIN} and {END} do not occur exactly once, in this order")
    end = text.index(END) + len(END)
    for eol in ("\r\n", "\n"):
        if text.startswith(eol, end):
            return text.index(BEGIN), end + len(eol)
    return text.index(BEGIN), end
