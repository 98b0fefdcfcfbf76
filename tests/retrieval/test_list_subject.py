"""The name of what holds a series of lines."""

from __future__ import annotations

from typing import cast

import pytest

from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import FileText
from rag.retrieval.kinds.line_series import series_of
from rag.retrieval.kinds.list_fit import subject_of


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("typedef enum {\n    OPEN,\n    SHUT,\n} door_t;\n", "door_t"),
        ("{\n    draw(open);\n    draw(shut);\n} else if (door) {\n}\n", "icons.c"),
        ("if (door.is_open) {\n    OPEN,\n    SHUT,\n}\n", "door"),
        ("enum door {\n    OPEN,\n    SHUT,\n} else {\n}\n", "door"),
        ("switch (door) {\n    case OPEN:\n    case SHUT:\n}\n", "door"),
    ],
)
def test_a_word_of_control_names_no_series(text, subject):
    lines = text.splitlines()
    series = max(series_of(lines), key=lambda one: len(one.members))
    series.anchor, series.shape = "", "name"  # not the name of what is called, which would come first
    assert subject_of(FileText(cast(ChunkIndex, None), "icons.c", lines, range(0)), series) == subject
