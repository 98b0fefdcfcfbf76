"""Is the memory right about what is stale? `git blame` judges, no model.

Spans are the chunks of files that a later commit changed, moved or deleted (in all others every span is
fresh, and nobody errs). Set HISTORIES to a folder of git repositories to measure on them as well.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag.backends.memory.turns import MemoryTurnStore
from rag.cli.terminal import out
from rag.code.languages import kind_of, language_of_path
from rag.corpus.chunk import chunk
from rag.corpus.history import files_at, read_blobs
from rag.memory.freshness import check, check_turns
from rag.service.checks.snapshots import CommitState
from rag.service.upkeep.retention import KeptFiles
from rag.types import Citation, DialogTurn, Freshness, SourceFile
from tools.benchmarks.bench import CHECKOUT, Bench, NotMeasured, show
from tools.benchmarks.blame import Place, git, trace
from tools.benchmarks.generated_history import generate
from tools.benchmarks.lineage import fates, outcomes, shares

SPANS_OF_A_PAIR = 400
MAX_BYTES = 1_000_000
"""Nothing is cited from a longer file."""
_OWN = ("generated", "this project")
STEPS = (1, 3, 10, 40)
"""How many commits lie between the two that are compared."""

KINDS = ("edited", "reindented", "deleted", "moved within", "moved across", "renamed", "duplicated", "fresh")


@dataclass(frozen=True)
class Judged:
    """A span, what we say, and where blame finds it whole (nowhere: stale)."""

    repository: str
    pair: tuple[str, str]
    citation: Citation
    ours: Freshness
    intact: frozenset[Place]
    kind: str

    @property
    def is_stale(self) -> bool:
        return not self.intact

    @property
    def agrees(self) -> bool:
        """Whether we say stale exactly where blame does, and name a place where it finds the span.

        Blame knows no cosmetic edit: where it finds the lines changed, ours may be one.
        """
        if self.ours.state == "reformatted":
            return self.is_stale
        if self.is_stale or self.ours.state not in ("fresh", "moved"):
            return self.is_stale == self.ours.is_stale
        return (self.ours.path, self.ours.start) in self.intact


@dataclass
class History:
    """A repository and the pairs of commits to compare; `done` names kinds that are known by construction."""

    name: str
    folder: Path
    pairs: list[tuple[str, str]]
    done: dict[tuple[str, str], str] = field(default_factory=dict)


def staleness(bench: Bench) -> None:
    """What became of cited lines, beside `git blame`; and how long that takes."""
    with tempfile.TemporaryDirectory() as scratch:
        histories = list(histories_of(Path(scratch)))
        judged = [one for history in histories for one in judge(history, Path(scratch))]
        for name in dict.fromkeys(one.repository for one in judged):
            _show(name, [one for one in judged if one.repository == name])
        if len(histories) > 1:
            _show("all together", judged)
        _show_times(histories)
        _show_along([one for one in histories if one.name not in _OWN])
        wrong = [one for one in judged if not one.agrees]
        random.Random(1).shuffle(wrong)
        bench.results.mkdir(parents=True, exist_ok=True)
        report = bench.results / "staleness-disagreements.txt"
        report.write_text("\n".join(map(_told, wrong[:100])) + "\n", encoding="utf-8")
        out(f"{len(wrong)} of {len(judged)} disagree; a sample is in {report}")


def histories_of(
    scratch: Path, *, rounds: int = 30, each: int = 5, steps: Sequence[int] = STEPS
) -> Iterator[History]:
    """The generated history, this project's own, and those in HISTORIES.

    `each` pairs of commits for every one of `steps`: how many commits lie between the two.
    """
    made = generate(scratch / "generated", rounds=rounds)
    yield History("generated", made.folder, made.pairs, made.done)
    named = os.environ.get("HISTORIES")
    if named and not Path(named).is_dir():
        raise NotMeasured(f"HISTORIES={named} is no folder")
    folders = [folder for folder in sorted(Path(named).iterdir()) if folder.is_dir()] if named else []
    for folder in [CHECKOUT, *folders]:
        try:
            commits = git(folder, "rev-list", "--first-parent", "HEAD").decode().split()
        except subprocess.CalledProcessError:
            out(f"{folder} has no history")
            continue
        pairs = pairs_of(commits, each=each, steps=steps)
        if pairs:
            yield History("this project" if folder == CHECKOUT else folder.name, folder, pairs)


def pairs_of(commits: Sequence[str], *, each: int, steps: Sequence[int] = STEPS) -> list[tuple[str, str]]:
    """Pairs (old, new) spread over a history that is given newest first."""
    found = []
    for step in steps:
        for part in range(each):
            new = (len(commits) - step - 1) * part // each
            if 0 <= new < new + step < len(commits):
                found.append((commits[new + step], commits[new]))
    return found


def judge(history: History, scratch: Path) -> Iterator[Judged]:
    """Every chosen span of a history, with our word and blame's."""
    clone = scratch / f"{history.name}.clone"
    git(scratch, "clone", "--quiet", "--bare", "--shared", "--", str(history.folder), str(clone))
    for old, new in history.pairs:
        before, after = files_at(clone, old), files_at(clone, new)
        assert before is not None and after is not None
        old_files = dict(sorted(before.files.items() - after.files.items()))
        new_files = dict(sorted(after.files.items() - before.files.items()))
        spans = spans_of(clone, old, old_files)
        random.Random(old).shuffle(spans)
        spans = spans[:SPANS_OF_A_PAIR]
        new_texts = {path: lines for path, lines in _lines(clone, new_files).items() if _is_read(lines)}
        traced = trace(clone, old, new, _lines(clone, old_files), new_texts)
        stripped = {path: _stripped(b"\n".join(lines)) for path, lines in new_texts.items()}
        kept = KeptFiles(MemoryTurnStore(), "")
        ours = check([citation for citation, _ in spans], {"": CommitState(clone, new, kept)})
        for (citation, text), freshness in zip(spans, ours, strict=True):
            intact = frozenset(traced.intact(citation.path, citation.start, citation.end))
            kind = history.done.get((citation.path, text)) or _kind(citation, text, intact, stripped)
            yield Judged(history.name, (old, new), citation, freshness, intact, kind)


