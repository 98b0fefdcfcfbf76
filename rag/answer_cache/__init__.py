"""The answer cache, and the equivalence of questions that it relies on."""
