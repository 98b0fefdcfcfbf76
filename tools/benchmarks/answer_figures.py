"""What can be counted in answers without judging them: claims, references shown, invented names, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag.answer.markdown import closes_fence, code_spans, opened_fence

Record = Mapping[str, Any]
"""One answer as it is kept: see `tools.benchmarks.answers`."""

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*(?:\s*\[[\d,; -]+\])*\s+(?=[A-Z`\"'(*])")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_CODE = re.compile(
    r"`[^`\n]+`|\b\w+\([^()\n]*\)|\b\w+\.\w+\.?\w*\b|\b[a-z]+[A-Z]\w*|\b\w+_\w+|\b[A-Z]\w+[A-Z]\w*"
)
_REFERENCE = re.compile(r"\[\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]|[\w./-]+\.\w+:\d+")
_NAME = re.compile(r"[A-Za-z_$][\w$.:/-]*(?:\([^()]*\))?")
_PART = re.compile(r"[A-Za-z_$][\w$]{2,}")
_REFUSAL = re.compile(
    r"\b(?:not|n't|no)\b[^.]{0,60}\b(?:show|shown|contain|mention|mentioned|provide|provided|include|included"
    r"|found|find|information|evidence|support|implement|implemented|exist|have|present|determine|specified)\b"
    r"|\bnot found\b|\bno (?:\w+ ){0,3}(?:code|function|class|option|information|mention)\b"
    r"|\bcannot\b|\bunable to\b",
    re.IGNORECASE,
)
MAX_FILE_BYTES = 1_000_000


def claims(text: str) -> list[str]:
    """Return the sentences and list items that name code, outside fences, headings and questions, in order.

    A sentence names code if it has a code span, a call, a dotted, underscored or mixed-case name.
    """
    found = []
    for line in _prose(text):
        for sentence in _SENTENCE.split(_ITEM.sub("", line)):
            plain = sentence.strip()
            if len(plain.split()) > 3 and not plain.endswith(("?", ":")) and _CODE.search(plain):
                found.append(plain)
    return found


def is_cited(claim: str, paths: Sequence[str] = ()) -> bool:
    """Return whether a claim refers to a source by number or `path:line`, or names one of the shown paths."""
    return bool(_REFERENCE.search(claim)) or any(path in claim for path in paths)


def _prose(text: str) -> Iterator[str]:
    fence = None
    for line in text.splitlines():
        if fence is None:
            if (fence := opened_fence(line)) is None and not line.lstrip().startswith("#"):
                yield line
        elif closes_fence(line, fence):
            fence = None


def words_of(folder: Path) -> frozenset[str]:
    """Return the names of at least three characters in the files of a folder, of at most 1 MB each."""
    words: set[str] = set()
    for path in folder.rglob("*"):
        words.update(_PART.findall(path.name))
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            words.update(_PART.findall(path.read_bytes().decode("utf-8", errors="replace")))
    return frozenset(words)


def invented_names(text: str, known: frozenset[str], question: str) -> list[str]:
    """Return the names between backticks with a part that is neither in `known` nor in the question."""
    allowed = known | {*_PART.findall(question)}
    found = []
    for line in _prose(text):
        for start, end in code_spans(line):
            name = line[start:end].strip("`").strip()
            if _NAME.fullmatch(name) and any(part not in allowed for part in _PART.findall(name)):
                found.append(name)
    return list(dict.fromkeys(found))


def is_refusal(record: Record) -> bool:
    """Return whether the answer was "not found", or a model begins by saying that nothing is there."""
    if not record["found"] or not record["model"]:
        return not record["found"]
    return bool(_REFUSAL.search(" ".join(re.split(r"(?<=[.!?])\s+", record["text"].strip())[:2])))


def lines_shown(record: Record) -> float | None:
    """Return the share of the reference's lines that were shown; None without a reference."""
    wanted = {
        (place["path"], line)
        for fact in record["facts"]
        for place in fact["places"]
        for line in range(place["start_line"], place["end_line"] + 1)
    }
    shown = {
        (one["path"], line)
        for one in record["sources"]
        for line in range(one["start_line"], one["end_line"] + 1)
    }
    return len(wanted & shown) / len(wanted) if wanted else None


def share(values: Sequence[float | bool]) -> str:
    """Return the mean to two places and the number, "-" for none."""
    return f"{sum(values) / len(values):.2f} ({len(values)})" if values else "-"


def row(arm: str, records: Sequence[Record], known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the figures of one arm in the order of COLUMNS. `known`: repository → its names."""
    written = [one for one in records if one["model"] and not is_refusal(one)]
    cited = [
        is_cited(claim, [source["path"] for source in one["sources"]])
        for one in written
        for claim in claims(one["text"])
    ]
    invented = [
        bool(invented_names(one["text"], known[one["repo"]], " ".join([*one["history"], one["question"]])))
        for one in records
        if one["model"]
    ]
    shown = [part for one in records if (part := lines_shown(one)) is not None]
    refused = [is_refusal(one) for one in records if not one["facts"]]
    wrongly = [is_refusal(one) for one in records if one["facts"]]
    warned = [is_refusal(one) or bool(one["warning"]) for one in records if not one["facts"]]
    tokens = [one["prompt_tokens"] + one["answer_tokens"] for one in records]
    return [
        arm,
        str(len(records)),
        share(cited),
        share(shown),
        share(invented),
        share(refused),
        share(warned),
        share(wrongly),
        f"{sum(tokens) / max(1, len(tokens)):.0f}",
        f"{sum(one['seconds'] for one in records) / max(1, len(records)):.0f}",
    ]


COLUMNS = (
    "arm",
    "n",
    "claims cited",
    "reference lines shown",
    "invented names",
    "refused, no answer exists",
    "refused or warned",
    "refused, an answer exists",
    "tokens",
    "s",
)
