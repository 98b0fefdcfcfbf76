"""Questions about a file, a type and a constant: who imports it, what extends it, what its value is."""

from __future__ import annotations

import pytest

from rag.retrieval.kinds.recognition import setting_asked
from rag.retrieval.search import search

FILES = {
    "shop/cart.py": "class Cart:\n    pass\n",
    "shop/retries.py": """DEFAULT_BACKOFF = 15


class Retries:
    def __init__(self, backoff=DEFAULT_BACKOFF):
        self.backoff = backoff or DEFAULT_BACKOFF
        self.default_backoff = DEFAULT_BACKOFF

    def after(self, backoff):
        # DEFAULT_BACKOFF = 1 was too short
        return backoff == DEFAULT_BACKOFF
""",
    "shop/orders.py": "from shop.cart import Cart\n\n\ndef order():\n    return Cart()\n",
    "shop/pay.py": "import shop.cart\n\n\ndef pay(cart):\n    return shop.cart.Cart()\n",
    "lib/Shop/Stream.pm": "package Shop::Stream;\nuse Shop::Base 'Shop::Emitter';\n\nsub write { 1 }\n1;\n",
    "lib/Shop/Emitter.pm": "package Shop::Emitter;\n\nsub emit { 1 }\n1;\n",
    "lib/Shop/Loop.pm": "package Shop::Loop;\nuse Shop::Stream;\n\nsub stream { Shop::Stream->new }\n1;\n",
    "ios/Router.swift": """public protocol Router {
    func route(for path: String) -> String
}

public struct FileRouter: Router {
    public func route(for path: String) -> String {
        return path
    }
}
""",
    "web/cache.ts": """export interface IColorCache {
  clear(): void;
}
""",
    "web/colors.ts": """import { IColorCache } from './cache';

export class ColorCache implements IColorCache {
  public clear(): void {}
}
""",
    "web/src/vs/base/dates.ts": "export function firstDayOf(week: number): number {\n  return week;\n}\n",
    "web/src/app/week.ts": """import { firstDayOf } from 'vs/base/dates';

export function week(): number {
  return firstDayOf(3);
}
""",
    "web/src/app/splices.ts": """// IMutableSplice is what the editor applies
interface IMutableSplice<T> {
  readonly deleted: T[];
}

export function sorted<T>(before: T[]): T[] {
  const result: IMutableSplice<T>[] = [];
  return result.flatMap((one) => one.deleted).concat(before);
}
""",
    "src/smc.h": "#ifndef SMC_H\n#define SMC_H\n#define KERNEL_INDEX_SMC 2\n#endif\n",
    "src/smc.c": '#include "smc.h"\n\nint index_of(void) {\n    return KERNEL_INDEX_SMC;\n}\n',
    "java/Hours.java": """/** Hours, with documentation that is long enough to be a part of its own. */
public final class Hours extends Fields {
    private static final int HOUR_INDEX = 4;

    /** Makes hours. */
    public Hours(int value) {
        super(value, HOUR_INDEX);
    }
}
""",
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


def facts(searcher, question):
    found = search([searcher], question).code_facts
    return None if found is None else {(item.path, item.start, item.certain) for item in found.items}


@pytest.mark.parametrize(
    "question",
    [
        "Who imports cart.py?",
        "Which files import shop/cart.py?",
        "Where is `shop/cart.py` imported?",
        "who imports the module shop.cart",
        "importers of cart.py",
        "Where is cart imported?",
    ],
)
def test_the_imports_of_a_file_are_found_by_its_path_or_module(searcher, question):
    assert facts(searcher, question) == {("shop/orders.py", 1, True), ("shop/pay.py", 1, True)}


def test_imports_that_are_not_followed_are_possible(searcher):
    assert facts(searcher, "Who imports Stream.pm?") == {("lib/Shop/Loop.pm", 2, False)}


def test_a_word_that_a_file_is_called_is_not_the_file(searcher):
    assert facts(searcher, "What are the orders that a cart goes through until import PATH ends?") is None


def test_a_file_that_nothing_imports_is_imported_in_0_places(searcher):
    found = search([searcher], "Who imports pay.py?").code_facts
    assert found is not None and "pay.py` is imported in 0 places in the " in found.summary
    assert (found.count, found.complete) == (0, False) and found.items[0].path.endswith("pay.py")


@pytest.mark.parametrize("form", ["Which classes extend {}?", "implementations of {}", "subclasses of {}"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Router", ("ios/Router.swift", 5)),
        ("IColorCache", ("web/colors.ts", 3)),
    ],
)
def test_what_extends_a_type(searcher, form, name, place):
    assert [found[:2] for found in facts(searcher, form.format(name)) or ()] == [place]


@pytest.mark.parametrize(
    "form", ["What is the value of {}?", "what is the default value of {}", "What is {} set to?"]
)
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("DEFAULT_BACKOFF", "DEFAULT_BACKOFF = 15"),
        ("KERNEL_INDEX_SMC", "#define KERNEL_INDEX_SMC 2"),
        ("HOUR_INDEX", "HOUR_INDEX = 4"),
    ],
)
def test_the_value_of_a_constant_is_where_it_is_declared(searcher, form, name, line):
    assert line in search([searcher], form.format(name)).hits[0].text


@pytest.mark.parametrize(
    "question", ["What is the value of time?", "What is the value of a cart with two items?", "Who is X_Y?"]
)
def test_a_question_that_asks_for_no_constant(question):
    assert setting_asked(question) == ""


@pytest.mark.parametrize(
    "form", ["Which file defines {}?", "In which file is {} defined?", "what file contains the function {}"]
)
def test_the_file_that_defines_a_name(searcher, form):
    assert search([searcher], form.format("order")).hits[0].path == "shop/orders.py"


def test_a_class_comes_before_its_constructor(searcher):
    assert "class Hours" in search([searcher], "Where is Hours defined?").hits[0].text


def test_an_import_from_a_root_that_no_file_names_is_followed(searcher):
    assert facts(searcher, "Who calls firstDayOf?") == {("web/src/app/week.ts", 4, True)}
    assert facts(searcher, "Who imports dates.ts?") == {("web/src/app/week.ts", 1, True)}


def test_a_rare_name_that_is_not_resolved_is_possibly_used_where_it_occurs(searcher):
    assert facts(searcher, "Where is `IMutableSplice` used?") == {("web/src/app/splices.ts", 7, False)}
