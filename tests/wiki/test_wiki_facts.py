"""What pages say of code: exports, flows, fields, sections, documents, entry points."""

from __future__ import annotations

import json

import pytest
from surveys import survey_of

from rag.code.call_graph import CallGraph
from rag.code.dispatch import Dispatch
from rag.code.documentation import comment_above, docstring, elixir_attribute, paragraphs, title_of
from rag.code.entry_points import entry_points
from rag.code.exports import exports
from rag.code.fields import fields_of
from rag.code.flows import MAX_NODES, flows
from rag.code.namespaces import Namespaces
from rag.wiki.facts.extension_points import extension_points, registering
from rag.wiki.facts.facts import facts_of, names_in, short_name
from rag.wiki.facts.placed_documents import placed_documents
from rag.wiki.facts.sections import sections_in


def exported(texts: dict[str, str]) -> set[tuple[str, str]]:
    survey = survey_of(texts)
    own = [file.path for file in survey.of_kind("code")]
    return {(one.package, one.name) for one in exports(survey, own)}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (
            {
                "src/pkg/__init__.py": "from .core import Thing\nfrom ._in import hidden\n"
                "__all__ = ['Thing']\n",
                "src/pkg/core.py": "class Thing:\n    pass\n\n\nclass Inner:\n    pass\n",
                "src/pkg/_in.py": "def hidden():\n    pass\n",
            },
            {("pkg", "Thing")},
        ),
        (
            {
                "package.json": json.dumps({"name": "p", "exports": {".": "./dist/index.js"}}),
                "src/index.ts": 'export * from "./a";\nexport { b } from "./b";\n',
                "src/a.ts": "export function a() {}\nfunction no() {}\n",
                "src/b.ts": "export function b() {}\nexport function c() {}\n",
            },
            {("p", "a"), ("p", "b")},
        ),
        (
            {
                "package.json": json.dumps({"name": "p", "main": "./index.js"}),
                "index.js": "// The client.\nconst p = make({});\n\nexport default p;\n",
            },
            {("p", "p")},
        ),
        (
            {
                "src/lib.rs": "pub fn top() {}\n#[cfg(test)]\npub mod tests {\n    pub fn fake() {}\n}\n",
                "Cargo.toml": '[package]\nname = "c"\n',
            },
            {("app", "top")},
        ),
        (
            {
                "src/lib.rs": "mod inner;\npub use inner::Shown;\npub fn top() {}\nfn not() {}\n",
                "src/inner.rs": "pub struct Shown {}\npub struct Other {}\n",
                "Cargo.toml": '[package]\nname = "c"\n',
            },
            {("app", "Shown"), ("app", "top")},
        ),
        (
            {
                "a.go": "package a\n\nfunc Shown() {}\n\nfunc not() {}\n",
                "internal/b.go": "package internal\n\nfunc Hidden() {}\n",
                "cmd/main.go": "package main\n\nfunc Main() {}\n",
            },
            {("app", "Shown")},
        ),
        (
            {
                "include/x.h": "#define A 1\ntypedef struct thing { int a; } thing;\n",
                "src/x.c": "int f(void) {\n  return 1;\n}\n",
            },
            {("include/x.h", "thing")},
        ),
    ],
    ids=["python", "typescript", "default of javascript", "tests of rust", "rust", "go", "c"],
)
def test_what_is_exported_is_public_and_nothing_else(texts, names):
    assert exported(texts) == names


FLOW = {
    "pyproject.toml": '[project]\nname = "x"\n[project.scripts]\nx = "x.cli:main"\n',
    "x/cli.py": "from x.work import begin, log\n\n\ndef main():\n    log()\n    begin()\n    end()\n\n\n"
    "def end():\n    log()\n",
    "x/work.py": "def begin():\n    log()\n    step()\n\n\ndef step():\n    log()\n    last()\n\n\n"
    "def last():\n    return 1\n\n\ndef log():\n    return 2\n",
}


