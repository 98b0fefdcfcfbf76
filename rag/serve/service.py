"""The service behind all interfaces: repositories, callers, limits, and answering questions."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from time import monotonic

from rag.errors import NotFound, RagError, SettingsError, StoreCorrupt, StoreError, StoreUnreachable
from rag.hints import Interface, for_callers
from rag.mcp.host import OnStep
from rag.ports import SharedState, TextGenerator
from rag.request_context import MeasuringExecutor
from rag.serve.access.identity import IdentityHeader
from rag.serve.access.keys import Caller, KeyRecords, Keyring, Sharing, StoredKeys, named_keys
from rag.serve.access.path_prefix import PathPrefix
from rag.serve.access.rate_limits import Limiter
from rag.serve.access.redaction import PathRedactor
from rag.serve.access.ssrf import check_git
from rag.serve.config import opened_keys
from rag.serve.errors import BadRequest, Forbidden
from rag.serve.repositories.entry import ServedRepository
from rag.serve.repositories.registry import RepositoryRegistry
from rag.serve.settings import MAX_NAMED_REPOSITORIES as MAX_NAMED_REPOSITORIES
from rag.serve.settings import ServerSettings, check_settings
from rag.serve.sse import Streams
from rag.serve.telemetry import Telemetry, log
from rag.serve.workers.answer_jobs import AnswerJobs
from rag.serve.workers.changes import ConversationChanges
from rag.serve.workers.open_files import raise_limit
from rag.serve.workers.prepare_pool import PreparePool
from rag.serve.workers.shared_events import SharedEvents
from rag.serve.workers.write_batch import WriteBatcher
from rag.service import Dialog, Engine, aconverse
from rag.service.loop.ask import Notify
from rag.service.repositories.groups import Selection, is_group, selected
from rag.service.repositories.jobs import open_shared_state
from rag.service.repositories.open_backends import FailedGenerator
from rag.service.upkeep.namespace_retention import RetentionTimer
from rag.settings import Settings, Steps, with_absolute_paths
from rag.types import Answer, Citation, Conversation, DialogTurn, Reach, Source, TraceStep
from rag.types.question_kinds import HISTORY

Lifespan = Callable[[], AbstractAsyncContextManager[object]]
_START_AFTER_S = 0.25
_READ_KEYS_EVERY_S = 1.0
_UNREAD, _STAY = "no request is accepted until the keys are read", "the keys that were read before stay"
_UNNAMED_MODEL = "default"
"""The name of the configured model if its server has only one, which is asked for its name later."""


def _stored_keys(settings: Settings) -> tuple[StoredKeys, StoreUnreachable | None]:
    """Return the keys in the turn store, or why it cannot be reached: the server starts and tries again."""
    try:
        with opened_keys(settings) as records:
            return records.read(), None
    except StoreUnreachable as error:
        log.error("%s; %s", error, _UNREAD)
        return StoredKeys(()), error


class Service:
    """The server's state and operations. One per app; created before the event loop runs, started in it.

    Attributes:
        settings: the server's settings.
        registry: the repositories, by name.
        shared: what this server shares with others, if it does.
        keyring: the accepted keys.
        identity: the header by which a trusted proxy names the caller.
        prefix: the path under which a proxy publishes the server.
        limiter: limits on rate and concurrency.
        prepare_pool: searches and renders, in child processes when several questions arrive at once.
        write_batcher: stores turns; those that arrive together are written together.
        telemetry: metrics and logs.
        jobs: the answers that are written for clients who may leave.
        changes: notifies clients of changed conversations.
        streams: the open streams.
        lifespans: context managers that interface modules need while the server runs.

    Raises:
        SettingsError: the settings are invalid, or would serve strangers.
    """

    def __init__(self, settings: ServerSettings) -> None:
        mine = settings.engine
        shared = Sharing(mine.project, mine.team, mine.scope)
        self.shared = open_shared_state(mine)
        self._env_keys = named_keys(settings.keys, mine.namespace, shared)
        stored, unread = _stored_keys(mine)
        self._damaged_keys: frozenset[str] = frozenset()
        is_known = bool(self._env_keys or stored.keys or stored.damaged or unread or settings.identity_header)
        self._read_keys_at, self._reading_keys = 0.0, asyncio.Lock()
        self._key_reader = ThreadPoolExecutor(1, thread_name_prefix="rag-keys")
        self.identity = IdentityHeader(settings.identity_header, settings.trusted_proxies)
        self.prefix = PathPrefix(settings.root_path, settings.trusted_proxies)
        check_settings(settings, has_keys=is_known)
        check_git(settings.allow_urls)
        self.settings = settings
        # Child processes have another working directory.
        own = with_absolute_paths(settings.engine)
        self.engine = Engine(own, notice=lambda text: log.warning("%s", text), refs=settings.allowed_refs)
        self.keyring = Keyring(
            self._env_keys,
            default=Caller(namespace=mine.namespace, sharing=shared),
            required=bool(settings.identity_header),
        )
        self._accept(stored) if unread is None else self.keyring.close(unread)
        self.registry = RepositoryRegistry(settings, self.engine, notice=lambda text: log.warning("%s", text))
        self.engine.on_missing_files = self._fetch_files
        self.limiter = Limiter(settings, self.shared)
        self.telemetry = Telemetry()
        self.telemetry.watch(
            self.limiter,
            ready=lambda: sum(entry.can_answer for entry in self.registry.entries()),
            indexing=lambda: sum(entry.running for entry in self.registry.entries()),
        )
        self.streams = Streams()
        self.jobs = AnswerJobs()
        self.changes = ConversationChanges()
        self.write_batcher = WriteBatcher()
        self.prepare_pool = PreparePool(settings.processes if _children_can_prepare(settings.engine) else 0)
        is_private = settings.is_loopback and not settings.public_hosts and not self.keyring.has_keys
        self.engine.reach = Reach(around=is_private, secrets=False)
        self._redactor = None if is_private else PathRedactor(settings)
        self.lifespans: list[Lifespan] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engines = {(mine.namespace, shared, ""): self.engine}
        self._models = _models_by_name(settings)
        self._generators: defaultdict[str | None, list[TextGenerator]] = defaultdict(list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the service in the block."""
        raise_limit()
        self._loop = asyncio.get_running_loop()
        pool = MeasuringExecutor(self.settings.threads, thread_name_prefix="rag")
        asyncio.get_running_loop().set_default_executor(pool)
        async with AsyncExitStack() as stack:
            stack.callback(self.engine.close)
            stack.callback(self._key_reader.shutdown)
            retention = RetentionTimer(lambda: self.engine.turns, lambda text: log.info("%s", text))
            stack.push_async_callback(to_thread, retention.close)
            if self.shared is not None:
                stack.callback(self.shared.close)
                stack.push_async_callback(self._events(self.shared).close)
            await self.registry.start()
            stack.push_async_callback(self.registry.close)
            stack.push_async_callback(self.prepare_pool.close)
            stack.push_async_callback(self.write_batcher.close)
            stack.push_async_callback(self.jobs.close)
            for lifespan in self.lifespans:
                await stack.enter_async_context(lifespan())
            yield

    def _events(self, shared: SharedState) -> SharedEvents:
        """Start to exchange events with other servers."""
        events = SharedEvents(shared, conversation_changed=self.changes.deliver)
        self.changes.send = events.send
        return events

    async def reread_keys(self) -> None:
        """Accept the keys that are stored now. They are read at most once a second, in a thread of their own.

        Requests wait for it, so that none is accepted with a key that was removed before. A damaged key is
        not accepted, and is logged once.
        """
        async with self._reading_keys:
            if monotonic() < self._read_keys_at:
                return
            try:
                stored = await asyncio.get_running_loop().run_in_executor(
                    self._key_reader, lambda: KeyRecords(self.engine.turns).read()
                )
                self._accept(stored)
            except (SettingsError, StoreError) as error:
                log.error("%s; %s", error, _UNREAD if self.keyring.is_closed else _STAY)
            self._read_keys_at = monotonic() + _READ_KEYS_EVERY_S

    def _accept(self, stored: StoredKeys) -> None:
        """Accept the stored keys from now on. A damaged one is a key that nobody has; it is logged once.

        Where strangers can connect, a key is required even if there is none.
        """
        required = bool(stored.damaged) or not self.settings.is_loopback
        self.keyring.replace(self._env_keys + stored.keys, required=required)
        for damage in sorted(set(stored.damaged) - self._damaged_keys):
            log.error("%s", damage)
        self._damaged_keys = frozenset(stored.damaged)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that a question may choose, the usual one first; () without a model."""
        return tuple(self._models)

    def engine_for(self, caller: Caller, model: str | None = None) -> Engine:
        """Return the engine for a caller: its own conversations, the shared stores.

        Raises:
            BadRequest: `model` is not one of `models`. None is the first.
        """
        if model is not None and model not in self.models:
            offered = f"it offers {', '.join(self.models)}" if self.models else "no model is connected"
            raise BadRequest(f"this server does not offer the model {model[:80]!r}; {offered}", param="model")
        changes = {"model": self._models[model]} if model and model != self.models[0] else {}
        facts = caller.sharing
        key = caller.namespace, facts, changes.get("model", "")
        known = self._engines.get(key)
        if known is None:
            known = self.engine.with_settings(
                namespace=caller.namespace,
                project=facts.project,
                team=facts.team,
                scope=facts.writes,
                **changes,
            )
            for shared in ("embedder", "reranker", *(() if changes else ("counter",))):
                known.__dict__[shared] = getattr(self.engine, shared)
            self._engines[key] = known
        return known

    @property
    def redacts(self) -> bool:
        """Whether callers may be remote, so that folders are replaced by their names."""
        return self._redactor is not None

    def redacted(self, text: str) -> str:
        """Return a text as callers may read it: for remote callers, folders are replaced by their names."""
        return text if self._redactor is None else self._redactor.redact(text)

    def shown_location(self, location: str) -> str:
        """Return the location of a repository as callers may read it: for remote callers, a folder's name."""
        shown = self.redacted(location)
        return shown if self._redactor is None or not Path(shown).is_absolute() else Path(shown).name

    def public_message(self, error: RagError, interface: Interface = "api") -> str:
        """Return an error's message for callers; if that redacts something, log the original.

        An index that turned out to be damaged is rebuilt.
        """
        if isinstance(error, StoreCorrupt) and (name := self.registry.rebuild_damaged(error)):
            log.warning("%s", error)
            return f"the index of {name} is damaged and is being rebuilt; ask again in a moment"
        message = self.redacted(str(error))
        if message != str(error):
            log.warning("%s: %s", type(error).__name__, error)
        return for_callers(message, interface)

    @property
    def start_after_s(self) -> float | None:
        """Seconds after which a stream starts without a piece; None where a model may still fail."""
        return None if self.settings.engine.has_model else _START_AFTER_S

    def drain(self) -> None:
        """Report that the server is not ready, and ask clients to close connections; still answer."""
        self.limiter.draining = True

    def stop(self) -> None:
        """Accept no more questions; end what still runs after the grace period."""
        self.limiter.stopping = self.limiter.draining = True
        asyncio.get_running_loop().call_later(self.settings.grace_s, self._end)

    def _end(self) -> None:
        self.streams.end()
        self.jobs.stop_all()

    # ------------------------------------------------------------ conversations

    async def dialog(
        self,
        caller: Caller,
        repositories: Sequence[str | ServedRepository],
        *,
        conversation: str | None = None,
        named: bool = True,
        about: str | None = None,
        steps: Steps | None = None,
        model: str | None = None,
        question: str = "",
    ) -> Dialog:
        """Return a conversation about repositories, ready to ask.

        Args:
            caller: its owner.
            repositories: names, groups, or entries; if empty, those of the conversation, else the only one
                served. A conversation that exists keeps its repositories if a group is named.
            conversation: its id or name; None starts one with its first turn.
            named: start a conversation of this name if there is none; if False, raise NotFound.
            about: what "it" means in the question, see `Dialog.about`.
            steps: how many times the model may look again, see `Dialog.steps`; None follows the settings.
            model: which of `models` answers; None is the first.
            question: chooses repositories of a group, see `chosen`.

        Raises:
            NotFound, ConversationMismatch: the conversation, see `Engine.find_conversation`; or `about` is
                the name of nothing.
            Forbidden: the conversation is about a repository that is not served.
            UnknownRepository: none is named, and there are several.
            BadRequest: too many are named, a group without a question, or a model that is not offered.
            ServeError: as `RepositoryRegistry.repository`.
        """
        has_group = any(isinstance(one, str) and is_group(one) for one in repositories)
        chosen = [] if has_group else self._named_entries(repositories, caller)
        engine = self.engine_for(caller, model)
        found: Conversation | None = None
        if conversation:
            sources = [entry.source for entry in chosen]
            try:
                found = await to_thread(engine.find_conversation, conversation, sources)
            except NotFound:
                if not named or not repositories:
                    raise
        remark = ""
        if found is not None and not chosen:
            chosen = self.entries_of(found)
        elif has_group:
            chosen, remark = await self.chosen(repositories, caller, question)
        if not chosen:
            chosen = [self.registry.only_entry()]
        opened = [await self.registry.opened(entry) for entry in chosen]
        dialog = Dialog(engine, opened, found, name=conversation or "" if found is None else "")
        dialog.remarks = (remark,) if remark else ()
        if about:
            await to_thread(dialog.about, about)
        if steps is not None:
            dialog.steps = steps
        return dialog

    async def chosen(
        self, names: Sequence[str | ServedRepository], caller: Caller, question: str
    ) -> tuple[list[ServedRepository], str]:
        """Return the entries that names mean, and a sentence on those of groups that were left out.

        Of a group (`@all`, `@NAME`), those are chosen that the question is most likely about, by the indexes
        on disk, up to the limit of a question.

        Raises:
            BadRequest: too many are named, or a group without a question.
            UnknownRepository, Forbidden: as `RepositoryRegistry.entry`; or there is no such group.
            NotFound: none of the group is indexed.
        """
        groups = [name for name in names if isinstance(name, str) and is_group(name)]
        entries = self._named_entries([one for one in names if one not in groups], caller)
        if not groups:
            return entries, ""
        if not question.strip():
            raise BadRequest("a group needs a question that chooses its repositories; name repositories")
        members = [entry for group in groups for entry in self.registry.members(group)]
        choice = {entry.source: entry for entry in members if entry not in entries}
        room = self.settings.max_repositories - len(entries)
        if room < 1:
            raise BadRequest(f"{len(entries)} repositories are named, the limit; leave out the group")
        found = await to_thread(selected, self.engine, list(choice), question, room)
        both = Selection((*(e.source for e in entries), *found.sources), found.total + len(entries))
        note = replace(both, without_index=found.without_index).note
        return [*entries, *(choice[source] for source in found.sources)], note

    def _named_entries(
        self, names: Sequence[str | ServedRepository], caller: Caller
    ) -> list[ServedRepository]:
        self.check_count(len(names))
        found = [self.registry.entry(one, caller=caller) if isinstance(one, str) else one for one in names]
        return list(dict.fromkeys(found))

    def check_count(self, named: int) -> None:
        """Refuse a question that names too many repositories. Raises BadRequest."""
        if named > (limit := self.settings.max_repositories):
            raise BadRequest(
                f"{named} repositories were named, the limit is {limit}; name fewer, or a group such as @all"
            )

    def entries_of(self, conversation: Conversation) -> list[ServedRepository]:
        """Return the entries of the repositories of a conversation. Raises Forbidden if one is not served."""
        return [self._served(conversation, number) for number in range(len(conversation.sources))]

    def _served(self, conversation: Conversation, number: int) -> ServedRepository:
        entry = self.registry.entry_of(conversation.sources[number])
        if entry is None:
            raise Forbidden("the conversation is about a repository that this server does not serve")
        return entry

    def at_ref(self, entry: ServedRepository, ref: str, caller: Caller) -> ServedRepository:
        """Return a repository at another branch, tag or commit. It is indexed when it is opened.

        Raises:
            ServeError: as `RepositoryRegistry.entry`.
        """
        return self.registry.entry(self.registry.base_name(entry.source), ref, caller=caller)

    # ------------------------------------------------------------ asking

    async def answer(
        self, dialog: Dialog, question: str, notify: Notify | None = None, *, cache: bool | None = None
    ) -> AsyncGenerator[str | TraceStep | Answer, None]:
        """Answer a question: yield pieces of text as they arrive, then the Answer, which is stored as a turn.

        The steps of a second look (`Dialog.steps`) come before the text.

        Close the generator (`contextlib.aclosing`): that stops the model, and what came of an abandoned
        answer is stored. `notify` receives the stored question and the sources, see `aconverse`. `cache` says
        whether a cached answer may be returned; None uses the setting.

        Raises:
            TooLarge, TooMany, ShuttingDown: see `Limiter`.
            ProviderError, ConfigError: as `rag.service.aconverse`.
        """
        self.limiter.check_question(question)
        async with self.limiter.slot(), self.generator(dialog.engine, or_failing=True) as generator:
            conversation = dialog.conversation.id if dialog.conversation else ""
            with self.telemetry.question() as metrics:
                # "Regenerate" in a chat repeats the question: a cached answer is used only if that is set.
                cache = bool(dialog.engine.settings.cache) if cache is None else cache

                def notified(of: DialogTurn | tuple[Citation, ...]) -> None:
                    nonlocal conversation
                    if isinstance(of, DialogTurn):
                        conversation = of.conversation_id or ""
                        self.changes.publish(of.namespace, conversation)
                    if notify:
                        notify(of)

                answering = aconverse(
                    dialog,
                    question,
                    generator,
                    cache=cache,
                    prepare=self.prepare_pool.prepare,
                    remember=self.write_batcher.store,
                    notify=notified,
                    shows_sources=notify is not None,
                )
                try:
                    async with aclosing(answering) as pieces:
                        async for piece in pieces:
                            if isinstance(piece, Answer):
                                metrics.answer = piece
                                self._fetch_history(dialog, piece)
                            metrics.piece()
                            yield piece
                finally:
                    changed = dialog.conversation.id if dialog.conversation else conversation
                    if changed:
                        self.changes.publish(dialog.engine.settings.namespace, changed)

    def _fetch_history(self, dialog: Dialog, answer: Answer) -> None:
        """Fetch what a question about the history could not be answered from, if a child searched for it."""
        if answer.code_facts is not None and answer.code_facts.kind == HISTORY:
            for repository in dialog.repositories:
                if not repository.checkout.has_files:
                    self.registry.fetch_files(repository.source)

    def _fetch_files(self, source: Source) -> None:
        """Have the files of a source fetched; called in any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.registry.fetch_files, source)

    async def answered(
        self, dialog: Dialog, question: str, *, cache: bool | None = None, on_step: OnStep | None = None
    ) -> Answer:
        """Answer a question like `answer`; return the complete Answer. `on_step` gets each step."""
        async with aclosing(self.answer(dialog, question, cache=cache)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
                if on_step and isinstance(piece, TraceStep):
                    await on_step(piece)
        raise AssertionError("a conversation ends with its answer")

    @asynccontextmanager
    async def generator(
        self, engine: Engine | None = None, *, or_failing: bool = False
    ) -> AsyncIterator[TextGenerator]:
        """Provide the text generator for one question; afterwards it reports the tokens used.

        It is that of the engine's model; None is the server's own engine.

        With `or_failing`, an unavailable model raises when it is asked, not here.
        """
        engine = engine or self.engine
        opened = engine.answering_generator if or_failing else engine.generator
        kept = self._generators[engine.settings.model]
        generator = kept.pop() if kept else await to_thread(opened)
        try:
            yield generator
        finally:
            if not isinstance(generator, FailedGenerator):
                kept.append(generator)


def _models_by_name(settings: ServerSettings) -> dict[str, str]:
    """Return the models that a question may choose, by the names that callers see; each name is unique."""
    mine, found = settings.engine, dict[str, str]()
    for model in dict.fromkeys((mine.model or "", *settings.models) if mine.has_model else ()):
        shown = replace(mine, model=model).shown_model or _UNNAMED_MODEL
        names = chain([shown], (f"{shown} ({number})" for number in count(2)))
        found[next(name for name in names if name not in found)] = model
    return found


def _children_can_prepare(engine: Settings) -> bool:
    """Whether child processes see the same conversations, and send nothing to an external service."""
    return engine.memory != "memory:" and not engine.embeds_on_a_server
