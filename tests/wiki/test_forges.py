"""Remotes, and the addresses of lines at their forges."""

from __future__ import annotations

import pytest

from rag.forges import Forge, forge_of


@pytest.mark.parametrize(
    ("remote", "page", "kind"),
    [
        ("https://github.com/acme/app.git", "https://github.com/acme/app", "github"),
        ("git@github.com:acme/app.git", "https://github.com/acme/app", "github"),
        ("https://user:pw@github.com/acme/app", "https://github.com/acme/app", "github"),
        ("ssh://git@gitlab.example.org:2222/a/b/app.git", "https://gitlab.example.org/a/b/app", "gitlab"),
        ("https://gitlab-ce.example.org/a/app", "https://gitlab-ce.example.org/a/app", "gitlab"),
        ("https://Bitbucket.org/acme/app", "https://bitbucket.org/acme/app", "bitbucket"),
        ("https://example.org/acme/app.git", "https://example.org/acme/app", ""),
        ("http://git.example.org:3000/acme/app", "http://git.example.org:3000/acme/app", ""),
        ("https://git.sr.ht/~acme/app", "https://git.sr.ht/~acme/app", ""),
    ],
)
def test_a_forge_is_known_by_its_host(remote, page, kind):
    assert forge_of(remote) == Forge(page, kind)


@pytest.mark.parametrize(
    "remote",
    [
        None,
        "",
        "/srv/git/app.git",
        "file:///srv/git/r",
        "ssh://git@github.com:o/r.git",
        "https://[github.com/o/r",
        "https://github.com/../x",
        "https://github.com/acme/..",
        "https://github.com/../x)](javascript:y",
        "https://github.com/",
        "git@github.com:acme/app)](javascript:y",
    ],
)
def test_what_has_no_address_on_the_web_has_no_forge(remote):
    assert forge_of(remote) is None


@pytest.mark.parametrize(
    ("remote", "several", "one"),
    [
        ("https://github.com/o/r", "/blob/abc/a%20b.py#L3-L9", "/blob/abc/a%20b.py#L3"),
        ("ssh://git@gitlab.com/g/s/r.git", "/-/blob/abc/a%20b.py#L3-9", "/-/blob/abc/a%20b.py#L3"),
        ("https://bitbucket.org/o/r", "/src/abc/a%20b.py#lines-3:9", "/src/abc/a%20b.py#lines-3"),
        ("https://codeberg.org/o/r", "/src/commit/abc/a%20b.py#L3-L9", "/src/commit/abc/a%20b.py#L3"),
        ("https://forgejo.example/o/r", "/src/commit/abc/a%20b.py#L3-L9", "/src/commit/abc/a%20b.py#L3"),
        ("https://example.org/o/r", "/blob/abc/a%20b.py#L3-L9", "/blob/abc/a%20b.py#L3"),
    ],
)
def test_a_forge_links_to_lines_at_the_commit(remote, several, one):
    forge = forge_of(remote)
    assert forge is not None
    assert forge.lines("abc", "a b.py", 3, 9) == forge.page + several
    assert forge.lines("abc", "a b.py", 3, 3) == forge.page + one
