"""Every error we raise on purpose.

    RagError
    ├── ConfigError              the user can mend it                                   (exit code 2)
    │   ├── SourceError          the repository cannot be had or read
    │   │   ├── SourceNotFound   no such folder, or no such repository at the URL
    │   │   ├── SourceUnreachable nobody answers at the URL, or its server failed            (exit code 3)
    │   │   ├── RefNotFound      no such branch, tag or commit
    │   │   └── NothingToIndex   not one file that can be indexed
    │   ├── StoreError           the store on disk
    │   │   ├── StoreCorrupt     truncated, foreign or hostile; `rag index --rebuild` mends it
    │   │   ├── StoreTooNew      written by a newer version of rag
    │   │   ├── StoreUnreadable  no permission, or the disk failed; the store itself may be sound
    │   │   │   └── TooManyOpenFiles the process or the system has as many files open as it may
    │   │   ├── StoreOutdated    written by an older version of rag; it is made anew by itself
    │   │   ├── StoreBusy        another process is building or writing it
    │   │   ├── StoreUnwritable  no permission or no room on the disk
    │   │   └── StoreUnreachable the server that keeps it does not answer, or lets nobody in
    │   ├── DimensionMismatch    vectors and index disagree on their width
    │   ├── BackendMissing       an optional package is not installed
    │   ├── TemplateError        a template is missing, broken, or names an unknown variable
    │   ├── ContextTooSmall      the model's context cannot hold the question and one source
    │   ├── ConversationMismatch a conversation is asked about another repository
    │   ├── ConversationChanged  somebody else added or removed a turn meanwhile
    │   ├── NotFound             no such conversation, turn or store
    │   ├── WikiSteeringInvalid  a repository's `.devin/wiki.json` cannot be used
    │   ├── WikiStructureInvalid a plan of a wiki's pages cannot be used
    │   ├── WikiUnwritable       a wiki cannot be written where it was asked for
    │   └── SettingsError        a setting cannot be read or means nothing
    └── ProviderError            a service failed; `.provider`, `.retryable`            (exit code 3)
        ├── AuthenticationFailed the key is missing or refused, which the user can mend     (exit code 2)
        ├── RateLimited          too many requests, or the quota is spent
        ├── ProviderUnreachable  nothing answers at the address, or it took too long
        ├── ProviderRejected     the service refused the request itself
        └── ProviderBroke        the service failed, or its answer broke off or made no sense

Each message says what happened, the numbers, and what to do. Foreign exceptions are translated where
the foreign library is called, with `raise … from error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag.types import Answer


class RagError(Exception):
    """The root of all errors raised on purpose. `exit_code` is what the command line ends with."""

    exit_code = 2


class ConfigError(RagError):
    """Something the user can mend."""


class SourceError(ConfigError):
    """The repository cannot be had or read."""


class SourceNotFound(SourceError):
    """There is no such folder, or no repository answers at the URL."""


class SourceUnreachable(SourceError):
    """Nobody answers at the URL, or the server there failed: it may be had later."""

    exit_code = 3


class RefNotFound(SourceError):
    """The repository has no such branch, tag or commit."""

    def __init__(self, *, source: str, ref: str) -> None:
        super().__init__(
            f"{source} has no branch, tag or commit {ref!r}; `git ls-remote {source}` lists what there is"
        )
        self.source, self.ref = source, ref


class NothingToIndex(SourceError):
    """Not one file can be indexed."""

    def __init__(self, *, source: str, seen: int, reasons: dict[str, int]) -> None:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1]))
        super().__init__(
            f"nothing to index in {source}: {seen} files seen, none usable"
            + (f" ({why})" if why else "")
            + "; check the path, --include/--exclude, and .gitignore: what git ignores is not seen"
        )
        self.source, self.seen, self.reasons = source, seen, reasons


_REBUILD = "`rag index SOURCE --rebuild` makes it anew"


class StoreError(ConfigError):
    """A store on disk, of embeddings or of turns, cannot be used."""


class StoreCorrupt(StoreError):
    """The file is truncated, foreign or hostile."""

    def __init__(self, *, path: str, why: str, mend: str = _REBUILD) -> None:
        super().__init__(f"the store {path} cannot be read: {why}; {mend}")
        self.path, self.why = path, why


class StoreUnreadable(StoreError):
    """The file cannot be opened or read, which says nothing about what it holds."""

    def __init__(
        self, *, path: str, why: str, mend: str = "check the disk, and who may read the file"
    ) -> None:
        super().__init__(f"the store {path} cannot be opened: {why}; {mend}")
        self.path, self.why = path, why


class TooManyOpenFiles(StoreUnreadable):
    """This process, or the whole system, has as many files open as it may."""

    def __init__(self, *, path: str, why: str) -> None:
        mend = "raise the limit (`ulimit -n`, LimitNOFILE= in a systemd unit), or use fewer repositories"
        super().__init__(path=path, why=why, mend=mend)


class StoreTooNew(StoreError):
    """The file was written by a newer version of rag."""

    def __init__(self, *, path: str, found: int, supported: int, mend: str = f"or {_REBUILD}") -> None:
        super().__init__(
            f"the store {path} has format {found}, this version of rag reads up to {supported}; "
            f"upgrade rag, {mend}"
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
            "wait for it to end, or stop it, and ask again"
        )
        self.path, self.waited_s = path, waited_s


class StoreUnwritable(StoreError):
    """The store cannot be written: no permission, or no room."""

    def __init__(
        self,
        *,
        path: str,
        why: str,
        mend: str = "free some room or point RAG_HOME at a folder that can be written",
    ) -> None:
        super().__init__(f"cannot write {path}: {why}; {mend}")
        self.path, self.why = path, why


class StoreUnreachable(StoreError):
    """The server that keeps the store does not answer, or lets nobody in."""

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(
            f"{path} cannot be reached: {why}; "
            "start the server, or correct the address (--memory, RAG_MEMORY)"
        )
        self.path, self.why = path, why


class DimensionMismatch(ConfigError, ValueError):
    """Vectors and index disagree on their width."""

    def __init__(self, *, expected: int, got: int) -> None:
        super().__init__(
            f"the index holds vectors of {expected} numbers, but was given {got}; "
            "was the embedding model changed? Run `rag index SOURCE --rebuild`"
        )
        self.expected, self.got = expected, got


class BackendMissing(ConfigError, ImportError):
    """An optional package is not installed."""

    def __init__(self, *, backend: str, missing: str, extra: str = "") -> None:
        command = f"from the checkout run `pip install '.[{extra}]'`" if extra else "install it beside rag"
        super().__init__(f"{backend} needs {missing}, which is not installed; {command}")
        self.backend, self.extra, self.missing = backend, extra, missing


class TemplateError(ConfigError):
    """A template is missing, broken, or names a variable that does not exist."""


class ContextTooSmall(ConfigError):
    """The context cannot hold what must be in it."""

    def __init__(self, *, context_tokens: int, needed_tokens: int, what: str) -> None:
        super().__init__(
            f"the context of {context_tokens} tokens cannot hold {what}, which need {needed_tokens}; "
            "raise --context-tokens, lower --answer-tokens, or ask a shorter question"
        )
        self.context_tokens, self.needed_tokens, self.what = context_tokens, needed_tokens, what


class ConversationMismatch(ConfigError):
    """A conversation is asked about a repository it is not about, or another one has its name."""

    def __init__(self, *, conversation: str, about: str, asked: str) -> None:
        super().__init__(
            f"there is a conversation called {conversation!r} already; choose another name"
            if about == asked
            else f"the conversation {conversation!r} is about {about}, not {asked}; leave the repository out "
            "to go on, or choose another name with --conversation NAME"
        )
        self.conversation, self.about, self.asked = conversation, about, asked


class ConversationChanged(ConfigError):
    """The last turn of a conversation is not the one that the caller expects; nothing was removed."""

    def __init__(self, *, conversation: str, expected: str, found: str) -> None:
        super().__init__(
            f"the conversation {conversation!r} has changed: its last turn is {found or 'none'}, not "
            f"{expected or 'none'}; nothing was removed. Look at it with `rag turns show`, and try again"
        )
        self.conversation, self.expected, self.found = conversation, expected, found


class NotFound(ConfigError, LookupError):
    """There is no such conversation, turn or store."""


class WikiSteeringInvalid(ConfigError):
    """A repository's `.devin/wiki.json` cannot be used."""


class WikiStructureInvalid(ConfigError):
    """A plan of a wiki's pages cannot be used."""


class WikiUnwritable(ConfigError):
    """A wiki cannot be written where it was asked for."""


class SettingsError(ConfigError):
    """A setting cannot be read or means nothing."""


class ProviderError(RagError):
    """A service failed. `retryable` says whether the same call may succeed later.

    `quotes` is set where a model failed to answer a question: the answer without a model, the lines nearest
    to the question. It is not stored.
    """

    exit_code = 3
    quotes: Answer | None = None

    def __init__(self, message: str, *, provider: str, retryable: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.provider, self.retryable, self.status = provider, retryable, status


class AuthenticationFailed(ProviderError):
    """The key is missing or refused, which the user can mend."""

    exit_code = ConfigError.exit_code


class RateLimited(ProviderError):
    """Too many requests, or the quota is spent."""


class ProviderUnreachable(ProviderError):
    """Nothing answers at the address, or it took too long."""


class ProviderRejected(ProviderError):
    """The service refused the request itself: an unknown model, a prompt too long."""


class ProviderBroke(ProviderError):
    """The service failed, or its answer broke off or made no sense."""
