"""Calls that are possible: through interfaces, base classes and tables of functions."""

from __future__ import annotations

from rag.code.call_graph import CallGraph
from rag.code.dispatch import Dispatch
from rag.code.flows import flow_from
from tests.wiki.surveys import survey_of


def graph_of(texts: dict[str, str]) -> CallGraph:
    return CallGraph(survey_of(texts), texts)


def possible(texts: dict[str, str]) -> set[tuple[str, str]]:
    graph = graph_of(texts)
    found = Dispatch(graph.survey, texts).possible(graph.callees)
    return {(caller.qualified_name, one.callee.qualified_name) for caller in found for one in found[caller]}


GO = {
    "go.mod": "module example.com/app\n",
    "store.go": (
        "package app\n\n// Store keeps values.\ntype Store interface {\n\tGet(key string) string\n"
        "\tPut(key, value string)\n}\n\ntype Disk struct{}\n\n"
        "func (d *Disk) Get(key string) string { return key }\n"
        "func (d *Disk) Put(key, value string) {}\n\ntype Cache struct{}\n\n"
        "func (c *Cache) Get(key string) string { return key }\n\n"
        'type Counter struct{}\n\nfunc (c *Counter) Get() string { return "" }\n'
        "func (c *Counter) Put(key, value string) {}\n"
    ),
    "server.go": (
        "package app\n\ntype Server struct {\n\tstore Store\n}\n\n"
        "func (s *Server) Serve(key string) string {\n\treturn s.store.Get(key)\n}\n"
    ),
}


def test_an_interface_of_go_is_implemented_by_the_types_with_all_of_its_methods():
    survey = survey_of(GO)
    found = Dispatch(survey, GO).implementations
    named = {base.name: [one.name for one in below] for base, below in found.items()}
    assert named == {"Store": ["Disk"]}  # Cache has no Put, and Get of Counter has no parameter


def test_a_call_through_an_interface_of_go_may_run_its_implementation():
    assert possible(GO) == {("Server.Serve", "Disk.Get")}


RUST = {
    "Cargo.toml": '[package]\nname = "app"\n',
    "src/lib.rs": (
        "pub trait Draw {\n    fn draw(&self);\n    fn twice(&self) {\n        self.draw();\n    }\n}\n\n"
        "pub struct Circle;\npub struct Square;\n\nimpl Draw for Circle {\n    fn draw(&self) {}\n}\n\n"
        "impl Square {\n    fn draw(&self) {}\n}\n"
    ),
}


def test_a_call_of_a_method_of_a_trait_may_run_its_implementations():
    assert possible(RUST) == {("Draw.twice", "Circle.draw")}  # the function of Square is not of the trait


def test_a_call_of_a_method_may_run_what_overrides_it_but_super_may_not():
    texts = {
        "app.py": (
            "class Base:\n    def __init__(self):\n        pass\n\n"
            "    def run(self):\n        self.step()\n\n"
            "    def step(self):\n        pass\n\n"
            "class One(Base):\n    def __init__(self):\n        super().__init__()\n\n"
            "    def step(self):\n        super().step()\n\n"
            "class Two(One):\n    def step(self):\n        pass\n"
        )
    }
    assert possible(texts) == {("Base.run", "One.step"), ("Base.run", "Two.step")}


C = {
    "ops.h": (
        "typedef struct ops_s ops_t;\nstruct ops_s {\n    int (*open)(int n);\n"
        "    void (*close)(void); /* at the end */\n"
        "    const char *name;\n};\nstruct other {\n    int (*open)(int n);\n};\n"
    ),
    "file.c": (
        '#include "ops.h"\nstatic int file_open(int n) { return n; }\nstatic void file_close(void) {}\n'
        "static int odd_open(int n) { return n; }\n"
        'ops_t file_ops = {\n    file_open,\n    file_close,\n    "file",\n};\n'
        "void odd(struct other *o) {\n    o->open = odd_open;\n}\n"
    ),
    "run.c": (
        '#include "ops.h"\nint run(ops_t *ops) {\n    int n = ops->open(1);\n    ops->close();\n'
        "    return n;\n}\n"
        "int any(void) {\n    return unknown->open(1);\n}\n"
    ),
}


def test_tables_of_functions():
    texts = C | {
        "app.py": (
            "def a():\n    pass\n\ndef b():\n    pass\n\n"
            "HANDLERS = {\n    'a': a,\n    'b': b,\n}\nONE = [a]\n"
        )
    }
    tables = Dispatch(survey_of(texts), texts).tables
    assert [(t.name, t.type, t.start, t.end, [f.name for f in t.functions]) for t in tables] == [
        ("HANDLERS", "", 7, 10, ["a", "b"]),
        ("file_ops", "ops_t", 5, 9, ["file_open", "file_close"]),
    ]


def test_classes_of_cpp_in_a_namespace_have_bases():
    texts = {
        "db.h": "namespace db {\nclass Env {\n public:\n  virtual int Now() = 0;\n};\n}\n",
        "posix.h": (
            '#include "db.h"\nnamespace db {\nclass Posix : public Env {\n public:\n'
            "  int Now() { return 1; }\n};\n}\n"
        ),
    }
    found = Dispatch(survey_of(texts), texts).implementations
    assert {(b.qualified_name, one.qualified_name) for b in found for one in found[b]} == {
        ("db.Env", "db.Posix")
    }


def test_the_possible_steps_of_a_flow_are_marked():
    graph = graph_of(GO)
    serve = next(s for s in graph.survey.symbols("server.go") if s.name == "Serve")
    flow = flow_from(graph, serve, "")
    assert [(call.callee.qualified_name, call in flow.possible) for _, call in flow.steps] == [
        ("Disk.Get", True)
    ]
    assert flow.left_out == 0
    assert not graph.called_by(serve)
