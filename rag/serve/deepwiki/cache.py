"""The wikis that deepwiki-open's frontend made, kept until they are made anew.

One file for each wiki, in the caller's namespace, under a name that is a hash: nothing of a request ever is
part of a path. No token is kept, and no page that is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel

from rag.errors import StoreError, WikiUnwritable
from rag.serve.deepwiki.schema import ProcessedProject, RepoInfo, WikiCacheData, WikiCacheRequest
from rag.serve.errors import BadRequest, TooMany
from rag.wiki.build_state import write_text

_MOST_WIKIS = 200
_SHORTEST_TOKEN = 8
_ERROR = re.compile(r"Error(?: [\w ,.'-]{0,80})?: ")
_LAST_LINE = re.compile(r"Error(?: with [\w .-]{1,40} API)?: ")


def is_error(content: str) -> bool:
    """Whether a page is an error that was taken for its text, or broke off in one."""
    last = content.rstrip().rpartition("\n")[2]
    return bool(_ERROR.match(content.lstrip()) or _LAST_LINE.match(last))


class _Head(BaseModel):
    """The first line of a file; the second is the wiki."""

    version: Literal[1] = 1
    shelf: str
    language: str
    repo: RepoInfo


class WikiCache:
    """The wikis of one server.

    Args:
        folder: where they are kept; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, namespace: str, repo: RepoInfo, language: str) -> tuple[str, WikiCacheData] | None:
        """A wiki with the name of the repository it was made of; None where there is none."""
        file = self._file(namespace, repo, language)
        head = _head(file)
        if head is None:
            return None
        try:
            body = file.read_text(encoding="utf-8").partition("\n")[2]
            return head.shelf, WikiCacheData.model_validate_json(body)
        except (OSError, ValueError) as error:
            raise _unreadable(file, error) from error

    def write(self, namespace: str, shelf: str, wiki: WikiCacheRequest) -> None:
        """Keep a wiki; the one before it goes.

        Raises:
            BadRequest: a page is an error.
            TooMany: there are too many wikis.
            StoreError: the file cannot be written.
        """
        pages = list(wiki.generated_pages.values())
        if bad := [page.title[:60] for page in pages if is_error(page.content)]:
            raise BadRequest(
                f"a wiki with an error for a page is not kept ({', '.join(bad[:3])}); make it again"
            )
        file = self._file(namespace, wiki.repo, wiki.language)
        if not file.exists() and len(self._files(namespace)) >= _MOST_WIKIS:
            raise TooMany(f"{_MOST_WIKIS} wikis are kept already; delete one", retry_after_s=600)
        data = WikiCacheData(
            wiki_structure=wiki.wiki_structure,
            generated_pages=wiki.generated_pages,
            repo=without_secrets(wiki.repo),
            provider=wiki.provider,
            model=wiki.model,
        )
        body = _without(data.model_dump(mode="json"), wiki.repo.token or "")
        head = _Head(shelf=shelf, language=wiki.language, repo=body["repo"])
        lines = [head.model_dump_json(), json.dumps(body, ensure_ascii=False), ""]
        try:
            write_text(file, "\n".join(lines))
        except WikiUnwritable as error:
            raise StoreError(f"the wiki cannot be kept: {error.__cause__}") from error

    def delete(self, namespace: str, repo: RepoInfo, language: str) -> bool:
        """Remove a wiki; returns whether there was one."""
        file = self._file(namespace, repo, language)
        there = file.is_file()
        file.unlink(missing_ok=True)
        return there

    def projects(self, namespace: str) -> list[tuple[str, ProcessedProject]]:
        """All wikis with the names of their repositories, the newest first."""
        found = []
        for file in self._files(namespace):
            head = _head(file)
            if head is None:
                continue
            repo = head.repo
            project = ProcessedProject(
                id=f"deepwiki_cache_{repo.type}_{repo.owner}_{repo.repo}_{head.language}.json",
                owner=repo.owner,
                repo=repo.repo,
                name=f"{repo.owner}/{repo.repo}",
                repo_type=repo.type,
                submittedAt=int(file.stat().st_mtime * 1000),
                language=head.language,
            )
            found.append((head.shelf, project))
        return sorted(found, key=lambda pair: -pair[1].submittedAt)

    def _place(self, namespace: str) -> Path:
        return self._folder / _hash([namespace])

    def _files(self, namespace: str) -> list[Path]:
        return sorted(self._place(namespace).glob("*.json"))

    def _file(self, namespace: str, repo: RepoInfo, language: str) -> Path:
        return self._place(namespace) / f"{_hash([repo.type, repo.owner, repo.repo, language])}.json"


def without_secrets(repo: RepoInfo) -> RepoInfo:
    """The same without a token, and with an address that holds none."""
    url = repo.repoUrl
    if url:
        try:
            parts = urlsplit(url)
            url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        except ValueError:
            url = None
    return repo.model_copy(update={"token": None, "repoUrl": url})


def _without(value: Any, token: str) -> Any:
    """The value with the token taken out of all texts."""
    if len(token) < _SHORTEST_TOKEN:
        return value
    if isinstance(value, str):
        return value.replace(token, "")
    if isinstance(value, list):
        return [_without(item, token) for item in value]
    if isinstance(value, dict):
        return {_without(key, token): _without(item, token) for key, item in value.items()}
    return value


def _head(file: Path) -> _Head | None:
    """What the file says of its wiki; None where it is not there."""
    try:
        with file.open(encoding="utf-8") as lines:
            return _Head.model_validate_json(lines.readline())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> StoreError:
    return StoreError(f"the wiki kept in {file} cannot be read ({error}); remove the file")


def _hash(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
