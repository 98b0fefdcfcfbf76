"""Which host gets RAG_GIT_TOKEN."""

from __future__ import annotations

import pytest

from rag.corpus.git import GitError
from rag.corpus.git_token import advice, for_host, tokens_of, with_token


def sent(location: str, setting: str | None, asking: str = "") -> list[str | None]:
    """The tokens that git is called with; the server at `asking` wants credentials."""
    calls: list[str | None] = []

    def run(token: str | None) -> bytes:
        calls.append(token)
        if asking and token is None:
            message = f"fatal: could not read Username for '{asking}': terminal prompts disabled"
            raise GitError(message, message)
        return b""

    try:
        with_token(location, setting, run, lambda text: None)
    except GitError:
        calls.append("refused")
    return calls


@pytest.mark.parametrize(
    ("location", "setting", "asking", "expected"),
    [
        ("https://a.org/o/r", "a.org=t", "", ["t"]),
        ("https://a.org:8443/o/r", "a.org:8443=t", "", ["t"]),
        ("https://b.org/o/r", "a.org=t", "https://b.org", [None, "refused"]),
        ("https://b.org/o/r", "a.org=t b.org=u", "", ["u"]),
        ("http://a.org/o/r", "a.org=t", "http://a.org", [None, "refused"]),
        ("http://127.0.0.1:9/o/r", "127.0.0.1=t", "", ["t"]),
        ("http://127.0.0.1:9/o/r", "t", "http://127.0.0.1:9", [None, "refused"]),
        ("https://a.org/o/r", "t", "", [None]),
        ("https://a.org/o/r", "t", "https://a.org", [None, "t"]),
        ("https://a.org/o/r", "user:p@ss/#=", "https://a.org", [None, "user:p@ss/#="]),
        ("https://a.org/o/r", "t", "https://evil.org", [None, "refused"]),
        ("https://a.org/o/r", None, "https://a.org", [None, "refused"]),
    ],
)
def test_a_token_goes_to_its_host_only(
    location: str, setting: str | None, asking: str, expected: list[str | None]
) -> None:
    assert sent(location, setting, asking) == expected


def test_a_token_is_bound_to_the_host_of_a_url() -> None:
    assert tokens_of(for_host("t", "https://a.org/o/r")) == {"a.org": "t"}
    assert for_host("b.org=t", "https://a.org/o/r") == "b.org=t"


def test_the_advice_names_the_host_and_no_token() -> None:
    assert "RAG_GIT_TOKEN=a.org=TOKEN" in advice("https://a.org/o/r", "b.org=secret")
    assert "https" in advice("http://a.org/o/r", "secret")
