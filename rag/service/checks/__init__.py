"""Compares what is remembered and written with the code: turns, facts, texts, changes, sessions of agents."""
