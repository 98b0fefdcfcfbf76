"""Turns, messages and records in this process. `turns` is the store."""
