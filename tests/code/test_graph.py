"""Who calls, uses, extends and imports a definition."""

from __future__ import annotations

import time

import pytest

from rag.code.graph import RepositoryGraph
from tests.wiki.surveys import survey_of


def called(graph: RepositoryGraph, name: str) -> list[tuple[str, int, bool]]:
    return [(use.path, use.line, use.certain) for use in graph.callers(graph.definitions(name))]


PACKAGE = {
    "app/__init__.py": "from app.core import Queue as Line\n",
    "app/core.py": (
        "class Base:\n    def put(self, x):\n        pass\n\n    def both(self):\n        self.put(1)\n\n"
        "class Queue(Base):\n    def both(self):\n        super().both()\n\n"
        "def make() -> Queue:\n    return Queue()\n\ndef helper():\n    pass\n"
    ),
    "app/use.py": (
        "from typing import TYPE_CHECKING\nfrom app import Line\nfrom app.core import helper, make\n"
        "if TYPE_CHECKING:\n    import app.core\n\n"
        "def run(helper_of, queue):\n    made = Line()\n    made.put(1)\n    make().put(2)\n"
        "    queue.put(3)\n    helper()\n    dict().put(4)\n\n"
        "def shadow(helper):\n    helper()\n\nrun(helper, None)\n"
    ),
}


def test_methods_are_found_through_reexports_types_and_inheritance():
    graph = survey_of(PACKAGE).graph
    assert called(graph, "Base.put") == [
        ("app/core.py", 6, True),
        ("app/use.py", 9, True),
        ("app/use.py", 10, True),
        ("app/use.py", 11, False),
    ]


def test_a_local_name_is_no_call_of_a_function():
    assert called(survey_of(PACKAGE).graph, "helper") == [("app/use.py", 12, True)]


def test_mentions_are_uses_but_no_calls():
    graph = survey_of(PACKAGE).graph
    uses = [(use.line, use.role) for use in graph.uses(graph.definitions("helper"))]
    assert uses == [(12, "call"), (18, "mention")]


def test_super_calls_the_base():
    assert called(survey_of(PACKAGE).graph, "Base.both") == [("app/core.py", 10, True)]


def test_overrides_and_subclasses():
    graph = survey_of(PACKAGE).graph
    assert [use.within for use in graph.overrides(graph.definitions("Base.both")[0])] == ["Queue.both"]
    assert [use.within for use in graph.subclasses(graph.definitions("Base")[0])] == ["Queue"]


def test_imports_for_types_are_not_imports_at_run_time():
    imports = {(use.path, use.line): use.role for use in survey_of(PACKAGE).graph.importers("app/core.py")}
    assert imports == {
        ("app/__init__.py", 1): "import",
        ("app/use.py", 3): "import",
        ("app/use.py", 5): "types",
    }


def test_callees_are_certain():
    graph = survey_of(PACKAGE).graph
    found = graph.callees(graph.definitions("run")[0])
    assert [(use.line, callee.qualified_name) for use, callee in found] == [
        (8, "Queue"),
        (9, "Base.put"),
        (10, "Base.put"),
        (10, "make"),
        (12, "helper"),
    ]


def test_a_common_method_name_has_no_callers_without_a_sign():
    graph = survey_of(
        {
            "a.py": "class Cache:\n    def get(self):\n        pass\n",
            "b.py": "def f(options, cache):\n    options.get(1)\n    cache.get(2)\n",
        }
    ).graph
    assert called(graph, "Cache.get") == [("b.py", 3, False)]


def test_javascript_modules():
    graph = survey_of(
        {
            "lib/a.js": "class View {\n  render() { this.paint() }\n  paint() {}\n}\nmodule.exports = View\n",
            "lib/b.js": "exports.twice = function twice(x) { return x }\n",
            "lib/c.ts": "export default function start() {}\nexport const stop = () => 1\n",
            "lib/index.ts": "export * from './c'\nexport { default as begin } from './c'\n",
            "main.js": (
                "const View = require('./lib/a')\nconst { twice } = require('./lib/b')\n"
                "const view = new View()\nview.render()\ntwice(1)\n"
            ),
            "main.ts": "import { begin, stop } from './lib'\nbegin()\nstop()\n",
        }
    ).graph
    assert called(graph, "View.render") == [("main.js", 4, True)]
    assert called(graph, "View.paint") == [("lib/a.js", 2, True)]
    assert called(graph, "twice") == [("main.js", 5, True)]
    assert called(graph, "start") == [("main.ts", 2, True)]
    assert called(graph, "stop") == [("main.ts", 3, True)]


