"""Facts and conversations that a team shares through the repository itself: in a git ref, without a server.

Both sides are merged like branches: what changed on one side since the last exchange with this remote is
taken, and of a fact that changed on both sides the newer form. A fact that one side deleted is deleted on
the other, unless it changed there; a remote without the ref deletes nothing. What others have pushed is
untrusted: a file that is no fact, names a place outside of the repository or exceeds a limit is left out and
counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

from rag.corpus.acquire import place_in_work_tree
from rag.corpus.address import resolve
from rag.corpus.git import GitError, run_git
from rag.corpus.git_server import GitServer
from rag.corpus.secrets import without_secrets
from rag.corpus.shared_files import REF, Overtaken, SharedRef, identity, shared_files
from rag.corpus.worktree import is_bare, work_tree
from rag.errors import ConfigError, SourceUnreachable
from rag.memory.facts import Fact, FactKind, Facts, fact_id, statement_of
from rag.parsing import parse_json, stored_text
from rag.quoting import counted
from rag.schema import from_json, to_json
from rag.service.checks.facts import facts_of
from rag.service.checks.shared_conversations import shared_conversation, take_conversation
from rag.service.repositories.engine import Engine
from rag.service.upkeep.retention import KeptFiles
from rag.settings import FactScope
from rag.types import Citation, Conversation, Source, now_utc

EXCHANGED = "exchanged-facts"
"""The shelf with the facts of the last exchange, by repository and remote: the base of the next merge."""
SEEN = "exchanged-conversations"
"""The shelf with the ids of shared conversations that were here, and the blob ids of invalid ones."""
_MAX_TAKEN = 200
_FACTS, _CONVERSATIONS = "facts/", "conversations/"
_MAX_FACT_BYTES = 64 << 10
_FILE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")
_PLACE = re.compile(r"(?!/)(?!(?:.*/)?\.\.?(?:/|$))[^\x00-\x1f\x7f]{1,1000}")
_ID = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?")
_HEX = re.compile(r"[0-9a-f]{0,64}")
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{0,500}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LATEST = timedelta(days=1)
"""How far the clock of another machine may be ahead."""
_MAX_TEXT_CHARS = 2_000
_MAX_CITATIONS = 50
_MAX_ALIKE = 50
_TRIES = 5
_OWN = ("id", "location", "turn", "freshness", "state", "scope", "may_supersede", "checks", "note")
_OWN_OF_CITATION = ("location", "repository", "score")
"""What a fact and a citation have only on this machine."""


@dataclass(slots=True)
class FactExchange:
    """What an exchange did, in facts. `left_out` counts the shared files that are invalid."""

    remote: str
    sent: int = 0
    received: int = 0
    deleted_here: int = 0
    deleted_there: int = 0
    conversations_sent: int = 0
    conversations_received: int = 0
    left_out: int = 0


@dataclass(slots=True)
class Side:
    """Facts in their shared form, by file name, with the ids of the facts here."""

    files: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    invalid: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Ours:
    """What is exchanged, from this side.

    `folder` is the source's path in its repository; `key` identifies both and the remote; without an `author`
    the remote is only read. `given` are the files of conversations to push, by path; with a `related` folder,
    only to a repository that shares its history, or to any if `unrelated`.
    """

    engine: Engine
    source: Source
    folder: str
    key: str
    author: str
    scope: FactScope | None
    given: Mapping[str, bytes]
    related: Path | None
    unrelated: bool

    @property
    def namespace(self) -> str:
        """The namespace of the facts."""
        return facts_of(self.engine).namespace(self.scope)


def exchange_facts(
    engine: Engine,
    source: Source,
    *,
    remote: str = "origin",
    push: bool = True,
    conversations: Sequence[Conversation] = (),
    scope: FactScope | None = None,
    report: Callable[[str], None] | None = None,
    unrelated: bool = False,
) -> FactExchange:
    """Merge the confirmed facts about a repository with those in its remote, and push the result if asked.

    Args:
        engine: provides the facts.
        source: a folder with git history, or a URL.
        remote: the name of a remote of the folder, an address, or a path.
        push: also write to the remote; else only read from it.
        conversations: also share these.
        scope: whose facts; None is the scope of the settings.
        report: receives notices.
        unrelated: also push to a repository that has no commit of the folder's history; a notice says so.

    Raises:
        ConfigError: the folder has no such remote, something must not be shared, the remote is another
            repository, or git knows no identity.
        SourceError: the remote cannot be reached, or refuses the change.
    """
    settings, is_own = engine.settings, source.is_url and remote == "origin"
    top, folder = (None, "") if source.is_url else _place(source)
    author = identity(top) if push else ""
    address = source.location if is_own else _address(top, remote)
    used = _address(top, remote, push=True) if push and not is_own else address
    server = GitServer(used, settings.git_token, settings.git_timeout_s, report or engine.notice)
    shared = dict(shared_conversation(engine, one, source) for one in conversations)
    given = {f"{_CONVERSATIONS}{name}": content for name, content in shared.items()}
    related, key = top if push else None, f"{source.location}\n{address}"
    ours = _Ours(engine, source, folder, key, author, scope, given, related, unrelated)
    with shared_files(server, _object_format(top)) as there:
        for _ in range(_TRIES):
            done = FactExchange(used)
            try:
                _exchange_facts(ours, there, done)
            except Overtaken:
                continue
            _take_conversations(ours, there, done)
            return done
    raise SourceUnreachable(f"{used} was changed by others {_TRIES} times meanwhile; try again")


def _exchange_facts(ours: _Ours, there: SharedRef, done: FactExchange) -> None:
    """Merge the facts, push them and other files with them, and store what is new."""
    source, folder, facts = ours.source, ours.folder, facts_of(ours.engine).of(ours.scope)
    rejected = {fact.id for fact in facts.all(source.location) if fact.state == "rejected"}
    there.fetch()
    if ours.related is not None and not there.shares_history(ours.related):
        _to_another(ours, f"{there.server.location} has no commit of {ours.related}", there.server.report)
    found = there.read(path for path in there.blobs if path.startswith(_FACTS))
    files = {path.removeprefix(_FACTS): content for path, content in found.items()}
    remote = _of_remote(files, source, folder, rejected)
    here = _of_store(facts, source.location, folder)
    merged = merged_files(_base(ours) if there.commit else {}, here.files, remote)
    done.left_out = len(remote.invalid)
    if ours.author:
        changed = _changes(remote.files, merged)
        _check(here, changed)
        kept = there.read(ours.given.keys() & there.blobs.keys())
        new = {path: content for path, content in ours.given.items() if kept.get(path) != content}
        written = {f"{_FACTS}{name}": content for name, content in changed.items()} | new
        if written:
            there.push(written, _message(changed, len(new)), ours.author)
        done.sent = sum(content is not None for content in changed.values())
        done.deleted_there, done.conversations_sent = len(changed) - done.sent, len(new)
    taken = _changes(here.files, merged)
    _take(ours.engine, facts, ours.namespace, here, remote, taken)
    done.received = sum(content is not None for content in taken.values())
    done.deleted_here = len(taken) - done.received
    _keep_base(ours, merged if ours.author else remote.files)


def _to_another(ours: _Ours, why: str, report: Callable[[str], None]) -> None:
    """Refuse to push to another repository, or say that it is done."""
    found = f"{why}: it seems to be another repository"
    if not ours.unrelated:
        raise ConfigError(f"{found}. Nothing was pushed; use --yes to share the facts there anyway")
    report(f"{found}; the facts are shared there anyway, because of --yes")


def _take_conversations(ours: _Ours, there: SharedRef, done: FactExchange) -> None:
    """Store the shared conversations that are new here, at most 200; none that is or was here before."""
    engine, namespace = ours.engine, ours.engine.settings.namespace
    record = engine.turns.records([ours.key], shelf=SEEN, namespace=namespace)
    seen = set(stored_text(record.get(ours.key, b"")).split())
    known = {one.id for one in engine.turns.conversations(namespace=namespace)}
    for path in sorted({*there.blobs, *ours.given}):
        name, blob = path.removeprefix(_CONVERSATIONS), there.blobs.get(path, "")
        own = name.removesuffix(".jsonl")
        if own in known:
            seen.add(own)
        if name == path or own in known or seen & {own, blob}:
            continue
        if done.conversations_received >= _MAX_TAKEN:
            break
        (content,) = there.read([path]).values()
        if content is not None and take_conversation(engine, ours.source, name, content):
            done.conversations_received += 1
            seen.add(own)
        else:
            done.left_out += 1
            seen.add(blob)
    if found := " ".join(sorted(seen - {""})):
        engine.turns.put_records({ours.key: found.encode()}, shelf=SEEN, namespace=namespace)


def merged_files(base: Mapping[str, str], here: Mapping[str, bytes], there: Side) -> dict[str, bytes]:
    """Merge three states of the files; of one that both sides changed, the newer form counts.

    An invalid file there changes nothing here.
    """
    merged = {}
    for name in {*here, *there.files}:
        ours, theirs, before = here.get(name), there.files.get(name), base.get(name)
        if ours == theirs or _digest(theirs) == before or name in there.invalid:
            kept = ours
        elif _digest(ours) == before:
            kept = theirs
        else:
            kept = max((one for one in (ours, theirs) if one is not None), key=_age)
        if kept is not None:
            merged[name] = kept
    return merged


def _age(content: bytes) -> tuple[str, bytes]:
    fact = json.loads(content)
    return max(fact["created"], fact["closed"] or ""), content


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _changes(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> dict[str, bytes | None]:
    return {name: new.get(name) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}


def _of_store(facts: Facts, location: str, folder: str) -> Side:
    """Return the confirmed facts about a repository in their shared form."""
    side, names = Side(), {}
    confirmed = [fact for fact in facts.all(location) if fact.state == "confirmed"]
    for fact in confirmed:
        number = _number(fact.id, location, fact.text)
        names[fact.id] = fact_id(folder, fact.text, number or 0)
    for fact in confirmed:
        name = f"{names[fact.id]}.json"
        side.files[name] = _written(fact, folder, names.get(fact.superseded_by, ""))
        side.facts[name] = fact
    return side


def _written(fact: Fact, folder: str, superseded_by: str) -> bytes:
    """Return the shared form of a fact: the same bytes on every machine, one field on each line."""
    written = {name: value for name, value in to_json(fact).items() if name not in _OWN}
    written["citations"] = [
        {name: value for name, value in one.items() if name not in _OWN_OF_CITATION}
        for one in written["citations"]
    ]
    written |= {"superseded_by": superseded_by, "folder": folder}
    return (json.dumps(written, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(
        "utf-8", "replace"
    )


def _number(own: str, place: str, text: str) -> int | None:
    """Return the number of a fact among those with the same statement, which its id contains."""
    return next((number for number in range(_MAX_ALIKE) if fact_id(place, text, number) == own), None)


def _of_remote(
    files: Mapping[str, bytes | None], source: Source, folder: str, rejected: Collection[str]
) -> Side:
    """Return the facts of a remote about a folder.

    Without statements that the user has rejected: they stay rejected here, and shared there.
    """
    side = Side()
    read = {name: _read(name, content) for name, content in files.items()}
    ids: dict[str, str] = {}
    for name, found in read.items():
        if found is None:
            side.invalid.append(name)
        elif found[1] == folder:
            ids[name.removesuffix(".json")] = fact_id(source.location, found[0].text, found[2])
    for name, found in read.items():
        if found is None or found[1] != folder:
            continue
        fact, own = found[0], ids[name.removesuffix(".json")]
        if own in rejected:
            continue
        side.files[name] = _written(fact, folder, fact.superseded_by)
        citations = tuple(
            replace(one, location=source.location, span=replace(one.span, repo=source.name))
            for one in fact.citations
        )
        successor = ids.get(fact.superseded_by, fact.superseded_by)
        side.facts[name] = replace(
            fact, id=own, location=source.location, citations=citations, superseded_by=successor
        )
    return side


def _read(name: str, content: bytes | None) -> tuple[Fact, str, int] | None:
    """Return the fact of a shared file, its folder and its number among equal statements; None if invalid."""
    if content is None or len(content) > _MAX_FACT_BYTES:
        return None
    try:
        written = parse_json(content.decode("utf-8"))
        cited = [{**one, "location": "", "repository": ""} for one in written["citations"]]
        own = {key: value for key, value in written.items() if key not in _OWN}
        fact = from_json(Fact, {**own, "location": "", "id": "", "citations": cited})
        folder = written.get("folder", "")
        _written(fact, folder, "").decode("utf-8")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None
    if not (_FILE.fullmatch(name) and isinstance(folder, str) and _is_valid(fact)):
        return None
    number = _number(name.removesuffix(".json"), folder, fact.text)
    return None if number is None else (fact, folder, number)


def _is_valid(fact: Fact) -> bool:
    return (
        isinstance(fact.text, str)
        and 0 < len(statement_of(fact.text)) <= len(fact.text) <= _MAX_TEXT_CHARS
        and fact.text == " ".join(fact.text.split())
        and _CONTROL.search(fact.text) is None
        and fact.kind in get_args(FactKind)
        and _matches(_HEX, fact.valid_from)
        and _matches(_ID, fact.superseded_by)
        and max(fact.created, fact.closed or fact.created) < now_utc() + _LATEST
        and len(fact.citations) <= _MAX_CITATIONS
        and all(map(_is_valid_place, fact.citations))
    )


def _is_valid_place(citation: Citation) -> bool:
    span = citation.span
    lines = (citation.n, span.start, span.end)
    names = (span.symbol, span.scope, *([citation.anchor.name] if citation.anchor else []))
    return (
        _matches(_PLACE, span.path)
        and all(_matches(_HEX, one) for one in (span.blob, span.commit or "", citation.span_hash))
        and all(_matches(_NAME, one) for one in names)
        and all(isinstance(line, int) and 0 <= line < 1 << 31 for line in lines)
    )


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _take(
    engine: Engine,
    facts: Facts,
    namespace: str,
    here: Side,
    there: Side,
    taken: Mapping[str, bytes | None],
) -> None:
    """Store what was merged from the remote."""
    new = [there.facts[name] for name, content in taken.items() if content is not None]
    gone = [here.facts[name] for name, content in taken.items() if content is None]
    facts.exchange(new, gone)
    KeptFiles(engine.turns, namespace).release(one.blob for fact in gone for one in fact.citations)


def _check(here: Side, changed: Mapping[str, bytes | None]) -> None:
    """Raise ConfigError for a fact that must not be shared: nothing is pushed."""
    for fact in (here.facts[name] for name, content in changed.items() if content is not None):
        kind = "holds what is likely a secret" if without_secrets(fact.text) != fact.text else ""
        if not kind and not _is_valid(fact):
            kind = f"has over {_MAX_TEXT_CHARS:,} characters or {_MAX_CITATIONS} places, or an odd path"
        if kind:
            short = fact.id[:8]
            raise ConfigError(
                f"the fact {short} {kind}; nothing was pushed. `rag facts forget {short}` deletes it"
            )


def _message(changed: Mapping[str, bytes | None], conversations: int) -> str:
    kept = sum(content is not None for content in changed.values())
    parts = [f"{counted(kept, 'fact')} added or changed"] if kept else []
    parts += [f"{counted(len(changed) - kept, 'fact')} deleted"] if len(changed) > kept else []
    parts += [counted(conversations, "conversation")] if conversations else []
    return f"rag: {', '.join(parts)}"


def _base(ours: _Ours) -> dict[str, str]:
    record = ours.engine.turns.records([ours.key], shelf=EXCHANGED, namespace=ours.namespace)
    try:
        found = parse_json(record.get(ours.key, b"{}"))
    except ValueError:  # a damaged record: what both sides have is kept
        return {}
    return found if isinstance(found, dict) else {}


def _keep_base(ours: _Ours, files: Mapping[str, bytes]) -> None:
    digests = {name: _digest(content) for name, content in sorted(files.items())}
    record = {ours.key: json.dumps(digests).encode()}
    ours.engine.turns.put_records(record, shelf=EXCHANGED, namespace=ours.namespace)


def _object_format(top: Path | None) -> str:
    """Return the format of the ids of a repository, which its remote has too: sha1 or sha256."""
    found = b"" if top is None else run_git(["rev-parse", "--show-object-format"], cwd=top)
    return "sha256" if found.strip() == b"sha256" else "sha1"


def _place(source: Source) -> tuple[Path, str]:
    """Return the top of the repository that a folder belongs to, and the folder's path in it."""
    folder = Path(source.location)
    if work_tree(folder) is None and not is_bare(folder):
        raise ConfigError(f"{folder} has no git history to share facts in; `git init` begins one")
    if is_bare(folder):
        return folder, ""
    top, inside = place_in_work_tree(folder)
    return Path(top), inside.rstrip("/")


def _address(top: Path | None, remote: str, *, push: bool = False) -> str:
    """Return the address of a remote of a repository, given as its name, an address or a path."""
    if top is not None and re.fullmatch(r"[\w-][\w.-]{0,100}", remote):
        command = ["remote", "get-url", *(["--push"] if push else []), "--", remote]
        try:
            found = run_git(command, cwd=top).decode("utf-8", "replace").strip()
        except GitError as failure:
            raise ConfigError(
                f"{top} has no remote {remote!r} to share facts in; add one with `git remote add`, or name "
                f"an address with --remote (the facts are stored in {REF})"
            ) from failure
        remote = str(top / found) if _is_path(found) else found
    return resolve(remote).location


def _is_path(address: str) -> bool:
    return "://" not in address and (address.startswith((".", "/", "~")) or ":" not in address)
