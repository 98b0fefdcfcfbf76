"""The bytes of cited files, kept once by blob id as long as a turn cites them.

Git may lose them (a shallow clone, a branch that was rewritten), and never had those of a dirty work tree or
a plain folder. Without them nobody could say later what became of the lines.

A store tells nobody when a conversation expires. What its turns cite is therefore noted, and removed with the
first turn of the next conversation that expires, and at the end of commands. Where no conversation expires
there are no notes, and questions cost nothing. Prompts expire by the store's own clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from rag.answer_cache.cache import GIVEN_IN, AnswerCache
from rag.corpus.git import GitError
from rag.corpus.history import keep_commits, read_blobs
from rag.corpus.read import file_bytes
from rag.errors import NotFound, SourceError, StoreError
from rag.memory.consolidate import forget_summary
from rag.memory.facts import cited_blobs
from rag.ports import Marks, MemoryStore
from rag.service.engine import Engine, Repository
from rag.types import Citation, Conversation, DialogTurn, Prompt, blob_id

SHELF = "blob"
PROMPTS = "prompt"
"""The shelf of what models were shown; keys are turn ids, values compressed text."""
EXPIRING = "expiring"
"""The shelf of what turns cite whose conversation expires; keys are its id, values blob ids, a line each."""
_DELETE_BATCH_TURNS = 500
"""So many turns are deleted by one call: where one call is served at a time, others wait no longer."""
_PROMPT_LEVEL = 1
"""How hard a prompt is compressed: a third of the time of the usual level, for a tenth more bytes."""


class KeptFiles:
    """The cited files of one namespace, in the store that holds its turns."""

    def __init__(self, store: MemoryStore, namespace: str) -> None:
        self._store, self._namespace = store, namespace

    def missing(self, blobs: Collection[str]) -> set[str]:
        """Those of the blobs that are not kept."""
        wanted = set(blobs) - {""}
        kept = self._store.has_records(sorted(wanted), shelf=SHELF, namespace=self._namespace)
        return wanted - kept

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Keep these bytes by their blob ids. The turn that cites them must be stored already."""
        records = {blob: zlib.compress(content) for blob, content in files.items()}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)

    def contents(self, blobs: Collection[str]) -> dict[str, bytes]:
        """The bytes of those of the blobs that are kept."""
        return {blob: zlib.decompress(record) for blob, record in self._records(blobs).items()}

    def release(self, blobs: Iterable[str]) -> int:
        """Remove those that no turn and no fact cites any more; return how many there were."""
        gone = 0
        wanted = [blob for blob in dict.fromkeys(blobs) if blob]
        of_facts = cited_blobs(self._store, self._namespace) if wanted else set()
        for blob in wanted:
            if blob in of_facts or self._is_cited(blob):
                continue
            record = self._records([blob])
            gone += self._store.delete_records([blob], shelf=SHELF, namespace=self._namespace)
            if record and self._is_cited(blob):  # another process has stored a turn that cites it meanwhile
                self._store.put_records(record, shelf=SHELF, namespace=self._namespace)
                gone -= 1
        return gone

    def sweep(self) -> int:
        """Remove all that no turn and no fact cites any more, whatever it was kept for; return how many.

        Prompts and cached answers of turns that no conversation shows go too; they are not counted.
        """
        for shelf in (PROMPTS, GIVEN_IN):
            said = self._store.scan_records(shelf=shelf, namespace=self._namespace)
            _forget_said(self._store, [turn for turn, _ in said], self._namespace)
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace)
        return self.release(blob for blob, _ in kept)

    def expect(self, conversation: Conversation, blobs: Collection[str]) -> None:
        """Note what turns of a conversation cite, if it expires. With its first note others are swept."""
        if conversation.ttl_s is None or not blobs:
            return
        lines = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
        if self._note(conversation.id, lines) == len(lines):
            self.sweep_expired()

    def sweep_expired(self) -> int:
        """Remove what only conversations cited that have expired; return how many files there were.

        What such a conversation's forks still show is noted for those that expire.
        """
        noted = self._store.scan_records(shelf=EXPIRING, namespace=self._namespace)
        living = (
            {one.id: one for one in self._store.conversations(namespace=self._namespace)} if noted else {}
        )
        forks = [one.id for one in living.values() if one.parent is not None and one.ttl_s is not None]
        gone = 0
        for conversation, lines in noted:
            if conversation in living:
                continue
            blobs = set(lines.decode().split())
            gone += self.release(blobs)
            if shown := blobs - self.missing(blobs):
                for fork in forks:
                    self._note(fork, "".join(f"{blob}\n" for blob in sorted(shown)).encode())
            self._store.delete_records([conversation], shelf=EXPIRING, namespace=self._namespace)
        return gone

    def _note(self, conversation: str, lines: bytes) -> int:
        return self._store.append_record(conversation, lines, shelf=EXPIRING, namespace=self._namespace)

    def _records(self, blobs: Collection[str]) -> dict[str, bytes]:
        wanted = [blob for blob in blobs if blob]
        return self._store.records(wanted, shelf=SHELF, namespace=self._namespace) if wanted else {}

    def _is_cited(self, blob: str) -> bool:
        return bool(self._store.citing(namespace=self._namespace, blob=blob))