def test_a_flow_follows_certain_calls_from_the_entry_point_in_order():
    survey = survey_of(FLOW)
    (flow,) = flows(survey, CallGraph(survey, [f.path for f in survey.of_kind("code")]), lambda _: 0)
    assert (flow.root.name, flow.begins) == ("main", "console script x")
    calls = {(call.path, call.line, call.callee) for call in survey.calls}
    assert {(call.path, call.line, call.callee) for _, call in flow.steps} <= calls
    assert [call.callee.name for depth, call in flow.steps if depth == 1] == ["log", "begin", "end"]
    assert len(flow.nodes) <= MAX_NODES


SERVER = """#include "net.h"
static void on_read(void) {
    parse();
}
static void on_accept(void) {
    watch(on_read);
}
int main(void) {
    listen_on();
    watch(on_accept);
    return 0;
}
"""


def test_a_flow_follows_functions_that_are_handed_on():
    net = "void parse(void) {\n    reply();\n}\nvoid reply(void) {\n}\nvoid listen_on(void) {\n}\n"
    header = "void parse(void);\nvoid reply(void);\nvoid listen_on(void);\n"
    survey = survey_of({"server.c": SERVER, "net.c": net, "net.h": header})
    flow = facts_of(survey).flows[0]
    assert flow.root.name == "main"
    assert [call.callee.name for _, call in flow.steps] == [
        "listen_on",
        "on_accept",
        "on_read",
        "parse",
        "reply",
    ]
    assert {call.callee.name for call in flow.handed_on} == {"on_accept", "on_read"}


def test_a_decorator_is_not_handed_on():
    text = "def mark(f):\n    return f\n\n\ndef outer():\n    @mark\n    def inner():\n        return 1\n"
    survey = survey_of({"m.py": text})
    handed = CallGraph(survey, ["m.py"]).handed_on
    assert "mark" not in {use.callee.name for uses in handed.values() for use in uses}


def test_what_users_call_begins_a_flow_before_what_only_leads_far():
    chain = "".join(f"def s{n}():\n    s{n + 1}()\n\n\n" for n in range(6)) + "def s6():\n    return 1\n"
    texts = {
        "README.md": "# App\n\nCall `App.handle`: an `App` answers requests.\n",
        "app/__init__.py": "from .app import App\n\n__all__ = ['App']\n",
        "app/app.py": "from app.other import s0\n\n\nclass App:\n    def handle(self):\n        s0()\n",
        "app/other.py": f"{chain}\n\nclass Old:\n    def handle(self):\n        s0()\n        more()\n\n\n"
        "def more():\n"
        "    return 2\n",
    }
    assert facts_of(survey_of(texts)).flows[0].root.qualified_name == "App.handle"


CPP = {
    "db/log.h": "namespace db {\nnamespace log {\nclass Writer {\n public:\n  int Add(int x);\n};\n}\n}\n",
    "db/log.cc": '#include "db/log.h"\nnamespace db {\nnamespace log {\nint Writer::Add(int x) {\n'
    "  return x;\n}\n}\n}\n",
    "db/db.h": '#include "db/log.h"\nnamespace db {\nclass DB {\n public:\n'
    "  int Write(int x);\n  int Room(int x);\n"
    "  void Twice(int x);\n  void Twice(char x);\n private:\n  log::Writer* const log_ GUARDED_BY(mutex_);\n"
    "  Unknown other_;\n};\n}\n",
    "db/db.cc": '#include "db/db.h"\nnamespace db {\nint DB::Write(int x) {\n'
    "  Room(x);\n  Twice(x);\n  other_.Add(x);\n"
    "  return log_->Add(x);\n}\nint DB::Room(int x) {\n  return x;\n}\nvoid DB::Twice(int x) {\n}\n"
    "void DB::Twice(char x) {\n}\n}\n",
}


def test_members_of_cpp_are_called_where_one_definition_can_be_meant():
    graph = CallGraph(survey_of(CPP), list(CPP))
    (write,) = (caller for caller in graph.callees if caller.name == "Write")
    assert [(call.callee.qualified_name, call.line) for call in graph.called_by(write)] == [
        ("db.DB.Room", 4),
        ("db.log.Writer.Add", 7),
    ]


