"""Ask a running server over HTTP, and print the answer while it is written."""

import json
import sys
from urllib.request import Request, urlopen

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"

with urlopen(f"{URL}/api/repositories") as reply:
    repository = json.load(reply)[0]["name"]
body = {"question": "Where is a token checked?", "repositories": [repository], "stream": True}
request = Request(f"{URL}/api/ask", json.dumps(body).encode(), {"Content-Type": "application/json"})
with urlopen(request, timeout=120) as reply:
    for line in reply:
        if line.startswith(b"data: "):
            event = json.loads(line.removeprefix(b"data: "))
            print(event.get("text", ""), end="")
