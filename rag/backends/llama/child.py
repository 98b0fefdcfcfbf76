"""The child process that serves a model: `rag.backends.llama.server` starts and ends it.

Its input is one line of JSON (path, context_tokens, threads, name, key); its output is one line of JSON with
the address, as soon as the model is loaded. It ends when its input ends, which happens when the parent closes
it or dies, whatever the parent dies of. Native code runs only here: a file that makes it crash ends this
process and no other.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import sys
from typing import Any

_ERRORS = 1
_PROMPT_CACHE_MIB = 0
_CONTEXT_CHECKPOINTS = 4


def main() -> None:
    """Serve the model that the input names until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reply = os.dup(1)
    os.dup2(2, 1)  # native code may print
    wanted = json.loads(sys.stdin.buffer.readline())
    _end_with_input()
    server = _serving(wanted)
    os.write(reply, json.dumps({"address": server.listening_address}).encode() + b"\n")
    os.close(reply)
    sys.stdin.buffer.read()
    os._exit(0)  # the server's threads are not waited for


def _end_with_input() -> None:
    """End this process by a signal when the input ends, even while native code holds the interpreter."""
    if sys.platform == "linux":
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([0], [], [], 0)[0]:  # it had ended before
            os._exit(0)


def _serving(wanted: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = wanted["path"], {wanted["name"]}
    params.n_ctx, params.n_parallel = wanted["context_tokens"], 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    params.cache_ram_mib, params.n_ctx_checkpoints = _PROMPT_CACHE_MIB, _CONTEXT_CHECKPOINTS
    params.warmup, params.ui, params.endpoint_slots, params.fit_params = False, False, False, False
    params.verbosity = _ERRORS
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [wanted["key"]]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
