"""Answers given before, for questions that mean the same: the cache, and the equivalence of questions."""
