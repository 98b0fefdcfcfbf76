"""Conversations, turns, messages and records: their meaning, over the storage of a backend (`storage`)."""
