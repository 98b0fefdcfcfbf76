"""`rag agents`: our entry in the configuration of coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.terminal import listing, out, out_json, say, wants_json
from rag.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from rag.integrations.agents import Agent, AgentFolders, FileEdit, Scope

app = typer.Typer(no_args_is_help=True, help="Give coding agents the tools of `rag mcp`.")

Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[AGENT]...",
        help="claude-code, cursor, vscode, codex, gemini, opencode, zed, windsurf or claude-desktop. "
        "Default: those that are found.",
    ),
]
User = Annotated[
    bool, typer.Option("--user", help="The files in the home folder, instead of those of the repository.")
]
Write = Annotated[
    bool,
    typer.Option("--write/--dry-run", help="Write the files. Default: only show what would change."),
]

_VERBS = {"add": ("adds", "added"), "update": ("updates", "updated"), "remove": ("removes", "removed")}
"""What a change does in a file, and what it has done."""
_REFUSED = 2


@app.command("list")
def list_agents() -> None:
    """Show the coding agents, whether they are found, and whether they have our entry.

    rag agents list
    """
    from rag.integrations.agents import AGENTS

    places = _places()
    rows = [row for agent in AGENTS for row in _rows(agent, places)]
    cells = [(r["agent"], "yes" if r["found"] else "no", r["scope"], r["state"], r["path"]) for r in rows]
    listing(rows, ("agent", "found", "scope", "entry", "file"), cells)


@app.command()
def install(
    agents: Named = None,
    *,
    user: User = False,
    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="SOURCE",
            help="A repository to serve. Repeatable. Default: the current one.",
        ),
    ] = None,
    instructions: Annotated[
        bool,
        typer.Option("--instructions", help="Also write when to use which tool, where the agent reads it."),
    ] = False,
    write: Write = False,
) -> None:
    """Add `rag mcp` to coding agents, with a sub-agent and a skill for `rag explore`. Nothing else changes.

    rag agents install

    rag agents install claude-code cursor --instructions --write
    """
    from rag.integrations.agents import command_of

    places, scope = _places(), _scope(user)
    here = str(places.project) if user else "."
    _run(agents, scope, places, command_of(scope, repo or [here]), instructions, write=write)


@app.command()
def uninstall(agents: Named = None, *, user: User = False, write: Write = False) -> None:
    """Remove what `rag agents install` has added.

    rag agents uninstall --write
    """
    _run(agents, _scope(user), _places(), None, False, write=write)


def _run(
    names: Sequence[str] | None,
    scope: Scope,
    places: AgentFolders,
    command: Sequence[str] | None,
    instructions: bool,
    *,
    write: bool,
) -> None:
    from rag.integrations import agents

    found = agents.chosen(names or (), places)
    if not found:
        raise NotFound("no coding agent was found; name one, such as `rag agents install claude-code`")
    for agent in found:
        if (agent.project if scope == "project" else agent.user) is None:
            other = "with --user" if scope == "project" else "without --user"
            say(f"rag: {agent.title} has no such file; try {other}")
    changes = agents.plan(found, scope, places, command, instructions=instructions)
    doing = [change for change in changes if change.action in _VERBS]
    for change in doing if write else ():
        agents.write(change, places)
    if wants_json():
        out_json([agents.as_json(change, written=write and change in doing) for change in changes])
    else:
        is_removal = command is None
        for change in changes:
            if not (is_removal and change.what != "entry" and change.action == "none"):
                _show(change, written=write)
    if doing and not write:
        say("rag: nothing was written; add --write to write it")
    if any(change.action == "refused" for change in changes):
        raise typer.Exit(_REFUSED)


def _show(change: FileEdit, *, written: bool) -> None:
    """Print a change: only our own lines, because others may hold keys."""
    if change.action == "none":
        out(f"{change.agent}: {change.path}: {change.reason}")
        return
    if change.action == "refused":
        out(f"{change.agent}: {change.path} is left as it is: {change.reason}")
        if change.added:
            out(f"To add it by hand:\n{change.added}")
        return
    out(f"{change.agent}: {_VERBS[change.action][written]} in {change.path}, line {change.line}")
    for mark, text in (("-", change.removed), ("+", change.added)):
        for line in text.strip("\r\n").splitlines():
            out(f"{mark} {line}")


def _rows(agent: Agent, places: AgentFolders) -> list[dict[str, Any]]:
    from rag.integrations.agents import is_installed
    from rag.integrations.edits import CannotEdit

    rows = []
    scopes: tuple[Scope, ...] = ("project", "user")
    for scope in scopes:
        config = agent.project if scope == "project" else agent.user
        if config is None:
            continue
        try:
            state = "installed" if is_installed(agent, scope, places) else "none"
        except CannotEdit as error:
            state = f"unreadable: {error}"
        rows.append(
            {
                "agent": agent.name,
                "found": places.is_found(agent),
                "scope": scope,
                "state": state,
                "path": str(places.file(config)),
            }
        )
    return rows


def _scope(user: bool) -> Scope:
    return "user" if user else "project"


def _places() -> AgentFolders:
    """Return the repository that holds the current folder, or the folder, and the user's folders."""
    from rag.integrations.agents import AgentFolders
    from rag.settings import default_home

    here = Path.cwd()
    project = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    try:
        home = Path.home()
    except RuntimeError as error:
        raise ConfigError("the home folder is not known; set HOME") from error
    return AgentFolders(project, home, default_home())
