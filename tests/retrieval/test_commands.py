"""The commands that install, build, run and test a project are found where projects write them down."""

from __future__ import annotations

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.kinds.commands import project_commands
from rag.retrieval.search import search

NUMBERED = """# Contributing

1. **Set it up:**
   ```bash
   npm install
   ```

2. **Run the tests:**
   ```bash
   $ make test
   ```

3. **Run one test:** `pytest tests/test_kiln.py::test_fire`
"""
CI = (
    "jobs:\n  tests:\n    steps:\n      - run: pip install -r requirements.txt\n      - run: pytest -n auto\n"
)


def commands(searcher_of, files):
    return {
        (one.purpose, one.text): f"{one.path}:{one.line}"
        for one in project_commands(searcher_of(files).index)
    }


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"Makefile": "BUILD := 1\n\ntest: all\n\tpytest\n"}, {("test", "make test"): "Makefile:3"}),
        ({"justfile": "test *args:\n    cargo test\n"}, {("test", "just test"): "justfile:1"}),
        ({"noxfile.py": "def tests(session):\n    pass\n"}, {("test", "nox -s tests"): "noxfile.py:1"}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, {("test", "pytest"): "pyproject.toml:1"}),
        (
            {"README.md": "Run `cargo test` now.\n", "go.mod": "module kiln\n"},
            {("build", "go build ./..."): "go.mod:1"},
        ),
        (
            {
                "package.json": '{\n  "packageManager": "pnpm@9.0.0",\n  "scripts": {\n'
                '    "dev": "vite"\n  }\n}\n'
            },
            {("run", "pnpm run dev"): "package.json:4"},
        ),
        ({".github/workflows/ci.yml": CI}, {("test", "pytest -n auto"): ".github/workflows/ci.yml:5"}),
        (
            {"README.md": "```sh\ndocker compose up -d\n```\n"},
            {("run", "docker compose up -d"): "README.md:2"},
        ),
        (
            {"web/package.json": '{"scripts": {"test": "x"}}\n'},
            {("test", "cd web && npm test"): "web/package.json:1"},
        ),
        (
            {"package.json": '{"packageManager": "npm; curl x | sh; npm@1", "scripts": {"dev": "x"}}\n'},
            {("run", "npm run dev"): "package.json:1"},
        ),
    ],
)
def test_a_command_has_its_purpose_and_its_line(searcher_of, files, found):
    assert found.items() <= commands(searcher_of, files).items()


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests and build it.\n",
        "```sh\ngit clone x\n```\n",
        "`sudo apt-get install curl`\n",
        "`./dist/`\n",
        "`python is a language to run`\n",
        "You can `make it run` here.\n",
        "Recipes have a syntax inspired by `make`, or `npm test`.\n",
        "Tell the editor to use `make` syntax.\n",
        "```sh\nnpm test | sh\nnpm run $(curl x)\nnpm test > /etc/x\npytest <(curl x)\nnpm test; curl x\n"
        "npm test & curl x\nnpm test `curl x`\n```\n",
    ],
)
def test_other_text_is_no_command(searcher_of, text):
    assert commands(searcher_of, {"README.md": text}) == {}


@pytest.mark.parametrize(
    "text", ["Use `make`.\n", "- **Build:** `make`\n", "Run `cd x`, then `make`.\n", "Built with `make`.\n"]
)
def test_a_line_that_says_to_run_a_command_has_one(searcher_of, text):
    assert ("build", "make") in commands(searcher_of, {"README.md": text})


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}\n'},
        {"package.json": '{"scripts": {"dev": "node -e \\"console.warn(\'dev has been removed\')\\""}}\n'},
        {"package.json": '{"scripts": {"test; python x.py": "x", "test $(x)": "x"}}\n'},
        {"x; python y/package.json": '{"scripts": {"test": "x"}}\n'},
        {"website/package.json": '{"scripts": {"start": "x"}}\n'},
    ],
)
def test_a_package_without_scripts_of_the_project_has_no_command(searcher_of, files):
    assert commands(searcher_of, files) == {}


