"""How a project is started, built, tested and released is found where its commands are."""

from __future__ import annotations

import re
import time

import pytest

from rag.retrieval.project_questions import project_questions
from rag.retrieval.search import search

FILES = {
    "README.md": "# Kiln\n\nFires pots. The build is green.\n\n- starts a server that is released\n",
    "INSTALL.md": (
        "# Installing Kiln\n\n## Packages\n\nUse the package of your distribution.\n\n## Compiling it\n\n"
        "    cmake .\n    make -j4\n\n## Notes on builds\n\nA build may fail.\n"
    ),
    "CONTRIBUTING.md": (
        "# Contributing\n\nEvery change passes the tests and starts a discussion.\n\n## Checks\n\n"
        "Run `npm run lint`.\n\n## Trying it out\n\n```\nnpm run dev\n```\n\n"
        "## Verifying\n\nRun `npm run test`.\n"
    ),
    "PACKAGING.md": "# Snap\n\nsnapcraft\n\n# PyPI\n\ntwine upload\n",
    "Makefile": "BUILD=\nE2E_IMG = k\n\nall:\n\tcmake .\n\ne2e-end:\n\tkind delete\n\ne2e:\n\tkind create\n",
    "build.gradle.kts": 'plugins { id("com.android.application") }\n',
    "app/build.gradle.kts": "android {\n    minSdk = 23\n}\n",
    **{
        f"src/server_{n}.py": f"def start_server_{n}(test, release, build):\n    # start dev server, e2e\n"
        f"    # released, built from source, minimum android version\n    return {n}\n"
        for n in range(6)
    },
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("question", "path", "line"),
    [
        ("how do i start the dev server", "CONTRIBUTING.md", "npm run dev"),
        ("how to build it from source", "INSTALL.md", "make -j4"),
        ("how do I run the tests?", "CONTRIBUTING.md", "npm run test"),
        ("how do i run the e2e tests locally", "Makefile", "e2e:\n"),
        ("how is it released to pypi", "PACKAGING.md", "twine"),
        ("minimum android version", "app/build.gradle.kts", "minSdk"),
    ],
)
def test_the_command_is_first(searcher, question, path, line):
    first = search([searcher], question).hits[0]
    assert first.path == path
    assert line in first.text


@pytest.mark.parametrize(
    "question",
    [
        "how is a lock released?",
        "how does start_server_1 run the server",
        "how does the server start?",
        "how does the app start in dev mode",
        "how is it signed?",
    ],
)
def test_what_the_code_does_is_no_question_about_the_project(searcher, question):
    assert not any("pointed" in hit.legs for hit in search([searcher], question).hits)


@pytest.mark.parametrize("part", ["-", "\n", "\n#", " \n\t"])
def test_a_text_of_marks_and_blank_lines_is_searched_in_linear_time(part):
    began = time.process_time()
    for line in {place.line for row in project_questions() for place in row.places}:
        re.search(line, part * (20_000 // len(part)), re.I | re.M)
    assert time.process_time() - began < 2
