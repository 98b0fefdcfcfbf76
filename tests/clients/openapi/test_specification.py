"""The server does what its specification says, whatever it is sent.

Schemathesis makes requests from /openapi.json, well-formed and not, one after another and in sequence, and
compares every answer with what is written there. Always the same requests; more of them, as before a release:

    make test-clients-openapi SCHEMATHESIS_EXAMPLES=200
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from serving import serving

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "20")
CONFIG = Path(__file__).with_name("schemathesis.toml")


def test_no_request_finds_the_specification_wrong(tmp_path):
    (tmp_path / "server").mkdir()
    shutil.copy(CONFIG, tmp_path)
    schemathesis = str(Path(sys.executable).with_name("schemathesis"))
    checks = ["--checks", "all", "--max-examples", EXAMPLES, "--seed", "7", "--generation-database", "none"]
    with serving(tmp_path / "server", "--deepwiki") as url:
        command = [schemathesis, "--no-color", "run", f"{url}/openapi.json", *checks]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    assert re.search(r"(\d{4,}) generated, \1 passed", done.stdout), done.stdout[-2_000:]