def test_functions_of_c():
    graph = survey_of(
        {
            "a.c": "static int hash(int x) { return x; }\nint open_it(void) { return hash(1); }\n",
            "b.c": '#include "a.h"\nint hash(int y);\nint main(void) { open_it(); return hash(2); }\n',
            "a.h": "int open_it(void);\n",
        }
    ).graph
    assert called(graph, "hash") == [("a.c", 2, True)]
    assert called(graph, "open_it") == [("b.c", 3, True)]


def test_what_a_function_without_a_declared_type_returns():
    text = (
        "class Key:\n    def sign(self): ...\n\n"
        "    @classmethod\n    def load(cls, name):\n        key = cls(name)\n        return key\n\n"
        "    def named(self, name):\n        self.name = name\n        return self\n\n\n"
        "class Short(Key):\n    def sign(self): ...\n\n\n"
        "def make(kind):\n    if kind == 1:\n        return None\n    return Key()\n\n\n"
        "def either(kind):\n    if kind == 1:\n        return Short()\n    return Key()\n\n\n"
        "def use():\n"
        "    Key.load(1).sign()\n    Short.load(1).sign()\n    Short().named(1).sign()\n"
        "    make(2).sign()\n    either(2).sign()\n"
    )
    graph = survey_of({"a.py": text}).graph
    lines = {line: number for number, line in enumerate(text.splitlines(), 1)}
    key, short, own = (
        lines[f"    {call}.sign()"] for call in ("Key.load(1)", "Short.load(1)", "Short().named(1)")
    )
    made, unknown = lines["    make(2).sign()"], lines["    either(2).sign()"]
    assert called(graph, "Key.sign") == [("a.py", key, True), ("a.py", made, True), ("a.py", unknown, False)]
    assert [one for one in called(graph, "Short.sign") if one[2]] == [
        ("a.py", short, True),
        ("a.py", own, True),
    ]


def test_a_function_that_returns_self():
    rust = (
        "pub struct Door<'a> { name: &'a str }\n"
        "impl<'a> Door<'a> {\n    pub fn new() -> Self { todo!() }\n    pub fn wide(self) -> Self { self }\n"
        "    fn open(&self) -> bool { true }\n}\n\n"
        "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn opens() {\n"
        "        let door = Door::new().wide();\n        assert_eq!(true, door.open());\n    }\n}\n"
    )
    python = (
        "from typing import Self\n\n\nclass Kiln:\n    def hot(self) -> Self: ...\n\n"
        "    def fire(self): ...\n\n\nclass Small(Kiln):\n    def fire(self): ...\n\n\n"
        "Kiln().hot().fire()\nSmall().hot().fire()\n"
    )
    graph = survey_of({"src/door.rs": rust, "kiln.py": python}).graph
    assert called(graph, "Door.open") == [("src/door.rs", 14, True)]
    assert called(graph, "Kiln.fire") == [("kiln.py", 14, True)]
    assert ("kiln.py", 15, True) in called(graph, "Small.fire")


def test_an_annotation_names_a_class_beside_the_method():
    text = (
        "class Test:\n    class Door:\n        def open_it(self): ...\n\n"
        "    def test(self, door: Door):\n        door.open_it()\n"
    )
    assert called(survey_of({"test_a.py": text}).graph, "Test.Door.open_it") == [("test_a.py", 6, True)]


def test_a_call_of_a_macro_of_c_on_a_line_of_its_own():
    text = "#define CHECK_IT(p) { check(p, 1); }\n\nvoid f(int p) {\n    CHECK_IT(p);\n    CHECK_IT(2);\n}\n"
    assert called(survey_of({"a.c": text}).graph, "CHECK_IT") == [("a.c", 4, True), ("a.c", 5, True)]


def test_a_macro_of_c_that_is_defined_in_a_function():
    files = {"a.c": "int f(int x) {\n#define TWICE(n) \\\n   (2 * (n))\n   return TWICE(x);\n}\n"}
    graph = survey_of(files).graph
    assert called(graph, "TWICE") == [("a.c", 4, True)]


def test_an_include_is_not_taken_for_a_file_of_another_library():
    files = {"src/a.c": '#include "buffer.h"\n', "deps/other/buffer.h": "", "include/x.h": ""}
    assert survey_of(files).graph.importers("deps/other/buffer.h") == []


def test_go_methods_and_packages():
    graph = survey_of(
        {
            "go.mod": "module example.org/app\n",
            "q/q.go": "package q\ntype Queue struct{}\nfunc New() *Queue { return nil }\n"
            "func (q *Queue) Put() { q.grow() }\nfunc (q *Queue) grow() {}\n",
            "main.go": 'package main\nimport "example.org/app/q"\n'
            "func main() {\n\tx := q.New()\n\tx.Put()\n}\n",
        }
    ).graph
    assert called(graph, "New") == [("main.go", 4, True)]
    assert called(graph, "Put") == [("main.go", 5, True)]
    assert called(graph, "grow") == [("q/q.go", 4, True)]


