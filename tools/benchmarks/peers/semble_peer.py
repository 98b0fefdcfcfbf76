"""semble, hybrid, with its own defaults: `semble_peer.py FOLDER`.

SEMBLE_MODEL_NAME names a local Model2Vec folder (setup.sh makes one from WordLlama's table); semble's own
model comes from a hub. Its index cache is a new folder each time, so that "ready" means: built from nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile

from protocol import Result, result, serve


def main() -> None:
    if "SEMBLE_MODEL_NAME" not in os.environ:
        sys.exit("semble_peer.py: set SEMBLE_MODEL_NAME to the model folder that setup.sh made")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(SEMBLE_CACHE_LOCATION=cache, HF_HUB_OFFLINE="1")
        from semble import SembleIndex

        index = SembleIndex.from_path(sys.argv[1])

        def search(query: str, k: int) -> list[Result]:
            found = ((hit.chunk, hit.score) for hit in index.search(query, top_k=k))
            return [result(c.file_path, c.start_line, c.end_line, score) for c, score in found]

        serve(search, chunks=len(index.chunks))


if __name__ == "__main__":
    main()
