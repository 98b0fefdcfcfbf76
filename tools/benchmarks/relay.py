"""Answers with a strong model, from recorded replies: what it cites, and whether it is still shown.

    make bench ONLY=relay                                        # replays tools/questions/relay.jsonl
    BENCH_MODEL=http://127.0.0.1:9000/v1 make bench ONLY=relay   # asks that server, records its replies

BENCH_MOST=N ends a recording after N questions, BENCH_PART=1/3 records every third from the first on. A
question that has a line in the file is not asked again: delete the line to record it anew.

The questions are five of different kinds and one without an answer for each repository of `kinds/dev`. A
line of the file has what the model replied to each request of a question, in their order, and the places
that its answer cites. A replay sends the same replies to whatever the program asks now. A cited place counts
only if a source of the replayed answer shows it: so a change of search, prompt or second look that hides it
is seen without a model.
"""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from rag.answer.references import with_places
from rag.backends.adal_clients import model_client
from rag.backends.adal_generator import AdalGenerator
from rag.errors import RagError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_questions, read_records
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer
from tools.benchmarks.answered import read_unanswerable
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, show
from tools.benchmarks.repositories import obtain_all, read_repositories

FILE = QUESTIONS / "relay.jsonl"
_KINDS = QUESTIONS / "kinds"
_A_REPOSITORY = 5
_TIMEOUT_S = 1000.0
_PLACE = re.compile(r"([\w@.+-][\w@.+/()-]*\.\w+|\w*Makefile):(\d{1,7})(?:[–-](\d{1,7}))?")


