"""Asks: a conversation, the steps from a question to its stored turn, and what is said of its places."""
