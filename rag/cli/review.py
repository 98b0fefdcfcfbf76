"""`rag review`: what a change makes false."""

from __future__ import annotations

from typing import Annotated

import typer

from rag.cli import options
from rag.cli.terminal import opened_engine, out, out_json, wants_json
from rag.errors import ConfigError
from rag.schema import to_json

MADE_FALSE = 1


def review(
    range_: Annotated[
        str | None,
        typer.Argument(
            metavar="[BASE..HEAD]",
            help="The two states; BASE...HEAD compares with their last common commit, BASE alone with the "
            "work tree. Default: the work tree with HEAD.",
        ),
    ] = None,
    repo: options.Repository = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")] = False,
) -> None:
    """Report what a change breaks: callers, tests to run, and stored answers that are no longer true.

    The exit code is 0 if nothing becomes false; 1 if a line still certainly uses what the change removed, or
    if an answer, a fact or a cached answer was supported by the code before the change and is not any more.

    rag review

    rag review main...HEAD --markdown
    """
    from rag.review.report import as_markdown, as_text
    from rag.service import locate
    from rag.service.checks.review import ReviewRange
    from rag.service.checks.review import review as reviewed

    if wants_json() and markdown:
        raise ConfigError("use either --json or --markdown")
    parsed = ReviewRange.parse(range_)
    with opened_engine() as engine:
        found = reviewed(engine, locate(repo), parsed)
    if wants_json():
        out_json(to_json(found))
    elif markdown:
        out(as_markdown(found), end="")
    else:
        out(as_text(found))
    if found.makes_false:
        raise typer.Exit(MADE_FALSE)
