"""The children of a server begin from shared indexes, and only they get the credentials of a bucket."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rag.processes import closed_environment, object_store_environment
from rag.serve.workers.indexing import ChildIndexers, IndexTask
from rag.service import Engine, locate
from rag.settings import Settings
from tests.servers.object_store import MotoServer


@pytest.fixture
def bucket(monkeypatch):
    with MotoServer() as server:
        server.create("shared")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield "s3://shared/rag"


def test_a_server_begins_from_an_index_in_a_bucket(bucket, sample_repo, tmp_path):
    settings = Settings(home=tmp_path / "a", stores=bucket)
    source = locate(f"file://{sample_repo}")
    engine = Engine(settings)
    published = engine.publish(engine.repository(source))
    notices = []

    async def index(settings):
        indexers = ChildIndexers(settings, notice=notices.append)
        try:
            return await indexers.index(IndexTask(source), lambda *how_far: None)
        finally:
            await indexers.close()

    done = asyncio.run(index(replace(settings, home=tmp_path / "b")))
    assert done.report["changed"] == 0 and done.report["files"] > 3
    assert any(published.generation[:10] in notice for notice in notices)


def test_only_a_child_that_is_meant_to_has_the_credentials(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert not any(name.startswith("AWS_") for name in closed_environment())
    assert object_store_environment() == {
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }
