"""How often we agree with `git blame` on what is stale: on a generated history."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_stale_is_found_and_what_moved_is_named_exactly(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.benchmarks.staleness import figures, histories_of, judge

    # Real histories, also this project's own, are for `make bench ONLY=staleness`.
    history, *_ = histories_of(tmp_path, rounds=6, each=1, steps=(1, 3, 10))
    judged = list(judge(history, tmp_path))
    found = figures(judged)
    assert len(judged) > 100
    assert found.precision >= 0.99
    assert found.recall >= 0.99
    assert found.anchored >= 0.97
    assert found.unknown == 0
