"""Programs for those who develop rag. Nothing here is part of the package that is installed."""