def test_namespaces_are_no_part_of_a_scope():
    ruby = "module App\n  class Server\n    def run\n      1\n    end\n  end\n"
    ruby += "  module Helper\n    def help\n      2\n    end\n  end\nend\n"
    python = "class Outer:\n    class Inner:\n        def m(self):\n            return 1\n"
    survey = survey_of({**CPP, "lib/a.rb": ruby, "a.py": python})
    spaces = Namespaces(survey)
    every = [symbol for path in survey.files for symbol in survey.symbols(path)]
    scopes = {symbol.qualified_name: spaces.scope(symbol) for symbol in every}
    assert scopes["db.DB.Write"] == "DB" and scopes["db.log.Writer.Add"] == "Writer"
    assert (scopes["App.Server.run"], scopes["App.Server"], scopes["App.Helper.help"]) == (
        "Server",
        "",
        "Helper",
    )
    assert scopes["Outer.Inner.m"] == "Outer.Inner"
    assert {symbol.qualified_name for symbol in every if spaces.includes(symbol)} == {"App"}


def test_a_long_flow_is_cut_and_counts_what_it_leaves_out():
    calls = "".join(f"    f{n}()\n" for n in range(30))
    text = f"def main():\n{calls}\n\n" + "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(30))
    survey = survey_of({"m.py": text})
    (flow,) = flows(survey, CallGraph(survey, ["m.py"]), lambda _: 0)
    assert len(flow.nodes) == MAX_NODES and flow.left_out == 30 - (MAX_NODES - 1)


@pytest.mark.parametrize(
    ("path", "text", "name", "fields"),
    [
        (
            "a.py",
            'class A:\n    """Doc."""\n\n    #: The name\n    #: of it.\n    name: str | None = None\n'
            "    _no: int = 1\n\n    def __init__(self):\n        self.size: int = 0\n"
            "        self.other = 1\n\n    def f(self):\n        x: int = 1\n",
            "A",
            [("name", "str | None", "The name of it."), ("size", "int", "")],
        ),
        (
            "a.py",
            "class A(Model):\n    # The name.\n    name = models.CharField(max_length=3)\n"
            "    owner = models.ForeignKey(\n        User,\n    )\n    id = db.Column(db.Integer, key=True)\n"
            "    limit = max(1, 2)\n",
            "A",
            [
                ("name", "CharField", "The name."),
                ("owner", "ForeignKey(User)", ""),
                ("id", "Column(db.Integer)", ""),
            ],
        ),
        (
            "a.go",
            'package a\n\ntype A struct {\n\tName string // the name\n\tNext *A `json:"n"`\n}\n',
            "A",
            [("Name", "string", "the name"), ("Next", "*A", "")],
        ),
        (
            "a.h",
            "struct client {\n    int fd; /* the socket */\n    robj **argv;\n    unsigned flags:4;\n};\n",
            "client",
            [("fd", "int", "the socket"), ("argv", "robj **", ""), ("flags", "unsigned", "")],
        ),
        (
            "a.ts",
            "export interface A {\n  name?: string; // the name\n  run(): void;\n}\n",
            "A",
            [("name", "string", "the name")],
        ),
        (
            "a.rs",
            "pub struct A {\n    /// The name.\n    pub name: String,\n    size: usize,\n}\n",
            "A",
            [("name", "String", "The name."), ("size", "usize", "")],
        ),
        (
            "a.ts",
            "export class A {\n  /**\n  Limit: `1`.\n  Rest: number\n  */\n  limit: number;\n"
            "  /* one { line */\n  add(\n    task: Task,\n    how: How,\n  ): void;\n  last: string;\n}\n",
            "A",
            [("limit", "number", ""), ("last", "string", "")],
        ),
        (
            "A.java",
            "class A {\n  /*\n  int old;\n  */\n  int size;\n  abstract void f(\n      int x,\n"
            "      String y);\n}\n",
            "A",
            [("size", "int", "")],
        ),
        (
            "a.h",
            "struct a {\n  /* was:\n  int old;\n  */\n  int (*f)(\n    int x\n  ); // (\n  int size;\n};\n",
            "a",
            [("size", "int", "")],
        ),
    ],
    ids=[
        "python",
        "calls",
        "go",
        "c",
        "typescript",
        "rust",
        "typescript comment",
        "java comment",
        "c comment",
    ],
)
def test_the_fields_of_a_type_are_those_it_declares(path, text, name, fields):
    survey = survey_of({path: text})
    (symbol,) = [s for s in survey.symbols(path) if s.name == name]
    assert [(f.name, f.type, f.comment) for f in fields_of(survey.files[path], symbol)] == fields
    for found in fields_of(survey.files[path], symbol):
        assert found.name in survey.files[path].lines[found.line - 1]


