"""Who gets in, and what does not."""

from __future__ import annotations

import pytest

from rag.errors import SettingsError
from rag.serve.app import create_app
from rag.serve.settings import ServerSettings
from rag.settings import Settings


def test_health_answers(served):
    reply = served.get("/health")
    assert reply.status == 200
    assert reply.json["status"] == "ok"
    assert reply.json["ready"] == 1


def test_it_refuses_to_listen_elsewhere_without_a_key(tmp_path):
    with pytest.raises(SettingsError, match="without a key"):
        create_app(ServerSettings(engine=Settings(home=tmp_path), host="0.0.0.0"))
    create_app(ServerSettings(engine=Settings(home=tmp_path), host="0.0.0.0", keys=("secret",)))
