"""What somebody asks first: defaults with their values, what CI runs, containers, variables, options."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.retrieval.search import Searcher, search, search_in_turn
from rag.service import Engine
from rag.types import CodeFacts

FILES = {
    "README.md": "# Kiln\n\nA kiln for pots.\n\n## Docker\n\n```sh\ndocker run -p 80:80 kiln\n```\n",
    "config/config.go": "package config\n\ntype Server struct {\n\tHeatSeconds int\n}\n\n"
    "func Get() *Server {\n\ts := &Server{\n\t\tHeatSeconds: 45,\n\t}\n"
    "\tparse(&s.HeatSeconds, EnvHeatSeconds)\n\tparse(&s.Name, EnvName)\n\treturn s\n}\n",
    "config/keys.go": "package config\n\nconst (\n"
    '\tEnvHeatSeconds = "KILN_HEAT_SECONDS"\n\tEnvName = "KILN_NAME"\n)\n',
    "vite.config.ts": "const heatSeconds = process.env.HEAT ?? 7;\nexport default { heatSeconds };\n",
    "cli.py": "import argparse\n\nparser = argparse.ArgumentParser()\n"
    'parser.add_argument("--glaze", default="matt", help="the glaze")\n'
    'parser.add_argument(\n    "--cone",\n    type=int,\n    default=6,\n)\n',
    "loader.py": "from settings import Base\n\n\nclass Options(Base):\n"
    '    env_prefix = "POT_"\n    handle_width: int = 3\n'
    "\n\ndef width(options):\n    return options.handle_width\n",
    "defaults/main.yml": 'kiln_client_max_pot_size: "64m"\nkiln_log: >-\n  a\n',
    ".github/workflows/a_release.yml": "on: push\njobs:\n  all:\n    steps:\n      - run: make publish\n",
    ".github/workflows/checks.yml": "on: [pull_request]\ndefaults:\n  run:\n    working-directory: x\njobs:\n"
    "  all:\n    steps:\n      - run: npm install\n      - name: Test\n        run: |\n          npm test\n"
    "          npm run lint\n",
}


@pytest.fixture(scope="module")
def searchers(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[Searcher]:
    folder: Path = tmp_path_factory.mktemp("kiln")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text(text)
    return [engine.repository(str(folder)).searcher]


def facts(searchers: list[Searcher], question: str) -> CodeFacts:
    found = search(searchers, question).code_facts
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is the default of HeatSeconds?", "`HeatSeconds` is `45` (`config/config.go:9`)"),
        ("How many heat seconds are there by default?", "`HeatSeconds` is `45` (`config/config.go:9`)"),
        ("What is the default of --glaze?", '`glaze` is `"matt"` by default (`cli.py:4`)'),
        ("What is the default of --cone?", "`cone` is `6` by default (`cli.py:6`)"),
        (
            "What is the default client max pot size?",
            '`kiln_client_max_pot_size` is `"64m"` (`defaults/main.yml:1`)',
        ),
        (
            "What is kiln_client_max_pot_size set to?",
            '`kiln_client_max_pot_size` is `"64m"` (`defaults/main.yml:1`)',
        ),
        ("What is the value of kiln_log?", "`kiln_log` is declared in `defaults/main.yml`"),
    ],
)
def test_a_default_is_said_with_its_value_and_place(searchers, question, said):
    assert facts(searchers, question).summary == said


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Who reads KILN_HEAT_SECONDS?", ("config/config.go", 11)),
        ("Who reads POT_HANDLE_WIDTH?", ("loader.py", 10)),
    ],
)
def test_a_variable_is_read_by_its_constant_and_without_its_prefix(searchers, question, place):
    first = facts(searchers, question).items[0]
    assert (first.path, first.start) == place


def test_it_is_the_setting_that_the_answer_is_about(searchers):
    found = search_in_turn(searchers, "who reads it?", ["What is the default of HeatSeconds?"])
    assert found.sought.setting == "HeatSeconds"
    assert found.code_facts is not None
    assert found.code_facts.items[0].start == 11


def test_what_ci_runs_is_what_checks_a_change(searchers):
    found = facts(searchers, "What runs in CI?")
    assert found.summary == (
        "CI runs `npm install`, `npm test`, `npm run lint` (`.github/workflows/checks.yml:8`)"
    )
    assert "a_release.yml" in found.note


def test_how_it_is_run_in_a_container(searchers):
    assert facts(searchers, "How do I run it in Docker?").items[0].path == "README.md"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which environment variables are there?", ["KILN_HEAT_SECONDS", "KILN_NAME"]),
        ("Which options does it have?", ["--glaze", "--cone"]),
    ],
)
def test_all_variables_and_options_are_listed_by_name(searchers, question, names):
    assert [item.label for item in facts(searchers, question).items] == names


ERRORS = {
    "kiln/errors.py": "class KilnError(Exception):\n    pass\n\n\nclass TooHot(KilnError):\n    pass\n",
    "kiln/fire.py": "def fire(heat):\n    if heat > 9:\n        raise TooHot(heat)\n"
    "    raise ValueError('cold')\n",
    "kiln/glaze.go": 'package kiln\n\nvar errNoGlaze = errors.New("no glaze")\n\ntype GlazeError struct{}\n',
    "kiln/pot.ts": "export class PotError<T = unknown> extends KilnError {}\n\n"
    "export function mould() {\n\tthrow new TypeError('no clay');\n}\n",
    "kiln/wheel.php": "<?php\nclass StuckException extends RuntimeException {}\n",
    "tests/test_fire.py": "class OnlyInTestsError(Exception):\n    pass\n",
}


@pytest.mark.parametrize(
    "question",
    [
        "Which errors are thrown?",
        "Which exceptions can be raised?",
        "List all error classes",
        "What errors exist?",
    ],
)
def test_the_errors_of_a_repository_are_its_types_and_those_that_it_raises(engine, tmp_path, question):
    for path, text in ERRORS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text)
    found = facts([engine.repository(str(tmp_path)).searcher], question)
    names = {item.label: f"{item.path}:{item.start}" for item in found.items}
    assert names == {
        "KilnError": "kiln/errors.py:1",
        "TooHot": "kiln/errors.py:5",
        "errNoGlaze": "kiln/glaze.go:3",
        "GlazeError": "kiln/glaze.go:5",
        "PotError": "kiln/pot.ts:1",
        "TypeError": "kiln/pot.ts:4",
        "StuckException": "kiln/wheel.php:2",
        "ValueError": "kiln/fire.py:4",
    }
    assert found.summary == "There are 8 types of errors, 2 of them in `kiln/errors.py`"


def test_what_one_function_raises_is_no_question_for_all_errors(searchers):
    for question in ("Which errors does fire raise?", "Where are errors handled?"):
        found = search(searchers, question).code_facts
        assert found is None or "types of errors" not in found.summary