def test_banners_of_several_kinds_begin_sections():
    text = (
        "/* ========== Low level API ========== */\nint a;\n\n"
        "/*-----------------------------\n * Commands\n *----------------------------*/\nint b;\n\n"
        "/************************************/\n/********** FLOW CONTROL ************/\n"
        "/************************************/\nint c;\n// a line\nint d;\n"
    )
    found = sections_in(survey_of({"a.c": text}).files["a.c"])
    assert [(one.title, one.start) for one in found] == [
        ("Low level API", 1),
        ("Commands", 4),
        ("Flow control", 9),
    ]
    assert found[-1].end == len(text.split("\n")) - 1


def test_a_file_with_one_banner_or_a_licence_has_no_sections():
    text = "# ------- Copyright 2020 -------\n# ---- Only ----\nx = 1\n"
    assert sections_in(survey_of({"a.py": text}).files["a.py"]) == []


def test_base_classes_and_what_registers_are_extension_points():
    texts = {
        "a.py": "class Base:\n    pass\n\n\nclass Lone:\n    pass\n\n\ndef register_plugin(p):\n"
        '    """Register a plugin."""\n\n\ndef plain():\n    """Do."""\n',
        "b.py": "from a import Base\n\n\nclass One(Base):\n    pass\n\n\nclass Two(Base):\n    pass\n",
    }
    survey = survey_of(texts)
    (point,) = extension_points(survey, texts, Dispatch(survey, texts).implementations)
    assert point.symbol.name == "Base" and [s.name for s in point.implementations] == ["One", "Two"]
    assert [symbol.name for symbol in registering(survey, texts)] == ["register_plugin"]


def test_a_document_is_placed_with_the_code_that_it_names():
    texts = {
        "docs/guide.md": "# Guide\n\n## Routing\n\nThe `RouteTable` finds a handler with match_path.\n\n"
        "## Other\n\nNothing of interest is here at all.\n",
        "a/routes.py": "class RouteTable:\n    def match_path(self):\n        pass\n",
        "b/store.py": "class Store:\n    pass\n",
    }
    placed = placed_documents(survey_of(texts), {"a": ["a/routes.py"], "b": ["b/store.py"]})
    assert {name: [one.title for one in sections] for name, sections in placed.items()} == {"a": ["Routing"]}
    (quote,) = placed["a"][0].quotes
    assert (quote.path, quote.start, quote.end) == ("docs/guide.md", 5, 5)


def test_a_function_that_handles_an_event_registers_nothing():
    texts = {
        "a.js": (
            "/** Ends it. */\nexport const onFinished = async ({stream}) => {\n  await end(stream)\n}\n\n"
            "/** Calls it at the end. */\nexport function onEnd(callback) {\n  all.push(callback)\n}\n"
        )
    }
    assert [symbol.name for symbol in registering(survey_of(texts), texts)] == ["onEnd"]


def test_the_line_that_leads_to_the_next_document_is_no_quotation():
    texts = {
        "a/routes.py": "def add_route():\n    pass\n",
        "docs/a.md": (
            "# Guide\n\n## Routes\n\nCall `add_route` for each of the pages.\n\n"
            "[**Next**: Escaping and quoting](b.md)\\\n[**Previous**: Routes](c.md)\n"
        ),
    }
    placed = placed_documents(survey_of(texts), {"a": ["a/routes.py"]})
    assert [quote.text for section in placed["a"] for quote in section.quotes] == [
        "Call add_route for each of the pages."
    ]


