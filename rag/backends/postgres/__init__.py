"""Turns, messages and records in a Postgres database. `turns` is the store."""
