"""Import AdalFlow so that it works offline and logs nothing: `from rag.adal import adalflow`.

AdalFlow builds a tokenizer at import, which downloads an encoding unless one is present: the shipped one is
used, unless the user names another folder. It logs a warning at import, and every failure that we raise
anyway: without a handler, Python would print those to stderr. A program that configures logging gets them.

AdalFlow imports the MCP SDK where it is installed, for tools that we do not use, in half of the time of the
import. Here it is imported when these tools are used.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from rag.resources import shipped

_MCP_TOOLS = "adalflow.core.mcp_tool"

os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(shipped("data/encodings")))
logging.getLogger("adalflow").addHandler(logging.NullHandler())
_is_first = "adalflow" not in sys.modules
if _is_first:
    sys.modules[_MCP_TOOLS] = None  # type: ignore[assignment] # then an import of it fails, as without the SDK

import adalflow  # noqa: E402 (it needs the lines above)

__all__ = ["adalflow"]


def _mcp_tool(name: str) -> Any:
    """Return a name of `adalflow.core` that is None without an MCP SDK that AdalFlow supports."""
    if name not in {"MCPFunctionTool", "MCPToolManager"}:
        raise AttributeError(f"module 'adalflow.core' has no attribute {name!r}")
    with suppress(ImportError):
        return getattr(import_module(_MCP_TOOLS), name)
    return None


if _is_first:
    del sys.modules[_MCP_TOOLS], adalflow.core.MCPFunctionTool, adalflow.core.MCPToolManager
    adalflow.core.__getattr__ = _mcp_tool
