"""Where git may connect to while a repository is opened, for a door that looked at the place first."""

from rag.corpus.git import going_nowhere_else

__all__ = ["going_nowhere_else"]
