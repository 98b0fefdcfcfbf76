"""The Model Context Protocol over HTTP (streamable HTTP at /mcp); what it does is in `rag.mcp`."""
