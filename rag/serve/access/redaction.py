"""Redaction of this machine's paths in messages to remote callers.

Error messages name files so that the operator can fix a problem. To a remote caller the path is useless and
reveals the layout of the machine, so it is replaced by a name, such as the repository's.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from rag.resources import user_path
from rag.serve.settings import ServerSettings


class PathRedactor:
    """Replaces the paths of the server's folders by names.

    Args:
        settings: the repositories, and the locations of the server's files.
    """

    def __init__(self, settings: ServerSettings) -> None:
        named = {str(Path.home()): "~", tempfile.gettempdir(): "TMPDIR", sys.prefix: "PYTHON"}
        named[str(Path(__file__).resolve().parents[2])] = "RAG"
        memory = settings.engine.memory
        if memory.startswith("sqlite:///"):
            file = user_path(memory.removeprefix("sqlite:///"))
            named[str(file)] = file.name
        home = settings.engine.home
        named |= {str(home): "RAG_HOME", str(home.resolve()): "RAG_HOME"}
        for name, source in reversed(settings.repositories):
            if not source.is_url:
                named[source.location] = name
        self._named = {path: name for path, name in named.items() if len(Path(path).parts) > 1}
        longest_first = sorted(self._named, key=len, reverse=True)
        paths = "|".join(map(re.escape, longest_first))
        self._path = re.compile(rf"(?<![\w./-])(?:{paths})(?![\w-]|\.\w)")

    def redact(self, text: str) -> str:
        """Return the text with each folder's path replaced by its name; the path below it stays."""
        return self._path.sub(lambda match: self._named[match[0]], text)
