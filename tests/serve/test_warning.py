"""An answer that is probably not in the repository is warned of alike behind every door."""

from __future__ import annotations

import json

QUESTION = "Where are Kafka messages consumed?"
WARNING = "`Kafka` occurs nowhere in this repository. What you ask for may have another name."
SURE = "How are sessions signed?"


def test_every_door_says_the_same(served):
    body = {"question": QUESTION, "repositories": ["sample"]}
    whole = served.post("/api/ask", body).json
    *pieces, last = served.post("/api/ask", {**body, "stream": True}).events
    chat = {"model": "rag:sample", "messages": [{"role": "user", "content": QUESTION}]}
    completion = served.post("/v1/chat/completions", chat).json
    chunks = served.post("/v1/chat/completions", {**chat, "stream": True}).events[:-1]
    answers = [whole, last, completion["rag"], chunks[-1]["rag"]]
    assert [(one["found"], one["warning"], one["missing_words"]) for one in answers] == [
        (True, WARNING, ["Kafka"])
    ] * 4
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    texts = [
        whole["answer"],
        last["answer"],
        "".join(piece.get("text", "") for piece in pieces),
        completion["choices"][0]["message"]["content"],
        streamed,
    ]
    assert texts == [texts[0]] * 5
    assert texts[0].startswith(f"{WARNING}\n\n")


def test_the_frontend_of_deepwiki_is_warned_in_the_text(serve):
    with_deepwiki = serve(deepwiki=True).ready()
    asked = {"repo_url": str(with_deepwiki.service.registry.entry("sample").source.location), "type": "local"}
    asked["messages"] = [{"role": "user", "content": QUESTION}]
    reply = with_deepwiki.post("/chat/completions/stream", asked)
    assert (reply.status, WARNING in reply.body.decode()) == (200, True), reply.body


def test_a_sure_answer_says_nothing_of_it(served):
    whole = served.post("/api/ask", {"question": SURE, "repositories": ["sample"]}).json
    assert (whole["found"], whole["warning"], whole["missing_words"]) == (True, "", [])
    assert "occurs nowhere" not in json.dumps(whole)
