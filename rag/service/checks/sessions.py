"""Import of the sessions of coding agents as conversations.

Each request of the user becomes a turn, with the last text of the agent as its answer, and what it read and
edited as its citations; what sub-agents did counts for the request that they served. Likely secrets and
thoughts are removed. What was imported of a session is recorded, so that it is imported once, also if it has
grown; what was deleted since stays deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from rag.answer.wording import without_references
from rag.backends.openai.reasoning import without_thoughts
from rag.backends.sessions import READERS
from rag.corpus.secrets import without_secrets
from rag.errors import ConfigError, SourceError
from rag.parsing import parse_json
from rag.ports import RecordedSession, SessionEvent, SessionReader, has_transactions
from rag.schema import conversation_record, turn_record
from rag.service.checks.claims import whole_repository
from rag.service.checks.session_places import SessionPlaces
from rag.service.checks.snapshots import FolderState, states
from rag.service.repositories.engine import Engine
from rag.service.upkeep.retention import KeptFiles, edit_turn
from rag.turns.checks import check_place
from rag.types import AssistantResponse, Conversation, DialogTurn, Source, UserQuery
from rag.types.turns import SESSION

AGENTS = tuple(READERS)
SHELF = "session"
"""The shelf of what was imported; keys are an agent and a session, values the conversation and its turns."""
_IDS = uuid.UUID("6f0c1f0e-55b0-4d5a-9a38-0b1d5d3f2c11")
_BATCH_TURNS = 500
_MAX_QUESTION_CHARS = 20_000
_MAX_ANSWER_CHARS = 100_000
_TITLE_CHARS = 60
_EPOCH = datetime.fromtimestamp(0, UTC)


_T = TypeVar("_T")
_File = tuple[SessionEvent, str]
"""What was read or edited, with its path in the repository."""
_Turn = tuple[DialogTurn, list[_File]]


@dataclass(frozen=True, slots=True)
class SessionImport:
    """What an import did: new conversations, those that have grown, new turns, what was left out.

    `elsewhere` counts the sessions of other folders, `skipped` what could not be read, by its kind.
    """

    conversations: int
    grown: int
    turns: int
    elsewhere: int
    skipped: Mapping[str, int]


@dataclass(slots=True)
class _Exchange:
    """A request with what the agent did and wrote until the next one."""

    request: SessionEvent
    answered: datetime | None
    texts: list[str] = field(default_factory=list)
    files: list[SessionEvent] = field(default_factory=list)
    is_working: bool = False

    def add(self, event: SessionEvent) -> None:
        """Add what the agent did; its last texts without work in between are the answer."""
        self.answered = event.time or self.answered
        if event.kind == "reply":
            self.texts = [event.text] if self.is_working else [*self.texts, event.text]
        elif event.kind != "tool":
            self.files.append(event)
        self.is_working = event.kind != "reply"


@dataclass(frozen=True, slots=True)
class _NewTurns:
    """The new turns of a session, with what was imported of it before, by turn."""

    session: RecordedSession
    turns: list[_Turn]
    known: Mapping[str, str]
    conversation: str


def session_folder(agent: str, source: Source) -> Path:
    """Return the documented place of an agent's sessions. Raises ConfigError for an unknown agent."""
    return _reader(agent).folder(Path.home(), Path(whole_repository(source).location))


def import_sessions(engine: Engine, source: Source, agent: str, places: Sequence[Path] = ()) -> SessionImport:
    """Store the sessions of a coding agent that are about a repository as conversations.

    Args:
        engine: provides the turn store.
        source: a folder; that of its whole repository is meant.
        agent: one of `AGENTS`.
        places: folders and files with sessions; by default the documented folder of the agent.

    Raises:
        ConfigError: the agent is not known, or a place does not exist.
        SourceError: the repository is not a folder, or cannot be read.
    """
    if source.is_url:
        raise SourceError(f"{source} is not a folder; sessions are about folders")
    reader, source = _reader(agent), whole_repository(source)
    where = [Path(os.path.realpath(one)) for one in places or [session_folder(agent, source)]]
    for place in where:
        if not place.exists():
            raise ConfigError(f"there are no sessions of {agent} at {place}; name their folder")
    state = states(engine, [source])[source.location]
    if not isinstance(state, FolderState):
        raise SourceError(str(state))
    return _Import(engine, reader, state).run(where)


