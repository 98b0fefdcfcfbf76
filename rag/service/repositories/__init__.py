"""Opens repositories: what the settings name, sources and their indexes, and what keeps these current."""
