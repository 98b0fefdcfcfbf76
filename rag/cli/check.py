"""`rag check`: what texts say of the code, compared with the code as it is."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import quote

import typer

from rag.cli import options
from rag.cli.terminal import opened_engine, out, out_json, say, wants_json
from rag.errors import ConfigError
from rag.quoting import counted, visible
from rag.resources import read_regular, replace_file
from rag.types import Source

if TYPE_CHECKING:
    from rag.memory.claims import CheckedClaim
    from rag.service.checks.claims import CheckedText

STALE = 1
Format = Literal["text", "sarif", "github"]
_STDIN = "-"


def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES|-]...",
            help="Texts; - is standard input. Default: CLAUDE.md, AGENTS.md, README and the like of the "
            "repository.",
        ),
    ] = None,
    repo: options.Repository = None,
    format_: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="text, sarif, or github (annotations).")
    ] = "text",
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Correct paths and lines that have moved in the files, nothing else."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="List what is true too, and what names nothing.")
    ] = False,
) -> None:
    """Check what texts say of the code: paths, lines, symbols, commands and settings that they name.

    Each is compared as of when its line was written: moved, renamed, changed since then, or removed. The exit
    code is 1 if something is stale that was not fixed, else 0.

    rag check

    rag check AGENTS.md --fix

    git log -1 --format=%B | rag check -
    """
    from rag.service import locate
    from rag.service.checks.claims import agent_texts, check_texts, whole_repository

    kind = "json" if wants_json() else format_
    if fix and _STDIN in (files or ()):
        raise ConfigError("--fix needs files; standard input cannot be corrected")
    with opened_engine() as engine:
        source = whole_repository(locate(repo))
        texts = _given(files, source) if files else agent_texts(engine, source)
        if fix:
            _refuse_outside(texts, source)
        if not texts:
            _print([], kind)
            say(f"rag: {source.name} has none of the files that are checked by default; name some")
            return
        found = check_texts(engine, source, texts)
    stale = [one for one in found if one.is_stale]
    _print(found if every else stale, kind)
    fixed = _fix(texts, stale, source) if fix else 0
    _summarize(found, fixed, len(texts))
    if len(stale) > fixed:
        raise typer.Exit(STALE)


def _given(names: Sequence[str], source: Source) -> list[CheckedText]:
    """Return the texts that were named, each file once."""
    files: dict[str, str] = {}
    for name in names:
        files.setdefault(name if name == _STDIN else os.path.realpath(name), name)
    return [_read(name, source) for name in files.values()]


def _refuse_outside(texts: Sequence[CheckedText], source: Source) -> None:
    """Raise ConfigError if a file of the repository is a symbolic link to one elsewhere."""
    top = os.path.realpath(source.location)
    for text in texts:
        path = _path(text, source)
        is_here = path.is_symlink() or Path(os.path.normpath(path.absolute())).is_relative_to(source.location)
        if is_here and not Path(os.path.realpath(path)).is_relative_to(top):
            raise ConfigError(f"{path} is a file outside of the repository; --fix does not write it")


def _path(text: CheckedText, source: Source) -> Path:
    return Path(source.location, text.path) if text.path else Path(text.name)


def _read(name: str, source: Source) -> CheckedText:
    from rag.memory.claims import MAX_TEXT_CHARS
    from rag.service.checks.claims import text_of

    try:
        if name == _STDIN:
            return text_of(name, sys.stdin.buffer.read(4 * MAX_TEXT_CHARS))
        content = read_regular(Path(name), max_bytes=4 * MAX_TEXT_CHARS)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    here = Path(os.path.realpath(name))
    top = os.path.realpath(source.location)
    inside = here.relative_to(top).as_posix() if not source.is_url and here.is_relative_to(top) else ""
    return text_of(name, content, inside)


def _print(found: Sequence[CheckedClaim], kind: str) -> None:
    if kind == "json":
        out_json({"claims": [one.values() for one in found]})
    elif kind == "sarif":
        out_json(_sarif(found))
    for one in found if kind in ("text", "github") else ():
        out(
            _annotation(one)
            if kind == "github"
            else f"{visible(one.file)}:{one.claim.place}: {visible(str(one))}"
        )


def _fix(texts: Sequence[CheckedText], stale: Sequence[CheckedClaim], source: Source) -> int:
    """Write the corrected files; return how many corrections were made."""
    from rag.memory.claims import corrected

    count = 0
    for text in texts:
        new, fixed = corrected(text.text, [one for one in stale if one.file == text.name])
        if fixed:
            _replace(
                _path(text, source),
                text.text.encode("utf-8", "surrogateescape"),
                new.encode("utf-8", "surrogateescape"),
            )
            count += fixed
    return count


def _replace(path: Path, old: bytes, new: bytes) -> None:
    """Replace the bytes of a file at once; refuse if they have changed in the meantime."""
    path = Path(os.path.realpath(path))
    try:
        if path.stat().st_size != len(old) or read_regular(path, max_bytes=len(old)) != old:
            raise ConfigError(f"{path} has changed since it was read; run `rag check --fix` again")
        replace_file(path, new, mode=path.stat().st_mode & 0o777)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _summarize(found: Sequence[CheckedClaim], fixed: int, texts: int) -> None:
    states = Counter(one.state for one in found)
    unknown = states.pop("absent", 0)
    known = ", ".join(f"{count:,} {state}" for state, count in states.most_common()) or "nothing to compare"
    more = f"; {unknown:,} other words name nothing in the repository" if unknown else ""
    say(f"rag: {counted(texts, 'text')}: {known}{more}")
    fixable = sum(1 for one in found if one.fix and one.file != _STDIN)
    if fixed:
        say(f"rag: corrected {counted(fixed, 'place')}")
    elif fixable:
        say(f"rag: `rag check --fix` corrects {fixable:,} of them")


def _annotation(one: CheckedClaim) -> str:
    """Return a workflow command of GitHub, which shows a warning on the line."""
    claim = one.claim
    place = {"file": one.file, "line": claim.line, "col": claim.begin + 1, "endColumn": claim.end + 1}
    level = "warning" if one.is_stale else "notice"
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in place.items())
    return f"::{level} {properties},title=rag check::{_escaped(visible(str(one)))}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif(found: Sequence[CheckedClaim]) -> dict[str, Any]:
    """Return the claims as a SARIF 2.1.0 log; each state is a rule."""
    from rag.memory.claims import ClaimState

    states = get_args(ClaimState)
    rules = [{"id": state, "shortDescription": {"text": f"what a text names: {state}"}} for state in states]
    driver = {"name": "rag check", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one) for one in found],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _result(one: CheckedClaim) -> dict[str, Any]:
    claim = one.claim
    region = {"startLine": claim.line, "startColumn": claim.begin + 1, "endColumn": claim.end + 1}
    artifact = {"uri": quote(one.file, safe="/", errors="surrogateescape")}
    result: dict[str, Any] = {
        "ruleId": one.state,
        "level": "warning" if one.is_stale else "none",
        "message": {"text": str(one)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }
    if one.fix:
        replacement = {"deletedRegion": region, "insertedContent": {"text": one.fix}}
        change = {"artifactLocation": artifact, "replacements": [replacement]}
        result["fixes"] = [{"description": {"text": f"write {one.fix}"}, "artifactChanges": [change]}]
    return result