def test_mains_for_tests_vendored_code_and_examples_are_no_entry_points():
    main = "int main(void) {\n  return 0;\n}\n"
    texts = {
        "src/server.c": f"#ifdef __linux__\n#endif\n{main}",
        "src/crc.c": f"int x;\n#ifdef REDIS_TEST_MAIN\n{main}#endif\n",
        "src/sip.c": f"#if defined(X_TEST)\nint a;\n#else\nint b;\n#endif\n#if 0\n{main}#endif\n",
        "deps/lua/lua.c": main,
        "examples/one.c": main,
        "plugins/internal/types/types.go": "package main\n\nfunc main() {\n\tfire()\n}\n",
    }
    assert [(point.path, point.what) for point in entry_points(survey_of(texts))] == [
        ("src/server.c", "main function")
    ]


def test_a_library_starts_nowhere_though_it_has_scripts_for_its_developers():
    texts = {
        "src/kiln.kt": "class Kiln {\n  fun fire() {}\n}\n" * 9,
        "projects/clean.sh": "#!/bin/sh\nrm -r build\n",
        "ci/publish.rs": "fn main() {\n}\n",
        "scripts/gen.py": "if __name__ == '__main__':\n    run()\n",
    }
    assert entry_points(survey_of(texts)) == []
    texts["docker-entrypoint.sh"] = "#!/bin/sh\nexec kilnd\n"
    assert [one.path for one in entry_points(survey_of(texts))] == ["docker-entrypoint.sh"]


def test_a_console_script_on_the_line_of_its_list_is_an_entry_point():
    texts = {
        "setup.py": 'setup(\n    entry_points={"console_scripts": ["app = app.cli:main", "b=a.b:run"]},\n)\n'
    }
    found = [(one.name, one.leads_to, one.start) for one in entry_points(survey_of(texts))]
    assert found == [("app", "app.cli:main", 2), ("b", "a.b:run", 2)]


def test_a_program_that_measures_is_no_entry_point():
    texts = dict.fromkeys(("src/app.cc", "src/app_perftest.cc"), "int main(void) {\n    return 0;\n}\n")
    assert [one.path for one in entry_points(survey_of(texts))] == ["src/app.cc"]


def test_scripts_of_python_are_not_the_public_interface_of_other_code():
    texts = {f"src/m{n}.cc": f"int f{n}() {{ return {n}; }}\n" for n in range(8)}
    texts["configure.py"] = "def shell_escape(text):\n    return text\n"
    assert exports(survey_of(texts), texts) == []


def test_a_handler_of_a_compiled_language_registers_nothing():
    texts = {
        "a.go": "package a\n\n// SignalHandler ends it.\nfunc SignalHandler() {}\n\n"
        "// AddHandler adds one.\nfunc AddHandler() {}\n"
    }
    assert [symbol.name for symbol in registering(survey_of(texts), texts)] == ["AddHandler"]


