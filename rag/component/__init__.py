"""The three AdalFlow classes: DatabaseManager, Memory, RAG."""
