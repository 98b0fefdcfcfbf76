"""`rag wiki`: write a wiki of a repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.terminal import counted, errors_as_exit_codes, opened_engine, out, out_json, say, settings_from
from rag.errors import ProviderError
from rag.quoting import visible
from rag.types import PARSER_GAVE_UP, Filters

if TYPE_CHECKING:
    from rag.wiki.report import PageResult, WikiReport

_MERMAID = "serve/page/static/vendor/mermaid.min.js"
_WRITING = "Writing"
_NAMED = 10


def wiki(
    source: Annotated[
        str | None, typer.Argument(help="A path or git URL; the current directory when left out.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write: new, empty, or a wiki from before.")
    ] = Path("wiki"),
    max_pages: Annotated[
        int, typer.Option("--max-pages", min=1, help="At most so many pages.", rich_help_panel=_WRITING)
    ] = 60,
    prose: Annotated[
        bool,
        typer.Option(
            "--prose/--no-prose", help="Let the model write text, if there is one.", rich_help_panel=_WRITING
        ),
    ] = True,
    plan: Annotated[
        bool, typer.Option("--plan", help="Let the model choose the pages.", rich_help_panel=_WRITING)
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            help="Pages asked for at once; 4, and 1 for a model on this machine.",
            rich_help_panel=_WRITING,
        ),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option("--budget-tokens", min=1, help="Begin no page beyond.", rich_help_panel=_WRITING),
    ] = None,
    budget_usd: Annotated[
        float | None,
        typer.Option("--budget-usd", min=0, help="Begin no page beyond.", rich_help_panel=_WRITING),
    ] = None,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies", help="Copy cited files even where a forge shows them.", rich_help_panel=_WRITING
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Have all text written anew.", rich_help_panel=_WRITING)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files edited by hand.", rich_help_panel=_WRITING)
    ] = False,
    mermaid: Annotated[
        Path | None,
        typer.Option(
            "--mermaid", help="Another mermaid.min.js to draw diagrams with.", rich_help_panel=_WRITING
        ),
    ] = None,
    draw: Annotated[
        bool,
        typer.Option(
            "--draw/--no-draw",
            help="Put mermaid (3.6 MB) beside the pages, so that MkDocs draws diagrams offline.",
            rich_help_panel=_WRITING,
        ),
    ] = True,
    ref: options.Ref = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    client: options.Client = None,
    context_tokens: options.ContextTokens = None,
    answer_tokens: options.AnswerTokens = None,
    embedder: options.Embedder = None,
    include: options.Include = None,
    exclude: options.Exclude = None,
    json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Write a wiki: Markdown pages, diagrams and reference tables, each statement with its lines.

    Without a model the pages quote the code and its documents; with one, its text stands before. A second
    run writes only the pages whose sources changed, and goes on where the first one stopped.

    rag wiki . -o wiki

    rag wiki . -o wiki --model gpt-5-mini --budget-tokens 500000
    """
    with errors_as_exit_codes():
        from rag.resources import packaged
        from rag.service import locate
        from rag.wiki import WikiOptions, write_wiki

        settings = settings_from(
            model=model,
            base_url=base_url,
            client=client,
            context_tokens=context_tokens,
            answer_tokens=answer_tokens,
            embedder=embedder,
        )
        chosen = WikiOptions(
            max_pages=max_pages,
            prose=prose,
            plan=plan,
            concurrency=concurrency,
            budget_tokens=budget_tokens,
            budget_usd=budget_usd,
            copies=copies,
            force=force,
            overwrite=overwrite,
            mermaid=mermaid or (packaged(_MERMAID) if draw else None),
        )
        wanted = locate(source, ref, Filters(tuple(include or ()), tuple(exclude or ())))
        with opened_engine(settings, yes=yes) as engine:
            report = write_wiki(engine, engine.repository(wanted), output, chosen, progress=_Telling())
        out_json(_as_json(report)) if json else _print(report)
        if report.failed:
            failed = report.given_up or ProviderError
            raise typer.Exit(failed.exit_code)


class _Telling:
    """Says which page has its text, and why one has none; what several pages lack it for is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, result: PageResult, done: int, total: int) -> None:
        if result.error and result.error not in self._said:
            self._said.add(result.error)
            lacks = "no new text" if result.has_prose else "no text"
            say(f"rag: {visible(result.page.title)} has {lacks}: {visible(result.error)}")
        elif not result.error and result.has_prose and result.action == "written":
            say(f"rag: {done:,} of {total:,} pages: {visible(result.page.title)}")


def _print(report: WikiReport) -> None:
    for note in report.notes:
        say(f"rag: {visible(note)}")
    if report.not_parsed:
        named = ", ".join(report.not_parsed[:_NAMED]) + (", …" if len(report.not_parsed) > _NAMED else "")
        files = counted(len(report.not_parsed), "file")
        say(
            f"rag: {PARSER_GAVE_UP} on {files}, whose imports and calls are not in the wiki: {visible(named)}"
        )
    if report.given_up is not None:
        say("rag: the model was asked for no more pages; run again to have their text")
    for result in report.pages:
        if result.doubts:
            say(f"rag: {visible(result.page.title)}: {visible(' '.join(result.doubts))}")
        for name, sentence in result.unknown:
            say(f"rag: {visible(result.page.title)}: {visible(name)} is in no file: {visible(sentence)}")
    parts = [f"{report.count('written'):,} written", f"{report.count('unchanged'):,} unchanged"]
    if kept := report.count("kept"):
        parts.append(f"{kept:,} edited by hand and left")
    if report.removed:
        parts.append(f"{len(report.removed):,} removed")
    if waiting := report.count("waiting"):
        parts.append(f"{waiting:,} left as they were")
    if lacking := sum(not result.has_prose for result in report.failed):
        parts.append(f"{lacking:,} without text")
    tokens = f", {report.tokens:,} tokens" if report.tokens else ""
    out(f"{counted(len(report.pages), 'page')} in {visible(str(report.folder))}: {', '.join(parts)}{tokens}")


def _as_json(report: WikiReport) -> dict[str, Any]:
    return {
        "folder": str(report.folder),
        "pages": [
            {
                "id": result.page.id,
                "title": result.page.title,
                "file": f"docs/{result.file}",
                "action": result.action,
                "prose": result.has_prose,
                "error": result.error,
                "invented": result.invented,
                "uncited": result.uncited,
                "cut": result.cut,
                "unknown": [{"name": name, "sentence": sentence} for name, sentence in result.unknown],
                "doubts": list(result.doubts),
                "tokens": result.usage.total_tokens if result.usage else 0,
            }
            for result in report.pages
        ],
        "removed": list(report.removed),
        "notes": list(report.notes),
        "not_parsed": list(report.not_parsed),
        "tokens": report.tokens,
    }
