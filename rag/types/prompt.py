"""A prompt and the question that it was made for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rag.types.code import Subject
from rag.types.generation import GenerationOptions, ToolChat
from rag.types.retrieval import CodeFact, CodeFacts, Confidence, Hit
from rag.types.turns import Conversation, DialogTurn, TraceStep


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A hit and its number in the prompt."""

    n: int
    hit: Hit


def source_of(fact: CodeFact, sources: Iterable[NumberedSource]) -> int:
    """Return the number of the source that holds the first line of a fact; 0 if none does."""
    for source in sources:
        hit = source.hit
        same_file = (hit.location, hit.path) == (fact.location, fact.path)
        if same_file and hit.start <= fact.start <= hit.end:
            return source.n
    return 0


@dataclass(frozen=True, slots=True)
class PlaceNote:
    """What the code and its documentation say of a source, for an answer without a model.

    `line` is where its definition begins, 0 if it is none. `sentences` are the first sentences of its
    documentation, or of the paragraphs of a document, each with its line. `callers` and `callees` are names
    of definitions that certainly call it, and that it certainly calls; `members` those of a class.
    `signature` is its head on one line, of a value its declaration; `word` is what its language calls it.
    """

    line: int = 0
    sentences: tuple[tuple[int, str], ...] = ()
    callers: tuple[str, ...] = ()
    callees: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    signature: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt for a model, with a record of what it contains.

    `text` is the rendered template, "" if no model reads it; `sources` are the numbered sources (best first)
    and `turns` the earlier turns (oldest first) that fit into it; `dropped_*` count those that did not.
    """

    text: str
    sources: tuple[NumberedSource, ...]
    turns: tuple[DialogTurn, ...]
    tokens: int
    answer_tokens: int
    dropped_sources: int = 0
    dropped_turns: int = 0

    @property
    def hash(self) -> str:
        """SHA-256 of the text, "" without a text."""
        return self.text and hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Rewording:
    """A question as a model rewrites it for the search.

    `standalone` is the question in English and without its conversation; "" if it is searched as typed.
    `phrasings` are texts with the words that the code itself may use, searched besides the question.
    `seconds` is the time of the model's request, also if nothing came of it.
    """

    standalone: str = ""
    phrasings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question with everything a generator needs: the result of retrieval and prompt rendering.

    `conversation` is None before its first turn; `confidence` is None if it was not computed. `quotes` is the
    extractive answer, in pieces, if it was written along with the rest. `code_facts` is None for a question
    of no known kind, or if its rules found nothing. `subject` is what "it" means. `options` are what the
    caller asks of the model, `steps` those of a second look. `warning` is that of the answer, `rewording`
    the question as a model rewrote it. `chat` is what is sent instead of the prompt's text to a model that
    may call tools. `notes` are those of the first sources, by number; none with a model.
    """

    question: str
    standalone_question: str
    conversation: Conversation | None
    hits: tuple[Hit, ...]
    prompt: Prompt
    seconds: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence | None = None
    quotes: tuple[str, ...] | None = None
    code_facts: CodeFacts | None = None
    subject: Subject | None = None
    options: GenerationOptions = field(default_factory=GenerationOptions)
    steps: tuple[TraceStep, ...] = ()
    warning: str = ""
    rewording: Rewording = Rewording()
    chat: ToolChat | None = None
    notes: Mapping[int, PlaceNote] = field(default_factory=dict)
