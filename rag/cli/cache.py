"""`rag cache`: the answer cache."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from rag.cli import options
from rag.cli.terminal import (
    confirm,
    errors_as_exit_codes,
    opened_engine,
    out,
    out_json,
    say,
    table,
)
from rag.quoting import counted

if TYPE_CHECKING:
    from rag.answer_cache.cache import CachedAnswer

app = typer.Typer(help="Show, list and clear cached answers.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """Show, list and clear cached answers."""
    if context.invoked_subcommand is None:
        stats()


@app.command()
def stats(json: options.Json = False) -> None:
    """Show the number of cached answers, and of hits and misses.

    rag cache stats
    """
    from rag.service.cached_answers import answers_of

    with errors_as_exit_codes(), opened_engine() as engine:
        found = answers_of(engine).stats()
        if json:
            out_json({**asdict(found), "lookups": found.lookups, "hit_rate": round(found.hit_rate, 4)})
            return
        out(f"{counted(found.entries, 'cached answer')}; {counted(found.lookups, 'look-up')} so far")
        if found.lookups:
            hits = f"{counted(found.hits, 'hit')} ({found.hit_rate:.0%})"
            out(f"{hits}, {found.misses:,} missed, {found.stale:,} stale")


@app.command("list")
def list_answers(json: options.Json = False) -> None:
    """List the cached answers, the newest first.

    rag cache list
    """
    from rag.service.cached_answers import answers_of

    with errors_as_exit_codes(), opened_engine() as engine:
        entries = [_entry_json(entry) for entry in answers_of(engine).entries()]
        if json:
            out_json(entries)
        elif not entries:
            say("rag: no cached answers; by default only answers of a model are cached (`--cache`)")
        else:
            rows = [
                (e["created"][:16].replace("T", " "), ", ".join(e["repositories"]), e["model"], e["question"])
                for e in entries
            ]
            table("", ("answered (UTC)", "about", "model", "question"), rows)


@app.command()
def clear(yes: options.Yes = False, json: options.Json = False) -> None:
    """Clear all cached answers. Turns do not change.

    rag cache clear
    """
    from rag.service.cached_answers import answers_of

    with errors_as_exit_codes(), opened_engine() as engine:
        answers = answers_of(engine)
        confirm(f"clear {counted(answers.stats().entries, 'cached answer')}?", yes=yes)
        gone = answers.clear()
        if json:
            out_json({"cleared": gone})
        else:
            out(f"cleared {counted(gone, 'cached answer')}")


def _entry_json(entry: CachedAnswer) -> dict[str, Any]:
    """Return an entry as JSON values."""
    about = entry.scope.get("repositories", ())
    return {
        "question": entry.question,
        "answer": entry.answer,
        "created": entry.created.isoformat(timespec="seconds"),
        "model": entry.model,
        "turn": entry.turn,
        "repositories": [f"{one[0]}@{one[1]}" if one[1] else one[0] for one in about],
        "citations": [citation.place for citation in entry.citations if citation.used],
    }
