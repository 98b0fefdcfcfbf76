"""Divide a repository into its parts: the folders, or where it is flat the files, with most of its code."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from rag.code.entry_points import MANIFESTS
from rag.code.roles import code_by_role, is_carried, is_generated, is_tool
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.markdown import documented

_LARGE_SHARE, _MOST_SHARE = 1 / 3, 1 / 2
"""A folder with more than this share is shown as its subfolders, one without any as its files."""
_MIN_FILES = 3
"""A folder with fewer files is one part; the top of a repository never is."""
_MAX_ROUNDS = 40
_MIN_SHARE = 0.1
"""With a smaller share, the code is not what a repository is for."""
_TESTS = re.compile(
    r"(?:^|/)(?:(?:tests?|specs?|e2e)(?:[_-][^/]*)?|__tests__|testdata|fixtures|mocks?|molecule)/|(?:^|/)features/",
    re.I,
)
_NEWS_FOLDER = re.compile(r"(?:change(?:log)?s?|news(?:fragments)?|release[-_]?notes)/", re.I)
_NEWS = ("change", "history", "news", "release")
_ON_PROJECT = (*_NEWS, "code_of_conduct", "contributing", "license", "security", "support")
_DESCRIBING = ("readme", "architecture", "structure", "design")
_LIST_MARKS = " \t-*+|`│├└─#>[('\""
_NAME_ENDS = " \t/*`_])('\""
_SEPARATORS = "|:=—–→-#"
_MAX_DOCUMENTS, _MAX_DOCUMENT_LINES = 60, 2_000


def content(survey: Survey) -> list[File]:
    """Return the files that a repository is for: its own code, or where there is little of it, its
    configuration (roles, charts, modules) too, or if these are more, its documents.
    """
    own = [file for file in code_by_role(survey)["own"] if not _TESTS.search(file.path)]
    inside = [file for file in survey.of_kind("code", "config", "doc") if not _is_beside(file.path)]
    configured = [file for file in inside if file.kind != "doc"]
    documents = [
        file for file in inside if file.kind == "doc" and not _basename(file).startswith(_ON_PROJECT)
    ]
    if own and _lines(own) >= _MIN_SHARE * _lines(inside):
        return own
    return configured if _lines(configured) >= _lines(documents) else documents


def _is_beside(path: str) -> bool:
    """Return whether a file is not what the repository is for, by its path."""
    return (
        bool(_TESTS.search(path))
        or is_carried(path)
        or is_generated(path)
        or is_tool(path)
        or path.startswith(".")
        or _NEWS_FOLDER.match(path) is not None
    )


def _is_news(file: File) -> bool:
    return _basename(file).startswith(_NEWS)


def _basename(file: File) -> str:
    return posixpath.basename(file.path).lower()


def _lines(files: Sequence[File]) -> int:
    return sum(len(file.lines) for file in files)


def packages(survey: Survey) -> set[str]:
    """Return the folders that have a README or a manifest as others of their folder do: the packages of a
    monorepo, roles, charts, modules.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for path in survey.files:
        folder, _, name = path.rpartition("/")
        if folder and (name in MANIFESTS or name.lower().startswith("readme.")):
            found[posixpath.dirname(folder)].add(folder)
    return {folder for folders in found.values() if len(folders) >= _MIN_FILES for folder in folders}


def main_parts(
    weights: Mapping[str, float], most: int, *, with_files: bool = False, whole: Set[str] = frozenset()
) -> dict[str, list[str]]:
    """Return the folders that hold most of some files, by path, each with its files, at most `most`.

    A large one is replaced by its subfolders, unless it is one of `whole`; with `with_files`, one without
    subfolders by its files, which are parts of their own. The top of the repository is "".
    """
    parts = {"": list(weights)}

    def weight(part: str) -> float:
        return sum(weights[path] for path in parts[part])

    for _ in range(_MAX_ROUNDS):
        largest = max(parts, key=lambda part: (part not in whole, weight(part), part))
        inner = _divided(largest, parts[largest], with_files=with_files)
        share = _MOST_SHARE if set(inner) <= set(parts[largest]) else _LARGE_SHARE
        is_large = weight(largest) > share * sum(weights.values()) or not largest
        if not is_large or not inner or largest in whole:
            break
        del parts[largest]
        parts |= inner
    ranked = sorted(parts, key=lambda part: (is_tool(f"{part}/x"), -weight(part), part))
    return {part: parts[part] for part in sorted(ranked[:most]) if part}


def _divided(folder: str, paths: Sequence[str], *, with_files: bool) -> dict[str, list[str]]:
    """Return the subfolders with their files, and the folder with the rest; {} if it has no subfolders.

    Folders that hold nothing but one folder are skipped.
    """
    if folder in paths:
        return {}
    only = posixpath.commonprefix([f"{posixpath.dirname(path)}/" for path in paths]).rpartition("/")[0]
    outer, folder = folder, only
    parts: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        inner, _, _ = path[len(folder) + 1 if folder else 0 :].rpartition("/")
        parts[posixpath.join(folder, inner.partition("/")[0]) if inner else folder].append(path)
    if parts.keys() - {folder}:
        if with_files and not folder:
            parts |= {path: [path] for path in parts.pop(folder, ())}
        return dict(parts)
    if with_files and (not folder or len(paths) >= _MIN_FILES):
        return {path: [path] for path in paths}
    return {folder: list(paths)} if folder != outer else {}


def documents_near_top(survey: Survey) -> list[File]:
    """Return the documents at the top and in its folders, those at the top first."""
    near = [file for file in survey.of_kind("doc") if file.path.count("/") <= 1 and not is_carried(file.path)]
    return sorted(near, key=lambda file: (file.path.count("/"), file.path))[:_MAX_DOCUMENTS]


def listed_in_documents(survey: Survey, parts: Sequence[str]) -> dict[str, tuple[str, str, int]]:
    """Return what documents say of parts in lists, tables and trees of folders: the words after the name of a
    part that begins a line, and a separator, with the path and the line. What describes the repository as a
    whole comes first.
    """
    names: dict[str, str] = {}
    for part in parts:
        for name in (part, part.rpartition("/")[2]):
            names[name] = part if name not in names or name == part else ""
    found: dict[str, tuple[str, str, int]] = {}
    documents = [file for file in documents_near_top(survey) if not _is_news(file)]
    for file in sorted(documents, key=lambda file: not _basename(file).startswith(_DESCRIBING)):
        for number, line in enumerate(file.lines[:_MAX_DOCUMENT_LINES], 1):
            head = (documented(line) if "](" in line else line).lstrip(_LIST_MARKS)[:200]
            name = head.split("`")[0].split(" ")[0].split("]")[0].rstrip("/*:|")
            part = names.get(name.removeprefix("./"), "")
            is_path = "/" in head[: len(name) + 1] or "." in name
            rest = head[len(name) :].lstrip(_NAME_ENDS)
            said = rest.lstrip(_SEPARATORS + _NAME_ENDS).partition("|")[0].rstrip(" |")
            said = said if said.count("`") % 2 == 0 else said.replace("`", "")
            is_listed = part and is_path and rest.startswith(tuple(_SEPARATORS)) and "://" not in said
            if is_listed and part not in found and len(said.split()) > 1:
                found[part] = said, file.path, number
    return found
