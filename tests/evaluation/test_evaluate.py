"""`rag eval` from the questions to the report, on the sample repository, with a real child process."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Ran, rag

from rag.errors import ProviderBroke, SettingsError, SourceError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import read_questions
from rag.evaluation.runner import Outcome, Scores, Start, is_documentation, judge, run
from rag.evaluation.summary import summarise
from rag.evaluation.systems import OURS, Running, System, read_systems
from rag.evaluation.trees import Tree, empty_lines, indexed_folder, plan

FAKE = Path(__file__).with_name("fake_peer.py")
SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"

SESSIONS = {"path": "snip/sessions.py", "start": 22, "end": 40, "symbol": "SessionSigner"}
LIMITS = {"path": "snip/ratelimit.py", "start": 1, "end": 10}
RECORDS: list[dict[str, Any]] = [
    {"id": "q1", "kind": "newcomer", "question": "SessionSigner cookie", "answers": [SESSIONS]},
    {"question": "ratelimit bucket", "answers": [{"path": "snip/ratelimit.py"}]},
    {
        "id": "c1",
        "turns": [
            {"question": "SessionSigner", "answers": [SESSIONS]},
            {"question": "RateLimiter", "answers": [LIMITS]},
        ],
    },
    {"id": "u1", "question": "Where is nothing?"},
]


def fake(mode: str = "") -> System:
    command = (sys.executable, str(FAKE), "{path}", *([mode] if mode else []))
    return System(mode or "fake", command)


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def questions_file(tmp_path: Path) -> Path:
    return write(tmp_path / "questions.jsonl", RECORDS)


# ---------------------------------------------------------------- questions


def test_only_a_newline_ends_a_record(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "one\u2028two\x85?", "answers": [{"path": "a.py"}]}\n', encoding="utf-8")
    assert [question.text for question in read_questions([file])] == ["one\u2028two\x85?"]


def test_records_become_questions_with_kinds_languages_and_history(questions_file: Path) -> None:
    q1, q2, first, second = read_questions([questions_file])
    assert (q1.kind, q1.language, q1.spans) == ("newcomer", "py", (LineSpan("snip/sessions.py", 22, 40),))
    assert (q2.id, q2.kind, q2.spans) == ("questions.jsonl:2", "question", ())
    assert (first.kind, first.history) == ("first", ())
    assert (second.kind, second.history, second.conversation) == ("follow-up", ("SessionSigner",), "c1")
    assert [q.id for q in read_questions([questions_file], {"follow-up"})] == ["c1#2"]


@pytest.mark.parametrize(
    "record",
    [
        {"question": "no path?", "answers": [{"start": 1}]},
        {"answers": [LIMITS]},
        {"question": "backwards?", "answers": [{"path": "a", "start": 9, "end": 3}]},
        {"turns": [{"question": "nothing?", "answers": []}]},
        {"question": "no list?", "answers": 7},
    ],
)
def test_a_record_that_is_no_question_is_named(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="record 2"):
        read_questions([write(tmp_path / "bad.jsonl", [RECORDS[0], record])])


def test_an_id_used_twice_and_a_kind_that_nobody_has_are_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "twice.jsonl", [RECORDS[0], RECORDS[0]])
    with pytest.raises(SettingsError, match="q1"):
        read_questions([path])
    with pytest.raises(SettingsError, match="newcomer"):
        read_questions([write(path, [RECORDS[0]])], {"docstring"})


# ---------------------------------------------------------------- trees


def test_docs_are_emptied_in_a_copy_and_every_line_keeps_its_number(tmp_path: Path) -> None:
    root = tmp_path / "toy"
    root.mkdir()
    code = b'def f():\r\n    """Why."""\r\n    return 1\r\n'
    (root / "a.py").write_bytes(code)
    record = {
        "id": "m1",
        "kind": "docstring",
        "strip": True,
        "doc": {"path": "a.py", "start": 2, "end": 2},
        "question": "Why.",
        "answers": [{"path": "a.py", "start": 1, "end": 3}],
    }
    plain = {**record, "id": "p1", "kind": "first", "strip": False}
    questions = read_questions([write(tmp_path / "q.jsonl", [record, plain])])
    stripped, whole = plan(questions, {"": root})
    with indexed_folder(stripped) as copy:
        assert (copy / "a.py").read_bytes() == b"def f():\r\n\r\n    return 1\r\n"
        assert copy.name == root.name
    assert not copy.exists()
    assert (root / "a.py").read_bytes() == code
    with indexed_folder(whole) as same:
        assert same == root
    with pytest.raises(SourceError, match="line 9"):
        empty_lines(root, [LineSpan("a.py", 9, 9)])


def test_a_question_about_an_unknown_repository_is_an_error(questions_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no named repository"):
        plan(read_questions([questions_file]), {"other": tmp_path})


# ---------------------------------------------------------------- systems


def test_systems_are_named_by_hand_or_by_their_script_and_never_alike() -> None:
    systems = read_systems(["python x/peer.py {path}", "peer=run '{path}' 'a b'", "grep {path}"])
    assert [system.name for system in systems] == ["rag", "peer", "peer-2", "grep"]
    assert systems[0] == OURS
    assert systems[2].on(Path("/r")) == ["run", "/r", "a b"]
    for wrong in ("python peer.py", "python '{path}"):
        with pytest.raises(SettingsError):
            read_systems([wrong])


def test_only_a_system_that_takes_history_is_given_it() -> None:
    asked = ("q", "zzz", ["ratelimiter"], 50)
    with Running(fake(), SAMPLE) as alone, Running(fake("history"), SAMPLE) as remembering:
        assert not alone.history
        assert alone.ask(*asked).results == ()
        assert "snip/ratelimit.py" in {span.path for span in remembering.ask(*asked).results}


def test_absolute_paths_become_relative_to_the_folder() -> None:
    with Running(fake(), SAMPLE) as relative, Running(fake("absolute"), SAMPLE) as absolute:
        assert relative.ask(1, "cookie", [], 5).results == absolute.ask(1, "cookie", [], 5).results


@pytest.mark.parametrize(("mode", "says"), [("dies", "exit code 7"), ("silent", "too tired")])
def test_a_system_that_fails_ends_the_run_with_its_own_words(
    questions_file: Path, mode: str, says: str
) -> None:
    trees = plan(read_questions([questions_file]), {"": SAMPLE})
    with pytest.raises(ProviderBroke, match=says) as caught:
        run([fake(mode)], trees)
    assert ("no model found" in str(caught.value)) == (mode == "dies")


def test_a_program_that_is_not_there_can_be_mended() -> None:
    with pytest.raises(SettingsError, match="cannot start"):
        Running(System("gone", ("/no/such/program", "{path}")), SAMPLE)


# ---------------------------------------------------------------- scores


def test_documentation_is_passed_over_unless_it_answers(questions_file: Path, tmp_path: Path) -> None:
    code = read_questions([questions_file])[0]
    results = [
        LineSpan("README.md", 1, 300),
        LineSpan("docs/api.rst", 1, 9),
        LineSpan("snip/sessions.py", 22, 40),
    ]
    scores = judge(code, results, 0.1)
    assert (scores.ndcg, scores.mrr, scores.recall, scores.lines) == (1, 1, 1, 1)
    asked = {"question": "How to start?", "answers": [{"path": "docs/api.rst"}]}
    (prose,) = read_questions([write(tmp_path / "prose.jsonl", [asked])])
    assert judge(prose, results, 0.1).mrr == pytest.approx(1 / 2)
    assert judge(prose, results, 0.1).lines is None


def test_what_is_prose_is_told_from_the_name() -> None:
    assert all(map(is_documentation, ["README", "a/b.MD", "docs/x.adoc", "LICENSE", "notes.txt"]))
    assert not any(map(is_documentation, ["CMakeLists.txt", "requirements-dev.txt", "a.py", "docs/conf.py"]))


def outcome(name: str, values: dict[str, float]) -> Outcome:
    scores = {key: Scores(value, value, value, value, 0.001 * value) for key, value in values.items()}
    return Outcome(System(name, ("x", "{path}")), False, (Start("t", 1.0, 5),), scores)


def test_differences_are_the_first_systems_less_the_others_and_repeat(questions_file: Path) -> None:
    questions = read_questions([questions_file])
    better = outcome("better", {q.id: 0.8 for q in questions})
    worse = outcome("worse", {q.id: 0.3 for q in questions})
    summary = summarise(questions, [better, worse, better], k=50)
    everything = summary.groups[0]
    assert everything.rows[0].differences == {}
    ahead = everything.rows[1].differences["ndcg"]
    assert [ahead.mean, ahead.low, ahead.high] == pytest.approx([0.5, 0.5, 0.5], abs=1e-6)
    assert everything.rows[1].means["lines_half"] == 0
    assert [(g.by, g.name) for g in summary.groups[1:]] == [
        ("kind", "first"),
        ("kind", "follow-up"),
        ("kind", "newcomer"),
        ("kind", "question"),
        ("language", "py"),
    ]
    assert summarise(questions, [better, worse, better], k=50) == summary


def test_the_interval_is_the_bootstraps(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    n = 400
    records = [{"id": f"q{i}", "question": "a b", "answers": [{"path": "a.py"}]} for i in range(n)]
    questions = read_questions([write(tmp_path / "many.jsonl", records)])
    ahead = random.normal(0.1, 0.5, n)
    first = outcome("first", {f"q{i}": float(value) for i, value in enumerate(ahead)})
    zero = outcome("zero", {f"q{i}": 0.0 for i in range(n)})
    found = summarise(questions, [first, zero], k=10).groups[0].rows[1].differences["ndcg"]
    half = 1.96 * ahead.std() / np.sqrt(n)
    assert found.mean == pytest.approx(ahead.mean())
    assert [found.low, found.high] == pytest.approx([ahead.mean() - half, ahead.mean() + half], abs=0.006)


def test_turns_of_one_conversation_are_drawn_together(tmp_path: Path) -> None:
    answers = [{"path": "a.py"}]
    turns = [{"question": f"a {n}", "answers": answers} for n in range(4)]
    records = [{"id": f"c{i}", "turns": turns} for i in range(30)]
    singles = [{"id": f"s{i}", "question": "a b", "answers": answers} for i in range(120)]
    widths = []
    for name, chosen in (("c", records), ("s", singles)):
        questions = read_questions([write(tmp_path / f"{name}.jsonl", chosen)])
        values = {q.id: float(position // 4 % 2) for position, q in enumerate(questions)}
        pair = [outcome("first", values), outcome("zero", dict.fromkeys(values, 0.0))]
        found = summarise(questions, pair, k=10).groups[0].rows[1].differences["ndcg"]
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.15)


# ---------------------------------------------------------------- reports and the command


def _invoke(*arguments: str) -> Ran:
    return rag("eval", *arguments)


def _system(mode: str = "") -> str:
    return f"fake{mode}=" + shlex.join([sys.executable, str(FAKE), "{path}", *([mode] if mode else [])])


def test_the_command_measures_systems_side_by_side(questions_file: Path, tmp_path: Path) -> None:
    common = [str(SAMPLE), "--questions", str(questions_file), "--without-rag", "--system", _system()]
    done = _invoke(*common, "--system", _system("history"), "--json")
    assert done.code == 0, done.err
    value = json.loads(done.out)
    assert [cost["system"] for cost in value["costs"]] == ["fake", "fakehistory"]
    assert [cost["history"] for cost in value["costs"]] == [False, True]
    assert len(value["questions"]) == 4
    assert all(0 <= s["ndcg"] <= 1 for q in value["questions"] for s in q["scores"].values())
    assert value["starts"]["fake"][0]["ready_s"] > 0
    table = _invoke(*common, "--kinds", "newcomer,follow-up")
    assert table.code == 0
    assert "newcomer" in table.out
    assert "first\t" not in table.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([str(SAMPLE)], "--questions"),
        (["--questions", "{file}"], "rag eval DIR"),
        ([str(SAMPLE / "nowhere"), "--questions", "{file}"], "no folder"),
        ([str(SAMPLE), "--questions", "{file}", "--without-rag"], "--system"),
        ([str(SAMPLE), "--questions", "{file}", "--system", "cat"], "{path}"),
        ([str(SAMPLE), "--questions", "{file}", "--kinds", "odd"], "--kinds"),
    ],
)
def test_what_the_user_can_mend_ends_with_2(questions_file: Path, arguments: list[str], says: str) -> None:
    done = _invoke(*(argument.replace("{file}", str(questions_file)) for argument in arguments))
    assert done.code == 2
    assert says in done.err


def test_a_system_that_fails_ends_with_3(questions_file: Path) -> None:
    common = [str(SAMPLE), "--questions", str(questions_file), "--without-rag"]
    assert _invoke(*common, "--system", _system("dies")).code == 3


def test_each_run_indexes_from_nothing_with_the_users_settings(
    questions_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "my-home"
    (home / "stores").mkdir(parents=True)
    (home / "config.toml").write_text('embedder = "static"\n')
    monkeypatch.setenv("RAG_HOME", str(home))
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import os, pathlib, runpy\n"
        "home = pathlib.Path(os.environ['RAG_HOME'])\n"
        f"assert home != pathlib.Path({str(home)!r})\n"
        "assert [path.name for path in home.iterdir()] == ['config.toml']\n"
        f"runpy.run_path({str(FAKE)!r})\n"
    )
    trees = plan(read_questions([questions_file]), {"": SAMPLE})
    (done,) = run([System("spy", (sys.executable, str(spy), "{path}"))], trees)
    assert len(done.scores) == 4


def test_a_tree_is_called_by_its_repository() -> None:
    assert Tree("r", SAMPLE, (), (LineSpan("a", 1, 1),)).label == "r, docs emptied"


LINES = '{"question": "x", "answers": [{"path": "a.py", "start_line": 1, "end_line": %s}]}'
HOSTILE_QUESTIONS = {
    "deep": ("[" * 200_000, "nested too deeply"),
    "long number": (LINES % ("9" * 5_000), "JSON"),
    "many lines": (LINES % "1e99", "is not a question"),
    "infinite": (LINES % "1e999", "OverflowError"),
    "large": ("x" * 2_000_000, "it has more than 1 MB"),
    "bytes": ("\udcff", "line 1 is not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE_QUESTIONS)
def test_a_hostile_file_of_questions_is_an_error(name, tmp_path, monkeypatch):
    monkeypatch.setattr("rag.evaluation.questions._MAX_BYTES", 1 << 20)
    text, why = HOSTILE_QUESTIONS[name]
    file = tmp_path / "questions.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError, match=why):
        read_questions([file])
    with pytest.raises(SettingsError, match="it has more than 1 MB"):
        read_questions([Path("/dev/zero")])
