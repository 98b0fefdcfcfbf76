"""Places where projects conventionally answer questions about themselves: files, their headings and lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place that holds an answer: a pattern for its path, and one for a line of its text, "" for any line.

    Both are regular expressions that ignore case. Of the files with such a line those nearest to the root
    count, and of their chunks the first `most`. In a place that is `headed` the line is a heading: the chunks
    below such a heading come before those with such a line in their text. With `terms`, all code that holds
    one of them counts; `by_count`, chunks with most such lines come first.
    """

    path: str
    line: str = ""
    most: int = 3
    terms: tuple[str, ...] = ()
    headed: bool = False
    by_count: bool = True


def headed(path: str, words: str, most: int = 3) -> Place:
    """Return the sections of files with one of the words in their heading, in any markup."""
    line = rf"^(?![^\n]*\]\()[ \t#=.*]*(?:[^\n.:,\[<]{{0,30}}\b)?(?:{words})"
    return Place(path, line, most, headed=True)


README = r"^(?:\.github/|docs?/)?readme(?:\.\w+)?$"
GUIDE = r"^(?:\.github/|docs?/)?(?:contributing|develop\w*|hacking|building)\b[^/]*$"
AGENTS = r"^(?:\.\w+/)?(?:agents|claude|gemini|copilot-instructions)\.md$"
"""What a repository says to coding agents: its commands and its structure."""
_TEXT = r"\.(?:md|markdown|rst|adoc|org|txt|html)$"
_DOCS = r"(?:^|/)(?:docs?|documentation|manual|guide|book|site|website)/(?:.*/)?"
MANUAL = (
    rf"{_DOCS}(?:index|intro\w*|install\w*|setup|getting.?started|quick.?start|usage|tutorial){_TEXT}"
    rf"|^(?:getting.?started|quick.?start|usage|tutorial|user.?guide|manual){_TEXT}"
)
TASKS = (
    r"^(?:(?:gnu)?makefile|justfile|rakefile|tox\.ini|noxfile\.py|taskfile\.ya?ml|composer\.json)$"
    r"|(?:^|/)package\.json$"
)
CI = (
    r"^(?:\.github/workflows/[^/]+|\.gitlab-ci\.yml|\.circleci/config\.yml|\.travis\.yml"
    r"|azure-pipelines\.yml|jenkinsfile|\.buildkite/pipeline\.ya?ml|\.?appveyor\.yml|\.builds/[^/]+\.yml"
    r"|\.cirrus\.yml)$"
)
NAMED = {
    "readme": README,
    "guide": GUIDE,
    "agents": AGENTS,
    "manual": MANUAL,
    "tasks": TASKS,
    "ci": CI,
    "text": _TEXT,
    "docs": _DOCS,
}
"""The patterns by the names that data/project_topics.txt has for them."""
