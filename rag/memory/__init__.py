"""Memory: past turns, facts, preferences and summaries for prompts, and their freshness."""
