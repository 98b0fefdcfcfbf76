"""The options that several commands have, each defined once."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

_MODEL = "Language model"
_INDEX = "Index"
_CONVERSATION = "Conversation"


class WordsCommand(TyperCommand):
    """A command of `[SOURCE] QUESTION`, whose usage line says so."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of the usage line after the command's name."""
        return [self.options_metavar or "", "[SOURCE] QUESTION"]


Model = Annotated[str | None, typer.Option("--model", help="The model that answers.", rich_help_panel=_MODEL)]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="Any OpenAI-compatible server, such as http://127.0.0.1:11434/v1 (Ollama).",
        rich_help_panel=_MODEL,
    ),
]
Client = Annotated[
    str | None,
    typer.Option("--client", help="Another AdalFlow model client, by name.", rich_help_panel=_MODEL),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--template",
        help="A prompt template: a file, or a name in RAG_HOME/templates.",
        rich_help_panel=_MODEL,
    ),
]
ContextTokens = Annotated[
    int | None,
    typer.Option("--context-tokens", help="Tokens of prompt and answer together.", rich_help_panel=_MODEL),
]
AnswerTokens = Annotated[
    int | None,
    typer.Option("--answer-tokens", help="Tokens kept for the answer.", rich_help_panel=_MODEL),
]
Gate = Annotated[
    bool | None,
    typer.Option(
        "--gate/--no-gate",
        help="Warn where the repository probably does not hold the answer; on by default.",
        show_default=False,
    ),
]
Reword = Annotated[
    bool | None,
    typer.Option(
        "--reword/--no-reword",
        help="Have the model say first in which words code may put a vague question; off by default.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Cache = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Give an answer again while what it rests on is unchanged; on by default with a model.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Where turns are kept: sqlite:///PATH, postgresql://HOST/DB, redis://HOST or memory:.",
        rich_help_panel=_CONVERSATION,
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option("--embedder", help="static, minilm, or openai:MODEL.", rich_help_panel=_INDEX),
]
Ref = Annotated[str | None, typer.Option("--ref", help="A branch, tag or commit.", rich_help_panel=_INDEX)]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", help="Index only what matches this glob. Repeatable.", rich_help_panel=_INDEX),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Leave out what matches this glob. Repeatable.", rich_help_panel=_INDEX),
]
NoRefresh = Annotated[
    bool,
    typer.Option(
        "--no-refresh", help="Take the index as it is; say how many files are behind.", rich_help_panel=_INDEX
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Agree to what would be asked.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Repositories = Annotated[
    list[str] | None,
    typer.Option(
        "--repo", "-r", help="A repository to ask: a path or a git URL. Repeatable.", metavar="SOURCE"
    ),
]
Continue = Annotated[
    bool,
    typer.Option("--continue", "-c", help="Go on with the last conversation.", rich_help_panel=_CONVERSATION),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        metavar="NAME",
        help="Go on with this conversation, or begin it.",
        rich_help_panel=_CONVERSATION,
    ),
]
