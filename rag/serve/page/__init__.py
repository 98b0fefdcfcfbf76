"""`/`: the web page. `static/` is its source."""
