"""The tools for agents, as the protocol lists them: names, descriptions, arguments.

What they do is in `toolbox.py`, for the memory in `memory_tools.py`: a method of the tool's name, with its
arguments. Nothing is imported here but constants, so that a client gets the list at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from rag.settings import (
    AUTO_STEPS,
    EXPLORE_TOKENS,
    MAX_CODE_WORDS,
    MAX_EXPLORE_TOKENS,
    MAX_STEPS,
    MIN_EXPLORE_TOKENS,
    FactScope,
    ToolSet,
)

Schema = dict[str, Any]

MAX_RESULTS = 50
"""How many places or turns a tool returns at most: less than elsewhere, since their texts enter the context
of the agent's model."""
MAX_REPOSITORIES = 200
MAX_FACTS = 200
_HINTS: Mapping[str, Schema] = {
    "reads": {"readOnlyHint": True, "openWorldHint": False},
    "writes": {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    },
    "deletes": {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    },
}
_NOT_LISTED = frozenset({"minLength", "maxLength", "maxItems"})
_NOT_LISTED_MINIMA = (0, 1)
"""Limits that no honest call reaches. Calls are checked against them."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool: `arguments` are JSON schemas by name, those of `needed` are required."""

    name: str
    about: str
    arguments: Mapping[str, Schema]
    needed: tuple[str, ...] = ()
    does: Literal["reads", "writes", "deletes"] = "reads"

    def listed(self) -> Schema:
        """Return the tool as the protocol lists it, in few tokens."""
        properties = {
            name: {key: value for key, value in schema.items() if _is_listed(key, value)}
            for name, schema in self.arguments.items()
        }
        schema: Schema = {"type": "object", "properties": properties}
        if self.needed:
            schema["required"] = list(self.needed)
        return {
            "name": self.name,
            "description": " ".join(self.about.split()),
            "inputSchema": schema,
            "annotations": _HINTS[self.does],
        }


def _is_listed(key: str, value: object) -> bool:
    return key not in _NOT_LISTED and not (key == "minimum" and value in _NOT_LISTED_MINIMA)


def _text(description: str = "", *, most: int = 20_000) -> Schema:
    return {"type": "string", "maxLength": most} | ({"description": description} if description else {})


def _number(least: int, most: int | None = None, default: int | None = None, about: str = "") -> Schema:
    schema: Schema = {"type": "integer", "minimum": least}
    schema |= {"maximum": most} if most is not None else {}
    schema |= {"default": default} if default is not None else {}
    return schema | ({"description": about} if about else {})


_ONLY_REPO = _text(most=300)
"""The name of a repository; may be omitted if only one is served."""
_REF = _text(most=300)
"""A branch, tag or commit."""
_CONVERSATION = _text("That of an earlier answer.", most=300)
_LIMIT = _number(1, MAX_RESULTS, 10)
_FACTS_OF = {"type": "string", "enum": list(get_args(FactScope)), "description": "Whose facts."}
_STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
_CODE_WORDS = _STRINGS | {
    "maxItems": MAX_CODE_WORDS,
    "description": "For everyday words, always: 2-4 texts as code would say it, with likely identifiers "
    "(`RateLimiter allow`, `429 retry`).",
}

