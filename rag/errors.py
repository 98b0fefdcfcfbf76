"""All errors that `rag` raises on purpose.

    RagError
    ├── ConfigError              the user can fix it                                    (exit code 2)
    │   ├── SourceError          the repository cannot be obtained or read
    │   │   ├── SourceNotFound   no such folder, or no such repository at the URL
    │   │   ├── SourceUnreachable the server of the URL does not answer or failed            (exit code 3)
    │   │   ├── RefNotFound      no such branch, tag or commit
    │   │   └── NothingToIndex   no file can be indexed
    │   ├── StoreError           the store on disk
    │   │   ├── StoreCorrupt     truncated, foreign or hostile; `rag index --rebuild` fixes it
    │   │   ├── StoreTooNew      written by a newer version of rag
    │   │   ├── StoreUnreadable  no permission, or the disk failed; the store itself may be sound
    │   │   │   └── TooManyOpenFiles the limit of open files is reached
    │   │   ├── StoreOutdated    written by an older version of rag; it is rebuilt automatically
    │   │   ├── StoreBusy        another process is building or writing it
    │   │   ├── StoreUnwritable  no permission, or the disk is full
    │   │   │   └── StoreReadOnly  its file system is read-only, or it is another user's
    │   │   └── StoreUnreachable the server that stores it does not answer, or refuses the login
    │   ├── ShelfError           the shared stores (RAG_STORES)
    │   │   ├── ShelfUnreachable no answer in time, or the service failed                      (exit code 3)
    │   │   ├── ShelfRefused     the login is refused, or there is no such bucket or folder
    │   │   ├── ShelfFull        no space is left there
    │   │   ├── ShelfConflict    another process published a newer generation
    │   │   ├── ShelfOutdated    the index to publish is of an older commit than the published one
    │   │   └── ShelfDamaged     a shared file is missing or has other bytes
    │   ├── DimensionMismatch    vectors and index have different dimensions
    │   ├── BackendMissing       an optional package is not installed
    │   ├── TemplateError        a template is missing, broken, or names an unknown variable
    │   ├── ContextTooSmall      the model's context is too small for the question and one source
    │   ├── ConversationMismatch a conversation belongs to another repository
    │   ├── ConversationChanged  another process added or removed a turn in the meantime
    │   ├── SearchInvalid        the pattern, filter or number of hits of a search is invalid
    │   ├── QuestionEmpty        the question has no words
    │   ├── QuestionTooLong      the question has more characters than are searched
    │   ├── NotFound             no such conversation, turn, store or job
    │   ├── LeaseLost            a job was taken from a worker that did not report for too long
    │   ├── WikiSteeringInvalid  a repository's `.devin/wiki.json` cannot be used
    │   ├── WikiUnwritable       a wiki cannot be written to the given folder
    │   └── SettingsError        a setting cannot be read or has an invalid value
    └── ProviderError            a service failed; `.provider`, `.retryable`            (exit code 3)
        ├── AuthenticationFailed the key is missing or refused, which the user can fix      (exit code 2)
        ├── RateLimited          too many requests, or the quota is spent
        ├── ProviderUnreachable  no answer from the address, or a timeout
        ├── ProviderRejected     the service refused the request itself
        └── ProviderBroke        the service failed, or its answer was incomplete or invalid

Each message says what happened, the numbers, and what to do. Exceptions of other libraries are translated
where the library is called, with `raise … from error`.
"""

from __future__ import annotations

import errno
import shlex
from pathlib import Path
from typing import Any


class RagError(Exception):
    """The base class of all errors. `exit_code` is the exit code of the command line."""

    exit_code = 2


class ConfigError(RagError):
    """An error that the user can fix."""


class SourceError(ConfigError):
    """The repository cannot be obtained or read."""


class SourceNotFound(SourceError):
    """There is no such folder, or no repository answers at the URL."""


class SourceUnreachable(SourceError):
    """The server of the URL does not answer or failed. A later try may succeed."""

    exit_code = 3


class RefNotFound(SourceError):
    """The repository has no such branch, tag or commit. `names`: a clause with names that it has."""

    def __init__(self, *, source: str, ref: str, names: str = "") -> None:
        listing = (
            "`git branch --all` and `git tag` list"
            if source.startswith("/")
            else f"`git ls-remote {source}` lists"
        )
        fix = names or f"{listing} what exists"
        if "~" in ref or "^" in ref:
            fix += f", `git rev-parse {shlex.quote(ref)}` in a clone gives the id of a commit"
        super().__init__(f"{source} has no branch, tag or commit {ref!r}; {fix}")
        self.source, self.ref = source, ref


class NothingToIndex(SourceError):
    """No file can be indexed."""

    def __init__(self, *, source: str, seen: int, reasons: dict[str, int]) -> None:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1]))
        super().__init__(
            f"nothing to index in {source}: {seen} files seen, none usable"
            + (f" ({why})" if why else "")
            + "; check the path, --include/--exclude, and .gitignore: files that git ignores are not indexed"
        )
        self.source, self.seen, self.reasons = source, seen, reasons


_REBUILD = "run `rag index SOURCE --rebuild`"


