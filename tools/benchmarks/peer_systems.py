"""The other systems as commands; they are installed when first asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rag.evaluation.systems import System
from rag.resources import shipped
from tools.benchmarks.bench import HERE, NotMeasured

_SCRIPTS = {"bm25": "bm25.py", "adalflow": "adalflow_pipeline.py", "semble": "semble_peer.py"}


def peer_systems(folder: Path) -> list[System]:
    """BM25, the AdalFlow pipeline and semble, installed below `folder`.

    Raises:
        NotMeasured: they cannot be installed.
    """
    shell = shutil.which("sh")
    if shell is None:
        raise NotMeasured("the peers: setup.sh needs a shell")
    setup = HERE / "peers" / "setup.sh"
    done = subprocess.run(
        [shell, str(setup), str(folder)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMeasured(f"the peers ({setup} {folder} failed: {done.stderr.strip()[-500:]})")
    return [_system(name, script, folder) for name, script in _SCRIPTS.items()]


def _system(name: str, script: str, folder: Path) -> System:
    settings = (
        f"SEMBLE_MODEL_NAME={folder / 'model'}",
        f"PEER_MODEL={folder / 'model'}",
        f"TIKTOKEN_CACHE_DIR={shipped('data/encodings')}",
    )
    python = folder / name / "bin" / "python"
    return System(name, ("env", *settings, str(python), str(HERE / "peers" / script), "{path}"))
