"""Files of other programs: the configuration of coding agents, and descriptions of models."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from rag.integrations.agents import AGENTS, AgentFolders, FileEdit, is_installed, plan, write
from rag.integrations.edits import CannotEdit
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import Refused, Target

_COMMAND = ("rag", "mcp", "--repo", ".")
_JSON: dict[str, Any] = {
    "theme": "dark",
    "mcpServers": {"rag": {"command": "rag", "args": ["mcp", "--repo", "."]}, "other": {"url": "http://a"}},
    "servers": {"rag": {"type": "stdio", "command": "rag", "args": ["mcp"]}},
    "mcp": {"rag": {"command": ["rag", "mcp"], "enabled": True}},
    "context_servers": {"rag": {"command": "rag"}},
}
_TOML = '[mcp_servers.rag]\ncommand = "rag"\nargs = ["mcp"]\n\n[mcp_servers.other]\nurl = "http://a"\n'
_SECTION = "# Rules\n\n<!-- rag: begin -->\nUse explore.\n<!-- rag: end -->\n"
_TOKENS = (
    *'{ } [ ] , : " // /* */ \\ null true "mcpServers" "rag" "command" "args" "mcp" \ufeff \r\n'.split(" "),
    "<!-- rag: begin -->",
    "<!-- rag: end -->",
    "[mcp_servers.rag]",
    "[[mcp_servers]]",
    "mcp_servers.rag.args = ",
    "'''",
    "a.",
)


class AgentsFile(Target):
    """The files of a coding agent: our entry goes in and out, or the file stays as it is."""

    name, share = "agents", 1.5

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.agents = {agent.name: agent for agent in AGENTS if agent.project is not None}
        self.places = AgentFolders(folder / "project", folder / "home", folder / "data", {})
        for place in (self.places.project, self.places.home):
            place.mkdir(exist_ok=True)

    def make(self, rng: Random) -> Case:
        label = rng.choice(sorted(self.agents))
        if rng.random() < 0.5:
            made = text.json_text(rng, text.mutated_json(rng, _JSON, 50_000))
        else:
            made = text.text(
                rng, 300_000, samples=[json.dumps(_JSON, indent=2), _TOML, _SECTION], tokens=_TOKENS
            )
        return case_of(self.name, label, made)

    def run(self, case: Case) -> None:
        agent = self.agents[case.label]
        assert agent.project is not None and agent.project_instructions is not None
        files = [self.places.file(agent.project), self.places.path(agent.project_instructions)]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(case.content)
        with suppress(CannotEdit):
            is_installed(agent, "project", self.places)
        added = self._changed(plan([agent], "project", self.places, _COMMAND, instructions=True))
        removed = self._changed(plan([agent], "project", self.places, None))
        for file, change in zip(files, added, strict=False):
            was_new = change.action == "add" and change.path == file
            now = file.read_bytes() if file.exists() else None
            if was_new and removed and now != change.before:
                raise Refused(f"{file.name} has other bytes after its entry was added and removed")
            file.unlink(missing_ok=True)

    def _changed(self, changes: list[FileEdit]) -> list[FileEdit]:
        for change in changes:
            if change.action in ("add", "update", "remove"):
                write(change, self.places)
        return changes
