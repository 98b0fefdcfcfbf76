"""Turns, messages and records on a Redis or Valkey. `turns` is the store."""
