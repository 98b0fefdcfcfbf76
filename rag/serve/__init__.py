"""The server: every door onto one engine. `rag.serve.app.create_app` builds it; `rag serve` runs it."""
