"""What the folders of this machine are called to callers from elsewhere.

Errors name files, so that whoever runs the server can mend something. To a caller who is not on this machine
the path is of no use, and tells how the machine is laid out; the name of the repository says the same.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from rag.serve.settings import ServerSettings


class Folders:
    """The folders that the server knows of, with what each is called instead of its path.

    Args:
        settings: which repositories there are, and where things are kept.
    """

    def __init__(self, settings: ServerSettings) -> None:
        named = {str(Path.home()): "~", tempfile.gettempdir(): "TMPDIR", sys.prefix: "PYTHON"}
        named[str(Path(__file__).resolve().parents[2])] = "RAG"
        if settings.keys_file is not None:
            named[str(settings.keys_file.absolute())] = settings.keys_file.name
        memory = settings.engine.memory
        if memory.startswith("sqlite:///"):
            file = Path(memory.removeprefix("sqlite:///")).expanduser().absolute()
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

    def hidden(self, text: str) -> str:
        """The text with each of the folders by its name; what lies below one is told as before."""
        return self._path.sub(lambda found: self._named[found[0]], text)
