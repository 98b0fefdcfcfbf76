"""Questions about commands of a build, conventions of a project, and URL paths."""

from __future__ import annotations

import pytest

from rag.retrieval.build_commands import build_command
from rag.retrieval.search import search

FILES = {
    "Makefile": ".PHONY: assets\n\nassets: install\n\tcp a b\n\ninstall:\n\tpip install .\n",
    "package.json": (
        '{\n  "engines": {"node": ">=20"},\n  "scripts": {\n    "dev": "vite",\n    "build-all": "tsc"\n}}'
    ),
    "Dockerfile": "FROM debian:12\nRUN make assets\n",
    ".github/workflows/ci.yml": "name: ci\njobs:\n  test:\n    steps:\n      - run: make assets\n",
    ".pre-commit-config.yaml": "repos:\n  - repo: local\n    hooks:\n      - id: ruff\n",
    "app/routes.go": (
        'package app\n\nfunc Register(r *Router) {\n\tr.Get("/query_range", queryRange)\n'
        '\tr.Post("/-/reload", reload)\n\tr.Delete("/users/:id", remove)\n}\n'
    ),
    "app/routes_test.go": 'package app\n\nfunc TestReload(t *testing.T) {\n\tget(t, "/-/reload")\n'
    '\tget(t, "/api/v1/query_range")\n\tget(t, "/only/tested")\n}\n',
    "app/assets.go": (
        "package app\n\n// Assets makes what make does: the assets that the reload of users needs.\n"
        "func Assets() {}\n"
    ),
    **{
        f"app/reload_{n}.go": (
            "package app\n\n// The handler of the route that handles and serves query range requests,\n"
            f"// registered to delete and reload api v1.\nfunc ReloadRoute{n}(users Users) {{}}\n"
        )
        for n in range(12)
    },
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("What does `make assets` do?", "Makefile"),
        ("explain make install", "Makefile"),
        ("Where is the target `make assets` defined?", "Makefile"),
        ("what does npm run dev do", "package.json"),
        ("What does pnpm build-all run?", "package.json"),
        ("What does the script `build-all` do?", "package.json"),
        ("Where is the dev script defined?", "package.json"),
        ("What does the `dev` script run?", "package.json"),
        ("Which Node version is needed?", "package.json"),
        ("which base image does the Dockerfile use?", "Dockerfile"),
        ("What runs in CI?", ".github/workflows/ci.yml"),
        ("How do I run the linter?", ".pre-commit-config.yaml"),
        ("Which handler serves /api/v1/query_range?", "app/routes.go"),
        ("Where is the route /-/reload registered?", "app/routes.go"),
        ("who handles DELETE /users/{id}", "app/routes.go"),
    ],
)
def test_the_place_of_a_convention_comes_first(searcher, question, path):
    assert search([searcher], question).hits[0].path == path


def test_a_script_is_headed_by_its_name(searcher_of):
    scripts = "".join(f'    "step-{n}": "node tools/step.js --number {n} --verbose",\n' for n in range(120))
    searcher = searcher_of({"package.json": f'{{\n  "scripts": {{\n{scripts}    "dev": "vite"\n  }}\n}}\n'})
    for question, name in (
        ("What does npm run dev do?", "dev"),
        ("Where is the script `step-64`?", "step-64"),
    ):
        first = search([searcher], question).hits[0]
        assert first.label == f"scripts.{name}" and f'"{name}"' in first.text


@pytest.mark.parametrize(
    "text",
    [
        "What does make sense here and why?",
        "make it faster",
        "What does the app do?",
        "",
        "Which script is run first?",
        "Where is the type script?",
        "What does the main script do?",
        "Show me the user script",
        "What does the scripting engine do?",
        "Where is the script of the user stored and run?",
        "How does a script get its arguments?",
        "What is a script here?",
        "Where is a script's output read?",
        "show me the manuscript",
        "describe how the script works",
        "Where are scripts loaded?",
        "What does transcript do?",
        "What does the script that deploys do?",
    ],
)
def test_other_questions_are_about_no_command(text):
    assert build_command(text) is None
