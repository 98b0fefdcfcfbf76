"""Pieces of text become an answer whose citations were really shown."""
