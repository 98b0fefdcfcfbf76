"""Keeps the bytes of cited files, once per blob id, as long as a turn cites them.

Git may lose them (a shallow clone, a rewritten branch), and never had those of a dirty work tree or a plain
folder. Without them the freshness of citations cannot be determined later.

Stores do not report when a conversation expires. So the citations of conversations that expire are recorded,
and their files are removed with the first turn of the next such conversation, and at the end of commands. If
no conversation expires there are no such records and no cost. Prompts expire by the store's own clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from rag.answer_cache.cache import KEYS_BY_TURN, AnswerCache
from rag.corpus.git import GitError
from rag.corpus.history import keep_commits, read_blobs
from rag.errors import NotFound, SourceError, StoreError
from rag.memory.consolidate import forget_summary
from rag.memory.facts import cited_blobs
from rag.parsing import decompressed, stored_text
from rag.ports import Marks, MemoryStore
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository, current_bytes
from rag.types import Citation, Conversation, DialogTurn, Prompt, blob_id

SHELF = "blob"
PROMPTS = "prompt"
"""The shelf of prompts; keys are turn ids, values compressed text."""
EXPIRING = "expiring"
"""The shelf of what conversations that expire cite; keys are their ids, values blob ids, one per line."""
_DELETE_BATCH_TURNS = 500
"""The maximum number of turns deleted per call, which limits how long other clients are blocked."""
_FILE_LEVEL = 4
"""The zlib level for cited files: half the time of the default level, for a twentieth more bytes."""
_PROMPT_LEVEL = 1
"""The zlib level for prompts: a third of the time of the default level, for a tenth more bytes."""


class KeptFiles:
    """The retained files of one namespace, in the store of its turns.

    Args:
        store: the turn store.
        namespace: the namespace that is written to.
        also: other namespaces that `contents` reads, where this one lacks a file.
    """

    def __init__(self, store: MemoryStore, namespace: str, also: Collection[str] = ()) -> None:
        self._store, self._namespace = store, namespace
        self._also = [one for one in also if one != namespace]

    def missing(self, blobs: Collection[str]) -> set[str]:
        """Return those of the blobs that are not stored."""
        wanted = set(blobs) - {""}
        kept = self._store.has_records(sorted(wanted), shelf=SHELF, namespace=self._namespace)
        return wanted - kept

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Store bytes by their blob ids. The turn that cites them must already be stored."""
        records = {blob: zlib.compress(content, _FILE_LEVEL) for blob, content in files.items()}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)

    def contents(self, blobs: Collection[str]) -> dict[str, bytes]:
        """Return the bytes of those of the blobs that are stored, and not damaged."""
        found = self._records(blobs)
        for other in self._also:
            if missing := [blob for blob in blobs if blob and blob not in found]:
                found |= self._store.records(missing, shelf=SHELF, namespace=other)
        contents = {}
        for blob, record in found.items():
            with suppress(zlib.error):
                contents[blob] = decompressed(record)
        return contents

    def release(self, blobs: Iterable[str]) -> int:
        """Remove those that no turn and no fact cites any more; return how many."""
        gone = 0
        wanted = [blob for blob in dict.fromkeys(blobs) if blob]
        of_facts = cited_blobs(self._store, self._namespace) if wanted else set()
        for blob in wanted:
            if blob in of_facts or self._is_cited(blob):
                continue
            record = self._records([blob])
            gone += self._store.delete_records([blob], shelf=SHELF, namespace=self._namespace)
            if record and self._is_cited(blob):  # another process has just stored a turn that cites it
                self._store.put_records(record, shelf=SHELF, namespace=self._namespace)
                gone -= 1
        return gone

    def sweep(self) -> int:
        """Remove all files that no turn and no fact cites any more; return how many.

        Prompts and cached answers of turns that no conversation shows are removed too, but not counted.
        """
        for shelf in (PROMPTS, KEYS_BY_TURN):
            items = self._store.scan_records(shelf=shelf, namespace=self._namespace)
            _forget_hidden(self._store, [turn for turn, _ in items], self._namespace)
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace)
        return self.release(blob for blob, _ in kept)

    def expect(self, conversation: Conversation, blobs: Collection[str]) -> None:
        """Record the citations of a conversation that expires; its first record sweeps expired ones."""
        if conversation.ttl_s is None or not blobs:
            return
        lines = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
        if self._note(conversation.id, lines) == len(lines):
            self.sweep_expired()

    def sweep_expired(self) -> int:
        """Remove files that only expired conversations cited; return how many.

        What forks of such a conversation still show is recorded for the forks that expire.
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
            blobs = set(stored_text(lines).split())
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


def kept_files(engine: Engine) -> KeptFiles:
    """Return the retained files of the engine's namespace; those of shared facts are read too."""
    settings = engine.settings
    return KeptFiles(engine.turns, settings.namespace, settings.fact_namespaces.values())


def blobs_of(turns: Iterable[DialogTurn]) -> set[str]:
    """Return the blobs that the turns cite."""
    return {citation.blob for turn in turns for citation in turn.citations if citation.blob}


