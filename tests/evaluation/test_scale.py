"""The benchmark of growth measures a real tree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.benchmarks import linux_tree, scale
from tools.benchmarks.bench import family, proportional_mb

CHECKOUT = Path(__file__).resolve().parents[2]
WAIT = "print(1, flush=True); input()"
FUNCTION = """/**
 * {name}() - release the buffers of queue {number} again
 */
void {name}(struct queue *queue)
{{
	queue_release(queue, {number});
}}
"""


@pytest.fixture
def linux(tmp_path):
    """Files as Linux has them, in one folder of each size and in one that is left out."""
    root = tmp_path / "linux-6.1"
    for folder in ("block", "kernel", "drivers/gpu"):
        (root / folder).mkdir(parents=True)
        for number in range(12):
            name = f"{folder.replace('/', '_')}_release_{number}"
            (root / folder / f"queue{number}.c").write_text(FUNCTION.format(name=name, number=number))
    (root / "block/Kconfig").write_text('config QUEUE_FAIR\n\tbool "Fair scheduler of queues"\n\tdefault y\n')
    (root / "block/Makefile").write_text("obj-$(CONFIG_QUEUE_FAIR)\t+= queue3.o\n")
    return root


def test_the_exponent_is_that_of_the_power_law():
    for power in (0.0, 0.5, 1.0):
        points = [(n, 3.0 * n**power) for n in (1e5, 3e5, 1e6)]
        assert scale.exponent(points) == pytest.approx(power)


def test_a_tree_has_the_folders_of_its_size_and_of_those_before(linux, tmp_path):
    for size, folders in (
        (5_000, {"block"}),
        (25_000, {"block", "kernel"}),
        (1_000_000, {"block", "kernel"}),
    ):
        root = tmp_path / f"tree-{size}"
        linux_tree.plant(linux, root, size)
        assert {path.parent.relative_to(root).as_posix() for path in root.rglob("*.c")} == folders
        git = ["git", "status", "--porcelain"]
        assert not subprocess.run(git, cwd=root, check=True, capture_output=True).stdout


def test_questions_are_mined_and_name_the_file_that_answers_them(linux, tmp_path):
    linux_tree.plant(linux, tmp_path / "tree", 5_000)
    asked = linux_tree.questions(tmp_path / "tree", 16)
    assert asked == linux_tree.questions(tmp_path / "tree", 16), "the same each time"
    by_form = {form: [a for a in asked if a.form == form] for form in ("description", "where", "default")}
    assert [len(found) for found in by_form.values()] == [4, 1, 1]
    assert by_form["where"][0].text == "Where is Fair scheduler of queues implemented?"
    assert by_form["where"][0].path == "block/queue3.c"
    assert by_form["default"][0].path == "block/Kconfig"
    for one in by_form["description"]:
        assert one.text in (tmp_path / "tree" / one.path).read_text()
    assert sum(one.form == "callers" for one in asked) == 4


def test_a_change_leaves_the_archive_alone(linux, tmp_path):
    before = {path: path.read_bytes() for path in linux.rglob("*") if path.is_file()}
    linux_tree.plant(linux, tmp_path / "tree", 5_000)
    assert linux_tree.change(tmp_path / "tree") == 4  # of 14
    changed = [p for p in (tmp_path / "tree").glob("block/*") if "changed:" in p.read_text()]
    assert len(changed) == 4
    assert before == {path: path.read_bytes() for path in linux.rglob("*") if path.is_file()}


def test_every_step_is_measured_once(linux, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scale, "ASKED", 16)
    found = scale._measured(tmp_path / "results", linux, 5_000)
    assert found["asked"]["recall"] == found["asked-again"]["recall"] == 1.0
    assert found["asked"]["right"] == 1.0
    assert found["asked"]["files"] == found["asked-again"]["files"] == 14
    assert found["built"]["peak_mb"] > 20
    assert not list((tmp_path / "results" / "scale").glob("*.data"))
    assert scale.kept_of(tmp_path / "results", 5_000) == found
    assert not scale.kept_of(tmp_path / "results", 25_000)
    capsys.readouterr()
    assert scale._measured(tmp_path / "results", linux, 5_000) == found
    assert "measured" not in capsys.readouterr().out
    scale._show_stores([found, found | {"asked": found["asked"] | {"chunks": 100}}])
    scale._show_changes([found])
    assert "A quarter of the files changed" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc")
def test_the_memory_of_all_processes_counts():
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WAIT!r}])"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        parent.stdout.readline()  # the child runs
        found = family(parent.pid)
        assert len(found) == 2
        assert all(proportional_mb(pid) > 1 for pid in found)
        parent.communicate(b"\n")
    assert family(parent.pid) == [parent.pid]
    assert proportional_mb(parent.pid) == 0


def test_without_its_input_it_says_so(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.benchmarks",
            "--only",
            "scale",
            "--cache",
            str(tmp_path),
            "--results",
            str(tmp_path),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not measured: Linux 6.1: cannot fetch" in done.stdout
