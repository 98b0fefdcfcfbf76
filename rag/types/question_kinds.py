"""The kinds of questions that rules answer: the values of `CodeFacts.kind`."""

from __future__ import annotations

MESSAGE, CALLERS, LIST, SETTING, TRACE = "message", "callers", "list", "setting", "trace"
LINES = "lines"
"""The kind of a question that names lines, which is recognized by these alone."""
HISTORY = "history"
"""The kind of a question for commits, which the service answers."""
COMMAND = "command"
"""The kind of a question for the command that builds, runs or tests the project."""
VARIABLES, OPTIONS, ERRORS = "variables", "options", "errors"
"""The kinds of questions for all environment variables, all options, and all types of errors, whose facts are
those of a list.
"""
OVERVIEW = "overview"
"""The kind of a question about the repository as a whole, which the service answers."""
RECALL, AGAIN, AFFECTED = "recall", "again", "affected"
"""The kinds of questions about a conversation, about its last answer, and for what a change of its subject
affects, which its working set answers.
"""
LISTS = frozenset((LIST, VARIABLES))
"""The kinds whose facts are the members of something."""
