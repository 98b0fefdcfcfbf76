"""A real language model, small and local, through our client: what no scripted server can show."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rag.backends.adal_generator import AdalGenerator
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.endpoint import only_model
from rag.backends.tiktoken_counter import open_counter
from rag.errors import AuthenticationFailed, ProviderRejected
from rag.ports import is_learning
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


def test_the_factor_of_a_real_model_is_learned_and_never_too_low(
    writer: AdalGenerator, real_model: LocalModel, tmp_path: Path
) -> None:
    counter = open_counter(real_model.model, tmp_path / "ratios.json")
    assert is_learning(counter)
    # A ratio is learned from 300 tokens; each token of these takes the model 8 ms.
    code = "".join(Path(__file__).read_text().splitlines(keepends=True)[:40])
    prose = "Sessions are signed on the server, and they expire after thirty minutes without a request. " * 19
    for text in (code, prose, code[::2]):
        asked, unlearned = prepared(text, answer_tokens=1), open_counter(real_model.model)
        list(writer.stream(asked))
        assert writer.usage is not None
        reported = writer.usage.prompt_tokens
        assert reported <= counter.count(asked.prompt.text)
        counter.learn(asked.prompt.text, reported)
    assert counter.count(code) < unlearned.count(code)
    assert len(json.loads((tmp_path / "ratios.json").read_text())) == 3, "each text was long enough"


def test_a_real_server_refuses_a_wrong_key_and_a_prompt_beyond_its_context(
    writer: AdalGenerator, real_model: LocalModel
) -> None:
    stranger = OpenAICompatibleClient(real_model.base_url, "a-wrong-key")
    with pytest.raises(AuthenticationFailed):
        AdalGenerator(stranger, real_model.model).complete("hello")
    with pytest.raises(ProviderRejected, match="--context-tokens"):
        writer.complete("word " * 2 * real_model.context_tokens)
