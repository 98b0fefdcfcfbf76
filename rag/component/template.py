"""The shipped prompt under DeepWiki's name."""

from rag.resources import shipped

RAG_TEMPLATE = (shipped("templates") / "answer.j2").read_text(encoding="utf-8")
"""The text of the prompt for an answer; change it and pass it as `RAG(template=…)`."""