def test_other_languages_are_only_possible():
    files = {"a.rb": "def run_all(x)\n  x\nend\n", "b.rb": "# run_all(1)\nrun_all(2)\n"}
    graph = survey_of(files).graph
    assert called(graph, "run_all") == [("b.rb", 2, False)]


def test_a_line_that_keeps_the_result_of_a_call_is_a_call():
    files = {
        "a.ml": "let port s = 1\n\nlet first = port 2\nlet rec again x = port x\n",
        "b.ml": "let () =\n  let port = A.port 3 in\n  print port\n",
    }
    graph = survey_of(files).graph
    assert called(graph, "port") == [("a.ml", 3, False), ("a.ml", 4, False), ("b.ml", 3, False)]


def test_only_newlines_end_the_lines_of_uses():
    files = {"a.el": "(defun one ()\n  1)\n\f\n(one)\n;; \u2028 (one)\n(two #'one)\n"}
    assert called(survey_of(files).graph, "one") == [("a.el", 4, False), ("a.el", 6, False)]


def test_a_package_may_import_a_function_of_the_name_of_its_module():
    files = {
        "p/__init__.py": "from .distance import distance\n",
        "p/distance.py": "def distance():\n    pass\n",
        "q.py": "from p import distance\n\ndistance()\n",
    }
    assert called(survey_of(files).graph, "distance") == [("q.py", 3, True)]


def test_paths_of_rust_may_begin_with_a_child_module():
    files = {
        "Cargo.toml": '[package]\nname = "app"\n',
        "src/main.rs": "mod tools;\nuse tools::find;\nfn main() { find(); }\n",
        "src/tools.rs": "pub fn find() {}\n",
    }
    assert called(survey_of(files).graph, "find") == [("src/main.rs", 3, True)]


def test_unpacked_values_and_casts_of_typescript_have_types():
    files = {
        "a.ts": (
            "export class Gen { add() {} }\n"
            "export class Context {\n  readonly gen: Gen\n  constructor(private readonly own: Gen) {}\n"
            "  run() { this.own.add() }\n"
            "  get made(): Gen { return this.own }\n  again() { this.made.add() }\n}\n"
        ),
        "b.ts": (
            "import { Context, Gen } from './a'\n"
            "export function one(cxt: Context) {\n  const { gen } = cxt\n  gen.add()\n}\n"
            "export function two({ gen: g }: Context) { g.add() }\n"
            "export function three(x: unknown) { (x as Gen).add() }\n"
            "export function four<T>(x: T) { x.add() }\n"
            "export const { gen } = new Context()\ngen.add()\n"
            "export function five({ gen = null, ...rest }) { gen.add(rest) }\n"
        ),
    }
    certain = [(path, line) for path, line, sure in called(survey_of(files).graph, "Gen.add") if sure]
    assert certain == [("a.ts", 5), ("a.ts", 7), ("b.ts", 4), ("b.ts", 6), ("b.ts", 7), ("b.ts", 10)]


def test_a_function_that_is_taken_out_of_an_object_is_called():
    files = {
        "lib.ts": "async function query() {}\nexport default { query, more: query };\n",
        "old.js": "function run() {}\nmodule.exports = { run };\n",
        "a.ts": (
            "import lib from './lib';\n"
            "function one() {\n  const { query } = lib;\n  return query();\n}\n"
            "function two() { const { query: q } = lib; return q(); }\n"
            "function three() { lib.query(); lib.more(); }\n"
            "function four(api) { const { query } = api; query(); }\n"
            "const five = ({ query }) => query();\n"
            "function six() { const q = lib.query; q(); }\n"
            "function seven(query) { query(); }\n"
        ),
        "b.js": "const old = require('./old');\nfunction one() {\n  const { run } = old;\n  run();\n}\n",
        "c.py": "import d\n\ndef one():\n    f = d.work\n    f()\n    made = d.Work()\n    made()\n",
        "d.py": "def work(): pass\n\nclass Work: pass\n",
    }
    graph = survey_of(files).graph
    assert called(graph, "query") == [("a.ts", line, True) for line in (4, 6, 7, 10)]
    assert [use.line for use in graph.unresolved(graph.definitions("query"), "call")] == [8, 9]
    assert called(graph, "run") == [("b.js", 4, True)]
    assert called(graph, "work") == [("c.py", 5, True)]
    assert called(graph, "Work") == [("c.py", 6, True)]


