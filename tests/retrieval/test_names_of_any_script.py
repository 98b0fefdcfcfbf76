"""A name outside ASCII is defined, called, sought and suggested like one in ASCII, however it is composed."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from rag.answer.not_found import warning
from rag.retrieval.answerability import judge
from rag.retrieval.exact import find_text
from rag.retrieval.lookup import definitions
from rag.retrieval.search import search
from rag.retrieval.uses import uses_of_name

DECOMPOSED = "nfd.py"
FILES = {
    "nav.py": '''class 寻路服务:
    """Finds a path for the agent."""

    def 计算路径(self, start, goal):
        return [start, goal]


def größe_berechnen(werte):
    """Compute the size."""
    return len(werte)


def نام_کاربر(wert):
    return wert


MAX_GRÖSSE = 64


def check_token(token):
    """Check a token."""
    return bool(token)
''',
    "use.py": """from nav import check_token, größe_berechnen, نام_کاربر, 寻路服务


def bericht(werte):
    s = 寻路服务()
    return größe_berechnen(werte), s.计算路径(1, 2), نام_کاربر(check_token(3))
""",
    DECOMPOSED: normalize(
        "NFD",
        "def fläche_messen(wert):\n    return wert\n\n\ndef starte_käfer():\n    return fläche_messen(1)\n",
    ),
    "srv.go": "package x\n\nfunc ПроверитьТокен(t string) bool { return t != \"\" }\n\n"
    "func Обработать(t string) bool { return ПроверитьТокен(t) }\n",
    "Konto.java": "class Konto {\n  boolean prüfeLimit(int b) { return b < 3; }\n"
    "  void run() { prüfeLimit(2); }\n}\n",
    "g.kt": "class Größe(val höhe: Int) {\n    fun berechneHöhe(): Int = höhe\n}\n\n"
    "fun main() {\n    val g = Größe(3)\n    println(g.berechneHöhe())\n}\n",
    "s.swift": "struct Maß {\n    func zeigeHöhe() -> Int { return 1 }\n}\n\n"
    "func run() {\n    let g = Maß()\n    print(g.zeigeHöhe())\n}\n",
    "c.cs": "namespace X {\n  public class Gerät {\n    public int ZeigeGröße() { return 1; }\n"
    "    public int Run() { return ZeigeGröße(); }\n  }\n}\n",
    "p.php": "<?php\nfunction berechneFläche($x) { return $x; }\n"
    "function haupt() { return berechneFläche(2); }\n",
    "r.rs": "pub fn größe_rust(x: i32) -> i32 { x }\n\nfn haupt() -> i32 { größe_rust(3) }\n",
    "j.js": "export function $länge(x) { return x }\nexport const übersetze = (x) => $länge(x)\n"
    "function haupt() { return übersetze(1) }\n",
    "t.ts": "export function čtiSoubor(x: string): string { return x }\n"
    'export function haupt(): string { return čtiSoubor("a") }\n',
    "q.rb": "def gültig?(x)\n  x\nend\n\ndef lauf\n  gültig?(1)\nend\n",
}  # fmt: skip
CALLED = {
    "größe_berechnen": ("nav.py", "use.py:6"),
    "寻路服务": ("nav.py", "use.py:5"),
    "计算路径": ("nav.py", "use.py:6"),
    "نام_کاربر": ("nav.py", "use.py:6"),
    "fläche_messen": (DECOMPOSED, f"{DECOMPOSED}:6"),
    "ПроверитьТокен": ("srv.go", "srv.go:5"),
    "prüfeLimit": ("Konto.java", "Konto.java:3"),
    "berechneHöhe": ("g.kt", "g.kt:7"),
    "zeigeHöhe": ("s.swift", "s.swift:7"),
    "ZeigeGröße": ("c.cs", "c.cs:4"),
    "berechneFläche": ("p.php", "p.php:3"),
    "größe_rust": ("r.rs", "r.rs:3"),
    "$länge": ("j.js", "j.js:2"),
    "übersetze": ("j.js", "j.js:3"),
    "čtiSoubor": ("t.ts", "t.ts:2"),
    "gültig?": ("q.rb", "q.rb:6"),
}
FORMS = ("NFC", "NFD")


@pytest.fixture(scope="module")
def store(searcher_of):
    return searcher_of(FILES)


def answered(store, question):
    found = search([store], question)
    return found, warning(judge([store], found), found.hits)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLED)
def test_a_name_is_defined_where_it_is(store, name, form):
    path, _ = CALLED[name]
    found, warned = answered(store, normalize(form, f"Where is {name} defined?"))

    assert found.hits[0].path == path
    assert not warned
    assert definitions(store.index, normalize(form, name))[0].path == path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLED)
def test_its_callers_are_found(store, name, form):
    _, place = CALLED[name]
    facts = search([store], normalize(form, f"Who calls `{name}`?")).code_facts
    by_name = {f"{use.path}:{use.line}" for use in uses_of_name(store.index, normalize(form, name)).found}

    assert [f"{one.path}:{one.start}" for one in facts.items] == [place]
    assert place in by_name


def test_the_value_of_a_constant_is_found(store):
    found, warned = answered(store, "What is the value of MAX_GRÖSSE?")

    assert found.hits[0].path == "nav.py" and not warned


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_is_missing_is_named_with_the_nearest(store, form):
    _, warned = answered(store, normalize(form, "Where is größe_berechnet defined?"))

    assert "No `größe_berechnet` was found" in warned
    assert "`größe_berechnen`" in warned


@pytest.mark.parametrize(
    "question",
    [
        "check_token在哪里被调用？",
        "check_token 在哪里被调用？",
        "`check_token`在哪里？",
        "寻路服务在哪里定义？",
    ],
)
def test_a_question_in_chinese_with_a_name_that_is_defined_has_an_answer(store, question):
    found, warned = answered(store, question)

    assert not warned
    assert found.hits[0].path in ("nav.py", "use.py")


def test_one_about_nothing_here_is_still_doubted(store):
    assert not judge([store], search([store], "怎样烤一个好吃的蛋糕？")).is_sure


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "options", "places"),
    [
        ("fläche_messen", {}, {f"{DECOMPOSED}:1", f"{DECOMPOSED}:6"}),
        ("größe_berechnen(", {}, {"nav.py:8", "use.py:6"}),
        ("FLÄCHE_MESSEN", {"ignore_case": True}, {f"{DECOMPOSED}:1", f"{DECOMPOSED}:6"}),
        (r"def \w+ä\w+_messen|käf[eo]r", {"regex": True}, {f"{DECOMPOSED}:1", f"{DECOMPOSED}:5"}),
        (r"def fläche_\w+", {"regex": True}, {f"{DECOMPOSED}:1"}),
    ],
)
def test_an_exact_search_finds_both_forms(store, form, text, options, places):
    hits = find_text([store.index], normalize(form, text), **options).hits

    assert {f"{hit.path}:{hit.start}" for hit in hits} == places


def test_what_is_quoted_has_the_form_of_the_file(store):
    (first, *_) = find_text([store.index], "fläche_messen").hits

    assert first.text == FILES[DECOMPOSED].splitlines()[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("on_disk", FORMS)
def test_a_file_is_found_by_its_name_in_either_form(searcher_of, form, on_disk):
    true = normalize(on_disk, "Café.py")
    files = {true: "def miete(betrag):\n    return betrag\n", "other.py": "def preis():\n    return 1\n"}
    store = searcher_of(files)

    assert search([store], normalize(form, "What does Café.py do?")).hits[0].path == true


def test_an_import_finds_its_file_in_either_form(searcher_of):
    store = searcher_of(
        {
            normalize("NFD", "größe.py"): "def messen():\n    return 1\n",
            "a.py": normalize("NFC", "from größe import messen\n\n\ndef los():\n    return messen()\n"),
        }
    )

    (use,) = search([store], "Who calls messen()?").code_facts.items
    assert (use.path, use.start, use.certain) == ("a.py", 5, True)
