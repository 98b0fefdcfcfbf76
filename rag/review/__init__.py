"""What a change of a repository makes false: changed symbols, their callers, their tests, stored answers."""
