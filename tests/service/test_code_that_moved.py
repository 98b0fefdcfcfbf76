"""Citations followed through real git histories: renames, splits, copies, rewritten branches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import git

from rag.backends.memory.turns import MemoryTurnStore
from rag.corpus.history import files_at
from rag.corpus.lineage import Lineage
from rag.memory.freshness import check
from rag.service.checks.snapshots import CommitState
from rag.service.upkeep.retention import KeptFiles
from rag.types import Citation, CitedSymbol, Freshness, Span

LICENCE = "".join(f"# Line {n} of the licence that every file begins with.\n" for n in range(1, 13))
WORDS = "amber birch cedar daisy ember flint grove heron iris jade kelp larch maple nettle olive".split()


def function(name: str, lines: Iterable[str]) -> str:
    return f"def {name}(given):\n" + "".join(f"    {line}\n" for line in lines) + "\n\n"


def body(word: str, count: int = 5) -> list[str]:
    return [f"{word}_{n} = given.{word}[{n}]" for n in range(count)] + [f"return {word}_0"]


FILE = "".join(function(word, body(word)) for word in WORDS[:8])
AT = (10, 16)  # `birch`
assert FILE.splitlines()[9:10] == ["def birch(given):"]


class History:
    """A repository with one commit after another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        git(root, "init", "--quiet", "--initial-branch=main")

    def commit(self, **files: str | None) -> str:
        """Write files (by name, `__` for a slash, without `.py`), remove those that are None, commit."""
        for name, text in files.items():
            name = name if "." in name else f"{name.replace('__', '/')}.py"
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", "next")
        return self.head

    @property
    def head(self) -> str:
        return git(self.root, "rev-parse", "HEAD").strip()

    def became(
        self, commit: str, path: str, start: int, end: int, anchor: CitedSymbol | None = None
    ) -> Freshness:
        listing = files_at(self.root, commit)
        assert listing is not None
        span = Span("r", path, start, end, listing.files[path], commit)
        citation = Citation(1, span, anchor=anchor)
        state = CommitState(self.root, self.head, KeptFiles(MemoryTurnStore(), ""))
        (found,) = check([citation], {"": state})
        return found


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")


def rewritten(text: str, words: Iterable[str]) -> str:
    """The text with the bodies of some functions written anew."""
    for word in words:
        text = text.replace(
            "".join(f"    {line}\n" for line in body(word)), f"    return new_{word}(given)\n"
        )
    return text


def test_a_chain_of_renames_with_heavy_edits_between_is_followed(history):
    first = history.commit(a=FILE)
    history.commit(a=None, b=FILE)
    history.commit(b=rewritten(FILE, WORDS[2:5]))
    history.commit(b=None, deep__c=rewritten(FILE, WORDS[2:5]))
    history.commit(deep__c=rewritten(FILE, WORDS[2:8]))
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "deep/c.py", *AT)
    history.commit(deep__c=rewritten(FILE, WORDS[2:8]).replace("given.birch[2]", "given.birch[20]"))
    changed = history.became(first, "a.py", *AT)
    assert (changed.state, changed.place) == ("changed", "deep/c.py:10-16")
    assert changed.reason == "86% of the lines are unchanged"


def test_a_new_file_at_the_old_path_does_not_hide_where_the_old_one_went(history):
    first = history.commit(a=FILE)
    history.commit(a=None, b=FILE)
    history.commit(a="from b import *\n", b=rewritten(FILE, WORDS[3:8]))
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "b.py", *AT)


def test_a_file_of_the_same_name_that_came_later_is_another_one(history):
    first = history.commit(a=FILE, stays="x = 1\n")
    history.commit(a=None)
    other = "".join(function(word, body(word)) for word in WORDS[8:])
    history.commit(a=other)
    history.commit(a=None, b=other)
    assert history.became(first, "a.py", *AT) == Freshness("gone", "the file was removed")


def test_the_functions_of_a_split_file_are_found_in_its_parts(history):
    parts = [function(word, body(word)) for word in WORDS[:8]]
    first = history.commit(a=FILE)
    history.commit(a=None, one="".join(parts[3:]), two="".join(parts[:3]))
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "two.py", *AT)
    history.commit(two="".join(parts[:3]).replace("given.birch[2]", "given.birch[20]"))
    found = history.became(first, "a.py", *AT)
    assert (found.state, found.place) == ("changed", "two.py:10-16")


def test_files_that_were_merged_are_found_in_the_one_that_is_left(history):
    halves = ["".join(function(word, body(word)) for word in some) for some in (WORDS[:4], WORDS[4:8])]
    first = history.commit(a=halves[0], b=halves[1])
    history.commit(a=None, b=None, both="".join(halves))
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "both.py", *AT)
    assert history.became(first, "b.py", *AT) == Freshness("moved", "", "both.py", 46, 52)


