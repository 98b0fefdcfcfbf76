"""Text that eats the machine is read in a process that may be lost, and everything else is indexed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from command import command, rag

from rag.code.file_graph import FileGraph
from rag.code.parsing import SourceText, outlines, parsed_texts
from rag.database.quarantine import Quarantine
from rag.errors import RagError
from rag.isolated import CPU_S, MEMORY_BYTES
from rag.isolation import NOT_TRIED, Isolated, Lost, resident_bytes
from rag.service import Engine
from rag.service.tools.survey_of import survey
from rag.settings import Settings
from rag.types import PARSER_GAVE_UP, blob_id
from tools import house

PACKAGE = Path(__file__).resolve().parent.parent / "rag"
HOSTILE = {
    "a20.cs": "<a\n" * 6_660,
    "b40.cs": "<a\n" * 13_320,
    "c300.cs": "<a\n" * 100_000,
    "d.ts": "a<b,\n" * 8_000,
}
HONEST = {
    "shop.py": "def honest_python():\n    return 1\n",
    "Shop.cs": "class Shop { void HonestSharp() { } }\n",
}

BEHAVIOURS = """
import os, signal
from rag.isolated import GaveUp

def behave(text, size=0):
    if text == "grow":
        return len([bytes(1 << 20) for _ in range(4096)])
    if text == "spin":
        while True:
            pass
    if text == "pause":
        signal.pause()
    if text == "crash":
        os.kill(os.getpid(), 11)
    if text == "give up":
        raise GaveUp("no way")
    if text == "deep":
        return behave(text)
    if text == "fail":
        raise KeyError("ours")
    if text == "wrapped":
        try:
            raise MemoryError
        except MemoryError as error:
            raise SystemError("returned a result with an exception set") from error
    return text.upper()
"""


@pytest.fixture
def isolated(tmp_path, monkeypatch):
    (tmp_path / "behaviours.py").write_text(BEHAVIOURS)
    monkeypatch.syspath_prepend(tmp_path)
    made = Isolated()
    yield made
    made.close()


BEHAVE = "behaviours:behave"


def test_a_text_is_lost_and_those_around_it_are_not(isolated):
    texts = ["one", "crash", "two", "give up", "three", "spin", "four", "deep", "wrapped", "five"]
    if sys.platform == "linux":
        texts += ["grow", "six"]
    found = dict(zip(texts, isolated.calls(BEHAVE, [[text] for text in texts]), strict=True))
    assert {text: value for text, value in found.items() if not isinstance(value, Lost)} == {
        text: text.upper() for text in texts if text in {"one", "two", "three", "four", "five", "six"}
    }
    why = {text: value.why for text, value in found.items() if isinstance(value, Lost)}
    assert why.pop("grow", "out of memory") == why.pop("wrapped") == "out of memory"
    assert why == {
        "crash": "crashed or out of memory",
        "give up": "no way",
        "spin": "out of time",
        "deep": "nested too deeply",
    }


def test_one_process_is_used_again_and_replaced_when_it_was_killed(isolated):
    assert isolated.call(BEHAVE, "a") == "A"
    first = isolated._process.pid
    assert (isolated.call(BEHAVE, "b"), isolated._process.pid) == ("B", first)
    os.kill(first, signal.SIGKILL)
    assert isolated.call(BEHAVE, "c\udcff") == "C\udcff"
    assert isolated._process.pid != first


def test_what_many_texts_cost_is_bounded(isolated):
    found = isolated.calls(BEHAVE, [["crash"]] * 30 + [["one"]])
    assert {each.why for each in found[:30]} == {"crashed or out of memory", NOT_TRIED}
    assert found[30] == Lost(NOT_TRIED)
    assert isolated.calls(BEHAVE, [["one"]] * 9_000) == ["ONE"] * 9_000


def test_an_error_in_rag_costs_one_text_and_is_not_blamed_on_it(isolated):
    found = isolated.calls(BEHAVE, [["one"], ["fail"], ["two"]])
    assert found == ["ONE", Lost("error in rag: KeyError", found[1].traceback), "TWO"]
    assert found[1].traceback.endswith("KeyError: 'ours'\n")


def test_the_watch_kills_what_does_not_bound_itself(isolated, monkeypatch):
    isolated.call(BEHAVE, "a")
    assert resident_bytes(isolated._process.pid) > 1 << 20
    monkeypatch.setattr("rag.isolation._STUCK_AFTER_S", 0.0)
    assert isolated.call(BEHAVE, "spin") == Lost("out of time")
    monkeypatch.setattr("rag.isolation._STUCK_AFTER_S", 60.0)
    isolated.call(BEHAVE, "a")
    monkeypatch.setattr("rag.isolation._IDLE_BYTES", -(1 << 40))
    assert isolated.call(BEHAVE, "spin") == Lost("out of memory")


def test_closing_ends_a_request_of_another_thread(isolated):
    isolated.call(BEHAVE, "a")
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(isolated.calls, BEHAVE, [["pause"]] * 20)
        while not isolated._lock.locked():
            assert not asked.done()
        isolated.close()
        with pytest.raises(RagError, match="was ended"):
            asked.result()
    assert isolated.call(BEHAVE, "b") == "B"


ORPHAN = """
import os, signal
from rag.isolation import Isolated

