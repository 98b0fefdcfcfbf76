"""Answers belong to the server: clients follow them, leave, come back, and stop them."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from keys_given import add_key, memory_in

from rag.service import Engine
from rag.settings import Settings

QUESTION = {"question": "Where is a short code made?", "repositories": ["sample"]}
HELD = (
    "It is made in `codes` [2], which draws as many letters as the settings say and asks the storage whether "
    "the code is taken, so that the same one is never given to two links, however many of them are made at "
    "the same time by all of the workers of the program, and each of its letters is drawn from the alphabet "
    "of the settings, which leaves out those that look alike [1]."
)


@pytest.fixture
def modelled(serve, provider):
    """A server whose model answers one half, and the other when the test says so."""
    provider.behaviours[:], provider.answers[:] = ["held"], [HELD]
    yield serve(engine={"base_url": provider.base_url, "model": "m", "api_key": "k", "gate": False}).ready()
    provider.go_on.set()


class Stream:
    """An open stream of events."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self._response = response.status, response
        self.last = 0

    def next(self) -> tuple[str, dict]:
        """The next event: its name and data."""
        name, data = "", None
        while (line := self._line()) or data is None:
            kind, _, value = line.partition(": ")
            if kind == "event":
                name = value
            elif kind == "id":
                self.last = int(value)
            elif kind == "data":
                data = json.loads(value)
        return name, data

    def _line(self) -> str:
        line = self._response.readline().decode()
        assert line, f"the stream has ended, its status was {self.status}"
        return line.rstrip("\n")

    def until(self, wanted: str) -> tuple[dict, list[tuple[str, dict]]]:
        """The data of the next event with this name, and the events before it."""
        before = []
        while (found := self.next())[0] != wanted:
            before.append(found)
        return found[1], before

    def read(self, text: str) -> None:
        """Read pieces until this text has come."""
        came = ""
        while text not in came:
            name, data = self.next()
            came += data["text"] if name == "piece" else ""


@contextmanager
def opened(served, method, path, body=None, **headers) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=90)
    connection.request(
        method, path, body and json.dumps(body), {"Content-Type": "application/json", **headers}
    )
    response = connection.getresponse()
    try:
        yield Stream(response)
    finally:
        response.close()
        connection.close()


def asking(served, **headers):
    return opened(served, "POST", "/api/ask", {**QUESTION, "stream": True}, **headers)


def states(served, namespace=""):
    store = served.service.engine.turns
    return [
        turn.state
        for one in store.conversations(namespace=namespace)
        for turn in store.turns(one.id, namespace=namespace)
    ]


def test_the_question_is_stored_before_the_sources_and_the_sources_come_before_the_text(modelled, provider):
    with asking(modelled) as stream:
        asked, before = stream.until("asked")
        assert before == []
        turn = modelled.get(f"/api/turns/{asked['turn']}").json
        assert (turn["state"], turn["question"], turn["answer"]) == ("asked", QUESTION["question"], None)
        assert turn["metadata"] is None
        assert modelled.get("/api/conversations").json[0]["id"] == asked["conversation"]
        sources, before = stream.until("sources")
        assert before == []
        assert [one["n"] for one in sources["sources"]] == list(range(1, len(sources["sources"]) + 1))
        assert not any(one["used"] for one in sources["sources"])
        provider.go_on.set()
        renumbered, before = stream.until("sources")
        shown = re.search(r"^\[2\] (\S+):(\d+)", provider.chats[-1].prompt, re.MULTILINE)
        second = next(
            one for one in sources["sources"] if [one["path"], str(one["start_line"])] == [*shown.groups()]
        )
        first = renumbered["sources"][0]
        assert (first["path"], first["start_line"], first["used"]) == (
            second["path"],
            second["start_line"],
            True,
        )
        answer, after = stream.until("answer")
    pieces = [data["text"] for name, data in (*before, *after) if name == "piece"]
    assert "".join(pieces).startswith("It is made in")
    assert answer["turn"] == asked["turn"]
    assert answer["sources"][0]["path"] == second["path"]
    assert set(renumbered["sources"][0]) == set(answer["sources"][0])
    assert states(modelled) == ["answered"]


def test_an_answer_goes_on_without_its_client_and_another_follows_it(modelled, provider):
    with asking(modelled) as stream:
        asked, _ = stream.until("asked")
        stream.read("It is")
        last = stream.last
    path = f"/api/turns/{asked['turn']}/events"
    with (
        opened(modelled, "GET", path) as whole,
        opened(modelled, "GET", path, **{"Last-Event-ID": str(last)}) as rest,
    ):
        assert whole.until("asked")[0] == asked
        provider.go_on.set()
        answer, before = whole.until("answer")
        assert "".join(data["text"] for name, data in before if name == "piece") == answer["answer"]
        again, after = rest.until("answer")
        assert again == answer
        assert len(after) < len(before)
    assert not provider.client_left.is_set()
    assert states(modelled) == ["answered"]
    later = modelled.get(path).events
    assert later[0] == asked
    assert later[-1]["answer"] == answer["answer"]
    assert modelled.get(path, headers={"Last-Event-ID": "x"}).status == 422


def test_a_turn_of_another_time_is_followed_as_it_is_stored(modelled, provider):
    provider.go_on.set()
    done = modelled.post("/api/ask", QUESTION).json
    (turn,) = modelled.get(f"/api/turns/{done['turn']}/events").events
    assert (turn["id"], turn["state"]) == (done["turn"], "answered")
    assert modelled.post(f"/api/turns/{done['turn']}/stop").json["state"] == "answered"
    assert modelled.get("/api/turns/nowhere/events").status == 404
    assert modelled.post("/api/turns/nowhere/stop").status == 404


