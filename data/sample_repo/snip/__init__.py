"""A small link shortener."""

__version__ = "1.4.0"
