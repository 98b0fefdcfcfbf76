"""What a text names: paths, lines, symbols, commands and settings, and what corrections change."""

from __future__ import annotations

import pytest

from rag.memory.claims import MAX_CLAIMS, CheckedClaim, claims_in, corrected
from rag.memory.named_lines import renamed, targets


def found(text: str, kind: str = "") -> list[str]:
    return [claim.name or claim.text for claim in claims_in(text) if kind in ("", claim.kind)]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("See src/auth.py, please.", ["src/auth.py"]),
        ("See [the guide](docs/guide.md#use).", ["docs/guide.md#use"]),
        ("The folder `src/auth/` has it.", ["src/auth/"]),
        ("See https://example.org/a/b.py and `@scope/name`.", []),
        ("Write it to `src/<name>/main.py` or `out/$NAME.txt`.", []),
        ("It has version 1.2 and costs 3.50.", []),
    ],
)
def test_paths_of_a_text(text, paths):
    assert found(text, "path") == paths


@pytest.mark.parametrize("text", ["a.py:4-6", "`a.py:4-6`", "a.py#L4-L6", "(a.py:4-6)"])
def test_lines_of_a_text(text):
    (claim,) = [one for one in claims_in(text) if one.kind == "lines"]
    assert (claim.path, claim.first, claim.last) == ("a.py", 4, 6)
    assert text[claim.begin : claim.end].startswith("a.py")


def test_names_are_read_between_code_marks_only():
    text = "check_token and `check_token()`, ``Session.sign``, `user`, `APP_SECRET=1`, `$APP_KEY`, `a_b c`"
    assert found(text, "symbol") == ["check_token", "sign"]
    assert found(text, "setting") == ["APP_SECRET", "APP_KEY"]
    assert [one.name for one in claims_in("It is check_token.", all_words=True)] == ["check_token"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("make lint test", ["lint", "test"]),
        ("make -C docs html", []),
        ("FOO=1 uv run make lint && npm run build", ["lint", "build"]),
        ("pnpm run test:unit", ["test:unit"]),
        ("just release", ["release"]),
        ("cargo run --bin server", ["server"]),
        ("shop serve --port 1", ["shop"]),
    ],
)
def test_commands_of_a_text(command, names):
    assert [one.name for one in claims_in(f"Run `{command}`.") if one.kind == "command"] == names
    assert [one.name for one in claims_in(f"```sh\n{command}\n```\n") if one.kind == "command"] == names


def test_values_and_arguments_are_not_shown():
    text = (
        "`APP_SECRET=hunter2`, `A=hunter2 make lint B=hunter2`, `shop login hunter2`, `npm run build -- -x`"
    )
    claims = claims_in(text)
    assert [one.text for one in claims] == ["APP_SECRET", "make lint", "shop", "npm run build"]


def test_a_code_fence_ends_where_it_began():
    text = "````\n```\nmake one\n````\nmake two\n"
    assert found(text, "command") == ["one"]


@pytest.mark.parametrize(
    "text",
    ["`" * 200_000, "a/" * 100_000, "`a` ``b " * 40_000, "[](" * 60_000, "make " * 60_000, "A_" * 99_000],
)
def test_a_huge_text_has_a_limited_number_of_candidates(text):
    assert len(claims_in("\n".join([text] * 4))) <= MAX_CLAIMS


def test_a_correction_changes_nothing_else():
    text = "One `a.py:3` and `a.py:3`,\r\n\ttwo\ufeff b.py  \n"
    first, second = (one for one in claims_in(text) if one.kind == "lines")
    stale = [CheckedClaim("t", one, "moved", fix="src/c.py:40") for one in (first, second)]
    assert corrected(text, stale) == ("One `src/c.py:40` and `src/c.py:40`,\r\n\ttwo\ufeff b.py  \n", 2)
    assert corrected(text, [CheckedClaim("t", first, "removed")]) == (text, 0)


TARGETS = {
    ("make", "Makefile"): (".PHONY: lint\nlint fix: deps\n\truff\n\nX := 1\n", ["lint", "fix"]),
    ("just", "justfile"): ("set shell := x\n@lint path='.':\n  ruff\n", ["lint"]),
    ("npm", "package.json"): (
        '{"name": "a", "scripts": {"lint": "x", "test:e2e": "y"}}',
        ["lint", "test:e2e"],
    ),
    ("program", "package.json"): ('{"name": "@a/shop", "bin": "cli.js"}', ["shop"]),
    ("program", "pyproject.toml"): ('[project]\nscripts."b-c" = "x"\nscripts.d = "y"\n', ["b-c", "d"]),
    ("program", "setup.cfg"): (
        "[options.entry_points]\nconsole_scripts =\n    a = b:c\n    d = e:f\n[x]\n",
        ["a", "d"],
    ),
    ("cargo", "Cargo.toml"): ('[package]\nname = "p"\n[[bin]]\nname = "server"\n', ["server"]),
}


@pytest.mark.parametrize(("kind", "path"), TARGETS)
def test_targets_of_build_files(kind, path):
    text, names = TARGETS[kind, path]
    assert [one.symbol for one in targets(kind, path, text)] == names


@pytest.mark.parametrize("text", ['{"scripts": {"lint": 1}, // no JSON', "[[[[", "[1, 2]"])
def test_a_damaged_build_file_may_have_any_target(text):
    every = [one.symbol for one in targets("npm", "package.json", f"{text} lint")]
    assert "lint" in every


def test_a_name_became_the_only_new_one_with_its_lines():
    def became(old: str, new: str) -> str | None:
        first, *_ = targets("make", "Makefile", old)
        known = [one.symbol for one in targets("make", "Makefile", old)]
        found = renamed(first, old, known, targets("make", "Makefile", new), new)
        return found.symbol if found else None

    old = "lint:\n\truff check .\ntest:\n\tpytest\n"
    assert became(old, "check:\n\truff check .\ntest:\n\tpytest\n") == "check"
    assert became(old, "check:\n\truff check .\nagain:\n\truff check .\n") is None
    assert became(old, "check:\n\tmypy\ntest:\n\tpytest\n") is None
    assert became("build:\n\tbuild it\n", "build-all:\n\tbuild it\n") == "build-all"
