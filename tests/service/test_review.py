"""What a change makes false, in small repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import git

from rag.answer_cache.cache import AnswerCache
from rag.code.parsing import parsed_texts
from rag.errors import ConfigError, RefNotFound, SourceError
from rag.review.report import as_markdown, as_text
from rag.schema import from_json, to_json
from rag.service import Engine, locate
from rag.service.checks.facts import add_fact
from rag.service.checks.review import ReviewRange, review
from rag.settings import Settings

FILES = {
    "shop/prices.py": (
        "RATE = 0.2\n\n\ndef tax(net):\n    return net * RATE\n\n\n"
        "def gross(net):\n    return net + tax(net)\n\n\n"
        "def old_price(net):\n    return net\n\n\n"
        "class Cart:\n    def __init__(self):\n        self.items = []\n\n"
        "    def total(self):\n        return sum(gross(one) for one in self.items)\n"
    ),
    "shop/page.py": (
        "from shop.prices import Cart, old_price\n\n\n"
        "def page():\n    cart = Cart()\n    return cart.total() + old_price(1)\n"
    ),
    "tests/helpers.py": (
        "from shop.prices import gross\n\n\ndef rounded(net):\n    return round(gross(net))\n"
    ),
    "tests/test_prices.py": "from shop.prices import gross\n\n\ndef test_gross():\n    assert gross(1) > 1\n",
    "tests/test_page.py": "from shop.page import page\n\n\ndef test_page():\n    assert page() == 1\n",
    "tests/test_rounded.py": (
        "from tests.helpers import rounded\n\n\ndef test_rounded():\n    assert rounded(1) == 1\n"
    ),
    "tests/test_other.py": "def test_other():\n    assert True\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git(root, "init", "--quiet", "--template=")
    commit(root, "Begin")
    return root


@pytest.fixture
def engine(tmp_path: Path):
    engine = Engine(replace(Settings(), home=tmp_path / "home", memory="memory:"))
    yield engine
    engine.close()


def commit(root: Path, message: str = "Change") -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))


def reviewed(engine, root, text=None):
    return review(engine, locate(str(root)), ReviewRange.parse(text))


def changes(found):
    return {one.name: one.change for one in found.symbols}


def test_a_body_has_its_callers_and_tests(shop, engine):
    edit(shop, "shop/prices.py", "net * RATE", "round(net * RATE)")
    found = reviewed(engine, shop)
    (tax,) = found.symbols
    assert (tax.name, tax.change, tax.place, tax.was) == ("tax", "body", "shop/prices.py:4-5", "")
    assert [(site.path, site.line, site.within, site.certain) for site in tax.callers] == [
        ("shop/prices.py", 9, "gross", True)
    ]
    tests = {test.path: test for test in found.tests}
    assert found.tests[0].path == "tests/test_prices.py"
    assert tests["tests/test_prices.py"].names == ("test_gross",)
    assert tests["tests/test_prices.py"].reason == "calls tax through gross"
    assert tests["tests/test_rounded.py"].certain, "through a helper without tests of its own"
    assert "tests/helpers.py" not in tests
    assert "tests/test_other.py" not in tests
    assert not found.makes_false
    assert (found.base, found.head, found.head_commit) == ("HEAD", "work tree", "")


GO = "package api\n\nfunc Handle() int {\n\treturn window(1)\n}\n\nfunc window(n int) int {\n\treturn n\n}\n"
GO_TEST = 'package {}\n\nimport "testing"\n\nfunc Test{}(t *testing.T) {{\n\tt.Log("{}")\n}}\n'


@pytest.mark.parametrize(
    ("path", "test", "is_named"),
    [
        ("api/handler.go", "api/handler_test.go", True),
        ("api/handler.go", "ui/handler_test.go", False),
        ("api/handler.go", "fetcher/response_handler_test.go", False),
        ("api/handler.go", "api/other_test.go", False),
        ("src/api/handler.go", "tests/api/handler_test.go", True),
        ("commands/start.go", "tests/command_start_test.go", True),
    ],
)
def test_a_test_is_named_for_its_name_only_in_folders_of_the_file(shop, engine, path, test, is_named):
    """Words of the changed lines in a test (`window`) are no reason."""
    for file, text in ((path, GO), (test, GO_TEST.format("x", "X", "window"))):
        (shop / file).parent.mkdir(parents=True, exist_ok=True)
        (shop / file).write_text(text)
    commit(shop)
    edit(shop, path, "return window(1)", "return window(2)")
    found = reviewed(engine, shop)
    assert [one.path for one in found.tests] == ([test] if is_named else [])
    assert ("no test was found that calls or imports what changed" in found.notes) is not is_named
    assert "mentions" not in as_text(found)


def test_calls_come_before_imports_and_names_of_files(shop, engine):
    (shop / "tests/prices").mkdir()
    (shop / "tests/prices/test_prices.py").write_text("def test_it():\n    assert 1\n")
    (shop / "tests/test_imports.py").write_text("import shop.prices\n\n\ndef test_it():\n    assert shop\n")
    commit(shop)
    edit(shop, "shop/prices.py", "net * RATE", "round(net * RATE)")
    listed = reviewed(engine, shop).tests
    assert [one.path for one in listed[-2:]] == ["tests/test_imports.py", "tests/prices/test_prices.py"]
    assert all(one.certain for one in listed[:-2])


@pytest.mark.parametrize(
    ("path", "before", "after", "names"),
    [
        ("a.go", 'import (\n\t"fmt"\n)\n', 'import (\n\t"os"\n)\n', []),
        ("a.go", 'import "fmt"\n', 'import "os"\n', []),
        ("a.js", "import 'a'\n", "import 'b'\n", []),
        ("a.js", "export { a }\n", "export { b }\n", []),
        ("a.rb", 'require "a"\n', 'require "b"\n', []),
        ("a.php", '<?php\ninclude "a.php";\n', '<?php\ninclude "b.php";\n', []),
        ("a.py", "print ('a')\n", "print ('b')\n", []),
        ("a.rs", "use {a::b, c};\n", "use {a::b, d};\n", []),
        ("a.c", "#define SIZE 1\n", "#define SIZE 2\n", ["SIZE"]),
        ("a.c", "static const int size = 1;\n", "static const int size = 2;\n", ["size"]),
        ("a.js", "export const size = { a: 1 }\n", "export const size = { a: 2 }\n", ["size"]),
        ("a.py", "SIZE: int = 1\n", "SIZE: int = 2\n", ["SIZE"]),
        ("a.rb", "SIZE = 1\n", "SIZE = 2\n", ["SIZE"]),
    ],
)
def test_only_assignments_are_constants(shop, engine, path, before, after, names):
    (shop / path).write_text(before)
    commit(shop)
    (shop / path).write_text(after)
    found = reviewed(engine, shop)
    assert [one.name for one in found.symbols] == names
    if names:
        assert f"~ {names[0]} value  {path}" in as_text(found)


def test_what_has_no_definitions_and_what_was_checked_is_said(shop, engine):
    (shop / "de.json").write_text("{}\n")
    (shop / "en.json").write_text('{"a": 1}\n')
    (shop / "Makefile").write_text("all:\n")
    commit(shop)
    (shop / "de.json").write_text("[]\n")
    (shop / "Makefile").write_text("some:\n")
    edit(shop, "shop/prices.py", "net * RATE", "round(net * RATE)")
    (shop / "en.json").write_text("[3]\n")
    found = reviewed(engine, shop)
    assert "3 changed files have no changed definition: 2 .json, 1 Makefile" in found.notes
    assert "stored answers and facts about this repository: none cites it yet" in found.notes


def test_each_kind_of_change(shop, engine):
    edit(shop, "shop/prices.py", "def gross(net):", "def gross(net, rate=RATE):")
    edit(shop, "shop/prices.py", "def tax(net):\n", "def tax(net):\n    # of the state\n")
    edit(shop, "shop/prices.py", "RATE = 0.2", "RATE = 0.3")
    edit(shop, "shop/prices.py", "        self.items = []\n", "        self.items = list()\n")
    (shop / "shop/new.py").write_text("def added():\n    return 1\n")
    commit(shop)
    found = reviewed(engine, shop, "HEAD~1..HEAD")
    assert changes(found) == {
        "gross": "signature",
        "Cart.__init__": "body",
        "RATE": "body",
        "added": "added",
        "tax": "comment",
    }
    rate = next(one for one in found.symbols if one.name == "RATE")
    assert rate.unit == "constant"
    assert {site.line for site in rate.callers} >= {6}
    made = next(one for one in found.symbols if one.name == "Cart.__init__")
    assert [(site.path, site.certain) for site in made.callers] == [("shop/page.py", True)]


def test_a_removed_function_that_is_still_called_is_false(shop, engine):
    edit(shop, "shop/prices.py", "def old_price(net):\n    return net\n\n\n", "")
    found = reviewed(engine, shop)
    assert changes(found) == {"old_price": "removed"}
    assert [(use.path, use.line, use.within, use.certain) for use in found.broken] == [
        ("shop/page.py", 1, "", True),
        ("shop/page.py", 6, "page", True),
    ]
    assert found.broken[0].symbol == "shop/prices.py:old_price"
    assert found.makes_false
    assert "tests/test_page.py" in {test.path for test in found.tests if test.certain}
    edit(shop, "shop/page.py", "Cart, old_price", "Cart")
    edit(shop, "shop/page.py", " + old_price(1)", "")
    found = reviewed(engine, shop)
    assert found.broken == ()
    assert not found.makes_false


def test_a_name_that_comes_from_elsewhere_now_is_not_broken(shop, engine):
    edit(shop, "shop/prices.py", "def old_price(net):\n    return net\n\n\n", "")
    edit(shop, "shop/page.py", "import Cart, old_price", "import Cart\nfrom shop.past import old_price")
    (shop / "shop/past.py").write_text("def old_price(net):\n    return net\n")
    found = reviewed(engine, shop)
    assert found.broken == ()
    (moved,) = found.symbols
    assert (moved.change, moved.path, moved.was) == ("moved", "shop/past.py", "shop/prices.py:old_price")


def test_a_renamed_function_is_one_symbol_and_its_old_name_breaks(shop, engine):
    edit(shop, "shop/prices.py", "def gross(net):", "def with_tax(net):")
    found = reviewed(engine, shop)
    (renamed,) = found.symbols
    assert (renamed.name, renamed.change, renamed.was) == ("with_tax", "renamed", "shop/prices.py:gross")
    assert ("shop/prices.py", 21) in {(use.path, use.line) for use in found.broken if use.certain}


def test_a_renamed_file_changes_nothing_else(shop, engine):
    git(shop, "mv", "shop/prices.py", "shop/costs.py")
    edit(shop, "shop/page.py", "shop.prices", "shop.costs")
    for path in ("tests/helpers.py", "tests/test_prices.py"):
        edit(shop, path, "shop.prices", "shop.costs")
    commit(shop)
    found = reviewed(engine, shop, "HEAD~1..HEAD")
    assert found.symbols == ()
    assert found.broken == ()


def test_changed_tests_are_named(shop, engine):
    edit(shop, "tests/test_other.py", "assert True", "assert 1")
    found = reviewed(engine, shop)
    (test,) = found.tests
    assert (test.path, test.is_changed, test.reason) == ("tests/test_other.py", True, "")


def test_what_is_stored_about_changed_lines_is_stale(shop, engine):
    from rag.service import Dialog, converse

    repository = engine.repository(locate(str(shop)))
    *_, answer = converse(Dialog(engine, [repository]), "What does `tax` return?", engine.generator())
    turn = engine.turns.turn(answer.turn_id)
    fact = add_fact(engine, "The tax is a share of the net price", turn=turn, source=None)
    AnswerCache(engine.turns).put(
        "What does `tax` return?", answer.text, citations=answer.sources, turn=answer.turn_id
    )
    AnswerCache(engine.turns).put("Which tax is due?", "It [1].", citations=answer.sources)
    assert reviewed(engine, shop).statements == ()
    edit(shop, "shop/prices.py", "return net * RATE", "return 0")
    commit(shop)
    found = reviewed(engine, shop, "HEAD~1..HEAD")
    assert [one.kind for one in found.statements] == ["turn", "fact", "cached"]
    stale, stated, _ = found.statements
    assert (stale.id, stale.number, stale.state, stale.is_cached) == (turn.id, 1, "changed", True)
    assert stale.sources[0].place.startswith("shop/prices.py:")
    assert (stated.id, stated.text) == (fact.id, fact.text)
    assert found.makes_false
    assert found.counts.checked == 4
    edit(shop, "shop/prices.py", "return 0", "return 1")
    found = reviewed(engine, shop)
    assert found.statements == (), "they were stale before"
    assert any("that cite it, none became stale" in note for note in found.notes)
    assert found.counts.stale_before == 4


def test_the_forms_of_a_review(shop, engine):
    edit(shop, "shop/prices.py", "def old_price(net):\n    return net\n\n\n", "")
    edit(shop, "shop/prices.py", "def gross(net):", "def gross(net, rate=1):")
    found = reviewed(engine, shop)
    assert from_json(type(found), to_json(found)) == found
    text = as_text(found)
    assert "2 broken uses; 1 file, 2 symbols changed" in text
    assert "shop/page.py:6 in page uses shop/prices.py:old_price" in text
    markdown = as_markdown(found)
    assert markdown.startswith("## `HEAD`")
    assert "- `shop/page.py:6` in `page` uses `shop/prices.py:old_price`" in markdown


def test_nothing_changed(shop, engine):
    found = reviewed(engine, shop)
    assert (found.symbols, found.tests, found.broken, found.makes_false) == ((), (), (), False)
    assert as_text(found).endswith("nothing becomes false; nothing changed")


def test_three_dots_compare_with_the_common_commit(shop, engine):
    git(shop, "checkout", "--quiet", "-b", "topic")
    edit(shop, "shop/prices.py", "net * RATE", "net * 2")
    commit(shop)
    git(shop, "checkout", "--quiet", "main")
    edit(shop, "shop/page.py", "cart.total()", "cart.total() * 1")
    commit(shop)
    assert set(changes(reviewed(engine, shop, "main...topic"))) == {"tax"}
    assert set(changes(reviewed(engine, shop, "main..topic"))) == {"tax", "page"}


@pytest.mark.parametrize("text", ["", " ", "a..b..c", "a....b", "a" * 501])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ConfigError, match="is not a range"):
        ReviewRange.parse(text)


def test_ends_that_are_left_out_are_head():
    assert ReviewRange.parse("v1..") == ReviewRange("v1", "HEAD")
    assert ReviewRange.parse("...v1") == ReviewRange("HEAD", "v1", from_merge_base=True)
    assert ReviewRange.parse("v1") == ReviewRange("v1", None)


def test_a_ref_that_is_not_there_is_an_error(shop, engine):
    for text in ("nothing..HEAD", "HEAD..nothing", "--help"):
        with pytest.raises(RefNotFound):
            reviewed(engine, shop, text)


def test_refs_that_the_policy_does_not_allow_are_not_found(shop, tmp_path):
    edit(shop, "shop/prices.py", "RATE = 0.2", "RATE = 0.9")
    git(shop, "stash", "--quiet")
    engine = Engine(replace(Settings(), home=tmp_path / "home", memory="memory:"), refs=["refs/heads"])
    assert reviewed(engine, shop, "main..HEAD").symbols == ()
    for ref in ("stash", "refs/stash", git(shop, "rev-parse", "stash")):
        with pytest.raises(RefNotFound):
            reviewed(engine, shop, f"HEAD..{ref}")
    engine.close()


def test_a_folder_without_history_and_a_shallow_clone_are_errors(shop, engine, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(SourceError, match="no git history"):
        reviewed(engine, plain)
    commits = [git(shop, "rev-parse", "HEAD")]
    edit(shop, "shop/prices.py", "RATE = 0.2", "RATE = 0.9")
    commit(shop)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{shop}", "shallow")
    with pytest.raises(SourceError, match="history is cut off"):
        reviewed(engine, tmp_path / "shallow", f"{commits[0]}..HEAD")


def test_a_bare_repository_and_a_url_need_both_ends(shop, engine, tmp_path):
    edit(shop, "shop/prices.py", "RATE = 0.2", "RATE = 0.9")
    commit(shop)
    git(tmp_path, "clone", "--quiet", "--bare", str(shop), "bare.git")
    assert changes(reviewed(engine, tmp_path / "bare.git", "HEAD~1..HEAD")) == {"RATE": "body"}
    with pytest.raises(ConfigError, match="bare repository"):
        reviewed(engine, tmp_path / "bare.git", "HEAD~1")
    url = locate(f"file://{shop}")
    with pytest.raises(ConfigError, match="not here"):
        review(engine, url, ReviewRange("main", "HEAD"), fetching=False)
    with pytest.raises(ConfigError, match="no work tree"):
        review(engine, url, ReviewRange("main", None))


def test_a_folder_in_a_repository_is_reviewed_alone(shop, engine):
    edit(shop, "shop/prices.py", "RATE = 0.2", "RATE = 0.9")
    edit(shop, "tests/test_other.py", "assert True", "assert 1")
    found = reviewed(engine, shop / "shop")
    assert [one.path for one in found.symbols] == ["prices.py"]


def test_hostile_names_end_neither_code_nor_line(shop, engine):
    (shop / "a`b\n- x.py").write_text("def f():\n    return 1\n")
    markdown = as_markdown(reviewed(engine, shop))
    assert "\n- x.py" not in markdown
    assert "a`b" not in markdown


def test_files_in_the_index_are_not_parsed_again(engine, shop, monkeypatch):
    edit(shop, "shop/prices.py", "return net + tax(net)", "return net + tax(net) + 1")
    commit(shop)
    parsed: list[str] = []

    def counted(texts, **options):
        parsed.extend(text.text for text in texts)
        return parsed_texts(texts, **options)

    monkeypatch.setattr("rag.corpus.tree_files.parsed_texts", counted)
    without = reviewed(engine, shop, "HEAD~1..HEAD")
    assert len(parsed) > 2
    engine.repository(str(shop))
    parsed.clear()
    assert reviewed(engine, shop, "HEAD~1..HEAD") == without
    assert parsed == [FILES["shop/prices.py"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def old_price(net):\n", "def unfinished(\n\n\ndef old_price(net):\n"),
        ("class Cart:\n", "class Cart(:\n"),
        ("    def total(self):\n", "    def unfinished(self:\n    def total(self):\n"),
    ],
)
def test_a_syntax_error_in_the_work_tree_removes_nothing(engine, shop, old, new):
    edit(shop, "shop/prices.py", old, new)
    found = reviewed(engine, shop)
    assert not found.makes_false
    assert found.broken == ()
    assert not {"removed", "moved", "renamed", "added"} & set(changes(found).values())


def test_a_file_that_cannot_be_parsed_as_a_whole_is_named(engine, shop):
    edit(shop, "shop/prices.py", "    def total(self):\n", "    def unfinished(self:\n    def total(self):\n")
    assert any("shop/prices.py cannot be parsed as a whole" in note for note in reviewed(engine, shop).notes)


def test_a_use_of_what_has_moved_names_the_new_place(engine, shop):
    edit(shop, "shop/prices.py", "def old_price(net):\n    return net\n\n\n", "")
    (shop / "shop/archive.py").write_text("def old_price(net):\n    return net\n")
    text = as_text(reviewed(engine, shop))
    assert "shop/page.py:6 in page uses shop/prices.py:old_price, now shop/archive.py:old_price" in text
