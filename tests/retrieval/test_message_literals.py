"""The literals that are not split are those that no message can be written by; of equal ones one is meant."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.kinds import messages
from rag.retrieval.kinds.asked import FileText
from rag.retrieval.search import search
from rag.service import Engine
from rag.settings import Settings

PIECES = [
    "open",
    "Open",
    "file",
    "the",
    "%s",
    "%d",
    "{name}",
    "$x",
    "\\n",
    " ",
    "_",
    ".",
    "$",
    "é",
    "50%",
    "#{a}",
]
LITERALS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
LINES = st.lists(
    st.lists(LITERALS, min_size=1, max_size=2).map(
        lambda many: "log(" + ", ".join(f'"{one}"' for one in many)
    )
    | LITERALS.map(lambda one: f'  "{one}"'),
    max_size=6,
)


@given(LINES, st.lists(st.sampled_from(["open", "file", "the", "name", "x", "50", "_", "a"]), max_size=8))
def test_every_literal_that_fits_a_message_is_split(lines, message):
    file = FileText(None, "a.c", lines, range(0))
    every = list(messages._literals(file))
    some = list(messages._literals(file, frozenset(message)))
    assert all(one in every for one in some)
    for number, parts in every:
        if messages._fit(parts, message) or (parts and [w for part in parts for w in part] == message):
            assert (number, parts) in some


def test_a_literal_that_begins_with_another_word_is_not_split():
    file = FileText(None, "a.c", ['log("closing the file now")', 'log("opening the file now")'], range(0))
    assert [number for number, _ in messages._literals(file, frozenset(["opening", "the"]))] == [2]


@pytest.mark.parametrize("tool", ["glaze", "kiln"])
def test_of_equal_literals_that_next_to_the_name_in_the_message_is_meant(tmp_path, tool):
    for name in ("glaze", "kiln", "pot"):
        (tmp_path / f"{name}_main.c").write_text(
            f'int main() {{\n  log_fatal("{name}",\n            "need a seed to divide a firing");\n}}\n'
        )
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], f"[FATAL] {tool}: need a seed to divide a firing").code_facts
    assert (found.kind, found.items[0].path) == ("message", f"{tool}_main.c")


def test_a_message_that_is_written_in_several_places_is_shown_in_all(tmp_path):
    door = """def {name}(door, skip="no"):
    if getattr(door, "locked", False):
        return
    try:
        door.{name}()
    except OSError as error:
        log.error("Failed to move the door %s "
            "of the kiln: %s", door, error)
"""
    (tmp_path / "doors.py").write_text("\n\n".join(door.format(name=name) for name in ("lift", "lower")))
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        repository = engine.repository(str(tmp_path))
        facts = search([repository.searcher], "Failed to move the door 7 of the kiln: it is hot").code_facts
    assert facts.summary == "The message is written in 2 places"
    assert [item.span.start for item in facts.items] == [7, 17]


def test_a_literal_goes_on_only_in_the_next_line():
    lines = ['a(b, "one")', "c()", '  "open the file "', '  "of the name")']
    found = list(messages._literals(FileText(None, "a.c", lines, range(0))))
    assert (3, [["open", "the", "file"], ["of", "the", "name"]]) in found