def blobs_of(turns: Iterable[DialogTurn]) -> set[str]:
    """The blobs that the turns cite."""
    return {citation.blob for turn in turns for citation in turn.citations if citation.blob}


def keep_cited(
    engine: Engine,
    repositories: Sequence[Repository],
    citations: Sequence[Citation],
    conversation: Conversation,
) -> None:
    """Keep what a stored turn of a conversation cites: the files' bytes, and in our own clones their commits.

    The bytes are read from the disk if they are still those that were cited, else from git. What cannot be
    kept is told, and costs no turn.
    """
    kept = KeptFiles(engine.turns, engine.settings.namespace)
    try:
        kept.expect(conversation, {citation.blob for citation in citations if citation.blob})
        wanted = kept.missing({citation.blob for citation in citations})
        for repository in repositories:
            checkout = repository.checkout
            mine = [c for c in citations if c.location == repository.source.location and c.blob in wanted]
            files = {}
            for citation in mine:
                content = file_bytes(checkout.root, citation.path)
                if content is not None and blob_id(content) == citation.blob:
                    files[citation.blob] = content
            if checkout.commit and (rest := {c.blob for c in mine} - files.keys()):
                files |= read_blobs(checkout.root, rest)
            kept.keep(files)
            if checkout.commit and checkout.root.is_relative_to(engine.settings.home.resolve() / "repos"):
                keep_commits(checkout.root, [checkout.commit])
    except (StoreError, SourceError, GitError) as error:
        engine.notice(
            f"what this answer cites could not be kept, so it may not be comparable later ({error})"
        )


def keep_prompt(engine: Engine, turn: DialogTurn, prompt: Prompt, *, ttl_s: float | None = None) -> None:
    """Keep what the model was shown for a stored turn. What cannot be kept is told, and costs no turn.

    Nothing is kept for a turn that was not answered from this prompt.
    """
    if turn.prompt_hash != prompt.hash:
        return
    record = {turn.id: zlib.compress(prompt.text.encode("utf-8", "surrogatepass"), _PROMPT_LEVEL)}
    try:
        engine.turns.put_records(record, shelf=PROMPTS, namespace=turn.namespace, ttl_s=ttl_s)
    except StoreError as error:
        engine.notice(f"what the model was shown could not be kept ({error})")


def kept_prompt(engine: Engine, turn: DialogTurn) -> str | None:
    """What the model was shown for a turn; None where that was not kept."""
    found = engine.turns.records([turn.id], shelf=PROMPTS, namespace=turn.namespace)
    return zlib.decompress(found[turn.id]).decode("utf-8", "surrogatepass") if found else None


def forget(store: MemoryStore, turns: Sequence[DialogTurn], namespace: str) -> None:
    """Remove what was kept for turns that are gone: files that only they cited, prompts, cached answers."""
    KeptFiles(store, namespace).release(blobs_of(turns))
    _forget_said(store, [turn.id for turn in turns], namespace)


def _forget_said(store: MemoryStore, turns: Sequence[str], namespace: str) -> None:
    """Remove prompts and cached answers of those of the turns, by id, that no conversation shows."""
    for n in range(0, len(turns), _DELETE_BATCH_TURNS):
        some = turns[n : n + _DELETE_BATCH_TURNS]
        shown = store.turns_by_id(some, namespace=namespace)  # by a fork
        gone = [turn for turn in some if turn not in shown]
        store.delete_records(gone, shelf=PROMPTS, namespace=namespace)
        AnswerCache(store, namespace=namespace).forget(gone)


