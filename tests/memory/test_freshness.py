"""What becomes of cited lines, told from texts and blob ids alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.code.layout import syntaxes
from rag.memory.freshness import check, check_turns
from rag.types import Citation, CitedSymbol, DialogTurn, Freshness, Span, blob_id, worst

HERE = "/repository"


@dataclass
class Texts:
    """A state made of texts: what is there now, what was there then, and what of it is still to be had."""

    now: Mapping[str, bytes]
    then: Mapping[str, bytes] | None
    others: Mapping[str, str] = field(default_factory=dict)
    lost: Collection[str] = ()
    read: list[str] = field(default_factory=list)
    renames: Mapping[str, str] | None = None

    @property
    def files(self) -> Mapping[str, str]:
        return {path: blob_id(content) for path, content in self.now.items()}

    def instead(self, path: str) -> str | None:
        return self.others.get(path)

    def contents(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        self.read += blobs
        every = {blob_id(c): c for c in [*self.now.values(), *(self.then or {}).values()]}
        return {blob: every[blob] for blob in blobs if blob in every and blob not in self.lost}

    def files_at(self, commit: str | None) -> Mapping[str, str] | None:
        return None if self.then is None else {path: blob_id(c) for path, c in self.then.items()}

    def renamed(self, commit: str | None) -> Mapping[str, str] | None:
        return self.renames

    def syntax(self, path: str, content: bytes) -> Sequence[Any] | None:
        return syntaxes([(content.decode("utf-8", "replace"), "python")])[0]


class _NoGrammar(Texts):
    def syntax(self, path: str, content: bytes) -> Sequence[Any] | None:
        return None


def cited(path: str, content: bytes, start: int, end: int, **more: object) -> Citation:
    span = Span("repository", path, start, end, blob_id(content), "c0")
    return Citation(1, span, location=HERE, **more)


def became(
    old: Mapping[str, bytes], new: Mapping[str, bytes], path: str, start: int, end: int, **more: object
) -> Freshness:
    (found,) = check([cited(path, old[path], start, end)], {HERE: Texts(new, old, **more)})
    return found


def function(name: str, *body: str) -> bytes:
    return "".join([f"def {name}(token):\n", *(f"    {line}\n" for line in body), "\n"]).encode()


SIGN = function("sign", "key = load_key(token)", "return hmac_of(key, token)")
OTHERS = [function(f"other_{n}", f"value = compute_{n}(token)", "return value") for n in range(6)]
FILE = b"".join([*OTHERS[:3], SIGN, *OTHERS[3:]])
AT = (13, 15)  # the three lines of `sign` in FILE
STAYS = b"# Notes\n\nNothing here ever changes at all.\n"


# ---------------------------------------------------------------- within a file


def test_lines_that_stand_where_they_stood_are_fresh_whatever_else_changed():
    below = FILE + function("added", "return None")
    assert became({"a.py": FILE}, {"a.py": below}, "a.py", *AT) == Freshness("fresh", "", "a.py", *AT)


def test_a_file_with_the_same_blob_is_not_read():
    state = Texts({"a.py": FILE}, None)
    (found,) = check([cited("a.py", FILE, *AT)], {HERE: state})
    assert found.state == "fresh"
    assert not [blob for blob in state.read if blob]


def test_reindented_lines_have_changed():
    new = FILE.replace(b"    key = load", b"\tkey = load")
    found = became({"a.py": FILE}, {"a.py": new}, "a.py", *AT)
    assert found == Freshness("changed", "67% of the lines are unchanged", "a.py", *AT)


def test_a_line_put_between_them_is_a_change():
    new = FILE.replace(b"    key = load", b"    log(user)\n    key = load")
    found = became({"a.py": FILE}, {"a.py": new}, "a.py", *AT)
    assert (found.state, found.reason) == ("changed", "lines were inserted between them")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_how_a_line_ends_is_no_change(mark):
    crlf = mark + FILE.replace(b"\n", b"\r\n")
    for old, new in ((FILE, crlf), (crlf, FILE)):
        assert became({"a.py": old}, {"a.py": new}, "a.py", *AT) == Freshness("fresh", "", "a.py", *AT)
        moved = became({"a.py": old, "b.py": STAYS}, {"new.py": new, "b.py": STAYS}, "a.py", *AT)
        assert moved == Freshness("moved", "", "new.py", *AT)
    edited = crlf.replace(b"load_key", b"find_key")
    assert became({"a.py": FILE}, {"a.py": edited}, "a.py", *AT).state == "changed"


def test_a_return_inside_a_line_is_a_change():
    new = FILE.replace(b"key = load", b"key =\rload")
    assert became({"a.py": FILE}, {"a.py": new}, "a.py", *AT).state == "changed"


def test_comments_are_part_of_a_place_as_far_as_they_were_cited():
    comment = b"# Signs a token of a request,\n# with the key of its user.\n"
    above = b"".join([*OTHERS[:3], comment])
    old = above + SIGN + OTHERS[3]
    new = old.replace(b"# ", b"#   ")
    for start in (13, 14, 15):
        found = became({"a.py": old}, {"a.py": new}, "a.py", start, 17)
        state = "fresh" if start == 15 else "reformatted"
        assert (found.state, found.start, found.end) == (state, start, 17)
    longer = new.replace(b"of a request,\n", b"of a request,\n#   or of a form,\n")
    whole = became({"a.py": old}, {"a.py": longer}, "a.py", 13, 17)
    assert (whole.state, whole.start, whole.end) == ("reformatted", 13, 18)
    part = became({"a.py": old}, {"a.py": longer}, "a.py", 14, 17)
    assert (part.state, part.start, part.end) == ("reformatted", 15, 18)


def test_white_space_at_the_ends_of_lines_is_layout_without_a_grammar_too():
    old = b"<body>\n  <h1>Orders</h1>\n    \n  <p>No orders of this user yet.</p>\n</body>\n"
    new = b"<!doctype html>\n" + old.replace(b"\n    \n", b"\n\n").replace(b"</p>", b"</p> ")
    state = _NoGrammar({"a.html": new}, {"a.html": old})
    (found,) = check([cited("a.html", old, 2, 4)], {HERE: state})
    assert found == Freshness("reformatted", "layout", "a.html", 3, 5)
    (found,) = check(
        [cited("a.html", old, 2, 4)],
        {HERE: _NoGrammar({"a.html": new.replace(b"  <p>", b" <p>")}, {"a.html": old})},
    )
    assert found.state == "changed"


def test_deleted_lines_are_gone_and_rewritten_ones_changed():
    without = b"".join(OTHERS)
    rewritten = FILE.replace(SIGN, b"class Signer:\n    secret = 1\n\n")
    assert became({"a.py": FILE}, {"a.py": without}, "a.py", *AT).state == "gone"
    found = became({"a.py": FILE}, {"a.py": rewritten}, "a.py", *AT)
    assert (found.state, found.place) == ("changed", "a.py:13-14")


@given(st.permutations([SIGN, *OTHERS]), st.integers(0, 3), st.integers(0, 3))
def test_moving_inserting_and_deleting_whole_blocks_around_a_span_re_anchors_it_exactly(blocks, before, gone):
    blocks = [function(f"new_{n}", "return one, two, three") for n in range(before)] + [
        block for block in blocks if block == SIGN or block not in OTHERS[:gone]
    ]
    start = b"".join(blocks[: blocks.index(SIGN)]).count(b"\n") + 1
    found = became({"a.py": FILE}, {"a.py": b"".join(blocks)}, "a.py", *AT)
    state = "fresh" if start == AT[0] else "moved"
    assert found == Freshness(state, "", "a.py", start, start + 2)


LINES = st.lists(
    st.sampled_from([b"", b"}", b"  return x", b"def a():", b"  b = load(a)", b"\x80\xff"]), max_size=9
)


@given(
    LINES,
    st.lists(st.binary(max_size=8).filter(lambda b: b"\n" not in b), min_size=1, max_size=5),
    LINES,
    LINES,
)
@example([], [b""], [], [])
def test_what_is_said_to_be_fresh_or_moved_stands_there_byte_for_byte(above, span, below, other):
    old = b"\n".join([*above, *span, *below])
    for new in (b"\n".join([*other, *span, *below]), b"\n".join([*above, *other, *below]), b"\n".join(other)):
        found = became({"a": old}, {"a": new}, "a", len(above) + 1, len(above) + len(span))
        if found.state in ("fresh", "moved"):
            there = new.split(b"\n")[found.start - 1 : found.end]
            behind_the_end = not below and not span[-1]  # where the last newline was taken for a line
            assert there == span or (behind_the_end and there == span[:-1])


def test_a_citation_that_ends_one_line_behind_its_file_is_compared_all_the_same():
    whole = (1, FILE.count(b"\n") + 1)  # stored by earlier versions
    assert became({"a.py": FILE}, {"a.py": FILE}, "a.py", *whole).state == "fresh"
    moved = became({"a.py": FILE}, {"a.py": b"import os\n" + FILE}, "a.py", *whole)
    assert moved == Freshness("moved", "", "a.py", 2, FILE.count(b"\n") + 1)
    assert became({"a.py": FILE}, {"a.py": b"# new\n"}, "a.py", *whole).is_stale


@given(st.data())
def test_no_edit_inside_a_span_is_ever_fresh(data):
    lines = FILE.split(b"\n")
    row = data.draw(st.integers(AT[0], AT[1])) - 1
    line = data.draw(st.binary(max_size=20).filter(lambda b: b != lines[row]))
    edited = data.draw(st.sampled_from([[line], [line, lines[row]], []]))
    new = b"\n".join([*lines[:row], *edited, *lines[row + 1 :]])
    if new.split(b"\n")[AT[0] - 1 : AT[1]] == lines[AT[0] - 1 : AT[1]]:
        return  # the first line was put before itself: nothing inside changed
    found = became({"a.py": FILE}, {"a.py": new}, "a.py", *AT)
    assert found.state != "fresh"


def test_a_copy_is_not_taken_for_the_lines_that_were_edited():
    twice = FILE + SIGN
    edited = twice.replace(b"load_key", b"find_key", 1)
    assert became({"a.py": twice}, {"a.py": edited}, "a.py", *AT).state == "changed"
    end = FILE.count(b"\n")
    assert became({"a.py": twice}, {"a.py": b"import os\n" + edited}, "a.py", end + 1, end + 3) == Freshness(
        "moved", "", "a.py", end + 2, end + 4
    )


METHOD = b"    def run(self):\n        return self.engine.start_now()\n"
REST = b"".join(OTHERS)  # the alignment keeps it, and so says nothing about what moved across it


def test_of_equal_lines_those_in_the_same_symbol_are_meant():
    old, new = (
        b"class A:\n" + METHOD + REST,
        REST + b"class B:\n" + METHOD + b"class A:\n" + METHOD + b"# end\n",
    )
    found = became({"a.py": old}, {"a.py": new}, "a.py", 2, 3)
    assert found == Freshness("moved", "", "a.py", 29, 30)


def test_a_place_that_cannot_be_told_from_another_is_called_a_guess():
    old, new = METHOD + REST, REST + METHOD + b"# one\n" + METHOD + b"# two\n"
    found = became({"a.py": old}, {"a.py": new}, "a.py", 1, 2)
    assert (found.state, found.reason) == ("moved", "one of 2 places with these lines")


def test_a_short_line_is_not_known_again_somewhere_else():
    old = b"limit = 1\n" + FILE
    new = b"limit = 2\n" + FILE + b"limit = 1\n"
    assert became({"a.py": old}, {"a.py": new}, "a.py", 1, 1).state == "changed"


# ---------------------------------------------------------------- across files


def test_a_renamed_file_is_followed_whether_it_was_edited_or_not():
    old = {"a.py": FILE, "n.md": STAYS}
    assert became(old, {"b/c.py": FILE, "n.md": STAYS}, "a.py", *AT) == Freshness("moved", "", "b/c.py", *AT)
    edited = b"import os\n" + FILE.replace(b"compute_4", b"compute_five")
    assert became(old, {"b.py": edited, "n.md": STAYS}, "a.py", *AT) == Freshness("moved", "", "b.py", 14, 16)
    changed = FILE.replace(b"load_key", b"find_key")
    found = became(old, {"b.py": changed, "n.md": STAYS}, "a.py", *AT)
    assert (found.state, found.place) == ("changed", "b.py:13-15")


def test_lines_that_moved_to_another_file_are_found_there():
    old = {"a.py": FILE, "b.py": STAYS}
    new = {"a.py": b"".join(OTHERS), "b.py": STAYS + b"\n" + SIGN}
    assert became(old, new, "a.py", *AT) == Freshness("moved", "", "b.py", 5, 7)


def test_what_was_edited_in_place_and_copied_elsewhere_has_changed():
    old = {"a.py": FILE}
    new = {"a.py": FILE.replace(b"load_key", b"find_key"), "copy.py": FILE}
    assert became(old, new, "a.py", *AT).state == "changed"


def test_lines_that_stood_elsewhere_before_did_not_move_there():
    old = {"a.py": FILE, "b.py": FILE + STAYS, "c.py": FILE}
    new = {"a.py": b"".join(OTHERS), "b.py": b"import os\n" + FILE + STAYS, "c.py": FILE}
    assert became(old, new, "a.py", *AT).state == "gone"
    del new["a.py"]
    assert became(old, new, "a.py", *AT).state == "gone"


def test_lines_that_a_renamed_file_took_with_it_did_not_come_from_here():
    old = {"a.py": FILE, "b.py": STAYS + SIGN}
    new = {"a.py": b"".join(OTHERS), "c.py": STAYS + b"More.\n" + SIGN}
    assert became(old, new, "a.py", *AT).state == "gone"


CLASSES = b"".join(
    b"class %b:\n    kind, label = '%b', 'the %b one'\n\n"
    b"    def sign(self, token):\n        return %b(token)\n\n" % (name, name, name, name.lower())
    for name in (b"Plain", b"Timed", b"Sealed")
)
SPLIT = {
    "pkg/plain.py": b"import os\n\n" + CLASSES[: CLASSES.index(b"class Timed")],
    "pkg/timed.py": b"class Timed(Base[str]):\n    # when\n    kind, label = 'Timed', 'the Timed one'\n\n"
    b"    def sign(self, token: str, at: float) -> str:\n        stamped = self.stamp(token, at)\n"
    b"        return seal(stamped)\n\n    def seal(self):\n        return timed(token)\n",
    "pkg/__init__.py": b"from pkg.plain import Plain\n",
}
"""The classes after the file became a package: one is unchanged, one rewritten, one not there any more."""


def in_the_package(start: int, end: int, symbol: str = "", **more: bytes) -> Freshness:
    anchor = CitedSymbol(symbol, start, end) if symbol else None
    state = Texts(SPLIT | more, {"all.py": CLASSES}, renames={"all.py": "pkg/__init__.py"})
    (found,) = check([cited("all.py", CLASSES, start, end, anchor=anchor)], {HERE: state})
    return found


def test_a_rewritten_definition_is_found_by_its_name_in_the_files_that_its_file_was_split_into():
    by_name = "0% of the lines are unchanged, found by its name"
    assert in_the_package(10, 11, "sign") == Freshness("changed", by_name, "pkg/timed.py", 5, 7)
    assert in_the_package(4, 5, "sign") == Freshness("moved", "found by its name", "pkg/plain.py", 6, 7)
    assert in_the_package(16, 17, "sign").state == "gone", "other classes have a method of that name"


def test_the_first_lines_of_a_rewritten_class_are_found_by_its_name():
    found = in_the_package(7, 7)
    assert (found.state, found.place) == ("changed", "pkg/timed.py:1-1")
    assert in_the_package(13, 13).state == "gone"


def test_a_whole_definition_is_found_by_its_name_and_says_whether_only_its_layout_differs():
    assert in_the_package(10, 11).place == "pkg/timed.py:5-7", "cited without its name"
    joined = (
        SPLIT["pkg/timed.py"]
        .replace(
            b"        stamped = self.stamp(token, at)\n        return seal(stamped)\n",
            CLASSES.splitlines(keepends=True)[10].replace(b"(", b"(\n            "),
        )
        .replace(b"(self, token: str, at: float) -> str", b"(self, token)")
    )
    found = in_the_package(10, 11, "sign", **{"pkg/timed.py": joined})
    assert (found.state, found.path) == ("reformatted", "pkg/timed.py")


def test_of_two_definitions_with_the_name_neither_is_guessed():
    twice = {"pkg/other.py": SPLIT["pkg/timed.py"].replace(b"limits", b"bounds")}
    assert in_the_package(7, 7, **twice).state == "gone"


@pytest.mark.parametrize("rest", [b"", b"# nothing is left\n"])
def test_a_definition_in_a_file_that_has_no_code_any_more_is_gone(rest):
    citation = cited("a.py", FILE, *AT, anchor=CitedSymbol("sign", *AT))
    (found,) = check([citation], {HERE: Texts({"a.py": rest}, {"a.py": FILE})})
    assert (found.state, found.path) == ("gone", "a.py")


def test_a_line_that_stayed_where_a_whole_file_was_is_not_what_became_of_its_lines():
    old = {"a.py": b"".join(OTHERS) + SIGN + b"VERSION = 1\n"}
    found = became(old, {"a.py": b"VERSION = 2\n"}, "a.py", 25, 27)
    assert (found.state, found.reason) == ("gone", "the lines were deleted")
    found = became(
        old, {"a.py": b"".join(OTHERS) + b"from keys import sign\n\nVERSION = 1\n"}, "a.py", 25, 27
    )
    assert found.state == "changed", "three lines became one"


def test_without_history_a_place_in_another_file_is_called_a_guess():
    (found,) = check(
        [cited("a.py", FILE, *AT)],
        {HERE: Remembered({"a.py": b"".join(OTHERS), "b.py": SIGN}, FILE)},
    )
    assert found == Freshness("moved", "found without history", "b.py", 1, 3)


class Remembered(Texts):
    """A plain folder: no history, but the cited file's bytes were kept."""

    def __init__(self, now: Mapping[str, bytes], kept: bytes) -> None:
        super().__init__(now, {"kept": kept})

    def files_at(self, commit: str | None) -> None:
        return None


