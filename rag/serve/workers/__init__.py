"""Work outside the event loop: indexing, preparing and storing, in child processes and threads."""