IDIOMS = {
    "lib.ts": (
        "export function work(x: number) { return x; }\n",
        {
            "a1.ts": "const { work } = await import('./lib');\nwork(1);\n",
            "a2.ts": "import { work } from './lib';\nwork.call(null, 1);\n",
            "a3.ts": "import { work } from './lib';\nwork!(1);\n",
            "a4.ts": "import { work } from './lib';\n(work as any)(1);\n",
        },
    ),
    "p/Lib.java": (
        "package p;\npublic class Lib { public static int work(int x) { return x; } }\n",
        {
            "a1.java": "class A1 {\n  int a() { return p.Lib.work(1); } }\n",
            "a2.java": "class A2 extends p.Lib {\n  int a() { return work(1); } }\n",
        },
    ),
    "src/main/kotlin/p/Lib.kt": (
        "package p\nfun work(x: Int): Int = x\n",
        {"src/main/kotlin/q/A1.kt": "package q\nfun a1() = p.work(1)\n"},
    ),
    "lib.go": (
        "package main\n\nfunc work[K any](s string) {}\n",
        {"a1.go": 'package main\nfunc a1() { work[int]("a") }\n'},
    ),
    "src/lib.rs": (
        "pub fn work(x: i32) -> i32 { x }\npub mod a1;\n",
        {
            "src/a1.rs": "use super::work as go;\nfn a1() { go(1); }\n",
            "Cargo.toml": '[package]\nname = "a"\n',
        },
    ),
}


@pytest.mark.parametrize("path", IDIOMS)
def test_a_call_is_certain_however_it_is_written(path):
    text, files = IDIOMS[path]
    graph = survey_of({path: text, **files}).graph
    found = graph.callers([one for one in graph.definitions("work") if one.path == path])
    assert [(use.path, use.line, use.certain) for use in found] == [
        (each, 2, True) for each in files if each != "Cargo.toml"
    ]


def test_references_to_a_function_and_defaults_mention_it():
    files = {
        "p/Lib.java": "package p;\npublic class Lib { public static int work(int x) { return x; } }\n",
        "a.java": "import p.Lib;\nclass A { Function<Integer, Integer> f = Lib::work; }\n",
        "b.py": "def go(x): pass\n\n\ndef one(go=go, then: int = go): go(1)\n",
    }
    graph = survey_of(files).graph
    for name, at in {"work": ("a.java", 2), "go": ("b.py", 4)}.items():
        found = graph.uses(graph.definitions(name))
        assert {(use.path, use.line, use.role) for use in found} == {(*at, "mention")}


def test_what_a_module_of_javascript_is_made_to_be():
    files = {
        "shape.js": "module.exports = class Shape {\n  constructor(x) {}\n}\n",
        "build.js": "module.exports = function build() {}\n",
        "main.js": (
            "const Base = require('./shape')\nconst make = require('./build')\n"
            "class Square extends Base {\n  constructor() { super(1) }\n}\nmake(new Base(2))\n"
        ),
    }
    graph = survey_of(files).graph
    assert called(graph, "Shape.constructor") == [("main.js", 4, True), ("main.js", 6, True)]
    assert called(graph, "build") == [("main.js", 6, True)]


def test_a_call_of_a_base_may_lead_to_what_overrides_it():
    files = {
        "a.py": "class Base:\n    def close(self):\n        pass\n",
        "b.py": "from a import Base\nclass File(Base):\n    def close(self):\n        super().close()\n",
        "c.py": "from a import Base\ndef end(x: Base):\n    x.close()\n",
    }
    graph = survey_of(files).graph
    assert called(graph, "File.close") == [("c.py", 3, False)]
    assert called(graph, "Base.close") == [("b.py", 4, True), ("c.py", 3, True)]


def test_functions_in_an_object_are_called_through_its_type():
    files = {
        "a.ts": (
            "interface Options { onEnd: () => void }\n"
            "export const defaults = { onEnd() {} }\n"
            "export function run(options: Options) { options.onEnd() }\n"
        ),
    }
    assert called(survey_of(files).graph, "onEnd") == [("a.ts", 3, False)]


def test_this_in_functions_assigned_to_one_object():
    files = {"a.js": "app.set = function set() {}\napp.on = function on() { this.set() }\n"}
    assert called(survey_of(files).graph, "set") == [("a.js", 2, True)]


def test_types_of_java_in_packages_fields_and_chains():
    files = {
        "src/main/java/p/Item.java": (
            "package p;\npublic class Item {\n  private Item() {}\n"
            "  public static final Item NONE = new Item();\n"
            "  public static class Builder {\n    private final Item item = new Item();\n"
            "    Builder(int x) {}\n    Builder name() { item.touch(); return this; }\n"
            "    Item build() { return item; }\n  }\n"
            "  public static Builder builder() { return new Builder(1); }\n  void touch() {}\n}\n"
        ),
        "src/test/java/p/ItemTest.java": (
            "package p;\nclass ItemTest implements java.io.Serializable {\n"
            "  private Item held;\n  void test() {\n"
            "    Item one = Item.builder().name().build();\n    one.touch();\n    Item.NONE.touch();\n"
            "    held.touch();\n    var two = Item.builder();\n    two.build().touch();\n"
            "    try (Item three = one) { three.touch(); }\n  }\n}\n"
        ),
    }
    graph = survey_of(files).graph
    test = "src/test/java/p/ItemTest.java"
    lines = [(test, line, True) for line in (6, 7, 8, 10, 11)]
    assert called(graph, "Item.touch") == [("src/main/java/p/Item.java", 8, True), *lines]


