"""One budget; question, turns and hits become a prompt with numbered sources."""