def test_stop_keeps_what_came(modelled, provider):
    provider.behaviours[:] = ["endless"]
    with asking(modelled) as stream:
        asked, _ = stream.until("asked")
        stream.read("and on")
        stopped = modelled.post(f"/api/turns/{asked['turn']}/stop").json
        assert stopped["state"] == "partial"
        assert stopped["answer"].startswith("and on")
        assert stream.until("turn")[0] == stopped
    assert provider.client_left.wait(25)
    assert modelled.service.limiter.asking == 0


def test_a_stopped_answer_without_text_has_failed_and_is_not_shown_to_the_model(modelled, provider):
    provider.behaviours[:] = ["slow"]
    with asking(modelled) as stream:
        asked, _ = stream.until("asked")
        stream.until("sources")
        stopped = modelled.post(f"/api/turns/{asked['turn']}/stop").json
    assert (stopped["state"], stopped["error"]) == ("failed", "stopped before the answer began")
    provider.behaviours[:] = ["good"]
    body = {"question": "Which alphabet is used?", "conversation": asked["conversation"]}
    assert modelled.post("/api/ask", body).json["number"] == 2
    assert QUESTION["question"] not in provider.chats[-1].prompt
    assert modelled.get("/api/turns?q=short").json == []


def test_nothing_is_left_of_a_question_that_is_wrong_itself(serve, provider):
    engine = {"base_url": provider.base_url, "model": "m", "api_key": "k", "context_tokens": 300}
    served = serve(engine={**engine, "answer_tokens": 200}).ready()
    refused = served.post("/api/ask", {**QUESTION, "question": "Where is a code made? " * 150})
    assert refused.status == 400, refused.body
    assert served.get("/api/conversations").json == []


def test_other_namespaces_neither_follow_nor_stop(serve, provider, tmp_path):
    provider.behaviours[:], provider.answers[:] = ["held"], [HELD]
    memory = memory_in(tmp_path)
    mine, other = ({"Authorization": f"Bearer {add_key(memory, name)}"} for name in ("first", "second"))
    engine = {"base_url": provider.base_url, "model": "m", "api_key": "k", "gate": False}
    served = serve(engine={**engine, "memory": memory})
    served.wait_until(lambda: served.get("/ready").status == 200)
    with opened(served, "GET", "/api/events", **other) as watched, asking(served, **mine) as stream:
        assert watched.next()[0] == "watching"
        asked, _ = stream.until("asked")
        path = f"/api/turns/{asked['turn']}"
        assert served.get(f"{path}/events", headers=other).status == 404
        assert served.post(f"{path}/stop", headers=other).status == 404
        assert served.get(f"{path}/events").status == 401
        provider.go_on.set()
        stream.until("answer")
        own = served.post("/api/ask", QUESTION, headers=other).json["conversation"]
        assert watched.next() == ("conversation", {"id": own})  # and nothing of the first user


def test_clients_that_ask_and_leave_get_no_more_answers_at_once(serve, provider):
    provider.behaviours[:], provider.answers[:] = ["held"], [HELD]
    engine = {"base_url": provider.base_url, "model": "m", "api_key": "k", "gate": False}
    served = serve(engine={**engine, "model_concurrency": 2}, concurrent=2, waiting=1).ready()
    for _ in range(2):
        with asking(served) as stream:
            stream.until("sources")
    assert served.service.limiter.asking == 2
    for _ in range(3):  # each waits for a slot, and is given up with its client
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=90)
        connection.request(
            "POST",
            "/api/ask",
            json.dumps({**QUESTION, "stream": True}),
            {"Content-Type": "application/json"},
        )
        served.wait_until(lambda: served.service.limiter.waiting == 1)
        connection.close()
        served.wait_until(lambda: served.service.limiter.waiting == 0)
    assert len(provider.chats) == len(served.service.jobs) == 2
    provider.go_on.set()
    served.wait_until(lambda: served.service.limiter.asking == 0)
    assert states(served) == ["answered"] * 2


def test_a_server_that_ends_keeps_what_came_of_answers_without_clients(serve, provider, tmp_path):
    provider.behaviours[:] = ["endless"]
    engine = {"base_url": provider.base_url, "model": "m", "api_key": "k", "gate": False}
    served = serve(engine={**engine, "memory": f"sqlite:///{tmp_path}/kept.db"}).ready()
    with asking(served) as stream:
        asked, _ = stream.until("asked")
        stream.read("and on")
    served.server.stop()
    served.server.should_exit = True
    assert provider.client_left.wait(25)
    after = Engine(Settings(home=tmp_path / "home", memory=f"sqlite:///{tmp_path}/kept.db"))
    served.wait_until(lambda: after.turns.turn(asked["turn"]).state == "partial")
    after.close()


def test_clients_hear_of_every_change_of_their_conversations(served):
    with opened(served, "GET", "/api/events") as watched:
        assert watched.next() == ("watching", {})
        done = served.post("/api/ask", QUESTION).json
        assert watched.next() == ("conversation", {"id": done["conversation"]})
        path = f"/api/conversations/{done['conversation']}"
        for method, where, body in (
            ("PATCH", path, {"name": "codes"}),
            ("DELETE", f"/api/turns/{done['turn']}", None),
            ("DELETE", path, None),
        ):
            assert served.request(method, where, body).status == 200
            assert watched.next() == ("conversation", {"id": done["conversation"]})
