"""What a person types: refs in addresses, pages of forges, and no password in any message."""

from __future__ import annotations

import pytest

from rag.corpus.address import resolve, without_credentials
from rag.errors import SourceError
from rag.types import Source


@pytest.mark.parametrize(
    ("text", "location", "ref"),
    [
        ("https://github.com/o/r#v1", "https://github.com/o/r", "v1"),
        ("https://git.example.org/o/r?ref=x", "https://git.example.org/o/r", "x"),
        ("https://github.com/o/r/tree/main", "https://github.com/o/r", "main"),
        ("https://github.com/o/r/tree/feature%2Fx", "https://github.com/o/r", "feature/x"),
        ("https://github.com/o/r/blob/main/a.py", "https://github.com/o/r", "main"),
        ("https://gitlab.com/a/b/c/-/tree/main?ref_type=heads", "https://gitlab.com/a/b/c", "main"),
        ("https://git.example.org/o/r/src/branch/main", "https://git.example.org/o/r", "main"),
        ("https://bitbucket.org/o/r/src/main", "https://bitbucket.org/o/r", "main"),
        ("https://dev.azure.com/o/p/_git/r?version=GBmain", "https://dev.azure.com/o/p/_git/r", "main"),
        ("git@github.com:o/r.git#dev", "git@github.com:o/r", "dev"),
        ("git@host:/srv/r", "git@host:/srv/r", None),
        ("https://gitlab.com/a/b/c", "https://gitlab.com/a/b/c", None),
    ],
)
def test_a_ref_in_an_address_is_used(text: str, location: str, ref: str | None) -> None:
    assert resolve(text) == Source(location, ref)


@pytest.mark.parametrize(
    "page",
    [
        "tree/feature/x",
        "-/tree/feature/x",
        "blob/feature/x/a.py",
        "src/branch/feature/x",
        "-/merge_requests/4",
    ],
)
def test_a_page_whose_ref_is_not_certain_is_refused_with_the_option(page: str) -> None:
    with pytest.raises(SourceError, match=r"g/s/r with --ref BRANCH"):
        resolve(f"https://git.example.org/g/s/r/{page}")


def test_two_different_refs_are_refused() -> None:
    with pytest.raises(SourceError, match="give one of them"):
        resolve("https://github.com/o/r#v1", "v2")


@pytest.mark.parametrize(
    "text",
    [
        "https://u:s3/cret@h.org/o/r",
        "https://u:12/s3cret@h.org/o/r",
        "https://u:s3#cret@h.org/o/r",
        "https://u:s3?cret@h.org/o/r",
        "https:/u:s3cret@h.org/o",
        "u:s3cret@h.org/o/r",
        "u:s3cret@h.org:o/r",
        "ftp://u:s3cret@h.org/o",
        "https://s3/cret@h.org/o/r",
    ],
)
def test_a_password_in_a_malformed_address_is_hidden_whole(text: str) -> None:
    with pytest.raises(SourceError) as refused:
        resolve(text)
    for shown in (str(refused.value), repr(refused.value), without_credentials(text)):
        assert "s3" not in shown and "cret" not in shown


@pytest.mark.parametrize("text", ["github.com/o/r", "git.example.org:3000/o/r", "localhost:3000/o/r"])
def test_an_address_without_a_scheme_gets_a_hint(text: str) -> None:
    with pytest.raises(SourceError, match="https://"):
        resolve(text)
