from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.learned_counter import LearnedCounter, ratios_file
from rag.backends.tiktoken_counter import TiktokenCounter
from rag.ports import is_learning

BASE = TiktokenCounter()
PROMPT = Path(__file__).read_text(encoding="utf-8")
TOKENS = BASE.count(PROMPT)
FLAT = 1.35


def counter(folder: Path) -> LearnedCounter:
    return LearnedCounter(BASE, FLAT, folder / "factors" / "model.json")


def test_the_flat_factor_holds_without_evidence(tmp_path: Path) -> None:
    new = counter(tmp_path)
    assert is_learning(new)
    assert not is_learning(BASE)
    assert (new.factor, new.name) == (FLAT, "cl100k_base × 1.35")
    assert new.count(PROMPT) >= TOKENS * FLAT
    assert new.count("") == 0
    assert not (tmp_path / "factors").exists()


def test_reported_tokens_lower_the_factor_and_more_of_them_the_margin(tmp_path: Path) -> None:
    model, factors = counter(tmp_path), []
    for _ in range(6):
        model.learn(PROMPT, int(TOKENS * 1.05))
        factors.append(model.factor)
    assert factors == sorted(factors, reverse=True)
    assert 1.05 < factors[-1] < 1.09 < factors[0] < FLAT


def test_the_largest_of_the_last_reports_counts(tmp_path: Path) -> None:
    model = counter(tmp_path)
    for ratio in (1.02, 1.3, 1.02):
        model.learn(PROMPT, int(TOKENS * ratio))
    assert model.factor > 1.3
    for _ in range(20):
        model.learn(PROMPT, int(TOKENS * 1.02))
    assert model.factor < 1.1


def test_a_model_that_needs_more_than_the_flat_factor_gets_it(tmp_path: Path) -> None:
    model = counter(tmp_path)
    model.learn(PROMPT, int(TOKENS * 1.6))
    assert 1.6 < model.factor < 1.8


@given(st.lists(st.integers(-(10**12), 10**12) | st.sampled_from([TOKENS, 2 * TOKENS, 3 * TOKENS])))
def test_no_report_leaves_the_limits(tmp_path_factory: pytest.TempPathFactory, reports: list[int]) -> None:
    model = counter(tmp_path_factory.mktemp("home"))
    for tokens in reports:
        model.learn(PROMPT, tokens)
    assert 1.0 <= model.factor <= 2.0


@pytest.mark.parametrize("tokens", [-5, 0, 1, TOKENS // 2, 3 * TOKENS, 10**9])
def test_reports_that_cannot_be_true_are_ignored(tmp_path: Path, tokens: int) -> None:
    model = counter(tmp_path)
    model.learn(PROMPT, tokens)
    assert model.factor == FLAT


def test_a_short_prompt_teaches_nothing(tmp_path: Path) -> None:
    model = counter(tmp_path)
    model.learn("Where is it?", 5)
    assert model.factor == FLAT


def test_characters_outside_ascii_count_with_the_flat_factor(tmp_path: Path) -> None:
    model, text = counter(tmp_path), "会话在服务器端签名，并在三十分钟后过期。" * 20
    model.learn(PROMPT, TOKENS)
    assert model.count(text) >= BASE.count(text) * 1.2
    mixed = "The Größe of the whole table. " * 50
    assert BASE.count(mixed) * 1.1 < model.count(mixed) < BASE.count(mixed) * FLAT


def test_other_processes_see_what_is_learned(tmp_path: Path) -> None:
    one, other = counter(tmp_path), counter(tmp_path)
    one.learn(PROMPT, int(TOKENS * 1.1))
    assert other.factor == one.factor == counter(tmp_path).factor
    other.learn(PROMPT, int(TOKENS * 1.2))
    assert one.ratios == other.ratios
    assert len(one.ratios) == 2


def test_the_record_is_small_and_private(tmp_path: Path) -> None:
    model = counter(tmp_path)
    for _ in range(100):
        model.learn(PROMPT, TOKENS)
    (file,) = (tmp_path / "factors").iterdir()
    assert file.stat().st_size < 300
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


DAMAGED = [b"", b"[1.0", b"{}", b"null", b"\xff\xfe", b'["1.1", null, true, NaN, 1e999, -3]', b"[" * 9000]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_record_counts_as_empty_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    model = counter(tmp_path)
    file = tmp_path / "factors" / "model.json"
    file.parent.mkdir()
    file.write_bytes(content)
    assert model.factor == FLAT
    model.learn(PROMPT, TOKENS)
    assert json.loads(file.read_text()) == [1.0]


def test_what_cannot_be_written_is_remembered_by_the_process(tmp_path: Path) -> None:
    (tmp_path / "factors").write_text("a file where the folder would be")
    model = counter(tmp_path)
    model.learn(PROMPT, TOKENS)
    assert model.factor < FLAT
    assert counter(tmp_path).factor == FLAT


def test_services_and_models_have_records_of_their_own(tmp_path: Path) -> None:
    files = {
        ratios_file(tmp_path, service, model)
        for service in ("openai http://me:secret@host/v1", "openai http://other/v1")
        for model in ("qwen", "llama", "")
    }
    assert len(files) == 6
    assert not any("secret" in os.fspath(file) for file in files)
