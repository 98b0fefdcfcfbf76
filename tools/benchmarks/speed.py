"""The speed of this version, an earlier one and semble, in one run on one machine; CPU time decides.

`SPEED_BASE=COMMIT` names the earlier version, of which git history has the sources.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rag.cli.terminal import out
from rag.errors import RagError
from rag.evaluation.questions import read_questions
from rag.evaluation.systems import OURS, Running, System
from tools.benchmarks.bench import (
    CHECKOUT,
    HERE,
    QUESTIONS,
    Bench,
    NotMeasured,
    cpu_s,
    family,
    not_measured,
    percentiles_ms,
    resident_mb,
    run_process,
    show,
)
from tools.benchmarks.django import DJANGO, QUESTION, TOUCHED
from tools.benchmarks.peer_systems import peer_systems
from tools.benchmarks.quality import repositories_of
from tools.benchmarks.repositories import obtain
from tools.benchmarks.scale import kept_of
from tools.benchmarks.serving import load, questions_about, running_server, store_of

BASE = "16a4310"
REPOSITORIES = ("beets", "mosquitto", "prometheus", "redux-toolkit", "zookeeper")
EVERY = 2
"""Every second question of each kind is asked: 85 in all."""
COLD_RUNS, _HITS = 5, 10
CLIENTS, WARM, SERVED = 8, 100, 400
MILLION = 1_000_000
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_FROM_ROOT = ("sh", "-c", 'cd / && exec "$@"', "sh")
"""How each version is started: an earlier one imports from the current folder, which has this version."""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "0"},
    },
}

Figures = dict[str, str]
"""What was measured of one version, by measure."""
AIMS = {
    "question, first visit: mean CPU ms": "≤ 30",
    "question, first visit: p95": "≤ 80",
    "question, first visit: max": "≤ 200",
    "question, repeated: mean CPU ms": "≤ 16",
    "question, repeated: p95": "≤ 35",
    "index Django: CPU s": "≤ 1.1 × the earlier version",
    "index Django: peak MB": "not more",
    "one file changed, rag index: wall s": "",
    "cold rag search, Django: CPU s": "",
    "cold rag search, Django: wall s": "≤ .35 where the earlier version takes .40",
    "cold rag ask, Django: CPU s": "",
    "cold rag ask, Django: wall s": "",
    "rag mcp until it is initialized: CPU s": "≤ .5",
    "rag mcp until it is initialized: MB": "≤ 70",
    "served answers a second": "≥ the earlier version",
    "served answer: CPU ms": "≤ 9",
    "served answer: kB": "≤ 11",
}


class Version:
    """An installed version of rag: its interpreter, and a home of its own."""

    def __init__(self, name: str, python: Path, home: Path) -> None:
        self.name, self.python, self.home = name, python, home
        self.environment = {**os.environ, **_ONE_THREAD, "RAG_HOME": str(home), "RAG_CACHE": "off"}

    def rag(self, *arguments: str) -> list[str]:
        """Return a command line: the script that a user types, where it is installed."""
        script = self.python.with_name("rag")
        command = [str(script)] if script.is_file() else [str(self.python), "-m", "rag"]
        return [*_FROM_ROOT, *command, *arguments]


def speed(bench: Bench) -> None:
    """Questions, Django's index, cold starts and served answers beside an earlier version; semble's query."""
    try:
        sources = obtain(DJANGO, bench.cache)
    except RagError as error:
        raise NotMeasured(f"Django 5.2: {error}") from error
    with TemporaryDirectory(prefix="rag-bench-speed-") as workplace:
        place = Path(workplace)
        django = place / "django"
        shutil.copytree(sources, django)
        versions = [Version("this version", Path(sys.executable), place / "home")]
        try:
            base = os.environ.get("SPEED_BASE", BASE)
            versions.append(Version(base, installed(base, bench.peers), place / "base"))
        except NotMeasured as reason:
            not_measured(reason)
        questions = place / "questions.json"
        questions.write_text(json.dumps(_questions(bench)))
        found = [_measured(version, django, questions, place) for version in versions]
        rows = [[name, *(one.get(name, "") for one in found), aim] for name, aim in AIMS.items()]
        show("Speed", ["measure", *(version.name for version in versions), "aim"], rows)
        _show_queries(bench, versions, django)
    _show_million(bench)


def installed(commit: str, peers: Path) -> Path:
    """Return the interpreter of an environment with the version of a commit, made when first asked for.

    Raises:
        NotMeasured: the history does not have it, or it cannot be installed.
    """
    folder = peers / f"rag-{commit}"
    python = folder / "bin" / "python"
    if (folder / ".installed").exists():
        return python
    try:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=CHECKOUT, check=True, capture_output=True
        ).stdout
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
        (folder / "sources").mkdir()
        subprocess.run(["tar", "x", "-C", folder / "sources"], input=archive, check=True, capture_output=True)
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-e", f"{folder / 'sources'}[server]"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise NotMeasured(f"rag {commit}: {error.stderr.decode(errors='replace').strip()[-300:]}") from error
    (folder / ".installed").touch()
    return python


def _questions(bench: Bench) -> dict[str, list[str]]:
    """Return the questions of each folder: every second one of a repository, which has all kinds."""
    kinds = QUESTIONS / "kinds"
    questions = [one for one in read_questions([kinds / "dev.jsonl"]) if one.repo in REPOSITORIES]
    folders = repositories_of(kinds / "dev_repositories.toml", questions, bench.cache)
    asked = defaultdict[str, list[str]](list)
    for question in questions:
        asked[str(folders[question.repo])].append(question.text)
    return {folder: texts[::EVERY] for folder, texts in asked.items()}


def _measured(version: Version, django: Path, questions: Path, place: Path) -> Figures:
    """Measure a version; what it cannot do is said, and left out."""
    found: Figures = {}
    steps: list[Callable[[], Figures]] = [
        lambda: _asked(version, questions),
        lambda: _indexed(version, django),
        lambda: _cold(version, django, "search"),
        lambda: _cold(version, django, "ask"),
        lambda: _connected(version, django),
        lambda: _served(version, django, place),
    ]
    for step in steps:
        try:
            figures = step()
        except (NotMeasured, OSError, ValueError, subprocess.CalledProcessError) as reason:
            not_measured(f"{version.name}: {reason}")
            continue
        found |= figures
        for name, figure in figures.items():
            out(f"{version.name}: {name} {figure}")
    return found


def _asked(version: Version, questions: Path) -> Figures:
    for folder in json.loads(questions.read_text()):
        run_process(version.rag("index", folder), version.environment)
    probe = [*_FROM_ROOT, str(version.python), str(HERE / "speed_probe.py"), str(questions)]
    first, again = json.loads(run_process(probe, version.environment).output)
    return {
        "question, first visit: mean CPU ms": f"{statistics.mean(first):.1f}",
        "question, first visit: p95": f"{np.percentile(first, 95):.0f}",
        "question, first visit: max": f"{max(first):.0f}",
        "question, repeated: mean CPU ms": f"{statistics.mean(again):.1f}",
        "question, repeated: p95": f"{np.percentile(again, 95):.0f}",
    }


def _indexed(version: Version, django: Path) -> Figures:
    done = run_process(version.rag("index", str(django), "--rebuild"), version.environment, family=True)
    with (django / TOUCHED).open("a") as file:
        file.write("# touched\n")
    updated = run_process(version.rag("index", str(django)), version.environment)
    return {
        "index Django: CPU s": f"{done.cpu_s:.2f}",
        "index Django: peak MB": f"{done.peak_mb:.0f}",
        "one file changed, rag index: wall s": f"{updated.wall_s:.2f}",
    }


def _cold(version: Version, django: Path, command: str) -> Figures:
    line = version.rag(command, "--repo", str(django), QUESTION)
    line = version.rag(command, str(django), QUESTION) if command == "search" else line
    runs = [run_process(line, version.environment) for _ in range(COLD_RUNS + 1)][1:]
    name = f"cold rag {command}, Django"
    return {
        f"{name}: CPU s": f"{statistics.median(run.cpu_s for run in runs):.3f}",
        f"{name}: wall s": f"{statistics.median(run.wall_s for run in runs):.3f}",
    }


def _connected(version: Version, django: Path) -> Figures:
    """Start `rag mcp`, and measure it when it has answered `initialize`; the median of some runs."""
    seconds, megabytes = [], []
    for _ in range(COLD_RUNS):
        command = version.rag("mcp", "--repo", str(django))
        with subprocess.Popen(
            command,
            env=version.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(_INITIALIZE).encode() + b"\n")
            process.stdin.flush()
            if not process.stdout.readline():
                raise NotMeasured(f"rag mcp ended with {process.wait()}")
            seconds.append(cpu_s(process.pid))
            megabytes.append(resident_mb(process.pid))
            process.terminate()
    return {
        "rag mcp until it is initialized: CPU s": f"{statistics.median(seconds):.2f}",
        "rag mcp until it is initialized: MB": f"{statistics.median(megabytes):.0f}",
    }


def _served(version: Version, django: Path, place: Path) -> Figures:
    with running_server(django, version.home, version.rag(), version.environment) as (port, pid):
        asked = questions_about(store_of(place / "home", "django"))
        job = {"port": port, "repository": "django", "questions": asked, "stream": False}
        load(job, CLIENTS, WARM)
        before = sum(map(cpu_s, family(pid)))
        seen = load(job, CLIENTS, SERVED)
        spent = sum(map(cpu_s, family(pid))) - before
        sizes = [len(_reply(port, question)) for question in asked[:20]]
    return {
        "served answers a second": f"{seen['per_second']:.0f}",
        "served answer: CPU ms": f"{spent / SERVED * 1000:.1f}",
        "served answer: kB": f"{statistics.mean(sizes) / 1000:.1f}",
    }


def _reply(port: int, question: str) -> bytes:
    body = json.dumps({"question": question, "repositories": ["django"]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/ask", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        content: bytes = reply.read()
        return content


def _show_queries(bench: Bench, versions: Sequence[Version], django: Path) -> None:
    """Show queries in an open process, the three systems one after another."""
    systems = [OURS, *(_system(version) for version in versions[1:])]
    try:
        systems += [one for one in peer_systems(bench.peers) if one.name == "semble"]
    except NotMeasured as reason:
        not_measured(reason)
    rows = []
    for system in systems:
        try:
            rows.append(_queried(system, django))
        except RagError as reason:
            not_measured(f"{system.name}: {reason}")
    columns = ["system", "chunks", "ready s", "CPU s", "memory MB", "query p50 / p95 ms"]
    show("A query in an open process, Django 5.2 (aim: p50 ≤ 1.2 × semble)", columns, rows)


def _queried(system: System, root: Path) -> list[object]:
    """Index the folder from nothing, then ask; return the row of the system."""
    texts = [q.text for q in read_questions([QUESTIONS / "dev.jsonl"], {"newcomer", "first"})]
    with (
        TemporaryDirectory(prefix="rag-bench-home-") as home,
        Running(system, root, {**os.environ, **_ONE_THREAD, "RAG_HOME": home}) as running,
    ):
        took = cpu_s(running.pid)
        first = running.ask(0, texts[0], [], _HITS)
        memory = resident_mb(running.pid)
        seconds = [running.ask(n, text, [], _HITS).seconds for n, text in enumerate(texts[1:], 1)]
    return [
        system.name,
        f"{running.chunks:,}",
        f"{running.ready_s:.2f}",
        f"{took:.2f}",
        f"{memory:.0f}",
        percentiles_ms([first.seconds, *seconds]),
    ]


def _system(version: Version) -> System:
    return System(version.name, tuple(version.rag("search", "{path}", "--batch")))


def _show_million(bench: Bench) -> None:
    """Show the first stage over a million chunks, as the benchmark `scale` has measured it with this code."""
    found: Mapping[str, Mapping[str, float]] = kept_of(bench.results, MILLION)
    if not {"asked", "asked-again"} <= found.keys():
        not_measured(f"a million chunks: first `SCALE_SIZES={MILLION} make bench ONLY=scale`, 20 minutes")
        return
    before, after = (found[step]["first_stage_p50_ms"] for step in ("asked", "asked-again"))
    rows = [("as built", f"{before:.1f}"), ("a quarter of the files changed", f"{after:.1f}")]
    show("A million chunks, first stage (aim: ≤ 25)", ["store", "CPU ms, p50"], rows)
