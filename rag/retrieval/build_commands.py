"""Recognize a question about a command of a build: "What does `make assets` do?", "explain npm run dev".

The command is a target or script in a file with a conventional name; the line that defines it answers.
"""

from __future__ import annotations

import re

from rag.retrieval.project_questions import Place

_MAX_CHARS = 160
_PACKAGES = "npm pnpm yarn bun"
_ASKED = re.compile(
    r"\A\W*(?:what (?:does|is|happens (?:in|on|with|when i (?:run|call)))|where (?:is|does)|how does"
    r"|explain|describe|show(?: me)?)\s(?:the )?(?:(?:target|task|script|command) )?"
    rf"[`\"']?(?P<tool>make|just|composer|rake|task|tox|nox|invoke|inv|poe|{_PACKAGES.replace(' ', '|')})"
    r"(?: (?:run|run-script|-e|-s|-C \S+))? [`\"']?(?P<name>[a-z][\w:./-]{0,60}?)[`\"']?"
    r"(?: (?:target|task|script|command))?"
    r"(?: (?:do|run|execute|start|mean|work|(?:get )?(?:defined|declared|from|come from)))?\W*\Z",
    re.I,
)
_SCRIPT = r'^\s*"{name}"\s*:\s*["\[{{]'
_FILES = {
    "make": (r"(?:^|/)(?:gnumakefile|makefile[^/]*|[^/]+\.(?:mk|am))$", r"^{name}(?:[ \t][^:=\n]*)?::?(?!=)"),
    "just": (r"(?:^|/)\.?justfile$", r"^@?{name}\b[^:=\n]*:(?!=)"),
    **dict.fromkeys(_PACKAGES.split(), (r"(?:^|/)package\.json$", _SCRIPT)),
    "composer": (r"(?:^|/)composer\.json$", _SCRIPT),
    "rake": (r"(?:^|/)rakefile$|\.rake$", r"\btask\W+{name}\b"),
    "task": (r"(?:^|/)taskfile[^/]*\.ya?ml$", r"^\s+['\"]?{name}['\"]?:"),
    "tox": (r"(?:^|/)(?:tox\.ini|tox\.toml|setup\.cfg|pyproject\.toml)$", r"^\[.*env\W{name}\]"),
    "nox": (r"(?:^|/)noxfile\.py$", r"^def {name}\("),
    **dict.fromkeys(("invoke", "inv"), (r"(?:^|/)tasks(?:\.py|/[^/]+\.py)$", r"^def {name}\(")),
    "poe": (r"(?:^|/)pyproject\.toml$", r"^{name}\s*=|^\[tool\.poe\.tasks\.{name}\]"),
}
"""The files of each tool, and the line that defines a command in them."""


def build_command(text: str) -> Place | None:
    """Return where the command that a question is about would be defined; None if it is about none."""
    asked = _ASKED.match(text) if len(text) <= _MAX_CHARS else None
    if asked is None:
        return None
    path, line = _FILES[asked["tool"].lower()]
    return Place(path, line.format(name=re.escape(asked["name"])))
