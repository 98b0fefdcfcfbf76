"""The cache of the wikis that deepwiki-open's frontend generates.

One file per wiki, in the caller's namespace. The file name is a hash, so no part of a request becomes part of
a path. Tokens are not stored, and neither are wikis with an error as a page.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel

from rag.errors import StoreError
from rag.resources import replace_file
from rag.serve.deepwiki.schema import ProcessedProject, RepoInfo, WikiCacheData, WikiCacheRequest
from rag.serve.errors import BadRequest, TooMany

_MAX_WIKIS = 200
_MIN_TOKEN_CHARS = 8
_ERROR = re.compile(r"Error(?: [\w ,.'-]{0,80})?: ")
_LAST_LINE = re.compile(r"Error(?: with [\w .-]{1,40} API)?: ")


def is_error(content: str) -> bool:
    """Whether a page is an error message, or ends with one."""
    last = content.rstrip().rpartition("\n")[2]
    return bool(_ERROR.match(content.lstrip()) or _LAST_LINE.match(last))


class _Head(BaseModel):
    """The first line of a file, about its wiki. The second line is the wiki."""

    version: Literal[1] = 1
    shelf: str  # the repository's name on the server
    language: str
    repo: RepoInfo


class WikiCache:
    """The stored wikis of one server.

    Args:
        folder: where they are stored; created when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, namespace: str, repo: RepoInfo, language: str) -> tuple[str, WikiCacheData] | None:
        """Return a wiki and the name of its repository, or None."""
        file = self._file(namespace, repo, language)
        head = _head(file)
        if head is None:
            return None
        try:
            body = file.read_text(encoding="utf-8").partition("\n")[2]
            return head.shelf, WikiCacheData.model_validate_json(body)
        except (OSError, ValueError) as error:
            raise _unreadable(file, error) from error

    def write(self, namespace: str, name: str, wiki: WikiCacheRequest) -> None:
        """Store a wiki of the repository `name`, replacing the previous one.

        Raises:
            BadRequest: a page is an error.
            TooMany: the limit of wikis is reached.
            StoreError: the file cannot be written.
        """
        pages = list(wiki.generated_pages.values())
        if bad := [page.title[:60] for page in pages if is_error(page.content)]:
            raise BadRequest(
                f"a page of the wiki is an error ({', '.join(bad[:3])}), so it was not stored; regenerate it"
            )
        file = self._file(namespace, wiki.repo, wiki.language)
        if not file.exists() and len(self._files(namespace)) >= _MAX_WIKIS:
            raise TooMany(f"{_MAX_WIKIS} wikis are stored, which is the limit; delete one", retry_after_s=600)
        data = WikiCacheData(
            wiki_structure=wiki.wiki_structure,
            generated_pages=wiki.generated_pages,
            repo=without_secrets(wiki.repo),
            provider=wiki.provider,
            model=wiki.model,
        )
        body = _without(data.model_dump(mode="json"), wiki.repo.token or "")
        head = _Head(shelf=name, language=wiki.language, repo=body["repo"])
        lines = [head.model_dump_json(), json.dumps(body, ensure_ascii=False), ""]
        try:
            replace_file(file, "\n".join(lines))
        except OSError as error:
            raise StoreError(f"the wiki cannot be stored: {error}") from error

    def delete(self, namespace: str, repo: RepoInfo, language: str) -> bool:
        """Delete a wiki; return whether it existed."""
        file = self._file(namespace, repo, language)
        existed = file.is_file()
        file.unlink(missing_ok=True)
        return existed

    def projects(self, namespace: str) -> list[tuple[str, ProcessedProject]]:
        """Return all wikis with the names of their repositories, newest first."""
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

    def _namespace_folder(self, namespace: str) -> Path:
        return self._folder / _hash([namespace])

    def _files(self, namespace: str) -> list[Path]:
        return sorted(self._namespace_folder(namespace).glob("*.json"))

    def _file(self, namespace: str, repo: RepoInfo, language: str) -> Path:
        name = _hash([repo.type, repo.owner, repo.repo, language])
        return self._namespace_folder(namespace) / f"{name}.json"


def without_secrets(repo: RepoInfo) -> RepoInfo:
    """Return a copy without the token and without credentials in the URL."""
    url = repo.repoUrl
    if url:
        try:
            parts = urlsplit(url)
            url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        except ValueError:
            url = None
    return repo.model_copy(update={"token": None, "repoUrl": url})


def _without(value: Any, token: str) -> Any:
    """Return the value with the token removed from all texts."""
    if len(token) < _MIN_TOKEN_CHARS:
        return value
    if isinstance(value, str):
        return value.replace(token, "")
    if isinstance(value, list):
        return [_without(item, token) for item in value]
    if isinstance(value, dict):
        return {_without(key, token): _without(item, token) for key, item in value.items()}
    return value


def _head(file: Path) -> _Head | None:
    """Return the first line of a file, or None if the file does not exist."""
    try:
        with file.open(encoding="utf-8") as lines:
            return _Head.model_validate_json(lines.readline())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> StoreError:
    return StoreError(f"the wiki in {file} cannot be read ({error}); delete the file")


def _hash(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
