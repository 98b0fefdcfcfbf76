"""Imports and calls are found where they are, and only where they can be looked up."""

from __future__ import annotations

import pytest
from surveys import calls, links, survey_of

from rag.code.documentation import introduction
from rag.code.symbols import symbols_of

PYTHON = {
    "app/__init__.py": "from app.core import run\n",
    "app/core.py": (
        '"""The core.\n\nimport app.never\n"""\nimport json\nfrom . import tools as t\n'
        "from app.tools import help_me\n"
        "\n\ndef run():\n    t.clean()\n    help_me()\n"
        "    json.dumps(1)\n\n\ndef other(help_me):\n    help_me()\n"
    ),
    "app/tools.py": "def clean():\n    pass\n\n\ndef help_me():\n    clean()\n",
    "app/never.py": "X = 1\n",
    "app/json.py": "def dumps(x):\n    pass\n",
    "tests/test_run.py": "from app import run\n\n\ndef test_run():\n    run()\n",
}


def test_python_imports_lead_to_files_and_strings_are_no_imports():
    assert links(survey_of(PYTHON)) == {
        ("app/__init__.py", "app/core.py"),
        ("app/core.py", "app/tools.py"),
        ("tests/test_run.py", "app/__init__.py"),
    }


def test_a_call_is_followed_through_modules_and_reexports_but_not_through_parameters():
    assert calls(survey_of(PYTHON)) == {
        ("run", "app/tools.py:clean"),
        ("run", "app/tools.py:help_me"),
        ("help_me", "app/tools.py:clean"),
        ("test_run", "app/core.py:run"),
    }


def test_a_part_of_some_object_is_not_what_a_plain_name_calls():
    text = "const { test } = require('node:test')\ntest('x', () => {\n  f({\n    test: () => 1\n  })\n})\n"
    assert calls(survey_of({"a.test.js": text})) == set()


def test_methods_are_called_on_self_within_their_class():
    text = "class A:\n    def f(self):\n        self.g()\n\n    def g(self):\n        other.g()\n"
    assert calls(survey_of({"a.py": text})) == {("A.f", "a.py:A.g")}


def test_a_rust_type_is_defined_once_and_its_implementations_are_none():
    text = "pub struct A;\n\nimpl A {\n    pub fn f() {}\n}\n\nunsafe impl Send for A {\n    fn g() {}\n}\n"
    symbols = list(symbols_of(survey_of({"a.rs": text}).files["a.rs"]))
    assert [(symbol.scope, symbol.name, symbol.start) for symbol in symbols] == [
        ("", "A", 1),
        ("A", "f", 4),
        ("A", "g", 8),
    ]


TREES = {
    "typescript": (
        {
            "src/a.ts": (
                'import B, { c as d } from "./b.js";\nimport x from "react";\nexport function f() { d(); }\n'
            ),
            "src/b.ts": 'export { c } from "./lib";\n',
            "src/lib/index.ts": "export function c() {}\n",
        },
        {("src/a.ts", "src/b.ts"), ("src/b.ts", "src/lib/index.ts")},
        {("f", "src/lib/index.ts:c")},
    ),
    "go": (
        {
            "go.mod": "module example.org/app\n",
            "main.go": (
                'package main\n\nimport (\n\t"fmt"\n\t"example.org/app/store"\n)\n\n'
                "func main() {\n\tstore.Open()\n\tfmt.Println()\n}\n"
            ),
            "store/open.go": "package store\n\nfunc Open() {\n\tclose()\n}\n",
            "store/close.go": "package store\n\nfunc close() {\n}\n",
        },
        {("main.go", "store/")},
        {("main", "store/open.go:Open"), ("Open", "store/close.go:close")},
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "app"\n',
            "src/main.rs": (
                "mod store;\nuse crate::store::disk::write;\nuse std::fs;\nfn main() {\n    write();\n}\n"
            ),
            "src/store/mod.rs": "pub mod disk;\n",
            "src/store/disk.rs": "pub fn write() {\n}\n",
        },
        {
            ("src/main.rs", "src/store/mod.rs"),
            ("src/main.rs", "src/store/disk.rs"),
            ("src/store/mod.rs", "src/store/disk.rs"),
        },
        {("main", "src/store/disk.rs:write")},
    ),
    "java": (
        {
            "src/org/app/Main.java": (
                "package org.app;\nimport org.app.io.Disk;\nimport java.util.List;\n"
                "class Main {\n  void run() {\n    Disk.write();\n    help();\n  }\n"
                "  void help() {\n  }\n}\n"
            ),
            "src/org/app/io/Disk.java": (
                "package org.app.io;\npublic class Disk {\n  public static void write() {\n  }\n}\n"
            ),
        },
        {("src/org/app/Main.java", "src/org/app/io/Disk.java")},
        {
            ("Main.run", "src/org/app/Main.java:Main.help"),
            ("Main.run", "src/org/app/io/Disk.java:Disk.write"),
        },
    ),
    "java, overloads": (
        {
            "Main.java": (
                "class Main {\n  void run() {\n    help(1);\n  }\n  void help() {\n  }\n"
                "  void help(int a) {\n  }\n}\n"
            )
        },
        set(),
        {("Main.run", "Main.java:Main.help")},
    ),
    "c": (
        {
            "src/main.c": (
                '#include "store.h"\n#include <stdio.h>\nint main(void)\n{\n    store_open();\n'
                "    return 0;\n}\n"
            ),
            "src/store.h": "void store_open(void);\n",
            "src/store.c": '#include "store.h"\nvoid store_open(void)\n{\n}\n',
        },
        {("src/main.c", "src/store.h"), ("src/store.c", "src/store.h")},
        {("main", "src/store.c:store_open")},
    ),
    "ruby": (
        {
            "lib/app.rb": 'require "app/store"\nrequire_relative "app/tool"\nrequire "json"\n',
            "lib/app/store.rb": "class Store\n  def open\n    check()\n  end\n\n  def check\n  end\nend\n",
            "lib/app/tool.rb": "class Tool\nend\n",
        },
        {("lib/app.rb", "lib/app/store.rb"), ("lib/app.rb", "lib/app/tool.rb")},
        {("Store.open", "lib/app/store.rb:Store.check")},
    ),
    "php": (
        {
            "composer.json": '{"autoload": {"psr-4": {"App\\\\": "src/"}}}\n',
            "src/Main.php": (
                "<?php\nnamespace App;\nuse App\\Store\\Disk;\nuse Other\\Thing;\nclass Main {\n"
                "  function run() {\n    Disk::write();\n  }\n}\n"
            ),
            "src/Store/Disk.php": (
                "<?php\nnamespace App\\Store;\nclass Disk {\n  static function write() {\n  }\n}\n"
            ),
        },
        {("src/Main.php", "src/Store/Disk.php")},
        set(),
    ),
}


