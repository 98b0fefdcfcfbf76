"""The command `rag`: thin doors onto the engine."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from rag.cli.ask import ask
from rag.cli.doctor import doctor
from rag.cli.evaluate import evaluate
from rag.cli.index import index
from rag.cli.mcp import mcp
from rag.cli.options import WordsCommand
from rag.cli.search import search
from rag.cli.serve import serve
from rag.cli.session import chat
from rag.cli.turns import app as turns
from rag.cli.wiki import wiki

app = typer.Typer(
    name="rag",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=WordsCommand)(ask)
app.command()(chat)
app.command(cls=WordsCommand)(search)
app.command()(index)
app.command()(wiki)
app.add_typer(turns, name="turns")
app.command("eval")(evaluate)
app.command()(serve)
app.command()(mcp)
app.command()(doctor)


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        typer.echo(f"rag-turns {version('rag-turns')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None:
    """Ask any code repository, and go on asking. Answers cite the lines they rest on."""


def main() -> None:
    """Run the command line. What a terminal cannot show, or was no text when it was typed, becomes `?`."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
