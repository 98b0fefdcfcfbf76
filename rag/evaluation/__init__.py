"""Retrieval metrics on anybody's questions."""
