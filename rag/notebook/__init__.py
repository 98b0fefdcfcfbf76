"""`%load_ext rag`: ask in a notebook, with `%ask` and `%%ask`."""
