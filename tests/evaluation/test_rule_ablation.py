import inspect
from pathlib import Path

from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.trees import Tree
from tools.benchmarks.rule_ablation import measured, table
from tools.benchmarks.rules import RULES, Rule, noticed, without


def _question(text: str, *, name: str, after: tuple[str, ...] = ()) -> Question:
    span = LineSpan("jar.py", 1, 2)
    files = frozenset({"jar.py"})
    return Question(name, "jars", "python", "callers", text, files, (span,), after, conversation="one")


def test_each_rule_is_where_the_ablation_switches_it_off() -> None:
    for rule in RULES:
        for table_of_names, key in rule.found():
            assert callable(table_of_names[key]), (rule.name, key)
            assert len(inspect.signature(table_of_names[key]).parameters) >= 1
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_rule_is_back_after_the_ablation_and_only_its_effects_are_noticed() -> None:
    rule = Rule("words", ("retrieval.instructions.is_stop_word",), lambda word: word == "the")
    ((names, key),) = rule.found()
    shipped = names[key]
    with noticed([rule]) as used:
        assert names[key]("the")
        assert not used
        assert names[key]("of")
        assert used == {"words"}
    with without(rule):
        assert not names[key]("of")
    assert names[key] is shipped


def test_what_changes_without_a_rule_is_judged_in_its_conversation(tmp_path: Path) -> None:
    (tmp_path / "jar.py").write_text("def open_jar():\n    return 1\n")
    (tmp_path / "shelf.py").write_text("from jar import open_jar\n\ndef serve():\n    open_jar()\n")
    questions = (
        _question("Where is open_jar defined?", name="first"),
        _question("Who calls it?", name="second", after=("Where is open_jar defined?",)),
    )
    rules = [rule for rule in RULES if rule.name in ("kind: callers and other uses", "kind: lines of a file")]
    found = measured(Tree("jars", tmp_path, questions), rules)
    assert found.used == {"kind: callers and other uses": 2, "kind: lines of a file": 0}
    assert [one.question for one in found.changed] == ["second"]
    columns, rows = table(found)
    assert {len(row) for row in rows} == {len(columns)}
    assert next(row for row in rows if row[0] == "kind: lines of a file")[2:] == ["0"] * (len(columns) - 2)
