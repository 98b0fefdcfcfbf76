"""Our entry in the configuration of coding agents: what is written, what stays, what is refused."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from command import rag
from hypothesis import example, given
from hypothesis import strategies as st

from rag.errors import ConfigError
from rag.integrations import jsonc, section, toml_table
from rag.integrations.agents import (
    AGENTS,
    NAME,
    Agent,
    AgentFolders,
    FileEdit,
    Scope,
    is_installed,
    plan,
    write,
)
from rag.integrations.edits import CannotEdit
from rag.integrations.helpers import MARK

COMMAND = ["rag", "mcp", "--repo", "."]
OURS = {"command": "rag", "args": ["mcp", "--repo", "."]}


@pytest.fixture
def places(tmp_path: Path, isolated_home: Path) -> AgentFolders:
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    return AgentFolders(project, isolated_home, tmp_path / "rag-home", {})


def named(name: str) -> Agent:
    return next(agent for agent in AGENTS if agent.name == name)


HELPERS = ("sub-agent", "skill")


def done(agent: Agent, places: AgentFolders, command: list[str] | None, **options: Any) -> list[str]:
    """Plan and write; return the actions in the files of others."""
    changes = plan([agent], "project", places, command, **options)
    for change in changes:
        if change.action in ("add", "update", "remove"):
            write(change, places)
    return [change.action for change in changes if change.what not in HELPERS]


def entry_edit(
    agent: Agent, scope: Scope, places: AgentFolders, command: list[str] | None = COMMAND
) -> FileEdit:
    (change,) = [one for one in plan([agent], scope, places, command) if one.what == "entry"]
    return change


# ---------------------------------------------------------------- the texts

JSON_FILES = [
    "",
    "{}",
    "{ }\n",
    "{\n}\n",
    "\ufeff{}",
    '{"mcpServers": {}}',
    '{"mcpServers": {\n}}\n',
    '{"mcpServers": {"other": {"command": "x"}}, "more": [1, 2.5, null, true]}',
    '{\n  "theme": "dark", // mine\n}\n',
    '{\r\n\t"a": 1,\r\n\t"mcpServers": {\r\n\t\t"other": {"url": "https://x/y//z"},\r\n\t},\r\n}\r\n',
    '// settings\n{\n    /* { "mcpServers": */ "mcpServers": {\n        // first\n        "b": {}\n    }\n}',
    '{"a": "\\"}{", "mcpServers": { "b" : { } , } , }',
    '{"a": {"mcpServers": 1}, "ключ": "значение"}\n\n',
]
TOML_FILES = [
    "",
    "\n\n",
    'model = "o3"',
    'model = "o3"\n',
    "# mine\r\n[features]\r\na = true # yes\r\n",
    '[mcp_servers.other]\ncommand = "x"\n\n[mcp_servers.other.env]\nA = "1"\n',
    'notes = """\n[mcp_servers.rag]\n"""\n[last]\n',
    "\ufeffa = 1\n",
    "\ufeff",
    "[mcp_servers]\n",
    "[mcp_servers]\n# none yet",
]


@pytest.mark.parametrize("text", JSON_FILES)
def test_an_entry_is_added_to_json_and_nothing_else_changes(text: str) -> None:
    edit = jsonc.with_entry(text, "mcpServers", NAME, OURS)
    changed = edit.applied(text)
    assert edit.start == edit.end
    assert changed.replace(edit.text, "", 1) == text
    assert jsonc.entry_of(changed, "mcpServers", NAME) == OURS
    without = jsonc.without_entry(changed, "mcpServers", NAME).applied(changed)
    assert jsonc.entry_of(without, "mcpServers", NAME) is None
    for comment in ("// mine", "// first", "// settings", '/* { "mcpServers": */'):
        assert without.count(comment) == text.count(comment)


@pytest.mark.parametrize("text", [text for text in JSON_FILES if '": {"' in text or '"b"' in text])
def test_an_entry_among_others_is_removed_without_a_trace_even_without_the_copy(text: str) -> None:
    changed = jsonc.with_entry(text, "mcpServers", NAME, OURS).applied(text)
    assert jsonc.without_entry(changed, "mcpServers", NAME).applied(changed) == text


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"indent": "\t"}])
def test_an_entry_is_removed_wherever_the_agent_has_moved_it(at: int, layout: dict[str, Any]) -> None:
    others: list[tuple[str, Any]] = [("a", {"x": [1]}), ("b", {})]
    servers = dict([*others[:at], (NAME, OURS), *others[at:]])
    text = json.dumps({"mcpServers": servers, "z": 1}, **layout)
    removed = jsonc.without_entry(text, "mcpServers", NAME).applied(text)
    assert json.loads(removed) == {"mcpServers": dict(others), "z": 1}
    moved = jsonc.with_entry(text, "mcpServers", NAME, {"command": "other"}).applied(text)
    assert json.loads(moved)["mcpServers"] == {**servers, NAME: {"command": "other"}}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "1",
        "{",
        '{"a": }',
        '{"a": 1} 2',
        '{"mcpServers": []}',
        '{"mcpServers": {}, "mcpServers": {}}',
        "{" * 5 + '"a": ' * 5,
        '{"a": ' * 500 + "1" + "}" * 500,
        "{'a': 1}",
        "/* {}",
    ],
)
def test_a_text_that_is_not_understood_is_not_edited(text: str) -> None:
    with pytest.raises(CannotEdit):
        jsonc.with_entry(text, "mcpServers", NAME, OURS)


SPACE = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", "// c\n", "/* , } */"])
LEAF = st.none() | st.booleans() | st.integers(-9, 9) | st.text('a\\"{}/*, é', max_size=4)
VALUES = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2)
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """JSON with comments and trailing commas, sometimes with servers."""

    def shown(value: Any) -> str:
        if isinstance(value, (dict, list)):
            is_object = isinstance(value, dict)
            items = [
                f"{draw(SPACE)}{json.dumps(item)}{draw(SPACE)}:{draw(SPACE)}{shown(value[item])}{draw(SPACE)}"
                if is_object
                else draw(SPACE) + shown(item) + draw(SPACE)
                for item in value
            ]
            comma = "," if items and draw(st.booleans()) else ""
            inner = ",".join(items) + comma + draw(SPACE)
            return f"{{{inner}}}" if is_object else f"[{inner}]"
        return json.dumps(value)

    value = draw(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=3))
    if draw(st.booleans()):
        value["mcpServers"] = draw(st.dictionaries(st.text("abc"), st.dictionaries(st.text("a"), LEAF)))
    return draw(st.sampled_from(["", "\ufeff"])) + draw(SPACE) + shown(value) + draw(SPACE)


@example('{"mcpServers":{}// c\n,}')
@given(json_texts())
def test_any_json_keeps_every_character_of_its_own(text: str) -> None:
    edit = jsonc.with_entry(text, "mcpServers", NAME, OURS)
    changed = edit.applied(text)
    assert text[: edit.start] + text[edit.end :] == text
    assert jsonc.entry_of(changed, "mcpServers", NAME) == OURS
    removed = jsonc.without_entry(changed, "mcpServers", NAME).applied(changed)
    assert jsonc.entry_of(removed, "mcpServers", NAME) is None
    assert removed.count("// c") == text.count("// c")


@pytest.mark.parametrize("text", TOML_FILES)
def test_a_table_is_added_to_toml_and_nothing_else_changes(text: str) -> None:
    changed = toml_table.with_entry(text, "mcp_servers", NAME, OURS).applied(text)
    assert changed.startswith(text)
    read = tomllib.loads(changed.lstrip("\ufeff"))
    before = tomllib.loads(text.lstrip("\ufeff"))
    assert read["mcp_servers"].pop(NAME) == OURS
    assert read == {"mcp_servers": {}, **before}
    other = toml_table.with_entry(changed, "mcp_servers", NAME, {"command": "x"}).applied(changed)
    assert toml_table.entry_of(other, "mcp_servers", NAME) == {"command": "x"}
    removed = toml_table.without_entry(changed, "mcp_servers", NAME).applied(changed)
    assert removed.strip("\ufeff\r\n") == text.strip("\ufeff\r\n")


@pytest.mark.parametrize(
    "text",
    ["a = ", "mcp_servers = {}\n", "mcp_servers = 1\n", "mcp_servers.b = {}\n[", "a." * 200_000 + "b = 1"],
)
def test_toml_that_cannot_be_extended_is_not_edited(text: str) -> None:
    with pytest.raises(CannotEdit):
        toml_table.with_entry(text, "mcp_servers", NAME, OURS)


def test_a_table_is_removed_with_its_parts_from_among_others() -> None:
    text = '[a]\nb = 1\n\n[mcp_servers.rag]\ncommand = "x"\n[mcp_servers.rag.env]\nA = "1"\n\n[c]\nd = 2\n'
    removed = toml_table.without_entry(text, "mcp_servers", NAME).applied(text)
    assert removed == "[a]\nb = 1\n\n[c]\nd = 2\n"


@pytest.mark.parametrize("text", ["", "# Rules\n", "# Rules\r\n\r\nNo tabs.\r\n", "no end of line"])
def test_a_section_is_added_and_removed(text: str) -> None:
    changed = section.with_section(text, "Use it.\n").applied(text)
    assert changed.startswith(text)
    assert section.with_section(changed, "Use it.\n").applied(changed) == changed
    assert section.without_section(changed).applied(changed).rstrip() == text.rstrip()
    with pytest.raises(CannotEdit):
        section.without_section(changed + changed)


# ---------------------------------------------------------------- the files


def read(path: Path, editor: ModuleType, container: str) -> Any:
    return editor.entry_of(path.read_text(encoding="utf-8"), container, NAME)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@pytest.mark.parametrize("scope", ["project", "user"])
def test_every_agent_gets_an_entry_and_loses_it_without_a_trace(
    agent: Agent, scope: Any, places: AgentFolders
) -> None:
    config = agent.project if scope == "project" else agent.user
    if config is None:
        assert plan([agent], scope, places, COMMAND) == []
        return
    path = places.file(config)
    assert not is_installed(agent, scope, places)
    change = entry_edit(agent, scope, places)
    assert not path.exists()
    write(change, places)
    assert is_installed(agent, scope, places)
    found = read(path, config.editor, config.container)
    words = [found["command"], *found.get("args", [])] if "args" in found else found["command"]
    assert words == ["rag", "mcp", "--repo", config.here]
    assert entry_edit(agent, scope, places).action == "none"
    write(entry_edit(agent, scope, places, None), places)
    assert not path.exists()


@pytest.mark.parametrize("text", JSON_FILES)
@pytest.mark.parametrize("newer", [False, True])
def test_install_and_uninstall_give_back_the_same_bytes(text: str, newer: bool, places: AgentFolders) -> None:
    path = places.project / ".mcp.json"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    agent = named("claude-code")
    assert done(agent, places, COMMAND) == ["add"]
    if newer:
        assert done(agent, places, [*COMMAND, "--repo", "../other"]) == ["update"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert done(agent, places, None)[-1] == "remove"
    assert path.read_bytes() == text.encode()
    assert list((places.data / "agents").iterdir()) == []
    assert sorted(each.name for each in places.project.iterdir()) == [".git", ".mcp.json"]


@pytest.mark.parametrize("text", TOML_FILES)
def test_the_same_holds_for_toml(text: str, places: AgentFolders) -> None:
    path = places.project / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert done(named("codex"), places, COMMAND) == ["add"]
    assert done(named("codex"), places, None)[-1] == "remove"
    assert path.read_bytes() == text.encode()


def test_what_others_wrote_in_the_meantime_stays(places: AgentFolders) -> None:
    path = places.project / ".mcp.json"
    done(named("claude-code"), places, COMMAND)
    path.write_text(path.read_text().replace('"mcpServers"', '"added": 1, "mcpServers"'))
    assert done(named("claude-code"), places, None)[-1] == "remove"
    assert jsonc.entry_of(path.read_text(), "mcpServers", NAME) is None
    assert json.loads(path.read_text())["added"] == 1


def test_a_file_that_changes_after_the_plan_is_not_written(places: AgentFolders) -> None:
    path = places.project / ".mcp.json"
    change = entry_edit(named("claude-code"), "project", places)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="changed by another program"):
        write(change, places)
    assert path.read_text() == "{}"


def test_another_server_of_our_name_is_left_alone(places: AgentFolders) -> None:
    path = places.project / ".mcp.json"
    text = '{"mcpServers": {"rag": {"command": "npx", "args": ["mcp"]}}}'
    path.write_text(text)
    for command in (COMMAND, None):
        assert done(named("claude-code"), places, command)[-1] == "refused"
    assert path.read_text() == text


def test_a_link_out_of_the_repository_is_refused_and_one_within_the_home_is_followed(
    places: AgentFolders, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (places.project / ".mcp.json").symlink_to(outside)
    assert done(named("claude-code"), places, COMMAND) == ["refused"]
    assert outside.read_text() == "{}"
    dotfiles = places.home / "dotfiles.json"
    dotfiles.write_text("{}")
    (places.home / ".claude.json").symlink_to(dotfiles)
    change = entry_edit(named("claude-code"), "user", places)
    write(change, places)
    assert (places.home / ".claude.json").is_symlink()
    assert "mcpServers" in json.loads(dotfiles.read_text())


def _hostile(kind: str, path: Path) -> None:
    """Place something that is no configuration where one is expected."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(64 << 30)  # sparse
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path.name, "outside": "/etc/passwd"}[kind])


