"""Questions about who calls, uses, overrides and imports something."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search, search_in_turn
from rag.retrieval.uses import uses_of_name
from rag.service import locate

LOCKS = """class Lock:
    def acquire_lock(self):
        return 1

    def start(self):
        self.acquire_lock()

def unused_helper():
    return 2
"""
JOBS = """from app.locks import Lock

class FileLock(Lock):
    def acquire_lock(self):
        return 2

def run_all(lock):
    made = Lock()
    made.acquire_lock()
    lock.acquire_lock()
"""
FILES = {"app/locks.py": LOCKS, "app/jobs.py": JOBS}


def test_a_name_with_a_mark_is_found_in_its_class(searcher_of):
    text = "class Pot\n  def wax!\n    1\n  end\nend\n\nclass Jar\n  def wax(pot)\n    pot.wax!\n  end\nend\n"
    found = search([searcher_of({"pot.rb": text})], "Who calls Pot.wax!?").code_facts
    assert found is not None and found.subject == "Pot.wax!"
    assert [item.start for item in found.items] == [9]


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


def facts(searcher, question):
    found = search([searcher], question).code_facts
    return None if found is None else [(item.path, item.start, item.certain) for item in found.items]


IMPORTING = {
    "app/ways.py": "class Importer:\n    pass\n\n\ndef extend(one):\n    return one\n\n\nMAX_AGE = 3\n",
    "app/more.py": "from app.ways import MAX_AGE, Importer, extend\n\n\ndef made(age):\n"
    "    return extend(Importer()) if age < MAX_AGE else None  # the limit\n",
    "theme.feature": "Feature: Themes\n  Scenario: Where an Importer extends\n    Given a theme\n",
    "Makefile": "check-all: made\n\tpython -m app\n\nrelease: check-all\n\techo\n",
}


@pytest.mark.parametrize(
    ("question", "says", "places"),
    [
        ("Who calls Importer?", "`Importer` is called in 1 place", [("app/more.py", 5, True)]),
        ("Where is Importer used?", "`Importer` is used in 1 place", [("app/more.py", 5, True)]),
        ("Who calls extend?", "`extend` is called in 1 place", [("app/more.py", 5, True)]),
        ("Who imports Importer?", "`Importer` is imported in 1 place", [("app/more.py", 1, True)]),
        ("Who uses MAX_AGE?", "`MAX_AGE` is possibly used in 1 place; 1 other line of code has", None),
        ("Who calls `MAX_AGE`?", "`MAX_AGE` is used in 1 place, but not called there by its name", None),
        ("Who calls `Where an Importer extends`?", "`Themes.Where an Importer extends` is called in 0", None),
        ("Who calls check-all?", "`check-all` is used in 1 place", [("Makefile", 4, False)]),
    ],
)
def test_names_with_words_of_relations_and_constants_have_uses(searcher_of, question, says, places):
    found = search([searcher_of(IMPORTING)], question).code_facts
    assert found is not None and says in found.summary, found
    assert places is None or [(one.path, one.start, one.certain) for one in found.items] == places


@pytest.mark.parametrize(
    "question",
    [
        "Who calls Lock.acquire_lock?",
        "where is `acquire_lock` called? Not the one of FileLock.",
        "callers of acquire_lock of the class Lock in locks (not FileLock)",
    ],
)
def test_call_sites_are_facts(searcher, question):
    assert facts(searcher, question) == [
        ("app/jobs.py", 9, True),
        ("app/locks.py", 6, True),
        ("app/jobs.py", 10, False),
    ]


def test_places_in_code_come_before_tests_also_if_only_those_are_certain(searcher_of):
    test = "from app.locks import Lock\n\ndef test_lock():\n    Lock().acquire_lock()\n"
    found = search([searcher_of({**FILES, "tests/test_locks.py": test})], "Who calls Lock.acquire_lock?")
    assert found.code_facts is not None
    assert [(item.path, item.certain) for item in found.code_facts.items] == [
        ("app/jobs.py", True),
        ("app/locks.py", True),
        ("app/jobs.py", False),
        ("tests/test_locks.py", True),
    ]


@pytest.mark.parametrize("asked", ["Which places are affected?", "Who is affected if I rename MAX_AGE?"])
def test_the_places_that_a_change_affects_are_the_uses_of_its_name(searcher_of, asked):
    question = f"I want to rename the limit MAX_AGE. {asked}"
    used = facts(searcher_of(IMPORTING), "Where is MAX_AGE used?")
    assert used and facts(searcher_of(IMPORTING), question) == used


def test_the_count_is_in_words(searcher):
    found = search([searcher], "Who calls Lock.acquire_lock?").code_facts
    assert found.summary == "`Lock.acquire_lock` is called in 3 places, 2 of them certain"
    assert (found.count, found.certain_count, found.complete) == (3, 2, False)


def test_no_caller_is_an_answer(searcher):
    found = search([searcher], "Who calls unused_helper?").code_facts
    assert found.summary == "`unused_helper` is called in 0 places in the 2 indexed files; it is exported"
    assert [(item.path, item.start) for item in found.items] == [("app/locks.py", 8)]


def test_overrides_and_subclasses(searcher):
    assert facts(searcher, "Which classes override Lock.acquire_lock?") == [("app/jobs.py", 4, True)]
    assert facts(searcher, "What extends `Lock`?") == [("app/jobs.py", 3, True)]


SHAPES = """class Shapes {
  interface Drawn {}
  static class Base {}
  static class Circle extends Base implements Drawn {}
}
class Other extends Shapes.Base {}
"""


@pytest.mark.parametrize(
    "question",
    ["Which functions raise KilnError?", "where is KilnError raised", "What throws a `KilnError`?"],
)
def test_the_lines_that_raise_an_error(engine, tmp_path, question):
    (tmp_path / "kiln.py").write_text(
        "class KilnError(Exception):\n    pass\n\n\ndef fire(hot):\n    if hot:\n"
        "        raise KilnError('too hot')\n    try:\n        cool()\n    except KilnError:\n"
        "        return 1\n\n\ndef cool():\n    raise KilnError('too cold')\n\n\n"
        "def lost():\n    return KilnError('gone')\n"
    )
    searcher = engine.repository(locate(str(tmp_path))).searcher
    assert facts(searcher, question) == [("kiln.py", 7, True), ("kiln.py", 15, True)]
    assert search([searcher], question).code_facts.summary == "`KilnError` is raised in 2 places"


def test_an_error_that_no_line_raises_is_used(engine, tmp_path):
    (tmp_path / "kiln.py").write_text("class KilnError(Exception):\n    pass\n\n\nKNOWN = [KilnError]\n")
    searcher = engine.repository(locate(str(tmp_path))).searcher
    assert facts(searcher, "Where is KilnError raised?") == [("kiln.py", 5, True)]
    assert "is used in 1 place" in search([searcher], "Where is KilnError raised?").code_facts.summary


def test_names_in_plain_words_are_extended_and_implemented(engine, tmp_path):
    (tmp_path / "Shapes.java").write_text(SHAPES, encoding="utf-8")
    shapes = engine.repository(locate(str(tmp_path))).searcher
    extended = [("Shapes.java", 4, True), ("Shapes.java", 6, True)]
    assert facts(shapes, "Which classes extend Base?") == extended
    assert facts(shapes, "What inherits from Base?") == extended
    assert facts(shapes, "Which classes implement Drawn?") == extended[:1]
    assert facts(shapes, "Which class implements Circle?") is None


@pytest.mark.parametrize(
    "question",
    ["And who calls it?", "When does that get called?", "when does that happen, i.e. who calls it?"],
)
def test_a_follow_up_asks_about_the_place_last_shown(engine, sample_repo, question):
    sample = engine.repository(locate(str(sample_repo))).searcher
    found = search_in_turn([sample], question, ["Where is a token checked?"])
    assert found.code_facts.subject == "authenticate"
    assert found.hits[0].path == found.code_facts.items[0].path


OTHERS = ["What is used to lock?", "Where is a lock acquired?", "How do I call it?"]


@pytest.mark.parametrize("question", OTHERS)
def test_other_questions_have_no_callers(searcher, question):
    assert facts(searcher, question) is None


@pytest.mark.parametrize("question", ["What does run_all call?", "Which classes does run_all use?"])
def test_what_something_calls_itself_is_another_question(searcher, question):
    assert search([searcher], question).code_facts is None


@pytest.mark.parametrize(
    "question", ["Where do we call acquire_lock?", "Where does anybody use acquire_lock?"]
)
def test_the_callers_may_be_called_anybody(searcher, question):
    assert search([searcher], question).code_facts is not None


PYTHON = """import os

