"""A real server on loopback, one for a module, over a small real repository that is indexed once."""

from __future__ import annotations

import filecmp
import http.client
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from rag.backends.openai.thought_habits import ThoughtHabit
from rag.settings import Settings
from rag.types import Source

if TYPE_CHECKING:
    from rag.serve.run import Server
    from rag.serve.settings import ServerSettings

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample_repo"
DEADLINE_S = 120


@dataclass
class Reply:
    """A response, read whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of the server-sent events, in order; JSON where it is."""
        found = []
        for block in self.body.decode().split("\n\n"):
            lines = [line[6:] for line in block.splitlines() if line.startswith("data: ")]
            if lines:
                found.append(json.loads(lines[0]) if lines[0] != "[DONE]" else "[DONE]")
        return found


@dataclass
class Served:
    """A server that runs in a thread of the test."""

    server: Server
    settings: ServerSettings
    home: Path
    port: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def service(self) -> Any:
        return self.server.config.app.state.service

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
    ) -> Reply:
        sent = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Reply:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.request("POST", path, body, **more)

    def wait_until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something that is bound to come; fails when it does not."""
        deadline, pause_s = time.monotonic() + DEADLINE_S, 0.005
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not come"
            threading.Event().wait(pause_s)
            pause_s = min(1.5 * pause_s, 0.05)  # who asks all the time keeps from working what is waited for
        return found

    def ready(self) -> Served:
        self.wait_until(lambda: self.get("/ready").status == 200)
        return self


@cache
def _share_what_fastapi_makes() -> None:
    """Let all servers of the process use the same type adapters and signatures: each would make its own.

    That is half of the time of the start of a server. Annotations are read from the globals of a module.
    """
    v2: Any = import_module("fastapi._compat.v2")
    dependencies: Any = import_module("fastapi.dependencies.utils")
    adapters: dict[tuple[Any, ...], Any] = {}
    signatures: dict[tuple[Any, ...], Any] = {}
    make, read = v2.TypeAdapter, dependencies._get_signature

    def adapter(kind: Any, *, config: Any = None) -> Any:
        key = (kind.__origin__, repr(kind), repr(config))  # equal unions may differ in their order
        if key not in adapters:
            adapters[key] = make(kind, config=config)
        return adapters[key]

    def signature(call: Any) -> Any:
        if type(call) is not FunctionType or call.__kwdefaults__ or hasattr(call, "__wrapped__"):
            return read(call)
        key = (call.__code__, repr(call.__defaults__))
        if key not in signatures:
            signatures[key] = read(call)
        return signatures[key]

    v2.TypeAdapter, dependencies._get_signature = adapter, signature


@contextmanager
def serving(home: Path, **settings: Any) -> Iterator[Served]:
    """Run a server until the block ends."""
    from rag.serve.run import make_server
    from rag.serve.settings import ServerSettings

    _share_what_fastapi_makes()
    engine = Settings(**{"reword": False, "home": home / "rag-home", **settings.pop("engine", {})})
    if engine.base_url and engine.model:
        ThoughtHabit(engine.home, engine.base_url, engine.model).learn("answers")  # they are streamed at once
    given = ServerSettings(engine=engine, port=0, **{"grace_s": 1.0, "processes": 0, **settings})
    server = make_server(given)
    thread = threading.Thread(target=server.run)
    thread.start()
    served = Served(server, given, home)
    try:
        served.wait_until(lambda: server.started or not thread.is_alive())
        assert thread.is_alive(), "the server did not start"
        served.port = server.servers[0].sockets[0].getsockname()[1]
        yield served
    finally:
        server.stop()
        server.should_exit = True
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the server did not stop"


def sample_copy(folder: Path) -> Source:
    """A copy of the sample repository, without git."""
    root = folder / "sample"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    return Source(str(root.resolve()))


class IndexedSample:
    """The sample repository, without git, and its store. Who changes files takes a `sample_copy` instead."""

    def __init__(self, folder: Path) -> None:
        from rag.service import Engine

        self.source = sample_copy(folder)
        self._home = folder / "rag-home"
        with closing(Engine(Settings(home=self._home, memory="memory:"))) as engine:
            engine.repository(self.source)

    def put_into(self, home: Path) -> Source:
        """Copy the store into the home of a server that is about to start; return the repository."""
        shutil.copytree(self._home / "stores", home / "rag-home" / "stores", dirs_exist_ok=True)
        return self.source

    def check(self) -> None:
        """The files are those that were indexed."""
        assert _differences(filecmp.dircmp(SAMPLE, self.source.location, ignore=["__pycache__"])) == []


def _differences(compared: filecmp.dircmp[str]) -> list[str]:
    found = [*compared.left_only, *compared.right_only, *compared.diff_files, *compared.funny_files]
    return [*found, *(name for inner in compared.subdirs.values() for name in _differences(inner))]


@pytest.fixture(scope="session")
def indexed_sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexedSample]:
    """The sample repository, indexed once for all servers that only read it."""
    sample = IndexedSample(tmp_path_factory.mktemp("indexed"))
    yield sample
    sample.check()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, indexed_sample: IndexedSample) -> Iterator[Served]:
    """A server without keys that has the sample repository ready."""
    home = tmp_path_factory.mktemp("served")
    with serving(home, repositories=(("sample", indexed_sample.put_into(home)),)) as running:
        yield running.ready()


@pytest.fixture
def serve(tmp_path: Path, indexed_sample: IndexedSample) -> Iterator[Callable[..., Served]]:
    """Start servers of one's own: `serve(keys=(…))`; of the sample repository unless told otherwise."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Served:
            home = tmp_path / f"server-{len(list(tmp_path.glob('server-*')))}"
            home.mkdir()
            if "repositories" not in settings:
                settings["repositories"] = (("sample", indexed_sample.put_into(home)),)
            return stack.enter_context(serving(home, **settings))

        yield start


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's service that fails is asked as often as ever, but without long pauses between the tries."""
    from rag.backends.openai.endpoint import Retries

    monkeypatch.setattr("rag.backends.openai.client.Retries", partial(Retries, first_pause_s=0.01))


@pytest.fixture
def provider(short_pauses: None) -> Iterator[Any]:
    """A model's service that does as told, see `tests.servers.provider`."""
    from tests.servers.provider import ProviderServer

    with ProviderServer() as running:
        yield running
