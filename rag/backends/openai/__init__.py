"""Model servers that speak the OpenAI protocol: client, streams, errors, limits, embeddings."""
