"""What the answers to settings, callers, messages and failures are based on: names, values, copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.search import Searcher, search
from rag.service import Dialog, Engine, converse
from rag.types import Answer, CodeFacts

Open = Callable[[Mapping[str, str]], Searcher]


@pytest.fixture
def opened(engine: Engine, tmp_path: Path) -> Open:
    """Return a function that writes files and opens them as a repository."""

    def opened(files: Mapping[str, str]) -> Searcher:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return engine.repository(str(tmp_path)).searcher

    return opened


def facts(searcher: Searcher, question: str) -> CodeFacts:
    found = search([searcher], question).code_facts
    assert found is not None
    return found


def test_an_option_that_is_named_is_that_option_or_none(opened: Open):
    searcher = opened(
        {
            "cli.py": 'parser.add_argument("--dash-edge", default=3, help="edge of the dash live stream")\n',
            "other/notes.py": 'add("--slow-edge", default=9)\n',
        }
    )
    assert facts(searcher, "What is the default of --slow-edge?").items[0].path == "other/notes.py"
    assert search([searcher], "What is the default of --dash-live-edge?").code_facts is None


def test_an_option_of_kconfig_is_found_by_its_name(opened: Open):
    option = 'config {0}\n\tbool "{1}"\n\tdefault y\n\thelp\n\t  {1} of the workshop.\n\n'
    searcher = opened(
        {
            "kiln.c": "".join(
                f"int kiln_default_{n}(void)\n{{\n\treturn kiln.hours[{n}];\n}}\n\n" for n in range(60)
            ),
            "Kconfig": option.format("DOOR", "A door") + option.format("KILN", "Support for kilns"),
            "door/Kconfig.debug": option.format("DOOR_DEBUG", "Messages of the door"),
        }
    )
    for name, path, line in (("KILN", "Kconfig", 7), ("DOOR_DEBUG", "door/Kconfig.debug", 1)):
        for asked in (name, f"CONFIG_{name}"):
            found = facts(searcher, f"What is the default of {asked}?")
            assert (found.subject, found.items[0].path, found.items[0].start) == (name, path, line)
            assert "default y" in found.items[0].text


def test_a_word_in_capitals_is_a_setting_only_as_it_is_written(opened: Open):
    searcher = opened(
        {"kiln.py": "kiln = 12\nDOOR = 3\n", "door.py": "def door(kiln):\n    return kiln + 1\n"}
    )
    assert facts(searcher, "What is the default of DOOR?").subject == "DOOR"


def test_another_word_in_capitals_is_not_the_setting(opened: Open):
    described = "help='how far behind the live edge a KILN begins'"
    searcher = opened(
        {
            "cli.py": f"parser.add_argument('--kiln-live-edge', default=3, {described})\n",
            "more.py": "KILN = 4\nparser.add_argument_group('KILN options')\n",
        }
    )
    asked = "Which option says how far behind the live edge a KILN begins?"
    assert facts(searcher, asked).items[0].path == "cli.py"


BUNDLED = {
    f"lib/{name}.js": f"export function {name}Kiln(kiln, hours) {{\n"
    + "".join(f"  kiln.{name}{n} = hours + {n};\n" for n in range(8))
    + "  return mergeGlaze(kiln, hours);\n}\n\n"
    + f"export function {name}Door(door) {{\n"
    + "".join(f"  door.{name}{n}.open({n});\n" for n in range(8))
    + f"  return new Error('the {name} door of the kiln stays shut');\n}}\n"
    for name in ("heat", "cool", "load", "empty", "glaze", "dry", "paint", "wash", "sell", "break")
} | {"lib/merge.js": "export function mergeGlaze(kiln, hours) {\n  return [kiln, hours];\n}\n"}


def test_committed_bundles_are_left_out(opened: Open):
    bundle = "".join(text.replace("export ", "") for text in BUNDLED.values())
    searcher = opened({**BUNDLED, "dist/kiln.js": bundle})
    called = facts(searcher, "Who calls mergeGlaze?")
    assert {item.path.split("/")[0] for item in called.items} == {"lib"}
    written = facts(searcher, "the heat door of the kiln stays shut")
    assert [item.path for item in written.items] == ["lib/heat.js"]


@pytest.mark.parametrize(
    "question",
    [
        "Who calls recover() of KilnServer?",
        "Who calls the recover method of KilnServer?",
        "Who calls recover()?",
    ],
)
def test_a_method_is_named_with_its_class(opened: Open, question: str):
    searcher = opened(
        {
            "kiln.py": "class KilnServer:\n    def recover(self):\n        return 1\n\n    def fire(self):\n"
            "        return self.recover()\n\n\ndef made():\n    return KilnServer()\n"
        }
    )
    found = facts(searcher, question)
    assert (found.subject, [item.start for item in found.items]) == ("KilnServer.recover", [6])


def test_a_message_is_a_literal_with_values_for_its_placeholders(opened: Open):
    searcher = opened(
        {
            "args.go": "package kiln\n\nfunc Exact(n int) error {\n"
            '\treturn fmt.Errorf("accepts %d pot(s), received %d", n, 1)\n}\n\nfunc Most(n int) error {\n'
            '\treturn fmt.Errorf("accepts at most %d pot(s), received %d", n, 1)\n}\n'
        }
    )
    found = facts(searcher, "accepts at most 2 pot(s), received 3")
    assert (found.kind, found.items[0].start) == ("message", 8)


def test_a_quote_shows_the_line_that_the_rules_found(engine: Engine, tmp_path: Path):
    lines = [f"    kiln.step({n})  # the kiln cannot be opened" for n in range(40)]
    lines[30] = '    warn("kiln %d cannot be opened by %s", kiln, who)'
    (tmp_path / "kiln.py").write_text("def fire(kiln, who):\n" + "\n".join(lines) + "\n")
    dialog, generator = Dialog(engine, [engine.repository(str(tmp_path))]), ExtractiveGenerator()
    *_, answer = converse(dialog, "kiln 7 cannot be opened by Anna", generator)
    assert isinstance(answer, Answer) and answer.code_facts and answer.code_facts.kind == "message"
    shown = answer.text.partition("```")[2]
    assert 'warn("kiln %d cannot be opened by %s", kiln, who)' in shown


def test_calls_that_name_the_class_of_a_method_are_possible(opened: Open):
    searcher = opened(
        {
            "src/Kiln/Fire.php": "<?php\nnamespace Pots\\Kiln;\n\nfinal class Fire\n{\n"
            "    public static function execute(int $heat): bool\n    {\n        return true;\n    }\n}\n",
            "src/Pot.php": "<?php\nnamespace Pots;\n\nclass Pot\n{\n    public function bake(): void\n    {\n"
            "        Kiln\\Fire::execute(5);\n        $this->statement->execute(5);\n    }\n}\n",
        }
    )
    found = facts(searcher, r"who calls Kiln\Fire::execute?")
    assert found.summary == (
        "`Fire.execute` is possibly called in 1 place; 1 use of that name could not be attributed"
    )
    assert [(item.start, item.reason) for item in found.items] == [
        (8, "calls execute"),
        (9, "has the name execute"),
    ]


SHELL = """#!/bin/bash
export KILN_PATH=${KILN_PATH-/usr/lib/kiln}
kiln_style=plain  # the default style of the path

kiln_fire() { # <pot>
  echo "$1"
}

heat=$(kiln_fire red)
kiln_fire blue
"""


def test_a_shell_function_is_called_where_it_is_not_defined(opened: Open):
    searcher = opened({"kiln.sh": SHELL})
    for question in ("Who calls kiln_fire?", "all the places that call kiln_fire"):
        found = facts(searcher, question)
        assert (found.kind, [item.start for item in found.items]) == ("callers", [9, 10])


def test_a_variable_of_a_shell_has_the_default_that_replaces_it_and_no_other_setting_does(opened: Open):
    searcher = opened({"kiln.sh": SHELL})
    found = facts(searcher, "default of KILN_PATH?")
    assert [item.start for item in found.items] == [2]
    assert search([searcher], "What is the default of KILN_STYLE_PATH?").code_facts is None
