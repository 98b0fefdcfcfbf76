"""The pickled embedding store, and the update of only what changed."""
