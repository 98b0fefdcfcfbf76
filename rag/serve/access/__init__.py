"""Access control: keys, rate limits, request limits, redaction of paths, SSRF checks."""
