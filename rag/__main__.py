"""`python -m rag` is the command `rag`."""

from rag.cli import main

main()
