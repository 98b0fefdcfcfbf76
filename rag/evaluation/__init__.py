"""Evaluate retrieval and answers on any set of questions."""
