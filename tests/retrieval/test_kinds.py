"""Questions of known kinds are answered by rules: facts with their lines, first among the hits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.kinds.line_series import series_of
from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.search import Searcher, search
from rag.service import Dialog, Engine, converse
from rag.types import MAX_QUESTION_CHARS, Answer, CodeFacts

FILES = {
    "shop/color.py": '''
from enum import Enum


class GlazeColor(Enum):
    """The colours of a glaze."""

    # warm ones
    RED = 1
    OCHRE = 2
    UMBER = 3
    # cold ones
    COBALT = 4
    CELADON = 5
''',
    "shop/errors.py": """
class KilnError(Exception):
    pass


class KilnTooHot(KilnError):
    pass


class KilnTooCold(KilnError):
    pass


class KilnDoorOpen(KilnError):
    pass
""",
    "shop/firing.py": '''
class KilnCracked(KilnError):
    pass


def fire_kiln(kiln, hours):
    """Fire the kiln for some hours."""
    if kiln.door_open:
        raise KilnDoorOpen(f"the door of kiln {kiln.number} is open, close it before firing")
    try:
        kiln.heat(hours)
    except OverflowError:
        return None
    return kiln


def describe(kiln):
    """Describe the kiln and how it is fired."""
    return f"kiln {kiln.number}"
''',
    "shop/settings.py": """
class Settings:
    def __init__(self):
        # How many hours the kiln cools down after firing.
        self.cooling_hours = 12
        # The colour of the label.
        self.label_color = "red"
""",
    "shop/cli.py": """
parser.add_argument("--cooling-hours", type=int, help="hours the kiln cools down after firing")
parser.add_argument("--label-color", help="colour of the label")
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pottery")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    for number in range(20):
        (folder / f"other{number}.py").write_text(
            f"def job{number}(queue):\n    return queue.take({number})\n"
        )
    return folder


@pytest.fixture(scope="module")
def shop(engine: Engine, folder: Path) -> Searcher:
    return engine.repository(str(folder)).searcher


def facts(shop: Searcher, question: str) -> CodeFacts:
    found = search([shop], question).code_facts
    assert found is not None
    return found


def test_the_members_of_an_enum_are_listed(shop: Searcher):
    found = facts(shop, "List all colours that a glaze can have.")
    assert (found.kind, found.subject, found.count, found.complete) == ("list", "GlazeColor", 5, True)
    assert [item.text.split()[0] for item in found.items] == ["RED", "OCHRE", "UMBER", "COBALT", "CELADON"]
    assert [item.start for item in found.items] == [9, 10, 11, 13, 14]
    assert found.summary == "The list is `GlazeColor` in `shop/color.py`, which has 5 members"


def test_the_subclasses_in_other_files_are_listed(shop: Searcher):
    found = facts(shop, "Which kiln error classes are there?")
    assert (found.subject, found.count) == ("KilnError", 4)
    names = [item.text.split()[1].partition("(")[0] for item in found.items]
    assert names == ["KilnError", "KilnTooHot", "KilnTooCold", "KilnDoorOpen", "KilnCracked"]
    assert found.items[0].reason == "their base class"


def test_calls_with_many_strings_are_members_like_those_with_few(tmp_path: Path, engine: Engine):
    folder = tmp_path / "tool"
    folder.mkdir()
    options = [
        ("speed", "How fast it turns"),
        ("glaze [NAME|FILE]", "What it is covered with"),
        ("dry", "Let it dry"),
    ]
    lines = [f'  o.on "-{name[0]}", "--{name}", "{text}" do |value|\n  end\n' for name, text in options]
    (folder / "wheel.rb").write_text("def wheel_options(o)\n" + "".join(lines) + "end\n")
    found = facts(engine.repository(str(folder)).searcher, "List all options of the wheel.")
    assert (found.kind, found.count) == ("list", 3)


def test_the_classes_with_a_name_are_listed_from_all_files(tmp_path: Path, engine: Engine):
    for name in ("Oven", "Glaze", "Wheel"):
        text = f"class {name}Error(Exception):\n    pass\n\n\nclass ErrorLog{name}:\n    pass\n"
        (tmp_path / f"{name.lower()}.py").write_text(text)
    found = facts(engine.repository(str(tmp_path)).searcher, "list all the error classes")
    assert sorted(item.text for item in found.items) == [
        f"class {name}Error(Exception):" for name in ("Glaze", "Oven", "Wheel")
    ]


