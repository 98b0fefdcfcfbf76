"""The running summary of a conversation. Each turn is added to it once; the turns are not changed.

A model rewrites the summary to include new turns and proposes facts. Without one the summary has a line for
each turn (`extractive_summary`), of which the oldest are dropped. A watermark is the order up to which turns
are included, so that consolidating twice changes nothing. It is valid as long as the summary exists; without
one, consolidation starts with the first turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rag.memory.extractive_summary import newest_that_fit, turn_lines
from rag.memory.facts import Fact, Facts
from rag.memory.messages import SUMMARIES
from rag.memory.recent_turns import turn_tokens
from rag.memory.stated_facts import FACT_LINE, by_model
from rag.parsing import stored_number, stored_text
from rag.ports import MemoryStore, RecordStore, TokenCounter
from rag.types import Conversation, DialogTurn

WATERMARKS = "summary-upto"
"""The shelf of watermarks; keys are conversation ids, values orders in decimal."""

SUMMARY_TOKENS = 800
BATCH_TOKENS = 6_000
"""The maximum size of new turns in a prompt; a single turn may be larger."""

Writer = Callable[[str, Sequence[DialogTurn]], str]
"""Returns a model's reply, given the summary and new turns: a summary, and lines with facts."""

_HEADING = re.compile(r"^\W*(summary|facts)\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Consolidated:
    """The result of consolidating: the summary, the number of turns added, and the proposed facts."""

    summary: str
    turns: int
    facts: tuple[Fact, ...] = ()


def consolidate(
    store: MemoryStore,
    conversation: Conversation,
    turns: Sequence[DialogTurn],
    *,
    counter: TokenCounter,
    writer: Writer | None = None,
    summary_tokens: int = SUMMARY_TOKENS,
) -> Consolidated:
    """Add turns to a conversation's summary; store it with the facts and the watermark.

    Args:
        store: contains the conversation.
        conversation: the conversation of the turns.
        turns: oldest first; interrupted ones, and those already included, are skipped.
        counter: counts the tokens of the summary.
        writer: calls a model; None writes an extractive summary.
        summary_tokens: the maximum size; an extractive summary loses its oldest lines, a model's its end.

    Raises:
        ProviderError: the model failed; the batches before are stored.
    """
    namespace = conversation.namespace
    upto = watermark(store, conversation)
    new = [turn for turn in turns if (turn.order or 0) > upto]
    complete = [turn for turn in new if turn.complete]
    summary = _summary(store, conversation)
    facts: list[Fact] = []
    if not complete:
        return Consolidated(summary, 0)
    if writer is None:
        lines = [*summary.splitlines(), *turn_lines(complete)]
        summary = "\n".join(newest_that_fit(lines, budget_tokens=summary_tokens, counter=counter))
        _store(store, conversation, summary, new[-1].order or 0)
        return Consolidated(summary, len(complete))
    for batch in _batches(complete, counter):
        reply = writer(summary, batch)
        summary = _beginning(summary_in(reply), summary_tokens, counter) or summary
        found = by_model(reply, batch, [source.location for source in conversation.sources])
        facts += Facts(store, namespace=namespace).add([replace(one, state="proposed") for one in found])
        _store(store, conversation, summary, batch[-1].order or 0)
    return Consolidated(summary, len(complete), tuple(facts))


def watermark(store: MemoryStore, conversation: Conversation) -> int:
    """Return the order up to which turns are included in the summary; -1 if there is none."""
    if not _summary(store, conversation):
        return -1
    found = store.records([conversation.id], shelf=WATERMARKS, namespace=conversation.namespace)
    return stored_number(found.get(conversation.id), -1)


def forget_summary(store: RecordStore, conversation: str, order: int | None, *, namespace: str = "") -> bool:
    """Delete a conversation's summary if it includes turns of this order or later; None: in any case.

    Return False if there is nothing to delete. A summary without a watermark is only deleted for None.
    """
    if order is not None:
        found = store.records([conversation], shelf=WATERMARKS, namespace=namespace)
        if stored_number(found.get(conversation), -1) < order:
            return False
    store.delete_records([conversation], shelf=WATERMARKS, namespace=namespace)
    return store.delete_records([conversation], shelf=SUMMARIES, namespace=namespace) > 0


def summary_in(reply: str) -> str:
    """Return the summary in a model's reply: what is no heading, and no fact (see `by_model`)."""
    lines = [
        line.rstrip()
        for line in reply.strip().splitlines()
        if not (FACT_LINE.match(line) or _HEADING.match(line))
    ]
    return re.sub(r"^\W*summary\W*:\W*", "", "\n".join(lines).strip(), flags=re.IGNORECASE)


def _batches(turns: Sequence[DialogTurn], counter: TokenCounter) -> list[list[DialogTurn]]:
    batches: list[list[DialogTurn]] = []
    left = 0
    for turn in turns:
        cost = turn_tokens(turn, counter)
        if not batches or cost > left:
            batches.append([])
            left = BATCH_TOKENS
        batches[-1].append(turn)
        left -= cost
    return batches


def _beginning(text: str, budget_tokens: int, counter: TokenCounter) -> str:
    """Return the first lines that fit into a budget."""
    lines = text.splitlines()
    while lines and counter.count("\n".join(lines)) > budget_tokens:
        lines.pop()
    return "\n".join(lines)


def _summary(store: MemoryStore, conversation: Conversation) -> str:
    found = store.records([conversation.id], shelf=SUMMARIES, namespace=conversation.namespace)
    return stored_text(found.get(conversation.id, b""))


def _store(store: MemoryStore, conversation: Conversation, summary: str, upto: int) -> None:
    """Store the summary, then the watermark: after a crash between them turns are repeated, not lost."""
    namespace, ttl_s = conversation.namespace, conversation.ttl_s
    record = {conversation.id: summary.encode("utf-8", "surrogatepass")}
    store.put_records(record, shelf=SUMMARIES, namespace=namespace, ttl_s=ttl_s)
    mark = {conversation.id: str(upto).encode()}
    store.put_records(mark, shelf=WATERMARKS, namespace=namespace, ttl_s=ttl_s)