isolated = Isolated()
isolated.call("builtins:len", "a")
copy = os.fork()  # it has the pipes of the child, which see no end when this process ends
if not copy:
    os.close(1)
    signal.pause()
print(isolated._process.pid, copy, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_child_ends_with_its_parent_even_if_a_copy_of_the_parent_has_its_pipes():
    done = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, timeout=60, check=True)
    child, copied = map(int, done.stdout.split())
    deadline = time.monotonic() + 40
    try:
        while is_running(child):
            assert time.monotonic() < deadline, "the child outlives its parent"
            threading.Event().wait(0.1)
    finally:
        for each in (child, copied):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_beyond_the_bounds_is_cut_by_lines(name):
    language = {"cs": "csharp", "ts": "typescript"}[name.rpartition(".")[2]]
    (found,) = outlines([SourceText(HOSTILE[name], language)], max_chars=1600)
    assert found.gave_up
    (again,) = outlines([SourceText(HOSTILE[name], language, found.gave_up)], max_chars=1600)
    assert again == found


def test_no_references_are_read_where_the_parser_gives_up():
    texts = [SourceText(text, "typescript") for text in (HOSTILE["d.ts"], "import a from 'b';\nrun(1);\n")]
    hostile, plain = parsed_texts(texts, max_chars=1600)
    assert hostile.graph == FileGraph()
    assert [use.name for use in plain.graph.references] == ["run"]


MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stdout, done.stderr, used.ru_maxrss, used.ru_utime + used.ru_stime]))
"""


def measured(*arguments: object) -> tuple[int, str, str, int, float]:
    """What a command ends with, the most memory that one of its processes had, in KiB, and its CPU time."""
    run = [sys.executable, "-c", MEASURE, *command(*arguments)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    return tuple(json.loads(done.stdout))  # type: ignore[return-value]


@pytest.mark.parametrize("size", ["small", "large"])
def test_everything_else_is_indexed_and_found_and_the_second_run_costs_nothing(size, tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    for name, text in (HOSTILE | HONEST).items():
        (root / name).write_text(text)
    if size == "large":  # for which worker processes are started
        for number in range(4):
            (root / f"words{number}.txt").write_text(f"The same words once more, {number}\n" * 28_600)
    code, told, complained, peak_kib, _ = measured("index", root, "--json")
    assert (code, "Traceback" in complained) == (0, False), complained
    report = json.loads(told)
    assert {skip["path"] for skip in report["skipped"]} == set(HOSTILE)
    assert {skip["reason"] for skip in report["skipped"]} == {PARSER_GAVE_UP}
    assert report["files"] == report["seen"]
    if sys.platform == "linux":
        assert peak_kib << 10 < 500 << 20
    for word, path in (("honest_python", "shop.py"), ("HonestSharp", "Shop.cs")):
        assert rag("search", root, word, "-k", "1", "--json").json["hits"][0]["path"] == path
    # In another process, and from nothing: the texts are known by their blobs.
    code, told, complained, _, cpu_s = measured("index", root, "--rebuild", "--json")
    assert code == 0, complained
    assert {skip["path"] for skip in json.loads(told)["skipped"]} == set(HOSTILE)
    tried = len(HOSTILE) * CPU_S
    assert size == "large" or cpu_s < tried + 2
    shown = rag("index", root).out
    assert f"cut by lines: {PARSER_GAVE_UP}" in shown


def test_a_wiki_reports_what_the_parser_gave_up_on(tmp_path):
    root, folder = tmp_path / "repository", tmp_path / "wiki"
    root.mkdir()
    for name, text in (HOSTILE | HONEST).items():
        (root / name).write_text(text)
    assert rag("index", root).code == 0
    assert rag("wiki", root, "-o", folder, "--json").json["not_parsed"] == sorted(HOSTILE)
    again = rag("wiki", root, "-o", folder)
    assert f"{PARSER_GAVE_UP} on 4 files, whose imports and calls are not in the wiki: a20.cs" in again.err
    assert "0 written" in again.out


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_wiki_parses_no_text_of_the_list(tmp_path, is_listed):
    root, home = tmp_path / "repository", tmp_path / "home"
    root.mkdir()
    (root / "shop.py").write_text(HONEST["shop.py"])
    text = "import shop\n\n\ndef run():\n    return shop.honest_python()\n"
    (root / "main.py").write_text(text)
    if is_listed:
        Quarantine(home / "stores").add({(blob_id(text.encode()), "python"): "took too long"})
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        surveyed = survey(engine.repository(str(root)))
    assert [link.target for link in surveyed.links] == ([] if is_listed else ["shop.py"])
    assert len(surveyed.calls) == (0 if is_listed else 1)
    assert [symbol.name for symbol in surveyed.symbols("main.py")] == ["run"]  # by line patterns if listed


def test_a_changed_file_is_tried_again_and_a_file_that_was_given_up_is_not(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.cs").write_text(HOSTILE["a20.cs"])
    (root / "b.cs").write_text(HONEST["Shop.cs"])
    assert [skip["path"] for skip in rag("index", root, "--json").json["skipped"]] == ["a.cs"]
    (root / "a.cs").write_text("class Mended { void Now() { } }\n")
    report = rag("index", root, "--json").json
    assert (report["changed"], report["skipped"]) == (1, [])
    (root / "a.cs").write_text(HOSTILE["a20.cs"])
    (root / "b.cs").write_text(HOSTILE["a20.cs"])
    report = rag("index", root, "--json").json
    assert [skip["path"] for skip in report["skipped"]] == ["a.cs", "b.cs"]
    again = rag("index", root, "--json").json
    assert (again["action"], again["changed"], len(again["skipped"])) == ("fresh", 0, 2)


def test_a_damaged_or_hostile_list_of_texts_is_as_good_as_none(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.cs").write_text(HONEST["Shop.cs"])
    assert rag("index", root).code == 0
    file = Path(os.environ["RAG_HOME"]) / "stores" / "given-up.json"
    for content in (
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"version": 1, "texts": [1]}',
        '{"version": 1, "texts": {}}',
    ):
        file.write_text(content)
        assert rag("index", root, "--rebuild").code == 0


def test_the_server_reports_it_and_answers_from_the_rest(serve, tmp_path):
    from rag.types import Source

    root = tmp_path / "repository"
    root.mkdir()
    for name, text in (HOSTILE | HONEST).items():
        (root / name).write_text(text)
    served = serve(repositories=(("shop", Source(str(root.resolve()))),)).ready()
    (listed,) = served.get("/api/repositories").json
    assert listed["skipped"] == {PARSER_GAVE_UP: len(HOSTILE)}
    body = {"question": "Where is honest_python?", "repositories": ["shop"]}
    reply = served.post("/api/ask", body, headers={"Accept": "application/json"})
    assert "shop.py" in reply.body.decode()
    assert reply.json["coverage"][0]["skipped"] == {}  # they are indexed


def test_native_parsers_are_called_in_the_child_alone():
    parse = {
        path.relative_to(PACKAGE).as_posix(): set(house.imported_names(path))
        for path in PACKAGE.rglob("*.py")
        if any(module in path.read_text() for module in ("grammars", "outline"))
    }
    assert {path for path, names in parse.items() if "rag.code.grammars.parse" in names} == {
        "code/outline.py",
        "code/layout.py",
    }
    assert not [path for path, names in parse.items() if any("corpus.outline" in name for name in names)]


def test_no_process_but_the_child_loads_a_parser(sample_repo, tmp_path):
    code = (
        "import sys\nfrom rag.cli import commands\n"
        "try:\n    commands()()\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('tree_sitter')])"
    )
    for arguments in (["index", str(sample_repo)], ["wiki", str(sample_repo), "-o", str(tmp_path / "wiki")]):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", done.stdout
    assert MEMORY_BYTES < 64 << 20
