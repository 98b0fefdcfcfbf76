"""A source becomes chunks: acquire, walk, read, chunk."""
