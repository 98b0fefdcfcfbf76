"""What can be configured, and where from: flags win over the environment, which wins over the file.

The file is `config.toml` in `RAG_HOME` (else the platform's user data directory). Keys are the names of
the fields below. A key the file spells wrong is an error, not ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rag.errors import SettingsError

ENVIRONMENT = {
    "model": ("RAG_MODEL", "OPENAI_MODEL"),
    "base_url": ("RAG_BASE_URL", "OPENAI_BASE_URL"),
    "api_key": ("RAG_API_KEY", "OPENAI_API_KEY"),
    "client": ("RAG_CLIENT",),
    "embedder": ("RAG_EMBEDDER",),
    "embedding_base_url": ("RAG_EMBEDDING_BASE_URL",),
    "embedding_api_key": ("RAG_EMBEDDING_API_KEY",),
    "embedding_dim": ("RAG_EMBEDDING_DIM",),
    "memory": ("RAG_MEMORY",),
    "template": ("RAG_TEMPLATE",),
    "context_tokens": ("RAG_CONTEXT_TOKENS",),
    "answer_tokens": ("RAG_ANSWER_TOKENS",),
    "timeout_s": ("RAG_TIMEOUT",),
    "language": ("RAG_LANGUAGE",),
    "namespace": ("RAG_NAMESPACE",),
    "git_token": ("RAG_GIT_TOKEN",),
    "git_timeout_s": ("RAG_GIT_TIMEOUT",),
    "max_file_bytes": ("RAG_MAX_FILE_BYTES",),
    "gate": ("RAG_GATE",),
    "cache": ("RAG_CACHE",),
}
"""The environment variables of each setting, the first that is set wins."""

_SWITCH = dict.fromkeys(("on", "true", "yes", "1"), True) | dict.fromkeys(("off", "false", "no", "0"), False)

_SECRET = ("api_key", "embedding_api_key", "git_token")


def default_home() -> Path:
    """`RAG_HOME`, else the platform's folder for user data."""
    if named := os.environ.get("RAG_HOME"):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("rag", appauthor=False))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one run. Secrets are left out of `repr`.

    `model` None means: no model, the extractive answerer. `embedder` is "static" (the default, offline),
    "minilm", or "openai:MODEL". `memory` is "" for the SQLite file in `home`, "memory:", or
    a URL such as "sqlite:///PATH" or "redis://HOST". `template` is a file, or the name of one in
    `home/templates`.
    `gate` answers "not found", and asks no model, where the repository seems to hold no answer. `cache` gives
    answers again while what they rest on is unchanged; None does so where a model writes them.
    """

    home: Path = field(default_factory=default_home)
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    client: str = "openai"
    embedder: str = "static"
    embedding_base_url: str | None = None
    embedding_api_key: str | None = field(default=None, repr=False)
    embedding_dim: int | None = None
    memory: str = field(default="", repr=False)
    template: str | None = None
    context_tokens: int = 16_000
    answer_tokens: int = 1_500
    timeout_s: float = 120.0
    language: str = "en"
    namespace: str = ""
    git_token: str | None = field(default=None, repr=False)
    git_timeout_s: float = 600.0
    max_file_bytes: int = 1_000_000
    gate: bool = True
    cache: bool | None = None

    @property
    def has_model(self) -> bool:
        """Whether a language model is configured."""
        return bool(self.model or self.base_url or self.api_key)

    @property
    def config_file(self) -> Path:
        """The settings file, whether or not it exists."""
        return self.home / "config.toml"


def load_settings(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Settings from flags, environment and file, in that order of precedence; None in `flags` is unset.

    Raises:
        SettingsError: the file cannot be read, or a value is of the wrong type or names nothing.
    """
    environ = os.environ if environ is None else environ
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    home = Path(flags.pop("home", None) or environ.get("RAG_HOME") or default_home()).expanduser().absolute()
    settings = Settings(home=home)
    settings = _updated(settings, _read_file(settings.config_file), where=str(settings.config_file))
    from_environment = {
        name: environ[variable]
        for name, variables in ENVIRONMENT.items()
        for variable in reversed(variables)
        if environ.get(variable)
    }
    settings = _updated(settings, from_environment, where="the environment")
    return _updated(settings, flags, where="the command line")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read the settings file {path}: {error}; mend or remove it") from error


def _updated(settings: Settings, values: Mapping[str, Any], *, where: str) -> Settings:
    types = {f.name: str(f.type) for f in fields(Settings)}
    converted: dict[str, Any] = {}
    for name, value in values.items():
        if name not in types or name == "home":
            raise SettingsError(
                f"{where} sets {name!r}, which is no setting; the settings are "
                + ", ".join(n for n in types if n != "home")
            )
        converted[name] = _convert(name, value, types[name], where)
    return replace(settings, **converted)


def _convert(name: str, value: Any, kind: str, where: str) -> Any:
    try:
        if kind.startswith("bool"):
            if str(value).lower() not in _SWITCH:
                raise ValueError("on or off is expected")
            return _SWITCH[str(value).lower()]
        if kind.startswith("int"):
            number: float = int(value)
        elif kind.startswith("float"):
            number = float(value)
        else:
            if not isinstance(value, str):
                raise ValueError("text is expected")
            return value
        if number <= 0:
            raise ValueError("it must be above zero")
        return number
    except (TypeError, ValueError) as error:
        shown = "…" if name in _SECRET else repr(value)
        raise SettingsError(f"{where} sets {name} = {shown}, which cannot be used: {error}") from error
