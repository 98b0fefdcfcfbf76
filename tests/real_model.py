"""The fixture `real_model`: a real language model for the whole test session, loaded once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.model import LocalModel, missing


@pytest.fixture(scope="session")
def real_model() -> Iterator[LocalModel]:
    """SmolLM2-135M on loopback: `.base_url`, `.api_key`, `.model`. Skipped when it is not installed."""
    if lacking := missing():
        pytest.skip(lacking)
    with LocalModel() as server:
        yield server
