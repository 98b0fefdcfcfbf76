"""AdalFlow model clients by name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rag.adal import adalflow
from rag.backends.openai.client import OpenAICompatibleClient
from rag.errors import AuthenticationFailed, BackendMissing, SettingsError

_FOREIGN = "adalflow.components.model_client"
CLIENTS: Mapping[str, str] = {
    "anthropic": f"{_FOREIGN}.anthropic_client.AnthropicAPIClient",
    "azure": f"{_FOREIGN}.azureai_client.AzureAIClient",
    "bedrock": f"{_FOREIGN}.bedrock_client.BedrockAPIClient",
    "cohere": f"{_FOREIGN}.cohere_client.CohereAPIClient",
    "deepseek": f"{_FOREIGN}.deepseek_client.DeepSeekClient",
    "fireworks": f"{_FOREIGN}.fireworks_client.FireworksClient",
    "google": f"{_FOREIGN}.google_client.GoogleGenAIClient",
    "groq": f"{_FOREIGN}.groq_client.GroqAPIClient",
    "mistral": f"{_FOREIGN}.mistral_client.MistralClient",
    "ollama": f"{_FOREIGN}.ollama_client.OllamaClient",
    "sambanova": f"{_FOREIGN}.sambanova_client.SambaNovaClient",
    "together": f"{_FOREIGN}.together_client.TogetherClient",
    "transformers": f"{_FOREIGN}.transformers_client.TransformersClient",
    "xai": f"{_FOREIGN}.xai_client.XAIClient",
}
"""AdalFlow's own clients by short name; others are named by their full path."""


def model_client(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_variable: str = "",
    timeout_s: float = 120.0,
    first_byte_s: float | None = None,
    at_once: int | None = None,
) -> Any:
    """Return the AdalFlow ModelClient named "openai" (ours), a key of `CLIENTS`, or a dotted path.

    AdalFlow's own clients read their keys from their own environment variables; they get `api_key` only if
    it differs from OpenAI's. `key_variable` is what error messages name. `timeout_s`, `first_byte_s` and
    `at_once` are those of our client.

    Raises:
        SettingsError: there is no such client, or it cannot be created from these settings.
        BackendMissing: its package is not installed.
        AuthenticationFailed: its key is missing.
    """
    if name == "openai":
        variable = key_variable or ("RAG_API_KEY (or OPENAI_API_KEY)" if base_url else "OPENAI_API_KEY")
        return OpenAICompatibleClient(
            base_url,
            api_key,
            timeout_s,
            key_variable=variable,
            first_byte_s=first_byte_s,
            at_once=at_once,
        )
    path = CLIENTS.get(name, name)
    module, dot, attribute = path.rpartition(".")
    known = f"; the clients are openai, {', '.join(CLIENTS)}, or a path such as package.module.Client"
    if not dot:
        raise SettingsError(f"there is no model client {name!r}{known}")
    try:
        made = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise SettingsError(
                f"there is no model client {name!r}: no module {error.name}{known}"
            ) from error
        raise BackendMissing(backend=f"the model client {name!r}", missing=str(error.name)) from error
    except ImportError as error:
        packages = str(error).rpartition("pip install ")[2]  # AdalFlow's message ends with the command
        raise BackendMissing(backend=f"the model client {name!r}", missing=packages) from error
    except AttributeError as error:
        raise SettingsError(f"there is no model client {name!r}: {error}{known}") from error
    return _constructed(made, name, base_url=base_url, api_key=api_key)


def _constructed(made: Any, name: str, *, base_url: str | None, api_key: str | None) -> Any:
    if not (inspect.isclass(made) and issubclass(made, adalflow.core.model_client.ModelClient)):
        raise SettingsError(f"{name!r} is not an AdalFlow ModelClient")
    takes = inspect.signature(made).parameters
    given: dict[str, Any] = {}
    for parameter in ("base_url", "host"):
        if base_url and parameter in takes:
            given[parameter] = base_url
    if api_key and "api_key" in takes and api_key != os.environ.get("OPENAI_API_KEY"):
        given["api_key"] = api_key
    try:
        return made(**given)
    except ValueError as error:  # AdalFlow's clients raise it if their environment variable is not set
        raise AuthenticationFailed(f"{name}: {error}", provider=name, retryable=False) from error
    except TypeError as error:
        raise SettingsError(f"cannot create the model client {name!r} from settings: {error}") from error
