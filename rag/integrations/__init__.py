"""Parts of other programs: the configuration of coding agents."""
