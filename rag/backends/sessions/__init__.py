"""Readers of the sessions that coding agents record, one module per agent."""

from __future__ import annotations

from rag.backends.sessions.aider import Aider
from rag.backends.sessions.claude_code import ClaudeCode
from rag.backends.sessions.codex import Codex
from rag.backends.sessions.cursor import Cursor
from rag.backends.sessions.gemini import Gemini
from rag.backends.sessions.opencode import OpenCode
from rag.ports import SessionReader

READERS: dict[str, SessionReader] = {
    one.agent: one for one in (ClaudeCode(), Codex(), OpenCode(), Gemini(), Cursor(), Aider())
}
"""The reader of each agent, by its name."""
