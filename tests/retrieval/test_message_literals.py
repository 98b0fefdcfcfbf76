"""The literals that are not split are those that no message can be written by; of equal ones one is meant."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.kinds import messages
from rag.retrieval.kinds.asked import FileText
from rag.retrieval.search import search
from rag.service import Engine
from rag.settings import Settings

PIECES = [
    "open",
    "Open",
    "file",
    "the",
    "%s",
    "%d",
    "{name}",
    "$x",
    "\\n",
    " ",
    "_",
    ".",
    "$",
    "é",
    "50%",
    "#{a}",
]
LITERALS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
LINES = st.lists(
    st.lists(LITERALS, min_size=1, max_size=2).map(
        lambda many: "log(" + ", ".join(f'"{one}"' for one in many)
    )
    | LITERALS.map(lambda one: f'  "{one}"'),
    max_size=6,
)


@given(LINES, st.lists(st.sampled_from(["open", "file", "the", "name", "x", "50", "_", "a"]), max_size=8))
def test_every_literal_that_fits_a_message_is_split(lines, message):
    file = FileText(None, "a.c", lines, range(0))
    words = frozenset(w for line in lines for w in messages._lower(line))
    every = list(messages._literals(file, words))
    some = list(messages._literals(file, frozenset(message)))
    assert all(one in every for one in some)
    for number, parts in every:
        if messages._fit(parts, message) or (parts and [w for part in parts for w in part] == message):
            assert (number, parts) in some


def test_a_literal_that_begins_with_another_word_is_not_split():
    file = FileText(None, "a.c", ['log("closing the file now")', 'log("opening the file now")'], range(0))
    assert [number for number, _ in messages._literals(file, frozenset(["opening", "the"]))] == [2]


def test_of_equal_literals_each_is_shown(tmp_path):
    for name in ("glaze", "kiln", "pot"):
        (tmp_path / f"{name}_main.c").write_text(
            f'int main() {{\n  log_fatal("{name}",\n            "need a seed to divide a firing");\n}}\n'
        )
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], "[FATAL] kiln: need a seed to divide a firing").code_facts
    assert found.kind == "message"
    assert sorted(item.path for item in found.items) == ["glaze_main.c", "kiln_main.c", "pot_main.c"]


def test_a_message_that_is_written_in_several_places_is_shown_in_all(tmp_path):
    door = """def {name}(door, skip="no"):
    if getattr(door, "locked", False):
        return
    try:
        door.{name}()
    except OSError as error:
        log.error("Failed to move the door %s "
            "of the kiln: %s", door, error)
"""
    (tmp_path / "doors.py").write_text("\n\n".join(door.format(name=name) for name in ("lift", "lower")))
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        repository = engine.repository(str(tmp_path))
        facts = search([repository.searcher], "Failed to move the door 7 of the kiln: it is hot").code_facts
    assert facts.summary == "The message is written in 2 places"
    assert [item.span.start for item in facts.items] == [7, 17]


def test_a_literal_goes_on_only_in_the_next_line():
    lines = ['a(b, "one")', "c()", '  "open the file "', '  "of the name")']
    found = list(messages._literals(FileText(None, "a.c", lines, range(0)), frozenset(("one", "open", "of"))))
    assert (3, [["open", "the", "file"], ["of", "the", "name"]]) in found


WRITTEN = {
    "context.rs": 'fn next() -> Result<Pot> {\n    pots.next().context("no pot found")?\n}\n',
    "lazy.rs": 'fn next() {\n    pots.next().with_context(|| format!("no pot found: {x}"))?\n}\n',
    "bail.rs": 'fn next() {\n    bail!("no pot found");\n}\n',
    "errors.go": 'func next() error {\n\treturn errors.New("no pot found")\n}\n',
    "errorf.go": 'func next() error {\n\treturn fmt.Errorf("kiln: no pot found: %w", err)\n}\n',
    "wrap.go": 'func next() error {\n\treturn errors.Wrap(err, "no pot found")\n}\n',
    "raw.go": "func next() error {\n\treturn fmt.Errorf(`no pot found: %w`, err)\n}\n",
    "throw.ts": "export function next() {\n  throw new Error('no pot found');\n}\n",
    "raise.py": 'def next():\n    raise LookupError("no pot found")\n',
    "asserts.py": 'def next(pot):\n    assert pot, "no pot found"\n',
    "log.py": 'def next():\n    log.warning("no pot found")\n',
    "lines.py": 'TEXT = """\\\nno pot found\n"""\n',
    "raise.rb": 'def next\n  raise "no pot found"\nend\n',
}


@pytest.mark.parametrize("path", WRITTEN)
def test_every_literal_that_holds_a_quoted_message_writes_it_and_code_is_before_tests(tmp_path, path):
    test = 'def test_next():\n    assert message() == "no pot found"\n'
    page = "# Errors\n\nIf you see `no pot found`, make one.\n"
    noise = "def found(pot):\n    # no pot found\n    return no(pot)\n"
    files = {"other.py": WRITTEN["raise.py"], "tests/test_a.py": test, "a.md": page, "a_noise.py": noise}
    for name, text in {path: WRITTEN[path], **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], "where does the error 'no pot found' come from").code_facts
        tested = search([searcher], "which tests check the error 'no pot found'?").code_facts
    assert found.summary == "The message is written in 2 places, and occurs in 2 lines of tests and documents"
    assert [item.path for item in found.items] == [*sorted((path, "other.py")), "tests/test_a.py", "a.md"]
    assert tested is None or tested.items[0].path == "tests/test_a.py"


def test_in_rust_a_module_of_tests_is_after_the_code(tmp_path):
    tests = '#[cfg(test)]\nmod tests {\n    #[test]\n    fn next() {\n        eq("no pot found");\n    }\n}\n'
    (tmp_path / "a.rs").write_text(f"{tests}\n")
    (tmp_path / "b.rs").write_text(WRITTEN["bail.rs"])
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], "where does 'no pot found' come from?").code_facts
    assert [(item.path, item.reason) for item in found.items] == [
        ("b.rs", "writes the message"),
        ("a.rs", "has it in a test"),
    ]
