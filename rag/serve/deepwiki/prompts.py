"""Parses the prompts of deepwiki-open's frontend, which sends every request as a prompt:

plan        "… Return your analysis in the following XML format: <wiki_structure> …"
page        "… the main title of the page should be a H1 Markdown heading: `# TITLE` …", with its files
research    a question that begins with `[DEEP RESEARCH]`, continued until the client has enough
task        slides or a workshop, from the text of a wiki in the prompt
question    everything else
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag.serve.errors import BadRequest
from rag.serve.openai.messages import read_messages

Kind = Literal["plan", "page", "research", "task", "question"]
Pair = tuple[str, str]

RESEARCH = "[DEEP RESEARCH]"
LAST_STAGE = 5
SOURCES = "\n\n**Sources**\n\n"
"""Separates an answer from the list of its sources."""
SEARCHED = "\n\n(Searched: "
"""Begins the last line of an answer: what was searched."""

_PLAN_BEGINS, _PLAN_ENDS = "<wiki_structure>", "</wiki_structure>"
_TITLE = "should be a H1 Markdown heading: `# "
_FILES = "used as context for generating this wiki page:"
_TASKS = (
    "Create an engaging outline for a high-quality marketing slide presentation",
    "Create a single HTML slide",
    "Create a comprehensive workshop",
)
_HEADING = re.compile(r"\A## (?:Research Plan|Research Update \d+|Final Conclusion)\n\n")
_SOURCE_LINES = re.compile(r"(?:- \[\d+\] .*(?:\n|\Z))+")
_MAX_TITLE_CHARS = 200
_MAX_FILES = 200
_MAX_LINES = 1_000
_MAX_LINE_CHARS = 5_000


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A parsed request.

    `text` is the question, or the whole prompt; `history` the exchanges before it, as they were stored.
    `title` and `files` belong to a page. `is_concise` means a plan with few pages. `stage` is the number of
    a research answer, from 1.
    """

    kind: Kind
    text: str
    history: tuple[Pair, ...] = ()
    title: str = ""
    files: tuple[str, ...] = ()
    is_concise: bool = False
    stage: int = 0


def parse_request(messages: Sequence[tuple[str, object]]) -> ParsedRequest:
    """Parse the messages of a request.

    Raises:
        BadRequest: there is no question, or the last message is an answer.
    """
    if not messages:
        raise BadRequest("No messages provided")
    if messages[-1][0] != "user":
        raise BadRequest("Last message must be from the user")
    read = read_messages(messages)
    text = read.question
    if "<file_tree>" in text and _PLAN_ENDS in (plan := text.partition(_PLAN_BEGINS)[2]):
        return ParsedRequest("plan", text, is_concise="<sections>" not in plan)
    if title := _title(text):
        return ParsedRequest("page", text, title=title, files=_files(text))
    if text.startswith(_TASKS):
        return ParsedRequest("task", text)
    history = tuple((question, as_stored(answer)) for question, answer in read.history)
    if any(asked.startswith(RESEARCH) for asked in (text, *(question for question, _ in history))):
        return _research(text, history)
    return ParsedRequest("question", text, history)


def _title(prompt: str) -> str:
    """Return the requested title of a page, or ""."""
    line = prompt.partition(_TITLE)[2].partition("\n")[0].rstrip()
    return line[:-2].strip()[:_MAX_TITLE_CHARS] if line.endswith("`.") else ""


def _files(prompt: str) -> tuple[str, ...]:
    """Return the files that a page should be about: `- [PATH](URL that ends with PATH)`."""
    paths = []
    for line in prompt.partition(_FILES)[2].partition("</details>")[0].split("\n")[:_MAX_LINES]:
        line = line.strip()
        if len(line) > _MAX_LINE_CHARS or not (line.startswith("- [") and line.endswith(")")):
            continue
        inside = line[3:-1]
        ends = [at.start() for at in re.finditer(r"\]\(", inside)]
        path = next((inside[:end] for end in ends if inside[end + 2 :].endswith(inside[:end])), None)
        paths.append(path if path is not None else inside.partition("](")[0])
    return tuple(dict.fromkeys(paths))[:_MAX_FILES]


def _research(text: str, history: Sequence[Pair]) -> ParsedRequest:
    """Return the next stage of a research on its first question; later messages only ask to continue."""
    first = history[0][0] if history else text
    topic = first.removeprefix(RESEARCH).strip()
    if not topic:
        raise BadRequest("the research has no topic; write a question after [DEEP RESEARCH]")
    stage = len(history) + 1
    asked = [_research_question(topic, n) for n in range(1, stage + 1)]
    before = tuple((question, answer) for question, (_, answer) in zip(asked, history, strict=False))
    return ParsedRequest("research", asked[-1], before, stage=stage)


def _research_question(topic: str, stage: int) -> str:
    if stage == 1:
        return topic
    if stage >= LAST_STAGE:
        return f"What does it all come to: {topic}"
    return f"What else is there to know, beyond what was said: {topic}"


def research_heading(stage: int, *, is_last: bool) -> str:
    """Return the heading by which the client recognises a stage."""
    if is_last:
        return "## Final Conclusion\n\n"
    return "## Research Plan\n\n" if stage == 1 else f"## Research Update {stage}\n\n"


def as_stored(answer: str) -> str:
    """Return an answer as it was stored: without the heading, the sources and what was searched."""
    text, marked, tail = answer.rstrip("\n").rpartition(SEARCHED)
    if marked and tail.endswith(")") and "\n" not in tail:
        answer = text
    text, marked, tail = answer.rpartition(SOURCES)
    if marked and _SOURCE_LINES.fullmatch(tail.strip("\n")):
        answer = text
    return _HEADING.sub("", answer)