def test_a_rename_in_a_merged_branch_is_followed(history):
    first = history.commit(a=FILE)
    git(history.root, "checkout", "--quiet", "-b", "work")
    branch = history.commit(a=None, b=rewritten(FILE, WORDS[5:7]))
    git(history.root, "checkout", "--quiet", "main")
    history.commit(other="x = 1\n")
    git(history.root, "merge", "--quiet", "--no-ff", "--message", "merge", "work")
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "b.py", *AT)
    assert history.became(branch, "b.py", *AT) == Freshness("fresh", "", "b.py", *AT)
    history.commit(b=None, c=rewritten(FILE, WORDS[5:7]))
    assert history.became(branch, "b.py", *AT) == Freshness("moved", "", "c.py", *AT)


def test_a_copy_of_a_removed_file_is_one_of_several(history):
    first = history.commit(a=FILE)
    history.commit(copy=FILE)
    history.commit(a=None, second=FILE)
    found = history.became(first, "a.py", *AT)
    assert (found.state, found.reason) == ("moved", "one of 2 places with these lines")


def test_a_licence_does_not_move_to_a_file_that_has_it_too(history):
    others = {f"other_{n}": LICENCE + function(word, body(word)) for n, word in enumerate(WORDS[8:])}
    first = history.commit(a=LICENCE + "x = 1\n", **others)
    history.commit(a=None, new=LICENCE + FILE)
    assert history.became(first, "a.py", 1, 12) == Freshness("gone", "the file was removed")


def test_a_nearly_empty_file_is_followed_with_a_doubt(history):
    first = history.commit(a="import x\n", b=FILE)
    history.commit(a=None, c="import x\n")
    found = history.became(first, "a.py", 1, 1)
    assert (found.state, found.place) == ("moved", "c.py:1-1")
    assert found.reason == "the file is nearly empty, like others"


def test_without_a_common_history_two_trees_are_compared(history):
    first = history.commit(a=FILE)
    git(history.root, "checkout", "--quiet", "--orphan", "other")
    history.commit(a=None, b=FILE.replace("given.cedar[2]", "given.cedar[20]"))
    listing = files_at(history.root, first)
    assert listing is not None
    assert Lineage(history.root, history.head).since(first, listing.files) is None
    assert history.became(first, "a.py", *AT) == Freshness("moved", "", "b.py", *AT)


def test_a_shallow_clone_compares_two_trees(history, tmp_path):
    first = history.commit(a=FILE)
    last = history.commit(a=None, b=FILE)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{history.root}", str(shallow))
    assert Lineage(shallow, last).since(first, {"a.py": ""}) is None


def test_what_was_read_is_cached_and_damage_is_read_again(history, tmp_path):
    first = history.commit(a=FILE)
    history.commit(a=None, b=FILE)
    cache = tmp_path / "cache"

    def followed() -> object:
        return Lineage(history.root, history.head, cache).since(first, {"a.py": ""})

    assert followed() == {"a.py": "b.py"}
    (cached,) = cache.iterdir()
    before = cached.stat().st_mtime_ns
    assert followed() == {"a.py": "b.py"}
    assert cached.stat().st_mtime_ns == before
    cached.write_bytes(b"damaged")
    assert followed() == {"a.py": "b.py"}
    history.commit(b=None)
    assert followed() == {"a.py": ""}
    assert len(list(cache.iterdir())) == 2


# ---------------------------------------------------------------- a definition in the cited lines

TOTAL = '''def total(lines, tax):
    """Add up the lines of an invoice."""
    net = sum(line.price * line.count for line in lines)
    gross = net + round(net * tax, 2)
    return gross
'''
BILLING = f'"""Bills and what they come to."""\n\nimport decimal\n\n\n{TOTAL}'
TOTAL_AT = CitedSymbol("total", 6, 10)


def test_a_function_that_moved_to_another_file_is_named_there_whole(history):
    first = history.commit(billing=BILLING, totals="import math\n")
    history.commit(
        billing=BILLING.replace(TOTAL, "from totals import total\n"), totals=f"import math\n\n\n{TOTAL}"
    )
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert found == Freshness("moved", "", "totals.py", 4, 8, "total")
    assert not found.is_stale
    assert str(found) == "total: moved → totals.py:4-8"
    whole = history.became(first, "billing.py", 1, 10)
    assert whole.state == "changed"


def test_a_function_that_stayed_while_its_imports_changed_is_not_stale(history):
    first = history.commit(billing=BILLING)
    history.commit(billing=BILLING.replace("import decimal", "import math"))
    assert history.became(first, "billing.py", 1, 10, TOTAL_AT) == Freshness(
        "fresh", "", "billing.py", 6, 10, "total"
    )
    assert history.became(first, "billing.py", 1, 10).state == "changed"