def test_scripts_for_development_are_entry_points_only_where_there_are_no_others():
    texts = {
        "scripts/lint": "#!/bin/sh\nruff check\n",
        "tools/gen.py": "if __name__ == '__main__':\n    run()\n",
    }
    assert {one.path for one in entry_points(survey_of(texts))} == set(texts)
    texts["kiln"] = "#!/bin/sh\nexec kilnd\n"
    assert [one.path for one in entry_points(survey_of(texts))] == ["kiln"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Fire a pot.\n\nSlowly.\n"""\n', ("Fire a pot.", 1)),
        ('"""\nkiln = Kiln(3)\n\nassert kiln\n\nFire a pot.\n"""\n', ("Fire a pot.", 6)),
        ('"""\n>>> Kiln(3)\n\nFire a pot.\n\n    x = 1\n"""\n', ("Fire a pot.", 4)),
        ('"""kiln = Kiln(3)"""\n', None),
    ],
)
def test_documentation_that_begins_with_code_is_what_follows(text, found):
    quote = docstring(text.splitlines(keepends=True), "kiln.py", 0, 9)
    assert (None if quote is None else (quote.text, quote.start)) == found


@pytest.mark.parametrize(
    ("comment", "language", "found"),
    [
        (
            '/// <summary>\n///     Fires a pot.\n/// </summary>\n/// <param name="x">It.</param>\n',
            "csharp",
            2,
        ),
        ("/// <summary>Fires a pot.</summary>\n/// <returns>One.</returns>\n", "csharp", 1),
        ("/// <inheritdoc/>\n", "csharp", None),
        ("# @!parse\n#   # Of another one.\n#   class Kiln < Oven; end\n", "ruby", None),
        ("# @!attribute [r] heat\n#   @return [Integer]\n# Fires a pot.\n", "ruby", 3),
        ("# Fires a pot.\n#\n# @!visibility private\n", "ruby", 1),
    ],
)
def test_markup_and_directives_are_no_documentation(comment, language, found):
    lines = [*comment.splitlines(keepends=True), "class Kiln\n"]
    quote = comment_above(lines, "kiln", len(lines) - 1, language)
    assert (quote and (quote.text, quote.start)) == (found and ("Fires a pot.", found))


def test_a_command_that_two_manifests_declare_is_one():
    texts = {
        "pyproject.toml": "[project]\nname = 'kiln'\n[project.scripts]\nkiln = 'kiln.cli:main'\n",
        "setup.py": "setup(entry_points={'console_scripts': ['kiln = kiln.cli:main']})\n",
        "kiln/cli.py": "def main():\n    pass\n",
    }
    found = [(one.name, one.path) for one in entry_points(survey_of(texts)) if one.name == "kiln"]
    assert found == [("kiln", "pyproject.toml")]


def test_scripts_that_install_check_or_are_hidden_do_not_say_where_it_starts():
    texts = dict.fromkeys(
        ("bin/kiln", "bin/setup", "install.sh", "shellcheck.sh", "lib/common.bash", ".devcontainer/start.sh"),
        "#!/bin/sh\nexec kilnd\n",
    )
    texts["src/lib.rs"] = "#![deny(missing_docs)]\nfn fire() {}\n"
    texts["build.rs"] = "fn main() {\n    build();\n}\n"
    assert [one.path for one in entry_points(survey_of(texts))] == ["bin/kiln"]


def test_the_call_after_super_is_no_call_of_the_base_class():
    texts = {
        "a.py": "class Base:\n    def __init__(self):\n        pass\n\n    def run(self):\n        pass\n\n\n"
        "class Inner(Base):\n    def run(self):\n        super().run()\n"
    }
    graph = facts_of(survey_of(texts)).graph
    called = {
        short_name(c.caller): [short_name(x.callee) for x in graph.called_by(c.caller)] for c in graph.calls
    }
    assert called == {"Inner.run": ["Base.run"]}


HOOKS = {
    "hooks.js": "function generator (step) {\n  return function run (hooks) { step(hooks) }\n}\n"
    "function each (hooks) {}\nfunction send (hooks) {}\n"
    "const onRequest = generator(each)\nconst table = new Map()\n"
    "module.exports = { onRequest, table, deliver: send }\n",
    "route.js": "const { onRequest, table } = require('./hooks')\nconst hooks = require('./hooks')\n"
    "function begin (request) {\n  onRequest(request.hooks)\n  table()\n"
    "  hooks.deliver(request)\n  later(finish.bind(request))\n  finish.call(this, request)\n}\n"
    "function finish (request) {}\nmodule.exports = { begin }\n",
}


def test_a_callee_is_named_as_the_lines_of_its_caller_name_it():
    survey = survey_of(HOOKS)
    graph = facts_of(survey).graph
    begin = survey.symbol("route.js", "begin")
    assert begin is not None
    assert {symbol.name: written for symbol, written in graph.written(begin).items()} == {
        "send": "hooks.deliver"
    }


def test_a_method_of_a_function_calls_it_or_hands_it_on():
    survey = survey_of(HOOKS)
    assert [(c.callee.name, c.line) for c in survey.calls if c.callee.name == "finish"] == [("finish", 8)]
    assert [(c.callee.name, c.line) for c in survey.mentions_in("route.js") if c.line == 7] == [("finish", 7)]


@pytest.mark.parametrize(
    ("text", "row", "found"),
    [
        (
            'defmodule Kiln do\n  @moduledoc """\n  Fires pots.\n\n  Slowly.\n  """\nend\n',
            0,
            ("Fires pots.", 3),
        ),
        ('@doc """\nFires\na pot.\n"""\n@spec fire(t) :: t\ndef fire(pot) do\nend\n', 5, ("Fires a pot.", 2)),
        ('@moduledoc """\nFires.\n"""\n\n@x 1\ndef fire(pot) do\nend\n', 5, None),
        ("defmodule Kiln do\n  @moduledoc false\nend\n", 0, None),
        ('"""\ndef fire(pot), do: pot\n', 1, None),
    ],
)
def test_documentation_of_elixir_is_an_attribute(text, row, found):
    lines = text.splitlines(keepends=True)
    quote = elixir_attribute(lines, "kiln.ex", row, len(lines))
    assert (None if quote is None else (quote.text, quote.start)) == found


