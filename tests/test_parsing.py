"""Untrusted JSON and TOML is read in a time that grows with its length, or refused."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from rag.code.project_summary import _read
from rag.parsing import parse_json, parse_toml

PARTS = 20_000


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * PARTS + " = 1",
        '"a"' + ".'a'" * PARTS + " = 1",
        "[a" + ".a" * PARTS + "]",
        "x = {a" + ".a" * PARTS + " = 1}",
        "x = " + "[" * PARTS + "]" * PARTS,
        '"' + '\\"' * PARTS + "." * PARTS,
    ],
)
def test_toml_that_would_take_seconds_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError):
        parse_toml(text)
    assert _read(SimpleNamespace(text=text, lines=[text]), "pyproject.toml") is None
    assert time.process_time() - began < 0.5


def test_dots_in_strings_of_toml_are_no_keys() -> None:
    hosts = [f"https://{n}.git.example.org" for n in range(200)]
    written = ", ".join(f"'{host}'" if n % 2 else f'"{host}"' for n, host in enumerate(hosts))
    assert parse_toml(f"allow_urls = [{written}]") == {"allow_urls": hosts}


def test_deep_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 200_000)
