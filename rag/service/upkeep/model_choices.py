"""The language models that a user has already: keys in the environment, servers on this machine, commands.

Only this machine is contacted: the servers at their usual ports are asked for the names of their models, in
parallel, with a short timeout and a limit on the reply. Where a key or a command leads is not contacted.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rag import backends
from rag.backends.openai.endpoint import DEFAULT_OPENAI_MODEL, OPENAI_URL, host_of, list_models
from rag.errors import RagError, SettingsError
from rag.processes import search_path
from rag.resources import shipped
from rag.settings import Settings

_TIMEOUT_S = 1.0
_MAX_MODELS = 8
"""How many models of one server are listed; others are named with `--model`."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A language model that can be configured, or an embedding model as second stage of the search.

    Attributes:
        name: its provider, server or command.
        model: the name of the model; "" if the user has to name one. A command is `cmd:` and its line.
        base_url: the address of its server; None for OpenAI's, and for a command.
        api_key_variable: the name of the environment variable with the key.
        sends_to: who receives questions and excerpts of the code; "" if they stay on this machine.
        reranks: it is an embedding model.
    """

    name: str
    model: str
    base_url: str | None = None
    api_key_variable: str = ""
    sends_to: str = ""
    reranks: bool = False

    @property
    def settings(self) -> dict[str, str | None]:
        """Return the values of the settings file for this choice; None removes one."""
        if self.reranks:
            return {"reranker": f"openai:{self.model}", "embedding_base_url": self.base_url}
        return {
            "model": self.model,
            "base_url": self.base_url,
            "api_key_variable": self.api_key_variable or None,
            "client": None,
        }

    def changes(self, before: Settings) -> dict[str, str | None]:
        """Return the changes of the settings file. Embeddings keep the server that they share now.

        Raises:
            SettingsError: the index is embedded by another server, and there is one address for both.
        """
        if self.reranks:
            server = before.embedding_base_url or before.base_url
            if before.embedder.startswith("openai:") and server != self.base_url:
                raise SettingsError(
                    f"the embedder asks {server or OPENAI_URL}; the second stage can only ask the same server"
                )
            return self.settings
        shares = before.embeds_on_a_server and not before.embedding_base_url
        if not shares or self.base_url == before.base_url:
            return self.settings
        return {**self.settings, "embedding_base_url": before.base_url or OPENAI_URL}

    def with_model(self, model: str) -> ModelChoice:
        """Return the same choice with another model."""
        if self.name == _OLLAMA and self.base_url is None:
            return replace(self, model=f"cmd:ollama run {model}", sends_to=_ollama_sends_to(model))
        if self.model.startswith("cmd:"):
            raise SettingsError(f'{self.name} is a command; name its model in it: --use cmd:"{self.name} …"')
        sends_to = _ollama_sends_to(model) if self.name == _OLLAMA else self.sends_to
        return replace(self, model=model, sends_to=sends_to)


@dataclass(frozen=True, slots=True)
class FoundModels:
    """What was found: the choices in their order, embedding models last."""

    choices: tuple[ModelChoice, ...]

    def chosen(self, wanted: str) -> ModelChoice:
        """Return the choice with this number, counted from 1, or name; or any command, as `cmd:LINE`.

        Raises:
            SettingsError: there is none.
        """
        if wanted.startswith("cmd:"):
            return ModelChoice("command", wanted, sends_to="whom the command asks")
        for number, choice in enumerate(self.choices, start=1):
            if wanted in (str(number), choice.name):
                return choice
        names = ", ".join(dict.fromkeys(choice.name for choice in self.choices)) or "nothing"
        raise SettingsError(f"there is no choice {wanted!r}; found: {names}. `rag setup` lists them")


_KEYS = (
    ("openai", ("OPENAI_API_KEY",), None, DEFAULT_OPENAI_MODEL),
    ("anthropic", ("ANTHROPIC_API_KEY",), "https://api.anthropic.com/v1", "claude-sonnet-4-5"),
    (
        "google",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
    ),
    ("mistral", ("MISTRAL_API_KEY",), "https://api.mistral.ai/v1", "mistral-medium-latest"),
    ("openrouter", ("OPENROUTER_API_KEY",), "https://openrouter.ai/api/v1", "openrouter/auto"),
    ("groq", ("GROQ_API_KEY",), "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
    ("deepseek", ("DEEPSEEK_API_KEY",), "https://api.deepseek.com/v1", "deepseek-chat"),
)
"""The name of each provider, the variables of its key, its OpenAI-compatible address, and a usual model."""

_OLLAMA = "ollama"
_PORTS = {_OLLAMA: 11434, "lm-studio": 1234, "llama-server": 8080, "vllm": 8000}
_HERE = re.compile(r"(?:http://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)?(?::(\d{1,5}))?/?")
_COMMANDS = (
    ("claude", 'claude -p --tools "" --strict-mcp-config', "Anthropic"),
    ("codex", "codex exec --skip-git-repo-check -", "OpenAI"),
    ("gemini", "gemini", "Google"),
    ("llm", "llm", "the service of its default model"),
)
"""Commands that read a prompt from their standard input, and who they usually ask.

