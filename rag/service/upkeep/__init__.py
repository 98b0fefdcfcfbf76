"""Keeps the data folder and the turn store in order: retention, backup, storage, namespaces, set-up."""