def _status(folder: Path) -> dict[Path, tuple[int, ...]]:
    """What a write changes. The time of access is left out: looking is enough to change that of a folder."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns) for path, one in found.items()}


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge", "device", "loop", "outside"])
@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_no_file_of_a_repository_blocks_fills_the_memory_or_is_followed_out_of_it(
    agent: Agent, kind: str, places: AgentFolders
) -> None:
    written = [agent.project_instructions, *(helper.paths["project"] for helper in agent.helpers)]
    written += [agent.project.paths[0]] if agent.project else []
    for path in filter(None, written):
        _hostile(kind, places.path(path))
    before = _status(places.project)
    if agent.project is not None:
        with pytest.raises(CannotEdit):
            is_installed(agent, "project", places)
    for command in (COMMAND, None):
        changes = plan([agent], "project", places, command, instructions=True)
        assert {change.action for change in changes} <= {"refused"}
    assert _status(places.project) == before


@pytest.mark.parametrize(
    "ours", [{"command": "rag", "args": 5}, {"command": 1}, {"command": []}, [], 3, None]
)
def test_an_entry_of_any_shape_is_somebody_elses(ours: Any, places: AgentFolders) -> None:
    for agent in (agent for agent in AGENTS if agent.project):
        assert agent.project is not None
        path = places.file(agent.project)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".toml":
            path.write_text(json.dumps({agent.project.container: {NAME: ours}}))
            assert not is_installed(agent, "project", places)


@pytest.mark.parametrize(
    "text", [section.END, section.BEGIN, f"{section.END}\n{section.BEGIN}", section.END * 2]
)
def test_a_section_that_could_not_be_removed_is_not_written(text: str) -> None:
    with pytest.raises(CannotEdit):
        section.with_section(text, "Use explore.")


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[]", b'{"mcpServers": 3}'])
def test_a_file_that_is_not_understood_is_left_and_the_entry_is_shown(
    content: bytes, places: AgentFolders
) -> None:
    path = places.project / ".mcp.json"
    path.write_bytes(content)
    change = entry_edit(named("claude-code"), "project", places)
    assert change.action == "refused"
    assert json.loads(change.added)["mcpServers"][NAME]["args"] == COMMAND[1:]
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("agent", "name", "layout"),
    [
        ("claude-code", ".mcp.json", '{"a": "X"}'),
        ("gemini", "GEMINI.md", "X"),
        ("codex", "config.toml", "# X"),
    ],
)
def test_a_file_that_would_be_too_large_to_be_read_again_is_left(
    agent: str, name: str, layout: str, places: AgentFolders
) -> None:
    path = places.project / (".codex" if agent == "codex" else "") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(before := layout.replace("X", "x" * ((1 << 20) - len(layout) + 1)))
    changes = plan([named(agent)], "project", places, COMMAND, instructions=True)
    (change,) = (each for each in changes if each.path == path)
    assert (change.action, path.read_text()) == ("refused", before)


def test_the_folders_of_settings_are_those_of_the_platform(places: AgentFolders, monkeypatch: Any) -> None:
    moved = AgentFolders(places.project, places.home, places.data, {"XDG_CONFIG_HOME": "/elsewhere"})
    assert moved.path("CONFIG/zed/settings.json") == Path("/elsewhere/zed/settings.json")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert places.path("APP/Code") == places.home / "Library" / "Application Support" / "Code"


# ---------------------------------------------------------------- instructions


def test_instructions_are_written_once_and_removed_with_the_last_agent_that_reads_them(
    places: AgentFolders,
) -> None:
    rules = places.project / "AGENTS.md"
    rules.write_text("# House rules\n")
    pair = [named("codex"), named("opencode")]
    for change in plan(pair, "project", places, COMMAND, instructions=True):
        write(change, places)
    assert rules.read_text().count(section.BEGIN) == 1
    assert "who_calls" in rules.read_text()
    assert done(named("codex"), places, None) == ["remove"]
    assert section.has_section(rules.read_text())
    assert done(named("opencode"), places, None) == ["remove", "remove"]
    assert rules.read_text() == "# House rules\n"


def test_the_instructions_name_only_tools_that_exist() -> None:
    from rag.mcp.catalog import tools
    from rag.resources import shipped

    text = shipped("templates/agent_instructions.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)`", text.replace("`rag`", "").replace("`grep`", ""))
    for name in named:
        assert name in tools()
    assert named[0] == "explore"
    assert "`grep` is cheaper" in text


# ---------------------------------------------------------------- sub-agents and skills


def helper_edits(
    agent: Agent, scope: Scope, places: AgentFolders, command: list[str] | None = COMMAND
) -> list[FileEdit]:
    return [one for one in plan([agent], scope, places, command) if one.what in HELPERS]


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent.helpers], ids=lambda agent: agent.name)
def test_sub_agents_and_skills_only_explore_and_read(agent: Agent, scope: Any, places: AgentFolders) -> None:
    for change in helper_edits(agent, scope, places):
        write(change, places)
        text = change.path.read_text()
        assert "rag explore" in text and "--words" in text and "$" not in text.replace("$(git diff)", "")
        if change.path.suffix == ".toml":
            found = tomllib.loads(text)
            assert found["name"] == change.path.stem and found["description"]
            assert "rag explore" in found["developer_instructions"]
            continue
        _, head, body = text.split("---\n", 2)
        found = yaml.safe_load(head)
        assert len(found["description"]) < 300 and body.count("\n") < 25
        if change.what == "skill":
            assert found["name"] == change.path.parent.name
            assert found["allowed-tools"] == "Bash(rag explore *) Bash(rag search *) Read"
        elif agent.name == "opencode":
            bash = {"*": "deny", "rag explore *": "allow", "rag search *": "allow"}
            assert found["permission"] == {"*": "deny", "read": "allow", "bash": bash}
        else:
            assert (found["name"], found["tools"]) == (change.path.stem, "Bash, Read")


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_install_and_uninstall_leave_no_file_and_no_folder(
    agent: Agent, scope: Any, places: AgentFolders
) -> None:
    def found() -> set[str]:
        every = [*places.project.rglob("*"), *places.home.rglob("*")]
        return {f"{path}: {path.read_bytes()!r}" if path.is_file() else str(path) for path in every}

    before = found()
    for command in (COMMAND, ["rag", "mcp", "--repo", "elsewhere"], None):
        for change in plan([agent], scope, places, command, instructions=command is not None):
            if change.action in ("add", "update", "remove"):
                write(change, places)
    assert found() == before


def test_a_skill_stays_while_another_agent_reads_it(places: AgentFolders) -> None:
    skill = places.project / ".agents" / "skills" / "rag-explore" / "SKILL.md"
    for name in ("codex", "gemini"):
        done(named(name), places, COMMAND)
    done(named("codex"), places, None)
    assert skill.exists() and not (places.project / ".codex").exists()
    done(named("gemini"), places, None)
    assert not skill.exists()


def test_a_helper_of_another_is_left_and_an_older_one_of_ours_is_updated(places: AgentFolders) -> None:
    path = places.project / ".claude" / "agents" / "rag-explorer.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: rag-explorer\n---\nMine.\n")
    for command in (COMMAND, None):
        edits = helper_edits(named("claude-code"), "project", places, command)
        assert [one.action for one in edits if one.path == path] == ["refused"]
    path.write_text(f"An older text.\n{MARK}.\n")
    actions = [one.action for one in helper_edits(named("claude-code"), "project", places)]
    assert actions == ["update", "add"]


@pytest.mark.parametrize("program", ["/opt/my tools/rag", "/home/x/.venv/bin/rag"])
def test_a_path_of_the_program_is_quoted(program: str) -> None:
    shown = f'"{program}"' if " " in program else program
    for helper in (helper for agent in AGENTS for helper in agent.helpers):
        text = helper.content(program)
        assert f"`{shown} explore . " in text
        if helper.template.endswith(".toml"):
            assert tomllib.loads(text)
        else:
            assert yaml.safe_load(text.split("---\n")[1])


@pytest.mark.parametrize("program", ["/tmp/`id`/rag", "/tmp/'''\nx/rag", "/tmp/a;b/rag", "/tmp/$HOME/rag"])
def test_a_path_that_could_not_be_written_is_refused(program: str, places: AgentFolders) -> None:
    changes = helper_edits(named("codex"), "user", places, [program, "mcp"])
    assert {change.action for change in changes} == {"refused"}


# ---------------------------------------------------------------- the command


@pytest.fixture
def in_project(places: AgentFolders, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    folder = places.project / "src"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return lambda name: places.project / name


def test_the_command_shows_writes_lists_and_removes(in_project: Callable[[str], Path]) -> None:
    secret = '{"mcpServers": {"other": {"env": {"KEY": "sk-secret"}}}}'
    in_project(".mcp.json").write_text(secret)
    shown = rag("agents", "install", "claude-code", "cursor")
    assert shown.code == 0
    assert "claude-code: adds in" in shown.out and '"${workspaceFolder}"' in shown.out
    assert "sk-secret" not in shown.out
    assert "nothing was written" in shown.err
    assert in_project(".mcp.json").read_text() == secret
    assert not in_project(".cursor").exists()

    written = rag("agents", "install", "claude-code", "cursor", "--instructions", "--write", "--json")
    assert [(each["agent"], each["what"], each["action"], each["written"]) for each in written.json] == [
        ("claude-code", "entry", "add", True),
        ("claude-code", "instructions", "add", True),
        ("cursor", "entry", "add", True),
        ("cursor", "instructions", "add", True),
        ("claude-code", "sub-agent", "add", True),
        ("claude-code", "skill", "add", True),
    ]
    assert "rag explore" in in_project(".claude/agents/rag-explorer.md").read_text()
    listed = {(row["agent"], row["scope"]): row["state"] for row in rag("agents", "list", "--json").json}
    assert listed["claude-code", "project"] == listed["cursor", "project"] == "installed"
    assert listed["claude-code", "user"] == "none"
    assert "claude-code\tyes\tproject\tinstalled\t" in rag("agents", "list").out

    removed = rag("agents", "uninstall", "--write")
    assert removed.code == 0
    assert "claude-code: removed in" in removed.out
    assert in_project(".mcp.json").read_text() == secret
    assert not in_project("CLAUDE.md").exists() and not in_project(".claude").exists()
    assert not in_project(".cursor/mcp.json").exists()
    assert "there is no entry" in (again := rag("agents", "uninstall").out) and "section" not in again


def test_the_command_for_the_user_names_the_repository(
    in_project: Callable[[str], Path], isolated_home: Path
) -> None:
    assert rag("agents", "install", "zed", "--user", "--write").code == 0
    found = json.loads((isolated_home / ".config/zed/settings.json").read_text())["context_servers"]["rag"]
    assert found["args"] == ["mcp", "--repo", str(in_project("."))]
    assert Path(found["command"]).is_absolute()


def test_the_command_says_what_it_cannot_do(in_project: Callable[[str], Path]) -> None:
    assert rag("agents", "install").code == 2
    assert "no coding agent was found" in rag("agents", "install").err
    assert "use claude-code, cursor" in rag("agents", "install", "emacs").err
    assert "try with --user" in rag("agents", "install", "windsurf").err
    in_project(".mcp.json").write_text("[]")
    refused = rag("agents", "install", "claude-code")
    assert refused.code == 2
    assert "is left as it is: it is no JSON object" in refused.out
    assert '"mcpServers"' in refused.out