def test_a_heading_of_rdoc_is_no_description():
    survey = survey_of({"kiln.rb": "# = Kiln\n#\n# Fires pots slowly.\nclass Kiln\nend\n"})
    (kiln,) = survey.symbols("kiln.rb")
    assert kiln.summary is not None
    assert kiln.summary.text == "Fires pots slowly."


def test_a_method_of_another_object_is_no_call_of_one_s_own_in_ruby():
    texts = {
        "kiln.rb": "class Kiln\n  def new\n  end\n\n"
        "  def fire\n    String.new\n    log.warm(1)\n    heat\n  end\n\n"
        "  def warm(x)\n  end\n\n  def heat(warm = nil, *fire, peak: 1, &cool)\n"
        "    new\n    warm || fire || peak || cool\n"
        "    low, high = 1\n    low + high\n  end\n\n"
        "  def low\n  end\n\n  def high\n  end\n\n  def peak\n  end\n\n  def cool\n  end\nend\n"
    }
    found = {(c.caller.name, c.callee.name) for c in survey_of(texts).calls if c.caller}
    assert found == {("fire", "heat"), ("heat", "new")}


def test_a_note_to_oneself_is_no_description():
    survey = survey_of({"kiln.c": "// XXX Split this.\nint fire(void) {\n  return 1;\n}\n"})
    assert [s.summary for s in survey.symbols("kiln.c")] == [None]


def test_documentation_comes_before_a_comment_on_the_implementation():
    lines = [
        "/**",
        " * Fires pots.",
        " */",
        "/*",
        " * Warnings are off since it closes.",
        " */",
        "@Quiet",
        "class A {}",
    ]
    found = comment_above(lines, "A.java", 7, "java")
    assert found is not None and (found.text, found.start) == ("Fires pots.", 2)
    lines = ["/** Fires pots. */", "// eslint-disable-next-line", "function a() {}"]
    found = comment_above(lines, "a.js", 2, "javascript")
    assert found is not None and found.text == "Fires pots."
    lines = ["/* Section */", "// Fires pots.", "int a;"]
    found = comment_above(lines, "a.c", 2, "c")
    assert found is not None and found.text == "Fires pots."


def test_a_command_exports_nothing():
    survey = survey_of({"src/cluster.rb": "#!/usr/bin/env ruby\ndef fire\nend\n", "src/kiln.c": "int a;\n"})
    assert exports(survey, survey.files) == []


def test_a_command_that_goes_on_in_the_next_line_says_so():
    (point,) = entry_points(survey_of({"Dockerfile": 'CMD ["--config=a", \\\n  "--b"]\n'}))
    assert point.leads_to == 'CMD ["--config=a" …'