KOTLIN = {
    "app/src/main/kotlin/a/core/Queue.kt": (
        "package a.core\n\ninterface Store { fun put(x: Int) }\n\n"
        "open class Base(protected val store: Store) {\n  open fun both() { store.put(1) }\n}\n\n"
        "class Queue(store: Store) : Base(store), Store {\n  override fun put(x: Int) { helper() }\n"
        "  override fun both() { super.both(); this.put(2) }\n"
        "  companion object {\n    fun create(): Queue = Queue(FileStore())\n  }\n}\n\n"
        "enum class Mode {\n  FAST, SLOW;\n  fun go() {}\n}\n\n"
        "object Registry { fun find(name: String) = Queue.create() }\n\ninternal fun helper() {}\n"
        "fun Queue.drain(times: Int): Queue = apply { put(times) }\n"
    ),
    "app/src/main/kotlin/a/core/FileStore.kt": (
        "package a.core\n\nclass FileStore : Store { override fun put(x: Int) = helper() }\n"
    ),
    "app/src/test/kotlin/a/use/Use.kt": (
        "package a.use\n\nimport a.core.Mode\nimport a.core.Queue as Line\nimport a.core.Registry\n"
        "import a.core.drain\nimport a.core.*\n\n"
        "fun run(line: Line?, any: Any, other: List<Int>) {\n"
        "  line?.drain(1)!!.put(3)\n  val made = Line.create()\n  made.put(4)\n  any.drain(5)\n"
        '  Mode.FAST.go()\n  Registry.find("x").put(6)\n  other.forEach { it.put(7) }\n'
        "  made.let { it.put(8) }\n  made.apply { put(9) }\n  listOf(1).map(::helper)\n"
        "  helper()\n  Queue<String>(FileStore())\n}\n"
    ),
}
CORE, USE = "app/src/main/kotlin/a/core/Queue.kt", "app/src/test/kotlin/a/use/Use.kt"


def test_methods_of_kotlin_through_properties_companions_and_scope_functions():
    graph = survey_of(KOTLIN).graph
    assert called(graph, "Store.put") == [(CORE, 6, True)]
    certain = [(path, line) for path, line, is_certain in called(graph, "Queue.put") if is_certain]
    assert certain == [(CORE, 6), (CORE, 11), (CORE, 25), (USE, 10), (USE, 12), (USE, 15), (USE, 17)]
    assert called(graph, "create") == [(CORE, 22, True), (USE, 11, True)]
    assert called(graph, "Base.both") == [(CORE, 11, True)]
    assert called(graph, "Mode.go") == [(USE, 14, True)]
    assert [use.within for use in graph.overrides(graph.definitions("Store.put")[0])] == [
        "FileStore.put",
        "Queue.put",
    ]


def test_functions_constructors_and_extension_functions_of_kotlin():
    graph = survey_of(KOTLIN).graph
    store = "app/src/main/kotlin/a/core/FileStore.kt"
    assert called(graph, "helper") == [(store, 3, True), (CORE, 10, True), (USE, 20, True)]
    assert [use.line for use in graph.uses(graph.definitions("helper")) if use.role == "mention"] == [19]
    assert called(graph, "FileStore") == [(CORE, 13, True), (USE, 21, True)]
    assert called(graph, "Queue") == [(CORE, 13, True), (USE, 21, True)]
    assert called(graph, "Queue.drain") == [(USE, 10, True), (USE, 13, True)]
    assert not graph.definitions("helper")[0].is_exported


def test_an_extension_function_of_kotlin_extends_its_type_only():
    files = {
        "a/A.kt": (
            "package a\nopen class Rule\nclass Long : Rule()\nclass Other\n"
            "fun Rule.lint() {}\nfun <T : Rule> T.lintAll() {}\n"
            "fun run(value: Any) {\n  Long().lint()\n  Other().lint()\n"
            "  Long().lintAll()\n  value.lint()\n}\n"
            "class Visitor : Foreign() {\n  private fun Node.isPlain() = true\n"
            "  fun visit(node: Node) = node.isPlain()\n}\n"
        )
    }
    graph = survey_of(files).graph
    assert called(graph, "lint") == [("a/A.kt", 8, True), ("a/A.kt", 11, True)]
    assert called(graph, "lintAll") == [("a/A.kt", 10, True)]
    assert called(graph, "isPlain") == [("a/A.kt", 15, True)]
    assert graph.definitions("isPlain")[0].scope == "Visitor.Node"


