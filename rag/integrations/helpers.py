"""Sub-agents and skills for coding agents: whole files that are ours, which explore through the shell.

Sub-agents do not inherit MCP servers, but have a shell. A file is ours if it has our mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Literal

from rag.integrations.edits import CannotEdit, Edit
from rag.resources import shipped

MARK = "Written by `rag agents install`"
What = Literal["sub-agent", "skill"]
_SAFE_IN_TEXT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+~@ ")


@dataclass(frozen=True, slots=True)
class HelperFile:
    """A file with a sub-agent or a skill: its template, and its path by scope, as those of a ConfigFile."""

    what: What
    template: str
    paths: Mapping[str, str]

    def content(self, program: str) -> str:
        """Return the file for a program. Raises CannotEdit: its path cannot be written in the file."""
        if not _SAFE_IN_TEXT.issuperset(program):
            raise CannotEdit(f"the path of the program has characters that it cannot have: {program}")
        shown = f'"{program}"' if " " in program else program
        texts = {"program": shown, "explore": _template("explore.md").substitute(program=shown)}
        return _template(self.template).substitute(texts)


def edit_of_file(text: str, content: str | None) -> Edit:
    """Return the edit that sets or removes the whole text of a file. Raises CannotEdit: it is another's."""
    if text and MARK not in text:
        raise CannotEdit("another file of this name is there")
    return Edit(0, len(text), content or "")


def _template(name: str) -> Template:
    return Template(shipped(f"templates/agents/{name}").read_text(encoding="utf-8"))
