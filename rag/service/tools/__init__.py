"""Finds code for people, agents and models: search, explore, overview, history of a definition."""
