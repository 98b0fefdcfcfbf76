"""A conversation as a file over HTTP, what a turn was shown, and corrections at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest
from keys_given import add_key, memory_in
from live_server import sample_copy, serving

from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import NotFound
from rag.service.loop.corrections import correct_turn
from rag.types import AssistantResponse, DialogTurn, UserQuery

ASKED = {"question": "Where is a short code made?", "repositories": ["sample"]}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A server with keys, and two of its callers."""
    home = tmp_path_factory.mktemp("moving")
    memory = memory_in(home)
    headers = {name: {"Authorization": f"Bearer {add_key(memory, name)}"} for name in ("ann", "bob")}
    engine = {"memory": memory, "model": "cmd:cat"}
    with serving(home, engine=engine, repositories=(("sample", sample_copy(home)),)) as running:
        running.wait_until(lambda: running.get("/ready").status == 200)
        yield SimpleNamespace(server=running, home=home, **headers)


def test_an_export_reveals_no_location_and_is_the_owner_s_only(keyed):
    conversation = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["conversation"]
    reply = keyed.server.get(f"/api/conversations/{conversation}/export", headers=keyed.ann)
    assert ASKED["question"] in reply.body.decode() and str(keyed.home) not in reply.body.decode()
    assert keyed.server.get(f"/api/conversations/{conversation}/export", headers=keyed.bob).status == 404


def test_the_prompt_of_a_turn_is_returned_to_its_owner_only(keyed):
    turn = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["turn"]
    reply = keyed.server.get(f"/api/turns/{turn}/prompt", headers=keyed.ann).json
    assert reply["turn"] == turn and ASKED["question"] in reply["prompt"]
    assert keyed.server.get(f"/api/turns/{turn}/prompt", headers=keyed.bob).status == 404


def test_two_corrections_at_once_are_both_made(tmp_path):
    stores = [SqliteTurnStore(tmp_path / "turns.db") for _ in range(2)]
    conversation = stores[0].create_conversation(namespace="x").id
    turn = DialogTurn(user_query=UserQuery("?"), assistant_response=AssistantResponse("!"))
    stores[0].append(turn, conversation=conversation, namespace="x")
    with ThreadPoolExecutor(8) as pool:
        done = [
            pool.submit(correct_turn, stores[n % 2], turn.id, namespace="x", **{name: f"{name} {n}"})
            for n in range(10)
            for name in ("question", "answer")
        ]
        versions = sorted(each.result().version for each in done)
    assert versions == list(range(2, 22))
    kept = [(one.question, one.answer) for one in stores[0].versions(turn.id, namespace="x")]
    assert all((a == c) != (b == d) for (a, b), (c, d) in pairwise(kept))
    with pytest.raises(NotFound):
        correct_turn(stores[0], "nobody's", namespace="x", answer="x")
    for store in stores:
        store.close()
