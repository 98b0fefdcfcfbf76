"""Clients that ask something of the model behind us: instructions, JSON, sampling."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel
from scripted_model import scripted_model
from serving import conversations, serving

FIRST, SECOND = "Where is a short code made?", "And who calls it?"


class Place(BaseModel):
    """A place in the code."""

    path: str
    lines: list[int]


PLACE = Place(path="snip/codes.py", lines=[1, 2])


@pytest.fixture(scope="module")
def with_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list]]:
    """The address of a server with a scripted model, and what the model was sent."""
    with scripted_model() as (model, bodies):
        options = ("--base-url", model, "--model", "scripted")
        with serving(tmp_path_factory.mktemp("with-model"), *options) as url:
            yield url, bodies


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_langchain_gets_structured_output(with_model, responses, method):
    langchain = pytest.importorskip("langchain_openai", reason="see `make test-clients`")
    url, bodies = with_model
    chat = langchain.ChatOpenAI(
        model="rag:sample",
        base_url=f"{url}/v1",
        api_key="x",
        temperature=0.1,
        use_responses_api=responses,
        max_retries=0,
    )
    asked = [("system", "Name the place as JSON."), ("user", FIRST)]
    assert chat.with_structured_output(Place, method=method).invoke(asked) == PLACE
    assert bodies[-1]["temperature"] == 0.1
    assert "Name the place as JSON." in bodies[-1]["messages"][0]["content"]


def test_langchain_goes_on_with_the_responses_api(with_model):
    langchain = pytest.importorskip("langchain_openai", reason="see `make test-clients`")
    url, _ = with_model
    chat = langchain.ChatOpenAI(
        model="rag:sample", base_url=f"{url}/v1", api_key="x", use_responses_api=True, max_retries=0
    )
    first = chat.invoke(FIRST)
    assert "[1]" in first.text
    text = "".join(
        chunk.text for chunk in chat.stream(SECOND, previous_response_id=first.response_metadata["id"])
    )
    assert "[1]" in text
    (newest, *_) = conversations(url)
    assert newest["turn_count"] == 2


def test_llamaindex_sends_its_settings_and_goes_on(with_model):
    like = pytest.importorskip("llama_index.llms.openai_like", reason="see `make test-clients`")
    from llama_index.core.llms import ChatMessage

    url, bodies = with_model
    llm = like.OpenAILike(
        model="rag:sample",
        api_base=f"{url}/v1",
        api_key="x",
        is_chat_model=True,
        temperature=0.3,
        max_tokens=99,
    )
    messages = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=FIRST)]
    first = llm.chat(messages)
    assert "[1]" in first.message.content
    assert (bodies[-1]["temperature"], "Be brief." in bodies[-1]["messages"][0]["content"]) == (0.3, True)
    later = [*messages, first.message, ChatMessage(role="user", content=SECOND)]
    text = "".join(chunk.delta or "" for chunk in llm.stream_chat(later))
    assert "[1]" in text
    (newest, *_) = conversations(url)
    assert newest["turn_count"] == 2
