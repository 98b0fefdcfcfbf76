"""Small repositories made of texts, for the tests of the wiki."""

from __future__ import annotations

import re

from rag.code.languages import kind_of, language_of_path, language_of_text
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.lines import lines_of
from rag.types import blob_id

FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)


def survey_of(texts: dict[str, str]) -> Survey:
    """A survey of files as the walk would see them."""
    files = {}
    for path, text in sorted(texts.items()):
        language = language_of_text(language_of_path(path) or "text", path, text)
        kind = kind_of(path, language)
        files[path] = File(path, text, blob_id(text.encode()), language, kind, tuple(lines_of(text)))
    return Survey("app", files)


def links(survey: Survey) -> set[tuple[str, str]]:
    return {(link.source, link.target) for link in survey.links}


def calls(survey: Survey) -> set[tuple[str, str]]:
    return {
        (c.caller.qualified_name if c.caller else "", f"{c.callee.path}:{c.callee.qualified_name}")
        for c in survey.calls
    }


def outside_fences(markdown: str) -> str:
    return FENCED.sub("", markdown)
