"""The web page at `/`. Its source is in `static/`."""