def run(thing, env):
    thing.update()
    os.environ.update(env)
    made = dict(env)
    made.update(env)
    return [each.update() for each in thing]
"""
GO = """package main

import "fmt"

func run(things []any) {
	for _, one := range things {
		fmt.Println(one.Close())
	}
}
"""
CLOSERS = """package cart

type Cart struct{}
type Door struct{}
type Gate struct{}

func (c *Cart) Close() int { return 1 }
func (d *Door) Close() int { return 2 }
func (g *Gate) Close() int { return 3 }
"""
TYPESCRIPT = """export function run(things: any, found: Map) {
  things[0].update();
  found.update();
  return things.last.update();
}
"""
JAVA = """import java.util.List;

class Shop {
  void run(List<Cart> things) {
    things.get(0).update();
    Thread thread = new Thread();
    thread.update();
  }
}
"""
OPEN = {
    "python": (
        {"cart.py": "class Cart:\n    def update(self):\n        return 1\n", "shop.py": PYTHON},
        "Cart.update",
        ["shop.py:4", "shop.py:8"],
    ),
    "go": ({"cart/cart.go": CLOSERS, "main.go": GO}, "Cart.Close", ["main.go:7"]),
    "typescript": (
        {"cart.ts": "export class Cart {\n  update() {\n    return 1;\n  }\n}\n", "shop.ts": TYPESCRIPT},
        "Cart.update",
        ["shop.ts:2", "shop.ts:4"],
    ),
    "java": (
        {"Cart.java": "class Cart {\n  int update() {\n    return 1;\n  }\n}\n", "Shop.java": JAVA},
        "Cart.update",
        ["Shop.java:5"],
    ),
}


@pytest.mark.parametrize("language", OPEN)
def test_without_resolved_calls_the_others_of_that_name_are_counted(engine, tmp_path, language):
    files, name, places = OPEN[language]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    found = search([engine.repository(locate(str(tmp_path))).searcher], f"Who calls `{name}`?").code_facts
    uses = "1 use" if len(places) == 1 else f"{len(places)} uses"
    assert found.summary.startswith(
        f"`{name}` may be called in the {len(files)} indexed files: "
        f"{uses} of that name could not be attributed"
    )
    assert [f"{item.path}:{item.start}" for item in found.items[1:]] == places
    assert {item.certain for item in found.items[1:]} == {False}
    assert (found.count, found.certain_count, found.complete) == (0, 0, False)


def test_the_uses_of_a_name_that_nothing_defines_are_found_by_its_text(engine, tmp_path):
    imported = "<script>\nimport CoverField from './CoverField.vue'\n</script>\n"
    form = f"<template>\n  <CoverField />\n</template>\n{imported}"
    for path, text in {"Form.vue": form, "CoverField.vue": "<template>\n  <b>one</b>\n</template>\n"}.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    found = search([engine.repository(locate(str(tmp_path))).searcher], "Who uses CoverField?").code_facts
    said = "`CoverField` is possibly used in 1 place; 1 other line of code has the name"
    assert found is not None and found.summary == said
    assert {(item.path, item.start, item.certain) for item in found.items} == {
        ("Form.vue", 2, False),
        ("Form.vue", 5, False),
    }


BROUGHT = {
    "const { make_slug } = require({})": "make_slug",
    "const { a, make_slug: slug } = require({})": "slug",
    "const slug = require({}).make_slug": "slug",
    "const {\n  make_slug,\n} = require({})": "make_slug",
    "const {\n  make_slug: slug,\n} = require({})": "slug",
    "const { make_slug } = await import({})": "make_slug",
    "import { make_slug } from {}": "make_slug",
    "import {\n  make_slug as slug,\n} from {}": "slug",
}


@pytest.mark.parametrize("module", ["./slugs.js", "outside"])
@pytest.mark.parametrize("question", ["Who uses make_slug?", "Who calls make_slug?"])
@pytest.mark.parametrize("brought", BROUGHT)
def test_what_brings_a_name_does_not_use_it(searcher_of, brought, question, module):
    here = BROUGHT[brought]
    lines = brought.replace("{}", f"'{module}'")
    files = {"lib/a.js": f"{lines}\n\nfunction page(title) {{\n  return {here}(title)\n}}\n"}
    if module != "outside":
        files["lib/slugs.js"] = "export function make_slug(text) {\n  return text\n}\n"
    elif here != "make_slug":
        files["lib/a.js"] += "make_slug('a')\n"
    found = search([searcher_of(files)], question).code_facts
    first, *others = found.items
    assert found.count == 1
    assert first.start > lines.count("\n") + 1
    assert all("imports make_slug" in item.reason for item in others)


MARKED = {
    "store.rb": """class Store
  def write?(user)
    user
  end

  def write(row)
    row
  end

  def save!
    write(1) if write?(nil)
  end

  def fetch(key)
    outside!(fetch(key))
  end
