"""Shared stores in a bucket: the contract on two servers, and a service that misbehaves in between."""

from __future__ import annotations

import inspect
import itertools
import time
import uuid

import obstore
import pytest
from obstore import exceptions
from obstore.store import S3Store

from rag import backends
from rag.backends.shelf.bucket import BucketObjects, translated
from rag.backends.shelf.objects import ObjectMissing
from rag.errors import (
    SettingsError,
    ShelfDamaged,
    ShelfError,
    ShelfFull,
    ShelfRefused,
    ShelfUnreachable,
)
from rag.settings import Settings
from tests.backends.test_store_shelf import cached_files, killed_publisher_in, opener  # noqa: F401
from tests.contracts.store_shelf import StoreShelfContract
from tests.servers.object_store import MotoServer, S3rver, s3rver_script
from tests.servers.proxy import (
    AfterThat,
    Corrupted,
    Proxy,
    Reset,
    Silent,
    Status,
    Trickle,
    Truncated,
)

SECRET = "a-secret-that-nobody-may-see"
TIMEOUT_S = 1.0
"""Of one request, where a test waits for it."""


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server:
        yield server


@pytest.fixture(scope="module")
def s3rver():
    if s3rver_script() is None:
        pytest.skip("s3rver is not installed; `make .venv/.installed-test` installs it if npm is there")
    with S3rver() as server, Proxy(server.url, conditional=True) as gate:
        server.gate = gate
        yield server


def environment_of(endpoint, key="S3RVER", secret="S3RVER"):
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }


class RawBucket:
    def __init__(self, bucket):
        self.store = S3Store(bucket, client_options={"allow_http": True})

    def names(self):
        listed = obstore.list(self.store, prefix="team/stores")
        names = [meta["path"].removeprefix("team/stores/") for metas in listed for meta in metas]
        return sorted(name for name in names if not name.startswith("probes/"))

    def read(self, name):
        return bytes(obstore.get(self.store, f"team/stores/{name}").bytes())

    def write(self, name, content):
        obstore.put(self.store, f"team/stores/{name}", content)

    def remove(self, name):
        obstore.delete(self.store, f"team/stores/{name}")


class BucketShelf(StoreShelfContract):
    """The fixtures of the contract for an empty bucket of `server`, reached at `endpoint`."""

    @pytest.fixture
    def place(self, server, endpoint, monkeypatch):
        bucket = f"b-{uuid.uuid4().hex[:20]}"
        server.create(bucket)
        for name, value in environment_of(endpoint).items():
            monkeypatch.setenv(name, value)
        return f"s3://{bucket}/team/stores"

    @pytest.fixture
    def open_shelf(self, place, tmp_path):
        return opener(Settings(stores=place), tmp_path)

    @pytest.fixture
    def raw(self, place):
        return RawBucket(place.split("/")[2])

    @pytest.fixture
    def killed_publisher(self, place, endpoint, tmp_path):
        named = {"RAG_STORES": place, "RAG_HOME": str(tmp_path / "killed")}
        return killed_publisher_in(named | environment_of(endpoint))


class TestMotoShelf(BucketShelf):
    @pytest.fixture
    def server(self, moto):
        return moto

    @pytest.fixture
    def endpoint(self, moto):
        return moto.url


class TestS3rverShelf(BucketShelf):
    @pytest.fixture
    def server(self, s3rver):
        return s3rver

    @pytest.fixture
    def endpoint(self, s3rver):
        return s3rver.gate.url

    def test_a_service_that_ignores_conditions_is_refused_before_it_loses_anything(
        self, server, open_shelf, monkeypatch, made, raw
    ):
        self.publish(open_shelf(), "app", made(store="one"))
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(ShelfRefused, match="ignores the conditions of writes"):
            self.publish(open_shelf(), "app", made(store="two"))
        assert self.texts(open_shelf().fetch("app").folder) == {"store.pkl": "one"}


