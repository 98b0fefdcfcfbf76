"""A conversation's running summary, brought up to date: each turn goes into it once, and stays as it was.

With a model the summary is rewritten to hold the new turns too, and the model names facts that will be of use
later. Without one each turn is a line (`extractive_summary`), the oldest of which give way. A watermark says
up to which order turns are in the summary, so that consolidating twice changes nothing. It counts as long as
there is a summary: once that is taken away, the next begins with the first turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.memory.extractive_summary import newest_that_fit, turn_lines
from rag.memory.facts import Fact, Facts
from rag.memory.messages import SUMMARIES
from rag.memory.recent_turns import turn_tokens
from rag.ports import MemoryStore, RecordStore, TokenCounter
from rag.types import Conversation, DialogTurn

WATERMARKS = "summary-upto"
"""The shelf of watermarks; keys are conversation ids, values orders in decimal."""

SUMMARY_TOKENS = 800
BATCH_TOKENS = 6_000
"""So much of new turns a model is shown at a time; one turn always."""

Writer = Callable[[str, Sequence[DialogTurn]], str]
"""Gives a model's reply to the summary so far and new turns, see `read_reply`."""

_HEADING = re.compile(r"^\W*(summary|facts)\W*$", re.IGNORECASE)
_FACT = re.compile(r"^\s*(?:[-*•]|\d+[.)])?\s*\[(\d+)\]\s*(\S.*)$")


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What consolidating came to: the summary, how many turns are new in it, and the facts that are new."""

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
    """Take turns into a conversation's summary; store it, the facts and the watermark.

    Args:
        store: where the conversation is.
        conversation: whose turns they are.
        turns: oldest first; those that are in the summary already are left out, and those that broke off.
        counter: counts what the summary costs.
        writer: asks a model; None makes a digest.
        summary_tokens: what the summary may cost; what is older is cut off first, of a model's the end.

    Raises:
        ProviderError: the model failed; what was consolidated before it did is kept.
    """
    namespace = conversation.namespace
    upto = watermark(store, conversation)
    new = [turn for turn in turns if (turn.order or 0) > upto]
    said = [turn for turn in new if turn.complete]
    summary = _summary(store, conversation)
    facts: list[Fact] = []
    if not said:
        return Consolidated(summary, 0)
    if writer is None:
        lines = [*summary.splitlines(), *turn_lines(said)]
        summary = "\n".join(newest_that_fit(lines, budget_tokens=summary_tokens, counter=counter))
        _store(store, conversation, summary, new[-1].order or 0)
        return Consolidated(summary, len(said))
    for batch in _batches(said, counter):
        written, named = read_reply(writer(summary, batch))
        summary = _beginning(written, summary_tokens, counter) or summary
        found = [fact for n, text in named for fact in _fact(n, text, batch, conversation)]
        facts += Facts(store, namespace=namespace).add(found)
        _store(store, conversation, summary, batch[-1].order or 0)
    return Consolidated(summary, len(said), tuple(facts))


def watermark(store: MemoryStore, conversation: Conversation) -> int:
    """The order up to which turns are in the summary; -1 when there is none."""
    if not _summary(store, conversation):
        return -1
    found = store.records([conversation.id], shelf=WATERMARKS, namespace=conversation.namespace)
    return int(found.get(conversation.id, b"-1"))


def forget_summary(store: RecordStore, conversation: str, order: int | None, *, namespace: str = "") -> bool:
    """Forget a conversation's summary, if turns of this order or later are in it; None: in any case.

    False where there is nothing to forget. A summary that was not consolidated stays, but for None.
    """
    if order is not None:
        found = store.records([conversation], shelf=WATERMARKS, namespace=namespace)
        if int(found.get(conversation, b"-1")) < order:
            return False
    store.delete_records([conversation], shelf=WATERMARKS, namespace=namespace)
    return store.delete_records([conversation], shelf=SUMMARIES, namespace=namespace) > 0


def read_reply(reply: str) -> tuple[str, list[tuple[int, str]]]:
    """A model's summary, and the facts it names, each with the number of the turn it is from.

    Lines such as `- [3] The token lives an hour.` are facts, below a heading or not; the rest is summary.
    """
    lines, facts = [], []
    for line in reply.strip().splitlines():
        if named := _FACT.match(line):
            facts.append((int(named[1]), named[2].strip()))
        elif not _HEADING.match(line):
            lines.append(line.rstrip())
    return re.sub(r"^\W*summary\W*:\W*", "", "\n".join(lines).strip(), flags=re.IGNORECASE), facts


def _fact(order: int, text: str, turns: Sequence[DialogTurn], conversation: Conversation) -> list[Fact]:
    """The fact, bound to the lines that its turn cites; none for a turn that was not shown."""
    turn = next((one for one in turns if one.order == order), None)
    if turn is None:
        return []
    return fact_from_turn(text, turn, conversation)


def fact_from_turn(text: str, turn: DialogTurn, conversation: Conversation) -> list[Fact]:
    """A fact bound to the lines that a turn's answer refers to, in the repository it refers to most.

    None when turn and conversation name no repository.
    """
    used = [one for one in turn.citations if one.used] or list(turn.citations)
    about = Counter(one.location for one in used) or Counter(s.location for s in conversation.sources[:1])
    if not about:
        return []
    location = about.most_common(1)[0][0]
    cited = tuple(one for one in used if one.location == location)
    return [Fact(text, location, turn=turn.id, citations=cited)]


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
    """The first lines that fit into a budget."""
    lines = text.splitlines()
    while lines and counter.count("\n".join(lines)) > budget_tokens:
        lines.pop()
    return "\n".join(lines)


def _summary(store: MemoryStore, conversation: Conversation) -> str:
    found = store.records([conversation.id], shelf=SUMMARIES, namespace=conversation.namespace)
    return found.get(conversation.id, b"").decode("utf-8", "surrogatepass")


def _store(store: MemoryStore, conversation: Conversation, summary: str, upto: int) -> None:
    """Store the summary, then the watermark: what fails between them is said twice, never lost."""
    namespace, ttl_s = conversation.namespace, conversation.ttl_s
    record = {conversation.id: summary.encode("utf-8", "surrogatepass")}
    store.put_records(record, shelf=SUMMARIES, namespace=namespace, ttl_s=ttl_s)
    mark = {conversation.id: str(upto).encode()}
    store.put_records(mark, shelf=WATERMARKS, namespace=namespace, ttl_s=ttl_s)
