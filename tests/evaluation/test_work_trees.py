"""The benchmark of work trees: a further one of the same commit adds almost nothing."""

import shutil

from tools.benchmarks import work_trees
from tools.benchmarks.django import DJANGO


def test_a_further_work_tree_adds_a_small_store(sample_repo, tmp_path, monkeypatch, capsys):
    source = tmp_path / "source"
    shutil.copytree(sample_repo, source, ignore=shutil.ignore_patterns(".git"))
    for number in range(30):
        lines = [f"def transform_{number}_{line}(value):\n    return value * {line}\n" for line in range(40)]
        (source / f"transforms{number}.py").write_text("\n".join(lines))
    monkeypatch.setattr(work_trees, "TREES", 2)
    work_trees._measured(DJANGO, source, tmp_path / "work")
    shown = capsys.readouterr().out.splitlines()
    rows = {cells[0]: cells for line in shown if len(cells := line.split("\t")) == 7}
    assert list(rows)[1:5] == [
        "the first",
        "the first again, unchanged",
        "each of 1 more, the median",
        "one file changed",
    ]
    first, further = (float(rows[name][5]) for name in ("the first", "each of 1 more, the median"))
    assert further < first / 4
    assert float(rows["the first again, unchanged"][5]) == 0