@pytest.mark.parametrize("what", ["a symbolic link", "a submodule"])
def test_what_took_the_place_of_a_file_is_named(what):
    found = became({"a.py": FILE}, {}, "a.py", *AT, others={"a.py": what})
    assert found == Freshness("gone", f"replaced by {what}")


def test_a_deleted_file_is_gone():
    assert became({"a.py": FILE}, {"n.md": STAYS}, "a.py", *AT) == Freshness("gone", "the file was removed")


def test_a_file_that_is_no_text_any_more_has_changed():
    found = became({"a.py": FILE}, {"a.py": b"\0" + FILE}, "a.py", *AT)
    assert found == Freshness("changed", "the file is not text any more", "a.py")


def test_bytes_that_no_encoding_knows_are_compared_as_bytes():
    old = b"# caf\xe9\n" + FILE
    assert became({"a.py": old}, {"a.py": old + b"# \xff\xfe\n"}, "a.py", 1, 16).state == "fresh"
    found = became({"a.py": old}, {"a.py": old.replace(b"\xe9", b"\xc3\xa9")}, "a.py", 1, 16)
    assert (found.state, found.reason) == ("reformatted", "comments")


def test_a_file_in_two_bytes_a_character_is_compared_by_its_lines():
    old, new = (text.decode().encode("utf-16") for text in (FILE, b"import os\n" + FILE))
    assert became({"a.py": old}, {"a.py": new}, "a.py", *AT).place == "a.py:14-16"


