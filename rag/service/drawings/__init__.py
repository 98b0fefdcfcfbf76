"""Draws the calls and imports of a repository."""