def test_a_table_is_a_list_rather_than_the_calls_that_release_its_entries(tmp_path: Path, engine: Engine):
    calls = "".join(f'    transport_dispose("transport{number}");\n' for number in range(8))
    (tmp_path / "net.c").write_text(f"void done(void)\n{{\n{calls}}}\n")
    entries = "".join(f'    {{ "{name}", open_{name} }},\n' for name in ("git", "http", "https", "file"))
    (tmp_path / "table.c").write_text(f"static definition transports[] = {{\n{entries}}};\n")
    found = facts(engine.repository(str(tmp_path)).searcher, "Which transports are there?")
    assert (found.subject, found.count) == ("transports", 4)


LISTS = {
    "glaze.rs": "pub enum Glaze {\n    Ash(u8),\n    Salt(f32),\n    Celadon(Tone),\n}\n",
    "glaze.php": "<?php\nclass Glaze {\n    const ASH = 1;\n    const SALT = 2;\n    const TENMOKU = 3;\n}\n",
    "glaze.c": (
        "static const struct named_glaze glazes[] = {\n"
        '    {"ash", GLAZE_ASH},\n    {"salt", GLAZE_SALT},\n    {"celadon", GLAZE_CELADON},\n};\n'
    ),
}


@pytest.mark.parametrize("path", LISTS)
def test_values_of_enums_constants_and_rows_of_structs_are_members(tmp_path: Path, engine: Engine, path: str):
    (tmp_path / path).write_text(LISTS[path])
    found = facts(engine.repository(str(tmp_path)).searcher, "What are the possible glazes?")
    assert (found.subject.lower().rstrip("s"), found.count) == ("glaze", 3)


def test_an_enum_on_one_line_has_as_many_values_as_it_declares(tmp_path: Path, engine: Engine):
    (tmp_path / "Kiln.java").write_text("class Kiln {\n    enum Level { OFF, WARN, INFO, DEBUG, }\n}\n")
    found = facts(engine.repository(str(tmp_path)).searcher, "List all levels of the kiln.")
    assert (found.summary, found.count) == (
        "The list is `Level` in `Kiln.java`, which has a line with 4 values",
        4,
    )


def test_a_table_named_in_the_plural_is_a_list_rather_than_one_of_its_members(tmp_path: Path, engine: Engine):
    for name in ("gas", "wood", "solar"):
        fields = "".join(f"    .{field} = {name}_{field},\n" for field in ("start", "stop", "read", "free"))
        (tmp_path / f"{name}.c").write_text(f"const heat_method {name}_heat_method = {{\n{fields}}};\n")
    rows = "".join(f"    {name}_heat_method,\n" for name in ("gas", "wood", "solar", "lava"))
    (tmp_path / "main.c").write_text(f"const heat_method heat_methods[] = {{\n{rows}}};\n")
    found = facts(engine.repository(str(tmp_path)).searcher, "List all heat methods.")
    assert (found.subject, found.count) == ("heat_methods", 4)


def test_a_base_class_is_a_member_only_of_the_classes_that_are_asked_for(tmp_path: Path, engine: Engine):
    base = "class Storage:\n    pass\n\n\n"
    kinds = "".join(
        f"class {name}(Storage):\n    pass\n\n\n" for name in ("Local", "Remote", "Cloud", "Tape")
    )
    (tmp_path / "storages.py").write_text(base + kinds)
    shelf = engine.repository(str(tmp_path)).searcher
    assert facts(shelf, "Which storage types are there?").items[0].text == "class Local(Storage):"
    assert facts(shelf, "Which storage classes are there?").items[0].reason == "their base class"


def test_the_literal_of_a_pasted_message_is_first(shop: Searcher):
    found = facts(shop, "KilnDoorOpen: the door of kiln 7 is open, close it before firing")
    assert (found.kind, found.items[0].path, found.items[0].start) == ("message", "shop/firing.py", 9)
    assert search([shop], "the door of kiln 7 is open, close it before firing").hits[0].reason


def test_literals_with_the_same_words_are_all_shown(tmp_path: Path, engine: Engine):
    (tmp_path / "read.c").write_text(
        "void read(int line) {\n"
        "    warn(\"invalid kiln file at line %d: missing '['.\", line);\n    close(line);\n"
        "    warn(\"invalid kiln file at line %d: missing ']'.\", line);\n    close(line);\n"
        '    warn("invalid kiln file at line %d: missing \'\\"\'.", line);\n}\n'
    )
    asked = "WARNING: invalid kiln file at line 37: missing ']'."
    found = facts(engine.repository(str(tmp_path)).searcher, asked)
    assert (found.kind, [item.start for item in found.items]) == ("message", [2, 4, 6])


