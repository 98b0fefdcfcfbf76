"""Ask a model, before the search, for a question as the code would say it.

One short request: in a follow-up, or for a question that is not in English, the model also writes the
question itself, without its conversation. The reply is untrusted text; it only decides what is searched.
"""

from __future__ import annotations

from rag.answer.references import with_places
from rag.memory.recent_turns import window
from rag.prompt.rewording import read_rewording
from rag.prompt.templates import render_reword
from rag.retrieval.answerability import judge
from rag.retrieval.context import CARRY, in_context
from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.question import parse_question
from rag.retrieval.relations import is_relation
from rag.retrieval.working_set import plausible
from rag.service.loop.dialog import HISTORY_SHARE, SHOWN_HITS, Dialog, answered
from rag.service.loop.trace import STANDALONE
from rag.service.tools.frame import frames_of
from rag.types import DialogTurn, Rewording
from rag.types.question_kinds import LIST

MAX_TOKENS = 160
"""The length of the reply."""
MAX_SECONDS = 30.0
"""A slower reply is not waited for."""
_PHRASINGS = 3
_SURE = 0.6
"""The probability of a right first place from which a search needs no other words: of 31 such questions of
`tools/questions/kinds/dev.jsonl`, 30 found their place first.
"""


def is_alone(dialog: Dialog, question: str) -> bool:
    """Return whether a question is understood as it is: in English, and with no answered turn before it."""
    return not (answered(dialog.turns()) or dialog.is_foreign(question))


def reword_prompt(dialog: Dialog, question: str) -> str | None:
    """Return the prompt that asks a model to rewrite a question; None if there is nothing to ask.

    None for "And who calls it?", which is answered best from the call graph; for what the places of the
    conversation answer; if the user has set the subject; and for a question that needs no conversation if its
    names are defined here, nothing is found, or the search is sure of its first place.
    """
    selection, settings = dialog.selection, dialog.engine.settings
    past = dialog.past()
    sought = in_context(parse_question(question), dialog.exchanges(past), CARRY)
    if dialog.subject or (selection and selection.about) or is_relation(sought.question) or sought.recalls:
        return None
    if is_alone(dialog, question) and (not settings.reword or _needs_no_words(dialog, question)):
        return None
    budget = int(settings.context_tokens * HISTORY_SHARE)
    turns = window(answered(past), budget_tokens=budget, counter=dialog.engine.counter)
    return render_reword(
        settings.home,
        question=question,
        turns=[with_places(turn) for turn in turns],
        about=[place.name for place in plausible(sought.about)],
        is_foreign=dialog.is_foreign(question),
        frames=frames_of(dialog.repositories, with_names=True),
        phrasings=_PHRASINGS if settings.reword else 0,
    )


def _needs_no_words(dialog: Dialog, question: str) -> bool:
    """Return whether a question without a conversation is searched well, or in vain, as it is."""
    searchers = [repository.searcher for repository in dialog.searched]
    names = parse_question(question).names
    if any(searcher.defines(name) for searcher in searchers for name in names):
        return True
    found = dialog.search(question, k=SHOWN_HITS, turns=())
    confidence = judge(searchers, found)
    is_pointed = any(hit.legs.get("pointed") for hit in found.ranked[:1])
    is_sure = (confidence.first_right or 0.0) >= _SURE
    return is_pointed or is_sure or (dialog.engine.settings.gate and not confidence.found)


def reworded(dialog: Dialog, question: str, reply: str, seconds: float) -> Rewording:
    """Return what a model's reply says. A standalone question must ask for a list if the typed one does."""
    found = read_rewording(reply, question, leans=not is_alone(dialog, question))
    phrasings = found.phrasings if dialog.engine.settings.reword else ()
    is_shorter = LIST in kinds_of(question) and LIST not in kinds_of(found.standalone)
    return Rewording("" if is_shorter else found.standalone, phrasings, seconds)


def rewording_of(turn: DialogTurn) -> Rewording:
    """Return the model's rewording with which the answer of a turn was searched; empty if there was none."""
    standalone = next((step.result for step in turn.trace if step.name == STANDALONE), "")
    return Rewording(standalone, tuple(step.query for step in turn.trace if step.is_phrasing))
