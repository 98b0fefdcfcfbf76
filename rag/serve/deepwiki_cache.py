"""The wikis that deepwiki-open's frontend made, kept until they are made anew.

One file for each wiki, in the caller's namespace, under a name that is a hash: nothing of a request ever is
part of a path. No token is kept, and no page that is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from rag.errors import StoreError
from rag.serve.deepwiki_shapes import ProcessedProject, RepoInfo, WikiCacheData, WikiCacheRequest
from rag.serve.errors import BadRequest, TooMany
from rag.wiki.state import write_text

_VERSION = 1
_MOST_WIKIS = 500
_SHORTEST_TOKEN = 8
_ERROR = re.compile(r"\s*Error(?: [\w ,.'-]{0,80})?: ")
_ERROR_AT_END = re.compile(r"(?:\A|\n)Error(?: with [\w .-]{1,40} API)?: [^\n]*\s*\Z")


def is_error(content: str) -> bool:
    """Whether a page is an error that was taken for its text, or broke off in one."""
    return bool(_ERROR.match(content) or _ERROR_AT_END.search(content))


class WikiCache:
    """The wikis of one server.

    Args:
        folder: where they are kept; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, namespace: str, repo: RepoInfo, language: str) -> tuple[str, WikiCacheData] | None:
        """A wiki with the name of the repository it was made of; None where there is none."""
        kept = _read(self._file(namespace, repo, language))
        return None if kept is None else (kept["shelf"], WikiCacheData.model_validate(kept["wiki"]))

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
        kept = {
            "version": _VERSION,
            "shelf": shelf,
            "language": wiki.language,
            "wiki": _without(data.model_dump(mode="json"), wiki.repo.token or ""),
        }
        write_text(file, json.dumps(kept, ensure_ascii=False))

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
            kept = _read(file)
            if kept is None:
                continue
            repo = RepoInfo.model_validate(kept["wiki"]["repo"])
            language = kept["language"]
            project = ProcessedProject(
                id=f"deepwiki_cache_{repo.type}_{repo.owner}_{repo.repo}_{language}.json",
                owner=repo.owner,
                repo=repo.repo,
                name=f"{repo.owner}/{repo.repo}",
                repo_type=repo.type,
                submittedAt=int(file.stat().st_mtime * 1000),
                language=language,
            )
            found.append((kept["shelf"], project))
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


def _read(file: Path) -> dict[str, Any] | None:
    """What a file holds; None where it is not there. One of another version is as if it were not."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["version"] != _VERSION:
            return None
        WikiCacheData.model_validate(kept["wiki"])
        RepoInfo.model_validate(kept["wiki"]["repo"])
        return {"shelf": str(kept["shelf"]), "language": str(kept["language"]), "wiki": kept["wiki"]}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise StoreError(f"the wiki kept in {file} cannot be read ({error}); remove the file") from error


def _hash(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
