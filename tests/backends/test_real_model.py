"""A real language model, small and local, through our client: what no scripted server can show."""

from __future__ import annotations

import asyncio

import pytest

from rag.backends.adal_generator import AdalGenerator
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.endpoint import only_model
from rag.errors import AuthenticationFailed, ProviderRejected
from rag.types import Conversation, Prepared, Prompt
from tests.servers.model import LocalModel

FRAME = (
    "<START_OF_SYSTEM_PROMPT>You answer briefly.<END_OF_SYSTEM_PROMPT>\n"
    "<START_OF_USER_PROMPT>{}<END_OF_USER_PROMPT>"
)


def prepared(text: str, answer_tokens: int = 24) -> Prepared:
    prompt = Prompt(text=FRAME.format(text), sources=(), turns=(), tokens=0, answer_tokens=answer_tokens)
    return Prepared(text, text, Conversation(id="c"), (), prompt)


@pytest.fixture
def writer(real_model: LocalModel) -> AdalGenerator:
    client = OpenAICompatibleClient(real_model.base_url, real_model.api_key)
    return AdalGenerator(client, only_model(real_model.base_url, real_model.api_key), {"temperature": 0})


def test_a_real_model_streams_an_answer_and_goes_on_in_the_light_of_it(writer: AdalGenerator) -> None:
    question = "Name one colour."
    with writer.stream(prepared(question)) as first:
        pieces = list(first)
    assert len(pieces) > 1
    answer = "".join(pieces)
    assert first.usage is not None
    assert 1 < first.usage.answer_tokens <= 24

    second = prepared(f"Earlier:\nUser: {question}\nYou: {answer}\n\nNow: And another one?")
    assert "".join(writer.stream(second)).strip()
    assert writer.usage is not None
    assert question in second.prompt.text
    assert answer in second.prompt.text
    assert writer.usage.prompt_tokens > first.usage.prompt_tokens + first.usage.answer_tokens


def test_a_real_answer_cut_at_its_limit_says_so(writer: AdalGenerator) -> None:
    list(writer.stream(prepared("Count from one to one hundred.", answer_tokens=4)))
    assert writer.finish_reason == "length"
    assert writer.usage is not None
    assert writer.usage.answer_tokens == 4


def test_a_real_model_answers_an_event_loop(writer: AdalGenerator) -> None:
    async def ask() -> tuple[str, str]:
        streamed = "".join([piece async for piece in writer.astream(prepared("Say hello.", 6))])
        return streamed, await writer.acomplete("Say hello.", 6)

    streamed, whole = asyncio.run(ask())
    assert streamed.strip()
    assert whole.strip()


def test_a_real_server_refuses_a_wrong_key_and_a_prompt_beyond_its_context(
    writer: AdalGenerator, real_model: LocalModel
) -> None:
    stranger = OpenAICompatibleClient(real_model.base_url, "a-wrong-key")
    with pytest.raises(AuthenticationFailed):
        AdalGenerator(stranger, real_model.model).complete("hello")
    with pytest.raises(ProviderRejected, match="--context-tokens"):
        writer.complete("word " * 2 * real_model.context_tokens)