def test_a_short_literal_with_a_value_and_one_over_two_lines_are_found(tmp_path: Path, engine: Engine):
    (tmp_path / "door.py").write_text(
        "def check(door, kiln):\n"
        "    if not door:\n"
        "        raise ValueError(f'unknown door: {door}')\n"
        "    raise ValueError(f'the door {door} of kiln {kiln} '\n"
        "                     f'belongs to another one')\n"
    )
    (tmp_path / "other.py").write_text("def other(door):\n    return 'unknown', door\n")
    searcher = engine.repository(str(tmp_path)).searcher
    for message, line in (
        ("ValueError: unknown door: red", 3),
        ("the door 7 of kiln 4 belongs to another one", 4),
    ):
        found = facts(searcher, message)
        assert (found.kind, found.items[0].path, found.items[0].start) == ("message", "door.py", line)


def test_a_few_words_are_a_message_only_if_they_are_a_whole_literal(tmp_path: Path, engine: Engine):
    (tmp_path / "glaze.py").write_text(
        "def check(glaze):\n    if glaze.colour is None:\n        raise Unglazed('no glaze chosen')\n"
        "    return 'no glaze of this colour was chosen'\n"
    )
    searcher = engine.repository(str(tmp_path)).searcher
    found = facts(searcher, "no glaze chosen")
    assert (found.kind, found.items[0].path, found.items[0].start) == ("message", "glaze.py", 3)
    for text in ("no glaze", "glaze colour chosen", "is no glaze chosen?"):
        other = search([searcher], text).code_facts
        assert other is None or other.kind != "message"


def test_constants_that_begin_alike_are_a_list(tmp_path: Path, engine: Engine):
    names = ("FIRED", "COOLED", "BROKEN", "GLAZED")
    (tmp_path / "kiln.py").write_text(
        "import logging\n\nlogger = logging.getLogger()\n\n"
        + "".join(f"SIGNAL_{name} = '{name.lower()}'\n" for name in names)
        + "\n\nclass Signal:\n    pass\n"
    )
    found = facts(engine.repository(str(tmp_path)).searcher, "List all the signals a kiln can send.")
    assert [item.start for item in found.items] == [5, 6, 7, 8]


def test_the_subclasses_of_a_class_that_is_named_are_listed(tmp_path: Path, engine: Engine):
    text = "class Oven:\n    pass\n\n\n" + "".join(
        f"class {n}Oven(Oven):\n    pass\n\n\n" for n in ("Gas", "Wood")
    )
    (tmp_path / "oven.py").write_text(text)
    found = facts(engine.repository(str(tmp_path)).searcher, "all Oven subclasses for the different fuels")
    assert (found.subject, [item.text for item in found.items]) == (
        "Oven",
        ["class GasOven(Oven):", "class WoodOven(Oven):"],
    )


@pytest.mark.parametrize(
    "question",
    ["Where is the kiln fired?", "How is a kiln described?", "fire_kiln", "Why does the kiln cool?", ""],
)
def test_other_questions_are_searched_only(shop: Searcher, question: str):
    found = search([shop], question)
    assert found.code_facts is None and found.hits == found.ranked


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_chunks_of_the_facts_come_first_among_k_hits(shop: Searcher, k: int):
    found = search([shop], "Which kiln error classes are there?", k=k)
    assert found.code_facts and len(found.hits) == k
    assert found.hits[0].path == found.code_facts.items[0].path and found.hits[0].reason
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert len({(hit.path, hit.start) for hit in found.hits}) == k


def test_an_answer_shows_the_facts_with_their_sources(engine: Engine, folder: Path):
    dialog, generator = Dialog(engine, [engine.repository(str(folder))]), ExtractiveGenerator()
    *_, answer = converse(dialog, "List all colours that a glaze can have.", generator)
    assert isinstance(answer, Answer) and answer.code_facts
    lines = answer.text.splitlines()
    assert lines[0] == "The list is `GlazeColor` in `shop/color.py`, which has 5 members:"
    assert lines[2] == "[1] shop/color.py:5-14" and "    RED = 1" in lines
    assert answer.citations[0].path == "shop/color.py"
    assert (1, "shop/color.py", 9, 9) in generator.quoted
    prompt = dialog.prepare("List all colours that a glaze can have.").prompt.text
    assert "use it. The list is `GlazeColor` in `shop/color.py`, which has 5 members." in prompt
    assert "- shop/color.py:9 [1]: RED = 1\n" in prompt


