"""Work outside the event loop, in child processes and threads: indexing, preparing and storing."""
