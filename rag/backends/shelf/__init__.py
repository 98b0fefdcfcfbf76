"""Shared stores: what a shelf means, a disk cache, and its places: a folder, or object storage."""
