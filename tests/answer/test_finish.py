from __future__ import annotations

from pathlib import Path

import pytest

from rag.answer.citations import resolve
from rag.answer.cost import cost, load_prices
from rag.answer.finish import finish
from rag.backends.tiktoken_counter import TiktokenCounter
from rag.errors import SettingsError
from rag.types import Conversation, Hit, NumberedSource, Prepared, Prompt, Span, Usage

HIT = Hit(Span("shop", "a.py", 1, 2), "x\ny\n", 0.5)


def prepared(*hits: Hit) -> Prepared:
    sources = tuple(NumberedSource(n, hit) for n, hit in enumerate(hits, start=1))
    prompt = Prompt("the prompt", sources, (), tokens=1000, answer_tokens=500)
    return Prepared("Who?", "Who signs?", Conversation("c"), hits, prompt, {"search": 0.1})


def test_an_answer_says_all_that_is_known_about_it() -> None:
    question, text = prepared(HIT, HIT), "It does [2][7]."
    resolved = resolve(text, question.prompt.sources)
    answer = finish(question, text, resolved, model="gpt-4o", usage=None, counter=TiktokenCounter())
    assert (answer.text, answer.invented) == ("It does [1].", 1)
    assert [c.n for c in answer.citations] == [1]
    assert [(c.n, c.used) for c in answer.sources] == [(1, True), (2, False)]
    assert (answer.question, answer.standalone_question) == ("Who?", "Who signs?")
    assert answer.usage.prompt_tokens == 1000
    assert answer.usage.answer_tokens > 3
    assert answer.usage.estimated
    assert answer.usage.cost_usd == pytest.approx((1000 * 2.5 + answer.usage.answer_tokens * 10) / 1e6)
    assert answer.notes == ("1 reference to sources or lines that were not shown was removed",)
    assert answer.prompt_hash == prepared().prompt.hash
    assert answer.found
    assert answer.complete


def test_what_the_service_counted_is_kept() -> None:
    usage = Usage(10, 20, estimated=False, cost_usd=0.5)
    resolved = resolve("No.", ())
    answer = finish(
        prepared(), "No.", resolved, model="m", usage=usage, counter=TiktokenCounter(), complete=False
    )
    assert answer.usage == usage
    assert (answer.found, answer.complete, answer.notes) == (False, False, ())


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("gpt-4o-mini", 0.15 + 0.60),
        ("gpt-4o-2024-08-06", 2.5 + 10),
        ("openai/gpt-4o", 2.5 + 10),
        ("claude-sonnet-4-20250514", 3 + 15),
        ("gpt-4o-something", None),
        ("llama3.2", None),
        ("extractive", None),
    ],
)
def test_a_cost_is_told_only_when_the_price_is_known(model: str, usd: float | None) -> None:
    assert cost(model, Usage(1_000_000, 1_000_000)) == (None if usd is None else pytest.approx(usd))


def test_the_users_prices_win(tmp_path: Path) -> None:
    assert load_prices(tmp_path) == load_prices()
    (tmp_path / "prices.toml").write_text(
        '["gpt-4o"]\ninput = 1\noutput = 2\n["mine"]\ninput = 0\noutput = 4.5\n'
    )
    assert cost("gpt-4o", Usage(1_000_000, 1_000_000), home=tmp_path) == 3
    assert cost("mine", Usage(5, 2_000_000), home=tmp_path) == 9


@pytest.mark.parametrize(
    "text", ["[", '["m"]\ninput = "free"\noutput = 1', '["m"]\noutput = 1', '["m"]\ninput = -1\noutput = 1']
)
def test_a_price_list_that_cannot_be_read_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"prices\.toml"):
        load_prices(tmp_path)
