"""`rag facts push`, `pull`: share facts in a git ref of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from rag.cli.selectors import named
from rag.cli.terminal import agrees, opened_engine, result, say
from rag.quoting import counted, visible

Repository = Annotated[
    str | None,
    typer.Option(
        "--repo",
        "-r",
        metavar="SOURCE",
        help="The repository. Default: that of the current directory.",
    ),
]
Remote = Annotated[
    str,
    typer.Option("--remote", metavar="NAME|URL", help="A remote of the repository, a URL, or a path."),
]


def push(
    repo: Repository = None,
    remote: Remote = "origin",
    conversation: Annotated[
        list[str] | None,
        typer.Option(
            "--conversation",
            metavar="NAME",
            help="Also share this conversation: its name or id. Repeatable.",
        ),
    ] = None,
) -> None:
    """Share the confirmed facts about a repository: merge them with those in its remote, and push the result.

    They are stored in a git ref (refs/rag/shared), in no branch; nothing is written into the work tree.

    rag facts push

    rag facts push --remote upstream --conversation login
    """
    _exchange(repo, remote, push=True, conversations=conversation or ())


def pull(repo: Repository = None, remote: Remote = "origin") -> None:
    """Take over the facts and conversations that others have pushed, also changes and deletions of facts.

    rag facts pull
    """
    _exchange(repo, remote, push=False)


def _exchange(repo: str | None, remote: str, *, push: bool, conversations: Sequence[str] = ()) -> None:
    from rag.service.checks.shared_facts import exchange_facts
    from rag.service.repositories.named_sources import locate

    with opened_engine() as engine:
        shared = [named(engine, one) for one in conversations]
        done = exchange_facts(
            engine, locate(repo), remote=remote, push=push, conversations=shared, unrelated=agrees()
        )
        here = _counts(done.received, done.conversations_received)
        text = f"here: {here}; {counted(done.deleted_here, 'fact')} deleted"
        if push:
            sent = _counts(done.sent, done.conversations_sent)
            text += f"\n{visible(done.remote)}: {sent}; {counted(done.deleted_there, 'fact')} deleted"
        result(asdict(done), text)
        if done.left_out:
            say(f"rag: left out {counted(done.left_out, 'invalid shared file')}")


def _counts(facts: int, conversations: int) -> str:
    return f"{counted(facts, 'new or changed fact')}, {counted(conversations, 'conversation')}"