def test_a_plain_word_of_prose_is_no_name():
    prose = "The Time of a Series is short. New in this Version: :class:`Kiln`, app.fire, heat_up, BakeAll."
    text = f"{prose}\nCall bake() or `Oven`, press `left`.\n\n```c\nSeries *series;\n```\n\n    Version x\n"
    assert names_in(text) >= {"Kiln", "fire", "heat_up", "BakeAll", "bake", "Oven", "Series", "Version"}
    assert not names_in(text) & {"left", "series"}
    assert not names_in(prose) & {"Time", "Series", "New", "Version", "The"}


def test_a_type_named_like_the_methods_of_others_is_not_the_most_important():
    user = "from query.value import Engine\nclass A:\n    def Text(self):\n        return b\n"
    texts = dict.fromkeys((f"query/{name}.py" for name in "abcdef"), user)
    texts["query/value.py"] = "class Text:\n    x = 1\n\n\nclass Engine:\n    x = 1\n"
    first = facts_of(survey_of(texts)).ranked(["query/value.py"])[0]
    assert first.name == "Engine"


def test_a_note_to_oneself_goes_on_in_the_next_line():
    lines = [
        "// TODO once it follows the specification with null as",
        "// default, it changes.",
        "class A {}",
    ]
    assert comment_above(lines, "a.ts", 2, "typescript") is None
    lines[1] = "// Fires pots."
    found = comment_above(lines, "a.ts", 2, "typescript")
    assert found is not None and (found.text, found.start) == ("Fires pots.", 2)


def test_declared_types_and_files_named_like_their_folder_are_exported():
    survey = survey_of(
        {
            "package.json": '{"name": "kiln", "main": "dist/kiln.js", "types": "kiln.d.ts"}',
            "kiln.d.ts": "export interface Oven {}\n",
            "src/kiln/kiln.ts": "export function fire() {}\nexport class Oven {}\n",
        }
    )
    assert sorted(one.name for one in exports(survey, survey.files)) == ["Oven", "fire"]


def test_headings_and_images_of_asciidoc_are_no_prose():
    text = "= Kiln - Fires Pots\n:toc:\n\nimage:a.svg[A]\n\n*It fires* pots slowly.\n\n== Use\n\nCall it.\n"
    assert title_of(text, "readme.adoc").text == "Kiln - Fires Pots"
    found = [(section.partition(" ")[2], quote.text) for section, quote in paragraphs(text, "readme.adoc")]
    assert found == [("Kiln - Fires Pots", "It fires pots slowly."), ("Use", "Call it.")]


def test_the_sections_of_a_file_are_read_once(monkeypatch):
    survey = survey_of({"a.py": "# ---- One ----\n\n\nx = 1\n# ---- Two ----\n\n\ny = 2\n"})
    facts = facts_of(survey)
    assert [section.title for section in facts.sections("a.py")] == ["One", "Two"]
    monkeypatch.setattr("rag.wiki.facts.facts.sections_in", None)
    assert [section.title for section in facts.sections("a.py")] == ["One", "Two"]


def test_a_generator_is_no_entry_point_and_the_program_is_what_leads_to_most():
    code = "package store\n\n" + "func Store() {}\n" * 2_000
    program = 'package main\n\nimport "example.org/app/store"\n\nfunc main() { store.Store() }\n'
    texts = {
        "go.mod": "module example.org/app\n",
        "store/store.go": code,
        "store/gen/main.go": "package main\n\nfunc main() {}\n",
        "cmd/app/main.go": program,
    }
    assert [one.path for one in entry_points(survey_of(texts))] == ["cmd/app/main.go"]


def test_a_command_in_a_table_is_run_by_the_main_function():
    text = (
        "package main\n\nfunc serve() {}\n\nvar root = &Command{Run: func() { serve() }}\n\nfunc main() {}\n"
    )
    survey = survey_of({"main.go": text})
    (main,) = [symbol for symbol in survey.symbols("main.go") if symbol.name == "main"]
    assert [call.callee.name for call in CallGraph(survey, ["main.go"]).called_by(main)] == ["serve"]


def test_front_matter_is_no_heading():
    assert title_of("---\ntitle: Local work\ndescription: all\n---\n\ntext\n", "a.md").text == "Local work"
    assert title_of("---\ndescription: all\n---\n\n# Work\n", "a.md").text == "Work"
