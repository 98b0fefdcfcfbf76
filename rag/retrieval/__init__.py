"""Retrieval: find and rank the chunks that answer a question in its conversation."""
