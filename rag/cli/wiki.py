"""`rag wiki`: write a wiki about a repository."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.terminal import opened_engine, out, out_json, say, wants_json
from rag.errors import ConfigError, ProviderError
from rag.quoting import counted, visible
from rag.types import PARSER_GAVE_UP

if TYPE_CHECKING:
    from rag.wiki import WikiCheck, WikiOptions
    from rag.wiki.site.report import PageResult, WikiReport

_MERMAID = "serve/page/static/vendor/mermaid.min.js"
_WRITING = "Writing"
_NAMED = 10
OUTDATED = 1


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Which pages are written, and how."""

    max_pages: Annotated[
        int, typer.Option("--max-pages", min=1, help="The maximum number of pages.", rich_help_panel=_WRITING)
    ] = 60
    prose: Annotated[
        bool,
        typer.Option(
            "--prose/--no-prose",
            help="Let the model write text, if one is configured.",
            rich_help_panel=_WRITING,
        ),
    ] = True
    budget_tokens: Annotated[
        int | None,
        typer.Option(
            "--budget-tokens", min=1, help="Start no page after this many tokens.", rich_help_panel=_WRITING
        ),
    ] = None
    copies: Annotated[
        bool,
        typer.Option(
            "--copies",
            help="Copy cited files into the wiki even if a code host shows them.",
            rich_help_panel=_WRITING,
        ),
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Write all text again.", rich_help_panel=_WRITING)
    ] = False
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Overwrite files that were edited by hand.", rich_help_panel=_WRITING
        ),
    ] = False
    draw: Annotated[
        bool,
        typer.Option(
            "--draw/--no-draw",
            help="Add mermaid (2.9 MB) to the site, so that diagrams work offline.",
            rich_help_panel=_WRITING,
        ),
    ] = True

    def chosen(self) -> WikiOptions:
        """Return the options for the writer."""
        from rag.resources import packaged
        from rag.wiki import WikiOptions

        values = {**vars(self), "mermaid": packaged(_MERMAID) if self.draw else None}
        del values["draw"]
        return WikiOptions(**values)


@options.grouped
def wiki(
    source: Annotated[str | None, options.RepositoryArgument] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The output folder: new, empty, or an earlier wiki.")
    ] = Path("wiki"),
    *,
    page: PageOptions,
    index: options.IndexOptions,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; list outdated pages, and exit with 1 if there are any."),
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --check: print Markdown for a pull request.")
    ] = False,
) -> None:
    """Write a wiki: Markdown pages, diagrams and reference tables, with the lines behind each statement.

    Without a model, pages quote the code and its documentation; with a model, they begin with its text. A
    second run writes only pages whose sources changed, and continues an interrupted run.

    rag wiki . -o wiki

    rag wiki . -o wiki --model gpt-5-mini --budget-tokens 500000

    rag wiki . -o wiki --check
    """
    from rag.service import locate
    from rag.wiki import check_wiki, write_wiki

    if markdown and (wants_json() or not check):
        raise ConfigError("--markdown is for --check, without --json")
    wanted = locate(source, index.ref, index.filters)
    with opened_engine() as engine:
        if check:
            found = check_wiki(engine, engine.repository(wanted), output)
            _print_check(found, markdown=markdown)
            raise typer.Exit(OUTDATED if found.outdated else 0)
        report = write_wiki(
            engine, engine.repository(wanted), output, page.chosen(), progress=_PageProgress()
        )
    out_json(_as_json(report)) if wants_json() else _print(report)
    if report.failed:
        failed = report.given_up or ProviderError
        raise typer.Exit(failed.exit_code)


class _PageProgress:
    """Print a line for each page that has new text, and for each error; a repeated error only once."""

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
        say("rag: the model writes no more pages in this run; run again to continue")
    for result in report.pages:
        if result.doubts:
            say(f"rag: {visible(result.page.title)}: {visible(' '.join(result.doubts))}")
        for name, sentence in result.unknown:
            say(f"rag: {visible(result.page.title)}: {visible(name)} is in no file: {visible(sentence)}")
    parts = [f"{report.count('written'):,} written", f"{report.count('unchanged'):,} unchanged"]
    if kept := report.count("kept"):
        parts.append(f"{kept:,} edited by hand and kept")
    if report.removed:
        parts.append(f"{len(report.removed):,} removed")
    if waiting := report.count("waiting"):
        parts.append(f"{waiting:,} not updated")
    if lacking := sum(not result.has_prose for result in report.failed):
        parts.append(f"{lacking:,} without text")
    tokens = f", {report.tokens:,} tokens" if report.tokens else ""
    folder = visible(str(report.folder.resolve()))
    out(f"{counted(len(report.pages), 'page')} in {folder}: {', '.join(parts)}{tokens}")
    if report.count("written"):
        say(f"rag: to read it in a browser: mkdocs serve --config-file {shlex.quote(f'{folder}/mkdocs.yml')}")


def _print_check(check: WikiCheck, *, markdown: bool) -> None:
    from rag.wiki.site.check import as_markdown, as_text

    for note in check.notes:
        say(f"rag: {visible(note)}")
    if wants_json():
        pages = [
            {
                "id": page.id,
                "title": page.title,
                "file": page.file,
                "status": page.status,
                "edited": page.edited,
            }
            for page in check.pages
        ]
        out_json({"folder": str(check.folder), "outdated": bool(check.outdated), "pages": pages})
    elif markdown:
        out(as_markdown(check), end="")
    else:
        out(as_text(check))


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