class TestUnreliableService:
    """One shelf behind a proxy that misbehaves."""

    @pytest.fixture
    def proxy(self, moto):
        with Proxy(moto.url) as proxy:
            yield proxy

    @pytest.fixture
    def shelf(self, moto, proxy, monkeypatch, tmp_path):
        bucket = f"b-{uuid.uuid4().hex[:20]}"
        moto.create(bucket)
        monkeypatch.setattr(backends, "SHELF_TIMEOUT_S", TIMEOUT_S)
        for name, value in environment_of(proxy.url, secret=SECRET).items():
            monkeypatch.setenv(name, value)
        return backends.open_shelf(Settings(home=tmp_path / "home", stores=f"s3://{bucket}"))

    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "store"
        path.write_bytes(b"0123456789" * 1000)
        return path

    @pytest.fixture
    def published(self, shelf, file, proxy):
        made = shelf.publish("app", {"store.pkl": file}, about={}, expect=None).generation
        proxy.requests.clear()
        return made

    @pytest.mark.parametrize(
        "faults",
        [
            [Status(status=503)],
            [Status(status=500), Status(status=500)],
            [Reset()],
            [Reset(after_half=True)],
            [Truncated(part="objects/", method="GET")],
            [Truncated(part="keys/", method="GET")],
            [Corrupted(part="objects/", method="GET")],
            [Reset(part="objects/", method="GET", after_half=True), Truncated(part="objects/", method="GET")],
        ],
        ids=str,
    )
    def test_a_fetch_survives_a_fault(self, shelf, published, proxy, file, faults):
        proxy.plan(faults)
        fetched = shelf.fetch("app")
        assert (fetched.folder / "store.pkl").read_bytes() == file.read_bytes()
        assert proxy.planned() == 0

    @pytest.mark.parametrize(
        ("fault", "error", "match"),
        [
            (Status(status=503), ShelfUnreachable, "status 503"),
            (Status(status=400), ShelfUnreachable, "status 400"),
            (Status(status=403), ShelfRefused, "refuses the credentials"),
            (Reset(), ShelfUnreachable, "connection"),
            (Silent(), ShelfUnreachable, "no answer within 1 s"),
            (Truncated(method="GET", part="objects/"), ShelfUnreachable, "connection"),
            (Trickle(method="GET", part="objects/"), ShelfUnreachable, "no answer within 1 s"),
            (Corrupted(method="GET", part="objects/"), ShelfDamaged, "other bytes than were published"),
        ],
        ids=str,
    )
    def test_a_fault_that_stays_is_an_error_within_bounds(
        self, shelf, published, proxy, tmp_path, fault, error, match
    ):
        proxy.plan(itertools.repeat(fault))
        began = time.monotonic()
        with pytest.raises(error, match=match) as caught:
            shelf.fetch("app")
        assert time.monotonic() - began < 15
        assert SECRET not in repr(caught.value) and "S3RVER" not in str(caught.value)
        assert not list((tmp_path / "home").rglob("files/*"))
        proxy.plan([])
        assert shelf.fetch("app").generation == published

    @pytest.mark.parametrize(
        "fault",
        [
            Status(method="PUT", part="objects/"),
            Status(method="PUT", part="keys/"),
            Reset(method="PUT", part="objects/"),
            Reset(method="PUT", part="keys/"),
            AfterThat(method="PUT", part="objects/"),
            AfterThat(method="PUT", part="keys/"),
        ],
        ids=str,
    )  # fmt: skip
    def test_a_publication_survives_a_fault(self, shelf, proxy, file, fault):
        proxy.plan([fault])
        made = shelf.publish("app", {"store.pkl": file}, about={}, expect=None).generation
        assert proxy.planned() == 0
        assert shelf.current("app") == made

    def test_a_swap_of_unknown_outcome_is_no_conflict(self, shelf, published, proxy, file):
        proxy.plan([AfterThat(method="PUT", part="keys/")])
        file.write_bytes(b"next")
        made = shelf.publish("app", {"store.pkl": file}, about={}, expect=published.id).generation
        assert proxy.planned() == 0
        assert shelf.current("app") == made != published

    @pytest.mark.parametrize("part", ["objects/", "keys/"])
    def test_a_publication_that_fails_leaves_the_former_generation(self, shelf, published, proxy, file, part):
        proxy.plan(itertools.repeat(Status(method="PUT", part=part)))
        before = file.read_bytes()
        file.write_bytes(b"next")
        with pytest.raises(ShelfUnreachable, match="status 503"):
            shelf.publish("app", {"store.pkl": file}, about={}, expect=published.id)
        proxy.plan([])
        assert (shelf.fetch("app").folder / "store.pkl").read_bytes() == before

    @pytest.mark.parametrize("part", ["objects/", "keys/"])
    @pytest.mark.parametrize(
        ("status", "code", "error", "match"),
        [
            (507, "XMinioStorageFull", ShelfFull, r"no space is left there \(XMinioStorageFull\).*quota"),
            (507, "", ShelfFull, "no space is left there"),
            (400, "XMinioAdminBucketQuotaExceeded", ShelfFull, "no space is left there"),
            (403, "QuotaExceeded", ShelfFull, "no space is left there"),
            (503, "SlowDown", ShelfUnreachable, "asks for fewer requests .SlowDown."),
            (429, "TooManyRequests", ShelfUnreachable, "asks for fewer requests"),
        ],
    )
    def test_a_full_or_busy_service_is_named_and_loses_nothing(
        self, shelf, published, proxy, file, part, status, code, error, match
    ):
        proxy.plan(itertools.repeat(Status(method="PUT", part=part, status=status, code=code)))
        before = file.read_bytes()
        file.write_bytes(b"next" * 2_000_000)  # in parts
        with pytest.raises(error, match=match):
            shelf.publish("app", {"store.pkl": file}, about={}, expect=published.id)
        began = [path for method, path in proxy.requests if method == "POST" and "uploads" in path]
        ended = [path for method, path in proxy.requests if method == "DELETE" and "uploadId" in path]
        assert began and len(began) == len(ended) + (part == "keys/"), (
            "parts that stay take the space that is short"
        )
        assert (shelf.fetch("app").folder / "store.pkl").read_bytes() == before
        proxy.plan([])
        shelf.publish("app", {"store.pkl": file}, about={}, expect=published.id)
        assert (shelf.fetch("app").folder / "store.pkl").read_bytes() == file.read_bytes()

    def test_a_download_that_was_interrupted_is_whole_or_not_there(self, shelf, published, proxy):
        proxy.plan(itertools.repeat(Reset(method="GET", part="objects/", after_half=True)))
        with pytest.raises(ShelfUnreachable):
            shelf.fetch("app")
        assert shelf.last_fetched("app") is None