def keep_cited(
    engine: Engine,
    repositories: Sequence[Repository],
    citations: Sequence[Citation],
    conversation: Conversation,
) -> None:
    """Store the bytes of the files that a stored turn cites, and keep their commits in our own clones.

    The bytes are read from disk if they are unchanged since, else from git. A failure is only reported as a
    notice.
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
                content = current_bytes(repository, citation.path)
                if content is not None and blob_id(content) == citation.blob:
                    files[citation.blob] = content
            commit = checkout.commit if checkout.has_files else None
            if commit and (rest := {c.blob for c in mine} - files.keys()):
                files |= read_blobs(checkout.root, rest)
            kept.keep(files)
            if commit and checkout.root.is_relative_to(engine.settings.home.resolve() / "repos"):
                keep_commits(checkout.root, [commit])
    except (StoreError, SourceError, GitError) as error:
        engine.notice(f"could not store the cited files; their freshness may be unknown later ({error})")


def keep_prompt(engine: Engine, turn: DialogTurn, prompt: Prompt, *, ttl_s: float | None = None) -> None:
    """Store the prompt of a stored turn. A failure is only reported as a notice.

    Nothing is stored for a turn that was not answered from this prompt, or without a model.
    """
    if not prompt.text or turn.prompt_hash != prompt.hash:
        return
    record = {turn.id: zlib.compress(prompt.text.encode("utf-8", "surrogatepass"), _PROMPT_LEVEL)}
    try:
        engine.turns.put_records(record, shelf=PROMPTS, namespace=turn.namespace, ttl_s=ttl_s)
    except StoreError as error:
        engine.notice(f"could not store the prompt ({error})")


def kept_prompt(engine: Engine, turn: DialogTurn) -> str | None:
    """Return the prompt of a turn; None if it was not stored. Raises StoreError if it is damaged."""
    found = engine.turns.records([turn.id], shelf=PROMPTS, namespace=turn.namespace)
    try:
        return decompressed(found[turn.id]).decode("utf-8", "surrogatepass") if found else None
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError(f"the stored prompt of the turn {turn.id} is damaged") from error


def forget(store: MemoryStore, turns: Sequence[DialogTurn], namespace: str) -> None:
    """Remove what was stored for deleted turns: files that only they cited, prompts, cached answers."""
    KeptFiles(store, namespace).release(blobs_of(turns))
    _forget_hidden(store, [turn.id for turn in turns], namespace)


def _forget_hidden(store: MemoryStore, turns: Sequence[str], namespace: str) -> None:
    """Remove prompts and cached answers of those turns (by id) that no conversation shows."""
    for n in range(0, len(turns), _DELETE_BATCH_TURNS):
        some = turns[n : n + _DELETE_BATCH_TURNS]
        shown = store.turns_by_id(some, namespace=namespace)  # by a fork
        gone = [turn for turn in some if turn not in shown]
        store.delete_records(gone, shelf=PROMPTS, namespace=namespace)
        AnswerCache(store, namespace=namespace).forget(gone)


def delete_turn(store: MemoryStore, turn: DialogTurn) -> bool:
    """Delete a turn, and the files that only it cited; return False if there was none.

    Summaries that include it are deleted too; the next `consolidate` writes them without it.
    """
    summarized_in = _showing(store, turn)
    gone = store.delete_turn(turn.id, namespace=turn.namespace)
    forget(store, [turn], turn.namespace)
    for conversation in summarized_in:
        forget_summary(store, conversation, turn.order or 0, namespace=turn.namespace)
    return gone


def delete_by_mark(store: MemoryStore, conversation: Conversation, mark: Marks) -> int:
    """Delete turns and messages with one of these marks, like `delete_turn`; return the number of both.

    Raises:
        NotFound: there is no such conversation.
    """
    namespace = conversation.namespace
    turns = store.turns(conversation.id, namespace=namespace, mark=mark)
    summarized_in = [(one, turn.order or 0) for turn in turns for one in _showing(store, turn)]
    gone = store.delete_by_mark(conversation.id, mark, namespace=namespace)
    forget(store, turns, namespace)
    for one, order in summarized_in:
        forget_summary(store, one, order, namespace=namespace)
    return gone


def _showing(store: MemoryStore, turn: DialogTurn) -> list[str]:
    """Return the conversations that show a turn: its own, and the forks that inherited it."""
    at, found = turn.order or 0, []
    for one in store.conversations(namespace=turn.namespace):
        if one.id == turn.conversation_id or one.parent is not None:
            with suppress(NotFound):  # deleted in the meantime
                there = store.turns(one.id, namespace=turn.namespace, after=at - 1, before=at + 1)
                found += [one.id for each in there if each.id == turn.id]
    return found


def edit_turn(store: MemoryStore, turn: DialogTurn) -> DialogTurn:
    """Store a new version of a turn; delete the summaries that include the old one.

    A cached answer of the turn is deleted too.

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
    """Delete a conversation, and the files that only its turns cited; return the number of turns deleted.

    A long conversation is deleted in batches of some hundred turns, from its end, so that other clients are
    not blocked; everything stored for its turns is deleted with them. After an interruption the older turns
    are left: call it again. `last_turn` is a guard as in `TurnStore.rewind`.

    Raises:
        NotFound: there is none.
        ConversationChanged: its last turn is a different one.
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
    """Remove everything after order `to`, and the files that only it cited; return the number of turns.

    A summary that includes one of the turns is deleted too. `last_turn` is a guard as in `TurnStore.rewind`.

    Raises:
        NotFound: there is no such conversation, or it ends before `to`.
        ConversationChanged: its last turn is not `last_turn`; nothing was removed.
    """
    namespace = conversation.namespace
    from_there = store.turns(conversation.id, namespace=namespace, after=max(to - 1, -1))
    if to >= 0 and not from_there:
        raise NotFound(f"the conversation {conversation.name or conversation.id} has no turn {to + 1}")
    turns = [turn for turn in from_there if (turn.order or 0) > to]
    gone = store.rewind(conversation.id, to=to, namespace=namespace, last_turn=last_turn)
    forget(store, turns, namespace)
    forget_summary(store, conversation.id, to + 1, namespace=namespace)
    return gone
