from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server that has the sample repository ready."""
    with serving(tmp_path_factory.mktemp("server")) as url:
        yield url
