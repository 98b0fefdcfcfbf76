"""The configuration of coding agents: our entry in their files, written and removed."""