def _reader(agent: str) -> SessionReader:
    if agent not in READERS:
        raise ConfigError(f"--from is one of {', '.join(AGENTS)}, not {agent!r}")
    return READERS[agent]


class _Import:
    """One import into the namespace of an engine."""

    def __init__(self, engine: Engine, reader: SessionReader, state: FolderState) -> None:
        self._engine, self._reader, self._state = engine, reader, state
        self._store, self._namespace = engine.turns, engine.settings.namespace
        self._root = os.path.realpath(state.source.location)
        self._inside = cache(self._within_root)
        self._skipped: Counter[str] = Counter()
        self._places: SessionPlaces | None = None
        self._stored = {one.id: one.name for one in self._store.conversations(namespace=self._namespace)}
        self._names = set(self._stored.values())
        records = self._store.scan_records(shelf=SHELF, namespace=self._namespace, prefix=f"{reader.agent}:")
        self._records = {key: _record(value) for key, value in records}
        self._owners = {turn: key for key, one in self._records.items() for turn in one.get("turns", ())}

    def run(self, places: Sequence[Path]) -> SessionImport:
        """Import all sessions about the repository."""

        def skip(what: str) -> None:
            self._skipped[what] += 1

        mine: list[RecordedSession] = []
        parts: dict[str, list[RecordedSession]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for place in places:
            for session in self._readable(self._reader.sessions(place, Path(self._root), skip)):
                if session.parent:
                    parts[session.parent].append(session)
                elif self._inside(session.folder) is not None:
                    mine.append(session)
                else:
                    counts["elsewhere"] += 1
        batch: list[_NewTurns] = []
        for session in mine:
            is_full = sum(len(one.turns) for one in batch) >= _BATCH_TURNS
            if is_full or any(one.session.id == session.id for one in batch):  # a file that continues another
                counts += self._store_all(batch)
                batch = []
            if new := self._guarded(partial(self._new_turns, session, _with_parts(session, parts))):
                batch.append(new)
        counts += self._store_all(batch)
        return SessionImport(
            conversations=counts["conversations"],
            grown=counts["grown"],
            turns=counts["turns"],
            elsewhere=counts["elsewhere"],
            skipped=dict(self._skipped),
        )

    def _guarded(self, work: Callable[[], _T]) -> _T | None:
        """Return what is made of one session; None, and it is counted, if that fails."""
        try:
            return work()
        except Exception:  # noqa: BLE001 - any program wrote the recording; the others are still imported
            self._skipped["a session that is not as expected"] += 1
            return None

    def _readable(self, sessions: Iterator[RecordedSession]) -> Iterator[RecordedSession]:
        while session := self._guarded(partial(next, sessions, None)):
            yield session

    # ------------------------------------------------------------ sessions to turns

    def _within_root(self, folder: str) -> str | None:
        """Return a working folder relative to the repository; None if it is not inside, or in another one."""
        try:
            real = os.path.realpath(folder) if Path(folder).is_absolute() else ""
        except ValueError:
            return None
        found = os.path.relpath(real, self._root) if real else ".."
        if found == ".." or found.startswith("../"):
            return None
        between = [] if found == "." else [Path(real), *Path(real).parents][: found.count("/") + 1]
        return None if any(os.path.lexists(one / ".git") for one in between) else found

    def _new_turns(self, session: RecordedSession, events: Iterable[SessionEvent]) -> _NewTurns:
        """Return the turns of a session that are new, and the last one that was imported if it has grown."""
        key = f"{self._reader.agent}:{session.id}"
        record = self._records.get(key, {})
        conversation = record.get("conversation") or self._id(key)
        known: dict[str, str] = record.get("turns", {})
        new = _NewTurns(session, [], known, conversation)
        if known and conversation not in self._stored:  # it was deleted
            return new
        last, seen = next(reversed(known), ""), set[str]()
        for n, exchange in enumerate(_exchanges(events)):
            turn = self._turn(session, exchange, n)
            is_copy = (
                turn.id in seen or self._owners.get(turn.id, key) != key
            )  # of a session that was resumed
            if is_copy or (turn.id in known and turn.id != last) or not (turn.answer or exchange.files):
                continue
            seen.add(turn.id)
            files = [(one, path) for one in exchange.files if (path := self._path(session, one))]
            if turn.id not in known or known[last] != _digest(turn, files):
                new.turns.append((turn, files))
                self._owners[turn.id] = key
        return new

    def _id(self, key: str) -> str:
        return str(uuid.uuid5(_IDS, f"{self._namespace}\0{key}"))

    def _turn(self, session: RecordedSession, exchange: _Exchange, n: int) -> DialogTurn:
        agent, request = self._reader.agent, exchange.request
        question = _bounded(request.text, _MAX_QUESTION_CHARS)
        said = "\n\n".join(filter(None, map(without_thoughts, exchange.texts)))
        answer = without_references(_bounded(said, _MAX_ANSWER_CHARS))
        key = f"{agent}\0{request.id}" if request.id else f"{agent}\0{session.id}\0{n}"
        return DialogTurn(
            id=self._id(key),
            user_query=UserQuery(question),
            assistant_response=AssistantResponse(answer),
            namespace=self._namespace,
            standalone_question=question,
            model=agent,
            state="answered" if answer else "partial",
            user_query_timestamp=request.time,
            assistant_response_timestamp=exchange.answered,
            metadata={SESSION: {"agent": agent, "id": session.id, "edited": []}},
        )

    def _path(self, session: RecordedSession, event: SessionEvent) -> str:
        """Return the path of a file in the repository; "" if it is not inside."""
        within = self._inside(session.folder) or "."
        path = os.path.normpath(Path(session.folder, event.path))
        for folder, prefix in ((os.path.normpath(session.folder), within), (self._root, ".")):
            if path.startswith(f"{folder}/"):
                path = os.path.normpath(f"{prefix}/{path[len(folder) + 1 :]}")
                break
        try:
            check_place(path)
        except ValueError:
            return ""
        return "" if path.startswith(("/", "..")) or without_secrets(path) != path else path

    # ------------------------------------------------------------ turns to the store

    def _store_all(self, batch: Sequence[_NewTurns]) -> Counter[str]:
        """Store the new turns of sessions, those of new conversations in one transaction."""
        counts: Counter[str] = Counter()
        ids = [turn.id for new in batch for turn, _ in new.turns if turn.id not in new.known]
        there = self._store.turns_by_id(ids, namespace=self._namespace)  # copied from a resumed session
        for new in batch:
            new.turns[:] = [one for one in new.turns if one[0].id not in there]
        batch = [new for new in batch if new.turns]
        if not batch:
            return counts
        places = self._places = self._places or SessionPlaces(self._state)
        places.expect(file for new in batch for _, files in new.turns for file in files)
        for new in batch:
            new.turns[:] = self._guarded(partial(_all_cited, new.turns, places)) or []
        batch = [new for new in batch if new.turns]
        for new in [one for one in batch if one.conversation in self._stored]:
            self._extend(new)
            counts["grown"] += 1
            counts["turns"] += sum(turn.id not in new.known for turn, _ in new.turns)
        made = [one for one in batch if one.conversation not in self._stored]
        self._store.restore([line for new in made for line in self._lines(new)], namespace=self._namespace)
        ids = [turn.id for new in made for turn, _ in new.turns]
        there = self._store.turns_by_id(ids, namespace=self._namespace)
        made = [new for new in made if all(turn.id in there for turn, _ in new.turns)]
        counts["conversations"] += len(made)
        counts["turns"] += sum(len(new.turns) for new in made)
        self._remember(made)
        kept = KeptFiles(self._store, self._namespace)
        blobs = kept.missing({one.blob for new in batch for turn, _ in new.turns for one in turn.citations})
        kept.keep(places.contents(blobs))
        return counts

    def _lines(self, new: _NewTurns) -> Iterator[dict[str, Any]]:
        """Yield the lines of a dump with a new conversation."""
        turns = [turn for turn, _ in new.turns]
        times = [turn.user_query_timestamp or _EPOCH for turn in turns]
        sources = (self._state.source,)
        name = self._name(turns[0].question)
        conversation = Conversation(new.conversation, "", name, sources, times[0], max(times), len(times))
        self._stored[conversation.id] = name
        span = {"next_order": len(times), "first": {"turn": 0, "message": 0}}
        spans = [[conversation.id, 0, None]]
        yield {"conversation": conversation_record(conversation), **span, "spans": spans}
        for n, turn in enumerate(turns):
            yield {"turn": turn_record(replace(turn, order=n, conversation_id=conversation.id))}

    def _extend(self, new: _NewTurns) -> None:
        """Add the turns of a session that has grown, and replace the one that was its last."""
        with self._store.together() if has_transactions(self._store) else nullcontext():
            there = self._store.turns_by_id(list(new.known), namespace=self._namespace)
            for turn, _ in new.turns:
                if turn.id in there:
                    edit_turn(self._store, turn)
            more = [turn for turn, _ in new.turns if turn.id not in new.known]
            self._store.extend(more, conversation=new.conversation, namespace=self._namespace)
            self._remember([new])

    def _remember(self, batch: Sequence[_NewTurns]) -> None:
        found = {}
        for new in batch:
            turns = {**new.known, **{turn.id: _digest(turn, files) for turn, files in new.turns}}
            key = f"{self._reader.agent}:{new.session.id}"
            found[key] = {"conversation": new.conversation, "turns": turns}
        self._records |= found
        records = {key: json.dumps(value).encode() for key, value in found.items()}
        self._store.put_records(records, shelf=SHELF, namespace=self._namespace)

    def _name(self, question: str) -> str:
        """Return a name for a conversation that no other one has: its agent and its first request."""
        words = " ".join(question.split())
        if len(words) > _TITLE_CHARS:
            words = f"{words[:_TITLE_CHARS].rpartition(' ')[0] or words[:_TITLE_CHARS]} …"
        title = f"{self._reader.agent}: {words}"
        name, n = title, 1
        while name in self._names:
            n += 1
            name = f"{title} ({n})"
        self._names.add(name)
        return name


def _all_cited(turns: Sequence[_Turn], places: SessionPlaces) -> list[_Turn]:
    found = []
    for turn, files in turns:
        citations, edited = places.cited(files)
        session = {**(turn.metadata or {})[SESSION], "edited": edited}
        found.append((replace(turn, citations=citations, metadata={SESSION: session}), files))
    return found


def _with_parts(
    session: RecordedSession, parts: Mapping[str, Sequence[RecordedSession]]
) -> Iterator[SessionEvent]:
    """Yield the events of a session, with the files that its sub-agents read and edited, by time."""
    seen, waiting = {session.id}, list(parts.get(session.id, ()))
    if not waiting:
        yield from session.events()
        return
    timed, last = list[tuple[datetime, SessionEvent]](), _EPOCH
    for event in session.events():
        last = max(last, event.time or last)
        timed.append((last, event))
    while waiting:
        part = waiting.pop()
        if part.id not in seen:
            seen.add(part.id)
            waiting += parts.get(part.id, ())
            timed += [(one.time, one) for one in part.events() if one.time and one.kind in ("read", "edit")]
    yield from (event for _, event in sorted(timed, key=lambda pair: pair[0]))


def _exchanges(events: Iterable[SessionEvent]) -> Iterator[_Exchange]:
    """Yield the requests with what followed each; what is before the first is left out."""
    current: _Exchange | None = None
    for event in events:
        if event.kind == "request":
            if current is not None:
                yield current
            current = _Exchange(event, event.time)
        elif current is not None:
            current.add(event)
    if current is not None:
        yield current


def _bounded(text: str, limit: int) -> str:
    text = without_secrets(text.strip())
    return text if len(text) <= limit else f"{text[:limit].rstrip()} … (cut)"


def _digest(turn: DialogTurn, files: Sequence[_File]) -> str:
    """Return what differs when a turn has grown."""
    done = [(one.kind, path, one.first, one.last, one.text, one.old) for one, path in files]
    return hashlib.sha256(repr((turn.answer, done)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _record(value: bytes | None) -> dict[str, Any]:
    """Return what was imported of a session; {} if there is nothing, or it is damaged."""
    try:
        found = parse_json(value or b"{}")
    except ValueError:
        return {}
    is_whole = isinstance(found, dict) and isinstance(found.get("turns"), dict)
    return found if is_whole else {}
