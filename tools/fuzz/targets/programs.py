"""Files of other programs: the configuration of coding agents, and descriptions of models."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from rag.backends.llama.gguf import read_model_file
from rag.errors import RagError, SettingsError
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


class ModelDescription(Target):
    """The beginning of a GGUF file: described, or refused."""

    name, share = "gguf", 1.5

    def make(self, rng: Random) -> Case:
        """A header with entries of all types; some lengths and types are wrong."""
        entries = [self._entry(rng) for _ in range(rng.choice((1, 3, 10, 100)))]
        count = rng.choice((len(entries), len(entries), 2**63, 10_000, 0))
        header = b"GGUF" + struct.pack("<IQQ", rng.choice((2, 3, 3, 3, 9)), rng.choice((1, 1, 2**62)), count)
        made = header + b"".join(entries) + rng.randbytes(rng.choice((0, 8, 1_000)))
        if rng.random() < 0.3:
            at = rng.randrange(len(made))
            made = made[:at] + rng.randbytes(rng.choice((1, 4, 8))) + made[at + rng.choice((0, 1, 8)) :]
        return Case(self.name, "", made)

    def _entry(self, rng: Random) -> bytes:
        key = rng.choice(
            (b"general.architecture", b"llama.block_count", b"a." + rng.randbytes(5), b"x" * 70_000)
        )
        return struct.pack("<Q", len(key)) + key + self._value(rng)

    def _value(self, rng: Random, depth: int = 0) -> bytes:
        kind = rng.choice((4, 5, 6, 7, 8, 8, 9, 9, 10, 12, rng.randrange(20)))
        return struct.pack("<I", kind) + self._content(rng, kind, depth)

    def _content(self, rng: Random, kind: int, depth: int) -> bytes:
        if kind == 8:
            words = rng.choice((b"llama", b"", b"\xff", b"y" * 300, rng.randbytes(20)))
            return struct.pack("<Q", rng.choice((len(words), len(words), len(words), 2**40))) + words
        if kind == 9:
            inner, count = rng.choice((4, 8, 9, 99)), rng.choice((0, 1, 3, 20_000))
            content = self._content(rng, inner, depth + 1) if depth < 8 else b""
            written = min(count, 3) if inner == 9 else count
            return struct.pack("<IQ", inner, rng.choice((count, count, 2**50))) + content * written
        return rng.randbytes({4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 12: 8}.get(kind, 4))

    def run(self, case: Case) -> None:
        file = self.folder / "model.gguf"
        file.write_bytes(case.content)
        try:
            read_model_file(file).needed_bytes(8_192)
        except SettingsError:
            pass
        except RagError as error:
            raise Refused(f"{type(error).__name__} is no error of a setting") from error
