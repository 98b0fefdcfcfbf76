"""What `rag index --list-file` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.worker import bulk


@pytest.mark.parametrize(
    "text", ["{0}\n", "\ufeff{0}\r\n", "\ufeff# list\n\n  {0}\t\n{0}\n", "{0}\n\x0c{1}\n"]
)
def test_a_list_is_read_as_editors_write_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b\x0bx\u2028y").mkdir()
    (tmp_path / "list").write_bytes(text.format("a", "b\x0bx\u2028y").encode())
    found = bulk.read_list(tmp_path / "list")
    assert [one.error for one in found] == [""] * (1 + ("{1}" in text))


def test_a_list_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MAX_LIST_BYTES", 1 << 20)
    (tmp_path / "list").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(SettingsError, match="has more than 1 MB"):
        bulk.read_list(tmp_path / "list")
