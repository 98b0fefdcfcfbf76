"""A source becomes chunks: acquire, walk, read, chunk."""

CHUNKER_VERSION = 3
"""Part of every store's fingerprint: a change of how files are cut makes old stores unusable."""
