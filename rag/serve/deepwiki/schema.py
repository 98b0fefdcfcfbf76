"""The requests and responses of deepwiki-open's frontend, with its own names."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Lines = str | list[str] | None
"""A list, or a text with one URL-encoded entry per line."""


class DeepWikiMessage(BaseModel):
    """A message of a conversation."""

    role: str
    content: str | list[Any] | None = None


class DeepWikiRequest(BaseModel):
    """A question, or a prompt for a part of a wiki. Other fields are ignored.

    The token is discarded: repositories are fetched with the operator's own credentials.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "repo_url": "sample",
                    "type": "local",
                    "messages": [{"role": "user", "content": "Where is a token checked?"}],
                }
            ]
        }
    )
    repo_url: str
    messages: list[DeepWikiMessage]
    filePath: str | None = None  # noqa: N815
    token: SecretStr | None = Field(default=None, exclude=True)
    type: str | None = "github"
    provider: str | None = None
    model: str | None = None
    language: str | None = "en"
    excluded_dirs: Lines = None
    excluded_files: Lines = None
    included_dirs: Lines = None
    included_files: Lines = None


class WikiPage(BaseModel):
    """A page with its text."""

    id: str
    title: str
    content: str
    filePaths: list[str]  # noqa: N815
    importance: str
    relatedPages: list[str]  # noqa: N815


class WikiSection(BaseModel):
    """A group of pages, by their ids."""

    id: str
    title: str
    pages: list[str]
    subsections: list[str] | None = None


class WikiStructure(BaseModel):
    """The structure of a wiki."""

    id: str
    title: str
    description: str
    pages: list[WikiPage]
    sections: list[WikiSection] | None = None
    rootSections: list[str] | None = None  # noqa: N815


class RepoInfo(BaseModel):
    """The repository of a wiki. A token is neither stored nor returned."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"owner": "local", "repo": "sample", "type": "github"}]}
    )
    owner: str
    repo: str
    type: str
    token: str | None = None
    localPath: str | None = None  # noqa: N815
    repoUrl: str | None = None  # noqa: N815


class WikiCacheRequest(BaseModel):
    """A wiki to store."""

    repo: RepoInfo
    language: str
    wiki_structure: WikiStructure
    generated_pages: dict[str, WikiPage]
    provider: str
    model: str


class WikiCacheData(BaseModel):
    """A stored wiki."""

    wiki_structure: WikiStructure
    generated_pages: dict[str, WikiPage]
    repo_url: str | None = None
    repo: RepoInfo | None = None
    provider: str | None = None
    model: str | None = None


class ProcessedProject(BaseModel):
    """A stored wiki in a list. `submittedAt` is in milliseconds since 1970."""

    id: str
    owner: str
    repo: str
    name: str
    repo_type: str
    submittedAt: int  # noqa: N815
    language: str


class ExportRequest(BaseModel):
    """Pages to export as one file."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"repo_url": "sample", "pages": [], "format": "markdown"}]}
    )
    repo_url: str
    pages: list[WikiPage]
    format: Literal["markdown", "json"]


class DeepWikiModel(BaseModel):
    """A model."""

    id: str
    name: str


class Provider(BaseModel):
    """A provider of models."""

    id: str
    name: str
    models: list[DeepWikiModel]
    supportsCustomModel: bool = False  # noqa: N815


class ModelConfig(BaseModel):
    """The available models."""

    providers: list[Provider]
    defaultProvider: str  # noqa: N815


class LanguageConfig(BaseModel):
    """The languages of a wiki, by code."""

    supported_languages: dict[str, str]
    default: str


class AuthStatus(BaseModel):
    """Whether a code is needed."""

    auth_required: bool


class AuthCode(BaseModel):
    """A code to check."""

    code: str


class AuthResult(BaseModel):
    """Whether the code is correct."""

    success: bool


class FileTree(BaseModel):
    """The paths of a repository's files, one per line, and its README."""

    file_tree: str
    readme: str


class Done(BaseModel):
    """The result of an operation."""

    message: str


class Refused(BaseModel):
    """An error. Errors of the server's middleware have the shape of all other routes."""

    detail: str


class FilesRefused(BaseModel):
    """An error of the files of a repository."""

    error: str


LANGUAGES = LanguageConfig(
    supported_languages={
        "en": "English",
        "ja": "Japanese (日本語)",
        "zh": "Mandarin Chinese (中文)",
        "zh-tw": "Traditional Chinese (繁體中文)",
        "es": "Spanish (Español)",
        "kr": "Korean (한국어)",
        "vi": "Vietnamese (Tiếng Việt)",
        "pt-br": "Brazilian Portuguese (Português Brasileiro)",
        "fr": "Français (French)",
        "ru": "Русский (Russian)",
    },
    default="en",
)
"""The frontend's language menu."""