def test_packages_of_kotlin_whose_folders_omit_what_all_share():
    files = {
        "common/src/flow/Flow.kt": "package lib.io.flow\n\nfun collect() {}\nclass Flow { fun emit() {} }\n",
        "common/src/Use.kt": (
            "package lib.io\n\nimport lib.io.flow.collect\nimport lib.io.flow.Flow\n\n"
            "fun run(): Flow {\n  collect()\n  Flow().emit()\n}\n"
        ),
        "java/Main.java": "package m;\nimport lib.io.flow.Flow;\nclass Main {}\n",
    }
    graph = survey_of(files).graph
    assert called(graph, "collect") == [("common/src/Use.kt", 7, True)]
    assert called(graph, "Flow.emit") == [("common/src/Use.kt", 8, True)]


ELIXIR = {
    "lib/shop/cart.ex": (
        "defmodule Shop.Cart do\n  alias Shop.{Item, Store}\n  import Shop.Prices\n\n"
        "  @spec total(list()) :: integer()\n"
        "  def total([]), do: 0\n  def total([first | rest]) when is_list(rest) do\n"
        "    round!(first) + total(rest)\n  end\n\n"
        "  def add(cart, item) do\n    cart |> Item.check(item) |> empty?() |> Store.HTTPKeep.put()\n"
        "    Enum.map(cart, &empty?/1)\n    __MODULE__.total(cart)\n"
        "    Shop.Item.check(cart, item)\n  end\n\n"
        "  defp empty?(cart), do: cart == []\n\n"
        "  defmodule Line do\n    def new(x), do: x\n  end\n\n  def line, do: Line.new(1)\nend\n"
    ),
    "lib/shop/item.ex": (
        "defmodule Shop.Item do\n  @behaviour Shop.Checked\n  def check(cart, _item), do: cart\nend\n"
    ),
    "lib/shop/prices.ex": "defmodule Shop.Prices do\n  def round!(x), do: x\nend\n",
    "lib/shop/store/http_keep.ex": "defmodule Shop.Store.HTTPKeep do\n  def put(x), do: x\nend\n",
    "lib/shop/checked.ex": "defprotocol Shop.Checked do\n  def check(a, b)\nend\n",
}


def test_modules_and_functions_of_elixir():
    survey = survey_of(ELIXIR)
    graph, cart = survey.graph, "lib/shop/cart.ex"
    assert called(graph, "Shop.Cart.total") == [(cart, 8, True), (cart, 14, True)]
    assert called(graph, "Item.check") == [(cart, 12, True), (cart, 15, True)]
    assert called(graph, "empty?") == [(cart, 12, True)]
    assert [use.line for use in graph.uses(graph.definitions("empty?")) if use.role == "mention"] == [13]
    assert called(graph, "round!") == [(cart, 8, True)]
    assert called(graph, "HTTPKeep.put") == [(cart, 12, True)]
    assert called(graph, "Line.new") == [(cart, 24, True)]
    assert [use.within for use in graph.subclasses(graph.definitions("Checked")[0])] == ["Shop.Item"]
    total = graph.definitions("Cart.total")
    assert [(one.qualified_name, one.start, one.end) for one in total] == [("Shop.Cart.total", 6, 9)]
    assert not graph.definitions("empty?")[0].is_exported
    assert {link.target for link in survey.links} == {
        "lib/shop/item.ex",
        "lib/shop/prices.ex",
    }
    assert ("Shop.Cart.add", "lib/shop/cart.ex:Shop.Cart.empty?") in {
        (c.caller.qualified_name, f"{c.callee.path}:{c.callee.qualified_name}")
        for c in survey.calls
        if c.caller
    }


def test_a_class_without_a_name_makes_no_subclass_of_the_function_around_it():
    text = (
        "<?php\ninterface Store {}\nclass Disk implements Store {}\n"
        "function test_it() {\n    return new class implements Store {};\n}\n"
    )
    graph = survey_of({"a.php": text}).graph
    assert [use.within for use in graph.subclasses(graph.definitions("Store")[0])] == ["Disk"]


def test_an_attribute_with_a_plain_value_is_no_object_of_its_class():
    text = (
        "class Box:\n    limit = 1\n    def put(self): pass\n    def run(self):\n        self.limit.put()\n"
    )
    assert called(survey_of({"a.py": text}).graph, "Box.put") == []