def delete_turn(store: MemoryStore, turn: DialogTurn) -> bool:
    """Delete a turn, and the files that only it cited; False when there was none.

    Summaries that it went into go with it: the next `consolidate` writes them without.
    """
    told_of = _showing(store, turn)
    gone = store.delete_turn(turn.id, namespace=turn.namespace)
    forget(store, [turn], turn.namespace)
    for conversation in told_of:
        forget_summary(store, conversation, turn.order or 0, namespace=turn.namespace)
    return gone


def delete_by_mark(store: MemoryStore, conversation: Conversation, mark: Marks) -> int:
    """Delete turns and messages with one of these marks, as `delete_turn` does; return how many of both.

    Raises:
        NotFound: there is no such conversation.
    """
    namespace = conversation.namespace
    turns = store.turns(conversation.id, namespace=namespace, mark=mark)
    told_of = [(one, turn.order or 0) for turn in turns for one in _showing(store, turn)]
    gone = store.delete_by_mark(conversation.id, mark, namespace=namespace)
    forget(store, turns, namespace)
    for one, order in told_of:
        forget_summary(store, one, order, namespace=namespace)
    return gone


def _showing(store: MemoryStore, turn: DialogTurn) -> list[str]:
    """The conversations that show a turn: its own, and the forks that have inherited it."""
    at, found = turn.order or 0, []
    for one in store.conversations(namespace=turn.namespace):
        if one.id == turn.conversation_id or one.parent is not None:
            with suppress(NotFound):  # deleted in the meantime
                there = store.turns(one.id, namespace=turn.namespace, after=at - 1, before=at + 1)
                found += [one.id for each in there if each.id == turn.id]
    return found


def edit_turn(store: MemoryStore, turn: DialogTurn) -> DialogTurn:
    """Store a new version of a turn; summaries that it went into go, as they tell of the old one.

    So does an answer that was cached for it.

    Raises:
        NotFound: there is no such turn.
    """
    edited = store.edit_turn(turn, namespace=turn.namespace)
    AnswerCache(store, namespace=turn.namespace).forget([turn.id])
    for conversation in _showing(store, edited):
        forget_summary(store, conversation, edited.order or 0, namespace=turn.namespace)
    return edited


def delete_conversation(
    store: MemoryStore, conversation: Conversation, *, last_turn: str | None = None
) -> int:
    """Delete a conversation, and the files that only its turns cited; return how many turns went.

    A long one goes in steps from its end, some hundreds of turns at a time: a server is kept from nobody.
    With each step goes what was kept for its turns. One that was broken off leaves the older turns; call it
    again. With `last_turn` nothing is deleted unless that is the id of its last turn, see `TurnStore.rewind`.

    Raises:
        NotFound: there is none.
        ConversationChanged: its last turn is another one.
    """
    namespace, gone, expected = conversation.namespace, 0, last_turn
    while (
        len(turns := store.turns(conversation.id, namespace=namespace, last=_DELETE_BATCH_TURNS + 1))
        > _DELETE_BATCH_TURNS
    ):
        before, *turns = turns
        first = turns[0].order or 0
        gone += store.rewind(conversation.id, to=before.order or 0, namespace=namespace, last_turn=expected)
        expected = None if expected is None else before.id
        forget(store, turns, namespace)
        forget_summary(store, conversation.id, first, namespace=namespace)
    gone += store.delete_conversation(conversation.id, namespace=namespace, last_turn=expected)
    forget(store, turns, namespace)
    forget_summary(store, conversation.id, None, namespace=namespace)
    return gone


def rewind(store: MemoryStore, conversation: Conversation, *, to: int, last_turn: str | None = None) -> int:
    """Take back what came after order `to`, and the files that only it cited; return how many turns went.

    A summary that one of them went into goes with them. `last_turn` as in `TurnStore.rewind`.

    Raises:
        NotFound: there is no such conversation.
        ConversationChanged: its last turn is another one than `last_turn`; nothing went.
    """
    namespace = conversation.namespace
    turns = store.turns(conversation.id, namespace=namespace, after=to)
    gone = store.rewind(conversation.id, to=to, namespace=namespace, last_turn=last_turn)
    forget(store, turns, namespace)
    forget_summary(store, conversation.id, to + 1, namespace=namespace)
    return gone
