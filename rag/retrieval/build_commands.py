"""Recognize a question about a command of a build: "What does `make assets` do?", "explain npm run dev".

The command is a target or script in a file with a conventional name; the line that defines it answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.retrieval.conventional_places import Place

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
_SCRIPT_ASKED = re.compile(
    r"\A\W*(?:what (?:does|is|happens (?:in|on|with))|where (?:is|does)|how does|explain|describe"
    r"|show(?: me)?)\s(?:the )?(?:npm |package\.json )?"
    r"(?:script [`\"']?(?P<after>[a-z][\w:./-]{0,60}?)[`\"']?"
    r"|(?!(?:author|bin|engine|file|licen[sc]e|main|module|name|type|url|user)s? )"
    r"[`\"']?(?P<before>[a-z][\w:./-]{0,60}?)[`\"']? (?:npm )?script)"
    r"(?: (?:in|of|from) (?:the )?`?package\.json`?)?"
    r"(?: (?:do|run|execute|start|mean|(?:get )?(?:defined|declared)))?\W*\Z",
    re.I,
)
"""A question for a script whose tool is not named: "What does the script `dev` do?".

In "the type script" the word is that of another key of package.json.
"""
_SCRIPT = r'^\s*"{name}"\s*:\s*["\[{{]'
_FILES = {
    "make": (
        r"(?:^|/)(?:gnumakefile|makefile[^/]*|[^/]+\.(?:mk|am))$",
        r"^{name}(?:[ \t][^:=\n]*+)?::?(?!=)",
    ),
    "just": (r"(?:^|/)\.?justfile$", r"^@?{name}\b[^:=\n]*+:(?!=)"),
    **dict.fromkeys(_PACKAGES.split(), (r"(?:^|/)package\.json$", _SCRIPT)),
    "composer": (r"(?:^|/)composer\.json$", _SCRIPT),
    "rake": (r"(?:^|/)rakefile[^/]*$|\.rake$", r"^\s*+task\W++{name}\b"),
    "task": (r"(?:^|/)taskfile[^/]*\.ya?ml$", r"^  ['\"]?{name}['\"]?:\s*$"),
    "tox": (r"(?:^|/)(?:tox\.ini|tox\.toml|setup\.cfg|pyproject\.toml)$", r"^\[.*env\W{name}\]"),
    "nox": (r"(?:^|/)noxfile\.py$", r"^def {name}\("),
    **dict.fromkeys(("invoke", "inv"), (r"(?:^|/)tasks(?:\.py|/[^/]+\.py)$", r"^def {name}\(")),
    "poe": (r"(?:^|/)pyproject\.toml$", r"^{name}\s*=|^\[tool\.poe\.tasks\.{name}\]"),
}
"""The files of each tool, and the line that defines a command in them."""
_RUN = {"make": "make", "just": "just", "rake": "rake", "task": "task", "nox": "nox -s"}
"""How the tools whose files list their commands line by line run one."""
_ANY = r"([a-z][\w.-]*+)"


def build_command(text: str) -> Place | None:
    """Return where the command that a question is about would be defined; None if it is about none."""
    tool, name = _asked(text)
    if not tool:
        return None
    path, line = _FILES[tool]
    return Place(path, line.format(name=re.escape(name)))


def commands_in(path: str, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the commands that a file defines line by line, each with its line."""
    for tool, run in _RUN.items():
        if re.search(_FILES[tool][0], path, re.I):
            defined = re.compile(_FILES[tool][1].format(name=_ANY), re.I)
            matches = ((number, defined.match(line)) for number, line in enumerate(lines, 1))
            yield from ((number, f"{run} {match[1]}") for number, match in matches if match)


def asked_script(text: str) -> str:
    """Return the script of a `package.json` that a question is about; "" if it is about none."""
    tool, name = _asked(text)
    return name if tool in _PACKAGES.split() else ""


def _asked(text: str) -> tuple[str, str]:
    """Return the tool and the name of the command that a question is about; two "" if it is about none."""
    if len(text) > _MAX_CHARS:
        return "", ""
    if asked := _ASKED.match(text):
        return asked["tool"].lower(), asked["name"]
    script = _SCRIPT_ASKED.match(text)
    return ("npm", script["after"] or script["before"]) if script else ("", "")
