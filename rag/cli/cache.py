"""`rag cache`: the answer cache."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rag.cli import options
from rag.cli.terminal import confirm, listing, opened_engine, result
from rag.quoting import counted

if TYPE_CHECKING:
    from rag.answer_cache.cache import CachedAnswer

app = options.group("Show, list and clear cached answers.", default="stats")


@app.command()
def stats() -> None:
    """Show the number of cached answers, and of hits and misses.

    rag cache stats
    """
    from rag.service.loop.cached_answers import answers_of

    with opened_engine() as engine:
        found = answers_of(engine).stats()
        text = f"{counted(found.entries, 'cached answer')}; {counted(found.lookups, 'look-up')} so far"
        if found.lookups:
            hits = f"{counted(found.hits, 'hit')} ({found.hit_rate:.0%})"
            text += f"\n{hits}, {found.misses:,} missed, {found.stale:,} stale"
        values = {**asdict(found), "lookups": found.lookups, "hit_rate": round(found.hit_rate, 4)}
        result(values, text)


@app.command("list")
def list_answers() -> None:
    """List the cached answers, the newest first.

    rag cache list
    """
    from rag.service.loop.cached_answers import answers_of

    with opened_engine() as engine:
        entries = [_entry_json(entry) for entry in answers_of(engine).entries()]
        rows = [
            (e["created"][:16].replace("T", " "), ", ".join(e["repositories"]), e["model"], e["question"])
            for e in entries
        ]
        empty = "no cached answers; by default only answers of a model are cached (`--cache`)"
        listing(entries, ("answered (UTC)", "about", "model", "question"), rows, empty)


@app.command()
def clear() -> None:
    """Clear all cached answers. Turns do not change.

    rag cache clear
    """
    from rag.service.loop.cached_answers import answers_of

    with opened_engine() as engine:
        answers = answers_of(engine)
        confirm(f"clear {counted(answers.stats().entries, 'cached answer')}?")
        gone = answers.clear()
        result({"cleared": gone}, f"cleared {counted(gone, 'cached answer')}")


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