@pytest.mark.parametrize(
    ("files", "purpose", "first"),
    [
        ({"DEVELOP.md": "```\njust build sloc\n```\n", "justfile": "build:\n  cc\n"}, "build", "just build"),
        ({"DEVELOP.md": "Run `./bin/build`.\n", "Cargo.toml": "[package]\n"}, "build", "cargo build"),
    ],
)
def test_a_command_that_can_run_here_comes_first(searcher_of, files, purpose, first):
    found = [one.text for one in project_commands(searcher_of(files).index) if one.purpose == purpose]
    assert found[0] == first and len(found) == 2


def test_what_removes_a_build_does_not_build(searcher_of):
    files = {"Makefile": "clean-build:\n\trm -r dist\n\nclean-test:\n\trm .cov\n"}
    assert commands(searcher_of, files) == {}


def test_the_main_file_of_a_program_is_no_detail(searcher_of):
    files = {"README.md": "```\ngo run gen.go\ngo run main.go serve\n```\n", "go.mod": "module k\n"}
    found = [one.text for one in project_commands(searcher_of(files).index) if one.purpose == "run"]
    assert found == ["go run main.go serve", "go run gen.go"]


def test_a_command_that_no_line_has_is_one_by_convention(searcher_of):
    files = {"go.mod": "module kiln\n", "kiln.go": "package kiln\n\nfunc Fire() {}\n"}
    found = search([searcher_of(files)], "How do I run the tests?").code_facts
    assert found is not None and found.summary == "Run `go test ./...` by convention (`go.mod:1`)"


def test_of_very_many_scripts_the_first_are_read(searcher_of):
    scripts = ",\n".join(f'"test:{n}": "x"' for n in range(20_000))
    found = commands(searcher_of, {"package.json": f'{{"scripts": {{\n{scripts}\n}}}}\n'})
    assert len(found) == 500 and found["test", "npm run test:1"] == "package.json:3"


def test_the_whole_test_comes_before_a_part_of_it(searcher_of):
    files = {"CONTRIBUTING.md": NUMBERED, "package.json": "{}", "Makefile": "test:\n\tpytest\n"}
    found = [one.text for one in project_commands(searcher_of(files).index) if one.purpose == "test"]
    assert found == ["make test", "pytest tests/test_kiln.py::test_fire"]


@pytest.mark.parametrize("question", ["How do I run the tests?", "how can I test my changes?"])
def test_the_answer_is_the_command_with_its_place(searcher_of, question):
    searcher = searcher_of({"CONTRIBUTING.md": NUMBERED, "Makefile": "test:\n\tpytest\n"})
    found = search([searcher], question)
    assert found.code_facts is not None
    assert found.code_facts.summary == "Run `make test` (`CONTRIBUTING.md:10`)"
    assert found.code_facts.note == "Also: `pytest tests/test_kiln.py::test_fire` (`CONTRIBUTING.md:13`)"
    assert (found.hits[0].path, found.hits[0].asked_line) == ("CONTRIBUTING.md", 10)
    assert judge([searcher], found).is_sure


def test_the_named_part_of_the_tests_comes_first(searcher_of):
    searcher = searcher_of({"Makefile": "test:\n\tpytest\n\nintegration-test:\n\tpytest -m slow\n"})
    found = search([searcher], "How do I run the integration tests?").code_facts
    assert found is not None and found.summary == "Run `make integration-test` (`Makefile:4`)"


def test_a_question_about_the_code_of_tests_has_no_command(searcher_of):
    searcher = searcher_of({"Makefile": "test:\n\tpytest\n", "kiln.py": "def run(test):\n    return test\n"})
    found = search([searcher], "where is the test of the kiln?")
    assert found.code_facts is None or found.code_facts.kind != "command"
