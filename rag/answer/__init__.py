"""Turn streamed text into an answer that cites only sources which were shown."""
