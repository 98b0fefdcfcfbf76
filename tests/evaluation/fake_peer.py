"""A system for tests: `fake_peer.py FOLDER [MODE]` finds the files that hold words of the question."""

import json
import sys
from pathlib import Path


def main() -> None:
    root, mode = Path(sys.argv[1]), (sys.argv[2] if len(sys.argv) > 2 else "")
    if mode == "dies":
        sys.stderr.write("no model found\n")
        sys.exit(7)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    texts = {path.relative_to(root).as_posix(): path.read_text(errors="replace") for path in paths}
    print(json.dumps({"ready": True, "chunks": len(texts), "history": mode == "history"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        asked = " ".join([*request["history"], request["query"]]).lower().split()
        scores = {path: sum(word in text.lower() for word in asked) for path, text in texts.items()}
        best = sorted((path for path in texts if scores[path]), key=lambda path: -scores[path])
        results = [
            {
                "path": str(root / path) if mode == "absolute" else path,
                "start": 1,
                "end": texts[path].count("\n") + 1,
                "symbol": "",
                "score": scores[path],
            }
            for path in best[: request["k"]]
        ]
        if mode == "silent":
            print(json.dumps({"id": request["id"], "error": "too tired"}), flush=True)
        else:
            print(json.dumps({"id": request["id"], "results": results}), flush=True)


main()