@dataclass
class _Tape:
    """The replies of one question, and what was sent for it. Without `upstream` they are replayed."""

    upstream: str = ""
    replies: list[dict[str, Any]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the next message of the assistant, an empty one after the last that was recorded."""
        self.sent.append(json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False))
        if self.upstream:
            self.replies.append(_asked(self.upstream, {**body, "stream": False}))
        if len(self.sent) > len(self.replies):
            return {"role": "assistant", "content": ""}
        return self.replies[len(self.sent) - 1]


def _asked(base_url: str, body: dict[str, Any]) -> dict[str, Any]:
    url, headers = f"{base_url}/chat/completions", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        message = json.load(response)["choices"][0]["message"]
    return {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}


@contextmanager
def _served(tape: _Tape) -> Iterator[str]:
    """Yield the base URL of a server on loopback that replies from the tape."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = tape.reply(body)
            choice = {"index": 0, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
            if body.get("stream"):
                calls = [{"index": n, **call} for n, call in enumerate(message.get("tool_calls") or ())]
                delta = {**message, **({"tool_calls": calls} if calls else {})}
                event = {"object": "chat.completion.chunk", "choices": [{**choice, "delta": delta}]}
                self._send("text/event-stream", f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")
            else:
                whole = {"object": "chat.completion", "choices": [{**choice, "message": message}]}
                self._send("application/json", json.dumps(whole))

        def _send(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing: the requests are on the tape."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Outcome:
    """A question, the places that its answer cites in their order, the sources shown, and what was sent."""

    question: Question
    cited: tuple[LineSpan, ...]
    shown: tuple[LineSpan, ...]
    tokens: int
    requests: int

    @property
    def places(self) -> list[LineSpan]:
        """The cited places that a source shows."""
        return [place for place in self.cited if _meets(place, self.shown)]

    def share_of(self, lines: Sequence[LineSpan]) -> float:
        """Return the share of lines in the places."""
        return mean(_meets(line, self.places) for line in lines)


def _meets(place: LineSpan, spans: Sequence[LineSpan]) -> bool:
    return any(
        place.path == span.path and place.start <= span.end and span.start <= place.end for span in spans
    )


def relay(bench: Bench) -> None:
    """Answers of a strong model, from recorded replies (BENCH_MODEL=URL records them)."""
    questions = chosen_questions()
    kept = {record["id"]: record for record in read_records(FILE)} if FILE.is_file() else {}
    try:
        folders = obtain_all(read_repositories(_KINDS / "dev_repositories.toml"), bench.cache)
    except RagError as error:
        raise NotMeasured(str(error)) from error
    upstream = os.environ.get("BENCH_MODEL", "").rstrip("/")
    part, _, parts = os.environ.get("BENCH_PART", "1/1").partition("/")
    todo = [one for one in questions if bool(upstream) != (one.id in kept)]
    if upstream:
        todo = todo[int(part) - 1 :: int(parts)][: int(os.environ.get("BENCH_MOST", len(todo)))]
    if not todo:
        raise NotMeasured(f"no question of {FILE.name} is recorded: set BENCH_MODEL to a server's base URL")
    outcomes = []
    for repo, group in groupby(todo, key=lambda one: one.repo):
        with TemporaryDirectory(prefix="rag-bench-") as home:
            for question in group:
                record = kept.get(question.id, {})
                outcomes.append(_ask(question, folders[repo], Path(home), upstream, record))
    _show(outcomes)


def chosen_questions() -> list[Question]:
    """Return the questions, by repository; the kinds take turns."""
    plain = [one for one in read_questions([_KINDS / "dev.jsonl"]) if not one.history]
    lacking = read_unanswerable([_KINDS / "dev_unanswerable.jsonl"])
    found = []
    for at, repo in enumerate(dict.fromkeys(one.repo for one in plain)):
        of_repo = [one for one in plain if one.repo == repo]
        kinds = list(dict.fromkeys(one.kind for one in of_repo))
        turn = [kinds[(at * _A_REPOSITORY + n) % len(kinds)] for n in range(_A_REPOSITORY)]
        found += [next(one for one in of_repo if one.kind == kind) for kind in turn]
        found += [one for one in lacking if one.repo == repo][:1]
    return found


def _ask(question: Question, folder: Path, home: Path, upstream: str, record: dict[str, Any]) -> Outcome:
    """Ask one question; with `upstream` append its record to the file."""
    tape = _Tape(upstream, [*record.get("replies", ())])
    with _served(tape) as base_url:
        settings = Settings(home=home, memory="memory:", base_url=base_url, model="relay", api_key="local")
        client = model_client("openai", base_url=base_url, api_key="local", timeout_s=_TIMEOUT_S)
        with closing(Engine(settings)) as engine:
            dialog = Dialog(engine, [engine.repository(str(folder))])
            generator = AdalGenerator(client, "relay", {"temperature": 0.0})
            *_, answer = converse(dialog, question.text, generator)
            assert isinstance(answer, Answer)
            tokens = sum(engine.counter.count(sent) for sent in tape.sent)
            text = with_places(dialog.turns()[-1]).answer if upstream else ""
    if upstream:
        record = {"id": question.id, "replies": tape.replies, "cited": _places(text)}
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    cited = tuple(
        LineSpan(path, int(first), int(last or first)) for path, first, last in record.get("cited", ())
    )
    shown = tuple(LineSpan(one.path, one.start, one.end) for one in answer.sources)
    return Outcome(question, cited, shown, tokens, len(tape.sent))


def _places(text: str) -> list[tuple[str, str, str]]:
    """Return the places that a text names, in its order; a file's last name is that of the path before it."""
    full: dict[str, str] = {}
    found = []
    for path, first, last in _PLACE.findall(text):
        path = full.setdefault(path.rpartition("/")[2], path)
        found.append((path, first, last))
    return found


def _show(outcomes: Sequence[Outcome]) -> None:
    answerable = [one for one in outcomes if one.question.spans]
    others = [one for one in outcomes if not one.question.spans]
    rows = [
        (kind, *_figures([one for one in answerable if one.question.kind == kind]))
        for kind in sorted({one.question.kind for one in answerable})
    ]
    rows += [("all", *_figures(answerable)), ("no answer", *_figures(others))]
    columns = ("kind", "n", "first", "three", "any", "shown", "members, sites", "tokens sent", "requests")
    show("Right among the places that a strong model cites (recorded)", columns, rows)


def _figures(group: Sequence[Outcome]) -> tuple[object, ...]:
    """Return a row: right among the first cited places, all of them, all sources; members and sites; cost."""
    if not group:
        return (0, *["-"] * 7)
    lists = [one.share_of(lines) for one in group if (lines := one.question.members or one.question.sites)]
    right = [_right(group, [one.places[:most] for one in group]) for most in (1, 3, None)]
    right.append(_right(group, [one.shown for one in group]))
    members = f"{mean(lists):.2f}" if lists else "-"
    tokens = f"{median(one.tokens for one in group):,.0f}"
    return (len(group), *right, members, tokens, f"{mean(one.requests for one in group):.1f}")


def _right(group: Sequence[Outcome], places: Sequence[Sequence[LineSpan]]) -> str:
    """Return the share of the questions of which one of the places answers."""
    if not group[0].question.spans:
        return "-"
    pairs = zip(group, places, strict=True)
    return f"{mean(any(_meets(place, one.question.spans) for place in found) for one, found in pairs):.2f}"
