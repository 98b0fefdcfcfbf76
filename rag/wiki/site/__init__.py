"""The folder of a wiki: its pages, its state, and its settings for MkDocs."""