TABLES = {
    "c": ('route_t routes[] = {\n\t/* 1 */\n\t{ "get", get },\n\t{ "put", put },\n};\n', "entry", 2),
    "go": ("const (\n\tModeOff Mode = iota // none\n\tModeOn\n\tModeAuto\n)\n", "name", 3),
    "json": ('{\n  "a": 1,\n  "b": {\n    "x": 0\n  },\n  "c": 3\n}\n', "key", 3),
    "ruby": ("class Store\n  register :file, FileStore\n  register :memory, MemoryStore\nend\n", "call", 2),
    "haskell": ("data Color\n  = Red\n  | Green\n  | Blue\n", "alternative", 2),
    "elixir": ("  @callback put(key) :: :ok\n  @doc \"x\"\n  @callback get(key) :: term\n", "declaration", 2),
    "csharp": ("class Options\n{\n\tpublic string Run;\n\n\t[Option]\n\tpublic bool Wait;\n}\n", "typed", 2),
    "python": ('@put("a")\n@other\ndef one():\n    1\n\n@put("b")\ndef two():\n    2\n', "decorated", 2),
    "rust": (
        "pub struct Opts {\n    /// Hidden.\n    #[arg(\n        long,\n    )]\n    pub hidden: bool,\n"
        "    no_hidden: (),\n    pub(crate) depth: Option<usize>,\n}\n",
        "field",
        3,
    ),
    "typescript": ("class A {\n  a: number;\n  private b?: T;\n  public readonly c: B;\n}\n", "field", 3),
}  # fmt: skip


@pytest.mark.parametrize("language", TABLES)
def test_series_of_many_languages_are_found(language: str):
    text, shape, count = TABLES[language]
    found = [one for one in series_of(text.split("\n")) if one.shape == shape]
    assert max(len(one.members) for one in found) == count


@pytest.mark.parametrize(
    "line",
    [
        *("a = " + "(" * 300, "x." * 180 + "y", "'" * 390, "public " * 55),
        *('["a", ' * 60, "{" + " " * 390, "f" + "(" * 390),
    ],
)
def test_hostile_lines_take_little_time(line: str):
    began = time.thread_time()
    series_of([line] * 500)
    assert time.thread_time() - began < 2


def test_many_levels_and_names_take_little_time():
    began = time.thread_time()
    series_of([" " * (n % 200) + f"call{n}('x')" for n in range(4_000)])
    assert time.thread_time() - began < 4


@pytest.mark.parametrize(
    "part",
    [
        *(
            "which-",
            "‘",
            "'a ",
            "what ",
            "list all ",
            "where default ",
            "which errors ",
            "what if ",
            "from x ",
        ),
        *("aB", "a.", "who is "),
    ],
)
def test_a_hostile_question_is_classified_in_little_time(part: str):
    for text in (part * MAX_QUESTION_CHARS, "what does " + part * MAX_QUESTION_CHARS):
        began = time.thread_time()
        kinds_of(text[:MAX_QUESTION_CHARS])
        assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    "statement",
    [
        "Acknowledge all bad doors in a list.",
        "Returns the default port for a given scheme.",
        "Get parameters which are the keys for a kiln",
        "Returns a list of all names that are registered.",
        "Apply all of the edits to the current state.",
        "Whether to print binary content (default: no)",
        "A specific implementation of a KilnDoor.",
        "Copy the stream until it ends or does not exist",
    ],
)
def test_a_statement_as_in_a_comment_asks_for_nothing(statement: str):
    assert set(kinds_of(statement)) <= {"message"}


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        ("all registered doors", "list"),
        ("callers of open_door", "callers"),
        ("usages of the kiln.Door please", "callers"),
        ("Give me all doors that are registered", "list"),
        ("Get me all of the doors", "list"),
        ("the default of the door", "setting"),
        ("default folder of doors", "setting"),
        ("whats the default kiln", "setting"),
        ("who opens the KilnDoor", "callers"),
        ("what kilns run at night", "list"),
        ("where is the list of supported kilns", "list"),
        ("name the doors", "list"),
    ],
)
def test_a_request_needs_no_question_mark(request_: str, kind: str):
    assert kind in kinds_of(request_)


def test_an_issue_is_no_question_for_a_setting():
    asked = "Which option sets the default heat of the kiln?"
    report = "The door stays open.\n\n" + "kiln: 1.2.3 at https://kilns.example.com\n" * 20
    assert "setting" in kinds_of(asked)
    assert "setting" not in kinds_of(f"{asked}\n{report}")


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("who defines KilnDoor", "callers"),
        ("who was KilnDoor written by", "callers"),
        ("what makes kilns run twice?", "list"),
        ("what decides whether kilns run", "list"),
        ("where is the list of old kilns searched for one that is cold?", "list"),
        ("where is the name of the kiln checked?", "list"),
    ],
)
def test_the_verb_decides_what_is_asked(question: str, kind: str):
    assert kind not in kinds_of(question)


def test_a_question_for_the_implementation_quotes_no_message():
    assert "message" not in kinds_of("Where is Support for kilns with several doors implemented?")
    assert "message" not in kinds_of("Which function implements the panic of the kiln?")
    assert "message" in kinds_of('Where is "the kiln has no door" handled?')
    assert "message" in kinds_of("Where does the kiln say that it has no door?")
