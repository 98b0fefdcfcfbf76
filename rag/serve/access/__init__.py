"""Who may ask what, and how much: keys, rate limits, bounds on requests, redaction of paths, SSRF checks."""
