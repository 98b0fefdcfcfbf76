"""AdalFlow, imported so that it works offline and keeps quiet: `from rag.adal import adalflow`.

AdalFlow builds a tokenizer while it is imported, which downloads an encoding unless one is at hand: ours
is, unless the user names another folder. It logs a warning at import and every failure that we raise
anyway: without a handler, Python would print those to stderr. A program that configures logging sees them.
"""

from __future__ import annotations

import logging
import os

from rag.resources import shipped

os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(shipped("data/encodings")))
logging.getLogger("adalflow").addHandler(logging.NullHandler())

import adalflow  # noqa: E402 (the lines above are what makes it work)

__all__ = ["adalflow"]
