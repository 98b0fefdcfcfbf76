"""Text by a model for the pages, and what it must not claim."""
