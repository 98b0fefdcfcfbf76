"""The server's settings file, which `rag serve --config` reads. Command-line flags override it.

    version = 1
    host = "0.0.0.0"
    public_hosts = ["rag.example.org"]
    rate = "120/minute"

    [repositories]
    api = "/srv/repositories/api"
    web = "https://example.org/team/web.git"

    [groups]
    product = ["api", "web"]

Keys are the field names of `ServerSettings`. An unknown key is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rag.decoding import text_of
from rag.errors import SettingsError
from rag.parsing import parse_toml
from rag.resources import user_path
from rag.serve.access.keys import KeyRecords
from rag.serve.settings import ENVIRONMENT, NOT_SETTINGS, ServerSettings, check_numbers
from rag.service import Engine, locate
from rag.service.repositories.named_sources import with_safe_names
from rag.settings import MAX_NUMBER, MAX_WHOLE, Settings, read_groups
from rag.types import Source

VERSION = 1
"""Incremented when a key changes its meaning; a file of another version is refused."""

_DEEPWIKI: Mapping[str, Any] = {
    "port": 8001,
    "origins": ("http://localhost:3000", "http://127.0.0.1:3000"),
    "max_body_bytes": 16_000_000,
}
"""For its frontend, which is served from its own port and sends whole wikis."""

_SHARED_DRAIN_S = 5.0
_NOT_IN_FILES = NOT_SETTINGS.union(ENVIRONMENT)


@contextmanager
def opened_keys(engine: Settings, *, importing: bool = False) -> Iterator[KeyRecords]:
    """Open the keys in the turn store of the servers with these settings.

    Raises:
        SettingsError: there is a file of keys of version 0.2, unless `importing`.
        StoreError: the store cannot be used.
    """
    if not importing and (file := engine.home / "keys.toml").exists():
        raise SettingsError(
            f"{file} has the keys of version 0.2; store them with the turns: `rag keys import {file}`"
        )
    with closing(Engine(with_shared_memory(engine))) as opened:
        yield KeyRecords(opened.turns)


def with_shared_memory(engine: Settings) -> Settings:
    """Return the engine's settings of a server: turns are in the shared database unless another is named."""
    return replace(engine, memory=engine.memory or engine.shared)


def server_settings(engine: Settings, config: Path | None, flags: Mapping[str, Any]) -> ServerSettings:
    """Return the settings of a server: flags (None and () are unset) override the file, then defaults apply.

    Without any repository, the current folder is served. deepwiki-open's frontend expects port 8001 and
    calls from its own origin.

    Raises:
        SettingsError: as `read_config` and `check_numbers`.
    """
    given = {} if config is None else read_config(config)
    given |= {name: value for name, value in flags.items() if value is not None and value != ()}
    if not given.get("repositories") and not given.get("allow_urls"):
        here = locate(None)
        given["repositories"] = ((here.name, here),)
    given["repositories"] = with_safe_names(given.get("repositories", ()))
    if engine.shared:
        given.setdefault("drain_s", _SHARED_DRAIN_S)
    if given.get("deepwiki"):
        given = {**_DEEPWIKI, **given}
    settings = ServerSettings(**{**given, "engine": engine})
    check_numbers(settings)
    return settings


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a file as keyword arguments of `ServerSettings`.

    Relative paths of repositories are relative to the file's folder.

    Raises:
        SettingsError: the file is unreadable, of another version, or has an unknown key or an invalid value.
    """
    try:
        values = parse_toml(text_of(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the server settings {path}: {error}") from error
    version = values.pop("version", None)
    if version != VERSION:
        which = "has no version" if version is None else f"has version {version!r}"
        raise SettingsError(
            f"{path} {which}, but this rag reads version {VERSION}; change its keys to those of "
            f"deploy/server.toml, then write `version = {VERSION}` at the top"
        )
    if "keys_file" in values:
        raise SettingsError(
            f"{path} sets keys_file, but keys are stored with the turns; run "
            f"`rag keys import {user_path(str(values['keys_file']), base=path.parent)}` and remove the line"
        )
    found = {name: _converted(path, name, value) for name, value in values.items()}
    if "repositories" in found:
        found["repositories"] = tuple(_repositories(path, found["repositories"]))
    return found


_NUMBERS = {"int": MAX_WHOLE, "float": MAX_NUMBER}


def _converted(path: Path, name: str, value: Any) -> Any:
    kinds = {field.name: str(field.type) for field in fields(ServerSettings)}
    if name not in kinds or name in _NOT_IN_FILES:
        known = ", ".join(sorted(kinds.keys() - _NOT_IN_FILES))
        raise SettingsError(f"{path} sets {name!r}, which is not a server setting; the settings are: {known}")
    kind = kinds[name]
    wanted: dict[str, type | tuple[type, ...]] = {"bool": bool, "int": int, "float": (int, float), "str": str}
    wanted["ToolSet"] = str
    if name == "groups":
        try:
            return read_groups(value)
        except ValueError as error:
            raise SettingsError(f"{path}: {name} is invalid: {error}") from error
    if name == "repositories":
        ok = isinstance(value, dict) and all(isinstance(source, str) for source in value.values())
    elif kind.startswith("tuple"):
        ok = isinstance(value, list) and all(isinstance(item, str) for item in value)
        value = tuple(value) if ok else value
    elif kind.startswith("Path"):
        ok = isinstance(value, str)
    else:
        ok = isinstance(value, wanted[kind]) and (kind == "bool" or not isinstance(value, bool))
    if ok and kind in _NUMBERS and not 0 <= value <= _NUMBERS[kind]:
        raise SettingsError(f"{path}: {name} = {value!r} must be between 0 and {_NUMBERS[kind]}")
    if not ok:
        raise SettingsError(f"{path}: {name} = {value!r} is invalid; see `rag serve --help`")
    return value


def _repositories(path: Path, named: dict[str, str]) -> list[tuple[str, Source]]:
    found = []
    for name, text in named.items():
        is_path = "://" not in text and ":" not in text
        found.append((name, locate(str(user_path(text, base=path.parent)) if is_path else text)))
    return found