end
""",
    "client.js": """class Client {
  #send(path) {
    return path
  }
  get(path) {
    return this.#send(path)
  }
}
class Conf { default(name) { return name } }
function defaults(options) { return new Conf().default(options) }
function all() { return defaults({}) }
function run(store) { store.save!; return all() }
""",
}
CALLED = {
    "write?": ("write?", ["store.rb:11"]),
    "write??": ("write?", ["store.rb:11"]),
    "Store#write?": ("write?", ["store.rb:11"]),
    "write": ("write", ["store.rb:11"]),
    "fetch?": ("fetch", ["store.rb:15"]),
    "#send": ("#send", ["client.js:6"]),
    "Client#send": ("#send", ["client.js:6"]),
    "Client.#send": ("#send", ["client.js:6"]),
    "outside!": ("", ["store.rb:15"]),
    "outside!?": ("", ["store.rb:15"]),
    "default": ("default", ["client.js:10"]),
    "defaults": ("defaults", ["client.js:11"]),
    "all": ("all", ["client.js:12"]),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_name_with_a_mark_and_a_word_of_questions_have_the_same_callers_everywhere(searcher_of, name):
    meant, places = CALLED[name]
    searcher = searcher_of(MARKED)
    found = uses_of_name(searcher.index, name)
    assert [f"{use.path}:{use.line}" for use in found.found] == places
    assert [one.name for one in found.targets] == [meant] * bool(meant)
    for question in (f"who calls {name}", f"Who calls `{name}`?"):
        facts = search([searcher], question).code_facts
        assert facts is not None, question
        assert [f"{item.path}:{item.start}" for item in facts.items[: facts.count]] == places


@pytest.mark.parametrize("name", ["write?", "save!", "save!?", "`save!`", "#send", "Client.#send"])
def test_a_search_for_a_name_with_a_mark_begins_with_its_definition(searcher_of, name):
    first = search([searcher_of(MARKED)], name).hits[0]
    assert first.symbol == name.strip("`").removesuffix("!?").removeprefix("Client.") + "!" * ("!?" in name)


CHECK = "class TwoFactor:\n    def check_code(self):\n        pass\n"
PAGE = """<div class="form-check_code">check_code</div>
<p>To check_code is good</p>
<b id="check_code_box" onclick="check_code()">check_code</b>
{{ user.check_code }}
<input data-action="check_code">
"""


def test_another_language_uses_a_name_where_it_is_written_as_code(engine, tmp_path):
    (tmp_path / "two.py").write_text(CHECK, encoding="utf-8")
    (tmp_path / "page.twig").write_text(PAGE, encoding="utf-8")
    searcher = engine.repository(locate(str(tmp_path))).searcher
    found = search([searcher], "Who calls TwoFactor.check_code?").code_facts
    assert found.count == 3
    assert "is possibly called in 3 places; 2 other lines of code have the name" in found.summary
    assert [(one.path, one.start) for one in found.items] == [("page.twig", n) for n in (3, 4, 5, 1, 2)]


def test_another_language_may_use_a_name_that_many_definitions_have(engine, tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.py").write_text(CHECK.replace("Two", name.upper()), encoding="utf-8")
    (tmp_path / "page.twig").write_text(PAGE, encoding="utf-8")
    searcher = engine.repository(locate(str(tmp_path))).searcher
    found = search([searcher], "Who calls AFactor.check_code?").code_facts
    assert (found.count, found.certain_count) == (0, 0)
    assert "; 5 other lines of code have the name" in found.summary
    places = [(item.path, item.start) for item in found.items]
    assert places == [("a.py", 2), *(("page.twig", n) for n in (3, 1, 2, 4, 5))]


def test_a_follow_up_with_a_subject_of_its_own_asks_for_no_uses_of_it(searcher):
    for question in ("Which errors are thrown?", "Which tokens are used?"):
        found = search_in_turn([searcher], question, ["What does `acquire_lock` do?"]).code_facts
        assert found is None or found.kind != "callers"
    found = search_in_turn([searcher], "Where is it used?", ["What does `acquire_lock` do?"]).code_facts
    assert found is not None and found.kind == "callers"
