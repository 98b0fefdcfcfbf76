"""File filters of a request. They apply to its search only; the index is not changed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from rag.serve.deepwiki.schema import DeepWikiRequest, Lines
from rag.serve.errors import BadRequest

_MAX_RULES = 500
_MAX_RULE_CHARS = 300
_MAX_CHARS = 20_000
"""Of all rules of one list: they are one regular expression, which is compiled for each request."""


@dataclass(frozen=True)
class FileRules:
    """The four lists of glob patterns of a request.

    A folder pattern matches all files below a folder of that name or path, a file pattern a name or a path.
    If anything is included, only included files are used; excluded files are never used.
    """

    excluded_dirs: tuple[str, ...] = ()
    excluded_files: tuple[str, ...] = ()
    included_dirs: tuple[str, ...] = ()
    included_files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.excluded_dirs or self.excluded_files or self.included_dirs or self.included_files)

    def keeps(self, path: str) -> bool:
        """Whether a file is used."""
        if self._matches(path, self._excluded):
            return False
        has_included = bool(self.included_dirs or self.included_files)
        return not has_included or self._matches(path, self._included)

    @cached_property
    def _excluded(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return _compiled(self.excluded_dirs), _compiled(self.excluded_files)

    @cached_property
    def _included(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return _compiled(self.included_dirs), _compiled(self.included_files)

    def _matches(self, path: str, rules: tuple[re.Pattern[str], re.Pattern[str]]) -> bool:
        dirs, files = rules
        parts = path.split("/")
        if files.match(path) or files.match(parts[-1]):
            return True
        folders = range(1, len(parts))
        return any(dirs.match("/".join(parts[:n])) or dirs.match(parts[n - 1]) for n in folders)


def rules_of(asked: DeepWikiRequest) -> FileRules:
    """Return the rules of a request. Raises BadRequest: it has too many."""
    return FileRules(
        *(
            _rules(lines)
            for lines in (
                asked.excluded_dirs,
                asked.excluded_files,
                asked.included_dirs,
                asked.included_files,
            )
        )
    )


def _rules(lines: Lines) -> tuple[str, ...]:
    listed: Iterable[str] = lines.split("\n") if isinstance(lines, str) else lines or ()
    unquoted = (unquote(line).strip().replace("\\", "/") for line in listed)
    cleaned = (rule.removeprefix("./").strip("/")[:_MAX_RULE_CHARS] for rule in unquoted)
    rules = tuple(dict.fromkeys(rule for rule in cleaned if rule))
    if len(rules) > _MAX_RULES or sum(map(len, rules)) > _MAX_CHARS:
        raise BadRequest(
            f"a list of files or folders has {len(rules):,} entries of {sum(map(len, rules)):,} characters; "
            f"send at most {_MAX_RULES} entries and {_MAX_CHARS:,} characters"
        )
    return rules


def _compiled(rules: Iterable[str]) -> re.Pattern[str]:
    return re.compile(
        "|".join(rf"{re.escape(rule)}\Z|{fnmatch.translate(rule)}" for rule in rules) or r"(?!)"
    )