def _is_read(lines: list[bytes]) -> bool:
    """Whether a file is short enough to be chunked: blame takes long for one that nothing is cited from."""
    return sum(map(len, lines)) + len(lines) - 1 <= MAX_BYTES


def _lines(root: Path, files: dict[str, str]) -> dict[str, list[bytes]]:
    """Return the lines of the files whose blobs can be read; a submodule has none."""
    contents = read_blobs(root, list(files.values()))
    return {path: contents[blob].split(b"\n") for path, blob in files.items() if blob in contents}


def spans_of(root: Path, commit: str, files: dict[str, str]) -> list[tuple[Citation, str]]:
    """The chunks of these files as citations, with their text."""
    contents = read_blobs(root, list(files.values()))
    found = []
    for path, blob in files.items():
        language = language_of_path(path)
        content = contents.get(blob, b"\0")
        if language is None or b"\0" in content or len(content) > MAX_BYTES:
            continue
        text = content.decode("utf-8", "replace")
        source = SourceFile(path, text, blob, language, kind_of(path, language))
        for piece in chunk(source):
            citation = Citation(1, replace(piece.span, commit=commit))
            found.append((citation, piece.text))
    return found


def _stripped(text: bytes) -> bytes:
    return b"\n%b\n" % b"\n".join(line.strip() for line in text.split(b"\n"))


def _kind(citation: Citation, text: str, intact: frozenset[Place], stripped: dict[str, bytes]) -> str:
    """What was done to a span, as blame and the bare text tell it."""
    path = citation.path
    if not intact:
        bare = _stripped(text.removesuffix("\n").encode())
        if any(bare in other for other in stripped.values()):
            return "reindented"
        return "edited" if path in stripped else "deleted"
    if (path, citation.start) in intact:
        return "fresh"
    if len(intact) > 1:
        return "duplicated"
    (where, _), *_ = intact
    if where == path:
        return "moved within"
    return "moved across" if path in stripped else "renamed"


