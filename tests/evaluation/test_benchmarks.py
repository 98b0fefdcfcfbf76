import os
import re
import subprocess
import sys
from pathlib import Path

from rag.evaluation import evaluate
from tools.benchmarks.bench import Bench, not_measured, show, show_quality
from tools.benchmarks.report import keep_run, write_report

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
    assert "not measured: Django 5.2" in (tmp_path / "report.html").read_text()


def test_the_report_shows_what_was_measured_and_says_what_was_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path, tmp_path / "results")
    show("Side by side", ["system", "query ms"], [("ours", "1.50 / 2.00"), ("<theirs>", "30")])
    not_measured("the peers")
    keep_run(bench, "scale", "How it grows.", 0.0, 12.0)
    page = write_report(bench, {"scale": "How it grows.", "dev": "Quality."}).read_text()
    for shown in (
        "1.50 / 2.00",
        "&lt;theirs&gt;",
        "1970-01-01",
        "not measured: the peers",
    ):
        assert shown in page
    assert "not measured: run `make bench ONLY=dev`" in page
    assert not re.search(r"https?://|<script|<theirs>", page)
    keep_run(bench, "dev", "Quality.", 0.0, 1.0, failed="no room")
    again = write_report(bench, {"scale": "How it grows.", "dev": "Quality."}).read_text()
    assert "no room" in again
    assert "1.50 / 2.00" in again, "a run of one benchmark keeps the others"


def test_the_report_lists_the_questions_of_a_saved_evaluation(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path, tmp_path / "results")
    bench.results.mkdir()
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "Where are sessions signed?", "answers": [{"path": "snip/sessions.py"}]}\n')
    found = evaluate(CHECKOUT / "data" / "sample_repo", file)
    found.save(bench.results / "dev.json")
    show_quality("Quality", found.summary, "dev")
    keep_run(bench, "dev", "Quality.", 0.0, 1.0)
    page = write_report(bench, {"dev": "Quality."}).read_text()
    assert "Where are sessions signed?" in page
    assert "<h3>Found</h3>" in page
    assert page.count("<script") == 1
    (bench.results / "dev.json").unlink()
    assert "Where are sessions signed?" not in write_report(bench, {"dev": "Quality."}).read_text()
