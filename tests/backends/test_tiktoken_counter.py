from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.tiktoken_counter import EstimateCounter, RaisedCounter, TiktokenCounter, open_counter
from rag.ports import TokenCounter

PYTHON = Path(__file__).read_text(encoding="utf-8")
JAVASCRIPT = """
export async function fetchAll(urls, { retries = 3, timeoutMs = 5000 } = {}) {
  const results = await Promise.allSettled(urls.map((u) => fetch(u, { signal: timeout(timeoutMs) })));
  return results.filter((r) => r.status === "fulfilled").map((r) => r.value); // 0x1F4A9, 1_000_000
}
"""
TABLE = "| a | 7 | 23 / 67 | 3 |\n|---|---:|:---|---|\n| b | .563 | 1, 2, 4, 6 | 100% |\n" * 3
SAMPLES = {
    "python": PYTHON,
    "javascript": JAVASCRIPT,
    "table": TABLE,
    "prose": "The quick brown fox jumps over the lazy dog; nobody misunderstood his straightforwardness. "
    * 5,
    "chinese": "会话在服务器端签名,并在三十分钟后过期。请参阅身份验证模块中的函数。",
    "japanese": "セッションはどこで署名されますか。トークンの有効期限を確認してください。",
    "korean": "세션은 어디에서 서명됩니까? 토큰의 만료를 확인하십시오.",
    "russian": "Где подписывается сессия и когда истекает срок действия токена?",
    "emoji": "👍🏽 🧑‍💻🔥🚀 ¯\\_(ツ)_/¯ 👩‍👩‍👧‍👦",
    "special": "<|endoftext|> <|fim_prefix|> <|endofprompt|>",
    "hex": "deadbeef 0x1F4A9 9b5ad71b2ce5302211f9c61530b329a4922fc6a4 1EB300001EB4",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(
    "counter", [EstimateCounter(), open_counter("gpt-4o"), open_counter("llama3.2")], ids=lambda c: c.name
)
def test_a_guess_is_never_below_the_exact_count(counter: TokenCounter, name: str) -> None:
    exact = TiktokenCounter("cl100k_base").count(SAMPLES[name])
    assert exact <= counter.count(SAMPLES[name]) <= 4 * exact + 4


@given(st.text(alphabet=st.sampled_from("a1_/ \n\r\t.é中`{}#"), max_size=200))
def test_a_text_counts_the_same_in_blocks(text: str) -> None:
    whole = tiktoken.get_encoding("cl100k_base").encode(text, disallowed_special=())
    assert TiktokenCounter().count(text) == len(whole)


@given(
    st.text(alphabet=st.characters(max_codepoint=0x7F) | st.sampled_from("'sLltVe  \n\r\t19"), max_size=200)
)
def test_a_text_of_ascii_counts_the_same_by_words(text: str) -> None:
    whole = tiktoken.get_encoding("cl100k_base").encode(text, disallowed_special=())
    assert TiktokenCounter().count(text) == len(whole)


def test_files_count_the_same_by_lines_and_words_as_whole() -> None:
    encoding = tiktoken.get_encoding("cl100k_base")
    for path in [
        *Path("rag/prompt").glob("*.py"),
        *Path("rag/serve/page/static").glob("*.js"),
        *Path().glob("*.md"),
    ]:
        text = path.read_text(encoding="utf-8")
        assert TiktokenCounter().count(text) == len(encoding.encode(text, disallowed_special=())), path


@given(st.text(alphabet=st.characters(min_codepoint=0x80), max_size=60))
def test_an_estimate_is_never_low_outside_ascii(text: str) -> None:
    assert EstimateCounter().count(text) >= TiktokenCounter().count(text)


@pytest.mark.parametrize("counter", [EstimateCounter(), TiktokenCounter(), open_counter("gpt-5")])
def test_nothing_counts_nothing_and_anything_counts(counter: TokenCounter) -> None:
    assert counter.count("") == 0
    assert all(counter.count(text) >= 1 for text in (" ", "\n", "a", "\ud800", "\x00", "<|endoftext|>"))


def test_each_model_is_counted_by_its_own_encoding_when_it_is_at_hand() -> None:
    assert open_counter("gpt-4").name == "cl100k_base"
    assert open_counter("openai/gpt-4-turbo").name == "cl100k_base"
    assert open_counter("gpt-4o-mini").name == "cl100k_base × 1.2"
    assert open_counter("SmolLM2-135M").name == "cl100k_base × 1.35"
    assert open_counter(None).name == "estimate"


def test_special_tokens_are_just_text() -> None:
    assert TiktokenCounter().count("<|endoftext|>") > 1


@pytest.mark.parametrize("unit", ["a", " ", "=", "中", "aB3"])
def test_a_megabyte_without_a_break_is_counted_in_no_time(unit: str) -> None:
    began = time.thread_time()
    assert TiktokenCounter().count(unit * (1_000_000 // len(unit))) > 1_000
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("content", [None, b"", b"not the encoding\n"])
def test_a_folder_without_the_right_file_gives_an_estimate_and_is_left_alone(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    file = tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
    if content is not None:
        file.write_bytes(content)
    counter = open_counter("gpt-4")
    assert isinstance(counter, RaisedCounter)
    assert counter.count("some text") >= 3
    assert (file.read_bytes() if file.exists() else None) == content


def test_a_count_needs_no_network_and_no_settings_of_the_user() -> None:
    program = (
        "import socket; socket.socket.connect = None\n"
        "from rag.backends.tiktoken_counter import open_counter\n"
        "print(open_counter('gpt-4').count('hello world'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
