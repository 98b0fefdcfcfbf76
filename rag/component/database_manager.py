"""`DatabaseManager`: indexes a repository into a store, and opens it again.

The interface, including that of the two functions below, is DeepWiki's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag.adal import adalflow
from rag.component.documents import Document, Documents, StoreDatabase
from rag.errors import NotFound
from rag.service import Engine, Repository, index_texts, locate, read_sources
from rag.service.repositories.remotes import for_host
from rag.settings import Settings, load_settings
from rag.types import Filters, Kind, SourceFile, blob_id

OLLAMA_EMBEDDER = "openai:nomic-embed-text"


class DatabaseManager(adalflow.core.component.Component):  # type: ignore[misc]
    """Creates, opens and updates the store of one repository at a time.

    Args:
        settings: by default those of the environment and the settings file.
        engine: the engine of another component, to share what it has open.
    """

    def __init__(self, settings: Settings | None = None, *, engine: Engine | None = None) -> None:
        super().__init__()
        self.engine = engine or Engine(settings or load_settings())
        self.reset_database()

    def reset_database(self) -> None:
        """Close the current repository. Files on disk are not changed."""
        self.db: StoreDatabase | None = None
        self.repository: Repository | None = None
        self.repo_url_or_path: str | None = None
        self.repo_paths: dict[str, str] | None = None
        self._asked: dict[str, Any] = {}

    def prepare_database(
        self,
        repo_url_or_path: str,
        repo_type: str | None = None,
        access_token: str | None = None,
        embedder_type: str | None = None,
        is_ollama_embedder: bool | None = None,
        excluded_dirs: Iterable[str] | None = None,
        excluded_files: Iterable[str] | None = None,
        included_dirs: Iterable[str] | None = None,
        included_files: Iterable[str] | None = None,
        *,
        local_ollama: bool = False,
        ref: str | None = None,
    ) -> Documents:
        """Index a repository, or open and update its store; return its chunks.

        Args:
            repo_url_or_path: a folder or a git URL.
            repo_type: ignored, as any git URL works; for compatibility.
            access_token: for a private repository; only passed to git, in the environment.
            embedder_type: "ollama" for embeddings of a local Ollama; by default as in the settings.
            is_ollama_embedder: the former form of `embedder_type="ollama"`.
            excluded_dirs: folders to exclude, by name or path.
            excluded_files: files to exclude, by glob.
            included_dirs: index only these folders.
            included_files: index only these files.
            local_ollama: the same as `embedder_type="ollama"`.
            ref: a branch, tag or commit.

        Raises:
            ConfigError: the repository is not available or contains nothing to index.
        """
        self.reset_database()
        self._create_repo(repo_url_or_path, access_token)
        self._asked |= {
            "ref": ref,
            "filters": filters_of(excluded_dirs, excluded_files, included_dirs, included_files),
        }
        ollama = local_ollama or bool(is_ollama_embedder) or embedder_type == "ollama"
        return self.prepare_db_index(local_ollama=ollama)

    def _create_repo(self, repo_url_or_path: str, *type_and_token: str | None) -> None:
        """Select the repository of `prepare_db_index`, which fetches it.

        DeepWiki's subclasses call it, with the token, or with the ignored type and the token.
        """
        self.repo_url_or_path = repo_url_or_path
        self._asked = {"token": type_and_token[-1] if type_and_token else None}

    def prepare_retriever(
        self, repo_url_or_path: str, repo_type: str | None = None, access_token: str | None = None
    ) -> Documents:
        """Like `prepare_database`."""
        return self.prepare_database(repo_url_or_path, repo_type, access_token)

    def prepare_db_index(self, local_ollama: bool = False, rebuild: bool = False) -> Documents:
        """Open the store of the last prepared repository; build or update it if necessary.

        Raises:
            NotFound: no repository was prepared.
        """
        if self.repo_url_or_path is None:
            raise NotFound("no repository is prepared; call prepare_database(PATH_OR_URL) first")
        if local_ollama:
            self.engine = self.engine.with_settings(embedder=OLLAMA_EMBEDDER, embedding_base_url=ollama_url())
        if token := self._asked.get("token"):
            self.engine = self.engine.with_settings(git_token=for_host(token, self.repo_url_or_path))
        source = locate(self.repo_url_or_path, self._asked.get("ref"), self._asked.get("filters"))
        self.repository = self.engine.repository(source, rebuild=rebuild)
        store = self.repository.store
        self.db = StoreDatabase(store)
        self.repo_paths = {
            "save_repo_dir": str(self.repository.checkout.root),
            "save_db_file": str(store.path),
        }
        return self.db.get_transformed_data()

    def call(self, repo_url_or_path: str, **options: Any) -> Documents:
        """Like `prepare_database`."""
        return self.prepare_database(repo_url_or_path, **options)


def filters_of(
    excluded_dirs: Iterable[str] | None,
    excluded_files: Iterable[str] | None,
    included_dirs: Iterable[str] | None,
    included_files: Iterable[str] | None,
) -> Filters:
    """Convert DeepWiki's four lists to globs. A leading "./" and a trailing "/" are ignored."""
    return Filters(
        include=(*_folders(included_dirs), *(_plain(file) for file in included_files or ())),
        exclude=(*_folders(excluded_dirs), *(_plain(file) for file in excluded_files or ())),
    )