An agent gets text of a repository, which is not trusted: it is started without tools where it has an option
for that. Codex may read files, but is in its read-only sandbox.
"""
_EMBEDDING_NAMES = ("embed", "minilm", "bge-", "/e5-", "gte-")
_NO_MODELS = ("rag:", "cmd:")
"""The models of `rag serve`, which may have the port of another server, are repositories; a server chooses no
command.
"""
_MAX_NAME_CHARS = 200


def find_models(environ: Mapping[str, str] | None = None) -> FoundModels:
    """Return the models of this machine and of the keys in the environment, what stays here first."""
    environ = os.environ if environ is None else environ
    addresses = _addresses(environ)
    with ThreadPoolExecutor(len(addresses)) as pool:
        listed = dict(zip(addresses, pool.map(_models_at, addresses.values()), strict=True))
    choices = [
        *(_of_servers(addresses, listed)),
        *(_of_commands(environ, has_ollama=bool(listed[_OLLAMA]))),
        *(_of_keys(environ)),
        *(_of_embeddings(addresses, listed)),
    ]
    return FoundModels(tuple(choices))


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """The reply of a model to one small question."""

    model: str
    reply: str
    seconds: float


def check_model(settings: Settings) -> CheckedModel:
    """Send one small question to the configured model.

    Raises:
        SettingsError: there is none, or it cannot be opened.
        ProviderError: it failed.
    """
    if not settings.has_model:
        raise SettingsError("no model is configured; `rag setup` finds one")
    generator = backends.open_generator(settings)
    question = (shipped("templates") / "check.md").read_text(encoding="utf-8")
    began = time.perf_counter()
    reply = generator.complete(question)
    return CheckedModel(generator.model, reply, time.perf_counter() - began)


def _addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of servers on this machine; OLLAMA_HOST may name another port of it."""
    named = _HERE.fullmatch(environ.get("OLLAMA_HOST", "").strip())
    ports = {**_PORTS, _OLLAMA: int(named[1])} if named and named[1] else _PORTS
    return {name: f"http://127.0.0.1:{port}/v1" for name, port in ports.items()}


def _models_at(url: str) -> list[str]:
    """Return the models of a server on this machine; [] if there is no server of models."""
    try:
        return list(filter(_is_model, list_models(url, None, _TIMEOUT_S)))
    except RagError:
        return []


def _is_model(name: str) -> bool:
    """Return whether a name that a server lists can be stored and shown as that of its model."""
    return name.isprintable() and len(name) <= _MAX_NAME_CHARS and not name.strip().startswith(_NO_MODELS)


def _embeds(model: str) -> bool:
    return any(part in f"/{model.lower()}" for part in _EMBEDDING_NAMES)


def _of_servers(addresses: Mapping[str, str], listed: Mapping[str, list[str]]) -> Iterator[ModelChoice]:
    for server, models in listed.items():
        for model in [model for model in models if not _embeds(model)][:_MAX_MODELS]:
            sends_to = _ollama_sends_to(model) if server == _OLLAMA else ""
            yield ModelChoice(server, model, addresses[server], sends_to=sends_to)


def _of_embeddings(addresses: Mapping[str, str], listed: Mapping[str, list[str]]) -> Iterator[ModelChoice]:
    for server, models in listed.items():
        for model in list(filter(_embeds, models))[:_MAX_MODELS]:
            yield ModelChoice(server, model, addresses[server], reranks=True)


def _ollama_sends_to(model: str) -> str:
    """Return who receives what Ollama is asked: some of its models run at its makers'."""
    return "ollama.com" if model.endswith(("-cloud", ":cloud")) else ""


def _of_commands(environ: Mapping[str, str], *, has_ollama: bool) -> Iterator[ModelChoice]:
    path = search_path(environ.get("PATH", os.defpath))
    for name, line, sends_to in _COMMANDS:
        if shutil.which(name, path=path):
            yield ModelChoice(name, f"cmd:{line}", sends_to=sends_to)
    if not has_ollama and shutil.which(_OLLAMA, path=path):
        yield ModelChoice(_OLLAMA, "")


def _of_keys(environ: Mapping[str, str]) -> Iterator[ModelChoice]:
    for name, variables, url, model in _KEYS:
        for variable in [variable for variable in variables if environ.get(variable)][:1]:
            named = environ.get("OPENAI_BASE_URL") if name == "openai" else url
            yield ModelChoice(name, model, named or url, variable, host_of(named))
