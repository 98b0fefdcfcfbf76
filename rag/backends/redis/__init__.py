"""Turns, messages and records on a Redis or Valkey, one server or a cluster. `turns` is the store."""
