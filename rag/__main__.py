"""The command `rag`, also as `python -m rag`. While the rest is imported Ctrl-C just ends it, with 130."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> None:
    """Run the command line."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is to be ignored
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    # No import but ours may come before: the current folder may hold modules of any name.
    from rag.processes import drop_current_folder

    drop_current_folder()
    from rag.cli import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _end(*_: object) -> NoReturn:
    os._exit(130)  # an exception would end as a traceback, or in an import that takes it for a missing module


if __name__ == "__main__":
    main()
