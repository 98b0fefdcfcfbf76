"""An answer and its sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rag.types.citations import Citation
from rag.types.code import Subject
from rag.types.generation import Usage
from rag.types.index import Coverage
from rag.types.retrieval import CodeFacts, Confidence, Hit
from rag.types.support import SupportCheck
from rag.types.turns import DialogTurn, TraceStep

QUOTING = "extractive"
"""The model of an answer without a model, which quotes."""


@dataclass(slots=True)
class Answer:
    """An answer and its sources.

    `sources` are all that were shown, `citations` those that the text refers to; `invented` counts
    references to sources or lines that were not shown (they are removed from the text). `found` is False if
    the repository contains nothing on the question. `warning`, shown before the text, says what was
    not found ("" for none); `missing_words` are words of the question that are missing. `cached` is the id
    of the turn with the original answer, "" for a new answer. `cut` is True if the model reached its token
    limit; if its server ended the answer early, it is not `complete` either. `coverage` has one entry per
    repository. `code_facts` is None if no rule of a kind of question found anything. `subject` is what "it"
    meant in a follow-up, or what the question was set to be about.
    `trace` are the steps towards it, in their order, as its turn has them. `support` is the check of its
    statements, None if no model wrote it. Unpacks as DeepWiki's `(answer, documents)`.
    """

    text: str
    question: str = ""
    standalone_question: str = ""
    sources: tuple[Citation, ...] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    found: bool = True
    invented: int = 0
    complete: bool = True
    notes: tuple[str, ...] = ()
    conversation_id: str = ""
    turn_id: str = ""
    turn_order: int | None = None
    prompt_hash: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    rationale: str = ""
    confidence: Confidence | None = None
    cached: str = ""
    cut: bool = False
    warning: str = ""
    missing_words: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    code_facts: CodeFacts | None = None
    subject: Subject | None = None
    trace: tuple[TraceStep, ...] = ()
    support: SupportCheck | None = None
    hits: tuple[Hit, ...] = ()
    documents: list[Any] = field(default_factory=list)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources that the text refers to."""
        return tuple(source for source in self.sources if source.used)

    @property
    def answer(self) -> str:
        """The text, under DeepWiki's name."""
        return self.text

    def __iter__(self) -> Iterator[Any]:
        return iter((self, self.documents))

    def __getitem__(self, index: int) -> Any:
        return (self, self.documents)[index]

    def __len__(self) -> int:
        return 2

    def __str__(self) -> str:
        return self.text


RAGAnswer = Answer
"""DeepWiki's name; its callers read `.answer` and `.rationale`."""


def with_turn(answer: Answer, turn: DialogTurn) -> Answer:
    """Return the answer with the ids of the turn that it was stored as."""
    return replace(answer, turn_id=turn.id, turn_order=turn.order, conversation_id=turn.conversation_id or "")