@dataclass(frozen=True)
class Figures:
    """How often we agree with blame; a cosmetic edit counts as found. A share of nothing is 1."""

    spans: int
    precision: float
    recall: float
    moved: int
    anchored: float
    unknown: int


def figures(judged: Sequence[Judged]) -> Figures:
    """Precision and recall of "stale", and the share of moved spans whose new lines are named exactly."""
    said = [one for one in judged if one.ours.is_stale]
    stale = [one for one in judged if one.is_stale]
    moved = [
        one for one in judged if one.intact and (one.citation.path, one.citation.start) not in one.intact
    ]
    return Figures(
        spans=len(judged),
        precision=_share(one.is_stale for one in said),
        recall=_share(one.ours.is_stale or one.ours.state == "reformatted" for one in stale),
        moved=len(moved),
        anchored=_share((one.ours.path, one.ours.start) in one.intact for one in moved),
        unknown=sum(one.ours.state == "unknown" for one in judged),
    )


def _share(found: Iterator[bool] | Sequence[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 1.0


def _show(name: str, judged: Sequence[Judged]) -> None:
    by_kind: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_kind[one.kind].append(one)
    rows = [_row("all", judged), *(_row(kind, by_kind[kind]) for kind in KINDS if by_kind[kind])]
    columns = (
        "what was done",
        "spans",
        "stale",
        "precision",
        "recall",
        "moved",
        "re-anchored",
        "agree",
        "unknown",
    )
    show(f"Stale memory: {name}", columns, rows)


def _row(kind: str, judged: Sequence[Judged]) -> tuple[object, ...]:
    found = figures(judged)
    stale = sum(one.is_stale for one in judged)
    agree = _share([one.agrees for one in judged])
    shares = (f"{share:.4f}" for share in (found.precision, found.recall))
    return (
        kind,
        found.spans,
        stale,
        *shares,
        found.moved,
        f"{found.anchored:.4f}",
        f"{agree:.4f}",
        found.unknown,
    )


def _show_along(histories: Sequence[History]) -> None:
    """Show how often we agree with blame along the histories, 50 to 2,000 commits apart."""
    found = [
        one
        for history in histories
        for one in outcomes(history.folder, list(fates(history.folder, history.name)))
    ]
    rows = [
        (name, f"{right:,} of {count:,}", f"{right / count:.4f}" if count else "")
        for name, (right, count) in shares(found).items()
    ]
    if found:
        show(f"Along {len(histories)} histories: {len(found):,} spans", ("", "n", "share"), rows)


def _show_times(histories: Sequence[History]) -> None:
    rows = []
    for history in histories:
        old, new = history.pairs[-1]
        listing = files_at(history.folder, old)
        assert listing is not None
        spans = [citation for citation, _ in spans_of(history.folder, old, listing.files)]
        draw = random.Random(3)
        turns = [DialogTurn(citations=tuple(draw.choices(spans, k=5))) for _ in range(1000)]
        times = []
        for _ in range(5):
            began = time.perf_counter()
            state = CommitState(history.folder, new, KeptFiles(MemoryTurnStore(), ""))
            checked = check_turns(turns, {"": state})
            times.append(time.perf_counter() - began)
        states = Counter(one.state for turn in checked for one in turn.checks)
        told = ", ".join(f"{count} {state}" for state, count in states.most_common())
        rows.append(
            (
                history.name,
                f"{len(listing.files):,}",
                f"{statistics.median(times):.2f}",
                f"{max(times):.2f}",
                told,
            )
        )
    show(
        "1,000 turns × 5 citations, one pair of commits",
        ("history", "files", "s (median of 5)", "s (worst)", "found"),
        rows,
    )


def _told(one: Judged) -> str:
    blame = ", ".join(f"{path}:{start}" for path, start in sorted(one.intact)) or "stale"
    old, new = one.pair
    where = f"{one.repository} {old[:10]}..{new[:10]} {one.citation.place}"
    return f"{where} {one.kind}; ours: {one.ours}; blame: {blame}"
