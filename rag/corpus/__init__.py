"""Acquire a source, list its files, read them and cut them into chunks. `rag.code` parses their text."""

CHUNKER_VERSION = 7
"""Part of every store's fingerprint: a change of the chunking rules makes old stores unusable."""

SECRET_RULES_VERSION = "gitleaks-8.30.1+1"
"""Part of every store's fingerprint: stores made with other rules (data/secrets) are rebuilt."""
