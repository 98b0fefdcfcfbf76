"""Import AdalFlow so that it works offline and logs nothing: `from rag.adal import adalflow`.

AdalFlow builds a tokenizer at import, which downloads an encoding unless one is present: the shipped one is
used, unless the user names another folder. It logs a warning at import, and every failure that we raise
anyway: without a handler, Python would print those to stderr. A program that configures logging gets them.
"""

from __future__ import annotations

import logging
import os

from rag.resources import shipped

os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(shipped("data/encodings")))
logging.getLogger("adalflow").addHandler(logging.NullHandler())

import adalflow  # noqa: E402 (it needs the lines above)

__all__ = ["adalflow"]