class StoreError(ConfigError):
    """A store on disk, of embeddings or of turns, cannot be used."""


class StoreCorrupt(StoreError):
    """The file is truncated, foreign or hostile."""

    def __init__(self, *, path: str, why: str, fix: str = _REBUILD) -> None:
        super().__init__(f"the store {path} cannot be read: {why}; {fix}")
        self.path, self.why = path, why


class StoreUnreadable(StoreError):
    """The file cannot be opened or read; its content may be valid."""

    def __init__(
        self, *, path: str, why: str, fix: str = "check the disk and the permissions of the file"
    ) -> None:
        super().__init__(f"the store {path} cannot be opened: {why}; {fix}")
        self.path, self.why = path, why


class TooManyOpenFiles(StoreUnreadable):
    """The limit of open files of this process or of the system is reached."""

    def __init__(self, *, path: str, why: str) -> None:
        fix = "raise the limit (`ulimit -n`, LimitNOFILE= in a systemd unit), or use fewer repositories"
        super().__init__(path=path, why=why, fix=fix)


class StoreTooNew(StoreError):
    """The file was written by a newer version of rag."""

    def __init__(self, *, path: str, found: int, supported: int, fix: str = f"or {_REBUILD}") -> None:
        super().__init__(
            f"the store {path} has format {found}, this version of rag reads up to {supported}; "
            f"upgrade rag, {fix}"
        )
        self.path, self.found, self.supported = path, found, supported


class StoreOutdated(StoreError):
    """The file was written by an older version of rag, in a format that is no longer read."""

    def __init__(self, *, path: str, found: int, supported: int) -> None:
        super().__init__(
            f"the store {path} has format {found}, this version of rag reads {supported}; {_REBUILD}"
        )
        self.path, self.found, self.supported = path, found, supported


class StoreBusy(StoreError):
    """Another process builds or writes the same store."""

    def __init__(self, *, path: str, waited_s: float, doing: str = "building") -> None:
        super().__init__(
            f"another process has been {doing} {path} for more than {waited_s:.0f} s; "
            "wait for it to end, or stop it, and try again"
        )
        self.path, self.waited_s = path, waited_s


class StoreUnwritable(StoreError):
    """The store cannot be written: no permission, or the disk is full."""

    def __init__(
        self,
        *,
        path: str,
        why: str,
        fix: str = "free some disk space, or set RAG_HOME to a writable folder",
    ) -> None:
        super().__init__(f"cannot write {path}: {why}; {fix}")
        self.path, self.why = path, why

    @staticmethod
    def of(path: Path, error: OSError) -> StoreUnwritable:
        """Return the error for a file that the system cannot write."""
        why = error.strerror or str(error)
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return StoreReadOnly(path=str(path), why=why)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            why = "no space left on the disk (or the file is larger than allowed)"
        return StoreUnwritable(path=str(path), why=why)


class StoreReadOnly(StoreUnwritable):
    """The store can be read, and not written: its file system is read-only, or it is another user's."""

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(path=path, why=why, fix="set RAG_HOME to a writable folder")


class StoreUnreachable(StoreError):
    """The server that stores the data does not answer, or refuses the login."""

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(
            f"{path} cannot be reached: {why}; "
            "start the server, or correct the address (--memory, RAG_MEMORY)"
        )
        self.path, self.why = path, why


class ShelfError(ConfigError):
    """The shared stores cannot be used. The message names the place, the attribute is `shelf`."""

    def __init__(self, *, shelf: str, why: str, fix: str) -> None:
        super().__init__(f"the shared indexes at {shelf} cannot be used: {why}; {fix}")
        self.shelf, self.why, self.fix = shelf, why, fix


class ShelfUnreachable(ShelfError):
    """The service does not answer in time, or failed. A later try may succeed."""

    exit_code = 3

    def __init__(
        self, *, shelf: str, why: str, fix: str = "check the address (RAG_STORES) and the service, and retry"
    ) -> None:
        super().__init__(shelf=shelf, why=why, fix=fix)


class ShelfRefused(ShelfError):
    """The service refuses the login or the operation, or there is no such bucket or folder."""

    def __init__(
        self, *, shelf: str, why: str, fix: str = "correct the address (RAG_STORES) or the credentials"
    ) -> None:
        super().__init__(shelf=shelf, why=why, fix=fix)


class ShelfFull(ShelfError):
    """There is no space left at the shared stores; what is published stays as it is."""

    def __init__(self, *, shelf: str, code: str = "") -> None:
        super().__init__(
            shelf=shelf,
            why=f"no space is left there{f' ({code})' if code else ''}, so nothing was published",
            fix="make room (`rag storage shared --collect` removes unused files) or raise the quota, and "
            "publish again",
        )


class ShelfConflict(ShelfError):
    """The current generation is not the expected one; it was not replaced."""

    def __init__(self, *, shelf: str, key: str, expected: str | None, found: str | None) -> None:
        super().__init__(
            shelf=shelf,
            why=f"the current generation of {key} is {found or 'none'}, not {expected or 'none'}: "
            "another process has published",
            fix="nothing was replaced; publish again if yours is newer",
        )
        self.key, self.expected, self.found = key, expected, found