def test_go_assertions_named_types_and_interfaces():
    files = {
        "a.go": (
            "package a\ntype Names []string\nfunc (n *Names) Value() []string { return nil }\n"
            "type Shown interface { Show() string }\ntype Flag struct { Held *Names }\n"
            'func (f Flag) Show() string { return "" }\n'
            "func (f Flag) Get() (*Names, error) { return f.Held, nil }\n"
            "func use(f Flag, s Shown, x interface{}) {\n\tf.Held.Value()\n\ts.Show()\n"
            "\tn, ok := x.(*Names)\n\tn.Value()\n\tm, err := f.Get()\n\tm.Value()\n}\n"
        ),
    }
    graph = survey_of(files).graph
    assert called(graph, "Names.Value") == [("a.go", line, True) for line in (9, 12, 14)]
    assert called(graph, "Flag.Show") == [("a.go", 10, False)]


def test_calls_of_rust_in_macros_and_modules_within_files():
    files = {
        "src/main.rs": "mod tools;\nfn main() {}\n",
        "src/tools.rs": (
            "pub mod inner { pub fn find(x: u8) -> bool { true } }\n"
            "pub struct Kit { pub size: u8 }\nimpl Kit { pub fn open(&self) {} }\n"
        ),
        "src/use.rs": (
            "use crate::tools::inner::find;\nuse crate::tools::Kit;\n"
            "fn run<'a>(kit: &'a Kit, other: Option<Kit>) {\n"
            "    assert!(find(1));\n    assert!(kit.open());\n"
            "    match other { Some(open) => open(), None => {} }\n}\n"
        ),
    }
    graph = survey_of(files).graph
    assert called(graph, "find") == [("src/use.rs", 4, True)]
    assert called(graph, "Kit.open") == [("src/use.rs", 5, True)]


def test_calls_of_rust_by_a_path_that_begins_with_another_crate():
    files = {
        "loader/Cargo.toml": '[package]\nname = "my-loader"\n',
        "loader/src/lib.rs": "pub mod grammar;\npub fn start() {}\n",
        "loader/src/grammar.rs": (
            "pub fn fetch_all() {}\npub struct Kit;\nimpl Kit { pub fn open() -> Kit { Kit } }\n"
        ),
        "app/Cargo.toml": '[package]\nname = "app"\n',
        "app/src/main.rs": (
            "use my_loader::grammar;\nfn main() {\n    my_loader::grammar::fetch_all();\n"
            "    grammar::fetch_all();\n    my_loader::grammar::Kit::open();\n    my_loader::start();\n"
            "    other_loader::grammar::fetch_all();\n}\n"
        ),
        "app/src/grammar.rs": "",
        "app/src/other.rs": "use other_loader::grammar;\nfn run() { grammar::fetch_all(); }\n",
    }
    graph = survey_of(files).graph
    assert called(graph, "fetch_all") == [("app/src/main.rs", line, True) for line in (3, 4)]
    assert called(graph, "Kit.open") == [("app/src/main.rs", 5, True)]
    assert called(graph, "start") == [("app/src/main.rs", 6, True)]


def test_what_a_type_of_rust_is_around_may_have_the_method():
    files = {
        "src/main.rs": "mod kiln;\nfn main() {}\n",
        "src/kiln.rs": (
            "use std::sync::Arc;\npub struct Kiln { hot: bool }\nimpl Kiln {\n"
            "    pub fn shared() -> Arc<Kiln> { todo!() }\n    pub fn cool_down(&self) {}\n"
            "    pub fn stop(&self) { self.cool_down(); }\n}\n"
        ),
        "src/use.rs": (
            "use std::sync::Arc;\nuse std::path::PathBuf;\nuse crate::kiln::Kiln;\n"
            "fn run() {\n    let kiln = Kiln::shared();\n    kiln.cool_down();\n}\n"
            "fn other(kiln: &Arc<Kiln>, path: PathBuf) {\n    kiln.cool_down();\n    path.cool_down();\n}\n"
        ),
    }
    graph = survey_of(files).graph
    assert called(graph, "Kiln.cool_down") == [
        ("src/kiln.rs", 6, True),
        ("src/use.rs", 6, False),
        ("src/use.rs", 9, False),
    ]


def test_the_possible_uses_that_are_returned_are_in_the_language_of_the_definition_first(monkeypatch):
    monkeypatch.setattr("rag.code.use_search.MAX_POSSIBLE", 30)
    files = {f"a/{n}.rb": "z.put_away(1)\n" for n in range(40)}
    files |= {"q.py": "class Box:\n    def put_away(self, x):\n        pass\n"}
    files |= {"use.py": "def run(box):\n    box.put_away(1)\n"}
    found = called(survey_of(files).graph, "Box.put_away")
    assert ("use.py", 2, False) in found
    assert len(found) == 30


