"""`rag admin`: the commands that are not needed every day."""

from __future__ import annotations

from typing import Any

import typer
import typer.main
from typer.core import TyperGroup


class _Others(TyperGroup):
    """The other commands of `rag`, each imported when it is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        from rag.cli import UNDER_ADMIN

        return list(UNDER_ADMIN)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is none."""
        from rag.cli import commands

        if cmd_name not in self.list_commands(ctx):
            return None
        root: Any = typer.main.get_command(commands([cmd_name]))
        found = root.get_command(ctx, cmd_name)
        found.hidden = False
        return found


app = typer.Typer(cls=_Others, no_args_is_help=True)


@app.callback()
def admin() -> None:
    """Everything else: agents, diagnosis, the data folder, keys, jobs, evaluation."""
