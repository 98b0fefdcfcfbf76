"""Coding agents: where each keeps its MCP servers, and our entry there.

A change is planned first (`plan`) and shown; `write` then replaces the file at once, after a copy of it went
to the data folder. Removing what was added gives back that copy if nothing else has changed since, so that
installing and uninstalling leaves no trace; else only our entry is removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from rag.errors import ConfigError, SettingsError
from rag.integrations import jsonc, section, toml_table
from rag.integrations.edits import CannotEdit, Edit
from rag.integrations.helpers import HelperFile, What, edit_of_file
from rag.parsing import parse_toml
from rag.processes import search_path
from rag.resources import make_private, read_regular, shipped

NAME = "rag"
HERE = "."
"""The repository that a file belongs to."""
Scope = Literal["project", "user"]
Action = Literal["add", "update", "remove", "none", "refused"]
Shape = Literal["plain", "typed", "opencode", "zed"]
_MAX_BYTES: Mapping[Scope, int] = {"project": 1 << 20, "user": 32 << 20}
"""A file of a repository may come from anybody; one of the user may hold the history of an agent."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where an agent keeps its MCP servers; `data/agents.toml` says what the fields mean."""

    paths: tuple[str, ...]
    container: str = "mcpServers"
    shape: Shape = "plain"
    here: str = "."

    @property
    def editor(self) -> ModuleType:
        """The module that edits files of this kind."""
        return toml_table if self.paths[0].endswith(".toml") else jsonc


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent: its files for one repository and for the user, and what shows that it is installed."""

    name: str
    title: str
    signs: tuple[str, ...]
    project: ConfigFile | None = None
    user: ConfigFile | None = None
    project_instructions: str | None = None
    user_instructions: str | None = None
    helpers: tuple[HelperFile, ...] = ()


def _agent(entry: Mapping[str, Any]) -> Agent:
    """Return an agent of the table in `data/agents.toml`."""

    def file(scope: Scope) -> ConfigFile | None:
        form = {name: entry[name] for name in ("container", "shape") if name in entry}
        form |= {"here": entry["here"]} if scope == "project" and "here" in entry else {}
        return ConfigFile(tuple(entry[scope]), **form) if scope in entry else None

    return Agent(
        name=entry["name"],
        title=entry["title"],
        signs=tuple(entry["signs"]),
        project=file("project"),
        user=file("user"),
        project_instructions=entry.get("project_instructions"),
        user_instructions=entry.get("user_instructions"),
        helpers=tuple(
            HelperFile(what, template, {"project": project, "user": user})
            for what, template, project, user in entry.get("helpers", ())
        ),
    )


AGENTS: tuple[Agent, ...] = tuple(
    map(_agent, parse_toml(shipped("data/agents.toml").read_text(encoding="utf-8"))["agent"])
)


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders in which files are found and written.

    Args:
        project: the repository.
        home: the user's home folder.
        data: our data folder, for copies of changed files.
        variables: the environment, for XDG_CONFIG_HOME.
    """

    project: Path
    home: Path
    data: Path
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def path(self, written: str) -> Path:
        """Return the path of the table as an absolute one."""
        first, _, rest = written.partition("/")
        config = Path(self.variables.get("XDG_CONFIG_HOME") or self.home / ".config")
        mac = self.home / "Library" / "Application Support"
        bases = {"~": self.home, "CONFIG": config, "APP": mac if sys.platform == "darwin" else config}
        return bases[first] / rest if first in bases else self.project / written

    def file(self, config: ConfigFile) -> Path:
        """Return the file of a configuration that exists, else the one to create."""
        paths = [self.path(written) for written in config.paths]
        return next((path for path in paths if os.path.lexists(path)), paths[0])

    def is_found(self, agent: Agent) -> bool:
        """Return whether an agent is installed, or has files in the repository."""
        own = [self.path(written) for written in agent.signs]
        if agent.project is not None:
            own.append(self.file(agent.project))
        return any(map(os.path.lexists, own))

    def backup(self, path: Path) -> Path:
        """Return where the copy of a changed file is kept."""
        number = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return self.data / "agents" / f"{number}-{path.name}"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What is to be done with one file. `removed` and `added` are its lines from `line` on."""

    agent: str
    path: Path
    what: Literal["entry", "instructions"] | What
    action: Action
    reason: str = ""
    scope: Scope = "project"
    line: int = 0
    removed: str = ""
    added: str = ""
    before: bytes | None = field(default=None, repr=False)
    """The content of the file; None if there is none."""
    after: bytes | None = field(default=None, repr=False)
    """The new content; None if the file is to be removed."""


def chosen(names: Sequence[str], places: AgentFolders) -> list[Agent]:
    """Return the named agents, or those that are found. Raises SettingsError for an unknown name."""
    known = {agent.name: agent for agent in AGENTS}
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no agent {name!r}; use {', '.join(known)}")
    return [known[name] for name in names] or [agent for agent in AGENTS if places.is_found(agent)]


def command_of(scope: Scope, repositories: Sequence[str]) -> list[str]:
    """Return the command that serves repositories to an agent.

    A file of the repository is shared with others: it names no path of this machine if `rag` can be found,
    which is not looked for in the current folder.
    """
    found = shutil.which("rag", path=search_path(os.environ.get("PATH", "")))
    own = Path(sys.executable).with_name("rag")
    program = "rag" if scope == "project" and found else str(found or own)
    repos = [word for repository in repositories for word in ("--repo", repository)]
    return [program, "mcp", *repos]


def is_installed(agent: Agent, scope: Scope, places: AgentFolders) -> bool:
    """Return whether an agent has our entry. Raises CannotEdit: its file cannot be read."""
    config = agent.project if scope == "project" else agent.user
    if config is None:
        return False
    before = _content(places.file(config), scope, places)
    return _is_ours(config.editor.entry_of(_text(before), config.container, NAME))


def plan(
    agents: Sequence[Agent],
    scope: Scope,
    places: AgentFolders,
    command: Sequence[str] | None,
    *,
    instructions: bool = False,
) -> list[FileEdit]:
    """Return what has to be changed so that agents have our entry, or have it no more (`command` is None).

    With the entry come sub-agents and skills. These and instructions are removed too, except what another
    agent with our entry reads.
    """
    changes, files = [], set()
    for agent in agents:
        config = agent.project if scope == "project" else agent.user
        if config is not None:
            changes.append(_planned(agent, config, scope, places, command))
        written = agent.project_instructions if scope == "project" else agent.user_instructions
        if written is None or written in files or not (instructions or command is None):
            continue
        if command is not None or not _is_read_by_others(written, agents, scope, places):
            files.add(written)
            changes.append(_instructions(agent, places.path(written), scope, places, wanted=bool(command)))
    helpers = []
    for agent in agents:
        for helper in agent.helpers:
            written = helper.paths[scope]
            if written in files:
                continue
            if command is not None or not _is_read_by_others(written, agents, scope, places):
                files.add(written)
                helpers.append(_helper_edit(agent, helper, scope, places, command))
    # What was added last is removed first, so that folders that were made for a file are empty.
    every = [*changes, *helpers]
    return every if command is not None else every[::-1]


def entry(config: ConfigFile, command: Sequence[str]) -> dict[str, Any]:
    """Return our entry in the form of an agent."""
    program, arguments = command[0], [config.here if word == HERE else word for word in command[1:]]
    plain = {"command": program, "args": arguments}
    if config.shape == "opencode":
        return {"type": "local", "command": [program, *arguments], "enabled": True}
    if config.shape == "zed":
        return {"source": "custom", **plain, "env": {}}
    return {"type": "stdio", **plain} if config.shape == "typed" else plain


def to_paste(config: ConfigFile, command: Sequence[str]) -> str:
    """Return a whole file with our entry, to copy from."""
    edit: Edit = config.editor.with_entry("", config.container, NAME, entry(config, command))
    return edit.text


def write(change: FileEdit, places: AgentFolders) -> None:
    """Replace or remove a file as planned, after copying it.

    Raises:
        ConfigError: it cannot be written, or has changed since the plan.
    """
    try:
        is_same = _content(change.path, change.scope, places) == change.before
    except CannotEdit:
        is_same = False
    path = Path(os.path.realpath(change.path))
    if not is_same:
        raise ConfigError(f"{path} was changed by another program in the meantime; run the command again")
    try:
        backup = places.backup(change.path)
        if change.action == "add":
            _keep(change.before, backup, sum(not folder.exists() for folder in path.parents))
        if change.after is None:
            path.unlink()
            _remove_folders(path, _absent(backup))
        else:
            _replace(path, change.after)
        if change.action == "remove":
            _forget(backup)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _planned(
    agent: Agent, config: ConfigFile, scope: Scope, places: AgentFolders, command: Sequence[str] | None
) -> FileEdit:
    path = places.file(config)

    def insert(text: str, value: Any) -> Edit:
        edit: Edit = config.editor.with_entry(text, config.container, NAME, value)
        return edit

    try:
        before = _content(path, scope, places)
        text = _text(before)
        found = config.editor.entry_of(text, config.container, NAME)
        if found is not None and not _is_ours(found):
            raise CannotEdit(f"another server is called {NAME!r} there")
        if command is not None:
            wanted = entry(config, command)
            if found == wanted:
                return FileEdit(agent.name, path, "entry", "none", "it is up to date")
            action: Action = "add" if found is None else "update"
            return _change(agent, path, "entry", action, before, insert(text, wanted), scope)
        if found is None:
            return FileEdit(agent.name, path, "entry", "none", "there is no entry")
        edit: Edit = config.editor.without_entry(text, config.container, NAME)
        change = _change(agent, path, "entry", "remove", before, edit, scope)
        return _restored(change, places, lambda original: insert(original, found))
    except CannotEdit as error:
        pasted = "" if command is None else to_paste(config, command)
        return FileEdit(agent.name, path, "entry", "refused", str(error), added=pasted)


def _instructions(agent: Agent, path: Path, scope: Scope, places: AgentFolders, *, wanted: bool) -> FileEdit:
    content = shipped("templates/agent_instructions.md").read_text(encoding="utf-8")
    try:
        before = _content(path, scope, places)
        text = _text(before)
        present = section.has_section(text)
        if not wanted:
            if not present:
                return FileEdit(agent.name, path, "instructions", "none", "there is no section")
            removal = section.without_section(text)
            change = _change(agent, path, "instructions", "remove", before, removal, scope)
            return _restored(change, places, lambda original: section.with_section(original, content))
        edit = section.with_section(text, content)
        if edit.applied(text) == text:
            return FileEdit(agent.name, path, "instructions", "none", "it is up to date")
        action: Action = "update" if present else "add"
        return _change(agent, path, "instructions", action, before, edit, scope)
    except CannotEdit as error:
        pasted = content if wanted else ""
        return FileEdit(agent.name, path, "instructions", "refused", str(error), added=pasted)


def _helper_edit(
    agent: Agent, helper: HelperFile, scope: Scope, places: AgentFolders, command: Sequence[str] | None
) -> FileEdit:
    """Return the change that writes a whole file of ours, or removes it."""
    path, content = places.path(helper.paths[scope]), None
    try:
        content = helper.content(command[0]) if command is not None else None
        before = _content(path, scope, places)
        if (before is None and content is None) or (content is not None and before == content.encode()):
            reason = "it is up to date" if content else "there is none"
            return FileEdit(agent.name, path, helper.what, "none", reason)
        edit = edit_of_file(_text(before), content)
        action: Action = "remove" if content is None else "add" if before is None else "update"
        change = _change(agent, path, helper.what, action, before, edit, scope)
        return replace(change, after=None) if content is None else change
    except CannotEdit as error:
        return FileEdit(agent.name, path, helper.what, "refused", str(error), added=content or "")


def _change(
    agent: Agent,
    path: Path,
    what: Literal["entry", "instructions"] | What,
    action: Action,
    before: bytes | None,
    edit: Edit,
    scope: Scope,
) -> FileEdit:
    text = _text(before)
    after = edit.applied(text).encode()
    if action != "remove" and len(after) > _MAX_BYTES[scope]:
        raise CannotEdit("it would be too large to be read again")
    return FileEdit(
        agent=agent.name,
        path=path,
        what=what,
        action=action,
        scope=scope,
        line=text.count("\n", 0, edit.start) + 1,
        removed=text[edit.start : edit.end],
        added=edit.text,
        before=before,
        after=after,
    )


def _restored(change: FileEdit, places: AgentFolders, insert: Any) -> FileEdit:
    """Return the removal that gives back the copy, if what was inserted is all that has changed since."""
    backup = places.backup(change.path)
    missing = _absent(backup)
    try:
        original = None if missing.exists() else backup.read_bytes()
        text = _text(original)
        if insert(text).applied(text).encode() != change.before:
            return change
    except (OSError, CannotEdit):
        return change
    return FileEdit(
        agent=change.agent,
        path=change.path,
        what=change.what,
        action=change.action,
        scope=change.scope,
        line=change.line,
        removed=change.removed,
        before=change.before,
        after=original,
    )


def _is_read_by_others(written: str, leaving: Sequence[Agent], scope: Scope, places: AgentFolders) -> bool:
    for agent in AGENTS:
        file = agent.project_instructions if scope == "project" else agent.user_instructions
        files = {file, *(helper.paths[scope] for helper in agent.helpers)}
        if written in files and agent not in leaving:
            with suppress(CannotEdit):  # a file that cannot be read has no entry that we wrote
                if is_installed(agent, scope, places):
                    return True
    return False


def _is_ours(found: Any) -> bool:
    """Return whether an entry starts `rag mcp`."""
    if not isinstance(found, dict):
        return False
    program, arguments = found.get("command"), found.get("args")
    words = program if isinstance(program, list) else [program]
    words = [*words, *(arguments if isinstance(arguments, list) else [])]
    names = [Path(word).name for word in words[:1] if isinstance(word, str)]
    return names in (["rag"], ["rag-turns"]) and "mcp" in words[1:2]


def _content(path: Path, scope: Scope, places: AgentFolders) -> bytes | None:
    """Return the content of a file; None if there is none.

    Raises:
        CannotEdit: it cannot be read, is too large, or a link leads out of the folder to which it belongs.
    """
    base = places.project if scope == "project" else places.home
    target = Path(os.path.realpath(path))
    outside = not target.is_relative_to(os.path.realpath(base))
    if outside and (path.is_relative_to(base) or target != path.absolute()):
        raise CannotEdit(f"it is a link to {target}, which is not in {base}")
    try:
        return read_regular(target, max_bytes=_MAX_BYTES[scope])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotEdit(f"it cannot be read: {error.strerror}") from error


def _text(content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        raise CannotEdit("it is not UTF-8") from error


def _absent(backup: Path) -> Path:
    """Return the mark that there was no file before, and as text how many of its folders there were not."""
    return backup.with_name(f"{backup.name}.absent")


def _keep(content: bytes | None, backup: Path, missing_folders: int) -> None:
    make_private(backup.parent)
    _forget(backup)
    target = _absent(backup) if content is None else backup
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(str(missing_folders).encode() if content is None else content)


def _remove_folders(path: Path, absent: Path) -> None:
    """Remove the folders of a removed file that were made for it, up to one that has other files."""
    try:
        missing = int(read_regular(absent, max_bytes=8))
    except (OSError, ValueError):
        return
    for folder in [*path.parents][:missing]:
        with suppress(OSError):
            folder.rmdir()


def _forget(backup: Path) -> None:
    backup.unlink(missing_ok=True)
    _absent(backup).unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    """Write a file at once; it keeps its permissions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(mode)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def as_json(change: FileEdit, *, written: bool) -> dict[str, Any]:
    """Return a change as JSON values."""
    shown = {name: getattr(change, name) for name in ("agent", "what", "action", "reason", "line")}
    return {**shown, "path": str(change.path), "removed": change.removed, "added": change.added} | {
        "written": written
    }
