"""A source becomes chunks: acquire, walk, read, chunk. What their text says is in `rag.code`."""

CHUNKER_VERSION = 3
"""Part of every store's fingerprint: a change of how files are cut makes old stores unusable."""

SECRET_RULES_VERSION = "gitleaks-8.30.1+1"
"""Part of every store's fingerprint: stores made with other rules (data/secrets) are rebuilt."""
