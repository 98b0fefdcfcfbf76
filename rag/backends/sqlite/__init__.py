"""Turns, messages and records in a SQLite file: the default memory. `turns` is the store."""
