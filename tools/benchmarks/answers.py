"""Answers with a model: quotes, one look, and a DeepWiki-style pipeline with the same model.

    BENCH_MODEL=model.gguf make bench ONLY=answers          # or the base URL of an OpenAI-compatible server
    python -m tools.benchmarks.answers --export-judging FILE
    python -m tools.benchmarks.answers --judge FILE --judge FILE

BENCH_MOST=N ends a run after N new questions to a model, or conversations. BENCH_FILES=questions,unanswerable
and BENCH_ARMS="one look,DeepWiki-style" choose what a model is asked; the order is the same, spread over the
repositories. Each answer is one line of `.bench/answers/answers.jsonl` and is not asked for again; one of
another model is another answer.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import json
import os
import sys
import time
import urllib.request
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rag.answer.extract import ExtractiveGenerator
from rag.cli.terminal import out
from rag.errors import RagError
from rag.evaluation.questions import read_records
from rag.evaluation.systems import Running
from rag.ports import TextGenerator, is_learning
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer
from tools.benchmarks import answer_judging
from tools.benchmarks.answer_figures import COLUMNS, Record, row, words_of
from tools.benchmarks.bench import CHECKOUT, QUESTIONS, Bench, NotMeasured, not_measured, show
from tools.benchmarks.peer_systems import peer_systems
from tools.benchmarks.repositories import obtain_all, read_repositories

FOLDER = QUESTIONS / "answers"
FILES = ("questions", "unanswerable", "conversations")
CONTEXT_TOKENS, ANSWER_TOKENS = 2048, 350
TOP = 20
"""The number of chunks that DeepWiki retrieves."""
STEPS, LOOKED_TWICE = 4, 24
ARMS = ("quotes", "one look", "DeepWiki-style", "second look")
_TIMEOUT_S = 3600.0
_RULES = """You are an expert code analyst examining the repository {repo}. You provide direct, concise and
accurate information about code repositories. Answer the question directly, in English, without preamble. Base
your answer on the context given. Format with markdown inside the answer; name the files you refer to."""


@dataclass(frozen=True)
class Turn:
    """A question with the facts that a right answer has; none if the repository has no answer."""

    text: str
    facts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Case:
    """One question, or a conversation of two, about a repository."""

    id: str
    repo: str
    file: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Model:
    """A model behind an OpenAI-compatible address; its name and its file's checksum say which."""

    base_url: str
    name: str
    sha256: str = ""

    @property
    def identity(self) -> str:
        """What tells its answers from those of another model."""
        return f"{self.name} {self.sha256[:12]}".strip()


