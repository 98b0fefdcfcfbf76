"""How often we agree with `git blame` on what is stale: on this project's own history."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the checkout has no history of its own")
def test_what_is_stale_is_found_and_what_moved_is_named_exactly(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.benchmarks.staleness import figures, histories_of, judge

    # Over 40 commits most of the time is blame's: that is for `make bench`.
    for history in histories_of(each=1, steps=(1, 3, 10)):
        judged = list(judge(history, tmp_path))
        found = figures(judged)
        print(history.name, found, file=sys.stderr)
        # Of a commit to come blame may judge a few spans otherwise; `make bench` reports how many.
        least = 0.95
        assert len(judged) > 100
        assert found.precision >= least
        assert found.recall >= least
        assert found.anchored >= 0.97
        assert found.unknown == 0