JAVA_SHAPES = """package a;
public class Shapes {
    interface Drawn<T> { void draw(); }
    static abstract class Base { }
    static class Circle extends Base implements Drawn<String> { }
    class Square extends Shapes.Base { }
    enum Kind implements Drawn<Kind> { A }
    record Point(int x) implements Drawn<Point> { }
    interface Moved extends Drawn<String> { }
}
class Other extends Shapes.Base implements Shapes.Drawn<Other> { }
"""


def subclasses(path: str, text: str, name: str) -> list[tuple[int, bool]]:
    graph = survey_of({path: text}).graph
    return [(use.line, use.certain) for use in graph.subclasses(graph.definitions(name)[0])]


def test_nested_and_generic_types_of_java_are_bases():
    assert subclasses("Shapes.java", JAVA_SHAPES, "Base") == [(5, True), (6, True), (11, True)]
    drawn = [(5, True), (7, True), (8, True), (9, True), (11, True)]
    assert subclasses("Shapes.java", JAVA_SHAPES, "Drawn") == drawn


BOXES = {
    "a.ts": "interface Box<T> {}\nclass Crate implements Box<any> {}\ninterface Tin extends Box<any> {}\n",
    "a.cs": "class Box<T> { }\nclass Crate : Box<string> { }\nclass Tin : Box<int> { }\n",
    "a.cpp": "template <class T> class Box {};\nclass Crate : public Box<int> {};\nclass Tin : Box<A> {};\n",
}


@pytest.mark.parametrize("path", BOXES)
def test_generic_types_are_bases(path):
    assert [line for line, _ in subclasses(path, BOXES[path], "Box")] == [2, 3]


GREETING = "void greet(int n) {}\n"
CALLS_OF_CPP = {
    "void plain() { greet(1); }": [True],
    "class Own {}; class Sub : public Own { void act() { greet(1); } };": [True],
    "class Widget : public QWidget { void act() { greet(1); } };": [False],
    "class Widget : public QWidget { void act(); };\nvoid Widget::act() { greet(1); }": [False],
    "struct Field { void (*greet)(int); void run() { greet(1); } };": [False],
    "void given(const std::function<void(int)>& greet) { greet(1); }": [False],
    "std::function<void(int)> greet = make();\nvoid run() { greet(1); }": [False],
    "void run() { auto greet = [](int n) {}; greet(1); }": [],
    "void object(Other& o) { o.greet(1); }": [False],
}


@pytest.mark.parametrize("text", CALLS_OF_CPP)
def test_a_bare_call_of_cpp_is_certain_if_it_can_mean_nothing_else(text):
    graph = survey_of({"a.cpp": GREETING, "b.cpp": text}).graph
    found = graph.callers([one for one in graph.definitions("greet") if one.path == "a.cpp"])
    assert [use.certain for use in found] == CALLS_OF_CPP[text]


def test_modules_that_import_all_names_of_each_other_are_searched_in_bounded_time():
    """Each module is searched a few times for a name, not once for each of the 13! paths between them."""
    modules = [f"m{number:02}" for number in range(14)]
    files = {
        f"{one}.py": "".join(f"from {other} import *\n" for other in modules if other != one)
        for one in modules
    }
    files["m13.py"] += "\ndef last():\n    pass\n"
    files["m00.py"] += "\ndef use():\n    absent()\n    last()\n"
    began = time.process_time()
    assert called(survey_of(files).graph, "last") == [("m00.py", 17, True)]
    assert survey_of(files).calls[0].callee.name == "last"
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "manifest",
    [
        '{"name": "@shop/pay", "main": "lib/charge.js"}',
        '{"name": "@shop/pay", "main": "./src/charge.js"}',
        '{"name": "@shop/pay", "exports": "./dist/charge.js"}',
        '{"name": "@shop/pay", "exports": {".": {"types": "./lib/x.d.ts", "import": "./lib/charge.mjs"}}}',
    ],
)
def test_a_package_of_a_workspace_is_imported_from_its_sources(manifest):
    graph = survey_of(
        {
            "packages/pay/package.json": manifest,
            "packages/pay/src/charge.ts": "export default function charge(sum) {\n  return sum;\n}\n",
            "packages/web/src/page.ts": 'import pay from "@shop/pay";\nexport const show = () => pay(1);\n',
        }
    ).graph
    assert called(graph, "charge") == [("packages/web/src/page.ts", 2, True)]


@pytest.mark.parametrize("exports", ['{".": null}', "3", '[1, {"a": 2}]', '{"./a": "./a.js"}'])
def test_a_package_that_exports_no_file_as_itself_has_no_entry(exports):
    files = {
        "packages/pay/package.json": f'{{"name": "pay", "main": 3, "exports": {exports}}}',
        "packages/pay/a.js": "export default function charge() {}\n",
        "web.js": 'import pay from "pay";\npay();\n',
    }
    assert called(survey_of(files).graph, "charge") == []