@dataclass
class Kept:
    """The answers asked for so far, one line each."""

    path: Path
    records: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.is_file():
            self.records = read_records(self.path)

    def has(self, arm: str, case: Case, model: str) -> bool:
        """Whether all turns of a case are answered."""
        turns = {r["turn"] for r in self.records if (r["arm"], r["id"], r["model"]) == (arm, case.id, model)}
        return len(turns) == len(case.turns)

    def add(self, records: Sequence[dict[str, Any]]) -> None:
        """Append the answers of one case."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        self.records.extend(records)


def answers(bench: Bench) -> None:
    """Answers with a model (BENCH_MODEL), beside quotes and a DeepWiki-style pipeline with the same model."""
    try:
        folders = obtain_all(read_repositories(FOLDER / "repositories.toml"), bench.cache)
    except RagError as error:
        raise NotMeasured(str(error)) from error
    kept = Kept(bench.results.parent / "answers" / "answers.jsonl")
    every = cases()
    with TemporaryDirectory(prefix="rag-bench-") as home:
        _quote(every, folders, kept, Path(home))
        if not (where := os.environ.get("BENCH_MODEL")):
            not_measured("answers with a model: set BENCH_MODEL to a GGUF file or a server's base URL")
        else:
            with served(where) as model:
                _ask_model(bench, every, folders, kept, model, Path(home))
    show_figures(kept, folders)


def cases() -> list[Case]:
    """Return all cases; the first ones are spread over the repositories and the kinds."""
    found, place = [], Counter[tuple[str, str]]()
    for number, name in enumerate(FILES):
        for record in read_records(FOLDER / f"{name}.jsonl"):
            place[record["repo"], name] += 1
            turns = tuple(
                Turn(t["question"], tuple(t.get("facts", ()))) for t in record.get("turns", [record])
            )
            order = (place[record["repo"], name], number, record["repo"])
            found.append((order, Case(record["id"], record["repo"], name, turns)))
    return [case for _, case in sorted(found, key=lambda one: one[0])]


def _settings(home: Path, model: Model | None = None) -> Settings:
    plain = Settings(home=home, memory="memory:", context_tokens=CONTEXT_TOKENS, answer_tokens=ANSWER_TOKENS)
    return replace(plain, base_url=model.base_url, model=model.name, api_key="local") if model else plain


def _quote(every: Sequence[Case], folders: Mapping[str, Path], kept: Kept, home: Path) -> None:
    todo = [case for case in every if not kept.has(ARMS[0], case, "")]
    with closing(Engine(_settings(home))) as engine:
        for case in todo:
            kept.add(_looked(ARMS[0], case, folders, engine, ExtractiveGenerator(), ""))


def _generator(model: Model) -> TextGenerator:
    # A second of CPU time, which the other benchmarks do not need.
    from rag.backends.adal_clients import model_client
    from rag.backends.adal_generator import AdalGenerator

    client = model_client("openai", base_url=model.base_url, api_key="local", timeout_s=_TIMEOUT_S)
    return AdalGenerator(client, model.name, {"temperature": 0.0, "max_tokens": ANSWER_TOKENS})


def _ask_model(
    bench: Bench,
    every: Sequence[Case],
    folders: Mapping[str, Path],
    kept: Kept,
    model: Model,
    home: Path,
) -> None:
    """Ask for the answers that are not there, until BENCH_MOST came; say how long the rest takes."""
    files, arms = chosen("BENCH_FILES", FILES), chosen("BENCH_ARMS", ARMS[1:])
    wanted = [
        (arm, case)
        for number, case in enumerate(case for case in every if case.file in files)
        for arm in arms
        if arm != ARMS[3] or number < LOOKED_TWICE
    ]
    todo = [(arm, case) for arm, case in wanted if not kept.has(arm, case, model.identity)]
    most = int(os.environ.get("BENCH_MOST", len(todo)))
    try:
        retrieved = _retrieved(bench, [case for arm, case in todo[:most] if arm == ARMS[2]], folders, kept)
    except NotMeasured as reason:
        not_measured(reason)
        retrieved, todo = {}, [(arm, case) for arm, case in todo if arm != ARMS[2]]
    generator = _generator(model)
    began, done = time.perf_counter(), 0
    with closing(Engine(_settings(home, model))) as engine:
        for arm, case in todo[:most]:
            if arm == ARMS[2]:
                records = _deepwiki(case, folders[case.repo], retrieved, engine, model)
            else:
                records = _looked(arm, case, folders, engine, generator, model.identity)
            kept.add(records)
            done += 1
            each = (time.perf_counter() - began) / done
            rest = each * (len(todo) - done) / 60
            print(
                f"{len(wanted) - len(todo) + done}/{len(wanted)} {arm}: {case.id}, "
                f"{sum(r['seconds'] for r in records):.0f} s; about {rest:.0f} min for the rest",
                file=sys.stderr,
            )


def chosen(variable: str, known: Sequence[str]) -> list[str]:
    """Return those of the known names that an environment variable lists, all if it is not set."""
    chosen = [name.strip() for name in os.environ.get(variable, ",".join(known)).split(",")]
    if unknown := set(chosen) - set(known):
        raise NotMeasured(f"{variable}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return [name for name in known if name in chosen]


def _looked(
    arm: str,
    case: Case,
    folders: Mapping[str, Path],
    engine: Engine,
    generator: TextGenerator,
    model: str,
) -> list[dict[str, Any]]:
    """Ask the turns of a case in one dialog."""
    dialog = Dialog(engine, [engine.repository(str(folders[case.repo]))])
    dialog.steps = STEPS if arm == ARMS[3] else 0
    found = []
    for number in range(len(case.turns)):
        began = time.perf_counter()
        answer = list(converse(dialog, case.turns[number].text, generator))[-1]
        assert isinstance(answer, Answer)
        seconds = time.perf_counter() - began
        sources = [(one.path, one.start, one.end) for one in answer.sources]
        tokens = (answer.usage.prompt_tokens, answer.usage.answer_tokens)
        record = _record(arm, case, number, answer.text, sources, tokens, seconds, model)
        found.append({**record, "found": answer.found, "warning": answer.warning, "cut": answer.cut})
    return found


def _record(
    arm: str,
    case: Case,
    number: int,
    text: str,
    sources: Sequence[tuple[str, int, int]],
    tokens: tuple[int, int],
    seconds: float,
    model: str,
) -> dict[str, Any]:
    return {
        "arm": arm,
        "id": case.id,
        "turn": number + 1,
        "repo": case.repo,
        "question": case.turns[number].text,
        "history": [turn.text for turn in case.turns[:number]],
        "facts": [*case.turns[number].facts],
        "model": model,
        "text": text,
        "sources": [{"path": path, "start_line": a, "end_line": b} for path, a, b in sources],
        "prompt_tokens": tokens[0],
        "answer_tokens": tokens[1],
        "seconds": round(seconds, 1),
        "found": True,
        "warning": "",
        "cut": False,
    }


Chunks = list[tuple[str, int, int]]


def _retrieved(
    bench: Bench, wanted: Sequence[Case], folders: Mapping[str, Path], kept: Kept
) -> dict[str, Chunks]:
    """Return AdalFlow's TOP chunks for each question of the cases; those of earlier runs are read again."""
    path = kept.path.with_name("retrieved.json")
    found: dict[str, Chunks] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    lacking = [case for case in wanted if any(_name(case, n) not in found for n in range(len(case.turns)))]
    system = next(one for one in peer_systems(bench.peers) if one.name == "adalflow") if lacking else None
    for repo in dict.fromkeys(case.repo for case in lacking):
        assert system is not None
        with Running(system, folders[repo]) as running:
            for case in (one for one in lacking if one.repo == repo):
                for number, turn in enumerate(case.turns):
                    results = running.ask(_name(case, number), turn.text, (), TOP).results
                    found[_name(case, number)] = [(one.path, one.start, one.end) for one in results]
    if lacking:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), encoding="utf-8")
    return found


