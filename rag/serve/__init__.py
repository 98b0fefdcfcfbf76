"""The server: the interfaces to one engine. `rag.serve.app.create_app` builds it, `rag serve` runs it."""