def test_a_function_that_moved_into_a_class_is_named_there_whole(history):
    first = history.commit(billing=BILLING)
    method = "".join(f"    {line}\n" for line in TOTAL.replace("(lines", "(self, lines").splitlines())
    top = BILLING.replace(TOTAL, "")
    history.commit(billing=f"{top}class Invoice:\n    kind = 1\n\n{method}")
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert (found.state, found.place, found.symbol) == ("changed", "billing.py:9-13", "total")
    assert found.reason == "80% of the lines are unchanged"
    history.commit(billing=top, invoices=f"x = 1\ny = 2\nz = 3\nclass Invoice:\n    kind = 1\n\n{method}")
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert (found.state, found.place, found.symbol) == ("changed", "invoices.py:7-11", "total")


def test_a_function_that_is_called_the_same_but_new_is_changed(history):
    first = history.commit(billing=BILLING)
    new = "def total(order):\n    return order.amount()\n"
    history.commit(billing=BILLING.replace(TOTAL, new))
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert (found.state, found.place, found.symbol) == ("changed", "billing.py:6-7", "total")


def test_a_function_that_was_deleted_is_gone(history):
    first = history.commit(billing=BILLING)
    history.commit(billing=BILLING.replace(TOTAL, ""))
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert (found.state, found.symbol) == ("gone", "total")


def test_few_lines_never_become_a_long_span(history):
    first = history.commit(billing=FILE.replace(function("birch", body("birch")), TOTAL))
    other = "".join(f"value_{n} = {n}\n" for n in range(300))
    history.commit(billing=None, invoices=FILE.replace(function("birch", body("birch")), other))
    found = history.became(first, "billing.py", 10, 14)
    assert found.is_stale
    assert found.end - found.start <= 20


# ---------------------------------------------------------------- layout and comments

FORMATTED = '''def total(
    lines,
    tax,
):
    """Add up the lines of an invoice."""
    net = sum(
        line.price * line.count for line in lines
    )
    gross = (
        net
        + round(net * tax, 2)
    )
    return gross
'''


@pytest.mark.parametrize(
    ("new", "place", "detail"),
    [
        (FORMATTED, "6-18", "layout"),
        (TOTAL.replace("    ", "\t"), "6-10", "layout"),
        (TOTAL.replace("    net =", "    # Without tax.\n    net ="), "6-11", "comments"),
        (TOTAL.replace("tax, 2)\n", "tax, 2)  # cents\n"), "6-10", "comments"),
    ],
)
def test_the_run_of_a_formatter_is_no_change(history, new, place, detail):
    first = history.commit(billing=BILLING)
    history.commit(billing=BILLING.replace(TOTAL, new))
    found = history.became(first, "billing.py", 6, 10)
    assert found == Freshness("reformatted", detail, "billing.py", *map(int, place.split("-")))
    assert not found.is_stale
    assert history.became(first, "billing.py", 1, 10).state == "reformatted"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return gross\n", "        return gross\n"),
        ("round(net * tax, 2)", "round(net, tax * 2)"),
        ("net + round(net * tax, 2)", "(net + round(net * tax, 2),)"),
        ("sum(line.price * line.count for", "sum(line.price * (line.count + 1) for"),
        ("of an invoice", "of  an invoice"),
    ],
)
def test_what_a_formatter_does_not_do_is_a_change(history, old, new):
    text = BILLING.replace("    return gross", "    if gross:\n        net = 1\n    return gross")
    first = history.commit(billing=text)
    history.commit(billing=text.replace(old, new))
    assert history.became(first, "billing.py", 6, 12).state == "changed"


def test_code_of_other_languages_is_reformatted_too(history):
    first = history.commit(**{"a.js": "function add(first, second) { return [first, 'second'] }\n"})
    new = 'function add(first, second) {\n  return [\n    first,\n    "second",\n  ]\n}\n'
    history.commit(**{"a.js": new})
    assert history.became(first, "a.js", 1, 1) == Freshness("reformatted", "layout", "a.js", 1, 6)


def test_a_function_that_was_formatted_on_its_way_to_another_file_is_found(history):
    first = history.commit(billing=BILLING, totals="import math\n")
    indented = "".join(f"    {line}\n" for line in TOTAL.splitlines())
    history.commit(billing=BILLING.replace(TOTAL, ""), totals=f"import math\n\n\nclass Sums:\n{indented}")
    found = history.became(first, "billing.py", 1, 10, TOTAL_AT)
    assert found == Freshness("reformatted", "layout", "totals.py", 5, 9, "total")