def _name(case: Case, number: int) -> str:
    return f"{case.id}/{number + 1}"


def _deepwiki(
    case: Case, folder: Path, retrieved: Mapping[str, Chunks], engine: Engine, model: Model
) -> list[dict[str, Any]]:
    """Ask the turns of a case as DeepWiki does: the chunks, the earlier turns, the question."""
    earlier: list[tuple[str, str]] = []
    found = []
    for number, turn in enumerate(case.turns):
        began = time.perf_counter()
        rules = _RULES.format(repo=case.repo)
        past = "".join(f"<turn>\n<user>{q}</user>\n<assistant>{a}</assistant>\n</turn>\n" for q, a in earlier)
        around = (
            f"{past and f'<conversation_history>{past}</conversation_history>'}<query>{turn.text}</query>"
        )
        room = CONTEXT_TOKENS - ANSWER_TOKENS - 60 - engine.counter.count(rules + around)
        context, sources = _context(folder, retrieved[_name(case, number)], engine, room)
        prompt = f"<START_OF_CONTEXT>\n{context}<END_OF_CONTEXT>\n{around}"
        text, tokens = _completed(model, rules, prompt)
        if is_learning(engine.counter):  # as after our own answers, so that both have the same room
            engine.counter.learn(f"{rules}\n{prompt}", tokens[0])
        seconds = time.perf_counter() - began
        found.append(_record(ARMS[2], case, number, text, sources, tokens, seconds, model.identity))
        earlier.append((turn.text, text))
    return found


