"""The command `rag`, also as `python -m rag`. Ctrl-C during imports exits with 130, without a traceback."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> None:
    """Run the command line."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller ignores it
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    # No other import may come before: the current folder may contain modules of any name.
    from rag.processes import drop_current_folder

    drop_current_folder()
    from rag.cli import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _end(*_: object) -> NoReturn:
    os._exit(130)  # an exception would print a traceback, or be handled as a missing module


if __name__ == "__main__":
    main()
