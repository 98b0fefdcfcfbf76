"""The answer cache."""
