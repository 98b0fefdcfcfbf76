"""The one object behind every door: what is served, to whom, and the way a question takes."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

from rag.errors import NotFound, RagError, StoreCorrupt
from rag.ports import TextGenerator
from rag.serve.access.keys import Caller, Keyring, named_keys, read_keys
from rag.serve.access.rate_limits import Limiter
from rag.serve.access.redaction import Folders
from rag.serve.access.ssrf import check_git
from rag.serve.errors import BadRequest, Forbidden
from rag.serve.registry import RepositoryRegistry, ServedRepository
from rag.serve.settings import ServerSettings, check_settings
from rag.serve.sse import Streams
from rag.serve.telemetry import Telemetry, log
from rag.serve.workers.open_files import raise_limit
from rag.serve.workers.prepare_pool import Preparing
from rag.serve.workers.write_batch import Storing
from rag.service import Dialog, Engine, aconverse
from rag.service.engine import FailedGenerator
from rag.service.replay import Replay, TurnsBefore, compared
from rag.settings import Settings, with_absolute_paths
from rag.types import Answer, Conversation, DialogTurn

Lifespan = Callable[[], AbstractAsyncContextManager[object]]
MOST_REPOSITORIES = 10
_PATIENCE_S = 0.25


class Service:
    """What is served. One for each app; made before the event loop runs, started in it.

    Attributes:
        settings: what the server was told.
        library: the repositories, by name.
        keyring: who may ask.
        limiter: how much at once.
        preparing: searches and renders, in other processes since several asked at once.
        storing: stores the turns of answers, those that come at once together.
        telemetry: what the operator sees.
        streams: those under way.
        lifespans: a door that needs something to run while the server does adds it here.

    Raises:
        SettingsError: the settings would serve strangers, or cannot be used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        keys = named_keys(settings.keys, settings.engine.namespace)
        keys += read_keys(settings.keys_file) if settings.keys_file else ()
        check_settings(settings, has_keys=bool(keys))
        check_git(settings.allow_urls)
        self.settings = settings
        # Children work in another folder.
        own = with_absolute_paths(settings.engine)
        self.engine = Engine(own, notice=lambda text: log.warning("%s", text), refs=settings.allowed_refs)
        self.keyring = Keyring(keys, anyone=Caller(namespace=settings.engine.namespace))
        self.library = RepositoryRegistry(settings, self.engine, notice=lambda text: log.warning("%s", text))
        self.limiter = Limiter(settings)
        self.telemetry = Telemetry()
        self.telemetry.watch(
            self.limiter,
            ready=lambda: sum(shelf.can_answer for shelf in self.library.shelves()),
            indexing=lambda: sum(shelf.running for shelf in self.library.shelves()),
        )
        self.streams = Streams()
        self.storing = Storing()
        self.preparing = Preparing(settings.processes if _children_can_prepare(settings.engine) else 0)
        is_private = settings.is_loopback and not settings.public_hosts and not keys
        self._folders = None if is_private else Folders(settings)
        self.lifespans: list[Lifespan] = []
        self._engines: dict[str, Engine] = {settings.engine.namespace: self.engine}
        self._generators: list[TextGenerator] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything the server needs while it runs."""
        raise_limit()
        pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="rag")
        asyncio.get_running_loop().set_default_executor(pool)
        async with AsyncExitStack() as stack:
            stack.callback(self.engine.close)
            await self.library.start()
            stack.push_async_callback(self.library.close)
            stack.push_async_callback(self.preparing.close)
            stack.push_async_callback(self.storing.close)
            for lifespan in self.lifespans:
                await stack.enter_async_context(lifespan())
            yield

    def engine_for(self, caller: Caller) -> Engine:
        """The engine as a caller sees it: their conversations, everybody's stores."""
        known = self._engines.get(caller.namespace)
        if known is None:
            known = self.engine.with_settings(namespace=caller.namespace)
            for shared in ("embedder", "counter"):
                known.__dict__[shared] = getattr(self.engine, shared)
            self._engines[caller.namespace] = known
        return known

    def told(self, text: str) -> str:
        """A text as callers may read it: to those from elsewhere folders are told by their names."""
        return text if self._folders is None else self._folders.hidden(text)

    def place(self, location: str) -> str:
        """Where a repository is, as callers may read it: to those from elsewhere a folder is its name."""
        told = self.told(location)
        return told if self._folders is None or not Path(told).is_absolute() else Path(told).name

    def words(self, error: RagError) -> str:
        """What callers are told of an error; where that leaves something out, the log has it whole.

        An index that turned out to be damaged begins to be rebuilt.
        """
        if isinstance(error, StoreCorrupt) and (name := self.library.rebuild_damaged(error)):
            log.warning("%s", error)
            return f"the index of {name} is damaged and is being rebuilt; ask again in a moment"
        told = self.told(str(error))
        if told != str(error):
            log.warning("%s: %s", type(error).__name__, error)
        return told

    @property
    def patience_s(self) -> float | None:
        """After which time a stream begins without a piece; None where a model may yet fail with a status."""
        return None if self.settings.engine.has_model else _PATIENCE_S

    def stop(self) -> None:
        """Take no more questions; end the streams that still go on after the time of grace."""
        self.limiter.stopping = True
        asyncio.get_running_loop().call_later(self.settings.grace_s, self.streams.end)

    # ------------------------------------------------------------ conversations

    async def dialog(
        self,
        caller: Caller,
        repositories: Sequence[str | ServedRepository],
        *,
        conversation: str | None = None,
        named: bool = True,
    ) -> Dialog:
        """A conversation about repositories, ready to be asked.

        Args:
            caller: whose it is.
            repositories: by name, at most 10; none takes those of the conversation, else the only one.
            conversation: its id or name; None begins one with its first turn.
            named: begin one of this name when there is none; else that is NotFound.

        Raises:
            NotFound, ConversationMismatch: the conversation, see `Engine.find_conversation`.
            Forbidden: the conversation is about a repository that is not served.
            UnknownRepository: none is named, and there are several.
            BadRequest: too many are named.
            ServeError: as `RepositoryRegistry.repository`.
        """
        if len(repositories) > MOST_REPOSITORIES:
            raise BadRequest(
                f"{len(repositories)} repositories were named; at most {MOST_REPOSITORIES} are asked"
            )
        shelves = [
            self.library.shelf(one, caller=caller) if isinstance(one, str) else one for one in repositories
        ]
        shelves = list(dict.fromkeys(shelves))
        engine = self.engine_for(caller)
        found: Conversation | None = None
        if conversation:
            sources = [shelf.source for shelf in shelves]
            try:
                found = await to_thread(engine.find_conversation, conversation, sources)
            except NotFound:
                if not named or not shelves:
                    raise
        if found is not None and not shelves:
            shelves = [self._served(found, number) for number in range(len(found.sources))]
        if not shelves:
            shelves = [self.library.only_one()]
        opened = [await self.library.opened(shelf) for shelf in shelves]
        return Dialog(engine, opened, found, name=conversation or "" if found is None else "")

    def _served(self, conversation: Conversation, number: int) -> ServedRepository:
        shelf = self.library.of_source(conversation.sources[number])
        if shelf is None:
            raise Forbidden("the conversation is about a repository that this server does not serve")
        return shelf

    def at_ref(self, shelf: ServedRepository, ref: str, caller: Caller) -> ServedRepository:
        """The same repository at another branch, tag or commit, which begins to be indexed when it is opened.

        Raises:
            ServeError: as `RepositoryRegistry.shelf`.
        """
        return self.library.shelf(self.library.base_name(shelf.source), ref, caller=caller)

    # ------------------------------------------------------------ asking

    async def answer(
        self, dialog: Dialog, question: str, *, cache: bool | None = None
    ) -> AsyncGenerator[str | Answer, None]:
        """Ask: pieces of text as they come, then the Answer, which is stored as a turn.

        Close it (`contextlib.aclosing`): an answer that is given up stores no turn and stops the model.
        `cache` says whether an answer may be given again; None leaves that to the settings.

        Raises:
            TooLarge, TooMany, ShuttingDown: see `Limiter`.
            ProviderError, ConfigError: as `rag.service.aconverse`.
        """
        self.limiter.check_question(question)
        async with self.limiter.seat(), self.generator(or_failing=True) as generator:
            conversation = dialog.conversation.id if dialog.conversation else ""
            names = [repository.source.name for repository in dialog.repositories]
            with self.telemetry.question(
                model=generator.model, conversation=conversation, repositories=names
            ) as asking:
                # "Regenerate" in a chat asks the very same: an answer is given again only where that is set.
                cache = bool(dialog.engine.settings.cache) if cache is None else cache
                answering = aconverse(
                    dialog,
                    question,
                    generator,
                    cache=cache,
                    prepare=self.preparing.prepare,
                    remember=self.storing.store,
                )
                async with aclosing(answering) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Answer):
                            asking.answer = piece
                        asking.piece()
                        yield piece

    async def answered(self, dialog: Dialog, question: str, *, cache: bool | None = None) -> Answer:
        """The same as `answer`, whole."""
        async with aclosing(self.answer(dialog, question, cache=cache)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a conversation ends with its answer")

    async def replayed(self, caller: Caller, turn: DialogTurn, ref: str | None) -> Replay:
        """Ask a turn's question again, after the same earlier turns; nothing is stored.

        Args:
            caller: whose turn it is.
            turn: any of the caller's.
            ref: of the repositories at this branch, tag or commit; None is as they are served.

        Raises:
            NotFound: the turn's conversation is gone.
            Forbidden: the conversation is about a repository that is not served.
            TooLarge, TooMany, ServeError, RagError: as asking does.
        """
        engine = self.engine_for(caller)
        conversation = await to_thread(engine.conversation_of, turn)
        shelves = [self._served(conversation, number) for number in range(len(conversation.sources))]
        if ref is not None:
            shelves = [self.at_ref(shelf, ref, caller) for shelf in shelves]
        if not shelves:
            raise BadRequest("the turn's conversation is about no repository that could be asked again")
        opened = [await self.library.opened(shelf) for shelf in shelves]
        before = Dialog(engine, opened, history=TurnsBefore(engine, conversation, turn))
        answer = await self.answered(before, turn.question, cache=False)
        sources = [shelf.source for shelf in shelves]
        async with self.limiter.seat():
            return await to_thread(compared, engine, turn, answer, sources)

    @asynccontextmanager
    async def generator(self, *, or_failing: bool = False) -> AsyncIterator[TextGenerator]:
        """What writes answers, for one question at a time: it says afterwards how many tokens it took.

        With `or_failing` a model that cannot be had fails when it is asked, not here.
        """
        opened = self.engine.answering_generator if or_failing else self.engine.generator
        generator = self._generators.pop() if self._generators else await to_thread(opened)
        try:
            yield generator
        finally:
            if not isinstance(generator, FailedGenerator):
                self._generators.append(generator)


def _children_can_prepare(engine: Settings) -> bool:
    """Whether another process sees the same conversations, and sends nothing to anyone."""
    return engine.memory != "memory:" and not engine.embedder.startswith("openai:")
