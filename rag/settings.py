"""Settings. Flags take precedence over environment variables, and these over the settings file.

The file is `config.toml` in `RAG_HOME` (default: the platform's user data directory). Keys are the names of
the fields below. An unknown key is an error. Error messages name the source of a value: the variable, the
flag, or the line of the file.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from rag.decoding import text_of
from rag.errors import SettingsError
from rag.parsing import parse_size, parse_toml
from rag.quoting import string_literal
from rag.resources import is_file, make_private, read_regular, replace_file, user_path

FactScope = Literal["user", "project", "team"]
"""Whose facts: a person's own, or those shared with a project or a team."""
AUTO_STEPS: Final = "auto"
Steps = int | Literal["auto"]
"""The number of steps of a second look, from 0 to `MAX_STEPS`, or "auto": as many as the model wants."""
MAX_STEPS = 20
ToolSet = Literal["basic", "all"]
"""Which tools for agents are listed: those for finding and asking, or all."""
EXPLORE_TOKENS = 1_300
"""The tokens of the places that `explore` returns, unless another number is asked for."""
MIN_EXPLORE_TOKENS, MAX_EXPLORE_TOKENS = 100, 20_000
MAX_CODE_WORDS = 8
"""How many texts in the code's words a search takes."""
Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of groups, each with its repositories."""
KEYS_NAMESPACE = "server:keys"
"""The namespace of a turn store with the API keys of servers. No caller and no command can select it."""
_GROUP = re.compile(r"(?!all$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

ENVIRONMENT = {
    "model": ("RAG_MODEL", "OPENAI_MODEL"),
    "base_url": ("RAG_BASE_URL", "OPENAI_BASE_URL"),
    "api_key": ("RAG_API_KEY", "OPENAI_API_KEY"),
    "client": ("RAG_CLIENT",),
    "embedder": ("RAG_EMBEDDER",),
    "reranker": ("RAG_RERANKER",),
    "embedding_base_url": ("RAG_EMBEDDING_BASE_URL",),
    "embedding_api_key": ("RAG_EMBEDDING_API_KEY",),
    "embedding_dim": ("RAG_EMBEDDING_DIM",),
    "memory": ("RAG_MEMORY",),
    "shared": ("RAG_SHARED",),
    "template": ("RAG_TEMPLATE",),
    "context_tokens": ("RAG_CONTEXT_TOKENS",),
    "answer_tokens": ("RAG_ANSWER_TOKENS",),
    "timeout_s": ("RAG_TIMEOUT",),
    "model_concurrency": ("RAG_MODEL_CONCURRENCY",),
    "language": ("RAG_LANGUAGE",),
    "namespace": ("RAG_NAMESPACE",),
    "project": ("RAG_PROJECT",),
    "team": ("RAG_TEAM",),
    "scope": ("RAG_SCOPE",),
    "git_token": ("RAG_GIT_TOKEN",),
    "max_file_bytes": ("RAG_MAX_FILE_BYTES",),
    "storage_cap_bytes": ("RAG_STORAGE_CAP",),
    "stores": ("RAG_STORES",),
    "gate": ("RAG_GATE",),
    "cache": ("RAG_CACHE",),
    "reword": ("RAG_REWORD",),
    "steps": ("RAG_STEPS",),
}
"""The environment variables of each setting, the first that is set wins."""

NOT_SETTINGS = frozenset({"home", "set_by", "git_timeout_s", "stores_cache_bytes"})
"""Fields that programs set, and no user: no file, variable or option has them."""
MAX_WHOLE = 10**12
MAX_NUMBER = 10**9
"""The limit for seconds: the operating system refuses to wait for hundreds of years."""
_MAX_FILE_BYTES = 1 << 20
_SWITCH = dict.fromkeys(("on", "true", "yes", "1"), True) | dict.fromkeys(("off", "false", "no", "0"), False)

SECRETS = ("api_key", "embedding_api_key", "git_token", "shared")
"""Settings whose values are not shown."""


def default_home() -> Path:
    """Return `RAG_HOME`, or the platform's folder for user data."""
    if named := os.environ.get("RAG_HOME"):
        return user_path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("rag", appauthor=False))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one run. Secrets are left out of `repr`.

    The text below each field is also its row in the documentation (`docs/settings.md`).
    """

    home: Path = field(default_factory=default_home)
    model: str | None = None
    """The language model that answers: a name; the path of a GGUF file, which needs no server (extra
    `local`); or `cmd:` and a command that reads a prompt from its standard input and prints the answer.
    Without `model`, `base_url` and `api_key`, answers quote the nearest lines."""
    base_url: str | None = None
    """The address of the model's server, ending in `/v1`. Default: OpenAI's."""
    api_key: str | None = field(default=None, repr=False)
    """The key for the model's server."""
    api_key_variable: str = ""
    """The name of the environment variable with that key, in the settings file only. It counts for the
    `base_url` that the file sets; `RAG_API_KEY` overrides it."""
    client: str = "openai"
    """The model client: `openai` for every OpenAI-compatible server, or the name of another AdalFlow
    client."""
    embedder: str = "static"
    """What turns text into vectors: `static` (offline), `minilm` (needs the extra `minilm`) or
    `openai:MODEL`."""
    reranker: str = "auto"
    """The second stage of the search, which orders the first 50 hits again: `student` (part of rag), `minilm`
    (needs the extra `minilm`), `openai:MODEL` (an embedding model of a server; it gets these hits) or `none`.
    For the vectors of a model a question waits up to 1 s. `auto` is `student` where a question is searched in
    several phrasings, else `none`."""
    embedding_base_url: str | None = None
    """The address of the server for `openai:MODEL`. Default: OpenAI's."""
    embedding_api_key: str | None = field(default=None, repr=False)
    """The key for that server."""
    embedding_dim: int | None = None
    """Reduce the vectors to this many dimensions, if the model supports it."""
    memory: str = field(default="", repr=False)
    """Where turns are stored: `sqlite:///PATH`, `redis://HOST:PORT/DB` (extra `redis`),
    `postgresql://USER:PASSWORD@HOST/DATABASE` (extra `postgres`), or `memory:` to store nothing.
    Default: `turns.db` in the data folder."""
    shared: str = field(default="", repr=False)
    """The database in which servers and workers share jobs (extra `queue`):
    `postgresql://USER:PASSWORD@HOST/DATABASE`. Default: none; each program runs its own."""
    template: str | None = None
    """The prompt template: a file, or a name in `templates/` of the data folder. Default: `answer.j2`."""
    context_tokens: int = 16_000
    """The limit for prompt and answer together. It is never exceeded. For a GGUF file: 4,096 if not set."""
    answer_tokens: int = 1_500
    """The part of `context_tokens` that is reserved for the answer."""
    timeout_s: float = 120.0
    """Seconds to wait for the model's server. A complete answer may take five times as long. A model on this
    machine may take a second for each token of the answer while pieces of it arrive, each within this time;
    if this is not set, the first one may take a second for 30 tokens of `context_tokens`."""
    model_concurrency: int | None = None
    """How many requests the model's server gets at once from one process; others wait. Default: 1 for a
    model on this machine (a GGUF file, or a `base_url` of localhost), else no limit."""
    language: str = "en"
    """The language of answers: `en` follows the language of the question, any other code forces that
    language."""
    namespace: str = ""
    """Separates conversations: no command sees those of another namespace."""
    project: str = ""
    """The name of a project whose facts are read too, from the same turn store. Its namespace is
    `project:NAME`."""
    team: str = ""
    """The name of a team whose facts are read too. Its namespace is `team:NAME`."""
    scope: FactScope = "user"
    """Where a fact is stored if the command does not say: `user`, `project` or `team`."""
    git_token: str | None = field(default=None, repr=False)
    """The token for private repositories: `HOST=TOKEN`, several separated by spaces. It is sent to its host
    only, and over plain http only on loopback. A token without a host is sent only over https to a host that
    asks for credentials."""
    git_timeout_s: float = 600.0
    """Seconds that a clone may take."""
    max_file_bytes: int = 1_000_000
    """Larger files are not indexed."""
    storage_cap_bytes: int | None = None
    """After a repository was indexed, remove the indexes and clones that were not used longest until the data
    folder takes at most this many bytes, such as `5GB`. Turns and facts are never removed. Default: no
    limit."""
    stores: str = field(default="", repr=False)
    """Where indexes are shared with other machines: the path of a folder that they mount, or
    `s3://BUCKET/PREFIX` (extra `object-store`; its credentials are those of the environment, `AWS_…`).
    Default: indexes are not shared."""
    stores_cache_bytes: int = 10_000_000_000
    """How many bytes of shared indexes are kept in the data folder, such as `5GB`."""
    gate: bool = True
    """Begin doubtful answers with a warning, and return "Not found" if no word of the question occurs in the
    repository, without asking a model, unless it looks further."""
    cache: bool | None = None
    """Repeat an earlier answer while the code it depends on is unchanged. Default: only if a model is
    configured."""
    reword: bool = True
    """Ask the model, before the search, how the code would say what a question asks. This is one short
    request, and none if the question names code or is found well without it."""
    steps: Steps = AUTO_STEPS
    """How many times the model may look again before it answers: search, read lines, find definitions and
    callers. At most 20. `auto`: a model that can call tools, except a GGUF file, looks until it knows enough,
    in at most 6 requests; 0: it never looks."""
    groups: Groups = ()
    """Groups of repositories: under `[groups]`, `NAME = ["PATH or URL", …]`. `rag ask @NAME "…"` asks those
    that the question is about; `@all` is the group of all that are indexed here."""
    set_by: Mapping[str, tuple[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """For each loaded setting: its source and its value."""

    def __post_init__(self) -> None:
        """Refuse what no interface accepts. Raises SettingsError."""
        try:
            read_steps(self.steps)
        except ValueError as error:
            raise SettingsError(f"the number of steps is {self.steps}; {error}") from error
        if self.namespace == KEYS_NAMESPACE:
            raise SettingsError(
                f"the namespace {KEYS_NAMESPACE} has the keys of servers; `rag keys` changes them"
            )

    def source_of(self, name: str) -> str:
        """Return the source of a setting's value for a message, such as ` (RAG_MODEL)`; "" for a default."""
        how, value = self.set_by.get(name, ("", None))
        return f" ({how})" if how and value == getattr(self, name) else ""

    @property
    def has_model(self) -> bool:
        """Whether a language model is configured."""
        return bool(self.model or self.base_url or self.api_key)

    @property
    def embeds_on_a_server(self) -> bool:
        """Whether texts are embedded by a server, for the index or for the second stage."""
        return any(name.startswith("openai:") for name in (self.embedder, self.reranker))

    @property
    def local_model(self) -> Path | None:
        """The model's file, if `model` is a path of a GGUF file and no server is named."""
        named = self.model or ""
        is_file_name = named.lower().endswith(".gguf") and self.command is None
        if not is_file_name or self.base_url or self.client != "openai":
            return None
        return user_path(named)

    @property
    def command(self) -> str | None:
        """The command line of the model, if `model` is `cmd:` and one, which may be empty."""
        named = self.model or ""
        return named.removeprefix("cmd:").strip() if named.startswith("cmd:") else None

    @property
    def shown_model(self) -> str:
        """The name of the model in answers and lists: a command's program, a file without its folder."""
        if self.command is not None:
            with suppress(ValueError, IndexError):  # an open quotation, or no program
                return f"cmd:{Path(shlex.split(self.command)[0]).name}"
            return "cmd:"
        return self.local_model.stem if self.local_model else self.model or ""

    def is_default(self, name: str) -> bool:
        """Whether a setting has its default and no source set it."""
        default = next(f.default for f in fields(self) if f.name == name)
        return bool(getattr(self, name) == default) and not self.source_of(name)

    @property
    def fact_namespaces(self) -> dict[FactScope, str]:
        """The namespace of each scope of facts that is read; the user's is always there, first.

        Those of projects and teams have a prefix, so that none is a person's.
        """
        named: dict[FactScope, str] = {"project": self.project, "team": self.team}
        shared = {scope: f"{scope}:{name}" for scope, name in named.items() if name}
        return {"user": self.namespace, **shared}

    @property
    def config_file(self) -> Path:
        """The settings file, whether or not it exists."""
        return self.home / "config.toml"


def with_absolute_paths(settings: Settings) -> Settings:
    """Return the same settings with absolute paths, for a process in another working folder."""
    memory, template, model = settings.memory, settings.template, settings.local_model
    stores = settings.stores
    if stores and "://" not in stores:
        stores = str(user_path(stores))
    scheme, found, path = memory.partition(":///")
    if found and scheme == "sqlite" and path:
        memory = f"sqlite:///{user_path(path)}"
    if template and "{" not in template and is_file(template):
        template = str(user_path(template))
    if model is not None:
        settings = replace(settings, model=str(model))
    return replace(settings, home=settings.home.absolute(), memory=memory, template=template, stores=stores)


def plain_settings(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON values, for a job in another process."""
    return {**asdict(settings), "home": str(settings.home)}


def load_settings(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Load the settings from flags, environment and file, in this order of precedence.

    A flag that is None is not set.

    Raises:
        SettingsError: the file cannot be read, a key is unknown, or a value is invalid.
    """
    environ = os.environ if environ is None else environ
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    home = user_path(flags.pop("home", None) or environ.get("RAG_HOME") or default_home())
    settings = _from_file(Settings(home=home))
    set_by = {
        name: variable
        for name, variables in ENVIRONMENT.items()
        for variable in reversed(variables)
        if environ.get(variable)
    }
    described = {variable: f"the environment sets {variable}" for variable in set_by.values()}
    in_file = settings
    settings = _updated(settings, {name: environ[set_by[name]] for name in set_by}, set_by, described)
    set_by = {name: f"--{name.replace('_', '-')}" for name in flags}
    described = {flag: f"the command line sets {flag}" for flag in set_by.values()}
    settings = _updated(settings, flags, set_by, described)
    if not settings.api_key_variable or "api_key" in flags:
        return settings
    if (settings.base_url, settings.client) != (in_file.base_url, in_file.client):
        return replace(settings, api_key_variable="")  # another server must not get this key
    key = environ.get("RAG_API_KEY") or environ.get(settings.api_key_variable)
    return replace(settings, api_key=key or None)


def store_settings(path: Path, values: Mapping[str, str | None]) -> None:
    """Set these keys in a settings file; None removes one. All else in the file stays as it is.

    A new file can be read by this user only.

    Raises:
        SettingsError: the file cannot be read or written, or its layout is too unusual to be edited.
    """
    given = {name: value for name, value in values.items() if value is not None}
    lines = [f"{name} = {string_literal(value)}\n" for name, value in given.items()]
    try:
        path = path.resolve()
        exists = path.exists()
        text = text_of(read_regular(path, max_bytes=_MAX_FILE_BYTES)) if exists else ""
        edited = _with_lines(text, lines, [n for name in values if (n := _line_of(name, text))])
        others = {name: value for name, value in parse_toml(text).items() if name not in values}
        if parse_toml(edited) != {**others, **given}:
            raise ValueError("its layout is too unusual")
        make_private(path.parent)
        replace_file(path, edited, mode=path.stat().st_mode & 0o777 if exists else 0o600)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the settings file {path} cannot be changed: {error}; write these lines into it yourself:\n"
            + "".join(lines)
        ) from error


def _with_lines(text: str, lines: Sequence[str], replaced: Sequence[int]) -> str:
    """Return a text with these lines in place of the replaced ones, counted from 1; else at its beginning."""
    kept = text.splitlines(keepends=True)
    at = min(replaced, default=1) - 1
    kept = [line for n, line in enumerate(kept, start=1) if n not in replaced]
    return "".join([*kept[:at], *lines, *kept[at:]])


def _from_file(settings: Settings) -> Settings:
    path = settings.config_file
    try:
        text = text_of(read_regular(path, max_bytes=_MAX_FILE_BYTES))
        values = parse_toml(text)
    except FileNotFoundError:
        return settings
    except NotADirectoryError as error:
        raise SettingsError(f"{settings.home} is not a folder; set RAG_HOME to one") from error
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the settings file {path}: {error}; fix or remove it") from error
    set_by, described = {}, {}
    for name in values:
        line = _line_of(name, text)
        set_by[name] = f"{path}, line {line}" if line else str(path)
        described[set_by[name]] = f"{set_by[name]}{', ' if line else ' '}sets {name}"
    return _updated(settings, values, set_by, described)


def _line_of(name: str, text: str) -> int:
    """Return the line where a file sets a key; 0 if it is not recognised."""
    key = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[].=]""")
    return next((n for n, line in enumerate(text.splitlines(), start=1) if key.match(line)), 0)


def _updated(
    settings: Settings, values: Mapping[str, Any], set_by: Mapping[str, str], described: Mapping[str, str]
) -> Settings:
    """Return the settings with these values.

    `set_by` maps a setting to its source, `described` a source to the beginning of a message about it.
    """
    types = {f.name: str(f.type) for f in fields(Settings) if f.name not in NOT_SETTINGS}
    converted: dict[str, Any] = {}
    for name, value in values.items():
        begins = described[set_by[name]]
        if name not in types:
            raise SettingsError(f"{begins}, which is not a setting; the settings are {', '.join(types)}")
        try:
            if name.endswith("_bytes") and isinstance(value, str):
                with suppress(ValueError):  # else it is refused like any number
                    value = parse_size(value)
            converted[name] = _convert(value, types[name])
        except (TypeError, ValueError) as error:
            shown = "…" if name in SECRETS else repr(value)
            raise SettingsError(f"{begins} = {shown}, which cannot be used: {error}") from error
    known = {name: (set_by[name], value) for name, value in converted.items() if name not in SECRETS}
    return replace(settings, **converted, set_by={**settings.set_by, **known})


def read_groups(value: Any) -> Groups:
    """Return the groups in a table of a settings file. Raises ValueError if it is invalid."""
    if not isinstance(value, dict):
        raise ValueError('a table is expected: [groups], then NAME = ["first", "second"]')
    for name, members in value.items():
        if not _GROUP.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a group; use letters, digits, '.', '_' and '-', and not `all`"
            )
        texts = isinstance(members, list) and all(isinstance(one, str) and one for one in members)
        if not texts or not members:
            raise ValueError(f"the group {name} must be a list of at least one repository")
    return tuple((name, tuple(members)) for name, members in value.items())


def read_steps(value: Any) -> Steps:
    """Return the number of steps that a value means. Raises ValueError."""
    if value == AUTO_STEPS:
        return AUTO_STEPS
    is_number = isinstance(value, int | str) and not isinstance(value, bool) and str(value).isdecimal()
    if not is_number or not 0 <= int(value) <= MAX_STEPS:
        raise ValueError(f"it must be {AUTO_STEPS}, or from 0 to {MAX_STEPS}")
    return int(value)


def _convert(value: Any, kind: str) -> Any:
    """Convert a value to the type of its setting. Raises ValueError, TypeError."""
    if kind.startswith("bool"):
        if str(value).lower() not in _SWITCH:
            raise ValueError("on or off is expected")
        return _SWITCH[str(value).lower()]
    if kind == "FactScope":
        if value not in get_args(FactScope):
            raise ValueError(f"one of {', '.join(get_args(FactScope))} is expected")
        return value
    if kind == "Groups":
        return read_groups(value)
    if kind.startswith("str"):
        if not isinstance(value, str):
            raise ValueError("text is expected")
        return value
    if kind == "Steps":
        return read_steps(value)
    whole = kind.startswith("int")
    number: float = math.nan
    if not isinstance(value, bool) and not (whole and isinstance(value, float)):
        with suppress(ValueError, OverflowError):
            number = int(value) if whole else float(value)
    if number != number:
        raise ValueError("a whole number is expected" if whole else "a number is expected")
    largest = MAX_WHOLE if whole else MAX_NUMBER
    if not 0 < number <= largest:
        raise ValueError("it must be above zero" if number <= 0 else f"it must be at most {largest}")
    return number