def _folders(names: Iterable[str] | None) -> list[str]:
    return [f"{_plain(name).rstrip('/')}/" for name in names or () if _plain(name).rstrip("/")]


def _plain(name: str) -> str:
    return name.strip().removeprefix("./")


def ollama_url() -> str:
    """Return the URL of the local Ollama: `OLLAMA_HOST`, else its default port."""
    host = os.environ.get("OLLAMA_HOST", "127.0.0.1:11434")
    return f"{host if '://' in host else 'http://' + host}".rstrip("/") + "/v1"


def read_all_documents(
    path: str,
    local_ollama: bool = False,
    excluded_dirs: Iterable[str] | None = None,
    excluded_files: Iterable[str] | None = None,
    included_dirs: Iterable[str] | None = None,
    included_files: Iterable[str] | None = None,
) -> list[Any]:
    """Return every file of a folder that would be indexed as an AdalFlow document, sorted by path.

    `local_ollama` has no effect; it is accepted for DeepWiki's callers.
    """
    filters = filters_of(excluded_dirs, excluded_files, included_dirs, included_files)
    return [_file_document(file) for file in read_sources(locate(path, None, filters), load_settings())]


def transform_documents_and_save_to_db(
    documents: Sequence[Any], db_path: str, local_ollama: bool = False
) -> StoreDatabase:
    """Chunk and embed documents, write the store to `db_path` and open it.

    The path of a document is its `meta_data["file_path"]`; documents without one are numbered.

    Raises:
        NothingToIndex: no document has text.
        StoreUnwritable: the file cannot be written.
    """
    settings = load_settings()
    if local_ollama:
        settings = replace(settings, embedder=OLLAMA_EMBEDDER, embedding_base_url=ollama_url())
    files = [_source_file(document, number) for number, document in enumerate(documents)]
    return StoreDatabase(index_texts(files, Path(db_path).absolute(), settings))


def _file_document(file: SourceFile) -> Any:
    return Document(
        text=file.text,
        id=file.blob,
        meta_data={
            "file_path": file.path,
            "type": file.language,
            "is_code": file.kind in ("code", "test"),
            "is_implementation": file.kind == "code",
            "title": file.path,
            "token_count": None,
            "kind": file.kind,
        },
        estimated_num_tokens=0,
    )


def _source_file(document: Any, number: int) -> SourceFile:
    meta = document.meta_data or {}
    path = str(meta.get("file_path") or f"document-{number}")
    kind: Kind = meta.get("kind") or ("code" if meta.get("is_code", True) else "doc")
    blob = blob_id(document.text.encode("utf-8", "surrogatepass"))
    return SourceFile(path, document.text, blob, str(meta.get("type") or "text"), kind)
