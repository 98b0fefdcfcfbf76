"""Where a name is defined, and who calls it: a line that defines it calls nothing."""

from __future__ import annotations

import pytest

from rag.retrieval.lookup import definitions, lines_with
from rag.retrieval.uses import uses_of_name
from rag.service import Engine
from rag.settings import Settings

FILES = {
    "app.py": (
        "class App:\n"
        "    def dispatch_request(self):\n"
        "        return 1\n\n"
        "    async def dispatch_request(self, again):\n"
        "        return 2\n\n\n"
        "class View(App):\n"
        "    def dispatch_request(self, **values):\n"
        "        return self.prepare(values)\n"
    ),
    "caller.py": "from app import App\n\n\ndef run(app):\n    return app.dispatch_request()\n",
    "server.go": (
        "package s\n\nfunc (s *Server) DispatchIt(w Writer) {\n\tw.Flush()\n}\n\n"
        "func main() {\n\ts.DispatchIt(w)\n}\n"
    ),
    "a.h": "int count_words(const char *text);\n",
    "a.c": (
        '#include "a.h"\n\nstatic int\ncount_words(const char *text) {\n    return 0;\n}\n\n'
        'int main(void) {\n    int n = count_words("a");\n    return count_words("b");\n}\n'
    ),
    "view.js": (
        "class View {\n  renderAll(items) {\n    return items;\n  }\n}\n"
        "function renderAll(x) {\n  return x;\n}\n\n"
        "function start() {\n  renderAll([]);\n  if (renderAll(1)) {\n  }\n}\n"
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lookup") / "repo"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    return Engine(Settings(home=root.parent / "home")).repository(str(root)).store


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("dispatch_request", [("caller.py", 5)]),
        ("DispatchIt", [("server.go", 8)]),
        ("count_words", [("a.c", 9), ("a.c", 10)]),
        ("renderAll", [("view.js", 11), ("view.js", 12)]),
    ],
)
def test_a_line_that_defines_a_name_does_not_call_it(store, name, called):
    found = sorted(
        {(use.hit.path, line) for use in lines_with(store, name) if use.calls for line in use.lines}
    )
    assert found == called


def test_what_is_only_defined_is_not_called(store):
    assert definitions(store, "main")
    assert not [use for use in lines_with(store, "main") if use.calls]


def test_a_name_that_occurs_nowhere_is_found_nowhere(store):
    assert definitions(store, "dispatch_requests") == []
    assert lines_with(store, "dispatch_requests") == []


def test_callers_are_what_is_resolved_and_what_may_be(store):
    found = uses_of_name(store, "dispatch_request")
    assert (found.are_calls, found.definitions, found.certain) == (True, 3, 0)
    assert [(use.path, use.line, use.certain) for use in found.found] == [("caller.py", 5, False)]
    counted = uses_of_name(store, "count_words")
    assert [(use.path, use.within, use.line, use.certain) for use in counted.found] == [
        ("a.c", "main", 9, True),
        ("a.c", "main", 10, True),
    ]


@pytest.mark.parametrize("name", ["#send", "Client.#send", "Client#send", "send", "Client.send"])
def test_the_mark_of_a_private_member_belongs_to_its_name_if_it_is_defined_with_it(searcher_of, name):
    code = "class Client {\n  #send() {}\n  go() { this.#send(); }\n}\nexport function send() {}\n"
    index = searcher_of({"client.js": code, "more.js": "class Client {\n  send() {}\n}\n"}).index
    found = [(hit.path, hit.start) for hit in definitions(index, name)]
    marked, plain = ("client.js", 2), {("client.js", 5), ("more.js", 2)}
    assert marked in found if name in ("#send", "Client.#send") else plain & {*found}, found
    assert (marked in found) != bool(plain & {*found}) or name == "Client.send"
