"""A question in context becomes ranked hits."""