def test_a_file_whose_lines_end_with_cr_alone_is_compared_by_its_lines():
    old = FILE.replace(b"\n", b"\r")
    assert became({"a.py": old}, {"a.py": b"import os\r" + old}, "a.py", *AT).place == "a.py:14-16"


# ---------------------------------------------------------------- what cannot be told


def test_what_cannot_be_compared_is_unknown_and_says_why():
    changed = {"a.py": FILE.replace(b"load_key", b"find_key")}
    lost = became({"a.py": FILE}, changed, "a.py", *AT, lost={blob_id(FILE)})
    assert lost == Freshness("unknown", f"the cited version ({blob_id(FILE)[:10]}) is not stored here")
    unread = became({"a.py": FILE}, changed, "a.py", *AT, lost={blob_id(changed["a.py"])})
    assert unread == Freshness("unknown", "a.py cannot be read", "a.py")
    citation = cited("a.py", FILE, *AT)
    assert check([citation], {HERE: "the folder is gone"}) == (Freshness("unknown", "the folder is gone"),)
    (elsewhere,) = check([citation], {})
    assert elsewhere.state == "unknown"
    assert check([], {}) == ()
    assert became({"a.py": FILE}, changed, "a.py", 300, 301).reason == "the cited version has 28 lines"


def test_a_turn_is_as_fresh_as_the_worst_of_what_it_uses():
    state = Texts({"a.py": FILE}, {"b.py": SIGN, "a.py": FILE})
    fresh = cited("a.py", FILE, *AT)
    stale = cited("b.py", SIGN.replace(b"key", b"kee"), 1, 2)
    turns = [
        DialogTurn(citations=(fresh, stale)),
        DialogTurn(citations=(fresh, cited("b.py", SIGN, 1, 3, used=False))),
        DialogTurn(),
    ]
    one, two, three = check_turns(turns, {HERE: state})
    assert [check.state for check in one.checks] == ["fresh", "unknown"]
    assert one.freshness is not None and one.freshness.state == "unknown"
    assert two.freshness is not None and two.freshness.state == "fresh"
    assert three.freshness is None


def test_the_worst_of_nothing_is_unknown():
    assert worst([]).state == "unknown"
    states = ["fresh", "moved", "reformatted", "unknown", "changed", "gone"]
    for number, state in enumerate(states):
        assert worst(Freshness(one) for one in reversed(states[: number + 1])).state == state