@pytest.mark.parametrize("language", TREES)
def test_imports_and_calls_are_looked_up_in(language):
    texts, wanted_links, wanted_calls = TREES[language]
    survey = survey_of(texts)
    assert links(survey) == wanted_links
    assert calls(survey) >= wanted_calls
    assert {callee.partition(":")[0] for _, callee in calls(survey)} <= texts.keys()


@pytest.mark.parametrize("language", TREES)
def test_public_definitions_are_those_the_language_marks_so(language):
    public = {
        symbol.name
        for path, file in survey_of(TREES[language][0]).files.items()
        for symbol in survey_of(TREES[language][0]).symbols(path)
        if symbol.public and file.kind == "code"
    }
    hidden = {"go": {"close", "main"}, "rust": {"main"}}.get(language, set())
    assert public and not public & hidden


def test_a_quotation_stands_on_the_lines_it_names(sample_repo):
    from rag.service import Engine, locate
    from rag.service.tools.survey_of import survey
    from rag.settings import load_settings

    found = survey(Engine(load_settings()).repository(locate(str(sample_repo))))
    quotes = [s.summary for path in found.files for s in found.symbols(path) if s.summary]
    quotes += [quote for path in found.files if (quote := found.summary(path))]
    assert len(quotes) > 80
    for quote in quotes:
        there = " ".join(" ".join(found.files[quote.path].lines[quote.start - 1 : quote.end]).split())
        first, last = quote.text.split()[0], quote.text.split()[-1]
        assert first.strip("`_*[](") in there and last.strip("`_*[]()") in there, quote


def test_an_introduction_is_prose_without_its_links_and_marks():
    rst = (
        "`Tornado <http://t.org>`_ is a framework, made at `FriendFeed\n"
        "<http://friendfeed.com>`_.  By Zyte_ and\nothers (see ``docs/a.md``), or :func:`run`.\n"
    )
    assert [(quote.text, quote.start, quote.end) for quote in introduction(rst, "README.rst")] == [
        ("Tornado is a framework, made at FriendFeed. By Zyte and others (see docs/a.md), or run.", 1, 3)
    ]
    markdown = (
        "A user (see `docs/a.md`), or a `401`. See [**this** page](x.md),\n<https://t.org>, not snake_ one.\n"
    )
    assert [quote.text for quote in introduction(markdown, "README.md")] == [
        "A user (see docs/a.md), or a 401. See this page, https://t.org, not snake_ one."
    ]


def test_an_introduction_ends_with_its_section_and_leads_to_nothing_that_is_left_out():
    text = "# Snip\n\n*Snip* shortens **long** links, with *args kept.\n\nWhat it prints, shortened:\n"
    text += "\n```\nx\n```\n\n## Install\n\nIn a checkout of this repository.\n"
    quoted = [quote.text for quote in introduction(text, "README.md")]
    assert quoted == ["Snip shortens long links, with *args kept."]


def test_an_introduction_leaves_out_a_fence_that_shows_fences():
    text = "# Snip\n\nShortens links for everybody here.\n\n````text\n$ snip\n```python\nx = 1\n```\n\n"
    text += "What it prints is no introduction.\n````\n\nIt needs nothing else to run.\n"
    quoted = [(quote.text, quote.start) for quote in introduction(text, "README.md")]
    assert quoted == [("Shortens links for everybody here.", 3), ("It needs nothing else to run.", 14)]


def test_a_row_of_links_is_no_prose_and_code_keeps_its_brackets():
    text = (
        "*[Deutsch](README-de.md) ∙ [English](README.md) ∙ [日本語](README-ja.md)*\n\n"
        "[Install](#install) | [Usage](#usage) | [FAQ](#faq)\n\n"
        "Use `all([a, b])` of [`Map<K, V>`](map.md), not *this* one.\n"
    )
    assert [quote.text for quote in introduction(text, "README.md")] == [
        "Use all([a, b]) of Map<K, V>, not this one."
    ]
