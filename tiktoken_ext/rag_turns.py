"""A plugin of tiktoken that makes `import adalflow` work without a network, also before `import rag`.

AdalFlow loads the encoding `cl100k_base` at import, which tiktoken downloads unless it is in its cache.
tiktoken imports its plugins before it loads an encoding; this one puts the file that `rag` ships into
tiktoken's default cache, as a download would. It adds no encoding, and does nothing if the environment names
another cache.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

ENCODING_CONSTRUCTORS: dict[str, object] = {}
"""tiktoken reads this name of every plugin."""

_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"


def _fill_cache() -> None:
    from rag.resources import shipped

    cached = Path(tempfile.gettempdir(), "data-gym-cache", _FILE)
    if cached.exists():
        return
    cached.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
        copied = shutil.copyfile(shipped("data/encodings") / _FILE, Path(folder, _FILE))
        copied.replace(cached)


if not {"TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"} & set(os.environ):
    with suppress(OSError):  # a folder that cannot be written: tiktoken downloads the file, as without this
        _fill_cache()
