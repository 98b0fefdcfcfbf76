"""Questions of someone who has just opened a repository are answered where projects have the answer."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search, search_in_turn

README = """# sail - a window manager

[![Build Status](https://ci.example/build.svg)](https://ci.example/sail)

Sail arranges windows.
Pages may be organized into directories, and windows start where they were.

## Table of contents

- [Installation](#installation)
  - [From packages](#from-packages)
- [Running sail](#running-sail)
- [Configuration](#configuration)
- [Building from source](#building-from-source)

## Recipes

### Tips

#### Running sail in a loop

```sh
# install all themes
# configuration of the panel
sail --loop
```

## System requirements

Sail runs on Linux and needs Wayland. It does not run on Windows.

## Installation

### From packages

Take the package named sail of your distribution.

### Building from source

    meson setup build
    ninja -C build

## Running sail

Type `sail` in a terminal.

## Configuration

Copy the sample file to `~/.config/sail`.

## Getting help

Ask on IRC. The [documentation](https://sail.example) is online.
"""
FILES = {
    "README.md": README,
    "CONTRIBUTING.md": (
        "# Contributing to sail\n\nSend a patch.\n\n## Submitting an issue\n\nSay what broke.\n\n"
        "## Running tests\n\n    meson test\n\n## Releasing\n\nBump the version.\n"
    ),
    "panel/README.md": "# Panel\n\n## Debugging\n\nSet PANEL_DEBUG.\n\n## Tests\n\nThere are none.\n",
    "CLAUDE.md": "# Notes\n\n## Commands\n\nninja\n\n## Architecture overview\n\ndraw/ paints.\n",
    "CHANGELOG.md": "# 2.1.0\n\n- Faster\n\n# 2.0.0\n\n## What's new in this release?\n\n- Everything\n",
    "release.sh": "#!/bin/sh\n# changed in the last release, still maintained\ngit tag\n",
    "LICENSE": "MIT License\n\nCopyright (c) 2020 Ada Byron\n\nYou may use, copy and sell it.\n",
    "meson.build": (
        "project(\n\t'sail',\n\tversion: '2.1.0',\n)\n\n# dependencies of old versions\n"
        "pango = dependency('pango')\n"
    ),
    "sail/main.c": "#include <stdio.h>\n\nint main(int argc, char **argv) {\n\treturn run(argc);\n}\n",
    "panel/main.c": "#include <stdio.h>\n\nint main(int argc, char **argv) {\n\treturn panel(argc);\n}\n",
    "sail/sail.1.scd": "sail(1)\n\n# OPTIONS\n\n*-d, --debug*\n\tPrints more.\n",
    **{
        f"sail/part_{n}.c": "/* is it still maintained? install, run, start, test, config, windows */\n"
        f"int start_part_{n}(int config, int debug) {{\n\treturn run_install(config, debug, {n});\n}}\n"
        for n in range(6)
    },
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("question", "path", "line"),
    [
        ("what is this", "README.md", "Sail arranges windows."),
        ("where do I start?", "README.md", "Sail arranges windows."),
        ("I'm new here, what should I read first?", "README.md", "Sail arranges windows."),
        ("how do I install it", "README.md", "## Installation"),
        ("what's the easiest way to get it installed?", "README.md", "## Installation"),
        ("how do I run it", "README.md", "## Running sail"),
        ("how do I get this going on my machine?", "README.md", "## Running sail"),
        ("how can I compile this myself?", "README.md", "meson setup build"),
        ("is there a config file", "README.md", "## Configuration"),
        ("where do the settings live?", "README.md", "## Configuration"),
        ("what does this need to run", "README.md", "## System requirements"),
        ("does it run on Windows", "README.md", "It does not run on Windows."),
        ("which operating systems are supported?", "README.md", "Sail runs on Linux"),
        ("where is the documentation", "README.md", "documentation"),
        ("how do I contribute", "CONTRIBUTING.md", ""),
        ("how can I send a pull request?", "CONTRIBUTING.md", ""),
        ("I'd like to submit a patch, how?", "CONTRIBUTING.md", ""),
        ("where do I report a bug", "CONTRIBUTING.md", "## Submitting an issue"),
        ("where should a beginner start reading", "README.md", "Sail arranges windows."),
        ("what is the main point of this project?", "README.md", "Sail arranges windows."),
        ("how do I set it up", "README.md", "## Installation"),
        ("am I allowed to sell this?", "LICENSE", ""),
        ("I'd like to help out, how does that work?", "CONTRIBUTING.md", ""),
        ("where are the tests and how do I run them", "CONTRIBUTING.md", "meson test"),
        ("how can I test my changes?", "CONTRIBUTING.md", "meson test"),
        ("I found a bug, where do I file it?", "CONTRIBUTING.md", "## Submitting an issue"),
        ("am I allowed to use this at work?", "LICENSE", ""),
        ("who is behind this project?", "LICENSE", "Ada Byron"),
        ("what libraries does it rely on?", "meson.build", "dependency('pango')"),
        ("what version am I looking at?", "meson.build", "version: '2.1.0'"),
        ("is this project dead?", "CHANGELOG.md", "# 2.1.0"),
        ("what changed in the last release", "CHANGELOG.md", ""),
        ("What's new?", "CHANGELOG.md", ""),
        ("what's new in the latest version?", "CHANGELOG.md", ""),
        ("how is the code organised", "CLAUDE.md", "## Architecture overview"),
        ("give me a tour of the folders", "CLAUDE.md", "## Architecture overview"),
        ("what's the entry point", "sail/main.c", "int main("),
        ("where does the program start?", "sail/main.c", "int main("),
        ("how do I debug it", "sail/sail.1.scd", "--debug"),
        ("how do I turn on debug logging?", "sail/sail.1.scd", "--debug"),
    ],
)
def test_the_answer_begins_where_projects_have_it(searcher, question, path, line):
    first = search([searcher], question).hits[0]
    assert first.path == path
    if line:
        assert line in FILES[path].splitlines()[first.asked_line - 1]


def test_news_begin_with_the_latest_release(searcher):
    assert search([searcher], "what changed in the last release").hits[0].start == 1


@pytest.mark.parametrize(
    "question",
    [
        "where is the config parsed?",
        "how does it start the panel?",
        "where is the test of the panel?",
        "is the connection still alive?",
        "which parts does it need to draw?",
        "what does debug do?",
        "who reports a bug to the server?",
        "is there an example of a layout?",
        "what does windows do?",
        "how do I install a theme?",
        "what should I read the buffer with?",
        "which files do we read?",
        "where do we read the file from",
        "which packages need it",
        "what depends on this library?",
        "what needs to run before it?",
        "what changes this?",
        "which code runs on Windows?",
        "where are the settings used?",
        "where do we get the settings from in the code",
        "which files use the config",
        "how is the configuration used",
        "where does it get its configuration",
        "how does it use the settings",
        "is there one example of it in the code",
        "how is it going",
        "is it dead code?",
        "where in the file is the bug?",
        "how does it report problems?",
        "who has issues with this",
        "how do I patch it",
        "how do I send a patch request",
        "how do we send out a request",
        "where is the layout?",
        "what is the layout of the file",
        "what format do the files use?",
        "what is an application?",
        "who owns a project",
        "how is a package built from the sources",
        "what are we allowed to share",
        "which one is allowed",
        "how is it set?",
        "how do I fix the test",
    ],
)
def test_a_question_about_the_code_is_none_about_the_project(searcher, question):
    assert not any(hit.asked_line or "pointed" in hit.legs for hit in search([searcher], question).hits)


@pytest.mark.parametrize(
    "question", ["is it still maintained?", "where are its tests?", "how do I debug it?"]
)
def test_it_in_a_conversation_is_what_was_asked_about(searcher, question):
    found = search_in_turn([searcher], question, ["What does start_part_1 do?"])
    assert not any("pointed" in hit.legs for hit in found.hits)


def test_a_program_begins_nearest_to_the_root_and_not_in_a_shader(searcher_of):
    files = {
        "cmd/main.go": "package main\n\nfunc main() {\n\trun()\n}\n",
        "hack/tools/lint/lint.py": 'def main():\n    check()\n\n\nif __name__ == "__main__":\n    main()\n',
        "ui/shader.ts": "export const main = `\nvoid main() {\n}\nvoid main() {\n}\n`\n",
    }
    found = search([searcher_of(files)], "what's the entry point")
    assert [hit.path for hit in found.hits if hit.asked_line] == ["cmd/main.go", "hack/tools/lint/lint.py"]