_EXPLORING = (
    McpTool(
        "explore",
        """Find the code for a question: the best definition whole, with its callers and tests, then the next
        places with a numbered line each.

        Use it first: where something is done, who calls it, what a change affects, all members of a list,
        settings, errors. Lines are not sent twice: the same question again returns the next places. For one
        rare word grep is cheaper.""",
        {
            "question": _text(
                "Also an identifier, issue or test's output; a diff, or a change and its files: tests first."
            ),
            "in_code_words": _CODE_WORDS,
            "budget": _number(MIN_EXPLORE_TOKENS, MAX_EXPLORE_TOKENS, EXPLORE_TOKENS, "Tokens of the reply."),
            "seen": _STRINGS | {"maxItems": 2000, "description": "Places you have (`path:12-40`)."},
            "repoName": _ONLY_REPO,
            "ref": _REF,
        },
        ("question",),
    ),
)
_WIKI = (
    McpTool(
        "list_available_repos",
        "List the repositories, to pass one as `repoName`.",
        {"limit": _number(1, MAX_REPOSITORIES, MAX_REPOSITORIES), "offset": _number(0)},
    ),
    McpTool(
        "read_wiki_structure",
        "List the documentation topics of a repository. Use it for an overview.",
        {"repoName": _ONLY_REPO, "ref": _REF},
    ),
    McpTool(
        "read_wiki_contents",
        """View documentation of a repository, from a page on; the reply names the next page. Use it for
        whole topics.""",
        {
            "repoName": _ONLY_REPO,
            "ref": _REF,
            "page": _number(1, about="The first page."),
            "maxChars": _number(1, about="Default: 20,000."),
        },
    ),
)
_QUESTIONS = (
    McpTool(
        "ask_question",
        """Ask any question about a repository; the answer in prose cites its lines. Use it for how and why;
        `explore` is faster. Pass the `conversation` of an answer to ask a follow-up.""",
        {
            "question": _text(most=1_000_000),
            "repoName": {
                "anyOf": [{"type": "string"}, _STRINGS],
                "description": "One or several; @all: those it is about.",
            },
            "conversation": _CONVERSATION,
            "ref": _REF,
            "about": _text('What "it" means: a definition or file.', most=500),
            "steps": {
                "anyOf": [_number(0, MAX_STEPS), {"type": "string", "enum": [AUTO_STEPS]}],
                "description": "Times it may look again.",
            },
        },
        ("question",),
        "writes",
    ),
    McpTool(
        "recall_turns",
        "Search earlier questions and the beginnings of their answers. Use it before asking again.",
        {
            "query": _text("Words to find."),
            "conversation": _CONVERSATION,
            "limit": _LIMIT | {"default": 5},
            "turn": _text("Instead: the id of a turn, to read it whole.", most=200),
        },
    ),
)
_CODE = (
    McpTool(
        "search_code",
        """Find whole functions, classes and sections for a question, or every line with a string (`exact`) or
        RE2 expression (`regex`). Use it for all matches, or in some files; else `explore` is shorter.""",
        {
            "query": _text(),
            "in_code_words": _CODE_WORDS | {"description": "As in `explore`."},
            "repoName": _ONLY_REPO,
            "limit": _LIMIT,
            "ref": _REF,
            "mode": {"type": "string", "enum": ["question", "exact", "regex"], "default": "question"},
            "ignore_case": {"type": "boolean"},
            "path": _text("Glob.", most=1000),
            "language": _text(most=100),
            "kind": {"type": "string", "enum": ["code", "test", "doc", "config"]},
        },
        ("query",),
    ),
    McpTool(
        "read_span",
        "Read numbered lines of a file, at most 2,000. Use it around a place found, not for whole files.",
        {
            "path": _text("Or `path:start-end`.", most=2000),
            "repoName": _ONLY_REPO,
            "start_line": _number(1, default=1),
            "end_line": _number(1),
            "ref": _REF,
        },
        ("path",),
    ),
    McpTool(
        "find_symbol",
        "Find where a function, class or method is defined. Use it for a known name.",
        {"name": _text("`name` or `Outer.name`.", most=1000), "repoName": _ONLY_REPO, "ref": _REF},
        ("name",),
    ),
    McpTool(
        "who_calls",
        "Find the callers of a symbol by its name, else what mentions it. Use it before you change one.",
        {"symbol": _text(most=1000), "repoName": _ONLY_REPO, "ref": _REF},
        ("symbol",),
    ),
    McpTool(
        "review",
        """Find what a change makes false: lines that use what is gone, callers, tests to run, earlier
        answers. Use it before a commit.""",
        {
            "repoName": _ONLY_REPO,
            "range": _text(
                "BASE..HEAD; BASE...HEAD: from their common commit; BASE: to the work tree. Default: "
                "HEAD to the work tree.",
                most=500,
            ),
        },
    ),
)
_TEXTS = (
    McpTool(
        "check",
        "Find what a text says of the code that is no longer true. Use it for notes and documents.",
        {
            "text": _text("Default: AGENTS.md, README and the like.", most=1_000_000),
            "repoName": _ONLY_REPO,
            "path": _text("The file it is from.", most=1000),
        },
    ),
)
_MEMORY = (
    McpTool(
        "remember",
        """Remember a decision, convention, constraint or definition for later answers. Use it when the user
        states one. The reply names facts on the same subject, which it may replace.""",
        {
            "text": _text("A sentence.", most=2000),
            "repoName": _ONLY_REPO,
            "turn": _text("The turn that states it, with its lines.", most=200),
            "fact": _text("Instead: a proposed fact to confirm.", most=200),
            "supersedes": _STRINGS | {"maxItems": 20, "description": "Ids of facts it replaces."},
            "scope": _FACTS_OF,
        },
        does="writes",
    ),
    McpTool(
        "forget",
        "Forget a fact that is wrong, or reject a proposed one. Facts that it replaced hold again.",
        {"fact": _text("Its id.", most=200) | {"minLength": 1}, "scope": _FACTS_OF},
        ("fact",),
        "deletes",
    ),
    McpTool(
        "facts",
        "List what is known about the repositories, with its lines. Use it before you decide.",
        {
            "repoName": _ONLY_REPO,
            "state": {
                "type": "string",
                "enum": ["proposed", "confirmed", "rejected"],
                "default": "confirmed",
            },
            "at": _text("What held at this branch, tag or commit.", most=200),
            "scope": _FACTS_OF,
            "check": {
                "type": "boolean",
                "default": True,
                "description": "Compare their lines with the code.",
            },
            "limit": _number(1, MAX_FACTS, 50),
        },
    ),
    McpTool(
        "check_turns",
        "Check which answers of a conversation are still true. Use it when the code has changed.",
        {"conversation": _text("Id or name. Default: the last.", most=200), "ref": _REF},
    ),
    McpTool(
        "turns_about",
        """List earlier answers about a file, line or definition, and whether they are still true. Use it
        before you change it.""",
        {
            "path": _text(most=1000),
            "line": _number(1),
            "symbol": _text("Instead of `path`.", most=200),
            "repoName": _ONLY_REPO,
            "limit": _LIMIT,
        },
    ),
)
_EVERY = (*_EXPLORING, *_WIKI, *_QUESTIONS, *_CODE, *_TEXTS, *_MEMORY)
TOOLS: Mapping[str, McpTool] = {
    one.name: one for one in (*_EXPLORING, *_WIKI, *_QUESTIONS, *_CODE, *_TEXTS, *_MEMORY)
}
"""The tools by name, in the order of the list."""


BASIC = ("explore", "read_span", "search_code", "find_symbol", "who_calls", "ask_question")
"""The tools that are listed by default: an agent sends the list to its model with each request."""


@cache
def listed_tools(tools: ToolSet) -> list[Schema]:
    """Return tools as the protocol lists them. A tool that is not listed can be called nevertheless."""
    names = BASIC if tools == "basic" else tuple(TOOLS)
    return [TOOLS[name].listed() for name in names]
