"""No sentence such as "called in 0 places" or "means something else" is said without proof."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from rag.answer.not_found import warning
from rag.database.quarantine import Quarantine
from rag.retrieval.search import search
from rag.retrieval.uses import summary, uses_of_name
from rag.service import Engine
from rag.settings import Settings
from rag.types import Confidence, blob_id

SEAL = "def seal():\n    return 1\n"
JAVA = "package p.a;\npublic class Pot { public static int seal() { return 1; } }\n"
USE = "public class Use { int f() { return Pot.seal(); } }\n"
RUST = {
    "Cargo.toml": '[package]\nname = "x"\n',
    "src/lib.rs": "pub mod a;\npub mod b;\n",
    "src/a.rs": "pub fn seal() -> u8 { 1 }\n",
}
TYPESCRIPT = "export function seal() { return 1; }\n"
UNPROVEN = {
    "star of what is not here": {
        "core.py": SEAL,
        "b.py": "from native import *\n",
        "c.py": "from b import *\n\nseal()\n",
    },
    "package that may collect names": {
        "pkg/__init__.py": "from ._impl import *\n",
        "pkg/_impl/__init__.py": "import importlib\n",
        "pkg/_impl/x.py": SEAL,
        "c.py": "from pkg import *\n\nseal()\n",
    },
    "unknown first part": {"lib/auth.py": SEAL, "c.py": "from project.auth import seal\n\nseal()\n"},
    "unknown folder": {"lib/auth.py": SEAL, "c.py": "from lib.sub.auth import seal\n\nseal()\n"},
    "module with an unknown first part": {
        "lib/auth.py": SEAL,
        "c.py": "import project.auth as pa\n\npa.seal()\n",
    },
    "glob of Rust": {**RUST, "src/b.rs": "use other::prelude::*;\npub fn f() { seal(); }\n"},
    "package of Java in two folders": {
        "src/main/java/p/a/Pot.java": JAVA,
        "src/test/java/p/a/X.java": "package p.a;\npublic class X {}\n",
        "src/main/java/p/b/Use.java": "package p.b;\nimport p.a.*;\n" + USE,
    },
    "static star of Java": {
        "src/main/java/p/a/Pot.java": JAVA,
        "src/main/java/p/b/Use.java": "package p.b;\nimport static p.a.Pot.*;\n" + USE.replace("Pot.", ""),
    },
    "package of Java in another folder": {
        "code/Pot.java": JAVA,
        "more/Use.java": "package p.b;\nimport p.a.*;\n" + USE,
    },
    "class of Java in another folder": {
        "code/Pot.java": JAVA,
        "more/Use.java": "package p.b;\nimport p.a.Pot;\n" + USE,
    },
    "star of Kotlin in another folder": {
        "x/Pot.kt": "package p.a\nfun seal(): Int = 1\n",
        "y/Use.kt": "package p.b\nimport p.a.*\nfun f() = seal()\n",
    },
    "function of Kotlin in another folder": {
        "x/Pot.kt": "package p.a\nfun seal(): Int = 1\n",
        "y/Use.kt": "package p.b\nimport p.a.seal\nfun f() = seal()\n",
    },
    "included source of C": {
        "a.c": "static int seal(void) { return 1; }\n",
        "b.c": '#include "a.c"\nint f(void) { return seal(); }\n',
    },
    "global of scripts": {"a.js": "function seal() { return 1; }\n", "b.js": "seal();\n"},
    "package of npm that is not found": {
        "packages/a/src/index.ts": TYPESCRIPT,
        "b.ts": "import { seal } from '@acme/a';\nseal();\n",
    },
    "alias that is not configured": {
        "src/a.ts": TYPESCRIPT,
        "b.ts": "import { seal } from '~/a';\nseal();\n",
    },
    "dot import of Go": {
        "go.mod": "module m\n",
        "a/a.go": "package a\n\nfunc Seal() int { return 1 }\n",
        "b/b.go": 'package b\n\nimport . "m/a"\n\nfunc F() int { return Seal() }\n',
    },
    "module of Go without its go.mod": {
        "a/a.go": "package a\n\nfunc Seal() int { return 1 }\n",
        "b/b.go": 'package b\n\nimport "example.com/m/a"\n\nfunc F() int { return a.Seal() }\n',
    },
    "use of Elixir": {
        "lib/my_pot.ex": "defmodule MyPot do\n  def seal(), do: 1\nend\n",
        "lib/use.ex": "defmodule Use do\n  use MyPot\n  def f(), do: seal()\nend\n",
    },
}
"""Trees with a definition of `seal` and a call of it, which no import clearly leads to."""
ABOVE = {
    "package of Python": (
        "snip",
        {"snip/auth.py": SEAL, "snip/use.py": "from snip.auth import seal\n\nseal()\n"},
    ),
    "package in a package": (
        "shop/snip",
        {
            "shop/__init__.py": "",
            "shop/snip/__init__.py": "",
            "shop/snip/auth.py": SEAL,
            "shop/snip/use.py": "from shop.snip import auth\n\nauth.seal()\n",
        },
    ),
    "folder of a module of Go": (
        "api",
        {
            "go.mod": "module m\n",
            "api/a/a.go": "package a\n\nfunc Seal() int { return 1 }\n",
            "api/b/b.go": 'package b\n\nimport "m/api/a"\n\nfunc F() int { return a.Seal() }\n',
        },
    ),
    "sources of a crate": (
        "src",
        {
            "Cargo.toml": '[package]\nname = "my-shop"\n',
            "src/lib.rs": "pub mod a;\n",
            "src/a.rs": "pub fn seal() -> u8 { 1 }\n",
            "src/bin/x.rs": "use my_shop::a::seal;\n\nfn main() { seal(); }\n",
        },
    ),
    "module of a crate": (
        "src/net",
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "pub mod net;\n",
            "src/net/a.rs": "pub fn seal() -> u8 { 1 }\n",
            "src/net/b.rs": "use crate::net::a::seal;\n\nfn f() { seal(); }\n",
        },
    ),
    "package of Java": (
        "src/main/java/p/shop",
        {
            "src/main/java/p/shop/a/Pot.java": JAVA.replace("p.a", "p.shop.a"),
            "src/main/java/p/shop/b/Use.java": "package p.shop.b;\nimport p.shop.a.Pot;\n" + USE,
        },
    ),
    "alias of TypeScript": (
        "src",
        {
            "tsconfig.json": '{"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}',
            "src/a.ts": TYPESCRIPT,
            "src/b/b.ts": "import { seal } from '@/a';\nseal();\n",
        },
    ),
    "package of npm": (
        "src",
        {
            "package.json": '{"name": "@acme/shop", "main": "dist/index.js"}',
            "src/index.ts": TYPESCRIPT,
            "src/b/b.ts": "import { seal } from '@acme/shop';\nseal();\n",
        },
    ),
}
"""A folder that is the source, and a tree in which its files import each other by the names above it."""


def written(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def said_of(engine: Engine, root: Path, name: str) -> str:
    store = engine.repository(str(root)).store
    return summary(uses_of_name(store, name), files=store.file_count)


@pytest.mark.parametrize("tree", UNPROVEN)
def test_a_use_means_something_else_only_if_that_is_known(engine: Engine, tmp_path: Path, tree: str) -> None:
    said = said_of(engine, written(tmp_path, UNPROVEN[tree]), "Seal" if "Go" in tree else "seal")
    assert "something else" not in said, said
    assert "called in 1 place" in said or "1 use of that name could not be attributed" in said, said


def test_the_same_name_of_a_library_means_something_else(engine: Engine, tmp_path: Path) -> None:
    files = {"lib/auth.py": SEAL, "use.py": "from numpy import seal\n\nseal()\n"}
    said = said_of(engine, written(tmp_path, files), "seal")
    assert said.endswith("0 places in the 2 indexed files; 1 use of that name means something else"), said


@pytest.mark.parametrize("tree", ABOVE)
def test_the_source_is_known_by_the_names_above_it(engine: Engine, tmp_path: Path, tree: str) -> None:
    folder, files = ABOVE[tree]
    said = said_of(engine, written(tmp_path, files) / folder, "Seal" if "Go" in tree else "seal")
    assert said.endswith("is called in 1 place"), said


def test_a_name_is_found_with_the_names_above_the_source(engine: Engine, tmp_path: Path) -> None:
    folder, files = ABOVE["package of Python"]
    said = said_of(engine, written(tmp_path, files) / folder, "snip.auth.seal")
    assert said == "`seal` is called in 1 place"


SEAL_IN_C = "int seal_parcel(int n) {\n  return n;\n}\n\nint ship(void) {\n  return seal_parcel(1);\n}\n"
SEAL_IN_RUBY = (
    "class Pot\n  def seal_parcel\n    1\n  end\n\n  def ship\n    self.seal_parcel()\n  end\nend\n"
)
UNREAD_AS_CODE = {
    "macro of C": {
        "a.c": SEAL_IN_C,
        "b.h": "#define SEAL seal_parcel(1)\n// seal_parcel\nvoid f(int seal_parcel_n);\n",
    },
    "macro of several lines": {
        "a.c": SEAL_IN_C,
        "b.h": "#define SEAL(x) do { \\\n    seal_parcel(x); \\\n  } while (0)\n",
    },
    "symbol of Ruby": {
        "pot.rb": SEAL_IN_RUBY,
        "test/pot_test.rb": "assert_respond_to pot, :seal_parcel\n# seal_parcel\n",
    },
    "dotted string of Python": {
        "a.py": "def seal_parcel():\n    return 1\n\ndef ship():\n    seal_parcel()\n",
        "test_a.py": "@mock.patch('a.seal_parcel')\ndef test(): '''Not seal_parcel at all.'''\n",
    },
    "value of a variable of Go": {
        "a.go": "package a\n\nfunc sealParcel() {}\n\nfunc ship() { sealParcel() }\n".replace(
            "sealParcel", "seal_parcel"
        ),
        "b.go": "package a\n\nvar hook = seal_parcel\n",
    },
    "type of TypeScript": {
        "a.ts": "export class seal_parcel {}\nexport const ship = () => new seal_parcel();\n",
        "b.ts": "import {\n  seal_parcel,\n} from './a';\nconst every: seal_parcel[] = [];\n",
    },
}


@pytest.mark.parametrize("tree", UNREAD_AS_CODE)
def test_lines_that_are_not_read_as_code_are_counted_apart(engine: Engine, tmp_path: Path, tree: str) -> None:
    said = said_of(engine, written(tmp_path, UNREAD_AS_CODE[tree]), "seal_parcel")
    assert said.endswith("; 1 other line of code has the name"), said


PASSED_ON = {
    "block of Ruby": {"pot.rb": "class Pot\n  def wax!\n  end\nend\npot.wax!\npots.each(&:wax!)\n"},
    "method of C++": {
        "a.cpp": "struct Pot { void wax(); };\nvoid f(Pot* p) { p->wax(); }\n"
        "auto g = std::bind(&Pot::wax, p);\n"
    },
    "function of C#": {
        "a.cs": "static class Ext {\n  public static int Wax(this int x) => x;\n"
        "  int y = 1.Wax();\n  object z = all.Select(Ext.Wax);\n}\n"
    },
}


@pytest.mark.parametrize("tree", PASSED_ON)
def test_a_name_that_is_a_word_of_prose_is_counted_where_it_is_passed_on(
    engine: Engine, tmp_path: Path, tree: str
) -> None:
    name = {"block of Ruby": "wax!", "method of C++": "wax", "function of C#": "Wax"}[tree]
    said = said_of(engine, written(tmp_path, PASSED_ON[tree]), name)
    assert "called in" in said and said.endswith("; 1 other line of code has the name"), said


@pytest.mark.parametrize("body", ["seal_parcel(1)", "do { \\\n  seal_parcel(1); \\\n} while (0)"])
def test_what_only_a_macro_calls_is_called_there(engine: Engine, tmp_path: Path, body: str) -> None:
    files = {"a.c": SEAL_IN_C.partition("\n\n")[0] + "\n", "b.h": f"// seal_parcel\n#define SEAL {body}\n"}
    said = said_of(engine, written(tmp_path, files), "seal_parcel")
    assert said == "`seal_parcel` is possibly called in 1 place", said


BESIDE_CALLS = {
    "comment that looks like a call": {
        "a.py": "class A:\n    def seal_parcel(self):\n        return 1\n",
        "b.py": "class B:\n    def seal_parcel(self):\n        return 2\n",
        "c.py": "# What seal_parcel (of both) does.\nHOOKS = ['seal_parcel']\n",
    },
    "call of the text in another chunk": {
        "pot.py": "def seal_parcel():\n    return 1\n",
        "a.yaml": "run: seal_parcel(1)\n",
        "b.yaml": "hook: seal_parcel\n",
    },
    "name that nothing defines": {"a.py": "seal_parcel(1)\nHOOKS = [seal_parcel]\n"},
    "line above the definition": {
        "a.vim": "let hook = 'seal_parcel'\nfunction! seal_parcel(n)\n  call seal_parcel(1)\nendfunction\n",
        "b.vim": "call seal_parcel(1)\n",
    },
}


@pytest.mark.parametrize("tree", BESIDE_CALLS)
def test_lines_beside_calls_in_the_text_are_counted(engine: Engine, tmp_path: Path, tree: str) -> None:
    said = said_of(engine, written(tmp_path, BESIDE_CALLS[tree]), "seal_parcel")
    assert "1 other line of code has the name" in said, said


NAMED_FILES = {
    "script of a page": ("src/pot.js", "let pot = 1;\n", {"page.html": '<script src="pot.js"></script>\n'}),
    "template in a template": (
        "templates/pot.html",
        "<b>pot</b>\n",
        {"templates/shelf.html": "{% include 'templates/pot.html' %}\n"},
    ),
    "migration of Django": (
        "shop/migrations/0014_pot.py",
        "class Migration:\n    pass\n",
        {"shop/migrations/0015_jar.py": 'DEPENDENCIES = [("shop", "0014_pot")]\n'},
    ),
}
"""A file with its text, and the only file that names it, in its first line."""


@pytest.mark.parametrize("tree", NAMED_FILES)
def test_what_names_a_file_is_counted_where_nothing_imports_it(
    engine: Engine, tmp_path: Path, tree: str
) -> None:
    path, text, others = NAMED_FILES[tree]
    repository = engine.repository(str(written(tmp_path, {path: text, "# pot.md": "pot.js\n", **others})))
    found = search([repository.searcher], f"Who imports {path}?").code_facts
    assert found is not None
    assert found.summary == said_of(engine, tmp_path, path)
    assert found.summary.endswith(" indexed files; 1 other line of code has the name")
    assert [item.path for item in found.items] == [path, *others]


def test_the_definitions_of_a_name_are_counted_alike(engine: Engine, tmp_path: Path) -> None:
    seal = "def seal_parcel(n):\n    return n\n"
    files = {"a.py": seal, "b.py": seal, "tests/test_a.py": seal, "c.py": "import a\n\na.seal_parcel(1)\n"}
    repository = engine.repository(str(written(tmp_path, files)))
    found = search([repository.searcher], "Who calls seal_parcel?").code_facts
    assert found is not None
    assert found.summary == said_of(engine, tmp_path, "seal_parcel")
    assert found.summary.endswith("; 3 definitions have this name")


def test_what_only_the_nearest_places_lack_is_not_said_to_be_missing() -> None:
    said = warning(Confidence(0.1, found=True, unmet=("seal_parcel",)), [])
    nearest = "`seal_parcel` is not in the nearest places."
    assert said == f"No place that fits well was found in this repository. {nearest}"


def test_what_a_file_that_could_not_be_parsed_has_is_counted(tmp_path: Path) -> None:
    home, root, unparsed = tmp_path / "home", tmp_path / "r", "import a\n\na.seal_parcel(1)\n"
    written(root, {"a.py": "def seal_parcel(n):\n    return n\n\n\nseal_parcel(1)\n", "b.py": unparsed})
    Quarantine(home / "stores").add({(blob_id(unparsed.encode()), "python"): "took too long"})
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        said = said_of(engine, root, "seal_parcel")
    assert said == "`seal_parcel` is called in 1 place; 1 other line of code has the name"


def test_what_ruby_loads_when_it_is_used_is_imported(engine: Engine, tmp_path: Path) -> None:
    files = {
        "lib/shop.rb": 'module Shop\n  autoload :Pot, "shop/pot"\nend\n',
        "lib/shop/pot.rb": "class Pot\nend\n",
    }
    said = said_of(engine, written(tmp_path, files), "lib/shop/pot.rb")
    assert said == "`lib/shop/pot.rb` is possibly imported in 1 place"