def test_wrong_credentials_are_refused(moto, monkeypatch, tmp_path):
    file = tmp_path / "store"
    file.write_text("text")
    for name, value in environment_of(moto.url, secret=SECRET).items():
        monkeypatch.setenv(name, value)
    shelf = backends.open_shelf(Settings(home=tmp_path, stores="s3://bucket"))
    with moto.checking():
        for call in (
            lambda: shelf.current("app"),
            lambda: shelf.fetch("app"),
            shelf.keys,
            lambda: shelf.publish("app", {"store": file}, about={}, expect=None),
        ):
            with pytest.raises(ShelfRefused, match=r"refuses the credentials \(\w+\); check AWS_") as caught:
                call()
            assert SECRET not in repr(caught.value) and caught.value.__cause__ is None


def test_a_closed_port_is_unreachable(monkeypatch, tmp_path):
    with Proxy("http://127.0.0.1:9") as proxy:
        url = proxy.url
    for name, value in environment_of(url, secret=SECRET).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(backends, "SHELF_TIMEOUT_S", TIMEOUT_S)
    shelf = backends.open_shelf(Settings(home=tmp_path, stores="s3://bucket"))
    began = time.monotonic()
    with pytest.raises(ShelfUnreachable, match="connection failed"):
        shelf.current("app")
    assert time.monotonic() - began < 10


def test_without_credentials_the_error_says_which_variables(moto, monkeypatch, tmp_path):
    with Proxy("http://127.0.0.1:9") as closed:
        nowhere = closed.url
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.url)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", nowhere)
    monkeypatch.setattr(backends, "SHELF_TIMEOUT_S", TIMEOUT_S)
    shelf = backends.open_shelf(Settings(home=tmp_path, stores="s3://bucket"))
    with pytest.raises(ShelfRefused, match="no credentials were found; set AWS_ACCESS_KEY_ID"):
        shelf.current("app")


def test_every_error_of_the_client_is_translated():
    kinds = [
        kind for _, kind in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(kind, exceptions.BaseError)
    ]  # fmt: skip
    assert len(kinds) > 8
    for kind in kinds:
        found = translated(kind("what happened"), "s3://b", "b", 1.0)
        assert isinstance(found, ShelfError) and "what happened" not in str(found)
    assert isinstance(translated(FileNotFoundError("no key"), "s3://b", "b", 1.0), ObjectMissing)


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3://Bucket",
        "s3://key:secret@bucket",
        "s3://bucket/a b",
        "s3://bucket/../x",
        "s3://bucket?x=1",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_it(address):
    with pytest.raises(SettingsError, match="use s3://BUCKET/PREFIX") as caught:
        BucketObjects(address, timeout_s=1)
    assert "secret" not in str(caught.value)


def test_a_name_shows_the_endpoint_without_its_login(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{SECRET}@127.0.0.1:9000/x")
    assert BucketObjects("s3://bucket/a/", timeout_s=1).name == "s3://bucket/a (http://127.0.0.1:9000)"
