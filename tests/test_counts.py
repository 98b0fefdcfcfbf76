"""Counts that stand for speed and that a busy machine does not change: calls, modules, bytes.

A bound is a little above what is counted. Where a change needs more on purpose, raise it in the same commit;
`make bench ONLY=speed` measures what it costs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from live_server import Served

QUESTIONS = (
    "Where are sessions signed?",
    "How does the rate limit work?",
    "Who calls shorten?",
    "Which setting decides how long a session lasts?",
    "Which errors can a request end with?",
    "What happens if the database is locked?",
    "Is there a test for expired sessions?",
    "How do I run the tests?",
)
MOST_CALLS = 10_500
MOST_MODULES = {"search": 307, "mcp": 95}
MOST_BYTES = 11_000

_COUNT_MODULES = """
import atexit, sys

def count():
    found = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
    print(sum(name.partition(".")[0] in found for name in sys.modules), file=sys.stderr)

atexit.register(count)
sys.argv = sys.argv[1:]
from rag.__main__ import main
main()
"""
_COUNT_CALLS = """
import json, sys
from rag.answer.extract import ExtractiveGenerator
from rag.service import Dialog, Engine, converse, locate
from rag.settings import load_settings

engine = Engine(load_settings({"memory": "memory:"}))
repository = engine.repository(locate(sys.argv[1]))

def ask(question):
    for _ in converse(Dialog(engine, [repository]), question, ExtractiveGenerator()):
        pass

counted = []
for question in sys.argv[2:]:
    ask(question)
    calls = 0

    def count(frame, event, argument):
        global calls
        calls += event == "call"

    sys.setprofile(count)
    ask(question)
    sys.setprofile(None)
    counted.append(calls)
print(json.dumps(counted))
"""


def _run(code: str, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True)


def test_calls_of_python_for_a_question_that_was_asked_before(sample_repo: Path) -> None:
    counted = json.loads(_run(_COUNT_CALLS, sample_repo, *QUESTIONS).stdout)
    assert statistics.mean(counted) <= MOST_CALLS, dict(zip(QUESTIONS, counted, strict=True))


def test_modules_that_a_search_imports(sample_repo: Path) -> None:
    done = _run(_COUNT_MODULES, "rag", "search", sample_repo, "Where are sessions signed?")
    assert int(done.stderr.splitlines()[-1]) <= MOST_MODULES["search"]


def test_modules_that_mcp_imports_until_it_is_initialized(sample_repo: Path) -> None:
    info = {"name": "count", "version": "0"}
    asked: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    asked["params"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    done = _run(_COUNT_MODULES, "rag", "mcp", "--repo", sample_repo, given=json.dumps(asked) + "\n")
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1
    assert int(done.stderr.splitlines()[-1]) <= MOST_MODULES["mcp"]


def test_bytes_of_an_answer(served: Served) -> None:
    replies = [served.post("/api/ask", {"question": q, "repositories": ["sample"]}) for q in QUESTIONS]
    sizes = [len(reply.body) for reply in replies]
    assert statistics.mean(sizes) <= MOST_BYTES, dict(zip(QUESTIONS, sizes, strict=True))
