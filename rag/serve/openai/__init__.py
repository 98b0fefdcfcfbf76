"""`/v1`: the OpenAI protocol."""
