"""The kinds of questions that rules answer: the values of `CodeFacts.kind`."""

from __future__ import annotations

MESSAGE, CALLERS, LIST, SETTING, FAILURE, TRACE = "message", "callers", "list", "setting", "failure", "trace"
CODES, CHART_VALUE = "codes", "chart_value"
LINES = "lines"
"""The kind of a question that names lines, which is recognized by these alone."""
HISTORY = "history"
"""The kind of a question for commits, which the service answers."""
