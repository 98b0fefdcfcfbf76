"""JSON is bounded before it is parsed: in values, keys, depth and time, at every interface."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.serve.access import json_limits
from rag.serve.access.json_limits import MAX_DEPTH, MAX_KEYS, check_json
from rag.serve.errors import BadRequest, TooLarge

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PATHS = ("/api/ask", "/api/search", "/v1/chat/completions", "/mcp", "/chat/completions/stream")
MOST = 20_000


def values_of(value):
    if isinstance(value, dict):
        return 1 + sum(map(values_of, value.values())) + (not value)
    if isinstance(value, list):
        return 1 + sum(map(values_of, value)) + (not value)
    return 1


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def keys_of(value):
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return max([len(value) if isinstance(value, dict) else 0, *map(keys_of, inner)])


_TEXT = st.text(st.sampled_from('a"\\{}[],:\n\u2c22\u5b5b é'), max_size=6)
_VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(_TEXT, inner, max_size=5)),
    max_leaves=40,
)


@given(value=_VALUES, escaped=st.booleans(), indent=st.sampled_from([None, 1]))
@example(value={"a": "\\"}, escaped=False, indent=None)
@example(value=['"', "\\\\", '\\"[['], escaped=True, indent=None)
def test_the_bytes_are_counted_as_a_parser_counts_values(value, escaped, indent):
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_limits, "MAX_DEPTH", 4)
        patch.setattr(json_limits, "MAX_KEYS", 4)
        # Commas and opening brackets are counted: a filled list or object is one with its first value.
        is_deep, is_wide = depth_of(value) > 4, keys_of(value) > 4
        try:
            check_json(body, max_values=12)
        except TooLarge:
            assert values_of(value) > 12 or is_wide
        except BadRequest:
            assert is_deep
        else:
            assert not is_deep and not is_wide and values_of(value) <= 2 * 12 + 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_another_encoding_hides_nothing(encoding):
    with pytest.raises(BadRequest, match="UTF-8"):
        check_json("{}".encode(encoding), max_values=MOST)


def wide(count):
    return b'{"question":"x",' + b",".join(b'"k%d":1' % number for number in range(count)) + b"}"


HOSTILE = {
    "330,000 unknown keys": wide(330_000),
    "as many keys as may be": wide(MAX_KEYS - 2),
    "objects full of keys": b"[" + b",".join([wide(900)] * 400) + b"]",
    "unknown keys in each message": b'{"model":"rag:sample","repo_url":"x","messages":['
    + b",".join([b'{"a":1,"b":2,"c":3,"d":4,"e":5}'] * 3_300)
    + b"]}",
    "unknown keys of a list": b'{"repository":"sample","questions":[' + b",".join([wide(990)] * 19) + b"]}",
    "a million strings": b"[" + b'"",' * 1_000_000 + b'""]',
    "a million quotes": b'"' * 3_000_000,
    "deep": b"[" * 1_900_000 + b"]" * 1_900_000,
    "deep objects": b'{"a":' * 700_000,
    "one level too deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "a long string": b'{"question":"' + b"[" * 3_800_000 + b'"}',
    "escapes": b'{"question":"' + b"\\n" * 1_900_000 + b'"}',
    "backslashes": b'{"question":"' + b"\\\\" * 1_900_000 + b'"}',
    "a million documents": b"{}\n" * 1_200_000,
    "a long number": b'{"question":' + b"1" * 3_800_000 + b"}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_counting_takes_no_longer_than_a_few_passes(what):
    body = HOSTILE[what]
    began = time.process_time()
    with suppress(TooLarge, BadRequest):
        check_json(body, max_values=MOST)
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("path", PATHS)
def test_no_body_stops_the_server(watched, path, what):
    with watched.no_stall():
        reply = watched.served.post(path, HOSTILE[what], headers=HEADERS)
    assert 400 <= reply.status < 500


def test_no_message_of_a_socket_stops_the_server(watched):
    from websockets.sync.client import connect

    for body in HOSTILE.values():
        with connect(f"ws://127.0.0.1:{watched.served.port}/ws/chat", max_size=None) as socket:
            text = body.decode()
            with watched.no_stall():
                socket.send(text)
                assert str(socket.recv()).startswith("Error")


class Watched:
    """A server, and how long its event loop had to wait for its next turn, in CPU time of the process."""

    def __init__(self, served):
        self.served, self.waits = served, []
        self._stop = threading.Event()

    async def watch(self):
        before = time.process_time()
        while not self._stop.is_set():
            await asyncio.sleep(0.001)
            now = time.process_time()
            self.waits.append(now - before)
            before = now

    @contextmanager
    def no_stall(self):
        self.waits.clear()
        yield
        seen = len(self.waits)
        self.served.wait_until(lambda: len(self.waits) > seen + 1)
        assert max(self.waits) < 0.2  # .11 for the unknown keys of a list on a slow core

    def stop(self):
        self._stop.set()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    from live_server import sample_copy, serving

    home = tmp_path_factory.mktemp("json")
    with serving(home, repositories=(("sample", sample_copy(home)),), deepwiki=True) as served:
        served.ready()
        for path in PATHS:  # what is loaded with the first request is no stall of the second
            served.post(path, b"{}", headers=HEADERS)
        gc.collect()
        gc.freeze()  # what the server has loaded too, see `pytest_collection_finish`
        watched = Watched(served)
        watching = asyncio.run_coroutine_threadsafe(watched.watch(), served.server._running)
        yield watched
        watched.stop()
        watching.result(120)
