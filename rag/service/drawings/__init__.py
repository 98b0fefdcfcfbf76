"""Draws the calls of a repository."""
