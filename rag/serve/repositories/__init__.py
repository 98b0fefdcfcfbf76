"""The served repositories: their names, their state, and the registry that keeps them indexed."""
