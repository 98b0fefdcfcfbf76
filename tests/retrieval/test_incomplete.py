"""Facts that are cut at a limit say so: by a note that more may exist, or by a count above what is listed."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from rag.retrieval.kinds.asked import Asked
from rag.retrieval.search import search

CALLS = {
    "shop/kiln.py": "def heat_kiln(hours):\n    return hours\n",
    **{
        f"shop/{name}.py": (f"from shop.kiln import heat_kiln\n\n\ndef {name}():\n    return heat_kiln(3)\n")
        for name in ("bake", "glaze", "fire")
    },
    **{
        f"tests/test_{name}.py": f"def test_heat_kiln_{name}():\n    assert {name}()\n"
        for name in ("bake", "glaze")
    },
}
DOORS = {
    f"shop/{name}.py": (
        f"class {name.title()}:\n    def open_door(self):\n        return 1\n\n\n"
        f"def use_{name}():\n    {name.title()}().open_door()\n"
    )
    for name in ("bake", "glaze", "fire")
}
UNKNOWN = {
    "shop/door.py": "class Door:\n    def open_door(self):\n        return 1\n",
    "shop/use.py": "def use(one):\n    one.open_door()\n\n\ndef again(one):\n    one.open_door()\n",
}
TASKS = {
    "shop/kiln.py": "def heat_kiln(hours):\n    return hours\n",
    **{f"{name}/tasks.yaml": f"{name}:\n  run: heat_kiln\n" for name in ("bake", "glaze", "fire")},
}
LUA = {
    "lib/heat.lua": "function heat_kiln()\n  return 1\nend\n",
    **{f"bin/{name}.lua": 'require "lib.heat"\n\nheat_kiln()\n' for name in ("bake", "glaze", "fire")},
}
TYPES = {
    "Kiln.dart": "abstract class Kiln {\n  void heat();\n}\n",
    **{f"{name}.dart": f"class {name} extends Kiln {{\n}}\n" for name in ("Gas", "Wood", "Electric")},
}
PLUGINS = {
    f"shop/{name}.py": f'register_glaze("{name}", {name})\nregister_glaze("{name}2", {name})\n'
    for name in ("bake", "glaze", "fire", "door")
}
COLORS = {
    "shop/color.py": '"""What the shop mixes."""\n\n\nGLAZE_COLORS = {\n'
    + "".join(f'    "{name}": {n},\n' for n, name in enumerate(("red", "ochre", "umber", "cobalt", "jade")))
    + "}\n"
}
MESSAGE = {
    "shop/kiln.py": (
        'OPEN_DOOR = "the door of the kiln is open, close it before firing"\n\n\n'
        "def fire():\n    raise ValueError(OPEN_DOOR)\n\n\ndef glaze():\n    raise TypeError(OPEN_DOOR)\n"
    )
}
SETTING = {
    "shop/config.py": "# How many hours a kiln fires.\nFIRING_HOURS = 12\n",
    "shop/options.py": 'parser.add_argument("--firing-hours", default=12)\n',
}
NAMES = {f"{folder}/kiln.py": "A = 1\nB = 2\nC = 3\n" for folder in ("bake", "glaze", "fire")}


@pytest.mark.parametrize(
    ("limit", "question", "files"),
    [
        ("asked.MAX_FACTS", "Who calls heat_kiln?", CALLS),
        ("asked.Asked.file", "Who calls heat_kiln?", CALLS),
        ("uses.MAX_FILES", "Who calls heat_kiln?", CALLS),
        ("uses.MAX_POSSIBLE", "Who calls open_door?", UNKNOWN),
        ("callers._MAX_TARGETS", "Who calls open_door?", DOORS),
        ("callers._MAX_CANDIDATES", "Who calls open_door?", DOORS),
        ("lookup._MAX_CHUNKS_READ", "Who uses heat_kiln?", TASKS),
        ("asked.MAX_CHUNKS", "Who imports lib/heat.lua?", LUA),
        ("asked.MAX_CHUNKS", "Which classes extend Kiln?", TYPES),
        ("lists._OTHER_FILES", "List all registered glazes.", PLUGINS),
        ("list_fit._MAX_LINES_READ", "List all glaze colors.", COLORS),
        ("messages._MAX_USES", "the door of the kiln is open, close it before firing", MESSAGE),
        ("setting._MAX_PLACES", "What is the default of FIRING_HOURS?", SETTING),
        ("lines._MAX_LINES", "Show me lines 1 to 3 of bake/kiln.py", NAMES),
        ("lines._MAX_FILES", "Show me line 2 of kiln.py", NAMES),
    ],
)
def test_facts_that_are_cut_at_a_limit_say_so(searcher_of, monkeypatch, limit, question, files):
    searcher = searcher_of(files)
    whole = search([searcher], question).code_facts
    assert whole is not None and not says_more(whole), "it is whole without the limit"
    if limit == "asked.Asked.file":
        monkeypatch.setitem(Asked.file.__kwdefaults__, "most", 1)
    else:
        module, name = limit.split(".")
        least = {"_MAX_LINES_READ": 7}.get(name, 1)
        package = "rag.retrieval" if module in ("lookup", "uses") else "rag.retrieval.kinds"
        monkeypatch.setattr(import_module(f"{package}.{module}"), name, least)
    cut = search([searcher], question).code_facts
    assert cut is not None and cut.kind == whole.kind and says_more(cut), cut


def says_more(facts):
    return re.search(r"only (?:\d|lines near)", facts.note) is not None or facts.count > len(facts.items)
