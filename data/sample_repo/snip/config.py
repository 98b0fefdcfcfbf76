"""Settings: defaults, then a TOML file, then environment variables named SNIP_*."""

from __future__ import annotations

import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

ENV_PREFIX = "SNIP_"


@dataclass(frozen=True)
class Config:
    """Everything that can be set. `secret_key` signs sessions; without one, each start signs everybody out."""

    database: str = "snip.sqlite3"
    host: str = "127.0.0.1"
    port: int = 8080
    base_url: str = "http://localhost:8080"
    secret_key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    session_lifetime_s: int = 14 * 24 * 3600
    requests_per_minute: int = 60
    link_lifetime_days: int = 0
    purge_interval_s: int = 3600


def load_config(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the settings; the environment wins over the file, the file over the defaults.

    Raises:
        ValueError: the file names an unknown setting, or a number is not a number.
    """
    config = Config()
    if path is not None:
        config = _merge(config, tomllib.loads(path.read_text(encoding="utf-8")))
    overrides = {
        name.removeprefix(ENV_PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(ENV_PREFIX)
    }
    return _merge(config, overrides)


def _merge(config: Config, values: Mapping[str, object]) -> Config:
    known = {f.name for f in fields(Config)}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    converted = {name: type(getattr(config, name))(value) for name, value in values.items()}
    return replace(config, **converted)