def _context(folder: Path, chunks: Chunks, engine: Engine, room: int) -> tuple[str, Chunks]:
    """Return the chunks as text, as many whole ones and lines of the last as fit into `room` tokens."""
    context = ""
    shown: Chunks = []
    for path, start, end in chunks:
        lines = (folder / path).read_text(encoding="utf-8", errors="replace").split("\n")[start - 1 : end]
        longer = [_with_chunk(context, path, lines[:number]) for number in range(1, len(lines) + 1)]
        fitting = bisect_right(longer, room, key=engine.counter.count)
        if fitting:
            context = longer[fitting - 1]
            shown.append((path, start, start + fitting - 1))
        if fitting < len(lines):
            break
    return context, shown


def _with_chunk(context: str, path: str, lines: Sequence[str]) -> str:
    return context + f"## File Path: {path}\n\n" + "\n".join(lines) + "\n\n----------\n\n"


def _completed(model: Model, rules: str, prompt: str) -> tuple[str, tuple[int, int]]:
    """Return a model's answer to a prompt, and the tokens of both."""
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": prompt}]
    options = {"model": model.name, "temperature": 0.0, "max_tokens": ANSWER_TOKENS}
    reply = _fetched(f"{model.base_url}/chat/completions", {**options, "messages": messages})
    usage = reply["usage"]
    return reply["choices"][0]["message"]["content"], (usage["prompt_tokens"], usage["completion_tokens"])


def _fetched(url: str, body: Mapping[str, Any] | None = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer local"}
    sent = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, sent, headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
            return json.load(reply)
    except OSError as error:
        raise NotMeasured(f"answers with a model: {url}: {error}") from error


@contextmanager
def served(where: str) -> Iterator[Model]:
    """Yield the model at a base URL, or of a GGUF file, which is served until the block is left.

    Raises:
        NotMeasured: the server does not respond, there is no such file, or xllamacpp is not installed.
    """
    if where.startswith(("http://", "https://")):
        base_url = where.rstrip("/")
        yield Model(
            base_url, os.environ.get("BENCH_MODEL_NAME") or _fetched(f"{base_url}/models")["data"][0]["id"]
        )
        return
    path = Path(where)
    if not path.is_file():
        raise NotMeasured(f"answers with a model: there is no file {path}")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when xllamacpp is imported
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise NotMeasured("answers with a GGUF file: xllamacpp is not installed") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.model_alias = str(path), {path.stem}
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = CONTEXT_TOKENS, 1, False
    parameters.ui, parameters.verbosity = False, -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = os.cpu_count() or 1
    parameters.hostnames, parameters.port, parameters.api_keys = ["127.0.0.1"], 0, ["local"]
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    server = xllamacpp.Server(parameters)
    try:
        yield Model(f"{server.listening_address}/v1", path.stem, checksum)
    finally:
        del server
        gc.collect()


def show_figures(kept: Kept, folders: Mapping[str, Path]) -> None:
    """Show what can be counted, for each arm and model."""
    known = {repo: words_of(folder) for repo, folder in folders.items()}
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in kept.records:
        groups.setdefault((record["arm"], record["model"]), []).append(record)
    table = [row(" · ".join(filter(None, name)), group, known) for name, group in groups.items()]
    show("Answers", COLUMNS, table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Give answers out to judges, or read what they say; 0, or the exit code of an error."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.answers", description=main.__doc__)
    home = CHECKOUT / ".bench" / "answers" / "answers.jsonl"
    parser.add_argument("--answers", type=Path, default=home, help="the answers, as make bench leaves them")
    parser.add_argument("--export-judging", type=Path, metavar="FILE")
    parser.add_argument("--judge", type=Path, metavar="FILE", action="append", default=[])
    options = parser.parse_args(arguments)
    try:
        records = read_records(options.answers)
        if options.export_judging:
            answer_judging.export(records, options.export_judging)
        judges = [answer_judging.read_judgements(path, records) for path in options.judge]
    except RagError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if judges:
        show("Answers, judged blind", answer_judging.COLUMNS, answer_judging.rows(records, judges))
    if len(judges) == 2:
        count, agreed = answer_judging.agreement(records, *judges)
        out(f"both judges: {count} answers, Cohen's kappa {'-' if agreed is None else f'{agreed:.2f}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
