"""Download the scripts of the web page from npm, and check them: `python -m tools.page_vendor`.

Needs npm. `manifest.json` names each file's package, version, place in it and SHA-256. A file that
differs is not written. With `--write` the manifest is updated instead: for a new version, after reading it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parent.parent / "rag/serve/page/static/vendor"
MANIFEST = VENDOR / "manifest.json"


def main() -> int:
    """Obtain every file of the manifest; 1 when one is not what the manifest says."""
    manifest: list[dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    wrong = 0
    for package in manifest:
        content = _packed(f"{package['package']}@{package['version']}")
        for file in package["files"]:
            data = content[f"package/{file['from']}"]
            digest = hashlib.sha256(data).hexdigest()
            if "--write" in sys.argv[1:]:
                file["sha256"] = digest
            elif digest != file["sha256"]:
                sys.stderr.write(f"{file['name']}: {digest}, but the manifest says {file['sha256']}\n")
                wrong = 1
                continue
            (VENDOR / file["name"]).write_bytes(data)
    if "--write" in sys.argv[1:]:
        MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return wrong


def _packed(package: str) -> dict[str, bytes]:
    """The files of a package as npm has it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as files:
            return {m.name: files.extractfile(m).read() for m in files if m.isfile()}  # type: ignore[union-attr]


if __name__ == "__main__":
    sys.exit(main())
