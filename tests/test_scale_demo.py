"""The demo of several servers, with three small repositories: nothing acknowledged is lost."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.servers import postgres
from tools import scale_demo

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample_repo"


@pytest.mark.skipif(bool(postgres.missing()), reason="no Postgres can be started here")
def test_one_of_each_is_killed_and_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    for name in ("first", "second", "third"):
        with zipfile.ZipFile(tmp_path / "wheels" / f"{name}-1.0-py3-none-any.whl", "w") as archive:
            for file in sorted(SAMPLE.rglob("*.py")):
                archive.write(file, f"{name}/{file.relative_to(SAMPLE)}")
    monkeypatch.setattr(scale_demo, "_ASKED_BEFORE", 5)
    monkeypatch.setattr(scale_demo, "_ASKED_AFTER", 10)
    code = scale_demo.main(["--repositories", "3", "--folder", str(tmp_path)])
    printed = capsys.readouterr()
    print(printed.out)
    rows = dict(line.split("  ", 1) for line in printed.out.splitlines())
    assert code == 0, printed.err
    assert rows["repositories answered by server a, b"].strip() == "3, 3"
    assert rows["acknowledged answers lost"].strip() == "0"
