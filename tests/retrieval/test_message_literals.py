"""The literals that are not split into words are those that no message can be written by."""

from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.kinds import messages
from rag.retrieval.kinds.asked import FileText

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