class ShelfOutdated(ShelfError):
    """The published index is of a newer commit; it was not replaced."""

    def __init__(self, *, shelf: str, key: str, published: str, commit: str) -> None:
        super().__init__(
            shelf=shelf,
            why=f"{key} is published for commit {published[:10]}, which is newer than {commit[:10]}",
            fix="nothing was replaced; update the repository, or publish with --force to roll back",
        )
        self.key, self.published, self.commit = key, published, commit


class ShelfDamaged(ShelfError):
    """A shared file is missing, or does not have the bytes that were published."""

    def __init__(self, *, shelf: str, why: str) -> None:
        super().__init__(
            shelf=shelf,
            why=why,
            fix="remove damaged files with `rag storage shared --verify`, then publish the index again with "
            "`rag index SOURCE --publish`",
        )


class DimensionMismatch(ConfigError, ValueError):
    """Vectors and index have different dimensions."""

    def __init__(self, *, expected: int, got: int) -> None:
        super().__init__(
            f"the index has vectors of {expected} dimensions, but got {got}; "
            "was the embedding model changed? Run `rag index SOURCE --rebuild`"
        )
        self.expected, self.got = expected, got


class BackendMissing(ConfigError, ImportError):
    """An optional package is not installed."""

    def __init__(self, *, backend: str, missing: str, extra: str = "") -> None:
        command = f"from the checkout run `pip install '.[{extra}]'`" if extra else "install it with pip"
        super().__init__(f"{backend} needs {missing}, which is not installed; {command}")
        self.backend, self.extra, self.missing = backend, extra, missing


class TemplateError(ConfigError):
    """A template is missing, broken, or names a variable that does not exist."""


class ContextTooSmall(ConfigError):
    """The context is too small for what the prompt must contain."""

    def __init__(self, *, context_tokens: int, needed_tokens: int, what: str) -> None:
        super().__init__(
            f"the context of {context_tokens} tokens is too small for {what}, which need {needed_tokens}; "
            "raise --context-tokens, lower --answer-tokens, or ask a shorter question"
        )
        self.context_tokens, self.needed_tokens, self.what = context_tokens, needed_tokens, what


class ConversationMismatch(ConfigError):
    """A conversation belongs to another repository, or its name is taken."""

    def __init__(self, *, conversation: str, about: str, asked: str) -> None:
        super().__init__(
            f"a conversation called {conversation!r} already exists; choose another name"
            if about == asked
            else f"the conversation {conversation!r} is about {about}, not {asked}; omit the repository "
            "to continue it, or choose another name with --conversation NAME"
        )
        self.conversation, self.about, self.asked = conversation, about, asked


class ConversationChanged(ConfigError):
    """The last turn of a conversation is not the expected one; nothing was removed."""

    def __init__(self, *, conversation: str, expected: str, found: str) -> None:
        super().__init__(
            f"the conversation {conversation!r} has changed: its last turn is {found or 'none'}, not "
            f"{expected or 'none'}; nothing was removed. See `rag turns show`, and try again"
        )
        self.conversation, self.expected, self.found = conversation, expected, found


class NotFound(ConfigError, LookupError):
    """There is no such conversation, turn, store or job."""


class LeaseLost(ConfigError):
    """A job is not run by this worker any more: it was cancelled, or given to another worker."""


class SearchInvalid(ConfigError):
    """The pattern, the filter or the number of hits of a search is invalid."""


class QuestionEmpty(ConfigError):
    """The question has no words."""

    def __init__(self) -> None:
        super().__init__("the question is empty; ask, for instance, where something is done")


class QuestionTooLong(ConfigError):
    """The question has more than `limit` characters."""

    def __init__(self, length: int, limit: int) -> None:
        self.length, self.limit = length, limit
        super().__init__(
            f"the question has {length:,} characters, the limit is {limit:,}; shorten it, or add the text it "
            "is about to the repository"
        )


class WikiSteeringInvalid(ConfigError):
    """A repository's `.devin/wiki.json` cannot be used."""


class WikiUnwritable(ConfigError):
    """A wiki cannot be written to the given folder."""


class SettingsError(ConfigError):
    """A setting cannot be read or has an invalid value."""


class ProviderError(RagError):
    """A service failed. `retryable` says whether the same call may succeed later.

    If a model failed to answer a question, `quotes` is the `Answer` without a model: the lines nearest to the
    question. It is not stored.
    """

    exit_code = 3
    quotes: Any = None

    def __init__(self, message: str, *, provider: str, retryable: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.provider, self.retryable, self.status = provider, retryable, status


class AuthenticationFailed(ProviderError):
    """The key is missing or refused, which the user can fix."""

    exit_code = ConfigError.exit_code


class RateLimited(ProviderError):
    """Too many requests, or the quota is spent."""


class ProviderUnreachable(ProviderError):
    """The address does not answer, or the request timed out."""


class ProviderRejected(ProviderError):
    """The service refused the request: an unknown model, or a prompt that is too long."""


class ProviderBroke(ProviderError):
    """The service failed, or its answer was incomplete or invalid."""
