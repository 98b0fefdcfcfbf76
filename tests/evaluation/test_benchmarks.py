import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_benchmark_without_its_input_says_so_and_is_no_failure(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.benchmarks",
            "--only",
            "speed",
            "--cache",
            str(tmp_path),
            "--results",
            str(tmp_path / "r"),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not measured: Django 5.2: cannot fetch Django-5.2.tar.gz" in done.stdout
